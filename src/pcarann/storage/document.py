"""A fitted record as one JSON document and named arrays.

What a document describes is one function, on every machine: arrays that predict are stored (coefficients, modes,
anchors, which samples are landmarks), and hidden weights are a function of the seed. What only adaptation needs is
stored small, as the latents of the samples that were learned from; the sums that it works with are made again when it
goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.ensemble.maps import KernelMap
from pcarann.ensemble.members import keeps_weights
from pcarann.features.kernel import KernelFeatures
from pcarann.features.random_layers import RandomFeatures
from pcarann.fitted import Fitted
from pcarann.latent.pca import PCA
from pcarann.latent.resampled import Resampled
from pcarann.options import Options
from pcarann.storage.formats import FACTS, FORMAT_VERSION, Document, Tensors
from pcarann.storage.packing import described_packing
from pcarann.storage.streams import described_followed, described_history, described_local
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.conformal import Calibration, PartsCalibration
from pcarann.uncertainty.extrapolation import Edge
from pcarann.uncertainty.novelty import NoveltyTest

__all__ = ["described", "described_calibration", "plain"]


def described(fitted: Fitted, parameters: Mapping[str, Any]) -> tuple[Document, Tensors]:
    """Return the JSON document and the arrays of a record, with the parameters of its estimator."""
    from pcarann import __version__

    members = fitted.ensemble.members
    tensors: Tensors = {"coefficients": np.stack([to_host(m.coefficients) for m in members])}
    found = {"x": fitted.x, "y": fitted.y, "weights": fitted.weights}
    tensors |= {name: to_host(array) for name, array in found.items() if array is not None}
    pcas = {"input": fitted.ensemble.input_pca, "output": fitted.ensemble.output_pca}
    for side, pca in pcas.items():
        _add(tensors, side, pca, "mean", "modes", "singular_values", "weights")
    document = {
        "format": FORMAT_VERSION,
        "version": __version__,
        "parameters": _parameters(parameters, fitted),
        "pcas": {side: _pca(pca) for side, pca in pcas.items()},
        "map": _map(fitted, tensors),
        "symmetry": _symmetry(parameters["symmetry"], fitted, tensors),
        "smoothing": (fitted.smoothing.width, fitted.smoothing.periodic),
        "energy_scales": fitted.energy_scales,
        "reports": [asdict(m.report) for m in members],
        "names": fitted.names,
        "reach": _novelty_test(fitted.novelty_test, tensors),
        "edge": _edge(fitted.edge, tensors),
        "calibration": described_calibration(fitted.calibration, "calibration", tensors),
        "adaptation": _adaptation(fitted, tensors),
        "history": described_history(fitted.history, "history", tensors),
        "packing": described_packing(fitted.packing, tensors),
        **{name: getattr(fitted, name) for name in FACTS},
    }
    parts = {name: getattr(fitted, name) for name in ("units", "view", "report", "refinement")}
    document |= {name: None if part is None else asdict(part) for name, part in parts.items()}
    return document, tensors


def described_calibration(calibration: Calibration | None, name: str, tensors: Tensors) -> dict[str, Any] | None:
    """Add the scores of a calibration under a name; return the rest of it."""
    if calibration is None:
        return None
    _add(tensors, name, calibration, "scores", "largest", "ranks")
    described_followed(calibration.followed, f"{name}.followed", tensors)
    described_local(calibration.local, f"{name}.local", tensors)
    found: dict[str, Any] = {"floor": calibration.floor, "points": calibration.points}
    if isinstance(calibration, PartsCalibration):
        found |= {"gains": list(calibration.gains), "sizes": list(calibration.sizes)}
        for i, one in enumerate(calibration.apart):
            described_followed(one, f"{name}.apart.{i}.followed", tensors)
    return found


def _add(tensors: Tensors, prefix: str, part: Any, *names: str) -> None:
    """Add the arrays of a part of the record that have these names and are there."""
    found = {name: getattr(part, name) for name in names}
    tensors |= {f"{prefix}.{name}": to_host(array) for name, array in found.items() if array is not None}


def _pca(pca: PCA) -> dict[str, Any]:
    """What is no array of a PCA; the grid of its training, where it stands on another."""
    described = {"grid": pca.grid, "energy": pca.energy}
    return described | {"trained_grid": pca.trained_grid} if isinstance(pca, Resampled) else described


def _parameters(parameters: Mapping[str, Any], fitted: Fitted) -> dict[str, Any]:
    """Return parameters as JSON can hold them; those that are arrays are among the tensors."""
    elsewhere = dict.fromkeys(("device", "symmetry"))
    if np.ndim(parameters["relevance"]):
        elsewhere["relevance"] = None
    fields = parameters["fields"]
    fields = None if fields is None else replace(fields, quadrature=None, mesh=None)
    stored = {**parameters, **elsewhere, "fields": fields, "random_state": fitted.feature_map.random_seed}
    return {name: plain(value) for name, value in stored.items()}


def plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, Options):
        kind = next(kind for kind in type(value).__mro__ if Options in kind.__bases__)  # of a subclass, what it is
        return {"options": kind.__name__} | {name: plain(part) for name, part in vars(value).items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(part) for part in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Real):  # fractions and NumPy's numbers among them
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def _map(fitted: Fitted, tensors: Tensors) -> dict[str, Any]:
    """Add what the members' feature maps are made of. Weights are a function of the seed."""
    found = fitted.feature_map
    _add(tensors, "latent", found.weighting, "relevance", "linear")
    if isinstance(found, KernelMap):
        kernels = [m.features for m in fitted.ensemble.members if isinstance(m.features, KernelFeatures)]
        tensors["landmarks"] = np.asarray([one.rows for one in kernels], dtype=np.int64)
        # The length itself too: the median that it is measured in rounds differently elsewhere.
        lengths = {"length": found.length, "lengths": [one.length for one in kernels]}
        return {"regressor": "kernel", "seed": found.seed, **lengths}
    features = [m.features for m in fitted.ensemble.members if isinstance(m.features, RandomFeatures)]
    for layer in (0, 1):
        tensors[f"anchors{layer + 1}"] = np.stack([to_host(one.anchors[layer]) for one in features])
    return {
        "regressor": "random",
        "seed": found.layers.seed,
        "sizes": found.layers.sizes,
        "scales": found.scales,
        "kept_weights": keeps_weights(found.layers, len(features)),
    }


