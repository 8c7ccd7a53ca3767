"""What of an input counts: what each part of it does to the prediction, and what the features see of it.

Effects are total Sobol indices of the prediction (`pcarann.ensemble.attribution`). The rest describes the metric: the
first layer, or the kernel, is given z = Rᵀ F(a) with the metric R (weights w are R = diag w). Then

    weights    |R_j| s_j, row j of R times the spread of latent j over the training inputs
    channels   E‖R_cᵀ F_c(a)‖² / Σ_c' E‖R_c'ᵀ F_c'(a)‖²: the share of channel c in what is seen of the training inputs
    map        ‖∂z/∂a_i‖ s_i = |Rᵀ φ_i| w_i s_i at grid value i, φ_i being column i of the modes, w_i its quadrature
               weight and s_i its spread; inputs that were smoothed count as smoothed

Each is the size of what is seen when the input changes as much as the training inputs do, so that units do not count.
The metric is what `relevance` asked for. Where it was learned, this is what was found to matter. What is seen well need
not change the prediction much: that is what the effects measure.
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

_MOST_BARS = 20

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Sensitivity:
    """What of an input counts: effects on the prediction, and what the features see, largest value 1."""

    weights: Values
    """Of each input latent, (latent,)"""
    channels: Values | None
    """Share of each channel, (channels,), summing to 1; None without channels"""
    map: Values
    """Of each input value, on the input grid"""
    parts: Mapping[str, float] | None = None
    """Effect of each named part over the sum of all, summing to 1; None of one array"""
    effects: Mapping[str, float] | None = None
    """Total Sobol index of each named part, each column of a table, each channel, or each leading latent of a field"""
    is_field: bool = True
    """Whether the input is one field, or channels: then the map is drawn"""

    @classmethod
    def of(
        cls,
        pca: PCA,
        weighting: Weighting,
        x: Values,
        *,
        channels: bool,
        effects: Mapping[str, float] | None = None,
        parts: bool = False,
        is_field: bool = True,
    ) -> Sensitivity:
        """Measure the metric of a fitted model on its training latents x, (samples, latent); effects are as given.

        `parts` says that the effects are those of named parts.
        """
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
        named = None
        if parts and effects is not None:
            total = sum(effects.values()) or 1.0
            named = {name: effect / total for name, effect in effects.items()}
        weights, columns = weights / (weights.max() or 1.0), columns / (columns.max() or 1.0)
        return cls(weights, shares, columns, named, effects, is_field)

    def __str__(self) -> str:
        """Say what counts, largest first."""
        strongest = np.argsort(-self.weights)[:5]
        lines = ["latents that count most: " + ", ".join(f"{j} ({self.weights[j]:.2g})" for j in strongest)]
        if self.parts is not None:
            ordered = sorted(self.parts.items(), key=lambda item: -item[1])
            lines.insert(0, "parts: " + ", ".join(f"{name} ({100 * share:.3g} %)" for name, share in ordered))
        elif self.effects is not None:
            ordered = sorted(self.effects.items(), key=lambda item: -item[1])[:_MOST_BARS]
            lines.insert(0, "total Sobol indices: " + ", ".join(f"{name} ({effect:.3g})" for name, effect in ordered))
        if self.channels is not None:
            lines.insert(0, "channels: " + ", ".join(f"{c} ({100 * s:.3g} %)" for c, s in enumerate(self.channels)))
        return "\n".join(lines)

    def draw(self, path: str | os.PathLike[str], **place: Unpack[Place]) -> None:
        """Draw effects, and of fields what the features see on what inputs lie on, to a file: .png, .svg or .pdf."""
        with style():
            bars = dict(sorted((self.effects or {}).items(), key=lambda item: -item[1])[:_MOST_BARS])
            figure = blank(7.2 if self.is_field else 4.6, max(3.0, 0.8 + 0.2 * len(bars)))
            axes = figure.subplots(1, 1 + self.is_field, squeeze=False)[0]
            axes[0].bar_label(axes[0].barh(list(bars), list(bars.values()), color=BLUE), fmt=" %.2g")
            axes[0].margins(x=0.15)
            axes[0].invert_yaxis()
            axes[0].set(title="total effect on the prediction", xlabel="total Sobol index", xlim=(0, None))
            if self.is_field:
                _draw_map(axes[1], self.map, self.channels is not None, place)
            save(figure, path)


def _draw_map(axis: Any, values: Values, channels: bool, place: Place) -> None:
    """As fields are drawn; of several channels the largest at each point."""
    shown = values.max(axis=0) if channels and values.ndim > 1 else values
    draw_field(axis, shown, limits=(0.0, 1.0), **place)
    axis.set_title("what the features see, largest 1")
    if axis.lines:
        axis.set_ylim(0, 1.05)
