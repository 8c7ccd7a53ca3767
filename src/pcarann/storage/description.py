"""A model as one JSON document and named arrays, and the way back.

What a document describes is one function, on every machine: arrays that predict are stored (coefficients, modes,
anchors, which samples are landmarks), and hidden weights are a function of the seed. What only adaptation needs is
stored small, as the latents of the samples that were learned from; the sums that it works with are made again when it
goes on.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import Array, Place, taken, to_host
from pcarann.ensemble.members import Ensemble, Features, KernelMap, Member, RandomMap
from pcarann.features.kernel import KernelFeatures, median_distance
from pcarann.features.random_layers import HiddenLayers, RandomFeatures
from pcarann.features.refine import Refinement
from pcarann.fitted import Fitted, View
from pcarann.latent.pca import PCA
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.latent.weighting import Weighting
from pcarann.marching import Marched, Marching
from pcarann.operator import PCARaNN
from pcarann.readout.direct import ReadoutReport
from pcarann.readout.recursive import Adaptation, Rows
from pcarann.symmetry.generators import Symmetry
from pcarann.symmetry.group import Group
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.extrapolation import Edge
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.novelty import NoveltyTest, Tails

__all__ = ["FORMAT_VERSION", "Tensors", "describe", "rebuild"]

FORMAT_VERSION = 4
Tensors = dict[str, np.ndarray[Any, Any]]


def describe(model: PCARaNN | Marching) -> tuple[dict[str, Any], Tensors]:
    """Return the JSON document and the arrays of a model, all of one state of it."""
    if not isinstance(model, Marching):
        return _describe(model, model._require_fitted())
    marched = model._require_marched()
    description, tensors = _describe(marched.model, marched.fitted)
    calibration = _describe_calibration(marched.calibration, "marching", tensors)
    facts = {"step": marched.step, "first": int(model.first), "window": marched.window}
    return description | {"marching": {**facts, "calibration": calibration, "calibrated": marched.calibrated}}, tensors


def rebuild(description: dict[str, Any], tensors: Tensors, place: Place, device: str | None) -> PCARaNN | Marching:
    """Return the model that a JSON document and arrays describe."""
    model = _rebuild(_upgraded(description, tensors), tensors, place)
    model.device = device
    described = description.get("marching")
    return model if described is None else _rebuild_marching(described, model, tensors)


def _upgraded(description: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return a document of an older format as one of this format, as far as it can be."""
    version = description["format"]
    if version < 1:
        raise ValueError(f"format {version} does not exist")
    if version == 1:  # knew random layers alone
        description = description | {
            "map": {"regressor": "random", "scales": description["scales"], **description["layers"]}
            | {"kept_weights": description["kept_weights"]},
            "symmetry": None,
            "samples": tensors["x"].shape[0],
            "ridge": description["parameters"]["ridge"],
            "smoothing": (0.0, ()),
        }
    if version >= 4:
        return description
    warnings.warn(
        f"This model is of format {version}, which did not keep what tells inputs outside the training data: "
        "predictions there will not be reported. Fit again to have that.",
        stacklevel=4,
    )
    calibration = description["calibration"]
    if calibration is not None:
        pooled, largest = tensors.pop("calibration.pooled"), tensors["calibration.largest"]
        tensors["calibration.scores"] = pooled
        tensors["calibration.ranks"] = np.arange(1, pooled.size + 1)
        calibration = {**calibration, "points": pooled.size // max(largest.size, 1)}
    reports = [{**one, "rank": one["rank"] if one["solver"] == "svd" else None} for one in description["reports"]]
    state = int(description["n_adapted"] > 0)
    return description | {
        "calibration": calibration,
        "calibrated": state - bool(description["stale"]),
        "state": state,
        "reports": reports,
        "adaptation": None,  # of sums that were made in another way: partial_fit begins anew from the readout
        "pca_samples": description["samples"],
    }


def _describe(model: PCARaNN, fitted: Fitted) -> tuple[dict[str, Any], Tensors]:
    """Return the JSON document and the arrays of a model."""
    from pcarann import __version__

    ensemble, members = fitted.ensemble, fitted.ensemble.members
    parameters = model.get_params()
    parameters.update(random_state=fitted.feature_map.random_seed, quadrature=None, device=None, symmetry=None)
    if np.ndim(model.relevance):
        parameters["relevance"] = None  # the array itself is among the tensors
    tensors: Tensors = {"x": to_host(fitted.x), "y": to_host(fitted.y)}
    tensors["coefficients"] = np.stack([to_host(m.coefficients) for m in members])
    if fitted.weights is not None:
        tensors["weights"] = to_host(fitted.weights)
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
        "pca_samples": fitted.pca_samples,
        "channels": fitted.channels,
        "units": asdict(fitted.units),
        "own_units": fitted.own_units,
        "ridge": fitted.ridge,
        "smoothing": (fitted.smoothing.width, fitted.smoothing.periodic),
        "energy_scales": fitted.energy_scales,
        "reports": [asdict(m.report) for m in members],
        "report": None if fitted.report is None else asdict(fitted.report),
        "refinement": None if fitted.refinement is None else asdict(fitted.refinement),
        "seconds": fitted.seconds,
        "view": asdict(fitted.view),
        "names": fitted.names,
        "reach": _describe_reach(fitted.novelty_test, tensors),
        "edge": _describe_edge(fitted.edge, tensors),
        "n_adapted": fitted.n_adapted,
        "state": fitted.state,
        "calibrated": fitted.calibrated,
        "calibration": _describe_calibration(fitted.calibration, "calibration", tensors),
        "adaptation": _describe_adaptation(fitted, tensors),
    }
    return description, tensors


