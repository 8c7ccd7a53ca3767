"""All that a fit found, in one record that is replaced as a whole and never edited.

The record knows the way from fields as they were handed in to the numbers inside (units, smoothing) and back, what
inputs look like beside the training data, and which of its states a calibration belongs to: every change of a readout
is a new state, and a calibration of an older one is stale, unless what changed it was scored first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts
from pcarann.containers.packing import Packing
from pcarann.containers.wording import ModeWords
from pcarann.ensemble.adaptation import Adaptation, Rows, batch_refit
from pcarann.ensemble.forgetting import taken_in
from pcarann.ensemble.maps import KernelMap, RandomMap
from pcarann.ensemble.mean_and_spread import Ensemble, padded
from pcarann.features.refine import Refinement
from pcarann.latent.resampled import Resampled
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.options import Adapt
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.extrapolation import Edge, Outside
from pcarann.uncertainty.fingerprints import Fingerprints, Recognised, numbers_of
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.look import Look
from pcarann.uncertainty.monitor import History
from pcarann.uncertainty.novelty import LEVEL, Names, Novelty, NoveltyTest
from pcarann.uncertainty.sight import Sight, Values
from pcarann.uncertainty.view import View
from pcarann.validation import check_fields, column_names, refuse_grid

__all__ = ["Fitted"]

_LOOKED_AT = 4096  # inputs at a time that are compared with the training data


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
    packing: Packing | None = None
    """What inputs and outputs were made of, where they were more than plain arrays"""
    weights: Array | None = None
    """√D of the rows of x and y, (rows,), where earlier samples had been forgotten; None for 1"""
    adaptation: Adaptation | None = None
    n_adapted: int = 0
    state: int = 0
    """Counts the changes of the readouts"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state that the calibration belongs to"""
    history: History | None = None

    @property
    def place(self) -> Place:
        """Where all arrays are"""
        return self.ensemble.place

    @property
    def output_grid(self) -> tuple[int, ...]:
        """Shape of one output field"""
        return self.ensemble.output_pca.grid

    @property
    def output_size(self) -> float:
        """Root mean square of the output values of the training set, from their mean field and energy"""
        pca = self.ensemble.output_pca
        mean = float(self.place.xp.linalg.vector_norm(pca.mean))
        spread = math.sqrt(pca.energy / self.pca_samples / self.trained_values)
        return math.hypot(mean / math.sqrt(int(pca.mean.shape[0])), spread)

    @property
    def trained_values(self) -> int:
        """Values of an output field of the training"""
        pca = self.ensemble.output_pca
        return math.prod(pca.trained_grid if isinstance(pca, Resampled) else pca.grid)

    @property
    def is_elsewhere(self) -> bool:
        """Whether inputs or outputs stand on another grid than that of the training"""
        return any(isinstance(pca, Resampled) for pca in (self.ensemble.input_pca, self.ensemble.output_pca))

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

    @property
    def members(self) -> int:
        """Members of the ensemble"""
        return len(self.ensemble.members)

    def member_step(self, member: int, fields: Array) -> Array:
        """What one member alone predicts for (samples, values) inputs, both as they are handed in and out."""
        alone = replace(self.ensemble, members=(self.ensemble.members[member],))
        return self.handed(alone.mean_fields(alone.orbit(self.inputs(fields))))

    def on(self, target: Any, inputs: Any, symmetry: Symmetry | None) -> Fitted:
        """The record of the same model whose outputs, and inputs if asked, stand on another grid; it cannot adapt."""
        if inputs is not None and self.own_units:
            raise ValueError("inputs must be the shape of another grid, but those of this model are a table.")
        moved = replace(self, ensemble=self.ensemble.on(target, inputs, symmetry), adaptation=None)
        grid = moved.ensemble.input_pca.grid
        if len(grid) > 1 or grid == self.ensemble.input_pca.grid:
            return moved
        view = replace(self.view, names=tuple(f"column {i}" for i in range(grid[0])))  # values, one by one
        return replace(moved, view=view, novelty_test=None, edge=None)

    @property
    def how(self) -> dict[str, Any]:
        """Options that a prediction was asked with: there are none"""
        return {}

    def refuse_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs of a shape (samples, …) that is not theirs."""
        refuse_grid(shape[1:], tuple(self.ensemble.input_pca.grid), "X", "PCARaNN")

    def checked(self, X: Any) -> Array:
        """Inputs of a user as those that are encoded, (samples, values), or a refusal."""
        grid = self.ensemble.input_pca.grid
        if (found := column_names(X, grid)) and self.names and found != self.names:
            raise ValueError(
                "The feature names should match those that were passed during fit, in the same order: "
                f"expected {', '.join(self.names)}, found {', '.join(found)}."
            )
        return self.inputs(check_fields(X, "X", self.place, grid=grid)[0])

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
            return Look(inputs, orbit, None, None, np.empty(0), np.empty(0))
        parts = []
        for rows in cuts(int(inputs.shape[0]), _LOOKED_AT):
            seen = self.sight(inputs[rows, :], orbit[0][rows, :])
            p, worst = self.novelty_test.p_values(seen)
            gap, new = np.zeros(len(p)), np.flatnonzero(p <= LEVEL)
            gap[new] = self.novelty_test.gap(seen.at([int(i) for i in new]))
            parts.append((p, worst, seen.missed, gap))
        p, worst, residual, gap = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Look(inputs, orbit, p, worst, residual, gap)

    def sight(self, inputs: Array, x: Array) -> Sight:
        """What is seen of encoded inputs beside the training data."""
        return self.view.sight(self.ensemble.input_pca, self.pca_samples, inputs, x)

    def warning(self, look: Look) -> str | None:
        """Say that inputs lie outside the training data, where that is more than chance."""
        if self.novelty_test is None or look.p is None or not self.novelty_test.is_alarmed(look.p):
            return None
        first = int(look.p.argmin())
        row = slice(first, first + 1) if look.kept is None else slice(0, 1)
        seen = self.sight(look.inputs[row, :], look.orbit[0][row, :])
        return self.novelty_test.warning(seen, look.p, int(look.worst[first]), self._names(look.inputs[row, :]))

    def novelty(self, look: Look) -> Novelty | None:
        """How far inputs lie from the training data; None where the file of the model does not say."""
        if self.novelty_test is None:
            return None
        seen = self.sight(look.inputs, look.orbit[0])
        return self.novelty_test.novelty(seen, self._names(look.inputs))

    def _names(self, inputs: Array) -> Names:
        """Words for what is seen of encoded inputs."""
        shown = () if self.packing is None else self.packing.shown
        words = ModeWords(self.ensemble.input_pca, self.view, self.packing)
        return self.view.all_names(self.units.inputs, shown, mode=words.mode, missed=partial(words.missed, inputs))

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
                yield here, mean, std, outside.in_block(here, mean, inside[:m, :], inside[m : 2 * m, :], spread)

    def _outside(self, look: Look) -> Outside | None:
        """The inputs that lie outside the training data; None where none does."""
        if self.edge is None or look.p is None:
            return None
        p = self._orbit_p(look)
        rows = [int(i) for i in np.flatnonzero(p <= LEVEL)]
        if not rows:
            return None
        residual = self._orbit_residual(look)
        return self.edge.outside(self.ensemble, look, residual, p, rows)

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
        return np.asarray(np.exp(np.mean(logarithms, axis=0)))

    def possible_error(self, look: Look, mean: Array) -> Array | None:
        """δ of inputs whose predictions are known, (samples, values); None where all lie inside the data."""
        outside = self._outside(look)
        if outside is None or self.edge is None:
            return None
        edge, mirrored = (self.ensemble.mean_fields(part) for part in (outside.edge, outside.mirrored))
        spread = self.edge.output_spread(self.ensemble)
        return outside.in_block(slice(0, int(mean.shape[0])), mean, edge, mirrored, spread)

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

    def marks(self, inputs: Array, outputs: Array) -> Values:
        """What (samples, values) pairs, as they were handed in, leave to be recognised by, (samples, 4)"""
        if self.is_elsewhere:
            return np.zeros((int(inputs.shape[0]), 0))
        encoded = self.ensemble.encode(self.inputs(inputs)), self.ensemble.output_pca.encode(self.outputs(outputs))
        return numbers_of(*encoded)

    def recognised(self, marks: Values) -> Recognised:
        """Which of the samples that have left these were learned before."""
        if self.is_elsewhere:
            return Recognised.unknown(len(marks))
        return Fingerprints.of(*self.rows.joined()[:2]).matched(marks)

    def adapted(self, inputs: Array, outputs: Array, adapt: Adapt) -> Fitted:
        """The record after new (samples, values) pairs were taken in by recursive least squares."""
        ensemble, adaptation = self.ensemble, self.adaptation
        if adaptation is None:
            adaptation = Adaptation.start(ensemble, self.rows, ridge=adapt.ridge, start=adapt.start)
        if adaptation.begun != adapt.start:
            raise ValueError(
                f"adapt.start is {adapt.start!r}, but this model began to adapt with {adaptation.begun!r}, "
                "which cannot change on the way: fit again, or set it back."
            )
        pairs = self.latent_pairs(inputs, outputs)
        adaptation = taken_in(adaptation.at_ridge(adapt.ridge), ensemble, pairs, adapt.forgetting, len(self.copied))
        return replace(
            self,
            ensemble=ensemble.with_readouts(adaptation.readouts(ensemble)),
            adaptation=adaptation,
            n_adapted=self.n_adapted + int(inputs.shape[0]),
            state=self.state + 1,
        )

    def refitted(self, pairs: tuple[Array, Array], ridge: float) -> Fitted:
        """The record after a fit of the readouts to all samples learned so far and these latents, at once."""
        rows = self.rows.appended(*pairs, forgetting=1.0)
        x, y, weights = rows.joined()
        ensemble = batch_refit(self.ensemble, rows, ridge=ridge).tried(x)
        parts = {"x": x, "y": y, "weights": weights, "ridge": ridge, "adaptation": None, "n_adapted": 0}
        return replace(self, ensemble=ensemble, state=self.state + 1, **parts)
