"""How wrong a prediction may be where it leaves the training data.

Members that agree know nothing there: tanh saturates and kernels fade, and their spread goes to 0. What can be said:
let x_c be the latents taken back into the box of the training latents (of a table: into the ranges of its columns) and
no farther from their centre than the farthest sample, and x_m the mirror image, as far inside as x is outside. Then

    |u(x) − û(x)|  ≤  |u(x) − u(x_c)| + |û(x_c) − û(x)| + what is wrong at the edge,

of which the second is known, and the first is about what the surrogate changes between x_c and x_m. Beside these stands
what an average direction would change: the spread of the outputs for each unit of distance that is the spread of the
inputs, counted also for what the input modes miss. The sum is δ. It counts for inputs that `novelty` finds new, from 0
at p = 0.01, where chance alone may find them, to 1 at p = 0.0001.

In a hole of the training data x is inside the box. There x_c is the nearest training sample and x_m the nearest one on
the other side of x, and the distance is that to x_c beyond the usual one. Between two values of a column it is at least
the distance γ to the closer one in spreads of that column, and min(γ, 1)² times the range of the outputs is added to δ:
a function may do anything between two values, of which two that agree by chance say nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.uncertainty.look import Look
from pcarann.uncertainty.novelty import LEVEL
from pcarann.uncertainty.sight import Values

__all__ = ["CERTAIN", "FAR_AWAY", "LEAST_SHARE", "MIRRORED", "ROUNDING", "Edge", "Near", "Outside"]

ROUNDING = 1e-9
"""Of the size of the inputs"""
CERTAIN = 100.0
"""Times below the level, a p-value leaves no doubt"""
MIRRORED = 0.5
"""Of half a side of the box, that the mirror image goes inside at most"""
TIE = 1e-9
"""Share of the spread of the inputs, squared, within which training samples are equally near"""
FAR_AWAY = 1e300
"""Squared distance of samples that do not count"""
LEAST_SHARE = 1e-6
"""Of the way outside, that it goes inside at least"""


@dataclass(frozen=True)
class Outside:
    """Inputs outside the training data, beside the two points inside that they are compared with."""

    rows: list[int]
    """Which inputs"""
    edge: list[Array]
    """x_c of each element of the orbit, (rows, latent)"""
    mirrored: list[Array]
    """x_m, likewise"""
    share: Array
    """‖x_c − x_m‖ / ‖x − x_c‖, (rows, 1)"""
    distance: Array
    """How far outside, in spreads of the inputs, (rows, 1)"""
    certainty: Array
    """How certain it is that they are outside, from 0 to 1, (rows, 1)"""
    unknown: Array
    """What is added for gaps between values of a column, in the units of the outputs inside, (rows, 1)"""

    def in_block(self, here: slice, mean: Array, edge: Array, mirrored: Array, spread: Array) -> Array | None:
        """δ of a block of all inputs, from û at x, x_c and x_m and the spread of the outputs, (1, values).

        It is 0 for inputs inside the data; None where all are.
        """
        place = place_of(mean)
        xp = place.xp
        mine = list(range(bisect_left(self.rows, here.start), bisect_left(self.rows, here.stop)))
        if not mine:
            return None
        local = [self.rows[i] - here.start for i in mine]
        parts = (self.share, self.distance, self.certainty, self.unknown, edge, mirrored)
        share, distance, certainty, unknown, edge, mirrored = (taken(part, mine) for part in parts)
        changes = xp.abs(taken(mean, local) - edge) + xp.abs(edge - mirrored) / share
        found = certainty * (changes + distance * spread + unknown)
        # New in combination alone: inside in every respect that is known here, but for rounding.
        found = xp.where(distance <= ROUNDING, 0.0, found)
        found = xp.where(xp.isnan(found), math.inf, found)
        # Row i of what was found, or the row of zeros behind it.
        at = {row: i for i, row in enumerate(local)}
        with_zeros = xp.concat([found, place.zeros(1, found.shape[1])], axis=0)
        return taken(with_zeros, [at.get(i, len(local)) for i in range(int(mean.shape[0]))])


class Beside(NamedTuple):
    """Training samples on both sides of inputs."""

    nearest: Array
    """(inputs, latent)"""
    opposite: Array
    """The nearest of those on the other side of the input; where there is none, the nearest of all"""
    distance: Array
    """How much farther the nearest is than usual, (inputs, 1)"""


@dataclass(frozen=True)
class Near:
    """Training samples that inputs are compared with."""

    points: Array
    """Their latents, (points, latent)"""
    index: tuple[int, ...]
    """Latents in which distances are measured"""
    usual: float
    """Distance of most training samples to the nearest other one"""

    @property
    def order(self) -> Values:
        """Added to squared distances, so that of points that are equally near the first one counts, (points,)"""
        count, index = int(self.points.shape[0]), list(self.index)
        size = float(place_of(self.points).xp.sum(taken(self.points.T, index) ** 2)) / count
        return np.asarray(np.arange(float(count)) * (TIE * (size or 1.0) / count), dtype=np.float64)

    def beside(self, x: Array) -> Beside:
        """Find the training samples beside (inputs, latent) x."""
        place = place_of(x)
        xp, index = place.xp, list(self.index)
        short, points = taken(x.T, index).T, taken(self.points.T, index).T
        squares = xp.sum(short**2, axis=1)[:, None] - 2 * short @ points.T + xp.sum(points**2, axis=1)
        squares = squares + place.put(self.order)
        nearest = taken(self.points, [int(i) for i in to_host(xp.argmin(squares, axis=1))])
        way = taken(nearest.T, index).T - short
        behind = way @ points.T < xp.sum(way * short, axis=1)[:, None]
        squares = xp.where(behind, squares, FAR_AWAY)
        found = taken(self.points, [int(i) for i in to_host(xp.argmin(squares, axis=1))])
        opposite = xp.where(xp.min(squares, axis=1)[:, None] < FAR_AWAY, found, nearest)
        return Beside(nearest, opposite, xp.clip(xp.linalg.vector_norm(way, axis=1)[:, None] - self.usual, min=0.0))


@dataclass(frozen=True)
class Edge:
    """Where the training data end."""

    low: Array
    """Of the latents, (latent,)"""
    high: Array
    spread: Array
    """Of the latents, (latent,)"""
    farthest: float
    """√Σ (x_j / s_j)² of the farthest training sample"""
    columns: tuple[Array, Array] | None
    """Least and largest value of each column, where the inputs are columns, (values,) each"""
    residual: float
    """The largest residual of a sample that the PCA has not seen"""
    size: float
    """Root mean square of the training inputs, centred: the unit of distance"""
    samples: int
    """That the output PCA was fitted to"""
    near: Near | None = None
    """None in older files"""

    @classmethod
    def of(
        cls,
        x: Array,
        columns: tuple[Array, Array] | None,
        near: Near | None = None,
        *,
        residual: float,
        size: float,
        samples: int,
    ) -> Edge:
        """Draw the box around (samples, latent) training latents and the columns' ranges."""
        xp = place_of(x).xp
        spread = xp.sqrt(xp.mean(x**2, axis=0))
        spread = xp.where(spread > 0, spread, xp.ones_like(spread))
        farthest = float(xp.max(xp.linalg.vector_norm(x / spread, axis=1)))
        box = (xp.min(x, axis=0), xp.max(x, axis=0))
        return cls(*box, spread, farthest, columns, residual, size or 1.0, samples, near)

    def outside(self, ensemble: Ensemble, look: Look, residual: Array, p: Values, rows: list[int]) -> Outside:
        """Compare these of the encoded inputs, which have residuals and p-values, with what lies inside."""
        place = ensemble.place
        xp, inputs, orbit = place.xp, look.inputs, look.orbit
        x, missed = [taken(part, rows) for part in orbit], taken(residual[:, None], rows)
        clipped = x
        if self.columns is not None and len(orbit) == 1:  # columns go back into their ranges
            low, high = self.columns
            clipped = [ensemble.encode(xp.minimum(xp.maximum(taken(inputs, rows), low), high))]
        inside = [self._inside(part) for part in clipped]
        steps = [a - b for a, b in zip(x, inside, strict=True)]
        room = MIRRORED * 0.5 * (self.high - self.low)
        # The longest share of the way for which no coordinate goes further inside than there is room.
        ways = [xp.where(xp.abs(s) > room, room / xp.where(s != 0, xp.abs(s), 1.0), 1.0) for s in steps]
        share = xp.clip(xp.min(xp.stack([xp.min(way, axis=1) for way in ways]), axis=0), min=LEAST_SHARE)[:, None]
        distance = sum(xp.linalg.vector_norm(s, axis=1)[:, None] for s in steps) / len(steps)
        distance = (distance + xp.clip(missed - self.residual, min=0.0)) / self.size
        mirrored = [b - share * s for b, s in zip(inside, steps, strict=True)]
        unknown = xp.zeros_like(distance)
        if self.near is not None:
            found = [self.near.beside(part) for part in x]
            far = sum(one.distance for one in found) / (len(found) * self.size)
            if len(orbit) == 1:
                gap = place.put(look.gap[rows][:, None])
                far = xp.maximum(far, gap)
                unknown = xp.clip(gap, max=1.0) ** 2 * self.output_range(ensemble)
            hole = far > distance
            distance, share = xp.where(hole, far, distance), xp.where(hole, 1.0, share)
            inside = [xp.where(hole, one.nearest, a) for one, a in zip(found, inside, strict=True)]
            mirrored = [xp.where(hole, one.opposite, a) for one, a in zip(found, mirrored, strict=True)]
        certainty = np.clip(np.log(LEVEL / p[rows]) / math.log(CERTAIN), 0.0, 1.0)
        return Outside(rows, inside, mirrored, share, distance, place.put(certainty[:, None]), unknown)

    def output_spread(self, ensemble: Ensemble) -> Array:
        """Standard deviation of the training outputs at each value, (1, values), as their modes hold it."""
        return ensemble.place.xp.sqrt(ensemble.output_energies() / self.samples)

    def output_range(self, ensemble: Ensemble) -> float:
        """From the least to the largest value of the training outputs, at about two standard deviations."""
        xp, mean = ensemble.place.xp, ensemble.output_pca.mean
        spread = 2.0 * self.output_spread(ensemble)[0, :]
        return float(xp.max(mean + spread) - xp.min(mean - spread))

    def _inside(self, x: Array) -> Array:
        xp = place_of(x).xp
        x = xp.minimum(xp.maximum(x, self.low), self.high)
        far = xp.linalg.vector_norm(x / self.spread, axis=1)[:, None]
        return xp.where(far > self.farthest, x * (self.farthest / xp.where(far > 0, far, 1.0)), x)
