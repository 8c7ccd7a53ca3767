"""The mesh of stages as named arrays, and back, every part checked.

Harmonics are stored beside points and cells: where eigenvalues coincide, another machine would find other functions of
the same span, and readouts belong to those of the fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.mesh.elements import KINDS
from pcarann.mesh.mesh import Mesh
from pcarann.spatial.mesh_domain import MeshDomain
from pcarann.storage.formats import Tensors

__all__ = ["described_mesh", "rebuilt_mesh"]

_ORTHONORMAL = 1e-6  # far above the rounding of a fit, far below what a broken file would show


def described_mesh(domain: MeshDomain, tensors: Tensors) -> dict[str, Any]:
    """Add its arrays, and return what else is known of it."""
    mesh = domain.mesh
    tensors |= {"mesh.points": mesh.points, "mesh.values": domain.values, "mesh.functions": domain.functions}
    tensors |= {f"mesh.cells.{kind}": cells for kind, cells in mesh.cells.items()}
    return {"cells": list(mesh.cells), "components": mesh.components}


def rebuilt_mesh(described: dict[str, Any], tensors: Tensors) -> MeshDomain:
    """Return the mesh that a document describes."""
    kinds = described["cells"]
    if not set(kinds) <= set(KINDS):
        raise ValueError("its cells are of no known kind")
    cells = {kind: tensors[f"mesh.cells.{kind}"] for kind in kinds}
    points, values, functions = (_numbers(tensors[f"mesh.{name}"]) for name in ("points", "values", "functions"))
    mesh = Mesh(points, cells or None, described["components"])
    count = len(values)
    if not 0 < count <= mesh.nodes or values.shape != (count,) or functions.shape != (count, mesh.nodes):
        raise ValueError("its harmonics do not fit its mesh")
    if (values < 0).any() or (np.diff(values) < 0).any():
        raise ValueError("the eigenvalues of its mesh are not in order")
    products = (functions * mesh.weights) @ functions.T
    if not np.abs(products - np.eye(count)).max() < _ORTHONORMAL:
        raise ValueError("its harmonics are not orthonormal on its mesh")
    return MeshDomain(mesh, values, functions)


def _numbers(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if found.dtype != np.float64 or not np.isfinite(found).all():
        raise ValueError("the arrays of its mesh are not finite")
    return np.ascontiguousarray(found)
