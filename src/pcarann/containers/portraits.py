"""The prediction of one sample as a picture: on its grid, its coordinates or its mesh."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pcarann.backend.arrays import to_host
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Side
from pcarann.drawing import draw_prediction
from pcarann.mesh.mesh import Mesh
from pcarann.validation import check_count

__all__ = ["Portrait"]


class Portrait:
    """Draws one sample for a surrogate with this packing, or with none."""

    def __init__(self, packing: Packing | None, sample: int, part: str | None):
        self.packing, self.sample = packing, check_count(sample, "sample", least=0)
        names = ("",) if packing is None else packing.outputs.names
        if part is not None and part not in names:
            raise ValueError(f"part must be one of {', '.join(map(repr, names))}, got {part!r}.")
        self.part = names[0] if part is None else part

    def inputs(self, X: Any) -> Any:
        """The sample, as the thing that it is part of."""
        return self._one(X, None if self.packing is None else self.packing.inputs, "X")

    def field(self, fields: Any) -> Any:
        """The part that is drawn of one predicted sample, of its grid's shape."""
        return to_host(fields[self.part] if isinstance(fields, Mapping) else fields)[0]

    def truth(self, y: Any) -> Any:
        """The part that is drawn of the true outputs."""
        return self.field(self._one(y, None if self.packing is None else self.packing.outputs, "y"))

    def draw(self, path: str | os.PathLike[str] | None, **fields: Any) -> Any:
        """The figure."""
        return draw_prediction(path, title=self._title, **fields, **self._place(fields["mean"].shape))

    def _one(self, value: Any, side: Side | None, what: str) -> Any:
        rows = slice(self.sample, self.sample + 1)
        count = len(value) if side is None else len(side.opened(value, what).first)
        if self.sample >= count:
            raise ValueError(f"sample must be one of the {count} of {what}, counted from 0, got {self.sample}.")
        if side is None:
            return value[rows]
        arrays = {name: array[rows] for name, array in side.opened(value, what).arrays.items()}
        return arrays[side.names[0]] if side.single else arrays

    @property
    def _title(self) -> str:
        """The name of the part, where there are several."""
        return self.part if self.packing is not None and len(self.packing.outputs.names) > 1 else ""

    def _place(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Where the values of the part lie, as pictures want it."""
        if self.packing is None:
            return {}
        mesh = self.packing.mesh
        if mesh is not None and len(mesh.points) in shape:
            return _on_mesh(mesh)
        label = next(part.label for part in self.packing.outputs.parts if part.name == self.part)
        known = {} if label is None else dict(zip(label.dims, label.axes, strict=True))
        return {"coords": known} if known and all(values is not None for values in known.values()) else {}


def _on_mesh(mesh: Mesh) -> dict[str, Any]:
    flat = mesh.dimension == 2
    return {"points": mesh.points, **({"triangles": mesh.triangles} if flat and mesh.cells else {})}
