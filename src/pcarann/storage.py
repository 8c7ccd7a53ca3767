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
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.arrays import Array, Place, place_of, to_host
from pcarann.conformal import Calibration
from pcarann.ensemble import Ensemble, Features, KernelMap, Member, RandomMap
from pcarann.features import HiddenLayers, Latent, RandomFeatures
from pcarann.files import atomic_writer
from pcarann.group import Group
from pcarann.marching import Marching
from pcarann.novelty import Reach
from pcarann.online import Adaptation, Dual, Primal, RecursiveLeastSquares
from pcarann.operator import PCARaNN
from pcarann.pca import PCA
from pcarann.readout import ReadoutReport
from pcarann.refine import Refinement
from pcarann.smoothing import Smoothing
from pcarann.symmetry import Symmetry
from pcarann.training import Fitted

__all__ = ["FORMAT_VERSION", "ModelFileError", "atomic_writer", "load", "save"]

FORMAT_VERSION = 3
_KEY = "pcarann"
_BLANK = "0" * 64
_LARGEST_HEADER = 1 << 24  # a real header is a few kilobytes
_CHUNK = 1 << 22

Tensors = dict[str, np.ndarray[Any, Any]]


class ModelFileError(ValueError):
    """The file is not a sound model file."""


def save(model: PCARaNN | Marching, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, replacing what was there in one step."""
    from safetensors.numpy import save as serialise

    step = model.model_ if isinstance(model, Marching) else model
    description, tensors = _describe(step, step._fitted)
    description["marching"] = _describe_marching(model, tensors) if isinstance(model, Marching) else None
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


def load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Read a model written by `PCARaNN.save` or `Marching.save`, onto the CPU or the `device` asked for.

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
        model = _rebuild(_upgraded(description, tensors), tensors, place)
        model.device = device
        return _rebuild_marching(description.get("marching"), model, tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ModelFileError(f"{os.fspath(path)} does not describe a model: {error}.") from error


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


def _upgraded(description: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return a document of format 1, which knew random layers alone, as one of format 2 or 3."""
    if description["format"] != 1:
        return description
    layers = description["layers"]
    return description | {
        "map": {"regressor": "random", "scales": description["scales"], **layers}
        | {"kept_weights": description["kept_weights"]},
        "symmetry": None,
        "samples": tensors["x"].shape[0],
        "ridge": description["parameters"]["ridge"],
        "smoothing": (0.0, ()),
    }


def _describe(model: PCARaNN, fitted: Fitted) -> tuple[dict[str, Any], Tensors]:
    """Return the JSON document and the arrays of a model."""
    from pcarann import __version__

    ensemble, members = fitted.ensemble, fitted.ensemble.members
    parameters = model.get_params()
    parameters.update(random_state=_seed(fitted.feature_map), quadrature=None, device=None, symmetry=None)
    if np.ndim(model.relevance):
        parameters["relevance"] = None  # the array itself is among the tensors
    tensors: Tensors = {"x": to_host(fitted.x), "y": to_host(fitted.y)}
    tensors["readouts"] = np.stack([to_host(m.readout) for m in members])
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
        "map": _describe_map(fitted, tensors),
        "symmetry": _describe_symmetry(model.symmetry, fitted, tensors),
        "samples": fitted.samples,
        "channels": fitted.channels,
        "ridge": fitted.ridge,
        "smoothing": (fitted.smoothing.width, fitted.smoothing.periodic),
        "energy_scales": fitted.energy_scales,
        "reports": [asdict(m.report) for m in members],
        "refinement": None if fitted.refinement is None else asdict(fitted.refinement),
        "seconds": fitted.seconds,
        "reach": (fitted.reach.residual, fitted.reach.distance),
        "n_adapted": fitted.n_adapted,
        "stale": fitted.stale,
        "calibration": None if fitted.calibration is None else {"floor": fitted.calibration.floor},
        "adaptation": None if fitted.adaptation is None else _describe_adaptation(fitted.adaptation, tensors),
    }
    if fitted.calibration is not None:
        tensors["calibration.pooled"] = to_host(fitted.calibration.pooled)
        tensors["calibration.largest"] = to_host(fitted.calibration.largest)
    return description, tensors