def _describe_reach(novelty_test: NoveltyTest | None, tensors: Tensors) -> dict[str, Any] | None:
    if novelty_test is None:
        return None
    tensors |= {"reach.body": novelty_test.tails.body, "reach.excess": novelty_test.tails.excess}
    tensors |= {"reach.depths": novelty_test.depths, "reach.surprises": novelty_test.surprises}
    tensors |= {"reach.low": novelty_test.ranges[0], "reach.high": novelty_test.ranges[1]}
    return {"floor": novelty_test.floor, "farthest": novelty_test.farthest, "groups": novelty_test.groups}


def _describe_edge(edge: Edge | None, tensors: Tensors) -> dict[str, Any] | None:
    if edge is None:
        return None
    tensors |= {f"edge.{name}": to_host(getattr(edge, name)) for name in ("low", "high", "spread")}
    if edge.columns is not None:
        tensors |= {f"edge.columns.{end}": to_host(edge.columns[i]) for i, end in enumerate(("low", "high"))}
    return {name: getattr(edge, name) for name in ("farthest", "residual", "size", "samples")}


def _describe_calibration(calibration: Calibration | None, name: str, tensors: Tensors) -> dict[str, Any] | None:
    if calibration is None:
        return None
    tensors |= {f"{name}.scores": to_host(calibration.scores), f"{name}.largest": to_host(calibration.largest)}
    tensors[f"{name}.ranks"] = calibration.ranks
    return {"floor": calibration.floor, "points": calibration.points}


def _describe_map(fitted: Fitted, tensors: Tensors) -> dict[str, Any]:
    """Add what the members' feature maps are made of. Weights are a function of the seed."""
    found = fitted.feature_map
    for name in ("relevance", "linear"):
        if getattr(found.weighting, name) is not None:
            tensors[f"latent.{name}"] = to_host(getattr(found.weighting, name))
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


def _describe_adaptation(fitted: Fitted, tensors: Tensors) -> dict[str, Any] | None:
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
    return {
        "ridge": adaptation.ridge,
        "faded": adaptation.rows.faded,
        "trained": adaptation.trained,
        "begun": adaptation.begun,
    }


