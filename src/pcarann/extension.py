"""An output basis that grows while the model adapts.

New outputs u may leave the span of the modes that the training outputs gave; no readout can then reach them. With
E the rows u − G(F(u)) of n new fields, and E = U diag(s) Ψᵀ, the modes ψ₁, ψ₂, … join the basis: they are orthogonal
to it, since E is. As many join as it takes to bring what is missed of a new field down to what was missed of a
training field,

    Σ_{j > k} s_j² / n  ≤  (Σᵢ ‖uᵢ − ū‖² − Σⱼ σⱼ²) / N        σ the singular values of the training outputs

but no more than are allowed, and none where new fields miss less than twice as much as training fields do. Along the
new modes the training outputs have the coordinate 0: what they really had there was missed by the old basis too, and
is no larger than the right-hand side. So have samples that were taken in before a mode joined, which can be more where
the number of modes was cut short: give all new samples in one call where they are few.
"""

from __future__ import annotations

from dataclasses import replace

from pcarann.backend.arrays import Array, place_of
from pcarann.latent.pca import PCA, fit_pca

__all__ = ["extended"]

_OUTSIDE = 2.0  # times what is missed of a training field: new fields have left the basis
_SHARE_OF_ENERGY = 1e-16  # that a training field may miss by rounding alone


def extended(pca: PCA, fields: Array, most: int, samples: int) -> PCA:
    """Add to a PCA of so many samples the modes that (samples, values) fields need, `most` at most."""
    place = place_of(fields)
    xp = place.xp
    room = min(most, int(fields.shape[1]) - pca.n_components)
    if room < 1:
        return pca
    outside = fields - pca.decode(pca.encode(fields))
    held = float(xp.sum(pca.singular_values**2))
    missed = max(pca.energy - held, _SHARE_OF_ENERGY * pca.energy) / samples
    root = None if pca.weights is None else xp.sqrt(pca.weights)
    # Rows and their negatives have mean 0: a PCA of both has the modes of the rows, uncentred.
    mirrored = xp.concat([outside, -outside], axis=0)
    total = float(xp.sum((outside if root is None else outside * root) ** 2)) / int(fields.shape[0])
    if not total > _OUTSIDE * missed:
        return pca
    share = 1.0 - missed / total
    new, _ = fit_pca(mirrored, min(share, 1.0 - 1e-12), weights=pca.weights)
    modes, singular = new.modes[:room, :], new.singular_values[:room] / 2**0.5
    # Rounding leaves a little of the old modes in what should be orthogonal to them.
    modes = modes - (modes if pca.weights is None else modes * pca.weights) @ pca.modes.T @ pca.modes
    return replace(
        pca,
        modes=xp.concat([pca.modes, modes], axis=0),
        singular_values=xp.concat([pca.singular_values, singular]),
        energy=pca.energy + float(xp.sum(singular**2)),
    )
