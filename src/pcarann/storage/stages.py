"""Fitted stages as one JSON document and named arrays, and back, every part checked.

Readouts, mixtures and what standardises channels are stored as they are: a file predicts the same bytes everywhere
that arithmetic is the same. Complex numbers are stored as pairs of real ones. The sums that adaptation needs are stored
where they were kept. Terms of a user's equation are functions, which no file holds: `load` asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Integral
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, to_host
from pcarann.latent.units import Units
from pcarann.mesh.mesh import Mesh
from pcarann.options import Grid
from pcarann.spatial.bands import Bands, Sums
from pcarann.spatial.chain import Chain, Step
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.choice import Settled, Trial
from pcarann.spatial.features import Features
from pcarann.spatial.fitted import FittedStages, Levels, Range
from pcarann.spatial.layout import Layout
from pcarann.spatial.report import StagesReport
from pcarann.spatial.resolution import bands_on
from pcarann.spatial.stage import Scene, Stage
from pcarann.spatial.start import Start
from pcarann.spatial.terms import Terms
from pcarann.storage.arrays import Arrays, are_numbers, count_of
from pcarann.storage.document import described_calibration, plain
from pcarann.storage.formats import FORMAT_VERSION, Document, Tensors
from pcarann.storage.groups import rebuilt_group
from pcarann.storage.layouts import described_layout, rebuilt_layout, seen_channels
from pcarann.storage.packing import described_packing, rebuilt_packing
from pcarann.storage.rebuild import rebuilt_calibration, with_options
from pcarann.storage.streams import described_history, described_known, rebuilt_history, rebuilt_known
from pcarann.symmetry.generators import Symmetry

__all__ = ["TermsError", "described_stages", "rebuilt_parameters", "rebuilt_stages"]


class TermsError(ValueError):
    """Other terms were handed over than a model was fitted with."""


_MOST_LEVELS = 64  # of a number
_MOST_MEMBERS = 10_000
_PARTS = ("shift", "scale", "limit", "mixing", "biases")


def described_stages(fitted: FittedStages, parameters: Mapping[str, Any]) -> tuple[Document, Tensors]:
    """Return the document and the arrays of a record; what stages start from, if it is a model, is described apart."""
    from pcarann import __version__

    tensors: Tensors = {}
    described_known(fitted.known, tensors)
    layout, scene = fitted.layout, fitted.chains[0].scene
    if fitted.start.mean is not None:
        tensors["start.mean"] = to_host(fitted.start.mean)
    for m, chain in enumerate(fitted.chains):
        for s, stage in enumerate(chain.stages):
            tensors |= {f"stage.{m}.{s}.{name}": to_host(getattr(stage.features, name)) for name in _PARTS}
            tensors[f"stage.{m}.{s}.readout"] = _real(stage.readout)
    for m, sums in enumerate(fitted.sums):
        tensors |= {f"sums.{m}.gram": _real(sums.gram), f"sums.{m}.moment": _real(sums.moment)}
    symmetry = None
    if scene.group is not None:
        tensors |= {f"symmetry.{side}": table for side, table in scene.group.tables().items()}
        name = "Symmetry" if parameters["symmetry"] is None else repr(parameters["symmetry"].using())
        symmetry = {"name": name, "copied": scene.fitted, "averaged": scene.averaged}
    sight = fitted.chains[0].stages[0].features.sight if fitted.chains[0].stages else None
    if sight is not None and sight.fixed is not None:
        tensors["fixed"] = to_host(sight.fixed)
    left_out = ("model", "symmetry", "terms", "device", "channels", "random_state")
    stored = {name: plain(value) for name, value in parameters.items() if name not in left_out}
    stored |= {"grid": None} if isinstance(parameters["grid"], Mesh) else {}  # the layout has the mesh of the fit
    seed = parameters["random_state"]
    stored |= {"random_state": int(seed) if isinstance(seed, Integral) else None}  # a generator has moved on
    facts = ("output_size", "value_range", "levels", "samples", "state", "calibrated")
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        "kind": "stages",
        "packing": described_packing(fitted.packing, tensors),
        "parameters": stored | {"channels": parameters["channels"] and _channels(parameters["channels"])},
        "start": fitted.start.name,
        "layout": described_layout(layout, tensors),
        "channels": _channels(fitted.report.settled.channels),
        "evolving": sight is not None and sight.evolving,
        "terms": [] if fitted.terms is None else fitted.terms.names,
        "symmetry": symmetry,
        "ridges": [[stage.ridge for stage in chain.stages] for chain in fitted.chains],
        "units": asdict(fitted.units),
        "report": _report(fitted.report),
        "seconds": dict(fitted.seconds),
        "sums": len(fitted.sums),
        "calibration": described_calibration(fitted.calibration, "calibration", tensors),
        "history": described_history(fitted.history, "history", tensors),
        **{name: getattr(fitted, name) for name in facts},
    }, tensors


def rebuilt_stages(document: Document, arrays: Arrays, model: Any = None, terms: Any = ()) -> FittedStages:
    """Return the record that a document describes; `model` is what stages start from, where that is one."""
    tensors, place = arrays.found, arrays.place
    layout = rebuilt_layout(document["layout"], arrays)
    units = Units(**{name: float(unit) for name, unit in document["units"].items()})
    ends = [[one] if isinstance(one, float | int) else one for one in document["value_range"]]
    numbers = [units.inputs, units.outputs, document["output_size"], *(number for end in ends for number in end)]
    if not np.isfinite(np.asarray(numbers, dtype=float)).all() or min(units.inputs, units.outputs) <= 0:
        raise ValueError("its numbers are not finite")
    start = _start(document["start"], tensors, place, model, layout)
    channels = Channels(**document["channels"] | {"smoothed": _length(document["channels"]["smoothed"])}).checked()
    sight = _sight(document, tensors, place, layout, channels, _terms(document["terms"], terms, units))
    scene, bands = _scene(document["symmetry"], arrays, layout), bands_on(layout, channels.singles)[0]
    if len(document["ridges"]) > _MOST_MEMBERS:
        raise ValueError(f"it has {len(document['ridges'])} members")
    chains = tuple(
        Chain(
            scene,
            tuple(_stage(f"stage.{m}.{s}", r, sight, bands, arrays, layout) for s, r in enumerate(ridges)),
        )
        for m, ridges in enumerate(document["ridges"])
    )
    sums = tuple(_sums(f"sums.{m}", chains[m], tensors, place) for m in range(int(document["sums"])))
    if not chains or (sums and len(sums) != len(chains)):
        raise ValueError("its parts do not fit together")
    points = {math.prod(one.output_grid) for one in (layout, layout.at_training)}
    return FittedStages(
        start,
        chains,
        units,
        float(document["output_size"]),
        _range(ends, layout.n_inputs),
        count_of(document["samples"]),
        _reported(document["report"], Settled(layout, channels)),
        {str(name): float(part) for name, part in document["seconds"].items()},
        sums,
        rebuilt_calibration(document["calibration"], "calibration", tensors, place, points),
        count_of(document["calibrated"]),
        count_of(document["state"]),
        rebuilt_packing(document.get("packing"), arrays, (layout.input_grid, layout.output_grid)),
        rebuilt_history(document.get("history"), "history", tensors),
        rebuilt_known(tensors),
        _levels(document.get("levels") or (), layout.n_inputs),
    )


def _levels(described: Any, components: int) -> Levels:
    found = tuple(tuple(float(value) for value in levels) for levels in described)
    fits = len(found) in (0, components) and all(len(levels) <= _MOST_LEVELS for levels in found)
    if not fits or not np.isfinite([value for levels in found for value in levels]).all():
        raise ValueError("its levels do not fit its inputs")
    return found


def rebuilt_parameters(document: Document, fitted: FittedStages) -> dict[str, Any]:
    """The parameters of the estimator, but for what stages start from and the terms."""
    stored = {name: value for name, value in document["parameters"].items() if name != "channels"}
    parameters = {name: with_options(value) for name, value in stored.items()}
    parameters |= {"grid": parameters["grid"] and _tupled(parameters["grid"])}
    scene = fitted.chains[0].scene
    if scene.layout.mesh is not None:
        parameters["grid"] = scene.layout.mesh.mesh
    if document["parameters"]["channels"] is not None:
        parameters["channels"] = fitted.report.settled.channels
    if scene.group is not None:
        fit, predict = (
            None if len(some) == scene.group.order else len(some) for some in (scene.fitted, scene.averaged)
        )
        symmetry = Symmetry.of_group(scene.group, str(document["symmetry"]["name"]))
        parameters["symmetry"] = symmetry.using(fit=fit, predict=predict)
    return parameters


def _tupled(grid: Grid) -> Grid:
    """A grid as it was, lists being tuples."""
    return replace(grid, **{name: tuple(part) if isinstance(part, list) else part for name, part in vars(grid).items()})


def _range(ends: Any, components: int) -> Range:
    """Of every component; files of old say one for all."""
    low, high = (tuple(float(one) for one in end) for end in ends)
    if {len(low), len(high)} - {1, components}:
        raise ValueError("its range is not that of its inputs")
    return low * (components // len(low)), high * (components // len(high))


def _terms(names: list[Any], terms: Any, units: Units) -> Terms | None:
    if names and len(names) != len(terms):
        raise TermsError(f"it was fitted with terms {', '.join(map(str, names))}: hand them to load(path, terms=[…])")
    found = Terms.of(tuple(terms), units)
    if names and found is not None and found.names != names:
        raise TermsError(f"it was fitted with terms {', '.join(names)}, in this order, found {', '.join(found.names)}")
    if len(terms) and not names:
        raise TermsError("it was fitted without terms, but some were handed to load")
    return found


def _sight(
    document: Document, tensors: Tensors, place: Place, layout: Layout, channels: Channels, terms: Terms | None
) -> Sight:
    evolving, staged = bool(document["evolving"]), any(document["ridges"])
    fixed = tensors["fixed"] if evolving and staged else None
    if fixed is not None and fixed.shape != (1, *layout.domain.shape, layout.n_outputs):
        raise ValueError("its fixed fields do not fit its grid")
    return Sight(layout.domain, channels, evolving, None if fixed is None else place.put(_finite(fixed)), terms)


def _sums(name: str, chain: Chain, tensors: Tensors, place: Place) -> Sums:
    layout, last = chain.scene.layout, chain.stages[-1]
    gram, moment = (_complex(tensors[f"{name}.{part}"], layout, place) for part in ("gram", "moment"))
    bands, features, columns = last.readout.shape
    if tuple(gram.shape) != (bands, features, features) or tuple(moment.shape) != (bands, features, columns):
        raise ValueError(f"{name} do not fit its stages")
    return Sums(gram, moment)


def _stage(name: str, ridge: float, sight: Sight, bands: Bands, arrays: Arrays, layout: Layout) -> Stage:
    tensors, place = arrays.found, arrays.place
    shift, scale, limit, mixing, biases = (tensors[f"{name}.{part}"] for part in _PARTS)
    fits = (
        shift.ndim == 1
        and shift.shape == scale.shape == limit.shape
        and mixing.ndim == 2
        and biases.shape == mixing.shape[1:]
    )
    features = Features(sight, *(place.put(_finite(part)) for part in (shift, scale, limit, mixing, biases)))
    further = int(shift.shape[0]) - seen_channels(sight, layout, arrays)
    if not fits or mixing.shape[0] != features.n_fields or (further != 0 if sight.terms is None else further < 1):
        raise ValueError(f"{name} does not fit together")
    arrays.allowance.check(8 * features.n_fields * features.count, "the mixtures of its features")
    arrays.allowance.check(8 * layout.domain.points * features.count, "the features of one sample", later=True)
    readout = _complex(tensors[f"{name}.readout"], layout, place)
    if tuple(readout.shape) != (bands.count, features.count, layout.n_outputs):
        raise ValueError(f"{name}.readout has shape {tuple(readout.shape)}")
    return Stage(features, bands, readout, float(ridge))


def _scene(described: dict[str, Any] | None, arrays: Arrays, layout: Layout) -> Scene:
    if described is None:
        return Scene(layout)
    values = (math.prod(layout.input_grid), math.prod(layout.output_grid))
    return Scene(layout, *rebuilt_group(described, arrays, values))


def _start(name: str, tensors: Tensors, place: Place, model: Any, layout: Layout) -> Start:
    if name == "mean field":
        mean = tensors["start.mean"]
        if mean.shape != (math.prod(layout.output_grid),):
            raise ValueError("its mean field does not fit its grid")
        return Start(mean=place.put(_finite(mean)))
    if name == "input":
        return Start(values=math.prod(layout.output_grid))
    if model is None:
        raise ValueError("the model that its stages start from is missing")
    ensemble = model.fitted_.ensemble
    if (tuple(ensemble.input_pca.grid), tuple(ensemble.output_pca.grid)) != (layout.input_grid, layout.output_grid):
        raise ValueError("the model that its stages start from is of other grids")
    return Start(model=model, input_grid=layout.input_grid)


def _real(array: Array) -> np.ndarray[Any, Any]:
    found = to_host(array)
    return np.stack([found.real, found.imag], axis=-1) if np.iscomplexobj(found) else found


def _finite(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if found.dtype != np.float64 or not are_numbers(found):
        raise ValueError("its arrays are not finite, or too large to compute with")
    return found


def _complex(found: np.ndarray[Any, Any], layout: Layout, place: Place) -> Array:
    found = _finite(found)
    if not layout.domain.is_complex:
        return place.put(found)
    if found.shape[-1] != 2:
        raise ValueError("its readouts are not complex")
    return place.xp.asarray(found[..., 0] + 1j * found[..., 1], device=place.device)


def _channels(channels: Channels) -> dict[str, Any]:
    """Infinity is no number in JSON."""
    found = asdict(channels)
    return found | {"smoothed": "infinite" if found["smoothed"] == math.inf else found["smoothed"]}


def _length(described: Any) -> float | None:
    return None if described is None else math.inf if described == "infinite" else float(described)


def _report(report: StagesReport) -> dict[str, Any]:
    steps = [[step.ridge, _number(step.error), step.seconds] for step in report.steps]
    trials = [[trial.name, _number(trial.error)] for trial in report.settled.trials]
    return {"begun": _number(report.begun), "held_out": report.held_out, "start": report.start,
            "steps": steps, "trials": trials}  # fmt: skip


def _reported(described: dict[str, Any], settled: Settled) -> StagesReport:
    steps = tuple(Step(float(ridge), _found(error), float(seconds)) for ridge, error, seconds in described["steps"])
    trials = tuple(Trial(str(name), _found(error)) for name, error in described["trials"])
    settled = Settled(settled.layout, settled.channels, trials)
    return StagesReport(str(described["start"]), _found(described["begun"]), settled, steps, int(described["held_out"]))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _found(value: Any) -> float:
    return float(value)
