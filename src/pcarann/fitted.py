"""All that a fit found, in one record that is replaced as a whole and never edited.

The record knows the way from fields as they were handed in to the numbers inside (units, smoothing) and back, what
inputs look like beside the training data, and which of its states a calibration belongs to: every change of a readout
is a new state, and a calibration of an older one is stale.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, cuts, place_of, taken, to_host
from pcarann.ensemble.members import Ensemble, KernelMap, RandomMap, padded
from pcarann.features.refine import Refinement
from pcarann.latent.pca import PCA
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.readout.recursive import Adaptation, Rows
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.extrapolation import Edge, Outside
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.novelty import LEVEL, Names, Novelty, NoveltyTest, Sight, Values, latent_parts

__all__ = ["Fitted", "Look", "View"]

_MOST_COLUMNS = 256  # values along one axis that are looked at one by one
_LOOKED_AT = 4096  # inputs at a time that are compared with the training data
_ROWS = 128  # fields at a time whose residual is measured: of large ones no whole copy is made


@dataclass(frozen=True)
class View:
    """How inputs are looked at: channel by channel, the leading modes of each, and columns by name."""

    sizes: tuple[int, ...]
    """Latents of each channel"""
    modes: tuple[int, ...]
    """Leading ones of them that are looked at"""
    names: tuple[str, ...]
    """Of the columns, or of the channels"""
    constant: tuple[int, ...] = ()
    """Channels that are constant on their grid, each a column"""

    def columns(self, inputs: Array, grid: tuple[int, ...]) -> Array:
        """The columns of (samples, values) inputs, (samples, columns)."""
        if self.constant:
            size = int(inputs.shape[1]) // grid[0]
            return place_of(inputs).xp.stack([inputs[:, c * size] for c in self.constant], axis=1)
        single = len(grid) == 1 and grid[0] <= _MOST_COLUMNS
        return inputs if single else inputs[:, :0]

    def all_names(self, unit: float) -> Names:
        """Names in the order of columns and channels, for inputs that were divided by a unit."""
        columns = tuple(self.names[c] for c in self.constant) if self.constant else self.names
        return Names(columns, self.names, unit)

    def sight(self, pca: PCA, inputs: Array, x: Array, spread: Array) -> Sight:
        """What is seen of (samples, values) inputs with latents x, in units of the latents' spread."""
        residual, distance, kept = [], [], []
        size = int(pca.mean.shape[0]) // len(self.sizes)
        for c, where in enumerate(latent_parts(self.sizes)):
            values, seen = slice(c * size, (c + 1) * size), slice(where.start, where.start + self.modes[c])
            residual.append(_residuals(_part(pca, values, seen), inputs[:, values], x[:, seen]))
            kept.append(to_host(x[:, seen]))
            distance.append(np.sqrt(((kept[-1] / to_host(spread[seen])) ** 2).sum(axis=1)))
        columns = to_host(self.columns(inputs, pca.grid))
        parts = latent_parts(self.modes)
        return Sight(np.concatenate(kept, axis=1), np.stack(distance, 1), np.stack(residual, 1), columns, parts)


@dataclass(frozen=True)
class Look:
    """Encoded inputs beside the training data."""

    inputs: Array
    """(samples, values), in the units inside"""
    orbit: list[Array]
    """Their latents, moved by each element that predictions are averaged over"""
    p: Values | None
    """p-value of each; None where the file of the model does not say"""
    worst: Any
    """The statistic that is deepest in its tail"""
    residual: Values
    """Norm of what the modes miss of each"""


