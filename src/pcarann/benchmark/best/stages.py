"""Stages on the four problems: models, what each part of them contributes, and their runs.

Darcy and backward heat are corrected from the mean field, Burgers and Navier–Stokes are marched: one step is learned
from pairs of snapshots and rolled out, from u(0) through all 100 later times of Burgers, from t = 10 to t = 20 of
Navier–Stokes. Ridges and the number of stages are chosen anew in every fit, from training samples. So is what stages
see, but for Burgers, where it was settled on calibration samples of the first data seed. The numbers of features,
members and samples are given.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import Place, place_of, to_host
from pcarann.benchmark.best.models import best_model, symmetry_of
from pcarann.benchmark.best.noise import noisy_split
from pcarann.benchmark.paper.configurations import Problem
from pcarann.benchmark.paper.runs import (
    DATA_SEED,
    Tell,
    error_and_spread,
    fit_quietly,
    generate,
    header,
    intervals_at_95,
)
from pcarann.benchmark.records import Record
from pcarann.marching.estimator import Marching
from pcarann.metrics import relative_l2
from pcarann.options import Grid
from pcarann.problems import navier_stokes
from pcarann.problems.dataset import OperatorData
from pcarann.problems.navier_stokes import SNAPSHOTS
from pcarann.spatial.channels import Channels
from pcarann.staged import Staged

__all__ = ["STAGE_CHANGES", "run_stages", "stages_model", "stages_records"]

Model = Staged | Marching
_FEW = 100
"""Training samples of the runs with few"""
_SEEDS = (0, 1, 2)
_FAR = (20, 40)
"""Steps of the longest roll-outs of Navier–Stokes, to t = 30 and t = 50"""


def stages_model(name: str, *, quick: bool = False) -> Model:
    """The unfitted model for a problem; `quick` makes it tiny, for tests."""
    if quick:
        inner = Staged(n_features=10, n_members=2, n_stages=2, max_samples=200)
    elif name == "burgers":
        seen = Channels(reach=2, singles=64)
        inner = Staged(n_features=60, n_members=2, n_stages=3, max_samples=6000, channels=seen, grid=Grid("periodic"))
    elif name == "navier_stokes":
        inner = Staged(n_features=200, n_members=2, n_stages=4, max_samples=2000)
    else:
        inner = Staged(symmetry=symmetry_of(name))
    return Marching(inner, first=5 if name == "navier_stokes" else 0) if _marched(name) else inner


def stages_records(problem: Problem, device: str | None, tell: Tell) -> Iterator[Record]:
    """All runs of a problem's stages."""
    for seed in _SEEDS if problem.name != "backward_heat" else _SEEDS[:1]:  # no match for the latent model there
        yield run_stages(problem, seed=seed, device=device, tell=tell)
        if problem.name == "darcy":
            yield run_stages(problem, seed=seed, change="without symmetry", device=device, tell=tell)
        if not problem.is_quick and problem.name in ("darcy", "navier_stokes"):
            yield run_stages(problem, seed=seed, n_train=_FEW, device=device, tell=tell)
    for change in STAGE_CHANGES.get(problem.name, {}):
        if change != "without symmetry":
            yield run_stages(problem, change=change, intervals=False, device=device, tell=tell)
    if problem.name == "darcy" and not problem.is_quick:
        for size, changed in product((50, 200, 500), (None, "without symmetry")):
            yield run_stages(problem, n_train=size, change=changed, intervals=False, device=device, tell=tell)
    if problem.name == "backward_heat":
        yield run_stages(problem, noise=0.01, device=device, tell=tell)


def run_stages(
    problem: Problem,
    *,
    seed: int = DATA_SEED,
    change: str | None = None,
    n_train: int | None = None,
    noise: float = 0.0,
    intervals: bool = True,
    device: str | None = None,
    tell: Tell = lambda message: None,
) -> Record:
    """Fit the stages of a problem, or with a single change, on one data seed; return the record."""
    tell(f"{problem.title}, seed {seed}: stages" + "".join(f", {part}" for part in (change, n_train) if part))
    data = noisy_split(problem, generate(problem, seed=seed, device=device), noise)
    train, calibration, test = (_as_flow(problem, part) for part in data)
    train = train[:n_train]
    model = stages_model(problem.name, quick=problem.is_quick)
    if change:
        model = STAGE_CHANGES[problem.name][change](model)
    place = place_of(None, device)
    a, u = place.put(train.inputs), place.put(train.outputs)
    place.wait()
    begun = time.perf_counter()
    fit_quietly(model, a, u)
    place.wait()
    fitted = time.perf_counter()
    mean = to_host(model.predict(test.inputs))
    predicted = time.perf_counter()
    inner = model.model_ if isinstance(model, Marching) else model
    truth = data[2]
    record = {
        **header("stages", problem, device, seed),
        "members": inner.n_members,
        "widths": [inner.n_features],
        "change": change,
        "n_train": len(train),
        "noise": noise,
        **error_and_spread(problem, _whole(problem, mean, truth), truth),
        "seconds": fitted - begun,
        "predict_seconds": predicted - fitted,
        "stages": [[step.ridge, _finite(step.error)] for step in inner.stages_.steps],
        "ends": inner.stages_.settled.layout.boundaries,
        "channels": {name: _finite(value) for name, value in vars(inner.stages_.settled.channels).items()},
    }
    if intervals:
        model.calibrate(calibration.inputs, calibration.outputs)

        def bands(level: float, method: Any) -> tuple[Any, Any]:
            found = model.predict_interval(test.inputs, round(1 - level, 10), method)
            return to_host(found.lower), to_host(found.upper)

        record["intervals"] = intervals_at_95(bands, test)
        if problem.name == "navier_stokes":
            record["far"] = _far(problem, model, test, seed, place)
    return record