def _seed(feature_map: RandomMap | KernelMap) -> int:
    return feature_map.layers.seed if isinstance(feature_map, RandomMap) else feature_map.seed


def _describe_map(fitted: Fitted, tensors: Tensors) -> dict[str, Any]:
    """Add what the members' feature maps are made of. Weights and landmarks are functions of the seed."""
    found = fitted.feature_map
    for name in ("relevance", "linear"):
        if getattr(found.latent, name) is not None:
            tensors[f"latent.{name}"] = to_host(getattr(found.latent, name))
    if isinstance(found, KernelMap):
        return {"regressor": "kernel", "seed": found.seed, "length": found.length}
    features = [m.features for m in fitted.ensemble.members if isinstance(m.features, RandomFeatures)]
    for layer in (0, 1):
        tensors[f"anchors{layer + 1}"] = np.stack([to_host(one.anchors[layer]) for one in features])
    return {
        "regressor": "random",
        "seed": found.layers.seed,
        "sizes": found.layers.sizes,
        "scales": found.scales,
        "kept_weights": features[0].weights is not None,
    }


def _describe_symmetry(symmetry: Symmetry | None, fitted: Fitted, tensors: Tensors) -> dict[str, Any] | None:
    group = fitted.ensemble.group
    if group is None:
        return None
    for side, table in group.tables().items():
        tensors[f"symmetry.{side}"] = table
    name = "Symmetry" if symmetry is None else repr(symmetry.using())
    return {"name": name, "copied": fitted.copied, "averaged": fitted.ensemble.averaged}


def _describe_marching(model: Marching, tensors: Tensors) -> dict[str, Any]:
    """Add what a marched step needs beside the step itself."""
    scores = model._calibration
    if scores is not None:
        tensors["marching.pooled"], tensors["marching.largest"] = to_host(scores.pooled), to_host(scores.largest)
    floor = None if scores is None else scores.floor
    return {"step": int(model.step), "first": int(model.first), "window": model._window, "floor": floor}


