"""How much each block of input latents counts: the weights that make the outputs likeliest.

With D_p the squared distances of samples in block p, in units of its spread, a Matérn kernel sees

    r² = Σ_p w_p² D_p,   K = k(r) + λ I.

The weights and λ maximise the likelihood of the leading output latents Y under a Gaussian process with one variance,

    L = −½ log|K| − ½ N log tr(Yᵀ K⁻¹ Y),      ∂L/∂K = ½ N α αᵀ / tr(Yᵀα) − ½ K⁻¹,   α = K⁻¹ Y,

so that blocks that say nothing fade and those that bend the output stand out. (The slopes of a fit, by which
`relevance` weighs channels, mislead where a fit is poor because of the very blocks that should fade.) A few hundred
samples are enough for so few numbers. Weights are rounded to quarters of an octave, the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from pcarann.backend.arrays import Array, Place, place_of, taken, to_host
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.random import spread
from pcarann.latent.channels import latent_parts

__all__ = ["part_weights"]

_ROWS = 300
_STARTS = (1.0, 0.25, 0.06)  # weights of all parts from which the search begins, the likeliest of them
_BOUNDS = (math.log(1e-4), math.log(30.0))
_RIDGES = (math.log(1e-9), math.log(1.0))
_STEPS = 60
_LEAST = 1e-3  # of the largest weight, so that no part is lost for good

Values = np.ndarray[Any, np.dtype[np.float64]]


def part_weights(x: Array, y: Array, *, sizes: Sequence[int]) -> tuple[Array, float]:
    """Return weights of the latents, (latent,), one for each part of so many, and −L/N, how unlikely the outputs are.

    The largest weight is 1 over its part's spread.
    """
    place = place_of(x)
    xp, parts = place.xp, latent_parts(sizes)
    units = [math.sqrt(float(xp.sum(xp.mean(x[:, part] ** 2, axis=0)))) or 1.0 for part in parts]
    rows = spread(int(x.shape[0]), _ROWS)
    some, targets = to_host(taken(x, rows)), to_host(taken(y, rows))
    with single_threaded(Place(np, None)):
        weights, value = _likeliest([some[:, part] / unit for part, unit in zip(parts, units, strict=True)], targets)
    found = place.zeros(int(x.shape[1]))
    for part, unit, weight in zip(parts, units, weights, strict=True):
        found[part] = float(weight) / unit
    return found, value


def _likeliest(parts: Sequence[Values], y: Values) -> tuple[Values, float]:
    """The weight of each of (samples, latent) parts, the largest 1; and −L/N."""
    squared = np.stack([_squared_distances(part) for part in parts])
    y = y - y.mean(axis=0)
    size = float(np.sqrt(np.mean(y**2)))
    if not size > 0:
        return np.ones(len(parts)), 0.0
    y = y / size
    beginnings = [np.array([*[math.log(w)] * len(parts), math.log(1e-4)]) for w in _STARTS]
    start = min(beginnings, key=lambda logarithms: _unlikelihood(logarithms, squared, y)[0])
    bounds = [_BOUNDS] * len(parts) + [_RIDGES]
    found = minimize(
        _unlikelihood, start, args=(squared, y), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
    )
    logarithms = found.x[:-1] - found.x[:-1].max()
    rounded: Values = 2.0 ** (np.round(4 * logarithms / math.log(2)) / 4)
    return np.maximum(rounded, _LEAST), float(found.fun)


def _unlikelihood(logarithms: Values, squared: Values, y: Values) -> tuple[float, Values]:
    """−L/N and its gradient with respect to log w and log λ."""
    count = len(y)
    weights, ridge = np.exp(2 * logarithms[:-1]), math.exp(logarithms[-1])
    scaled = 5.0 * np.tensordot(weights, squared, axes=1)
    root = np.sqrt(scaled)
    decay = np.exp(-root)
    K = (1 + root + scaled / 3) * decay
    K[np.diag_indices(count)] += ridge
    factor = cho_factor(K, lower=True, check_finite=False)
    alpha = cho_solve(factor, y, check_finite=False)
    energy = float(np.sum(y * alpha))
    slope = 0.5 * cho_solve(factor, np.eye(count), check_finite=False) - (0.5 * count / energy) * (alpha @ alpha.T)
    by_square = slope * (-(5.0 / 6.0) * (1 + root) * decay)  # ∂k/∂r²
    gradient = np.array([2 * w * float(np.sum(by_square * part)) for w, part in zip(weights, squared, strict=True)])
    value = float(np.sum(np.log(np.diag(factor[0])))) + 0.5 * count * math.log(energy)
    return value / count, np.append(gradient, ridge * float(np.trace(slope))) / count


def _squared_distances(x: Values) -> Values:
    squares = np.sum(x**2, axis=1)
    found: Values = np.maximum(squares[:, None] + squares[None, :] - 2 * x @ x.T, 0.0)
    return found
