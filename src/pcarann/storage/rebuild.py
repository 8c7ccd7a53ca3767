"""The record that a JSON document and named arrays describe, every part of it checked.

A checksum says that a file is whole, not that it is a model: shapes, types and numbers are compared with each other
here, so that what is wrong with a file is said when it is loaded and not when it predicts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, to_host
from pcarann.ensemble.adaptation import Adaptation, Rows
from pcarann.ensemble.maps import RandomMap
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.features.refine import Refinement
from pcarann.fitted import Fitted
from pcarann.latent.pca import PCA
from pcarann.latent.resampled import Resampled
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.options import Adapt, Fields, Grid, Kernel, Refine, resolved
from pcarann.storage.arrays import Arrays, numbers
from pcarann.storage.formats import FACTS, Document, Tensors
from pcarann.storage.groups import Elements, rebuilt_group
from pcarann.storage.limits import Allowance, shape_of
from pcarann.storage.members import rebuilt_features, rebuilt_map, rebuilt_members
from pcarann.storage.packing import rebuilt_packing
from pcarann.storage.spreads import rebuilt_spread
from pcarann.storage.streams import rebuilt_choice, rebuilt_followed, rebuilt_history, rebuilt_local
from pcarann.storage.typed import checked, record, seconds_of
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.conformal import Calibration, PartsCalibration
from pcarann.uncertainty.extrapolation import Edge, Near
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.holes import Gaps, Holes, Nearest
from pcarann.uncertainty.novelty import NoveltyTest, Tails
from pcarann.uncertainty.view import View

__all__ = ["rebuilt", "rebuilt_calibration", "with_options"]


def rebuilt(document: Document, arrays: Arrays) -> tuple[Fitted, dict[str, Any]]:
    """Return the record that a document of the newest format describes, and the parameters of its estimator."""
    tensors, place, allowance = arrays.found, arrays.place, arrays.allowance
    input_pca, output_pca = (_pca(document["pcas"][side], side, arrays) for side in ("input", "output"))
    rows, samples = int(tensors["x"].shape[0]), int(document["samples"])
    x = arrays("x", rows, input_pca.n_components)
    if not 0 < samples <= rows or not document["reports"]:
        raise ValueError("its parts do not fit together")
    feature_map = rebuilt_map(document["map"], input_pca.n_components, arrays)
    group, copied, averaged = None, Elements((0,)), Elements((0,))
    if document["symmetry"] is not None:
        values = (int(input_pca.mean.shape[0]), int(output_pca.mean.shape[0]))
        group, copied, averaged = rebuilt_group(document["symmetry"], arrays, values)
    if isinstance(feature_map, RandomMap) and document["energy_scales"] is None:
        raise ValueError("its energy-matched scales are missing")
    # Rows after those of the fit came with refit_readout: landmarks are not among them.
    features = rebuilt_features(document, feature_map, x[: min(samples * len(copied), rows), :], arrays)
    members = rebuilt_members(document["reports"], features, output_pca.n_components, arrays)
    weighting, latents = feature_map.weighting, input_pca.n_components
    known = rebuilt_spread(document.get("residual_spread"), int(output_pca.mean.shape[0]), arrays, weighting, latents)
    points = {math.prod(output_pca.grid), math.prod(getattr(output_pca, "trained_grid", output_pca.grid))}
    view = _view(document["view"], input_pca)
    fitted = Fitted(
        ensemble=replace(Ensemble(input_pca, output_pca, members, group, averaged).tried(x), residual_spread=known),
        x=x,
        y=arrays("y", rows, output_pca.n_components),
        feature_map=feature_map,
        smoothing=_smoothing(document["smoothing"], input_pca.grid, allowance),
        copied=copied,
        view=view,
        novelty_test=_novelty_test(document["reach"], tensors, view, input_pca.n_components),
        edge=_edge(document["edge"], arrays, input_pca),
        units=_units(document["units"]),
        weights=arrays("weights", rows) if "weights" in arrays else None,
        calibration=rebuilt_calibration(document["calibration"], "calibration", tensors, place, points),
        packing=rebuilt_packing(document.get("packing"), arrays, (input_pca.grid, output_pca.grid)),
        history=rebuilt_history(document.get("history"), "history", tensors),
        **_facts(document),
    )
    fitted = replace(fitted, adaptation=_adaptation(document["adaptation"], fitted, arrays))
    return fitted, _parameters(document, fitted)


def rebuilt_calibration(
    described: dict[str, Any] | None, name: str, tensors: Tensors, place: Place, allowed: set[int]
) -> Calibration | None:
    """Return the calibration under a name, of one of these numbers of points a sample; None where there is none."""
    if described is None:
        return None
    ranks, scores, largest = (tensors[f"{name}.{part}"] for part in ("ranks", "scores", "largest"))
    _refuse_no_scores(scores, largest)
    floor = checked(described["floor"], float, "the floor of its calibration")
    points = checked(described["points"], int, "the points of its calibration")
    sound = largest.ndim == 1 and largest.size and ranks.ndim == 1 and ranks.shape == scores.shape and ranks.size
    sound = sound and ranks.dtype.kind == "i" and (np.diff(ranks) > 0).all()
    if not sound or points not in allowed or ranks[-1] != largest.size * points or not 0 < floor < np.inf:
        raise ValueError("its calibration does not fit its outputs")
    kept = (ranks.astype(np.int64), place.put(scores), points, place.put(largest), floor)
    followed = rebuilt_followed(f"{name}.followed", tensors)
    local = rebuilt_local(f"{name}.local", tensors, place, (int(largest.size), points))
    if "gains" not in described:
        return Calibration(*kept, followed=followed, local=local)
    gains = checked(described["gains"], tuple[float, ...], "the gains of its calibration")
    sizes = checked(described["sizes"], tuple[int, ...], "the sizes of its calibration")
    fits = (
        bool(sizes) and len(gains) == len(sizes) and min(sizes) >= 1 and sum(sizes) in allowed
    )  # a model moved has others
    if not fits or not all(0 < gain < np.inf for gain in gains):
        raise ValueError("its calibration does not fit its outputs")
    each = [rebuilt_followed(f"{name}.apart.{i}.followed", tensors) for i in range(len(sizes))]
    apart = tuple(one for one in each if one is not None)
    if len(apart) not in (0, len(sizes)):
        raise ValueError("its calibration does not fit its outputs")
    return PartsCalibration(*kept, gains, sizes, followed=followed, local=local, apart=apart)


def _refuse_no_scores(*scores: np.ndarray[Any, Any]) -> None:
    """Scores are at least 0; infinite ones are those of fields that no interval holds."""
    if any(some.dtype != np.float64 or not (some >= 0).all() for some in scores):
        raise ValueError("its calibration has scores that are none")


def _facts(document: Document) -> dict[str, Any]:
    """The parts of a record that are plain values."""
    scales, refinement, report = (document[name] for name in ("energy_scales", "refinement", "report"))
    return {
        "energy_scales": checked(scales, tuple[float, float] | None, "its energy-matched scales"),
        "refinement": None if refinement is None else record(Refinement, refinement, "its refinement"),
        "report": None if report is None else record(FitReport, report, "its report"),
        "names": checked(document.get("names", ()), tuple[str, ...], "its names"),
        "seconds": seconds_of(document["seconds"]),
        **{name: _fact(document[name], kind, name) for name, kind in FACTS.items()},
    }


def _fact(value: Any, kind: Any, name: str) -> Any:
    found = checked(value, kind, name)
    if kind is not bool and not 0 <= found < math.inf:
        raise ValueError(f"{name} must be at least 0, found {found}")
    return found


def _parameters(document: Document, fitted: Fitted) -> dict[str, Any]:
    """The parameters of the estimator, with those that the record holds as arrays."""
    parameters = {name: with_options(value) for name, value in _tupled(document["parameters"]).items()}
    input_pca, output_pca, group = fitted.ensemble.input_pca, fitted.ensemble.output_pca, fitted.ensemble.group
    own = None if fitted.own_units else input_pca.weights
    if fitted.packing is not None:  # whose parts say what the weights are
        fields = resolved("fields", parameters["fields"])
        parameters["fields"] = (
            replace(fields, mesh=fitted.packing.mesh) if fitted.packing.mesh else parameters["fields"]
        )
    # Those of a model on another grid are not what it was fitted with, which its file does not hold.
    elif not fitted.is_elsewhere and (own is not None or output_pca.weights is not None):
        pairs = ((own, input_pca.grid), (output_pca.weights, output_pca.grid))
        quadrature = tuple(None if w is None else to_host(w).reshape(grid) for w, grid in pairs)
        parameters["fields"] = replace(resolved("fields", parameters["fields"]), quadrature=quadrature)
    if group is not None:
        used = (fitted.copied, fitted.ensemble.averaged)
        fit, predict = (None if len(some) == group.order else len(some) for some in used)
        symmetry = Symmetry.of_group(group, str(document["symmetry"]["name"]))
        parameters["symmetry"] = symmetry.using(fit=fit, predict=predict)
    if parameters.get("relevance", 0.0) is None:
        found = fitted.feature_map.weighting.relevance
        parameters["relevance"] = 0.0 if found is None else to_host(found)
    return parameters


def with_options(value: Any) -> Any:
    """Return a parameter that was stored as an object with options of its own as that object."""
    if not isinstance(value, dict):
        return value
    known = {kind.__name__: kind for kind in (Adapt, Fields, Grid, Kernel, Refine)}
    found = known[value["options"]](**{name: part for name, part in value.items() if name != "options"})
    if isinstance(found, Fields) and (found.mesh is not None or found.quadrature is not None):
        raise ValueError("its fields name a mesh or weights, which are arrays of a file")  # a name would be a path
    return found


def _tupled(document: Document) -> dict[str, Any]:
    """Return a JSON document with its lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def _pca(described: dict[str, Any], side: str, arrays: Arrays) -> PCA:
    grid = shape_of(described["grid"], f"the grid of its {side}s")
    values = math.prod(grid)
    modes = arrays(f"{side}.modes")
    weights = arrays(f"{side}.weights", values) if f"{side}.weights" in arrays else None
    singular_values = arrays(f"{side}.singular_values", int(modes.shape[0]))
    if tuple(modes.shape[1:]) != (values,) or not modes.shape[0]:
        raise ValueError(f"{side}.modes do not fit the grid {grid}")
    if weights is not None and not bool(arrays.place.xp.all(weights > 0)):
        raise ValueError(f"{side}.weights are not positive")
    parts = (arrays(f"{side}.mean", values), modes, singular_values, float(described["energy"]), grid, weights)
    if "trained_grid" not in described:
        return PCA(*parts)
    return Resampled(*parts, trained_grid=shape_of(described["trained_grid"], "the grid of its training"))


