"""What the training inputs look like, so that others can be compared with them: the test of novelty, and the edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pcarann.backend.arrays import cuts, place_of, taken, to_host
from pcarann.backend.random import spread
from pcarann.latent.channels import latent_parts
from pcarann.latent.crossfit import LeftOut
from pcarann.latent.pca import PCA
from pcarann.latent.rows import TrainingRows
from pcarann.uncertainty.extrapolation import Edge, Near
from pcarann.uncertainty.holes import MOST_POINTS, Holes
from pcarann.uncertainty.novelty import NoveltyTest
from pcarann.uncertainty.sight import Sight, Values
from pcarann.uncertainty.view import View

__all__ = ["survey"]

_FAR = (-1e300, 1e300)  # ends of what has no range

_MEASURED = 256  # fields at a time that are looked at
_MOST_REFERENCE = 2000  # samples
_USUAL = 0.8  # of the training samples have another one as near as is usual
_FEW_DISTINCT, _EQUAL = 12, 1e-6  # samples, and what rows of repeats differ by at most, of the size of all
_STATES = 4  # samples of a group, from which on they are taken as states of a trajectory
_STRETCHES = 8  # into which one trajectory alone is cut


def survey(
    view: View,
    pca: PCA,
    rows: TrainingRows,
    look: Callable[[slice], Sight],
    folds: list[list[LeftOut]],
    only_folds: bool,
) -> tuple[NoveltyTest, Edge]:
    """The test of novelty and the edge of training inputs, whose rows were encoded by this PCA.

    `look` says what is seen of a part of the samples, in the order of the rows. With `only_folds` no other samples are
    the reference: the PCA, or a code before it, has seen them or what belongs to them.
    """
    inner, samples = rows.order.inner, rows.samples
    some = [inner + i for i in spread(samples - inner, _MOST_REFERENCE)]
    if _few_repeated(rows):  # inputs repeat a few samples: what was left out is not like them
        some, folds = [], []
    if not some and not folds:  # of very many samples, those that the PCA has seen say the same
        some = spread(samples, _MOST_REFERENCE)
    seen = _Seen.over(look, cuts(samples, _MEASURED if place_of(rows.x).on_host else samples), some)
    reference = seen.reference
    if folds:
        known = seen.whole.x if view.fields else to_host(rows.x[:inner, :])
        left = _left_out(view, folds, known, seen.whole)
        mine = [row for one in folds[0] for row in one.rows]
        reference, some = (left, mine) if only_folds else (Sight.joined([left, reference]), [*mine, *some])
    ranges, farthest, count = seen.ranges, seen.farthest, int(reference.columns.shape[1])
    columns = [view.spread_out(end[:count], pca.grid, far) for end, far in zip(ranges, _FAR, strict=True)]
    place = place_of(rows.x)
    table = len(pca.grid) == 1 and bool(count)
    groups, points = _groups(rows)
    whole, states = table and not view.fields, _trajectories(rows)
    holes, measured = Holes.of(seen.whole, groups, points, table=whole, trajectories=states)
    missed = max(float(reference.missed.max()), float(seen.whole.missed.max()))
    near = Near(taken(rows.x, points), holes.nearest.index, float(np.quantile(measured[:, holes.sizes[0]], _USUAL)))
    edge = Edge.of(
        rows.x,
        tuple(place.put(end) for end in columns) if table else None,
        near,
        residual=missed,
        size=math.sqrt(pca.energy / inner),
        samples=inner,
    )
    floor = NoveltyTest.floor_of(pca, inner)
    return NoveltyTest.of(reference, floor, farthest, ranges, (holes, measured[some])), edge


def _groups(rows: TrainingRows) -> tuple[list[int], list[int]]:
    """Which samples belong together, and some samples that others are compared with, one of each group at most.

    Of trajectories all samples may be among them.
    """
    samples, groups = rows.samples, [rows.order.groups[sample] for sample in rows.order.samples]
    if len(set(groups)) == 1:
        groups = [row * _STRETCHES // samples for row in range(samples)]
    points = list(range(samples)) if _trajectories(rows) else rows.firsts
    return groups, [points[i] for i in spread(len(points), MOST_POINTS)]


def _few_repeated(rows: TrainingRows) -> bool:
    """Whether the inputs are repeats of a few distinct ones, as the levels of a factor are."""
    if not rows.order.grouped or rows.order.distinct >= _FEW_DISTINCT:
        return False
    x = to_host(rows.x[: rows.samples, :])
    labels = np.asarray([rows.order.groups[sample] for sample in rows.order.samples])
    first = {label: row for row, label in reversed(list(enumerate(labels)))}
    apart = np.abs(x - x[[first[label] for label in labels]]).max(initial=0.0)
    return bool(apart <= _EQUAL * np.abs(x).max(initial=0.0))


def _trajectories(rows: TrainingRows) -> bool:
    """Whether groups are so large that their samples are states of a trajectory rather than repeats."""
    return _STATES * rows.order.distinct <= rows.samples


@dataclass(frozen=True)
class _Seen:
    """What is kept of all training inputs that were looked at, part by part."""

    reference: Sight
    ranges: tuple[Values, Values]
    """Least and largest of columns and latents"""
    farthest: tuple[float, float]
    """Largest residual and distance"""
    whole: Sight
    """Of all samples"""

    @classmethod
    def over(cls, look: Callable[[slice], Sight], parts: Iterable[slice], some: list[int]) -> _Seen:
        """Look at the parts one after another; some rows are the reference."""
        whole = Sight.joined([look(part) for part in parts])
        both = np.concatenate([whole.columns, whole.x], axis=1)
        far = [float(np.linalg.norm(one, axis=1).max()) for one in (whole.residual, whole.distance)]
        return cls(whole.at(some), (both.min(axis=0), both.max(axis=0)), (far[0], far[1]), whole)


def _left_out(view: View, folds: list[list[LeftOut]], x: Values, seen: Sight) -> Sight:
    """What is seen of folds by the PCAs that were fitted without them, channel by channel."""
    latents, distances, residuals = [], [], []
    known = latent_parts(view.modes if view.fields else view.sizes)
    for part, where, modes in zip(folds, known, view.modes, strict=True):
        latents.append(np.concatenate([one.leading(modes).aligned(x[:, where]) for one in part]))
        white = [one.x[:, :modes] / np.where(one.spread[:modes] > 0, one.spread[:modes], 1.0) for one in part]
        distances.append(np.concatenate([np.sqrt((codes**2).sum(axis=1)) for codes in white]))
        beyond = [np.sqrt(one.residual**2 + (one.x[:, modes:] ** 2).sum(axis=1)) for one in part]
        residuals.append(np.concatenate(beyond))
    rows = [row for one in folds[0] for row in one.rows]
    whole, parts = np.concatenate(latents, axis=1), latent_parts(view.modes)
    residual = np.stack(residuals, 1)[:, : 0 if view.fields else None]
    missed = seen.missed[rows] if view.fields else np.linalg.norm(residual, axis=1)
    return Sight(whole, np.stack(distances, 1), residual, seen.columns[rows], seen.latents[rows], missed, parts)
