"""Copies of samples under a symmetry, as the fit of a PCA and of the readouts needs them.

The PCA sees each field once more, moved by a random element: the covariance is that of all copies, at twice the cost
of the fields alone. The readouts see the latents of every copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, cuts, place_of, taken
from pcarann.backend.concurrency import alike, least_seconds
from pcarann.backend.random import permutation
from pcarann.latent.pca import PCA
from pcarann.symmetry.group import Group

__all__ = ["Copies"]

_STREAM = (-4,)
_ROWS = 256  # fields at a time, so that no copy of all fields is made


@dataclass(frozen=True)
class Copies:
    """How the fields of one side move under the elements that are used in a fit."""

    group: Group | None
    elements: tuple[int, ...]
    """The identity first"""
    seed: int
    side: int
    """0 for inputs, 1 for outputs"""

    def move(self, fields: Array, element: int) -> Array:
        """The fields, (samples, values), moved by an element."""
        if self.group is None:
            return fields
        return (self.group.move_inputs, self.group.move_outputs)[self.side](fields, element)

    def sources(self, samples: int) -> list[int]:
        """Which of so many fields those are that a PCA sees once more, in the order in which it sees them."""
        return [row for rows in self._shares(samples) for row in rows] if len(self.elements) > 1 else []

    def fit_pca(
        self, fields: Array, parts: Sequence[list[int] | None], fit: Callable[..., tuple[PCA, Array]]
    ) -> tuple[PCA, Array]:
        """Fit a PCA to the first part of the fields; return it with the latents of all parts, then of their copies."""
        rows, values = (int(n) for n in fields.shape)
        with alike(place_of(fields), least_seconds(rows * values * min(rows, values))):
            return self._fit_pca(fields, parts, fit)

    def _fit_pca(
        self, fields: Array, parts: Sequence[list[int] | None], fit: Callable[..., tuple[PCA, Array]]
    ) -> tuple[PCA, Array]:
        place = place_of(fields)
        xp = place.xp
        sets = [None if part is None else xp.asarray(part, device=place.device) for part in parts]
        if len(self.elements) == 1:
            pca, codes = fit(fields=fields, among=sets[0])
        else:
            chosen = fields if sets[0] is None else xp.take(fields, sets[0], axis=0)
            # The fields, and each once more moved by a random element.
            shares = zip(self.elements, self._shares(int(chosen.shape[0])), strict=True)
            moved = [self.move(taken(chosen, rows), element) for element, rows in shares]
            among = xp.concat([chosen, *moved], axis=0)
            pca, codes = fit(fields=among)
            # Energies are those of the samples: the fields that were added stand for the same ones.
            share = chosen.shape[0] / among.shape[0]
            pca = replace(pca, energy=share * pca.energy, singular_values=math.sqrt(share) * pca.singular_values)
            codes = codes[: chosen.shape[0], :]
        latents = [codes, *(self._encode(pca, fields, rows, 0) for rows in sets[1:])]
        latents.extend(self._encode(pca, fields, rows, element) for element in self.elements[1:] for rows in sets)
        return pca, xp.concat(latents, axis=0) if len(latents) > 1 else latents[0]

    def _shares(self, samples: int) -> list[list[int]]:
        """Which of so many fields each element moves."""
        order = permutation(samples, seed=self.seed, stream=_STREAM)
        return [order[i :: len(self.elements)] for i in range(len(self.elements))]

    def _encode(self, pca: PCA, fields: Array, among: Array | None, element: int) -> Array:
        """Latents of fields, or of those at the indices `among`, moved by an element."""
        xp = place_of(fields).xp
        parts = cuts(fields.shape[0] if among is None else among.shape[0], _ROWS)
        chosen = (fields[part, :] if among is None else xp.take(fields, among[part], axis=0) for part in parts)
        return xp.concat([pca.encode(self.move(rows, element)) for rows in chosen], axis=0)
