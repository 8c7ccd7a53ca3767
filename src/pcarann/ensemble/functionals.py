"""An ensemble whose outputs are linear functionals of its fields: no field is made.

    qⱼ = wⱼ · û = wⱼ · ū + Σᵢ yᵢ (wⱼ · φᵢ)

The products with mean and modes are taken once; few functionals are taken into the readouts too, so that a member gives
their values at once. Where predictions are averaged over a symmetry, a functional of the field that was moved back,
w · g⁻¹u = (g⁻ᵀw) · u, has mean and modes of its own for each element. Mean, spread and possible error outside the data
are those of the values, by the same code as those of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, contiguous, place_of
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.latent.pca import PCA

__all__ = ["Functionals"]


@dataclass(frozen=True)
class Functionals(Ensemble):
    """The same members with k values in the place of a field; `output_pca` has those of the identity."""

    moved: tuple[PCA, ...] = ()
    """Mean and modes of the values for each averaged element"""

    @classmethod
    def of(cls, ensemble: Ensemble, weights: Array, grid: tuple[int, ...]) -> Functionals:
        """Apply (k, values) weights to an ensemble; values have the shape `grid`, (k,) or () for one."""
        pca, group = ensemble.output_pca, ensemble.group
        found = []
        for g in ensemble.averaged:
            fields = ensemble.place.xp.concat([pca.mean[None, :], pca.modes], axis=0)
            if group is not None and g:
                fields = group.move_outputs(fields, group.inverse(g))
            found.append(_projected(pca, fields @ weights.T, grid))
        members = ensemble.members
        if len(found) == 1 and weights.shape[0] <= pca.n_components:
            members = tuple(replace(m, coefficients=contiguous(m.coefficients @ found[0].modes)) for m in members)
            found = [_alone(found[0])]
        parts = (ensemble.input_pca, found[0], members, group, ensemble.averaged)
        known = ensemble.residual_spread
        known = None if known is None else known.projected(weights)
        return cls(*parts, ensemble.steady, ensemble.prepared, known, moved=tuple(found))

    def output_energies(self) -> Array:
        """Σ over training samples of the squares of the centred values, (1, k), on average over a symmetry."""
        return sum(_energies(pca) for pca in self.moved) / len(self.moved)

    def _moved_parts(self, latents: Array) -> Iterator[tuple[int, Array]]:
        size = latents.shape[0] // len(self.moved)
        for i, (g, pca) in enumerate(zip(self.averaged, self.moved, strict=True)):
            yield g, pca.decode(latents[i * size : (i + 1) * size, :])

    def _moved_back(self, fields: Array, element: int) -> Array:
        """Values were those of fields moved back already."""
        return fields


def _projected(pca: PCA, values: Array, grid: tuple[int, ...]) -> PCA:
    """The PCA of values (1 + modes, k) of its mean and its modes."""
    found = PCA(contiguous(values[0, :]), contiguous(values[1:, :]), pca.singular_values, 0.0, grid)
    return replace(found, energy=float(_energies(found).sum()))


def _alone(pca: PCA) -> PCA:
    """The same where latents are the values themselves, but for their mean."""
    sizes = _energies(pca)[0, :] ** 0.5
    return replace(pca, modes=place_of(sizes).eye(int(sizes.shape[0])), singular_values=sizes)


def _energies(pca: PCA) -> Array:
    """Σ over training samples of the squares of centred values, (1, values), as the modes hold it."""
    return ((pca.modes * pca.singular_values[:, None]) ** 2).sum(axis=0)[None, :]
