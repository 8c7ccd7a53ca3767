"""Where the values of a tensor lie: axes of a grid with names and coordinates, or nodes of a mesh as they are drawn.

A plane mesh is drawn by its triangles. Of a solid its surface is, seen from above in front; dots stand for nodes
without cells, of those in space the ones near the plane through the middle of the shortest side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.containers.stacking import space_of
from pcarann.explorer.sliders import Values
from pcarann.export.signature import Tensor
from pcarann.mesh.mesh import Mesh

__all__ = ["axes_of", "mesh_of", "units_of"]

_FACES = {
    "tetra": ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)),
    "hexahedron": ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)),
}
_RIGHT_AND_UP = np.array([[0.85, 0.53, 0.0], [-0.25, 0.41, 0.88]])  # on paper, seen from above in front
_LEAST_IN_A_SLICE = 50
_UNITS = ("units", "unit")


def axes_of(tensor: Tensor, mesh: Mesh | None, *, flow: bool = False) -> list[dict[str, Any]]:
    """Every axis of a tensor: its role, name, units and coordinates.

    Roles are "time" of the snapshots of a flow, "node" of a mesh, "space", and "component" of what stands before space.
    """
    shape = tensor.shape
    node = mesh.node_axis(shape) if mesh is not None and mesh.nodes in shape else None
    first = 0 if tensor.dims else len(shape) - len(space_of(shape))
    found = []
    for i, size in enumerate(shape):
        role = "component" if i < first else "space"
        if node is not None:
            role = "node" if i == node else "component"
        if flow and i == 0:
            role = "time"
        name = tensor.dims[i] if tensor.dims else "time step" if role == "time" else ""
        coords = tensor.coords.get(name) if name else None
        along = None if coords is None else [float(x) for x in coords]
        found.append({"role": role, "name": name, "size": int(size), "coords": along})
    return found


def units_of(tensor: Tensor) -> str:
    """As its attributes have them; empty where they do not."""
    return next((tensor.attrs[key] for key in _UNITS if key in tensor.attrs), "")


def mesh_of(mesh: Mesh) -> dict[str, Any]:
    """Where nodes are, where they are on paper, and what is drawn between them, with a word on what that is."""
    points, (drawn, triangles, nodes, words) = mesh.points, _drawn(mesh)
    return {"points": points, "seen": drawn, "triangles": triangles, "nodes": nodes, "words": words}


def _drawn(mesh: Mesh) -> tuple[Values, Values, Values, str]:
    points, none = mesh.points, np.empty((0, 3), dtype=np.int64)
    every = np.arange(mesh.nodes)
    if points.shape[1] == 1:
        return points, none, every, "along a line"
    if mesh.cells and mesh.dimension == 1:
        return _on_paper(points), none, every, "values at the nodes"
    if mesh.cells and points.shape[1] == 2:
        return points, mesh.triangles, every, ""
    if mesh.cells:
        triangles = mesh.triangles if mesh.dimension == 2 else _surface(mesh)
        behind = np.argsort(points[triangles].mean(axis=1) @ np.cross(*_RIGHT_AND_UP), kind="stable")
        return _on_paper(points), triangles[behind], np.unique(triangles), "the surface, seen from above in front"
    if points.shape[1] == 2:
        return points, none, every, "values at points"
    across = int(np.argmin(np.ptp(points, axis=0)))
    near = _near_the_middle(points[:, across])
    level = float(np.median(points[near, across]))
    kept = [k for k in range(3) if k != across]
    return points[:, kept], none, near, f"points near {'xyz'[across]} = {level:.3g}"


def _on_paper(points: Values) -> Values:
    return points if points.shape[1] < 3 else np.asarray(points @ _RIGHT_AND_UP.T)


def _surface(mesh: Mesh) -> Values:
    """Triangles of the faces that belong to one cell alone."""
    found = []
    for kind, cells in mesh.cells.items():
        for face in _FACES[kind]:
            found.append(np.pad(cells[:, face], ((0, 0), (0, 4 - len(face))), constant_values=-1))
    faces = np.concatenate(found)
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    outer = faces[first[counts == 1]]
    return np.concatenate([outer[:, [0, 1, 2]], outer[outer[:, 3] >= 0][:, [0, 2, 3]]])


def _near_the_middle(heights: Values) -> Values:
    """As many nodes as a plane of a regular mesh would have, n^(2/3), and all others as near."""
    distance = np.abs(heights - (heights.min() + heights.max()) / 2)
    wanted = min(len(heights), max(_LEAST_IN_A_SLICE, round(len(heights) ** (2 / 3))))
    return np.flatnonzero(distance <= np.partition(distance, wanted - 1)[wanted - 1])