def _far(problem: Problem, model: Marching, test: OperatorData, seed: int, place: Place) -> list[list[float]]:
    """Time, relative L² error, and size beside the truth, of roll-outs that go on past the times of the training."""
    found = to_host(model.predict(test.inputs, steps=_FAR[-1]))
    rows, rolled = range(sum(problem.sizes[:2]), sum(problem.sizes)), []
    for steps in _FAR:
        later = navier_stokes.simulate(rows, place, seed=seed, window=steps - SNAPSHOTS + 1, **problem.options)[1]
        truth, last = to_host(later)[:, -1], found[:, steps - 1]
        size = float(np.linalg.norm(last) / np.linalg.norm(truth))
        rolled.append([float(SNAPSHOTS + steps), float(relative_l2(last, truth)), size])
    return rolled


def _marched(name: str) -> bool:
    return name in ("burgers", "navier_stokes")


def _as_flow(problem: Problem, data: OperatorData) -> OperatorData:
    """The space-time field of Burgers as a trajectory that departs from its first snapshot."""
    if problem.name != "burgers":
        return data
    return replace(data, inputs=data.outputs[:, :1], outputs=data.outputs[:, 1:])


def _whole(problem: Problem, mean: Any, truth: OperatorData) -> Any:
    """What was predicted, as the problem has it: a trajectory begins with what was given."""
    return np.concatenate([truth.outputs[:, :1], mean], axis=1) if problem.name == "burgers" else mean


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Change = Callable[[Model], Model]


def _with(**parameters: Any) -> Change:
    """Change parameters of the stages."""

    def change(model: Model) -> Model:
        changed: Model = clone(model)
        (changed.model if isinstance(changed, Marching) else changed).set_params(**parameters)
        return changed

    return change


def _on_latent(model: Model) -> Model:
    """Stages that start from the best latent model without its symmetry, which is fitted six times."""
    latent = best_model("darcy").set_params(symmetry=None, n_members=1)
    return _with(model=latent, symmetry=None)(model)


STAGE_CHANGES: dict[str, dict[str, Change]] = {
    "darcy": {
        "without symmetry": _with(symmetry=None),
        "without symmetry, from the latent model": _on_latent,
        "without symmetry, one member, 60 features": _with(symmetry=None, n_members=1, n_features=60),
        "one member": _with(n_members=1),
        "six members": _with(n_members=6),
        "60 features": _with(n_features=60),
        "240 features": _with(n_features=240),
        "one stage": _with(n_stages=1),
        "two stages": _with(n_stages=2),
        "three stages": _with(n_stages=3),
        "without products": _with(channels=Channels(single=True, products=False)),
        "with smoothed fields": _with(channels=Channels(single=True, smoothed=math.inf)),
        "points alone": _with(channels=Channels(single=True, reach=0)),
        "Gaussian means too": _with(channels=Channels(single=True, reach=2)),
        "one band": _with(channels=Channels(single=True, singles=0)),
        "2 single wavenumbers": _with(channels=Channels(single=True, singles=2)),
        "16 single wavenumbers": _with(channels=Channels(single=True, singles=16)),
        "gain 0.1": _with(channels=Channels(single=True, gain=0.1)),
        "gain 1": _with(channels=Channels(single=True, gain=1.0)),
    },
    "navier_stokes": {
        "one member": _with(n_members=1),
        "one member, 300 features, 3000 pairs": _with(n_members=1, n_features=300, max_samples=3000),
        "100 features": _with(n_features=100, n_members=1),
        "two stages": _with(n_stages=2, n_members=1),
        "nothing smoothed": _with(channels=Channels(single=True, singles=8), n_members=1),
        "without products": _with(
            channels=Channels(single=True, smoothed=math.inf, products=False, singles=8), n_members=1
        ),
        "from the mean field": _with(model="mean", n_members=1),
        "1000 pairs": _with(max_samples=1000, n_members=1),
    },
    "burgers": {
        "one member": _with(n_members=1),
        "30 features": _with(n_features=30),
        "two stages": _with(n_stages=2),
        "channels by trials": _with(channels=None),
        "without products": _with(channels=Channels(products=False, reach=2, singles=64)),
        "points alone": _with(channels=Channels(reach=0, singles=64)),
        "4 single wavenumbers": _with(channels=Channels(reach=2, singles=4)),
    },
}
"""For each problem, what is changed and how"""
