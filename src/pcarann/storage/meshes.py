"""The mesh of stages as named arrays, and back, every part checked.

Harmonics are stored beside points and cells: where eigenvalues coincide, another machine would find other functions of
the same span, and readouts belong to those of the fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.mesh.cloud import Cloud
from pcarann.mesh.elements import KINDS
from pcarann.mesh.mesh import Mesh
from pcarann.spatial.mesh_domain import MeshDomain
from pcarann.storage.arrays import Arrays, numbers
from pcarann.storage.formats import Tensors

__all__ = ["described_mesh", "rebuilt_cells", "rebuilt_mesh"]

_ORTHONORMAL = 1e-6  # far above the rounding of a fit, far below what a broken file would show


def described_mesh(domain: MeshDomain, tensors: Tensors) -> dict[str, Any]:
    """Add its arrays, and return what else is known of it."""
    mesh = domain.mesh
    tensors |= {"mesh.points": mesh.points, "mesh.values": domain.values, "mesh.functions": domain.functions}
    tensors |= {f"mesh.cells.{kind}": cells for kind, cells in mesh.cells.items()}
    return {"cells": list(mesh.cells), "components": mesh.components}


def rebuilt_mesh(described: dict[str, Any], arrays: Arrays) -> MeshDomain:
    """Return the mesh that a document describes, with its harmonics."""
    values, functions = (
        np.ascontiguousarray(numbers(arrays.found, f"mesh.{name}")) for name in ("values", "functions")
    )
    mesh = rebuilt_cells(described, "mesh", arrays)
    count = len(values)
    if not 0 < count <= mesh.nodes or values.shape != (count,) or functions.shape != (count, mesh.nodes):
        raise ValueError("its harmonics do not fit its mesh")
    if (values < 0).any() or (np.diff(values) < 0).any():
        raise ValueError("the eigenvalues of its mesh are not in order")
    products = (functions * mesh.weights) @ functions.T
    if not np.abs(products - np.eye(count)).max() < _ORTHONORMAL:
        raise ValueError("its harmonics are not orthonormal on its mesh")
    return MeshDomain(mesh, values, functions)


def rebuilt_cells(described: dict[str, Any], name: str, arrays: Arrays) -> Mesh:
    """Return the mesh whose points and cells stand under a name.

    Stencils have as many columns as the node with most neighbours: one that all others stand beside makes them square.
    """
    kinds = described["cells"]
    if not set(kinds) <= set(KINDS):
        raise ValueError("its cells are of no known kind")
    cells = {kind: arrays.found[f"{name}.cells.{kind}"] for kind in kinds}
    mesh = Mesh(numbers(arrays.found, f"{name}.points"), cells or None, described["components"])
    neighbours = np.zeros(mesh.nodes, dtype=np.int64)
    for corners in mesh.cells.values():
        neighbours += (corners.shape[1] - 1) * np.bincount(corners.reshape(-1), minlength=mesh.nodes)
    if not mesh.cells:
        index = Cloud(mesh.points).neighbours[1]
        neighbours += index.shape[1] + np.bincount(index.reshape(-1), minlength=mesh.nodes)
    most, parts = min(int(neighbours.max()) + 1, mesh.nodes), 2 * (1 + mesh.points.shape[1])
    arrays.allowance.check(8 * parts * mesh.nodes * most, "the stencils of its mesh")
    return mesh
