"""DeepONet (Lu et al., 2021): a branch network of the input field, a trunk network of the point.

    u(a)(x) ≈ ū(x) + σ(x) (β + p^{−1/2} Σₖ bₖ(a) τₖ(x)),   k = 1, …, p

The trunk is evaluated once in a step, on the whole output grid, and a matrix product joins it with the branch. It
sees coordinates in [−1, 1], and cos 2πjx, sin 2πjx for j = 1, …, `harmonics` along axes that are periodic.
The branch is a fully connected network, or convolutions with stride two followed by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from pcarann.baselines.estimator import Codec, FieldCodec, Rescaled, TorchOperator, dense
from pcarann.baselines.fields import Axis, Fields, Gaussian, Kind, coordinates
from pcarann.validation import check_choice

__all__ = ["DeepONet"]


@dataclass(kw_only=True, eq=False)
class DeepONet(TorchOperator):
    """Branch and trunk: `branch` "mlp" or "cnn", of `channels` convolutions (cnn only) and hidden `widths`.

    `trunk` are the hidden widths of the trunk, `basis` the number p of products, `axes` the kinds of the axes of the
    output grid (None: all intervals), `normalisation` that of inputs and outputs.
    """

    batch: int = 50
    rate: float = 3e-3
    branch: Literal["mlp", "cnn"] = "mlp"
    channels: tuple[int, ...] = (64, 128)
    widths: tuple[int, ...] = (128, 128, 128)
    trunk: tuple[int, ...] = (128, 128)
    basis: int = 128
    axes: tuple[Axis, ...] | None = None
    harmonics: int = 1
    normalisation: tuple[Kind, Kind] = ("channel", "pointwise")

    def _build(self, inputs: Fields, outputs: Fields) -> tuple[Codec, Any]:
        check_choice(self.branch, "branch", ("mlp", "cnn"))
        scales = [Gaussian.fit(f, kind) for f, kind in zip((inputs, outputs), self.normalisation, strict=True)]
        network = _Network(self._branch(inputs.shape[1:]), self._trunk(outputs.shape[1:]), outputs.shape[1:])
        return FieldCodec(scales[0]), Rescaled(network, scales[1].mean, scales[1].std)

    def _branch(self, grid: tuple[int, ...]) -> Any:
        if self.branch == "mlp":
            return nn.Sequential(nn.Flatten(), *dense(math.prod(grid), *self.widths, self.basis))
        if len(grid) < 2:
            raise ValueError(f"branch='cnn' needs input fields on two axes or more, found {grid}: use 'mlp'.")
        ends = "circular" if self.axes is not None and set(self.axes[-2:]) == {"periodic"} else "zeros"
        channels = (math.prod(grid[:-2]), *self.channels)
        layers: list[Any] = [nn.Flatten(), nn.Unflatten(1, (channels[0], *grid[-2:]))]
        for count, following in pairwise(channels):  # each halves the grid
            layers += [nn.Conv2d(count, following, 3, stride=2, padding=1, padding_mode=ends), nn.GELU()]
        rows, columns = (math.ceil(n / 2 ** len(self.channels)) for n in grid[-2:])
        return nn.Sequential(*layers, nn.Flatten(), *dense(channels[-1] * rows * columns, *self.widths, self.basis))

    def _trunk(self, grid: tuple[int, ...]) -> Any:
        intervals: tuple[Axis, ...] = tuple("interval" for _ in grid)
        features = trunk_features(grid, self.axes or intervals, self.harmonics)
        return _Trunk(features, nn.Sequential(*dense(features.shape[1], *self.trunk, self.basis), nn.GELU()))


def trunk_features(grid: tuple[int, ...], axes: tuple[Axis, ...], harmonics: int) -> Fields:
    """Return what the trunk sees of each point, (points, features).

    >>> trunk_features((2,), ("interval",), 1).ravel().tolist(), trunk_features((4,), ("periodic",), 1).shape
    ([-1.0, 1.0], (4, 2))
    """
    columns = []
    for points, axis in zip(coordinates(grid, axes), axes, strict=True):
        if axis == "interval":
            columns.append(2 * points.ravel() - 1)
            continue
        for j in range(1, harmonics + 1):
            columns += [np.cos(2 * np.pi * j * points.ravel()), np.sin(2 * np.pi * j * points.ravel())]
    return np.stack(columns, axis=1)


class _Network(nn.Module):  # type: ignore[misc]
    def __init__(self, branch: Any, trunk: Any, grid: tuple[int, ...]):
        super().__init__()
        self.branch, self.trunk, self.grid = branch, trunk, grid
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: Any) -> Any:
        basis = self.trunk()
        values = self.branch(inputs) @ basis.T / math.sqrt(basis.shape[1])
        return (values + self.bias).unflatten(1, self.grid)


class _Trunk(nn.Module):  # type: ignore[misc]
    """The basis functions on the whole grid, (points, basis)."""

    def __init__(self, features: Fields, layers: Any):
        super().__init__()
        self.layers = layers
        self.register_buffer("features", torch.as_tensor(features, dtype=torch.float32))

    def forward(self) -> Any:
        return self.layers(self.features)