def _rebuild_marching(described: dict[str, Any], model: PCARaNN, tensors: Tensors) -> Marching:
    """Return the flow of which the model is one step."""
    made = Marching(clone(model), int(described["step"]), int(described["first"]))
    window = int(described["window"])
    if window < 1 or made.step < 1 or model.input_pca_.grid != model.output_pca_.grid:
        raise ValueError("its step cannot be marched")
    calibration = described.get("calibration")
    if described.get("floor") is not None:  # formats before 4
        pooled = tensors.pop("marching.pooled")
        tensors["marching.scores"], tensors["marching.ranks"] = pooled, np.arange(1, pooled.size + 1)
        points = pooled.size // max(tensors["marching.largest"].size, 1)
        calibration = {"floor": described["floor"], "points": points}
    state = model._fitted.state
    points = window * int(model.output_pca_.mean.shape[0])
    found = _rebuild_calibration(calibration, "marching", tensors, model.ensemble_.place, points)
    made._marched = Marched(model, made.step, window, found, int(described.get("calibrated", state)))
    return made


def _rebuild_calibration(
    described: dict[str, Any] | None, name: str, tensors: Tensors, place: Place, points: int
) -> Calibration | None:
    if described is None:
        return None
    ranks, scores, largest = (tensors[f"{name}.{part}"] for part in ("ranks", "scores", "largest"))
    floor = float(described["floor"])
    sound = largest.ndim == 1 and largest.size and ranks.ndim == 1 and ranks.shape == scores.shape and ranks.size
    sound = sound and ranks.dtype.kind == "i" and (np.diff(ranks) > 0).all()
    if not sound or int(described["points"]) != points or ranks[-1] != largest.size * points or not 0 < floor < np.inf:
        raise ValueError("its calibration does not fit its outputs")
    return Calibration(ranks.astype(np.int64), place.put(scores), points, place.put(largest), floor)


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
    fitted_x = x[: min(samples * len(copied), rows), :]
    features = _rebuild_features(description, feature_map, fitted_x, tensors, tensor)
    old = "coefficients" not in tensors  # before format 4: readouts, a kernel's for a factor that is made anew
    terms = features[0].count if old else features[0].terms
    stored = tensor("readouts" if old else "coefficients", len(features), terms, output_pca.n_components)
    members = [
        (Member.of if old else Member)(made, stored[k, :, :], ReadoutReport(**report))
        for k, (made, report) in enumerate(zip(features, description["reports"], strict=True))
    ]
    energy_scales = description["energy_scales"]
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
        view=_rebuild_view(description.get("view"), input_pca),
        novelty_test=_rebuild_reach(description.get("reach"), tensors, input_pca) if "view" in description else None,
        edge=_rebuild_edge(description.get("edge"), tensors, tensor, input_pca),
        report=None if description.get("report") is None else FitReport(**description["report"]),
        pca_samples=int(description["pca_samples"]),
        names=tuple(str(name) for name in description.get("names", ())),
        units=_rebuild_units(description.get("units")),
        own_units=bool(description.get("own_units", False)),
        weights=tensor("weights", rows) if "weights" in tensors else None,
        n_adapted=int(description["n_adapted"]),
        state=int(description["state"]),
        calibrated=int(description["calibrated"]),
        calibration=_rebuild_calibration(
            description["calibration"], "calibration", tensors, place, int(output_pca.mean.shape[0])
        ),
    )
    fitted = replace(fitted, adaptation=_rebuild_adaptation(description["adaptation"], fitted, tensors, tensor))
    model = PCARaNN(**_parameters(description["parameters"]))
    own = None if fitted.own_units else input_pca.weights
    if own is not None or output_pca.weights is not None:
        pairs = ((own, input_pca.grid), (output_pca.weights, output_pca.grid))
        model.quadrature = tuple(None if w is None else to_host(w).reshape(grid) for w, grid in pairs)
    if group is not None:
        fit, predict = (None if len(some) == group.order else len(some) for some in (copied, averaged))
        symmetry = Symmetry.of_group(group, str(description["symmetry"]["name"]))
        model.symmetry = symmetry.using(fit=fit, predict=predict)
    if model.relevance is None:
        found = feature_map.weighting.relevance
        model.relevance = 0.0 if found is None else to_host(found)
    model._fitted = fitted
    return model


