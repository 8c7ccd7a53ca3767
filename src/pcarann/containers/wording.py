"""Modes of inputs in words: what they belong to, and in which part of the domain they are largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcarann.backend.arrays import Array, to_host
from pcarann.containers.coding import InputCode
from pcarann.containers.labels import Label
from pcarann.containers.packing import Packing
from pcarann.containers.scaling import kept_points
from pcarann.latent.pca import PCA
from pcarann.mesh.mesh import Mesh
from pcarann.uncertainty.view import View

__all__ = ["ModeWords", "near"]

_MANY = 8  # columns, of which a combination is called a mode
_LOADED = 0.5  # of the largest part of a combination, that another has at least to be named


@dataclass(frozen=True, eq=False)
class ModeWords:
    """Words for the latents of a model."""

    pca: PCA
    view: View
    packing: Packing | None

    def mode(self, at: int) -> tuple[str, str]:
        """What a latent that is looked at is a mode of, and in which part of the domain it is largest."""
        channel, number, where = self.view.source(at)
        if self.view.fields:
            return f"mode {number} of {self.view.fields[channel][0]}", self._of_code(channel, number)
        pattern = np.abs(to_host(self.pca.modes[where, :]))
        if len(self.pca.grid) == 1 and len(self.view.names) >= len(pattern):
            pattern = pattern * np.sqrt(1.0 if self.pca.weights is None else to_host(self.pca.weights))
            largest = [int(i) for i in np.argsort(-pattern, kind="stable")[:3] if pattern[i] >= _LOADED * pattern.max()]
            names = [self.view.names[i] for i in largest]
            if len(pattern) > _MANY:
                return f"mode {number} of the inputs", f", largest near {names[0]}"
            return (f"{' with '.join(names)} in combination" if len(names) > 1 else names[0]), ""
        of = f" of {self.view.names[channel]}" if len(self.view.sizes) > 1 else " of the input field"
        return f"mode {number}{of}", f", largest {self._near(int(pattern.argmax()))}"

    def missed(self, inputs: Array, i: int, channel: int) -> str:
        """Where the modes miss most of one of (samples, values) inputs in a channel."""
        field = inputs[i : i + 1, :]
        gap = np.abs(to_host(field - self.pca.decode(self.pca.encode(field))))[0]
        size = len(gap) // len(self.view.sizes)
        if len(self.pca.grid) == 1 and len(self.view.names) >= len(gap):
            return f", most in {self.view.names[int(gap.argmax())]}"
        return f", most {self._near(channel * size + int(gap[channel * size : (channel + 1) * size].argmax()))}"

    def _of_code(self, channel: int, number: int) -> str:
        code = None if self.packing is None else self.packing.input_code
        if not isinstance(code, InputCode):
            return ""
        field = [one for one in code.codes if one.modes is not None][channel]
        assert field.modes is not None
        point = int(kept_points(field.part)[int(np.abs(to_host(field.modes[number, :])).argmax())])
        mesh = None if self.packing is None else self.packing.mesh
        return f", largest {near(field.part.grid, point, field.part.label, mesh)}"

    def _near(self, value: int) -> str:
        """Where a value of an input field is."""
        grid, channels = self.pca.grid, len(self.view.sizes)
        if channels > 1:
            return near(grid[1:], value % (int(self.pca.mean.shape[0]) // channels))
        part = None if self.packing is None else self.packing.inputs.parts[0]
        if part is None or part.grid != grid:
            return near(grid, value)
        return near(grid, value, part.label, None if self.packing is None else self.packing.mesh)


def near(grid: tuple[int, ...], point: int, label: Label | None = None, mesh: Mesh | None = None) -> str:
    """Say where a point of a grid is, which is counted along the last axis first.

    >>> near((64,), 12), near((41, 41), 50)
    ('near point 12 of 64', 'near point (1, 9) of 41 × 41')
    """
    index = tuple(int(i) for i in np.unravel_index(point, grid))
    if mesh is not None and mesh.nodes in grid:
        node = index[grid.index(mesh.nodes)]
        at = ", ".join(f"{value:.3g}" for value in np.asarray(mesh.points)[node])
        return f"near node {node} at ({at})"
    if label is not None and any(axis is not None for axis in label.axes):
        axes = zip(label.dims, label.axes, index, strict=True)
        return "near " + ", ".join(
            f"{dim} = {i}" if axis is None else f"{dim} = {float(axis[i]):.3g}" for dim, axis, i in axes
        )
    if len(grid) == 1:
        return f"near point {index[0]} of {grid[0]}"
    return f"near point ({', '.join(map(str, index))}) of {' × '.join(map(str, grid))}"