def _smoothing(described: Any, grid: tuple[int, ...], allowance: Allowance) -> Smoothing:
    width, periodic = float(described[0]), tuple(bool(around) for around in described[1])
    if not 0 <= width <= 1 or (width and len(periodic) != len(grid[-2:])):
        raise ValueError("its smoothing does not fit its grid")
    if width:
        allowance.check(sum(8 * 4 * n**2 for n in grid[-2:]), "its smoothing")  # 4: while a Gaussian is made
    return Smoothing(width, periodic)


def _units(described: dict[str, Any]) -> Units:
    units = record(Units, described, "its units")
    if not (0 < units.inputs < np.inf and 0 < units.outputs < np.inf):
        raise ValueError("its units are no numbers")
    return units


def _view(described: dict[str, Any] | None, pca: PCA) -> View:
    grid = pca.grid
    columns = grid[0] if len(grid) == 1 else 0
    if described is None:
        return View((pca.n_components,), (pca.n_components,), tuple(f"column {j}" for j in range(columns)))
    view = record(View, described, "its view")
    sizes, modes, constant, numbers = view.sizes, view.modes, view.constant, view.numbers
    if coded := view.fields:
        ends = [start + size for (_, start), size in zip(coded, sizes, strict=False)]
        fits = len(coded) == len(sizes) == len(modes) and all(0 < m <= n for m, n in zip(modes, sizes, strict=True))
        fits = fits and all(start >= 0 for _, start in coded) and max(ends) <= columns and len(view.names) == columns
        fits = fits and len(view.spreads) == sum(modes) and all(0 < one < math.inf for one in view.spreads)
        if not fits or constant or numbers is None or not all(0 <= c < columns for c in numbers):
            raise ValueError("its view does not fit its code")
        return view
    fits = sum(sizes) == pca.n_components and len(modes) == len(sizes) and len(grid) >= (len(sizes) > 1)
    fits = fits and all(0 < m <= n for m, n in zip(modes, sizes, strict=True))
    fits = fits and int(pca.mean.shape[0]) % len(sizes) == 0
    leading = grid[0] if len(grid) > 1 else 0
    named = leading if constant else len(sizes) if len(sizes) > 1 else columns
    fits = fits and all(0 <= c < min(columns, len(view.names)) for c in numbers or ())
    if not fits or not all(0 <= c < leading for c in constant) or len(view.names) < min(named, 256):
        raise ValueError("its view does not fit its PCA")
    return view


