"""How wrong a prediction may be where it leaves the training data.

Members that agree know nothing there: tanh saturates and kernels fade, and their spread goes to 0. What can be said:
let x_c be the nearest latents inside the box of the training latents (columns of a table: inside their ranges), a
little widened, and x_m its mirror image, as far inside as x is outside. Then

    |u(x) − û(x)|  ≤  |u(x) − u(x_c)| + |û(x_c) − û(x)| + what is wrong at the edge,

of which the second is known, and the first is about what the surrogate changes between x_c and x_m. Beside these stands
what an average direction would change: the spread of the outputs for each unit of distance that is the spread of the
inputs, counted also for what the input modes miss. Inside the box all of it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcarann.arrays import Array, place_of, taken, to_host
from pcarann.ensemble import Ensemble

__all__ = ["Edge"]

_MARGIN = 0.1  # of half a side, by which the box is widened: samples like the training samples rarely lie outside
_MIRRORED = 0.5  # of half a side, that the mirror image goes inside at most


@dataclass(frozen=True)
class Edge:
    """Where the training data end."""

    low: Array
    """Of the latents, (latent,)"""
    high: Array
    columns: tuple[Array, Array] | None
    """Least and largest value of each column, where the inputs are columns, (values,) each"""
    residual: float
    """The largest residual of a sample that the PCA has not seen"""
    size: float
    """Root mean square of the training inputs, centred: the unit of distance"""
    samples: int
    """That the output PCA was fitted to"""

    @classmethod
    def of(cls, x: Array, columns: tuple[Array, Array] | None, *, residual: float, size: float, samples: int) -> Edge:
        """Draw the box around (samples, latent) training latents and the columns' ranges."""
        xp = place_of(x).xp
        low, high = _widened(xp.min(x, axis=0), xp.max(x, axis=0))
        return cls(low, high, None if columns is None else _widened(*columns), residual, size or 1.0, samples)

    def beyond(self, ensemble: Ensemble, inputs: Array, orbit: list[Array], residual: Array) -> Array | None:
        """Possible error of each output value, (samples, values), for what lies outside; None where nothing does."""
        place = ensemble.place
        inside = [self._inside(x) for x in self._clipped_orbit(ensemble, inputs, orbit)]
        apart = [place.xp.linalg.vector_norm(a - b, axis=1) for a, b in zip(orbit, inside, strict=True)]
        moved = sum(apart) / len(orbit) + place.xp.clip(residual - self.residual, min=0.0)
        outside = [int(i) for i in to_host(moved).nonzero()[0]]
        if not outside:
            return None
        x, x_c = ([taken(part, outside) for part in parts] for parts in (orbit, inside))
        found = self._changes(ensemble, x, x_c)
        found += taken(moved[:, None], outside) / self.size * self._spread_field(ensemble)
        # Row i of what was found, or the row of zeros behind it.
        row = {i: at for at, i in enumerate(outside)}
        padded = place.xp.concat([found, place.zeros(1, found.shape[1])], axis=0)
        return taken(padded, [row.get(i, len(outside)) for i in range(orbit[0].shape[0])])

    def _clipped_orbit(self, ensemble: Ensemble, inputs: Array, orbit: list[Array]) -> list[Array]:
        """The latents of inputs whose columns are taken back into their ranges."""
        if self.columns is None or len(orbit) > 1:
            return orbit
        xp = ensemble.place.xp
        clipped = xp.minimum(xp.maximum(inputs, self.columns[0]), self.columns[1])
        return orbit if bool(xp.all(clipped == inputs)) else [ensemble.encode(clipped)]

    def _inside(self, x: Array) -> Array:
        xp = place_of(x).xp
        return xp.minimum(xp.maximum(x, self.low), self.high)

    def _changes(self, ensemble: Ensemble, x: list[Array], x_c: list[Array]) -> Array:
        """|û(x) − û(x_c)| and what the surrogate changes on the same distance inside."""
        xp = ensemble.place.xp
        room = _MIRRORED * 0.5 * (self.high - self.low)
        steps = [xp.abs(a - b) for a, b in zip(x, x_c, strict=True)]
        far = [step > room for step in steps]
        shares = [xp.min(xp.where(f, room / xp.where(f, s, 1.0), 1.0), axis=1) for f, s in zip(far, steps, strict=True)]
        share = xp.clip(xp.min(xp.stack(shares), axis=0), min=1e-6)[:, None]
        mirrored = [b - share * (a - b) for a, b in zip(x, x_c, strict=True)]
        here, edge, inner = (ensemble.mean_fields(orbit) for orbit in (x, x_c, mirrored))
        return xp.abs(here - edge) + xp.abs(edge - inner) / share

    def _spread_field(self, ensemble: Ensemble) -> Array:
        """Standard deviation of the training outputs at each value, (values,), as their modes hold it."""
        pca, group, xp = ensemble.output_pca, ensemble.group, ensemble.place.xp
        squares = xp.sum((pca.modes * pca.singular_values[:, None]) ** 2, axis=0)[None, :] / self.samples
        if group is not None:  # the same wherever a symmetry moves it; what moves with a sign has none as a square
            squares = sum(xp.abs(group.move_outputs(squares, g)) for g in ensemble.averaged) / len(ensemble.averaged)
        return xp.sqrt(squares)


def _widened(low: Array, high: Array) -> tuple[Array, Array]:
    margin = 0.5 * _MARGIN * (high - low)
    return low - margin, high + margin
