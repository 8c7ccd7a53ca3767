"""What of an input the features see: which latents, which channels, which points of the grid.

The first layer, or the kernel, is given z = Rᵀ F(a) with the metric R (weights w are R = diag w). Then

    weights    |R_j| s_j, row j of R times the spread of latent j over the training inputs
    channels   E‖R_cᵀ F_c(a)‖² / Σ_c' E‖R_c'ᵀ F_c'(a)‖²: the share of channel c in what is seen of the training inputs
    map        ‖∂z/∂a_i‖ s_i = |Rᵀ φ_i| w_i s_i at grid value i, φ_i being column i of the modes, w_i its quadrature
               weight and s_i its spread; inputs that were smoothed count as smoothed

Each is the size of what is seen when the input changes as much as the training inputs do, so that units do not count.
The metric is what `relevance` asked for. Where it was learned, this is what was found to matter. What is seen well need
not do much: how much named parts do to the prediction is measured apart (`pcarann.ensemble.attribution`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from pcarann.backend.arrays import place_of, to_host
from pcarann.drawing import BLUE, Place, blank, draw_field, save, style
from pcarann.latent.channels import channel_of
from pcarann.latent.pca import PCA
from pcarann.latent.weighting import Weighting

__all__ = ["Sensitivity"]

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Sensitivity:
    """What of an input counts, largest value 1."""

    weights: Values
    """Of each input latent, (latent,)"""
    channels: Values | None
    """Share of each channel, (channels,), summing to 1; None without channels"""
    map: Values
    """Of each input value, on the input grid"""
    parts: Mapping[str, float] | None = None
    """What each part does to the prediction (`pcarann.ensemble.attribution`), summing to 1; None of one array"""

    @classmethod
    def of(
        cls, pca: PCA, weighting: Weighting, x: Values, *, channels: bool, parts: Mapping[str, float] | None = None
    ) -> Sensitivity:
        """Measure the metric of a fitted model on its training latents x, (samples, latent); parts are as given."""
        xp = place_of(pca.modes).xp
        R = weighting.weighted(place_of(pca.modes).eye(pca.n_components))
        spread = xp.sqrt(xp.mean(x**2, axis=0))
        columns = xp.linalg.vector_norm(R.T @ pca.modes, axis=0)
        columns = columns if pca.weights is None else columns * pca.weights
        columns = columns * xp.linalg.vector_norm(pca.modes * spread[:, None], axis=0)
        columns = to_host(columns).reshape(pca.grid)
        weights = to_host(xp.linalg.vector_norm(R, axis=1) * spread)
        shares = None
        if channels:
            owner = channel_of(pca)
            masks = [place_of(x).put(owner == c) for c in range(pca.grid[0])]
            energies = np.asarray([float(xp.sum(weighting.weighted(x * mask) ** 2)) for mask in masks])
            shares = energies / (energies.sum() or 1.0)
        return cls(weights / (weights.max() or 1.0), shares, columns / (columns.max() or 1.0), parts)

    def __str__(self) -> str:
        """Say which channels and latents count."""
        strongest = np.argsort(-self.weights)[:5]
        lines = ["latents that count most: " + ", ".join(f"{j} ({self.weights[j]:.2g})" for j in strongest)]
        if self.parts is not None:
            ordered = sorted(self.parts.items(), key=lambda item: -item[1])
            lines.insert(0, "parts: " + ", ".join(f"{name} ({100 * share:.3g} %)" for name, share in ordered))
        if self.channels is not None:
            lines.insert(0, "channels: " + ", ".join(f"{c} ({100 * s:.3g} %)" for c, s in enumerate(self.channels)))
        return "\n".join(lines)

    def draw(self, path: str | os.PathLike[str], **place: Unpack[Place]) -> None:
        """Draw weights, channels and map to a picture file, .png, .svg or .pdf; the map on what inputs lie on."""
        panels = 2 if self.channels is None else 3
        with style():
            figure = blank(3.4 * panels, 3.0)
            axes = figure.subplots(1, panels)
            axes[0].plot(self.weights, ".", color=BLUE)
            axes[0].set(title="a  weight of each latent", xlabel="latent", ylim=(0, 1.05))
            if self.parts is None:
                _draw_map(axes[1], self.map, self.channels is not None, place)
            else:
                axes[1].barh(list(self.parts), list(self.parts.values()), color=BLUE)
                axes[1].invert_yaxis()
                axes[1].set(title="b  share of each part", xlim=(0, 1.05))
            if self.channels is not None:
                axes[2].bar(range(len(self.channels)), self.channels, color=BLUE)
                axes[2].xaxis.get_major_locator().set_params(integer=True)
                axes[2].set(title="c  share of each channel", xlabel="channel", ylim=(0, 1.05))
            save(figure, path)


def _draw_map(axis: Any, values: Values, channels: bool, place: Place) -> None:
    """As fields are drawn; of several channels the largest at each point."""
    shown = values.max(axis=0) if channels and values.ndim > 1 else values
    draw_field(axis, shown, limits=(0.0, 1.0), **place)
    axis.set_title("b  where the input counts")
    if axis.lines:
        axis.set_ylim(0, 1.05)
