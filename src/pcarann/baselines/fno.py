"""Fourier neural operator (Li et al., 2021), in one or two dimensions with several outputs.

    v₀ = P (a, x)                                   lifting, at each point
    vₗ₊₁ = σ(Wₗ vₗ + bₗ + 𝓕⁻¹(Rₗ · 𝓕 vₗ))           L Fourier layers; no σ = GELU after the last
    u = Q₂ σ(Q₁ v_L)                                projection, at each point

R holds one complex matrix for each of the lowest modes, −m₁ ≤ k₁ < m₁ and 0 ≤ k₂ < m₂ (the rest follow since v is
real); 𝓕 is scaled by the number of points, so that the same weights act on any finer grid. An axis that is not
periodic is extended by zeros before the Fourier layers, and cut back after.

Fields are (channels, x, y) or (x, y). An input on the last output axis alone, such as u₀(x) for u(t, x), is
repeated along the first. Fields on a line alone, (x,) to (x,), are those on a plane of one row with m₁ = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from scipy.fft import next_fast_len
from torch import nn
from torch.nn.functional import gelu, pad

from pcarann.baselines.estimator import Codec, FieldCodec, Rescaled, TorchOperator
from pcarann.baselines.fields import Axis, Fields, Gaussian, Kind, check_axes, coordinates

__all__ = ["FNO"]


@dataclass(kw_only=True, eq=False)
class FNO(TorchOperator):
    """Fourier neural operator on the last two axes of the output.

    `axes` are the kinds of these two axes, `padding` the share by which intervals are extended, `positions` whether
    the network sees the coordinates, `normalisation` that of inputs and outputs ("channel" for both lets the model
    predict on another grid than it was fitted to).
    """

    modes: tuple[int, int] = (12, 12)
    width: int = 32
    layers: int = 4
    projection: int = 128
    axes: tuple[Axis, Axis] = ("interval", "interval")
    padding: float = 0.1
    positions: bool = True
    normalisation: tuple[Kind, Kind] = ("channel", "channel")

    def _build(self, inputs: Fields, outputs: Fields) -> tuple[Codec, Any]:
        channels = tuple(math.prod(fields.shape[1:-2]) for fields in (inputs, outputs))
        check_axes(self.axes, 2)
        if (outputs.ndim == 2) != (self.modes[0] == 0):
            raise ValueError(f"modes={self.modes}: the first is 0 for fields on a line, and for no others.")
        scales = [Gaussian.fit(f, kind) for f, kind in zip((inputs, outputs), self.normalisation, strict=True)]
        network = _Network(self, channels[0], channels[1], outputs.shape[1:])
        return FieldCodec(scales[0]), Rescaled(network, scales[1].mean, scales[1].std)

    def _check_grid(self, grid: tuple[int, ...]) -> None:
        fitted = self._grids[0]
        refinable = self.normalisation == ("channel", "channel") and len(fitted) >= 2
        if not refinable or len(grid) != len(fitted) or grid[:-2] != fitted[:-2]:
            super()._check_grid(grid)


class _Network(nn.Module):  # type: ignore[misc]
    """(batch, *input grid) to (batch, *output grid)."""

    points: Any

    def __init__(self, model: FNO, channels_in: int, channels_out: int, output_grid: tuple[int, ...]):
        super().__init__()
        self.axes, self.padding, self.positions = model.axes, model.padding, model.positions
        self.output_grid = output_grid
        self.register_buffer("points", torch.empty(2, 0, 0), persistent=False)
        self.lifting = _Pointwise(channels_in + 2 * model.positions, model.width)
        self.spectral = nn.ModuleList(_SpectralConvolution(model.width, model.modes) for _ in range(model.layers))
        self.skip = nn.ModuleList(_Pointwise(model.width, model.width) for _ in range(model.layers))
        self.projection = nn.Sequential(
            _Pointwise(model.width, model.projection), nn.GELU(), _Pointwise(model.projection, channels_out)
        )

    def forward(self, inputs: Any) -> Any:
        channels = self._as_channels(inputs)
        grid = channels.shape[-2:]
        fields = self._extend(self.lifting(self._cut(channels, grid)))
        for number, (spectral, skip) in enumerate(zip(self.spectral, self.skip, strict=True)):
            fields = spectral(fields) + skip(fields)
            fields = gelu(fields) if number + 1 < len(self.skip) else fields
        outputs = self._repeat_first(self.projection(self._cut(fields, grid)))
        return outputs[(slice(None), *[0] * (3 - len(self.output_grid)))]

    def _as_channels(self, inputs: Any) -> Any:
        """Return (batch, channels, x, y) with the coordinates as the last channels."""
        if inputs.ndim == 2:
            inputs = inputs[:, None, :].expand(-1, *(self.output_grid[-2:-1] or (1,)), -1)
        channels = inputs[:, None] if inputs.ndim == 3 else inputs
        if not self.positions:
            return channels
        points = self._points(tuple(channels.shape[-2:]))
        return torch.cat([channels, points.expand(len(channels), -1, -1, -1)], dim=1)

    def _points(self, grid: tuple[int, int]) -> Any:
        """Return the coordinates, those of the last grid kept: a copy to the device in each step would wait for it."""
        if tuple(self.points.shape[-2:]) != grid:
            self.points = torch.as_tensor(coordinates(grid, self.axes), dtype=torch.float32).to(self.points.device)
        return self.points

    def _repeat_first(self, fields: Any) -> Any:
        for dim, axis in zip((-2, -1), self.axes, strict=True):
            if axis == "closed":
                fields = torch.cat([fields, fields.narrow(dim, 0, 1)], dim)
        return fields

    def _extend(self, fields: Any) -> Any:
        """Extend intervals by zeros, to a length with a fast Fourier transform."""
        extra = [
            next_fast_len(n + math.ceil(self.padding * n), real=True) - n if axis == "interval" and self.padding else 0
            for n, axis in zip(fields.shape[-2:], self.axes, strict=True)
        ]
        return pad(fields, (0, extra[1], 0, extra[0])) if any(extra) else fields

    def _cut(self, fields: Any, grid: tuple[int, int]) -> Any:
        """Leave away what lies beyond the grid, and the last point of a closed axis, a kink in the Fourier series."""
        rows, columns = (n - (axis == "closed") for n, axis in zip(grid, self.axes, strict=True))
        return fields[..., :rows, :columns]


class _SpectralConvolution(nn.Module):  # type: ignore[misc]
    """v ↦ 𝓕⁻¹(R · 𝓕 v); complex weights are kept as pairs of reals, which every optimiser understands."""

    def __init__(self, width: int, modes: tuple[int, int]):
        super().__init__()
        self.modes = modes
        # The mode comes first, so that the product is one batched matrix product over modes.
        self.weight = nn.Parameter(torch.rand(2 * modes[0] or 1, modes[1], width, width, 2) / width**2)

    def forward(self, fields: Any) -> Any:
        first, second = self.modes
        rows, columns = fields.shape[-2:]
        if 2 * first > rows or second > columns // 2 + 1:
            needed = f"({2 * first}, {2 * second - 2})"
            raise ValueError(f"modes={self.modes} need a grid of {needed}, found {rows, columns}.")
        spectrum = torch.fft.rfft2(fields, norm="forward")
        positive, negative = first or 1, rows - first
        lowest = torch.cat([spectrum[..., :positive, :second], spectrum[..., negative:, :second]], dim=-2)
        mixed = torch.einsum("bixy,xyio->boxy", lowest, torch.view_as_complex(self.weight))
        full = torch.zeros_like(spectrum)
        full[..., :positive, :second] = mixed[..., :positive, :]
        full[..., negative:, :second] = mixed[..., positive:, :]
        return torch.fft.irfft2(full, s=(rows, columns), norm="forward")


class _Pointwise(nn.Module):  # type: ignore[misc]
    """v ↦ W v + b at each point: a convolution with a 1 × 1 kernel, as one matrix product."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.linear = nn.Linear(channels_in, channels_out)

    def forward(self, fields: Any) -> Any:
        mixed = self.linear.weight @ fields.flatten(2) + self.linear.bias[:, None]
        return mixed.unflatten(2, fields.shape[2:])
