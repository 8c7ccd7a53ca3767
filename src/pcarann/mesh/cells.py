"""Points and cells that users hand over, checked.

Each check ends in one sentence that says how many are at fault and which is the first. The orientation of a cell does
not matter; its corners must go around it in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from pcarann.mesh.elements import KINDS, Block, Element, Index, Matrix

__all__ = ["checked_blocks", "checked_points"]

_FLAT = 1e-12  # of the longest edge to the power of its dimension: what rounding makes of nothing
_SAME = 1e-12  # of the extent: points that only rounding tells apart
_BY_COUNT = {(1, 2): "line", (2, 2): "line", (2, 3): "triangle", (2, 4): "quad", (3, 2): "line", (3, 3): "triangle",
             (3, 4): "tetra", (3, 8): "hexahedron"}  # fmt: skip


def checked_points(points: Any) -> Matrix:
    """(nodes, d) points, or a refusal."""
    found = np.array(points, dtype=np.float64)
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] not in (1, 2, 3) or len(found) < 2:
        raise ValueError(f"points must be (nodes, 1, 2 or 3) coordinates of two nodes or more, found {found.shape}.")
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(bad):
        raise ValueError(f"points contain NaN or infinity: {len(bad)} of {len(found)}, the first is point {bad[0]}.")
    extent = float(np.ptp(found, axis=0).max())
    same = cKDTree(found - found.mean(axis=0)).query_pairs(_SAME * extent, output_type="ndarray")
    if len(same):
        first, second = same[np.lexsort((same[:, 1], same[:, 0]))[0]]
        raise ValueError(
            f"points must differ: {len(same)} pair(s) are the same, the first are points {first} and {second}; "
            "merge them (clean() in pyvista), or give a table of nodes to cells that share them."
        )
    found.flags.writeable = False
    return found


def checked_blocks(cells: Any, points: Matrix) -> tuple[Block, ...]:
    """Cells by kinds, or a refusal; none where there are none."""
    if cells is None:
        return ()
    named = cells if isinstance(cells, Mapping) else {_kind(np.asarray(cells), points.shape[1]): cells}
    blocks = tuple(_block(str(name), part, points) for name, part in named.items() if len(part))
    if not blocks:
        raise ValueError("cells must hold at least one cell, or be None for a cloud of points.")
    dimensions = {block.element.name: block.element.dimension for block in blocks}
    if len(set(dimensions.values())) > 1:
        raise ValueError(
            f"cells must all have the same dimension, found {', '.join(f'{k} ({n})' for k, n in dimensions.items())}: "
            "leave out those of the boundary."
        )
    used = np.zeros(len(points), dtype=bool)
    for block in blocks:
        used[block.cells] = True
    if not used.all():
        lost = np.flatnonzero(~used)
        raise ValueError(
            f"{len(lost)} of {len(points)} points belong to no cell, the first is point {lost[0]}: remove them, from "
            "points and fields alike."
        )
    for block in blocks:
        _refuse_degenerate(block, points)
    return blocks


def _kind(cells: np.ndarray[Any, Any], dimension: int) -> str:
    if cells.ndim != 2 or (dimension, cells.shape[1]) not in _BY_COUNT:
        raise ValueError(
            f"cells must be an (n, k) array, k corners of a known kind in {dimension} dimensions, or a mapping from "
            f"{', '.join(KINDS)} to such arrays, found shape {cells.shape}."
        )
    return _BY_COUNT[dimension, cells.shape[1]]


def _block(name: str, cells: Any, points: Matrix) -> Block:
    if name not in KINDS:
        raise ValueError(f"cells of kind {name!r} are not known: {', '.join(KINDS)} are.")
    element, found = KINDS[name], np.asarray(cells)
    if found.ndim != 2 or found.shape[1] != element.nodes or found.dtype.kind not in "iu":
        raise ValueError(
            f"cells of kind {name!r} must be whole numbers of shape (n, {element.nodes}), found {found.dtype} of shape "
            f"{found.shape}."
        )
    if element.dimension > points.shape[1]:
        raise ValueError(f"cells of kind {name!r} need points in {element.dimension} dimensions or more, found "
                         f"{points.shape[1]}.")  # fmt: skip
    bad = np.flatnonzero(((found < 0) | (found >= len(points))).any(axis=1))
    if len(bad):
        raise ValueError(
            f"{len(bad)} cell(s) of kind {name!r} have corners that are none of the {len(points)} points, the first is "
            f"cell {bad[0]} with {found[bad[0]].tolist()}."
        )
    index: Index = np.array(found, dtype=np.int64, order="C")
    index.flags.writeable = False
    return Block(element, index)


def _refuse_degenerate(block: Block, points: Matrix) -> None:
    element = block.element
    again = np.ones(len(block.cells), dtype=bool)
    again[np.unique(np.sort(block.cells, axis=1), axis=0, return_index=True)[1]] = False
    _refuse(again, block, "stand there twice")
    corners = points[block.cells]
    longest = np.max([np.linalg.norm(corners - corners[:, [k]], axis=-1).max(axis=1) for k in range(element.nodes)],
                     axis=0)  # fmt: skip
    at, weights = element.quadrature()
    sizes = block.measured(points, at) @ weights
    _refuse(sizes <= _FLAT * longest**element.dimension, block, "have no size")
    if not element.is_simplex:
        turns = _turns(
            block.jacobians(points, np.concatenate([element.corners, at, [[0.5] * element.dimension]])), element
        )
        _refuse((turns <= _FLAT * longest[:, None] ** element.dimension).any(axis=1), block,
                "are not convex, or have corners that do not go around them in order")  # fmt: skip


def _turns(jacobians: Matrix, element: Element) -> Matrix:
    """Size and sign of J at some points of every cell, positive where it is that of most of them: (n, points)."""
    if jacobians.shape[-1] == element.dimension:
        found = np.linalg.det(jacobians)
        return np.asarray(found * np.sign(found.sum(axis=1, keepdims=True)))
    normals = np.cross(jacobians[..., 0, :], jacobians[..., 1, :])
    mean = normals.mean(axis=1, keepdims=True)
    length = np.linalg.norm(mean, axis=-1, keepdims=True)
    return np.asarray((normals * mean / np.where(length > 0, length, 1.0)).sum(axis=-1))


def _refuse(bad: Any, block: Block, what: str) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{int(bad.sum())} of {len(block.cells)} cells of kind {block.element.name!r} {what}, the first is cell "
            f"{first} with points {block.cells[first].tolist()}."
        )
