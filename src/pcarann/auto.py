"""The recipe: choose among the options of the estimator by validation, within a time budget.

    data ──▶ folds ──▶ unit, modes, power, metric, linear term (kernel ridge on the latents tells them apart in
                       milliseconds) ──▶ regressor ──▶ symmetry, if offered ──▶ one fit to all samples

A setting is judged by the mean relative L² error on samples that its PCAs and coefficients never saw. Settings are
tried one at a time around the best so far, and a change is kept where it lowers that error by more than chance would
(`pcarann.trials` judges, `pcarann.choice` says what a setting means).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pcarann.arrays import Array, place_of, single_threaded
from pcarann.choice import AutoReport, Choice, chosen_parameters
from pcarann.metrics import relative_l2
from pcarann.random import permutation
from pcarann.smoothing import Smoothing
from pcarann.trials import LENGTHS, Fold, KernelTrial, random_trial
from pcarann.validation import check_fields

__all__ = ["AutoReport", "Choice", "chosen_parameters", "judge_symmetry", "search"]

_STREAM = (-6,)
_POWERS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
_CUTS = (4, 8, 16, 32, 64, 128)
_ROWS = 1000  # samples at most in the search; the fit takes all
_GAIN = 0.01  # of the error, below which a change is chance
_WIDTHS = (0.01, 0.03, 0.07, 0.15)
_FEWEST_POINTS = 16  # of an axis that may be smoothed
_HOPELESS = 1.4  # times the best error, beyond which no other length is tried
_TABLE = 256  # values of an input at most for which each may be given its own unit
_SCALES = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (-2.0, 0.0), (-1.0, 1.0), (-1.0, -1.5))


class _Search:
    """The best setting so far, and the ways to better it."""

    def __init__(
        self,
        inputs: Array,
        outputs: Array,
        grid: tuple[int, ...],
        *,
        seed: int,
        deadline: float,
        tick: Callable[[str], None],
    ):
        self.seed, self.deadline, self.tick = seed, deadline, tick
        self.report = AutoReport()
        self.inputs, self.outputs, self.grid = inputs, outputs, grid
        self._folds: dict[tuple[bool, float], list[Fold]] = {}

    @property
    def best(self) -> Choice:
        """The best setting so far."""
        return self.report.choice

    def try_out(self, name: str, choice: Choice) -> bool:
        """Judge a setting at the best of its lengths and ridges; keep it if it is better by more than chance."""
        if any(name == tried for tried, _ in self.report.trials):
            return False
        if time.perf_counter() > self.deadline and self.report.trials:
            self.report.stopped = True
            return False
        self.tick(name)
        tuned, error = (
            self._tuned(choice) if choice.regressor == "kernel" else random_trial(self.folds(choice), choice, self.seed)
        )
        self.report.trials.append((name, error))
        better = error < (1 - _GAIN) * self.report.error
        if better:
            self.report.choice, self.report.error = tuned, error
        return better

    def folds(self, choice: Choice) -> list[Fold]:
        """Cut the samples into folds and encode them, once for each unit and smoothing."""
        key = (choice.unit, choice.smoothing)
        if key not in self._folds:
            inputs = Smoothing.of(self.inputs, self.grid, choice.smoothing)(self.inputs, self.grid)
            self._folds[key] = [Fold.of(inputs, self.outputs, *rows, choice.unit) for rows in self._rows()]
        return self._folds[key]

    def _rows(self) -> list[tuple[list[int], list[int]]]:
        order = permutation(int(self.inputs.shape[0]), seed=self.seed, stream=_STREAM)[:_ROWS]
        count = 1 if len(order) > 450 else 2 if len(order) > 200 else 4
        held = [order[k :: max(count, 5)] for k in range(count)]
        return [(sorted(set(order) - set(part)), sorted(part)) for part in held]

    def _tuned(self, choice: Choice) -> tuple[Choice, float]:
        """Walk along the lengths from the one at hand while the error falls."""
        trial = KernelTrial(self.folds(choice), choice)
        seen: dict[int, tuple[float, float]] = {}

        def error(index: int) -> float:
            if index not in seen:
                seen[index] = trial.error(LENGTHS[index])
            return seen[index][0]

        at = min(range(len(LENGTHS)), key=lambda i: abs(math.log(LENGTHS[i] / choice.length)))
        while error(at) < _HOPELESS * self.report.error:
            near = [i for i in (at - 1, at, at + 1) if 0 <= i < len(LENGTHS)]
            following = min(near, key=error)
            if following == at:
                break
            at = following
        return replace(choice, length=LENGTHS[at], ridge=seen[at][1]), seen[at][0]


def search(
    inputs: Array, outputs: Array, grid: tuple[int, ...], *, seed: int, budget: float, tick: Callable[[str], None]
) -> AutoReport:
    """Search for the best setting of (samples, values) inputs, on this grid, and outputs."""
    begun = time.perf_counter()
    state = _Search(inputs, outputs, grid, seed=seed, deadline=begun + budget, tick=tick)
    with single_threaded(place_of(inputs)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* was asked for")
        state.try_out("kernel", Choice())
        if inputs.shape[1] <= _TABLE:
            state.try_out("kernel, own unit for each input", replace(state.best, unit=True))
        _improve_power(state)
        _improve_smoothing(state)
        _improve_modes(state)
        _improve_metric(state)
        state.try_out("kernel, linear term", replace(state.best, linear=True))
        _try_random(state)
    state.report.seconds = time.perf_counter() - begun
    return state.report


def judge_symmetry(
    estimator: Any, parameters: dict[str, Any], X: Array, y: Array, symmetry: Any, report: AutoReport
) -> dict[str, Any]:
    """Compare one member with and without the symmetry on held-out samples; return the better parameters."""
    begun = time.perf_counter()
    place = place_of(X, parameters["device"])
    inputs, grid = check_fields(X, "X", place)
    outputs, output_grid = check_fields(y, "y", place, scalar=True)
    order = permutation(int(inputs.shape[0]), seed=parameters["random_state"], stream=_STREAM)
    rows = [place.xp.asarray(sorted(part), device=place.device) for part in (set(order) - set(order[::5]), order[::5])]
    (a, a_held), (u, u_held) = ([place.xp.take(all_, of, axis=0) for of in rows] for all_ in (inputs, outputs))
    fixed = {name: parameters[name] for name in ("random_state", "device")}
    choices, errors = (report.choice, _symmetric(report.choice)), []
    for choice in choices:
        # A metric is one on the latents of a PCA: that of the inner samples, not that of all.
        made = chosen_parameters(choice, a, u, grid) | fixed
        model = estimator(**made, n_members=1, symmetry=symmetry if choice.symmetry else None)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=.* was asked for|.* inputs lie more than")
            model.fit(place.xp.reshape(a, (-1, *grid)), place.xp.reshape(u, (-1, *output_grid)))
            found = model.predict(place.xp.reshape(a_held, (-1, *grid)))
        errors.append(float(relative_l2(found, place.xp.reshape(u_held, (-1, *output_grid)))))
    report.trials += [("without symmetry, one member", errors[0]), ("symmetry, one member", errors[1])]
    report.seconds += time.perf_counter() - begun
    if errors[1] >= errors[0]:
        return parameters
    report.choice, report.error = choices[1], errors[1]
    return chosen_parameters(choices[1], inputs, outputs, grid) | fixed | {"symmetry": symmetry}


def _symmetric(choice: Choice) -> Choice:
    """The setting beside a symmetry: no smoothing, and a metric learned by the fit, in the PCA of all copies."""
    without = replace(choice, symmetry=True, smoothing=0.0)
    return replace(without, steps=1, diagonal=False, power=0.0) if choice.steps else without


def _improve_power(state: _Search) -> None:
    """Move along the powers from the one at hand, in the direction that helps."""
    for step in (-1, 1):
        at = _POWERS.index(state.best.power) + step
        while 0 <= at < len(_POWERS):
            smoothing = f", smoothing {state.best.smoothing:g}" if state.best.smoothing else ""
            name = f"kernel, power {0 - _POWERS[at]:g}{smoothing}"
            if not state.try_out(name, replace(state.best, power=_POWERS[at])):
                break
            at += step


def _improve_smoothing(state: _Search) -> None:
    """Try to smooth fields: at the power at hand, and since smoothing flattens, at powers nearer to whitening."""
    if max(state.grid) < _FEWEST_POINTS or state.best.unit:
        return
    before = state.best
    for width in _WIDTHS:
        for power in (before.power, 0.0):
            state.try_out(
                f"kernel, power {-power:g}, smoothing {width:g}", replace(before, smoothing=width, power=power)
            )
    if state.best.smoothing:
        _improve_power(state)


def _improve_modes(state: _Search) -> None:
    """Try fewer input modes, each number with the power at hand and with one towards whitening."""
    available = int(state.folds(state.best)[0].x.shape[1])
    cuts = [cut for cut in _CUTS if cut < available]
    before = state.best
    for cut in reversed(cuts):
        for power in (before.power, min(before.power + 0.5, _POWERS[-1])):
            state.try_out(f"kernel, {cut} modes, power {0 - power:g}", replace(before, modes=cut, power=power))


def _improve_metric(state: _Search) -> None:
    """Learn the metric, all of it or one weight a latent, for as long as it helps."""
    for diagonal in (False, True):
        start = replace(state.best, steps=0, diagonal=diagonal)
        for steps in (1, 2, 3):
            name = f"kernel, {'weights' if diagonal else 'metric'} learned in {steps} step(s)"
            at = (state.best.length, state.best.ridge)
            if not state.try_out(name, replace(start, steps=steps, learned_at=at, length=at[0])):
                break


def _try_random(state: _Search) -> None:
    """Try random layers in the metric that was found, at a few scales."""
    samples = int(state.folds(state.best)[0].x.shape[0])
    half = min(1500, max(200, samples))
    for count, offsets in enumerate(_SCALES):
        choice = replace(state.best, regressor="random", widths=(half, half), offsets=offsets)
        state.try_out(f"random layers, offsets {offsets[0]:g}, {offsets[1]:g}", choice)
        if count and min(error for _, error in state.report.trials[-2:]) > _HOPELESS * state.report.error:
            break