def _novelty_test(described: dict[str, Any] | None, tensors: Tensors, view: View, latents: int) -> NoveltyTest | None:
    if described is None:
        return None
    names = ("body", "excess", "depths", "surprises", "low", "high")
    body, excess, depths, surprises, low, high = (_without_nan(f"reach.{name}", tensors) for name in names)
    groups = checked(described["groups"], tuple[int, ...], "its groups of latents")
    fits = body.shape == excess.shape == (sum(groups),) and min(groups) > 0 and low.shape == high.shape
    if not fits or surprises.ndim != 1 or not surprises.size or depths.shape != (len(groups), surprises.size):
        raise ValueError("its test of novelty does not fit together")
    residual, distance = checked(described["farthest"], tuple[float, float], "its farthest sample")
    floor = checked(described["floor"], float, "the floor of its test of novelty")
    holes = _holes(described.get("holes"), tensors, sum(view.modes), latents, len(low) - sum(view.modes))
    # Both sides of columns and latents, distances of several latents, residuals, holes
    count = 2 * len(low) + sum(modes > 1 for modes in view.modes) + (0 if view.fields else len(view.modes))
    if count + (0 if holes is None else sum(holes.sizes)) != sum(groups):
        raise ValueError("its test of novelty does not fit together")
    return NoveltyTest(Tails(body, excess), groups, depths, surprises, floor, (residual, distance), (low, high), holes)


