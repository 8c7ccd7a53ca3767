"""Which inputs matter: a metric on the latents, learned from the data in closed form.

Isotropic random weights, and isotropic kernels, spend themselves on directions along which the output does not
change. Let f be a kernel ridge fit of the outputs on latents in the metric R, x̃ = Rᵀx,

    f(x) = Σₙ k(x̃, z̃ₙ) αₙ,   α = (K + λI)⁻¹ Y,

and M its average gradient outer product over training samples (Radhakrishnan et al., 2024),

    M = mean over x of ∇f(x) ∇f(x)ᵀ,   ∇ₓf = R Σₙ k'(x̃, z̃ₙ) αₙᵀ.

M is large along the directions that move the output and small along the others, so that R ← M^{1/2} is the better
metric. One or two such steps suffice; a power a little below ½ guards against directions that only seem not to
count. With a diagonal M each latent coordinate gets a weight of its own.

Inputs of several channels (snapshots, coefficient fields), each with a PCA of its own, get one weight a channel. All
begin with 1 over the channel's spread, so that units do not count. With the trace of M over the latents of channel c,

    w_c ← w_c (tr_c M / max tr M)^power      in the weighted latents,

again and again while the error of leaving samples out falls: channels that say nothing beyond the others fade, and
the guard keeps those that help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.random import spread
from pcarann.features.kernel import choose_length, matern52, median_distance, squared_distances
from pcarann.latent.channels import latent_parts
from pcarann.latent.rows import TrainingRows
from pcarann.latent.weighting import Weighting

__all__ = ["channel_weights", "learned_metric", "power_weights", "weighting_of", "whitening"]

POWER = 0.4
_LEAST_SHARE = 1e-6  # of the largest slope, so that no channel is lost for good
_ROUNDS = 12  # of the weights of channels, at most
_ROWS = 3000  # from which a metric is learned, at most
_POINTS = 300  # samples over which gradients are averaged
# Of the samples: with a ridge nearer to the rounding of k the metric would be a matter of chance.
_LEAST_RIDGE = 1e-10
_OUTPUTS = 20  # leading output latents whose gradients count: they hold nearly all of the energy


def weighting_of(rows: TrainingRows, wanted: Any, *, linear: bool, sizes: Callable[[], Sequence[int]]) -> Weighting:
    """Relevance and linear term, from the inner samples and, for a learned metric, their copies.

    `wanted` is a power, "learned", "channels" (of which `sizes` gives the latents), or an array.
    """
    x, _ = rows.inner
    latents, beside = int(x.shape[1]), whitening(x) if linear else None
    if isinstance(wanted, float):
        return Weighting(power_weights(x, wanted) if wanted else None, beside)
    if not isinstance(wanted, str):
        if wanted.shape not in ((latents,), (latents, latents)):
            fits = f"({latents},) or ({latents}, {latents}) fits"
            raise ValueError(f"relevance has shape {wanted.shape}, but the inputs have {latents} latents: {fits}.")
        return Weighting(place_of(x).put(wanted.copy()), beside)
    learned_from = rows.some_inner(_ROWS)
    if wanted == "channels":
        return Weighting(channel_weights(*learned_from, sizes=sizes()), beside)
    metric = power_weights(learned_from[0], 0.0)
    length, ridge, _ = choose_length(*learned_from, Weighting(metric))
    return Weighting(learned_metric(*learned_from, metric, length=length, ridge=ridge), beside)


def power_weights(x: Array, power: float) -> Array:
    """Weights s_j^(−α) of (samples, latent) rows with spread s_j, the largest spread counting as 1, (latent,)."""
    xp = place_of(x).xp
    spread = xp.sqrt(xp.mean(x**2, axis=0))
    largest = float(xp.max(spread)) or 1.0
    return xp.where(spread > 0, spread / largest, xp.ones_like(spread)) ** (-power)


def whitening(x: Array) -> Array:
    """1 / s_j of (samples, latent) rows with spread s_j, (latent,): factors that give each coordinate unit spread."""
    xp = place_of(x).xp
    largest = float(xp.max(xp.sqrt(xp.mean(x**2, axis=0)))) or 1.0
    return power_weights(x, 1.0) / largest


def learned_metric(
    x: Array, y: Array, metric: Array, *, length: float, ridge: float, diagonal: bool = False, power: float = POWER
) -> Array:
    """Return M^power, (latent, latent), or its diagonal form, (latent,), for a fit in the given metric.

    `metric` is R, (latent, latent), or weights, (latent,); `length` is in medians of the distance.
    """
    place = place_of(x)
    xp = place.xp
    z = Weighting(metric).weighted(x)
    with single_threaded(place):  # the solution below amplifies how sums are rounded
        outer = _gradients(z, y, length * median_distance(z), ridge)
    outer = outer * metric[:, None] * metric[None, :] if metric.ndim == 1 else metric @ outer @ metric.T
    if diagonal:
        weights = xp.linalg.diagonal(outer) ** power
        return weights / (float(xp.max(weights)) or 1.0)
    with single_threaded(place):
        values, vectors = xp.linalg.eigh(outer / (float(xp.linalg.trace(outer)) or 1.0))
        return (vectors * xp.clip(values, min=0.0) ** power) @ vectors.T


def _gradients(z: Array, y: Array, unit: float, ridge: float) -> Array:
    """Σ ∇f ∇fᵀ of a fit on weighted (samples, latent) rows, over some of them, (latent, latent)."""
    place = place_of(z)
    xp = place.xp
    squared = squared_distances(z, z)
    points = spread(int(z.shape[0]), _POINTS)
    slopes = _slope(taken(squared, points), unit)
    gram = matern52(squared, unit)
    gram += max(ridge, _LEAST_RIDGE * int(z.shape[0])) * place.eye(int(z.shape[0]))
    coefficients = xp.linalg.solve(gram, y[:, : min(_OUTPUTS, int(y.shape[1]))])
    outer = place.zeros(int(z.shape[1]), int(z.shape[1]))
    for at, i in enumerate(points):
        row = slopes[at, :]
        gradient = z[i, :][:, None] * (row @ coefficients)[None, :] - (z * row[:, None]).T @ coefficients
        outer += gradient @ gradient.T
    return outer


def channel_weights(x: Array, y: Array, *, sizes: Sequence[int]) -> Array:
    """Return weights of the latents, (latent,), one value a channel, for channels of so many latents."""
    place = place_of(x)
    xp = place.xp
    parts = latent_parts(sizes)
    weights = place.zeros(int(x.shape[1]))
    for part in parts:
        weights[part] = 1.0 / (math.sqrt(float(xp.sum(xp.mean(x[:, part] ** 2, axis=0)))) or 1.0)
    length, ridge, least = choose_length(x, y, Weighting(weights))
    for _ in range(_ROUNDS):
        slopes = learned_metric(x, y, weights, length=length, ridge=ridge, diagonal=True, power=1.0) / weights**2
        energies = [float(xp.sum(slopes[part])) for part in parts]
        trial = weights + 0.0
        for part, energy in zip(parts, energies, strict=True):
            trial[part] *= max(energy / (max(energies) or 1.0), _LEAST_SHARE) ** POWER
        length, ridge, error = choose_length(x, y, Weighting(trial))
        if not error < least:
            break
        weights, least = trial, error
    return weights / float(xp.max(weights))


def _slope(squared: Array, length: float) -> Array:
    """k'(r)/r of squared distances, the factor of x̃ − z̃ in the gradient of the kernel, up to a constant."""
    xp = place_of(squared).xp
    root = xp.sqrt(squared * (5.0 / length**2))
    return (1.0 + root) * xp.exp(-root) / math.pow(length, 2)
