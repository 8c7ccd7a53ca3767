"""One file per model: save and load.

A model file is a safetensors file. Its metadata hold one JSON document (format version, parameters, grids, scales,
reports) and a SHA-256 digest of every byte of the file, the digest itself read as zeros. Hidden weights are a
function of the seed and are not stored. Nothing in the file is ever executed.
Writing replaces the old file in one step (`pcarann.files`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from typing import Any

import numpy as np

from pcarann.arrays import Array, Place, place_of, to_host
from pcarann.conformal import Calibration
from pcarann.ensemble import Ensemble, Member
from pcarann.features import HiddenLayers, RandomFeatures
from pcarann.files import atomic_writer
from pcarann.novelty import Reach
from pcarann.online import Adaptation, Dual, Primal, RecursiveLeastSquares
from pcarann.operator import PCARaNN
from pcarann.pca import PCA
from pcarann.readout import ReadoutReport
from pcarann.refine import Refinement
from pcarann.training import Fitted

__all__ = ["FORMAT_VERSION", "ModelFileError", "atomic_writer", "load", "save"]

FORMAT_VERSION = 1
_KEY = "pcarann"
_BLANK = "0" * 64
_LARGEST_HEADER = 1 << 24  # a real header is a few kilobytes
_CHUNK = 1 << 22

Tensors = dict[str, np.ndarray[Any, Any]]


class ModelFileError(ValueError):
    """The file is not a sound model file."""


def save(model: PCARaNN, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, replacing what was there in one step."""
    from safetensors.numpy import save as serialise

    description, tensors = _describe(model, model._fitted)
    # safetensors writes the memory of an array as it lies: other orders than C would be scrambled.
    ordered = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    blank = serialise(ordered, {_KEY: json.dumps(description), "sha256": _BLANK})
    del ordered
    digest = hashlib.sha256(blank).hexdigest()
    where = blank.index(_BLANK.encode())
    with atomic_writer(path) as file:
        file.write(memoryview(blank)[:where])
        file.write(digest.encode())
        file.write(memoryview(blank)[where + 64 :])


def load(path: str | os.PathLike[str], device: str | None = None) -> PCARaNN:
    """Read a model written by `PCARaNN.save`, onto the CPU or the `device` asked for.

    Raises ModelFileError for anything that is not a sound model file.
    """
    place = place_of(None, device)
    if not os.path.isfile(path):
        if os.path.exists(path):
            raise ModelFileError(f"{os.fspath(path)} is not a file.")
        raise FileNotFoundError(f"There is no model file {os.fspath(path)}.")
    _verify(path)
    description, tensors = _read(path)
    try:
        model = _rebuild(description, tensors, place)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{os.fspath(path)} does not describe a model: {error}.") from error
    model.device = device
    return model