def _symmetry(symmetry: Symmetry | None, fitted: Fitted, tensors: Tensors) -> dict[str, Any] | None:
    group = fitted.ensemble.group
    if group is None:
        return None
    tensors |= {f"symmetry.{side}": table for side, table in group.tables().items()}
    name = "Symmetry" if symmetry is None else repr(symmetry.using())
    return {"name": name, "copied": fitted.copied, "averaged": fitted.ensemble.averaged}


def _novelty_test(test: NoveltyTest | None, tensors: Tensors) -> dict[str, Any] | None:
    if test is None:
        return None
    _add(tensors, "reach", test.tails, "body", "excess")
    _add(tensors, "reach", test, "depths", "surprises")
    tensors |= {"reach.low": test.ranges[0], "reach.high": test.ranges[1]}
    found = {"floor": test.floor, "farthest": test.farthest, "groups": test.groups}
    if test.holes is None:
        return found
    _add(tensors, "reach.gaps", test.holes.gaps, "low", "high", "scale", "least", "unit")
    _add(tensors, "reach.nearest", test.holes.nearest, "scales", "points", "usual")
    return found | {"holes": {"latents": test.holes.latents, "index": test.holes.nearest.index}}


def _edge(edge: Edge | None, tensors: Tensors) -> dict[str, Any] | None:
    if edge is None:
        return None
    _add(tensors, "edge", edge, "low", "high", "spread")
    if edge.columns is not None:
        tensors |= {f"edge.columns.{end}": to_host(edge.columns[i]) for i, end in enumerate(("low", "high"))}
    found: dict[str, Any] = {name: getattr(edge, name) for name in ("farthest", "residual", "size", "samples")}
    if edge.near is None:
        return found
    tensors["edge.points"] = to_host(edge.near.points)
    return found | {"near": {"index": edge.near.index, "usual": edge.near.usual}}


def _adaptation(fitted: Fitted, tensors: Tensors) -> dict[str, Any] | None:
    """Add what `partial_fit` goes on from after loading: the rows that it has taken in, and where it began."""
    adaptation = fitted.adaptation
    if adaptation is None:
        return None
    x, y, _ = adaptation.rows.joined()
    old = int(fitted.x.shape[0])
    tensors |= {"adaptation.x": to_host(x[old:, :]), "adaptation.y": to_host(y[old:, :])}
    tensors["adaptation.own"] = np.concatenate([to_host(own)[:, 0] for own in adaptation.rows.own])
    if adaptation.begun == "least-squares":
        tensors["adaptation.priors"] = np.stack([to_host(prior) for prior in adaptation.priors])
    facts = {name: getattr(adaptation, name) for name in ("ridge", "trained", "begun")}
    choice = adaptation.choice and [list(adaptation.choice.losses), adaptation.choice.chosen]
    return facts | {"faded": adaptation.rows.faded, "choice": choice}
