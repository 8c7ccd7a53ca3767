"""Meshes as files: nodes and cells read, fields at the nodes written.

Written are VTU, one file for each sample (`out_0001.vtu`, …), and XDMF, all samples as the steps of one series with
its numbers inside it. Every file takes the place of an old one only when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.files import atomic_writer, check_target
from pcarann.problems.formats.mesh import MeshSamples, meshio

__all__ = [
    "WRITTEN",
    "MeshOfFiles",
    "read_mesh",
    "sample_paths",
    "triangles_of",
    "write_mesh_fields",
    "write_mesh_samples",
]

WRITTEN = (".vtu", ".xdmf")
"""Endings of the meshes that can be written"""

_CORNERS = {"triangle": 3, "triangle6": 3, "triangle7": 3, "quad": 4, "quad8": 4, "quad9": 4}
_FACES: dict[str, list[tuple[int, ...]]] = {
    "tetra": [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)],
    "hexahedron": [(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)],
    "wedge": [(0, 1, 2), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5)],
}
_FACES |= {"tetra10": _FACES["tetra"], "hexahedron20": _FACES["hexahedron"], "hexahedron27": _FACES["hexahedron"]}

Array = np.ndarray[Any, Any]


class MeshOfFiles(NamedTuple):
    """The mesh that files share."""

    points: Array
    """(nodes, dimensions), a third coordinate that is zero throughout left out"""
    cells: dict[str, Array]
    """Nodes of each cell, (cells, nodes of a cell), by kind: "triangle", "quad", "tetra", …"""

    @property
    def triangles(self) -> Array:
        """Triangles to draw: `triangles_of` the cells."""
        return triangles_of(self.cells)


def read_mesh(path: str | os.PathLike[str]) -> MeshOfFiles:
    """Return the mesh of a file, or of the first of several that a folder or a pattern stands for."""
    first = MeshSamples.of(Path(path)).first
    points = first.points
    flat = points.shape[1] == 3 and not points[:, 2].any()
    return MeshOfFiles(points[:, :2] if flat else points, first.cells)


def triangles_of(cells: Mapping[str, Any]) -> Array:
    """Triangles that cover plane cells, quadrilaterals halved; of volumes without plane cells, those of their surface.

    >>> triangles_of({"quad": [[0, 1, 2, 3]]}).tolist()
    [[0, 1, 2], [0, 2, 3]]
    """
    faces = [to_host(cells[kind])[:, :count] for kind, count in _CORNERS.items() if kind in cells]
    if not faces:
        faces = _surface({kind: to_host(cells[kind]) for kind in _FACES if kind in cells})
    halves = [face[:, corners] for face in faces for corners in ([0, 1, 2], [0, 2, 3])[: face.shape[1] - 2]]
    return np.concatenate(halves) if halves else np.empty((0, 3), dtype=int)


def _surface(volumes: dict[str, Array]) -> list[Array]:
    """Faces that belong to one cell alone."""
    found: list[Array] = []
    for corners in (3, 4):
        sides = [
            cells[:, face]
            for kind, cells in volumes.items()
            for face in map(list, _FACES[kind])
            if len(face) == corners
        ]
        if sides:
            faces = np.concatenate(sides)
            _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
            found.append(faces[first[counts == 1]])
    return found


def sample_paths(path: str | os.PathLike[str], count: int) -> list[Path]:
    """The files that so many samples are written to.

    >>> [path.name for path in sample_paths("out.vtu", 2)], [path.name for path in sample_paths("out.xdmf", 2)]
    (['out_0001.vtu', 'out_0002.vtu'], ['out.xdmf'])
    """
    path = Path(path)
    if path.suffix.lower() not in WRITTEN:
        raise ValueError(f"path must end in {' or '.join(WRITTEN)}, got {path.name!r}.")
    if count == 1 or path.suffix.lower() == ".xdmf":
        return [path]
    digits = max(4, len(str(count)))
    return [path.with_name(f"{path.stem}_{k:0{digits}}{path.suffix}") for k in range(1, count + 1)]


def write_mesh_fields(
    path: str | os.PathLike[str], points: Any, cells: Mapping[str, Any], fields: Mapping[str, Any]
) -> None:
    """Write one sample's fields on a mesh, (nodes,) or (nodes, components) each, to a `.vtu` or an `.xdmf` file."""
    write_mesh_samples(path, points, cells, {name: to_host(field)[None] for name, field in fields.items()})


def write_mesh_samples(
    path: str | os.PathLike[str], points: Any, cells: Mapping[str, Any], fields: Mapping[str, Any]
) -> list[Path]:
    """Write fields of several samples, (samples, nodes) or (samples, nodes, components) each, and return the files.

    To `.vtu` there is a file for each sample, numbered where there are several, to `.xdmf` a series of one file.
    """
    nodes = to_host(points)
    # Nodes without cells are cells of their own, so that programs show them.
    blocks = {kind: to_host(cells[kind]) for kind in cells} or {"vertex": np.arange(len(nodes))[:, None]}
    arrays = {name: _checked(name, to_host(field), len(nodes)) for name, field in fields.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none at all"
        raise ValueError(f"fields must have as many samples each, found {told}.")
    paths = sample_paths(path, next(iter(counts.values())))
    package = meshio(paths[0])
    for one in paths:
        check_target(one)
    if paths[0].suffix.lower() == ".xdmf":
        _write_series(package, paths[0], (nodes, blocks), arrays)
        return paths
    flat = np.zeros((len(nodes), 3 - nodes.shape[1]))
    for k, one in enumerate(paths):
        data = {name: np.ascontiguousarray(array[k]) for name, array in arrays.items()}
        mesh = package.Mesh(np.hstack([nodes, flat]), list(blocks.items()), point_data=data)
        with _draft_of(one) as draft:
            package.vtu.write(draft, mesh)
    return paths


def _checked(name: str, field: Array, nodes: int) -> Array:
    if field.ndim not in (2, 3) or field.shape[1] != nodes:
        raise ValueError(
            f"{name} must be (samples, nodes) or (samples, nodes, components) for {nodes} nodes, found {field.shape}."
        )
    return field


def _write_series(package: Any, path: Path, mesh: tuple[Array, dict[str, Array]], arrays: dict[str, Array]) -> None:
    """Write a series whose numbers are text inside it: one file, which is whole or not there."""
    with _draft_of(path) as draft, package.xdmf.TimeSeriesWriter(draft, data_format="XML") as writer:
        points = np.hstack([mesh[0], np.zeros((len(mesh[0]), max(0, 2 - mesh[0].shape[1])))])
        writer.write_points_cells(points, list(mesh[1].items()))
        for k in range(len(next(iter(arrays.values())))):
            # As doubles: meshio gives single precision a digit too few to be read back as it was.
            data = {
                name: array[k].astype(float) if array.dtype.kind == "f" else array[k] for name, array in arrays.items()
            }
            writer.write_data(float(k), point_data=data)


@contextlib.contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """A name to write to, as meshio wants one; what is there afterwards takes the place of the file in one step."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "draft")
        yield draft
        with open(draft, "rb") as written, atomic_writer(path) as file:
            shutil.copyfileobj(written, file)
