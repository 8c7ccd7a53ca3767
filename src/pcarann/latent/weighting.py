"""Weights on the latents before they enter a feature map, and the linear term beside it.

Relevance weights w multiply the latents (or a metric R maps them), since isotropic features spend themselves on
coordinates that do not matter; the linear term hands the latents to the readout, each in units of its spread s:

    x ↦ w ⊙ x  or  Rᵀx,      h = (features of that, x / s)
"""

from __future__ import annotations

from dataclasses import dataclass

from pcarann.backend.arrays import Array, place_of

__all__ = ["Weighting"]


@dataclass(frozen=True)
class Weighting:
    """What is done to the latents before the layers, and beside them."""

    relevance: Array | None = None
    """w, (latent,), or a whole metric R, (latent, latent), with Rᵀx in the place of w ⊙ x; None for 1"""
    linear: Array | None = None
    """1 / s, (latent,), of the linear term; None without one"""

    def weighted(self, latents: Array) -> Array:
        """w ⊙ x of (samples, latent) rows"""
        if self.relevance is None:
            return latents
        return latents * self.relevance if self.relevance.ndim == 1 else latents @ self.relevance

    def weighted_back(self, cotangents: Array) -> Array:
        """The adjoint of `weighted`, which is linear"""
        if self.relevance is None:
            return cotangents
        return cotangents * self.relevance if self.relevance.ndim == 1 else cotangents @ self.relevance.T

    def neurons(self, sizes: tuple[int, int, int], latents: Array) -> tuple[Array, tuple[slice, slice]]:
        """Memory for (features, samples), the linear term in its place, and the rows of the two layers."""
        size, n1, n2 = sizes
        extra = 0 if self.linear is None else size
        neurons = place_of(latents).empty(n1 + n2 + extra, latents.shape[0])
        if self.linear is not None:
            neurons[n1 + n2 :, :] = (latents * self.linear).T
        return neurons, (slice(0, n1), slice(n1, n1 + n2))