def _holes(
    described: dict[str, Any] | None, tensors: Tensors, looked_at: int, latents: int, columns: int
) -> Holes | None:
    """What tells holes, for so many latents that are looked at, latents and columns."""
    if described is None:
        return None
    low = numbers(tensors, "reach.gaps.low")
    if low.ndim != 2:
        raise ValueError("reach.gaps.low is no table")
    count, many = low.shape
    shapes = {"high": (count, many), "scale": (count, many), "least": (count,), "unit": (count,)}
    high, scale, least, unit = (numbers(tensors, f"reach.gaps.{name}", *shape) for name, shape in shapes.items())
    index = _index(described["index"], latents)
    points = numbers(tensors, "reach.nearest.points")
    scales = numbers(tensors, "reach.nearest.scales", 2, len(index))
    usual = numbers(tensors, "reach.nearest.usual", 2)
    looked = _index(described["latents"], looked_at)
    fits = points.ndim == 2 and points.shape[1] == len(index) > 0 and len(points)
    if not fits or count - len(looked) not in (0, columns) or not many:
        raise ValueError("what tells holes in its data does not fit together")
    if (unit <= 0).any() or (scale <= 0).any() or (high < low).any():
        raise ValueError("its gaps have no width")
    return Holes(looked, Gaps(low, high, scale, least, unit), Nearest(index, scales, points, usual))