@dataclass(frozen=True)
class Fitted:
    """All that a fit found."""

    ensemble: Ensemble
    x: Array
    """Latents of the training inputs, (samples, latent)"""
    y: Array
    """Latents of the training outputs, (samples, latent)"""
    samples: int
    """Training samples; the rows of x and y after these are copies under a symmetry, or came with `refit_readout`"""
    feature_map: RandomMap | KernelMap
    ridge: float
    """λ of the readouts"""
    energy_scales: tuple[float, float] | None
    """None for a kernel"""
    refinement: Refinement | None
    seconds: dict[str, float]
    view: View
    novelty_test: NoveltyTest | None
    """None in files of older formats"""
    edge: Edge | None
    report: FitReport | None
    pca_samples: int
    """Samples that the PCAs were fitted to: the inner ones, where the scales were refined"""
    names: tuple[str, ...] = ()
    """Of the columns, where the inputs had them"""
    units: Units = field(default_factory=Units)
    own_units: bool = False
    """Whether the columns of the inputs were given units of their own"""
    smoothing: Smoothing = field(default_factory=Smoothing)
    """What was done to the inputs before all else"""
    copied: tuple[int, ...] = (0,)
    """Elements of the group whose copies were fitted"""
    channels: bool = False
    """Whether the first axis of an input counts channels"""
    weights: Array | None = None
    """√D of the rows of x and y, (rows,), where earlier samples had been forgotten; None for 1"""
    adaptation: Adaptation | None = None
    n_adapted: int = 0
    state: int = 0
    """Counts the changes of the readouts"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state that the calibration belongs to"""

    @property
    def stale(self) -> bool:
        """Whether the model was changed after its last calibration."""
        return self.calibration is not None and self.calibrated != self.state

    @property
    def training_x(self) -> Array:
        """Latents of the training inputs without their copies."""
        return self.x[: self.samples, :]

    @property
    def rows(self) -> Rows:
        """Everything that the readouts have learned from."""
        return Rows.of(self.x, self.y, self.weights) if self.adaptation is None else self.adaptation.rows

    def inputs(self, fields: Array) -> Array:
        """(samples, values) inputs as they were handed in, to those that are encoded."""
        fields = fields if self.units.inputs == 1.0 else fields / self.units.inputs
        return self.smoothing(fields, self.ensemble.input_pca.grid)

    def outputs(self, fields: Array) -> Array:
        """(samples, values) outputs as they were handed in, to those that are encoded."""
        return fields if self.units.outputs == 1.0 else fields / self.units.outputs

    def handed(self, fields: Array) -> Array:
        """(samples, values) outputs, means or spreads inside, to those that are handed out."""
        return fields if self.units.outputs == 1.0 else fields * self.units.outputs

    def look(self, inputs: Array) -> Look:
        """Encode inputs, and compare them with the training data."""
        orbit = self.ensemble.orbit(inputs)
        if self.novelty_test is None:
            return Look(inputs, orbit, None, None, np.empty(0))
        parts = []
        for rows in cuts(int(inputs.shape[0]), _LOOKED_AT):
            seen = self.sight(inputs[rows, :], orbit[0][rows, :])
            parts.append((*self.novelty_test.p_values(seen), np.linalg.norm(seen.residual, axis=1)))
        p, worst, residual = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Look(inputs, orbit, p, worst, residual)

    def sight(self, inputs: Array, x: Array) -> Sight:
        """What is seen of encoded inputs beside the training data."""
        pca = self.ensemble.input_pca
        spread = pca.singular_values / self.pca_samples**0.5
        spread = self.ensemble.place.xp.where(spread > 0, spread, 1.0)
        return self.view.sight(pca, inputs, x, spread)

    def warning(self, look: Look) -> str | None:
        """Say that inputs lie outside the training data, where that is more than chance."""
        if self.novelty_test is None or look.p is None:
            return None
        first = int(look.p.argmin())
        seen = self.sight(look.inputs[first : first + 1, :], look.orbit[0][first : first + 1, :])
        return self.novelty_test.warning(seen, look.p, int(look.worst[first]), self.view.all_names(self.units.inputs))

    def novelty(self, look: Look) -> Novelty | None:
        """How far inputs lie from the training data; None where the file of the model does not say."""
        if self.novelty_test is None:
            return None
        seen = self.sight(look.inputs, look.orbit[0])
        return self.novelty_test.novelty(seen, self.view.all_names(self.units.inputs))

    def blocks(self, look: Look) -> Iterator[tuple[slice, Array, Array, Array | None]]:
        """Yield (rows, μ, σ, δ) for blocks of inputs: δ is a possible error outside the data, None inside."""
        outside = self._outside(look)
        if outside is None or self.edge is None:
            for rows, mean, std in self.ensemble.field_blocks(look.orbit):
                yield rows, mean, std, None
            return
        # The points that they are compared with go first through the members, in the same pass.
        xp, m = self.ensemble.place.xp, len(outside.rows)
        parts = zip(outside.edge, outside.mirrored, look.orbit, strict=True)
        orbit = [xp.concat([padded(xp.concat([edge, mirrored], axis=0)), x], axis=0) for edge, mirrored, x in parts]
        first = int(orbit[0].shape[0] - look.orbit[0].shape[0])
        inside = self.ensemble.place.empty(first, self.ensemble.output_pca.mean.shape[0])
        spread = self.edge.output_spread(self.ensemble)
        for rows, mean, std in self.ensemble.field_blocks(orbit):
            ahead = max(0, min(first, rows.stop) - rows.start)
            inside[rows.start : rows.start + ahead, :] = mean[:ahead, :]
            mean, std = mean[ahead:, :], std[ahead:, :]
            here = slice(max(rows.start, first) - first, rows.stop - first)
            if here.start < here.stop:
                yield here, mean, std, _possible_error(outside, here, mean, inside[:m, :], inside[m : 2 * m, :], spread)

    def _outside(self, look: Look) -> Outside | None:
        """The inputs that lie outside the training data; None where none does."""
        if self.edge is None or look.p is None:
            return None
        p = self._orbit_p(look)
        rows = [int(i) for i in np.flatnonzero(p <= LEVEL)]
        if not rows:
            return None
        residual = self._orbit_residual(look)
        return self.edge.outside(self.ensemble, look.inputs, look.orbit, residual, p, rows)

    def _orbit_p(self, look: Look) -> Values:
        """The p-value of inputs; with a symmetry its geometric mean over their orbit, so that it moves as they do."""
        group, novelty_test = self.ensemble.group, self.novelty_test
        assert novelty_test is not None
        assert look.p is not None
        if group is None or len(look.orbit) == 1:
            return look.p
        logarithms = [np.log(look.p)]
        for element, x in zip(self.ensemble.averaged[1:], look.orbit[1:], strict=True):
            seen = self.sight(group.move_inputs(look.inputs, element), x)
            logarithms.append(np.log(novelty_test.p_values(seen)[0]))
        mean: Values = np.exp(np.mean(logarithms, axis=0))
        return mean

    def possible_error(self, look: Look, mean: Array) -> Array | None:
        """δ of inputs whose predictions are known, (samples, values); None where all lie inside the data."""
        outside = self._outside(look)
        if outside is None or self.edge is None:
            return None
        edge, mirrored = (self.ensemble.mean_fields(part) for part in (outside.edge, outside.mirrored))
        spread = self.edge.output_spread(self.ensemble)
        return _possible_error(outside, slice(0, int(mean.shape[0])), mean, edge, mirrored, spread)

    def _orbit_residual(self, look: Look) -> Array:
        """What the modes miss of inputs, (samples,), on average over their orbit: it moves as the inputs do."""
        ensemble = self.ensemble
        if ensemble.group is None or len(look.orbit) == 1:
            return ensemble.place.put(look.residual)
        total: Array = 0.0
        for element, x in zip(ensemble.averaged, look.orbit, strict=True):
            total = total + ensemble.input_pca.residual(ensemble.group.move_inputs(look.inputs, element), x)
        return total / len(look.orbit)

    def latent_pairs(self, inputs: Array, outputs: Array) -> tuple[Array, Array]:
        """Latents of new (samples, values) pairs, each followed by its copies under the elements that the fit used."""
        ensemble, group = self.ensemble, self.ensemble.group
        xp = ensemble.place.xp
        x, y = [ensemble.encode(inputs)], [ensemble.output_pca.encode(outputs)]
        for element in self.copied[1:]:
            assert group is not None
            x.append(ensemble.encode(group.move_inputs(inputs, element)))
            y.append(ensemble.output_pca.encode(group.move_outputs(outputs, element)))
        # Copies beside their sample: a row's age, which forgetting counts, then does not depend on the block's length.
        first, second = (xp.reshape(xp.stack(rows, axis=1), (-1, rows[0].shape[1])) for rows in (x, y))
        return first, second


