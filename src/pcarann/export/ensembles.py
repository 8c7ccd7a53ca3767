"""An ensemble on a sheet: inputs to latents, through all members, and back to fields, averaged over a symmetry.

Inputs and latents are (samples, elements, …): one row for each element that predictions are averaged over, the identity
first. For the members rows of all samples stand one below another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.export.graph import Sheet, Value
from pcarann.export.members import Members, posterior_on_sheet
from pcarann.features.posterior import KernelPosterior

__all__ = ["LatentModel"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class LatentModel:
    """An ensemble on a sheet."""

    sheet: Sheet
    ensemble: Ensemble
    known: Array | None = None
    """Latents of training samples, by which it is found out what rounding does; None keeps all in double precision"""

    @property
    def elements(self) -> int:
        """Of the group, over which predictions are averaged"""
        return len(self.ensemble.averaged)

    def orbit(self, inputs: Value) -> Value:
        """(samples, values) inputs moved by each element: (samples, elements, values)."""
        values = int(self.ensemble.input_pca.mean.shape[0])
        group = self.ensemble.group
        if group is None or self.elements == 1:
            return self.sheet.reshaped(inputs, (1, values))
        count = np.arange(1.0, values + 1)[None, :]
        return self._gathered(inputs, np.concatenate([group.move_inputs(count, g) for g in self.ensemble.averaged]))

    def encoded(self, fields: Value) -> Value:
        """F of (samples, elements, values) inputs: (samples, elements, latent)."""
        pca = self.ensemble.input_pca
        rows = self.sheet.reshaped(fields - to_host(pca.mean), (int(pca.mean.shape[0]),))
        return self.sheet.reshaped(self.sheet.applied(self._encoder, rows), (self.elements, pca.n_components))

    def latents(self, x: Value) -> Value:
        """Φ of every member for (…, latent) latents: (members, rows, output latent)."""
        rows = self.sheet.reshaped(x, (self.ensemble.input_pca.n_components,))
        return self._members(rows)

    def decoded(self, latents: Value) -> Value:
        """Fields of (samples · elements, output latent), moved back and averaged: (samples, values)."""
        mean = to_host(self.ensemble.output_pca.mean)[None, :]
        if self.elements > 1:
            mean = np.concatenate([self._moved_back(mean, g) for g in self.ensemble.averaged]).mean(axis=0)[None, :]
        with self.sheet.loosely():
            return self.change(latents) + mean

    def change(self, latents: Value) -> Value:
        """Changes of such latents as those of fields, (samples, values)."""
        sheet, values = self.sheet, int(self.ensemble.output_pca.mean.shape[0])
        with sheet.loosely():
            fields = sheet.applied(self._modes, latents)
            if self.elements == 1:
                return fields
            return sheet.averaged(self._gathered(sheet.reshaped(fields, (self.elements * values,)), self._back), [1])

    def spread(self, deviations: Value, x: Value, unit: float = 1.0) -> Value:
        """σ of the deviations of all members from their mean, (members, rows, output latent): (samples, values).

        They are squared in this unit. What left-out samples show is added, as in `pcarann.ensemble.residual_spread`,
        at the (samples, elements, latent) latents x.
        """
        sheet, known = self.sheet, self.ensemble.residual_spread
        if known is None:
            with sheet.loosely():
                found = sheet.sqrt(self._variance(deviations, unit))
                return found if unit == 1.0 else found * unit
        relative = None if known.posterior is None else self._relative(known.posterior, x)
        floor = to_host(known.variance)[None, :] / unit / unit
        with sheet.loosely():
            if relative is not None:
                variance = relative * floor
            else:
                variance = self._variance(deviations, unit) + floor
            found = sheet.sqrt(variance)
            return found if unit == 1.0 else found * unit

    def _relative(self, posterior: KernelPosterior, x: Value) -> Value:
        """v of (samples, elements, latent) latents, on average over the elements, (samples, 1)."""
        sheet = self.sheet
        rows = sheet.reshaped(x, (self.ensemble.input_pca.n_components,))
        found = posterior_on_sheet(sheet, posterior, rows)
        return sheet.averaged(sheet.reshaped(found, (self.elements,)), [1], keep=True)

    def _variance(self, deviations: Value, unit: float) -> Value:
        """Of the members, (samples, values), in units squared."""
        sheet, members = self.sheet, len(self.ensemble.members)
        deviations = deviations if unit == 1.0 else deviations / unit
        with sheet.loosely():
            if self.elements == 1:
                values, latents = self._modes.shape
                columns = sheet("Reshape", sheet.transposed(deviations, (2, 0, 1)), np.asarray([latents, -1]))
                fields = sheet("Reshape", self._modes @ columns, np.asarray([values, members, -1]))
                squares = sheet.transposed(sheet.summed(fields * fields, [1]), (1, 0))
            else:
                each = [self.change(sheet.one_of(deviations, k, axis=0)) for k in range(members)]
                squares = reduce(add, (one * one for one in each))
            return squares / max(members - 1, 1)

    @cached_property
    def _members(self) -> Members:
        return Members(self.sheet, self.ensemble.members, self.known)

    @cached_property
    def _encoder(self) -> Values:
        """The matrix of F, (latent, values)"""
        pca = self.ensemble.input_pca
        return to_host(pca.encode_adjoint(place_of(pca.mean).eye(pca.n_components)))

    @cached_property
    def _modes(self) -> Values:
        """Φᵀ of the outputs, (values, latent)"""
        return np.ascontiguousarray(to_host(self.ensemble.output_pca.modes).T)

    @cached_property
    def _back(self) -> Values:
        """Tables that move fields of all elements back, which stand one after another, (elements, values)"""
        values = int(self.ensemble.output_pca.mean.shape[0])
        count = np.arange(1.0, values + 1)[None, :]
        tables = np.concatenate([self._moved_back(count, g) for g in self.ensemble.averaged])
        found: Values = tables + np.sign(tables) * values * np.arange(self.elements)[:, None]
        return found

    def _moved_back(self, fields: Values, element: int) -> Values:
        group = self.ensemble.group
        assert group is not None
        return to_host(group.move_outputs(fields, group.inverse(element)))

    def _gathered(self, fields: Value, tables: Values) -> Value:
        """sᵢ a_{jᵢ} for each of some tables sᵢ (jᵢ + 1), (tables, values): (samples, tables, values)."""
        found = self.sheet.gathered(fields, np.abs(tables).astype(np.int64) - 1)
        return found * np.sign(tables) if (tables < 0).any() else found