def _verify(path: str | os.PathLike[str]) -> None:
    """Compare the digest in the header with that of the file, without trusting either."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 16 or not 2 <= length <= min(size - 8, _LARGEST_HEADER):
            raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file, or it is cut short.")
        header = file.read(length)
        where = header.find(b'"sha256":"')
        stored = header[where + 10 : where + 74]
        if where < 0 or len(stored) < 64:
            raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file.")
        digest = hashlib.sha256(length.to_bytes(8, "little"))
        digest.update(header[: where + 10] + _BLANK.encode() + header[where + 74 :])
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest().encode() != stored:
        raise ModelFileError(f"{os.fspath(path)} is damaged: its checksum does not match its content.")


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            description = json.loads((file.metadata() or {})[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, RecursionError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file: {error}.") from error
    version = description.get("format") if isinstance(description, dict) else None
    if not isinstance(version, int):
        raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} has format {version}, but this pcarann reads up to {FORMAT_VERSION}: upgrade pcarann."
        )
    return description, tensors


def _describe(model: PCARaNN, fitted: Fitted) -> tuple[dict[str, Any], Tensors]:
    """Return the JSON document and the arrays of a model."""
    from pcarann import __version__

    ensemble, members = fitted.ensemble, fitted.ensemble.members
    parameters = model.get_params()
    parameters.update(random_state=members[0].features.layers.seed, quadrature=None, device=None)
    tensors: Tensors = {"x": to_host(fitted.x), "y": to_host(fitted.y)}
    tensors["readouts"] = np.stack([to_host(m.readout) for m in members])
    for layer in (0, 1):
        tensors[f"anchors{layer + 1}"] = np.stack([to_host(m.features.anchors[layer]) for m in members])
    pcas = {}
    for side, pca in (("input", ensemble.input_pca), ("output", ensemble.output_pca)):
        pcas[side] = {"grid": pca.grid, "energy": pca.energy}
        for name in ("mean", "modes", "singular_values", "weights"):
            if getattr(pca, name) is not None:
                tensors[f"{side}.{name}"] = to_host(getattr(pca, name))
    description = {
        "format": FORMAT_VERSION,
        "version": __version__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "pcas": pcas,
        "layers": {"seed": members[0].features.layers.seed, "sizes": members[0].features.layers.sizes},
        "scales": ensemble.scales,
        "energy_scales": fitted.energy_scales,
        "reports": [asdict(m.report) for m in members],
        "refinement": None if fitted.refinement is None else asdict(fitted.refinement),
        "seconds": fitted.seconds,
        "reach": (fitted.reach.residual, fitted.reach.distance),
        "kept_weights": members[0].features.weights is not None,
        "n_adapted": fitted.n_adapted,
        "stale": fitted.stale,
        "calibration": None if fitted.calibration is None else {"floor": fitted.calibration.floor},
        "adaptation": None if fitted.adaptation is None else _describe_adaptation(fitted.adaptation, tensors),
    }
    if fitted.calibration is not None:
        tensors["calibration.pooled"] = to_host(fitted.calibration.pooled)
        tensors["calibration.largest"] = to_host(fitted.calibration.largest)
    return description, tensors


def _describe_adaptation(adaptation: Adaptation, tensors: Tensors) -> dict[str, Any]:
    """Add the arrays of a running adaptation, which `partial_fit` goes on from after loading."""
    first = adaptation.learners[0]
    tensors["adaptation.x"] = to_host(adaptation.x)
    tensors["adaptation.weights"] = to_host(adaptation.weights)
    for k, learner in enumerate(adaptation.learners):
        if learner.prior is not None:
            tensors[f"adaptation.{k}.prior"] = to_host(learner.prior)
        # The features of the dual's rows can be made again from their latents, and are forty times larger.
        names = ("residuals",) if isinstance(learner.state, Dual) else ("information", "moment")
        for name in names:
            tensors[f"adaptation.{k}.{name}"] = to_host(getattr(learner.state, name))
    return {"ridge": first.ridge, "prior": first.prior is not None, "dual": isinstance(first.state, Dual)}


def _rebuild(description: dict[str, Any], tensors: Tensors, place: Place) -> PCARaNN:
    """Return the model that the JSON document and the arrays describe."""

    def tensor(name: str, *shape: int) -> Array:
        found = tensors[name]
        if shape and found.shape != shape:
            raise ValueError(f"{name} has shape {found.shape} instead of {shape}")
        if found.dtype != np.float64:
            raise ValueError(f"{name} has dtype {found.dtype}")
        return place.put(found)

    size, n1, n2 = (int(n) for n in description["layers"]["sizes"])
    count = len(description["reports"])
    input_pca = _rebuild_pca(description["pcas"]["input"], "input", tensor)
    output_pca = _rebuild_pca(description["pcas"]["output"], "output", tensor)
    if input_pca.n_components != size or count < 1:
        raise ValueError("its parts do not fit together")
    readouts = tensor("readouts", count, n1 + n2, output_pca.n_components)
    anchors = (tensor("anchors1", count, n1), tensor("anchors2", count, n2))
    first, second = (float(r) for r in description["scales"])
    members = []
    for k, report in enumerate(description["reports"]):
        layers = HiddenLayers(int(description["layers"]["seed"]), k, (size, n1, n2))
        features = RandomFeatures(layers, (first, second), (anchors[0][k, :], anchors[1][k, :]))
        if description["kept_weights"]:
            features = RandomFeatures(layers, features.scales, features.anchors, features.hidden_weights())
        members.append(Member(features, readouts[k, :, :], ReadoutReport(**report)))
    samples = tensors["x"].shape[0]
    energy1, energy2 = description["energy_scales"]
    calibration = description["calibration"]
    refinement = description["refinement"]
    ensemble = Ensemble(input_pca, output_pca, tuple(members))
    fitted = Fitted(
        ensemble=ensemble,
        x=tensor("x", samples, size),
        y=tensor("y", samples, output_pca.n_components),
        energy_scales=(float(energy1), float(energy2)),
        refinement=None if refinement is None else Refinement(**_tupled(refinement)),
        seconds=dict(description["seconds"]),
        reach=Reach(float(description["reach"][0]), float(description["reach"][1])),
        adaptation=_rebuild_adaptation(description["adaptation"], ensemble, tensor),
        n_adapted=int(description["n_adapted"]),
        stale=bool(description["stale"]),
        calibration=None
        if calibration is None
        else Calibration(tensor("calibration.pooled"), tensor("calibration.largest"), float(calibration["floor"])),
    )
    model = PCARaNN(**_tupled(description["parameters"]))
    if input_pca.weights is not None or output_pca.weights is not None:
        pairs = ((input_pca.weights, input_pca.grid), (output_pca.weights, output_pca.grid))
        model.quadrature = tuple(None if w is None else to_host(w).reshape(grid) for w, grid in pairs)
    model._fitted = fitted
    return model


def _rebuild_pca(described: dict[str, Any], side: str, tensor: Any) -> PCA:
    grid = tuple(int(n) for n in described["grid"])
    values = int(np.prod(grid, dtype=object))
    modes = tensor(f"{side}.modes")
    try:
        weights = tensor(f"{side}.weights", values)
    except KeyError:
        weights = None
    singular_values = tensor(f"{side}.singular_values", int(modes.shape[0]))
    if tuple(modes.shape[1:]) != (values,):
        raise ValueError(f"{side}.modes do not fit the grid {grid}")
    return PCA(tensor(f"{side}.mean", values), modes, singular_values, float(described["energy"]), grid, weights)


def _rebuild_adaptation(described: dict[str, Any] | None, ensemble: Ensemble, tensor: Any) -> Adaptation | None:
    if described is None:
        return None
    ridge = float(described["ridge"])
    x, weights = tensor("adaptation.x"), tensor("adaptation.weights")

    def rebuild(member: Member) -> RecursiveLeastSquares:
        k = member.features.layers.member
        prior = tensor(f"adaptation.{k}.prior", *member.readout.shape) if described["prior"] else None
        if described["dual"]:
            rows = member.features(x) * weights[:, None]
            return RecursiveLeastSquares(ridge, prior, Dual.of(rows, tensor(f"adaptation.{k}.residuals"), ridge))
        parts = (tensor(f"adaptation.{k}.information"), tensor(f"adaptation.{k}.moment"))
        return RecursiveLeastSquares(ridge, prior, Primal(*parts))

    return Adaptation(tuple(ensemble.over_members(rebuild, x.shape[0])), x, weights)


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _tupled(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON document with its lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