def _index(described: Any, count: int) -> tuple[int, ...]:
    """Numbers of some of so many things."""
    found: tuple[int, ...] = checked(described, tuple[int, ...], "its index")
    if not all(0 <= i < count for i in found):
        raise ValueError(f"{str(found)[:100]} are not among {count}")
    return found


def _without_nan(name: str, tensors: Tensors) -> np.ndarray[Any, Any]:
    found = tensors[name]
    if found.dtype != np.float64 or np.isnan(found).any():
        raise ValueError(f"{name} has dtype {found.dtype}, or NaN in it")
    return found


def _edge(described: dict[str, Any] | None, arrays: Arrays, pca: PCA) -> Edge | None:
    if described is None:
        return None
    ends = ("low", "high")
    columns = None
    if "edge.columns.low" in arrays:
        columns = tuple(arrays.ends(f"edge.columns.{end}", int(pca.mean.shape[0])) for end in ends)
    latents = [arrays(f"edge.{name}", pca.n_components) for name in (*ends, "spread")]
    facts = [checked(described[name], float, f"{name} of its edge") for name in ("farthest", "residual", "size")]
    samples, (farthest, residual, size) = checked(described["samples"], int, "samples of its edge"), facts
    if not (np.isfinite(facts).all() and size > 0 and samples > 0):
        raise ValueError("its edge is nowhere")
    near, said = None, described.get("near")
    if said is not None:
        points = arrays("edge.points")
        if points.ndim != 2 or not points.shape[0] or int(points.shape[1]) != pca.n_components:
            raise ValueError(f"edge.points has shape {points.shape}")
        usual = checked(said["usual"], float, "the usual distance of its edge")
        near = Near(points, _index(said["index"], pca.n_components), usual)
        if not 0 <= near.usual < math.inf or not near.index:
            raise ValueError("its edge is nowhere")
    return Edge(latents[0], latents[1], latents[2], farthest, columns, residual, size, samples, near)


def _adaptation(described: dict[str, Any] | None, fitted: Fitted, arrays: Arrays) -> Adaptation | None:
    if described is None:
        return None
    members, xp = fitted.ensemble.members, arrays.place.xp
    own = arrays("adaptation.own")
    if own.ndim != 1:
        raise ValueError("its adaptation does not fit its rows")
    new = int(own.shape[0]) - int(fitted.x.shape[0])
    x = xp.concat([fitted.x, arrays("adaptation.x", new, int(fitted.x.shape[1]))], axis=0)
    y = xp.concat([fitted.y, arrays("adaptation.y", new, int(fitted.y.shape[1]))], axis=0)
    priors: list[Array | None] = [None] * len(members)
    if described["begun"] == "least-squares":
        stored = arrays("adaptation.priors", len(priors), *(int(n) for n in members[0].coefficients.shape))
        priors = [stored[k, :, :] for k in range(len(priors))]
    kinds: dict[str, Any] = {"faded": float, "trained": int, "ridge": float}
    faded, trained, ridge = (checked(described[name], kind, name) for name, kind in kinds.items())
    count, terms = int(own.shape[0]), members[0].features.count
    if not math.isfinite(faded) or not 0 <= trained <= count or not 0 <= ridge < math.inf:
        raise ValueError("its adaptation does not fit its rows")
    arrays.allowance.check(8 * len(members) * min(count, terms) ** 2, "the sums of its adaptation", later=True)
    rows = Rows((x,), (y,), (own[:, None],), faded)
    facts = (trained, ridge, tuple(priors))
    return Adaptation(rows, *facts, choice=rebuilt_choice(described.get("choice")))
