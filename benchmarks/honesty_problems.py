"""Small problems of many kinds, on which reports, intervals and novelty are compared with the truth.

Tables of parameters, fields and flows; smooth, rough, noisy, heavy-tailed, constant in parts, in awkward units. Each
function takes a generator and a number of samples and returns inputs and outputs. Those in `ASIDE` are left out of
ordinary runs: nothing in the library was tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ASIDE", "FIELDS", "FLOWS", "PROBLEMS", "TABLES", "problem"]

Values = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[Values, Values]
Problem = Callable[[np.random.Generator, int], Pair]

_X = np.linspace(0, 1, 48)
_PERIOD = np.linspace(0, 2 * np.pi, 48, endpoint=False)


def problem(name: str, samples: int, seed: int) -> Pair:
    """Inputs and outputs of a problem by its name."""
    return PROBLEMS[name](np.random.default_rng([seed, *name.encode()]), samples)


# Tables of parameters


def _fin(rng: np.random.Generator, n: int) -> Pair:
    """Temperature along a cooled fin: conductivity, heat transfer, base temperature in their own units."""
    k, h, base = rng.uniform(20, 200, n), rng.uniform(5, 100, n), rng.uniform(320, 400, n)
    m = np.sqrt(4 * h / (k * 0.005))[:, None]
    return np.column_stack([k, h, base]), 300 + (base[:, None] - 300) * np.cosh(m * 0.1 * (1 - _X)) / np.cosh(m * 0.1)


def _oscillator(rng: np.random.Generator, n: int) -> Pair:
    damping, frequency = rng.uniform(0.02, 0.4, n), rng.uniform(4, 12, n)
    t = 2 * _X
    signal = np.exp(-damping[:, None] * frequency[:, None] * t) * np.cos(frequency[:, None] * t)
    return np.column_stack([damping, frequency]), signal


def _borehole(rng: np.random.Generator, n: int) -> Pair:
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    X = low + (high - low) * rng.random((n, 8))
    rw, r, Tu, Hu, Tl, Hl, L, Kw = X.T
    ratio = np.log(r / rw)
    flow = 2 * np.pi * Tu * (Hu - Hl) / (ratio * (1 + 2 * L * Tu / (ratio * rw**2 * Kw) + Tu / Tl))
    return X, flow[:, None]


def _ishigami(rng: np.random.Generator, n: int) -> Pair:
    X = rng.uniform(-np.pi, np.pi, (n, 3))
    return X, (np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0]))[:, None]


def _reaction(rng: np.random.Generator, n: int) -> Pair:
    """Two rates over decades; concentrations of A → B → C in time."""
    k1, k2 = 10 ** rng.uniform(-1, 1, n), 10 ** rng.uniform(-1, 1, n) * 1.001
    t = 4 * _X
    a, c = np.exp(-k1[:, None] * t), np.exp(-k2[:, None] * t)
    return np.column_stack([k1, k2]), (k1 / (k2 - k1))[:, None] * (a - c)


def _ten_parameters(rng: np.random.Generator, n: int) -> Pair:
    X = rng.uniform(0, 1, (n, 10))
    shape = np.sin(np.pi * _X)[None, :] * X[:, 2:3] + np.cos(3 * X[:, 3:4] * _X)
    return X, np.sin(np.pi * X[:, :1] * X[:, 1:2]) + shape


def _noisy_table(rng: np.random.Generator, n: int) -> Pair:
    X = rng.uniform(-1, 1, (n, 4))
    clean = np.tanh(2 * X[:, :1] + _X) * X[:, 1:2] + X[:, 2:3] ** 2
    return X, clean + 0.1 * clean.std() * rng.normal(size=clean.shape)


def _noise_alone(rng: np.random.Generator, n: int) -> Pair:
    return rng.normal(size=(n, 4)), 1 + 0.5 * rng.normal(size=(n, 24))


def _kink(rng: np.random.Generator, n: int) -> Pair:
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.abs(X[:, :1] - 0.3 * X[:, 1:2]) * (1 + _X) + np.maximum(X[:, 2:3] - _X + 0.5, 0)


def _moving_front(rng: np.random.Generator, n: int) -> Pair:
    X = np.column_stack([rng.uniform(0.2, 0.8, n), rng.uniform(20, 60, n)])
    return X, 1 / (1 + np.exp(X[:, 1:] * (_X - X[:, :1])))


def _awkward_units(rng: np.random.Generator, n: int) -> Pair:
    Z = rng.uniform(-1, 1, (n, 3))
    return 1 + Z * np.array([1e-7, 1e5, 1e-2]), 300 + 0.02 * (np.sin(2 * Z[:, :1] + 3 * _X) + Z[:, 1:2] * Z[:, 2:] * _X)


def _skewed(rng: np.random.Generator, n: int) -> Pair:
    X = rng.lognormal(0, 0.8, (n, 3))
    return X, np.exp(-X[:, :1] * _X) * np.sqrt(X[:, 1:2]) + 0.2 * np.log(X[:, 2:3])


# Fields


def _smooth_fields(rng: np.random.Generator, n: int, power: float = 1.5, modes: int = 14) -> Values:
    k = np.arange(1, modes + 1)
    a, b = rng.normal(size=(2, n, modes)) / k**power
    return a @ np.cos(k[:, None] * _PERIOD) + b @ np.sin(k[:, None] * _PERIOD)


def _green(power: float) -> Values:
    return 1 / (1 + np.arange(len(_PERIOD) // 2 + 1) ** power)


def _screened(rng: np.random.Generator, n: int) -> Pair:
    a = _smooth_fields(rng, n)
    return a, np.fft.irfft(np.fft.rfft(np.tanh(a)) * _green(2.0), len(_PERIOD))


def _linear_operator(rng: np.random.Generator, n: int) -> Pair:
    a = _smooth_fields(rng, n, 1.0, 20)
    return a, np.fft.irfft(np.fft.rfft(a) * _green(1.5), len(_PERIOD))


def _rod(rng: np.random.Generator, n: int) -> Pair:
    """−(k u′)′ = 1 with a lognormal conductivity: two integrals."""
    k = np.exp(_smooth_fields(rng, n) * 0.6)
    x = np.linspace(0, 1, k.shape[1])
    first, second = np.cumsum(1 / k, axis=1), np.cumsum(x / k, axis=1)
    return k, (first * (second[:, -1:] / first[:, -1:]) - second) / k.shape[1]


def _square(rng: np.random.Generator, n: int) -> Pair:
    a = _smooth_fields(rng, n)
    return a, a**2 / (1 + np.abs(np.roll(a, 5, axis=1)))


def _two_valued(rng: np.random.Generator, n: int) -> Pair:
    a = np.where(_smooth_fields(rng, n) > 0, 2.0, 1.0)
    return a, np.fft.irfft(np.fft.rfft(1 / a) * _green(2.0), len(_PERIOD))


def _noisy_fields(rng: np.random.Generator, n: int) -> Pair:
    a, u = _screened(rng, n)
    return a, u + 0.05 * u.std() * rng.normal(size=u.shape)


def _heavy_tails(rng: np.random.Generator, n: int) -> Pair:
    a = _smooth_fields(rng, n) * np.exp(0.7 * rng.normal(size=(n, 1)))
    return a, np.fft.irfft(np.fft.rfft(np.arcsinh(a)) * _green(1.0), len(_PERIOD))


def _rough(rng: np.random.Generator, n: int) -> Pair:
    a = _smooth_fields(rng, n, 0.5, 23)
    return a, np.fft.irfft(np.fft.rfft(np.sin(a)) * _green(1.0), len(_PERIOD))


def _plane(rng: np.random.Generator, n: int) -> Pair:
    """A 16² coefficient, smoothed after a pointwise nonlinearity."""
    k = np.fft.fftfreq(16, 1 / 16)
    sizes = 1 / (1 + k[:, None] ** 2 + k**2) ** 1.2
    a = np.fft.ifft2(np.fft.fft2(rng.normal(size=(n, 16, 16))) * sizes * 16).real
    return a, np.fft.ifft2(np.fft.fft2(np.exp(a)) / (1 + k[:, None] ** 2 + k**2)).real


def _offset(rng: np.random.Generator, n: int) -> Pair:
    a, u = _screened(rng, n)
    return 1e3 + a, 1e5 + 10 * u


# Flows: (samples, times, points), the first four snapshots are inputs


def _snapshots(initial: Values, step: Callable[[Values], Values], times: int = 12) -> Pair:
    states = [initial]
    for _ in range(times - 1):
        states.append(step(states[-1]))
    whole = np.stack(states, axis=1)
    return whole[:, :4], whole[:, 4:]


def _multiplied(symbol: Values) -> Callable[[Values], Values]:
    return lambda u: np.fft.irfft(np.fft.rfft(u) * symbol, u.shape[-1])


_K = np.arange(len(_PERIOD) // 2 + 1)


def _heat(rng: np.random.Generator, n: int) -> Pair:
    return _snapshots(_smooth_fields(rng, n, 1.0), _multiplied(np.exp(-0.02 * _K**2)))


def _advection(rng: np.random.Generator, n: int) -> Pair:
    return _snapshots(_smooth_fields(rng, n), _multiplied(np.exp(-0.15j * _K)))


def _burgers(rng: np.random.Generator, n: int) -> Pair:
    def step(u: Values) -> Values:
        for _ in range(20):
            slope = np.fft.irfft(1j * _K * np.fft.rfft(u), u.shape[-1])
            u = np.fft.irfft(np.fft.rfft(u - 0.004 * u * slope) * np.exp(-0.004 * 0.1 * _K**2), u.shape[-1])
        return u

    return _snapshots(0.5 * _smooth_fields(rng, n), step)


def _allen_cahn(rng: np.random.Generator, n: int) -> Pair:
    def step(u: Values) -> Values:
        for _ in range(4):
            u = u / np.sqrt(u**2 + (1 - u**2) * np.exp(-0.1))
            u = _multiplied(np.exp(-0.05 * 0.05 * _K**2))(u)
        return u

    return _snapshots(np.tanh(_smooth_fields(rng, n)), step)


def _logistic(rng: np.random.Generator, n: int) -> Pair:
    """Growth at every point, mixed slowly."""

    def step(u: Values) -> Values:
        return _multiplied(np.exp(-0.01 * _K**2))(u + 0.2 * u * (1 - u))

    return _snapshots(0.5 + 0.2 * np.tanh(_smooth_fields(rng, n)), step)


def _wave(rng: np.random.Generator, n: int) -> Pair:
    """Two travelling parts, so that one snapshot does not say what follows."""
    right, left = _smooth_fields(rng, n), 0.3 * _smooth_fields(rng, n)
    forward, backward = _multiplied(np.exp(-0.2j * _K)), _multiplied(np.exp(0.2j * _K))
    states = []
    for _ in range(12):
        states.append(right + left)
        right, left = forward(right), backward(left)
    whole = np.stack(states, axis=1)
    return whole[:, :4], whole[:, 4:]


def _noisy_heat(rng: np.random.Generator, n: int) -> Pair:
    X, y = _heat(rng, n)
    return X + 0.02 * rng.normal(size=X.shape), y + 0.02 * rng.normal(size=y.shape)


def _kuramoto(rng: np.random.Generator, n: int) -> Pair:
    """Phases on a ring with neighbours: strongly nonlinear, bounded."""

    def step(u: Values) -> Values:
        for _ in range(3):
            u = u + 0.2 * (np.sin(np.roll(u, 1, -1) - u) + np.sin(np.roll(u, -1, -1) - u))
        return u

    return _snapshots(_smooth_fields(rng, n, 1.0), step)


TABLES: dict[str, Problem] = {
    "fin": _fin,
    "oscillator": _oscillator,
    "borehole": _borehole,
    "ishigami": _ishigami,
    "reaction": _reaction,
    "ten parameters": _ten_parameters,
    "noisy table": _noisy_table,
    "noise alone": _noise_alone,
    "kink": _kink,
    "moving front": _moving_front,
    "awkward units": _awkward_units,
    "skewed": _skewed,
}
FIELDS: dict[str, Problem] = {
    "screened": _screened,
    "linear operator": _linear_operator,
    "rod": _rod,
    "square": _square,
    "two-valued": _two_valued,
    "noisy fields": _noisy_fields,
    "heavy tails": _heavy_tails,
    "rough": _rough,
    "plane": _plane,
    "offset": _offset,
}
FLOWS: dict[str, Problem] = {
    "heat": _heat,
    "advection": _advection,
    "burgers": _burgers,
    "allen-cahn": _allen_cahn,
    "logistic": _logistic,
    "wave": _wave,
    "noisy heat": _noisy_heat,
    "phases": _kuramoto,
}
PROBLEMS = TABLES | FIELDS | FLOWS
ASIDE = ("reaction", "skewed", "awkward units", "square", "heavy tails", "plane", "logistic", "phases")
"""Not run unless asked for: looked at once, at the end"""