def _parameters(stored: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a model, where older ones knew more of them."""
    kept = {name: value for name, value in _tupled(stored).items() if name not in ("adapt_modes", "refine_members")}
    return kept | {"ridge": "gcv"} if kept["ridge"] == "loo" else kept


def _rebuild_units(described: dict[str, Any] | None) -> Units:
    if described is None:
        return Units()
    units = Units(float(described["inputs"]), float(described["outputs"]))
    if not (0 < units.inputs < np.inf and 0 < units.outputs < np.inf):
        raise ValueError("its units are no numbers")
    return units


def _rebuild_view(described: dict[str, Any] | None, pca: PCA) -> View:
    if described is None:
        count = pca.grid[0] if len(pca.grid) == 1 else 0
        return View((pca.n_components,), (pca.n_components,), tuple(f"column {j}" for j in range(count)))
    sizes, modes, constant = (tuple(int(n) for n in described[name]) for name in ("sizes", "modes", "constant"))
    view = View(sizes, modes, tuple(str(name) for name in described["names"]), constant)
    fits = sum(sizes) == pca.n_components and len(modes) == len(sizes) and len(pca.grid) >= (len(sizes) > 1)
    fits = (
        fits and all(0 < m <= n for m, n in zip(modes, sizes, strict=True)) and int(pca.mean.shape[0]) % len(sizes) == 0
    )
    leading = pca.grid[0] if len(pca.grid) > 1 else 0
    named = leading if constant else len(sizes) if len(sizes) > 1 else pca.grid[0] if len(pca.grid) == 1 else 0
    if not fits or not all(0 <= c < leading for c in constant) or len(view.names) < min(named, 256):
        raise ValueError("its view does not fit its PCA")
    return view


def _rebuild_reach(described: dict[str, Any] | None, tensors: Tensors, pca: PCA) -> NoveltyTest | None:
    if described is None:
        return None
    names = ("body", "excess", "depths", "surprises", "low", "high")
    body, excess, depths, surprises, low, high = (tensors[f"reach.{name}"] for name in names)
    groups = tuple(int(n) for n in described["groups"])
    fits = body.shape == excess.shape == (sum(groups),) and min(groups) > 0 and low.shape == high.shape
    if not fits or surprises.ndim != 1 or not surprises.size or depths.shape != (len(groups), surprises.size):
        raise ValueError("its reach does not fit together")
    residual, distance = (float(part) for part in described["farthest"])
    floor = float(described["floor"])
    return NoveltyTest(Tails(body, excess), groups, depths, surprises, floor, (residual, distance), (low, high))


def _rebuild_edge(described: dict[str, Any] | None, tensors: Tensors, tensor: Any, pca: PCA) -> Edge | None:
    if described is None:
        return None
    ends = ("low", "high")
    columns = None
    if "edge.columns.low" in tensors:
        columns = tuple(tensor(f"edge.columns.{end}", int(pca.mean.shape[0])) for end in ends)
    latents = [tensor(f"edge.{name}", pca.n_components) for name in (*ends, "spread")]
    farthest, residual, size = (float(described[name]) for name in ("farthest", "residual", "size"))
    if not (np.isfinite([farthest, residual, size]).all() and size > 0 and int(described["samples"]) > 0):
        raise ValueError("its edge is nowhere")
    return Edge(latents[0], latents[1], latents[2], farthest, columns, residual, size, int(described["samples"]))


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
    weighting = Weighting(relevance, linear)
    if described["regressor"] == "kernel":
        length = float(described["length"])
        if not 0 < length < np.inf:
            raise ValueError("its kernel has no length")
        return KernelMap(int(described["seed"]), length, weighting)
    sizes = tuple(int(n) for n in described["sizes"])
    if len(sizes) != 3 or sizes[0] != size:
        raise ValueError("its layers do not fit its PCA")
    first, second = (float(r) for r in described["scales"])
    return RandomMap(HiddenLayers(int(described["seed"]), 0, (size, sizes[1], sizes[2])), (first, second), weighting)


def _rebuild_features(
    description: dict[str, Any], feature_map: RandomMap | KernelMap, x: Array, tensors: Tensors, tensor: Any
) -> list[Features]:
    count = len(description["reports"])
    if isinstance(feature_map, KernelMap):
        if "landmarks" not in tensors:
            return [_old_kernel(feature_map.made(k, x), feature_map, x) for k in range(count)]
        rows, weighted = tensors["landmarks"], feature_map.weighting.weighted(x)
        shaped = rows.ndim == 2 and rows.shape[0] == count and rows.dtype.kind == "i"
        if not shaped or not ((rows >= 0) & (rows < x.shape[0])).all() or not (np.diff(rows, axis=1) > 0).all():
            raise ValueError("its landmarks are not among its samples")
        listed = [[int(i) for i in one] for one in rows]
        lengths = [float(length) for length in description["map"]["lengths"]]
        if not all(0 < length < np.inf for length in lengths):
            raise ValueError("its kernel has no length")
        return [
            KernelFeatures(k, tuple(one), taken(weighted, one), length, feature_map.weighting)
            for k, (one, length) in enumerate(zip(listed, lengths, strict=True))
        ]
    _, n1, n2 = feature_map.layers.sizes
    anchors = (tensor("anchors1", count, n1), tensor("anchors2", count, n2))
    made: list[Features] = []
    for k in range(count):
        layers = replace(feature_map.layers, member=k)
        one = RandomFeatures(
            layers, feature_map.scales, (anchors[0][k, :], anchors[1][k, :]), None, feature_map.weighting
        )
        made.append(replace(one, weights=one.hidden_weights()) if description["map"]["kept_weights"] else one)
    return made


def _old_kernel(features: KernelFeatures, feature_map: KernelMap, x: Array) -> KernelFeatures:
    """The map as it was before format 4, when the median distance was that of the first samples."""
    weighted = feature_map.weighting.weighted(x)
    return replace(features, length=feature_map.length * median_distance(weighted[:500, :]))


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


def _rebuild_adaptation(
    described: dict[str, Any] | None, fitted: Fitted, tensors: Tensors, tensor: Any
) -> Adaptation | None:
    if described is None:
        return None
    ensemble = fitted.ensemble
    xp = ensemble.place.xp
    own = tensor("adaptation.own")
    new = int(own.shape[0]) - int(fitted.x.shape[0])
    x = xp.concat([fitted.x, tensor("adaptation.x", new, int(fitted.x.shape[1]))], axis=0)
    y = xp.concat([fitted.y, tensor("adaptation.y", new, int(fitted.y.shape[1]))], axis=0)
    priors: list[Array | None] = [None] * len(ensemble.members)
    if described["begun"] == "least-squares":
        stored = tensor("adaptation.priors", len(priors), *(int(n) for n in ensemble.members[0].coefficients.shape))
        priors = [stored[k, :, :] for k in range(len(priors))]
    rows = Rows((x,), (y,), (own[:, None],), float(described["faded"]))
    return Adaptation(rows, int(described["trained"]), float(described["ridge"]), tuple(priors))


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Real):  # fractions and NumPy's numbers among them
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def _tupled(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON document with its lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
