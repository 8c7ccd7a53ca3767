"""Points and cells of meshes of other libraries, and of files.

meshio's meshes are known by `points` and `cells_dict`, pyvista's by `cast_to_unstructured_grid`: neither library is
imported unless a file is to be read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pcarann.mesh.elements import KINDS, Matrix
from pcarann.validation import shown, unstopped

__all__ = ["parts_of"]

_VTK = {1: "vertex", 2: "vertex", 3: "line", 5: "triangle", 8: "pixel", 9: "quad", 10: "tetra", 11: "voxel",
        12: "hexahedron"}  # fmt: skip
_AROUND = {"pixel": ("quad", [0, 1, 3, 2]), "voxel": ("hexahedron", [0, 1, 3, 2, 4, 5, 7, 6])}
_DIMENSIONS = {"vertex": 0} | {name: kind.dimension for name, kind in KINDS.items()}


def parts_of(thing: Any) -> tuple[Matrix, dict[str, Any] | None]:
    """Points, and cells of the highest dimension by kinds, None where there are none."""
    if isinstance(thing, str | os.PathLike):
        thing = _read(thing)
    if hasattr(thing, "cast_to_unstructured_grid"):
        grid = thing.cast_to_unstructured_grid()
        points, cells = grid.points, _of_vtk(grid.cells_dict)
    elif hasattr(thing, "points") and hasattr(thing, "cells_dict"):
        points, cells = thing.points, dict(thing.cells_dict)
    elif hasattr(thing, "points") and isinstance(getattr(thing, "cells", None), Mapping):
        points, cells = thing.points, dict(thing.cells)
    else:
        raise ValueError(
            f"A mesh is a pcarann.Mesh, a meshio.Mesh, a dataset of pyvista or the path of a file, got {shown(thing)}: "
            "all samples lie on one mesh, so interpolate fields on different ones."
        )
    return _flattened(np.asarray(points, dtype=np.float64), cells)


def _read(path: str | os.PathLike[str]) -> Any:
    try:
        import meshio
    except ImportError:
        message = "Reading mesh files needs meshio: pip install 'pcarann[mesh]'"
        raise ImportError(message) from None
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no mesh file {os.fspath(path)}.")
    try:
        return meshio.read(path)
    except (meshio.ReadError, SystemExit) as error:
        raise ValueError(f"{os.fspath(path)} is no mesh file that meshio can read: {unstopped(error)}.") from None


def _of_vtk(cells: Any) -> dict[str, Any]:
    """Cells by meshio's names; those of image data are numbered row by row there."""
    found: dict[str, list[Any]] = {}
    for code, part in cells.items():
        name = _VTK.get(int(code), f"VTK {int(code)}")
        name, order = _AROUND.get(name, (name, slice(None)))
        found.setdefault(name, []).append(np.asarray(part)[:, order])
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _flattened(points: Matrix, cells: dict[str, Any]) -> tuple[Matrix, dict[str, Any] | None]:
    """Without cells of the boundary, and without a last coordinate that is the same everywhere."""
    cells = {name: part for name, part in cells.items() if len(part)}
    most = max((_DIMENSIONS.get(name, 3) for name in cells), default=0)
    kept = {name: part for name, part in cells.items() if _DIMENSIONS.get(name, 3) == most}
    while points.shape[1] > max(1, most) and np.ptp(points[:, -1]) == 0:
        points = points[:, :-1]
    return points, kept if most else None
