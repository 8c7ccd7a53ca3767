"""The recipe: choose among the options of the estimator by validation, within a time budget.

    data ──▶ folds ──▶ unit, modes, power, metric, linear term (kernel ridge on the latents tells them apart in
                       milliseconds) ──▶ regressor ──▶ symmetry, if offered ──▶ one fit to all samples

A setting is judged by the mean relative L² error on samples that its PCAs and coefficients never saw. Settings are
tried one at a time around the best so far, and a change is kept where it lowers that error by more than chance would.
One eigendecomposition of the kernel matrix, K = QΛQᵀ, gives the error at every ridge.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pcarann.arrays import Array, place_of, single_threaded, to_host
from pcarann.features import HiddenLayers, Latent, anchor_features
from pcarann.kernel import matern52, median_distance, squared_distances
from pcarann.metrics import relative_l2
from pcarann.pca import PCA, fit_pca
from pcarann.random import permutation
from pcarann.relevance import learned_metric, power_weights
from pcarann.scales import energy_matched_scales
from pcarann.smoothing import Smoothing
from pcarann.validation import check_fields

__all__ = ["AutoReport", "Choice", "chosen_parameters", "judge_symmetry", "search"]

_STREAM = (-6,)
_LENGTHS = tuple(2.0**k for k in range(-2, 10))
_RIDGES = tuple(10.0**k for k in range(-14, 1))
_POWERS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
_CUTS = (4, 8, 12, 16, 24, 48, 96)
_ROWS = 1000  # samples at most in the search; ridge and fit take all
_MOST_MODES = 400
_METRIC_ROWS = 4000  # samples at most from which the metric is learned
_KEPT_ENERGY = (1 - 1e-9, 1 - 1e-10)
_GAIN = 0.01  # of the error, below which a change is chance
_WIDTHS = (0.01, 0.03, 0.07, 0.15)
_FEWEST_POINTS = 16  # of an axis that may be smoothed
_HOPELESS = 1.4  # times the best error, beyond which no other length is tried
_TABLE = 256  # values of an input at most for which each may be given its own unit
_SCALES = ((-2.0, 0.0), (0.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (-1.0, 1.0), (-1.0, -1.5))


@dataclass(frozen=True)
class Choice:
    """One setting of the estimator."""

    unit: bool = False
    """Whether each input value is measured in units of its own spread"""
    smoothing: float = 0.0
    modes: int | None = None
    """Input modes that are kept; None for all"""
    power: float = 0.0
    steps: int = 0
    """Learning steps of the metric"""
    diagonal: bool = False
    """Whether the learned metric has one weight for each latent"""
    learned_at: tuple[float, float] = (4.0, 1e-10)
    """Length and ridge of the kernel from which the metric is learned"""
    linear: bool = False
    regressor: str = "kernel"
    length: float = 4.0
    ridge: float = 1e-10
    offsets: tuple[float, float] = (0.0, 0.0)
    """Of the scales of random layers, η"""
    widths: tuple[int, int] = (0, 0)
    symmetry: bool = False


@dataclass
class AutoReport:
    """What was tried, what it gave, and what was chosen."""

    trials: list[tuple[str, float]] = field(default_factory=list)
    """Each trial with its validation error"""
    choice: Choice = field(default_factory=Choice)
    error: float = math.inf
    """Validation error of the choice"""
    seconds: float = 0.0
    stopped: bool = False
    """Whether the budget ended the search"""

    def __str__(self) -> str:
        chosen = self.choice
        lines = [f"{len(self.trials)} settings tried in {self.seconds:.1f} s; validation error {self.error:.3g} with"]
        kernel = f"a kernel of length {chosen.length:g} medians"
        layers = f"random layers of {chosen.widths[0]} and {chosen.widths[1]} neurons"
        lines.append(f"  regressor  {kernel if chosen.regressor == 'kernel' else layers}, ridge {chosen.ridge:.0e}")
        lines.append(
            f"  inputs     {'all modes' if chosen.modes is None else f'{chosen.modes} modes'}, {_metric(chosen)}"
        )
        if chosen.unit:
            lines.append("  units      each input value in units of its own spread")
        if chosen.smoothing:
            lines.append(f"  smoothing  of the inputs by {chosen.smoothing:g} of their axes")
        lines.append(f"  linear     {'with' if chosen.linear else 'without'} a linear term")
        if any(text.startswith("symmetry") for text, _ in self.trials):
            lines.append(f"  symmetry   {'used' if chosen.symmetry else 'not used: it raised the error'}")
        if self.stopped:
            lines.append("  The budget ended the search: a larger one may find better.")
        return "\n".join(lines)


def _metric(chosen: Choice) -> str:
    if chosen.steps:
        return f"{'weights' if chosen.diagonal else 'a metric'} learned in {chosen.steps} step(s)"
    return f"latents weighted by their spread to the power {-chosen.power:g}" if chosen.power else "latents as they are"


@dataclass(frozen=True)
class _Fold:
    """Latents of inner samples and of those held out, in PCAs of the inner ones."""

    x: Array
    y: Array
    x_held: Array
    y_held: Array
    missed: Array
    """Squared norm of the held-out outputs that no output latent reaches"""
    sizes: Array
    """Norm of the held-out outputs"""

    def error(self, found: Array) -> float:
        """Mean relative L² error of predicted latents of the held-out samples."""
        xp = place_of(found).xp
        squares = xp.sum((found - self.y_held) ** 2, axis=1) + self.missed
        return float(xp.mean(xp.sqrt(squares) / self.sizes))


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
        self._folds: dict[tuple[bool, float], list[_Fold]] = {}

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
        tuned, error = self._tuned(choice) if choice.regressor == "kernel" else self._random(choice)
        self.report.trials.append((name, error))
        better = error < (1 - _GAIN) * self.report.error
        if better:
            self.report.choice, self.report.error = tuned, error
        return better

    def folds(self, choice: Choice) -> list[_Fold]:
        """Cut the samples into folds and encode them, once for each unit and smoothing."""
        key = (choice.unit, choice.smoothing)
        if key not in self._folds:
            inputs = Smoothing.of(self.inputs, self.grid, choice.smoothing)(self.inputs, self.grid)
            self._folds[key] = [_fold(inputs, self.outputs, *rows, choice.unit) for rows in self._rows()]
        return self._folds[key]

    def _rows(self) -> list[tuple[list[int], list[int]]]:
        order = permutation(int(self.inputs.shape[0]), seed=self.seed, stream=_STREAM)[:_ROWS]
        count = 1 if len(order) > 600 else 3 if len(order) > 200 else 5
        held = [order[k :: max(count, 5)] for k in range(count)]
        return [(sorted(set(order) - set(part)), sorted(part)) for part in held]

    def _tuned(self, choice: Choice) -> tuple[Choice, float]:
        """Walk along the lengths from the one at hand while the error falls."""
        parts = [(fold, *_metric_of(choice, fold)) for fold in self.folds(choice)]
        seen: dict[int, tuple[float, float]] = {}

        def error(index: int) -> float:
            if index not in seen:
                seen[index] = _kernel_error(parts, choice, _LENGTHS[index])
            return seen[index][0]

        at = min(range(len(_LENGTHS)), key=lambda i: abs(math.log(_LENGTHS[i] / choice.length)))
        while error(at) < _HOPELESS * self.report.error:
            near = [i for i in (at - 1, at, at + 1) if 0 <= i < len(_LENGTHS)]
            following = min(near, key=error)
            if following == at:
                break
            at = following
        return replace(choice, length=_LENGTHS[at], ridge=seen[at][1]), seen[at][0]

    def _random(self, choice: Choice) -> tuple[Choice, float]:
        errors = [0.0] * len(_RIDGES)
        ridge_unit = 1.0
        folds = self.folds(choice)
        for fold in folds:
            metric, modes = _metric_of(choice, fold)
            x = fold.x[:, :modes]
            layers = HiddenLayers(self.seed, 0, (modes, *choice.widths))
            latent = Latent(metric, power_weights(x, 1.0) / _largest(x) if choice.linear else None)
            scales = energy_matched_scales(layers, latent.weighted(x), fold.y)
            scales = (scales[0] * math.exp(choice.offsets[0]), scales[1] * math.exp(choice.offsets[1]))
            features, H = anchor_features(layers, x, scales, latent)
            ridge_unit = float(place_of(H).xp.sum(H**2)) / int(H.shape[0]) or 1.0
            gram, cross = H @ H.T, features(fold.x_held[:, :modes]) @ H.T
            for i, found in enumerate(_all_ridges(gram, cross, fold.y, ridge_unit)):
                errors[i] += fold.error(found) / len(folds)
        i = min(range(len(errors)), key=errors.__getitem__)
        return replace(choice, ridge=ridge_unit * _RIDGES[i]), errors[i]


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


def chosen_parameters(choice: Choice, inputs: Array, outputs: Array, grid: tuple[int, ...]) -> dict[str, Any]:
    """Parameters of the estimator that a choice means for these samples."""
    fields = Smoothing.of(inputs, grid, choice.smoothing)(inputs, grid)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* was asked for")
        pca, x = fit_input_pca(fields, choice)
        _, y = fit_pca(outputs, _KEPT_ENERGY[1], name="outputs")
    rows = slice(0, min(_METRIC_ROWS, int(x.shape[0])))
    metric = metric_on(x[rows, :], y[rows, :], choice) if choice.steps else None
    made: dict[str, Any] = {
        "n_components": (pca.n_components, _KEPT_ENERGY[1]),
        "regressor": choice.regressor,
        "ridge": choice.ridge,
        "linear": choice.linear,
        "relevance": choice.power if metric is None else "learned" if choice.symmetry else to_host(metric),
        "smoothing": choice.smoothing,
    }
    if choice.unit:
        made["quadrature"] = (to_host(unit_weights(fields)).reshape(grid), None)
    if choice.regressor == "kernel":
        return made | {"length": choice.length}
    layers = HiddenLayers(0, 0, (pca.n_components, *choice.widths))
    weights = metric_on(x, y, choice) if metric is None else metric
    scales = energy_matched_scales(layers, Latent(weights).weighted(x), y)
    offset = [scale * math.exp(eta) for scale, eta in zip(scales, choice.offsets, strict=True)]
    return made | {"widths": choice.widths, "scales": (offset[0], offset[1])}


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
        for power in (before.power, 0.0, 0.5):
            name = f"kernel, power {0 - power:g}, smoothing {width:g}"
            state.try_out(name, replace(before, smoothing=width, power=power))
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
    for offsets in _SCALES:
        choice = replace(state.best, regressor="random", widths=(half, half), offsets=offsets)
        state.try_out(f"random layers, offsets {offsets[0]:g}, {offsets[1]:g}", choice)


def metric_on(x: Array, y: Array, choice: Choice) -> Array | None:
    """The weights or metric that a choice means for these (samples, latent) rows."""
    if not choice.steps:
        return power_weights(x, choice.power) if choice.power else None
    metric = power_weights(x, choice.power)
    length, ridge = choice.learned_at
    for _ in range(choice.steps):
        metric = learned_metric(x, y, metric, length=length, ridge=ridge, diagonal=choice.diagonal)
    return metric


def unit_weights(inputs: Array) -> Array:
    """1 / s² of each input value over the samples, s its spread: the quadrature that measures it in its own unit."""
    xp = place_of(inputs).xp
    spread = xp.std(inputs, axis=0)
    return 1.0 / xp.where(spread > 0, spread, xp.ones_like(spread)) ** 2


def fit_input_pca(inputs: Array, choice: Choice) -> tuple[PCA, Array]:
    """The input PCA that a choice means, with the latents of the inputs."""
    weights = unit_weights(inputs) if choice.unit else None
    wanted: float | int = _KEPT_ENERGY[0] if choice.modes is None else choice.modes
    pca, x = fit_pca(inputs, wanted, weights=weights, name="inputs")
    if pca.n_components > _MOST_MODES:
        pca, x = fit_pca(inputs, _MOST_MODES, weights=weights, name="inputs")
    return pca, x


def _fold(inputs: Array, outputs: Array, inner: list[int], held: list[int], unit: bool) -> _Fold:
    place = place_of(inputs)
    xp = place.xp
    rows, others = (xp.asarray(part, device=place.device) for part in (inner, held))
    input_pca, x = fit_input_pca(xp.take(inputs, rows, axis=0), Choice(unit=unit))
    truth = xp.take(outputs, others, axis=0)
    output_pca, y = fit_pca(xp.take(outputs, rows, axis=0), _KEPT_ENERGY[1], name="outputs")
    y_held = output_pca.encode(truth)
    sizes = xp.linalg.vector_norm(truth, axis=1)
    return _Fold(
        x,
        y,
        input_pca.encode(xp.take(inputs, others, axis=0)),
        y_held,
        output_pca.residual(truth, y_held) ** 2,
        xp.where(sizes > 0, sizes, xp.ones_like(sizes)),
    )


def _metric_of(choice: Choice, fold: _Fold) -> tuple[Array | None, int]:
    modes = min(choice.modes or int(fold.x.shape[1]), int(fold.x.shape[1]))
    return metric_on(fold.x[:, :modes], fold.y, choice), modes


def _kernel_error(parts: list[tuple[_Fold, Array | None, int]], choice: Choice, length: float) -> tuple[float, float]:
    """Mean error over folds at the best ridge, and that ridge."""
    errors = [0.0] * len(_RIDGES)
    for fold, metric, modes in parts:
        latent = Latent(metric)
        x, held = latent.weighted(fold.x[:, :modes]), latent.weighted(fold.x_held[:, :modes])
        unit = length * median_distance(x)
        gram, cross = matern52(squared_distances(x, x), unit), matern52(squared_distances(held, x), unit)
        if choice.linear:
            factor = power_weights(fold.x[:, :modes], 1.0) / _largest(fold.x)
            white = fold.x[:, :modes] * factor
            gram += white @ white.T
            cross += (fold.x_held[:, :modes] * factor) @ white.T
        for i, found in enumerate(_all_ridges(gram, cross, fold.y, 1.0)):
            errors[i] += fold.error(found) / len(parts)
    i = min(range(len(errors)), key=errors.__getitem__)
    return errors[i], _RIDGES[i]


def _all_ridges(gram: Array, cross: Array, y: Array, unit: float) -> list[Array]:
    """Predictions k(X_held, X)(K + λI)⁻¹Y at every ridge, from one eigendecomposition."""
    xp = place_of(gram).xp
    values, vectors = xp.linalg.eigh(gram)
    values = xp.clip(values, min=0.0)
    left, right = cross @ vectors, vectors.T @ y
    return [left @ (right / (values + unit * ridge)[:, None]) for ridge in _RIDGES]


def _largest(x: Array) -> float:
    xp = place_of(x).xp
    return float(xp.max(xp.sqrt(xp.mean(x**2, axis=0)))) or 1.0
