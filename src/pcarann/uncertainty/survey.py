"""What the training inputs look like, so that others can be compared with them: the view, the reach and the edge.

The reference of the novelty is what the input PCA says of samples that it has not seen: those of the validation part,
and folds that were left out of it (`crossfit`) where these are few or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pcarann.backend.arrays import Array, cuts, place_of, taken, to_host
from pcarann.backend.random import spread
from pcarann.fitted import Fitted, View
from pcarann.latent.channels import channel_sizes
from pcarann.latent.crossfit import LeftOut
from pcarann.latent.pca import PCA
from pcarann.uncertainty.extrapolation import Edge
from pcarann.uncertainty.novelty import NoveltyTest, Sight, Values, latent_parts

__all__ = ["surveyed", "view_of"]

_MEASURED = 256  # fields at a time that are looked at
_MOST_CHANNELS = 64  # along the first axis of an input
_MOST_REFERENCE = 2000  # samples


def view_of(pca: PCA, channels: int, folds: list[list[LeftOut]], names: Sequence[str], inputs: Array) -> View:
    """How inputs like these are to be looked at."""
    sizes = tuple(channel_sizes(pca)) if channels > 1 else (pca.n_components,)
    ranks = [min((one.x.shape[1] for one in part), default=size) for size, part in zip(sizes, folds, strict=False)]
    modes = tuple(min(pair) for pair in zip(sizes, ranks or sizes, strict=True))
    leading = pca.grid[0] if len(pca.grid) > 1 and pca.grid[0] <= _MOST_CHANNELS else 0
    constant = tuple(c for c in range(leading) if _is_constant(inputs, c, leading))
    if channels > 1 or constant:
        count = max(channels, leading)
        return View(sizes, modes, tuple(names) or tuple(f"channel {c}" for c in range(count)), constant)
    return View(sizes, modes, tuple(names) or tuple(f"column {j}" for j in range(min(math.prod(pca.grid), 256))))


def _is_constant(inputs: Array, channel: int, channels: int) -> bool:
    """Whether a channel has one value on all of its grid, in every sample."""
    xp = place_of(inputs).xp
    size = int(inputs.shape[1]) // channels
    part = inputs[:, channel * size : (channel + 1) * size]
    apart = float(xp.max(xp.abs(part - part[:, :1])))
    return apart <= 1e-12 * float(xp.max(xp.abs(part)))


def surveyed(
    fitted: Fitted, inputs: Array, order: list[int], folds: list[list[LeftOut]], *, unseen: bool = True
) -> Fitted:
    """The same model, with the reach and edge of its (samples, values) training inputs, latents being in this order."""
    seen = _seen(fitted, inputs, order)
    x = to_host(fitted.training_x)
    inner = fitted.pca_samples
    reference = _rows(seen, [inner + i for i in spread(len(order) - inner, _MOST_REFERENCE)])
    if folds:
        left = _left_out(fitted.view, folds, x, seen.columns, inner)
        reference = Sight.joined([left, reference]) if unseen else left
    looked_at = np.concatenate([seen.columns, seen.x], axis=1)
    ranges = (looked_at.min(axis=0), looked_at.max(axis=0))
    columns = [end[: seen.columns.shape[1]] for end in ranges]
    farthest = (float(np.linalg.norm(seen.residual, axis=1).max()), float(np.linalg.norm(seen.distance, axis=1).max()))
    pca, place = fitted.ensemble.input_pca, fitted.ensemble.place
    table = len(pca.grid) == 1 and bool(seen.columns.shape[1])
    edge = Edge.of(
        fitted.x,
        tuple(place.put(end) for end in columns) if table else None,
        residual=max(float(np.linalg.norm(reference.residual, axis=1).max()), farthest[0]),
        size=math.sqrt(pca.energy / inner),
        samples=inner,
    )
    return replace(fitted, novelty_test=NoveltyTest.of(reference, pca, inner, farthest, ranges), edge=edge)


def _seen(fitted: Fitted, inputs: Array, order: list[int]) -> Sight:
    """What is seen of all training inputs, in the order of their latents."""
    size = _MEASURED if fitted.ensemble.place.on_host else len(order)
    return Sight.joined(
        [fitted.sight(taken(inputs, order[rows]), fitted.x[rows, :]) for rows in cuts(len(order), size)]
    )


def _rows(seen: Sight, rows: list[int]) -> Sight:
    return Sight(seen.x[rows], seen.distance[rows], seen.residual[rows], seen.columns[rows], seen.parts)


def _left_out(view: View, folds: list[list[LeftOut]], x: Values, columns: Values, inner: int) -> Sight:
    """What is seen of folds by the PCAs that were fitted without them, channel by channel."""
    latents, distances, residuals = [], [], []
    for part, where, modes in zip(folds, latent_parts(view.sizes), view.modes, strict=True):
        aligned = [one.aligned(x[:inner, where]) for one in part]
        latents.append(np.concatenate([codes[:, :modes] for codes in aligned]))
        white = [one.x[:, :modes] / np.where(one.spread[:modes] > 0, one.spread[:modes], 1.0) for one in part]
        apart = np.concatenate([np.sqrt((codes**2).sum(axis=1)) for codes in white])
        distances.append(apart)
        beyond = [np.sqrt(one.residual**2 + (one.x[:, modes:] ** 2).sum(axis=1)) for one in part]
        residuals.append(np.concatenate(beyond))
    rows = [row for one in folds[0] for row in one.rows]
    return Sight(
        np.concatenate(latents, axis=1),
        np.stack(distances, 1),
        np.stack(residuals, 1),
        columns[rows],
        latent_parts(view.modes),
    )