def _possible_error(
    outside: Outside, here: slice, mean: Array, edge: Array, mirrored: Array, spread: Array
) -> Array | None:
    """δ of a block of inputs, 0 for those inside; None where all are."""
    place = place_of(mean)
    mine = list(range(bisect_left(outside.rows, here.start), bisect_left(outside.rows, here.stop)))
    if not mine:
        return None
    parts = {name: taken(getattr(outside, name), mine) for name in ("share", "distance", "certainty")}
    some = replace(outside, **parts)
    local = [outside.rows[i] - here.start for i in mine]
    found = some.possible_error(taken(mean, local), taken(edge, mine), taken(mirrored, mine), spread)
    # Row i of what was found, or the row of zeros behind it.
    at = {row: i for i, row in enumerate(local)}
    with_zeros = place.xp.concat([found, place.zeros(1, found.shape[1])], axis=0)
    return taken(with_zeros, [at.get(i, len(local)) for i in range(int(mean.shape[0]))])


def _part(pca: PCA, values: slice, latents: slice) -> PCA:
    """A PCA of some values by some modes, as far as `residual` needs it."""
    weights = None if pca.weights is None else pca.weights[values]
    return replace(pca, mean=pca.mean[values], modes=pca.modes[latents, values], weights=weights)


def _residuals(pca: PCA, inputs: Array, x: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What the modes miss of inputs, (samples,), on the host."""
    place = place_of(x)
    found = place.empty(x.shape[0])
    for rows in cuts(int(x.shape[0]), _ROWS if place.on_host else int(x.shape[0])):
        found[rows] = pca.residual(inputs[rows, :], x[rows, :])
    return to_host(found)
