"""What the training inputs look like, so that others can be compared with them: the test of novelty, and the edge."""

from __future__ import annotations

import math

import numpy as np

from pcarann.backend.arrays import Array, cuts, place_of, taken, to_host
from pcarann.backend.random import spread
from pcarann.latent.channels import latent_parts
from pcarann.latent.crossfit import LeftOut
from pcarann.latent.pca import PCA
from pcarann.latent.rows import TrainingRows
from pcarann.uncertainty.extrapolation import Edge
from pcarann.uncertainty.novelty import NoveltyTest, Sight, Values
from pcarann.uncertainty.view import View

__all__ = ["survey"]

_FAR = (-1e300, 1e300)  # ends of what has no range

_MEASURED = 256  # fields at a time that are looked at
_MOST_REFERENCE = 2000  # samples


def survey(
    view: View, pca: PCA, rows: TrainingRows, inputs: Array, folds: list[list[LeftOut]]
) -> tuple[NoveltyTest, Edge]:
    """The test of novelty and the edge of (samples, values) training inputs, whose rows were encoded by this PCA."""
    order, inner = rows.order.samples, rows.order.inner
    parts = cuts(len(order), _MEASURED if place_of(inputs).on_host else len(order))
    seen = Sight.joined([view.sight(pca, inner, taken(inputs, order[part]), rows.x[part, :]) for part in parts])
    some = [inner + i for i in spread(len(order) - inner, _MOST_REFERENCE)]
    reference = Sight(seen.x[some], seen.distance[some], seen.residual[some], seen.columns[some], seen.parts)
    if folds:
        left = _left_out(view, folds, to_host(rows.x[:inner, :]), seen.columns)
        # What belongs to samples that the PCA has seen is no news to it.
        reference = left if rows.order.together > 1 else Sight.joined([left, reference])
    looked_at = np.concatenate([seen.columns, seen.x], axis=1)
    ranges = (looked_at.min(axis=0), looked_at.max(axis=0))
    columns = [
        view.spread_out(end[: seen.columns.shape[1]], pca.grid, far) for end, far in zip(ranges, _FAR, strict=True)
    ]
    farthest = (float(np.linalg.norm(seen.residual, axis=1).max()), float(np.linalg.norm(seen.distance, axis=1).max()))
    place = place_of(rows.x)
    table = len(pca.grid) == 1 and bool(seen.columns.shape[1])
    edge = Edge.of(
        rows.x,
        tuple(place.put(end) for end in columns) if table else None,
        residual=max(float(np.linalg.norm(reference.residual, axis=1).max()), farthest[0]),
        size=math.sqrt(pca.energy / inner),
        samples=inner,
    )
    return NoveltyTest.of(reference, pca, inner, farthest, ranges), edge


def _left_out(view: View, folds: list[list[LeftOut]], x: Values, columns: Values) -> Sight:
    """What is seen of folds by the PCAs that were fitted without them, channel by channel."""
    latents, distances, residuals = [], [], []
    for part, where, modes in zip(folds, latent_parts(view.sizes), view.modes, strict=True):
        latents.append(np.concatenate([one.aligned(x[:, where])[:, :modes] for one in part]))
        white = [one.x[:, :modes] / np.where(one.spread[:modes] > 0, one.spread[:modes], 1.0) for one in part]
        distances.append(np.concatenate([np.sqrt((codes**2).sum(axis=1)) for codes in white]))
        beyond = [np.sqrt(one.residual**2 + (one.x[:, modes:] ** 2).sum(axis=1)) for one in part]
        residuals.append(np.concatenate(beyond))
    rows = [row for one in folds[0] for row in one.rows]
    whole, parts = np.concatenate(latents, axis=1), latent_parts(view.modes)
    return Sight(whole, np.stack(distances, 1), np.stack(residuals, 1), columns[rows], parts)