def _rebuild_marching(described: dict[str, Any] | None, model: PCARaNN, tensors: Tensors) -> PCARaNN | Marching:
    """Return the model, or the flow of which it is one step."""
    if described is None:
        return model
    made = Marching(clone(model), int(described["step"]), int(described["first"]))
    made.model_, made._window, made._calibration = model, int(described["window"]), None
    if made._window < 1 or made.step < 1 or model.input_pca_.grid != model.output_pca_.grid:
        raise ValueError("its step cannot be marched")
    if described["floor"] is not None:
        pooled, largest = (tensors[f"marching.{name}"] for name in ("pooled", "largest"))
        floor, scores = float(described["floor"]), made._window * int(model.output_pca_.mean.shape[0])
        if not (largest.ndim == 1 and largest.size and pooled.shape == (largest.size * scores,) and 0 < floor < np.inf):
            raise ValueError("its calibration does not fit its window")
        place = model.ensemble_.place
        made._calibration = Calibration(place.put(pooled), place.put(largest), floor)
    return made


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

    input_pca = _rebuild_pca(description["pcas"]["input"], "input", tensor)
    output_pca = _rebuild_pca(description["pcas"]["output"], "output", tensor)
    size, rows, samples = input_pca.n_components, int(tensors["x"].shape[0]), int(description["samples"])
    x = tensor("x", rows, size)
    if not 0 < samples <= rows or not description["reports"]:
        raise ValueError("its parts do not fit together")
    feature_map = _rebuild_map(description["map"], size, tensors, tensor)
    group, copied, averaged = _rebuild_symmetry(description["symmetry"], tensors, (input_pca, output_pca))
    # Rows after those of the fit came with refit_readout: landmarks are not among them.
    features = _rebuild_features(description, feature_map, x[: min(samples * len(copied), rows), :], tensor)
    readouts = tensor("readouts", len(features), features[0].count, output_pca.n_components)
    members = [
        Member(made, readouts[k, :, :], ReadoutReport(**report))
        for k, (made, report) in enumerate(zip(features, description["reports"], strict=True))
    ]
    energy_scales = description["energy_scales"]
    calibration = description["calibration"]
    refinement = description["refinement"]
    ensemble = Ensemble(input_pca, output_pca, tuple(members), group, averaged)
    fitted = Fitted(
        ensemble=ensemble,
        x=x,
        y=tensor("y", rows, output_pca.n_components),
        samples=samples,
        feature_map=feature_map,
        ridge=float(description["ridge"]),
        energy_scales=None if energy_scales is None else (float(energy_scales[0]), float(energy_scales[1])),
        smoothing=_rebuild_smoothing(description["smoothing"], input_pca.grid),
        copied=copied,
        channels=bool(description.get("channels", False)),
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
    if group is not None:
        fit, predict = (None if len(some) == group.order else len(some) for some in (copied, averaged))
        symmetry = Symmetry.of_group(group, str(description["symmetry"]["name"]))
        model.symmetry = symmetry.using(fit=fit, predict=predict)
    if model.relevance is None:
        found = feature_map.latent.relevance
        model.relevance = 0.0 if found is None else to_host(found)
    model._fitted = fitted
    return model


def _rebuild_smoothing(described: Any, grid: tuple[int, ...]) -> Smoothing:
    width, periodic = float(described[0]), tuple(bool(around) for around in described[1])
    if not 0 <= width <= 1 or (width and len(periodic) != len(grid[-2:])):
        raise ValueError("its smoothing does not fit its grid")
    return Smoothing(width, periodic)


def _rebuild_map(described: dict[str, Any], size: int, tensors: Tensors, tensor: Any) -> RandomMap | KernelMap:
    relevance, linear = (tensor(n) if n in tensors else None for n in ("latent.relevance", "latent.linear"))
    vector, matrix = (size,), (size, size)
    if (relevance is not None and relevance.shape not in (vector, matrix)) or (
        linear is not None and linear.shape != vector
    ):
        raise ValueError("its relevance does not fit its PCA")
    latent = Latent(relevance, linear)
    if described["regressor"] == "kernel":
        return KernelMap(int(described["seed"]), float(described["length"]), latent)
    sizes = tuple(int(n) for n in described["sizes"])
    if len(sizes) != 3 or sizes[0] != size:
        raise ValueError("its layers do not fit its PCA")
    first, second = (float(r) for r in described["scales"])
    return RandomMap(HiddenLayers(int(described["seed"]), 0, (size, sizes[1], sizes[2])), (first, second), latent)


def _rebuild_features(
    description: dict[str, Any], feature_map: RandomMap | KernelMap, x: Array, tensor: Any
) -> list[Features]:
    count = len(description["reports"])
    if isinstance(feature_map, KernelMap):
        return [feature_map.made(k, x) for k in range(count)]
    _, n1, n2 = feature_map.layers.sizes
    anchors = (tensor("anchors1", count, n1), tensor("anchors2", count, n2))
    made: list[Features] = []
    for k in range(count):
        layers = replace(feature_map.layers, member=k)
        one = RandomFeatures(layers, feature_map.scales, (anchors[0][k, :], anchors[1][k, :]), None, feature_map.latent)
        made.append(replace(one, weights=one.hidden_weights()) if description["map"]["kept_weights"] else one)
    return made


def _rebuild_symmetry(
    described: dict[str, Any] | None, tensors: Tensors, pcas: tuple[PCA, PCA]
) -> tuple[Group | None, tuple[int, ...], tuple[int, ...]]:
    """Return the group with the elements that were copied in the fit and those averaged at prediction."""
    if described is None:
        return None, (0,), (0,)
    group = Group.from_tables({side: tensors[f"symmetry.{side}"] for side in ("input", "output")})
    found = group.tables()
    if any(found[side].shape[1] != pca.mean.shape[0] for side, pca in zip(("input", "output"), pcas, strict=True)):
        raise ValueError("its symmetry does not fit its grids")
    copied, averaged = (tuple(int(g) for g in described[name]) for name in ("copied", "averaged"))
    for elements in (copied, averaged):
        if not elements or elements[0] != 0 or not all(0 <= g < group.order for g in elements):
            raise ValueError("its symmetry names elements that the group has not")
    return group, copied, averaged


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
        k = member.features.member
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
