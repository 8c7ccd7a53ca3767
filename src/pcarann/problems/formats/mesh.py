"""Meshes with values at their nodes, through meshio: VTU, VTK, XDMF and Gmsh files.

One file is one sample, several on one mesh are as many: a folder of them, or a pattern such as "runs/*.vtu", in the
order of the numbers in their names. An XDMF time series is as many samples as it has steps; several series are
(samples, steps, nodes). Point data have the shape (samples, nodes) or (samples, nodes, components). Files are read
when their numbers are asked for, and each is held against the mesh of the first. An XDMF file may keep its numbers in
an HDF5 file beside it; one that leads to another folder is refused.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Arrays, Leave, Stored, require
from pcarann.problems.formats.hdf5 import check_dataset, datasets
from pcarann.problems.formats.heaps import refuse_endless_heaps
from pcarann.problems.selection import DataFileError, Selection, slices
from pcarann.validation import unstopped

__all__ = ["MESH_ENDINGS", "MeshSamples", "is_mesh_source", "mesh_files", "meshio", "open_meshes"]

MESH_ENDINGS = (".vtu", ".vtk", ".xdmf", ".xmf", ".msh")
"""Endings of the meshes that can be read"""

_KEPT = 1 << 28  # bytes of point data that stay in memory while a source is open
_SERIES = (".xdmf", ".xmf")


def meshio(path: Path | str) -> Any:
    """Return the package that reads and writes meshes, or say how to install it."""
    try:
        import meshio as package
    except ImportError:
        raise ImportError(f"{path} is a mesh, which needs meshio: pip install 'pcarann[mesh]'.") from None
    return package


def is_mesh_source(path: Path) -> bool:
    """Whether a path is a mesh file, a pattern of them, or a folder that holds some."""
    if path.suffix.lower() in MESH_ENDINGS:
        return True
    stored = path.suffix.lower() == ".zarr"
    return path.is_dir() and not stored and any(one.suffix.lower() in MESH_ENDINGS for one in path.iterdir())


def mesh_files(path: Path) -> list[Path]:
    """Return the files that a path, a folder or a pattern stands for, in the order of the numbers in their names."""
    if path.is_dir():
        found = [one for one in path.iterdir() if one.suffix.lower() in MESH_ENDINGS]
    elif path.exists() or not re.search(r"[*?\[]", str(path)):
        found = [path]
    else:
        found = list(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
    if not found:
        raise DataFileError(f"There is no data file {path}.")
    kinds = sorted({one.suffix.lower() for one in found})
    if len(kinds) > 1:
        raise DataFileError(
            f"{path} holds {' and '.join(kinds)} files: name one kind, such as {path / ('*' + kinds[0])}."
        )
    return sorted(found, key=_natural)


@contextlib.contextmanager
def open_meshes(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the point data of one mesh file, or of several on one mesh, by name."""
    samples = MeshSamples.of(path, leave)
    if not samples.names:
        cells = samples.first.of_cells
        more = f" (cell data, {', '.join(cells)}, are not read)" if cells else ""
        raise DataFileError(f"{samples.files[0]} has no point data: values at the nodes are wanted{more}.")
    yield {name: partial(samples.stored, name) for name in samples.names}


@dataclass(frozen=True)
class _Frames:
    """What one file holds: a mesh, and values at its nodes, (nodes, …), or (steps, nodes, …) of a series."""

    points: np.ndarray[Any, Any]
    cells: dict[str, np.ndarray[Any, Any]]
    data: dict[str, np.ndarray[Any, Any]]
    of_cells: tuple[str, ...]
    """Names of the cell data, which are not read"""
    series: bool

    def on_mesh_of(self, other: _Frames) -> bool:
        return (
            np.array_equal(self.points, other.points)
            and self.cells.keys() == other.cells.keys()
            and all(np.array_equal(cells, other.cells[kind]) for kind, cells in self.cells.items())
        )


@dataclass(frozen=True)
class MeshSamples:
    """Files on one mesh, one sample each, or the steps of one series."""

    path: Path
    files: list[Path]
    first: _Frames
    leave: Leave
    kept: dict[int, _Frames] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, leave: Leave | None = None) -> MeshSamples:
        """Look into the first of the files that a path stands for."""
        files, leave = mesh_files(path), leave or Leave()
        first = _read(files[0], leave)
        return cls(path, files, first, leave, {0: first})

    @property
    def names(self) -> list[str]:
        """Of the point data of the first file."""
        return list(self.first.data)

    def stored(self, name: str) -> Stored:
        """The values of all samples under one name."""
        first, where = self.first.data[name], f"{self.path}[{name}]"
        if len(self.files) == 1:
            return Stored(first.shape if self.first.series else (1, *first.shape), first.dtype, where, self._one(name))
        return Stored((len(self.files), *first.shape), first.dtype, where, partial(self._several, name))

    def _one(self, name: str) -> Any:
        values = self.first.data[name] if self.first.series else self.first.data[name][None]
        return lambda selection: np.ascontiguousarray(values[slices(selection)])

    def _several(self, name: str, selection: Selection) -> np.ndarray[Any, Any]:
        rows, rest = selection[0], slices(selection[1:])
        chosen = [self._values(row, name)[rest] for row in ([rows] if isinstance(rows, int) else rows)]
        return chosen[0] if isinstance(rows, int) else np.stack(chosen)

    def _values(self, row: int, name: str) -> np.ndarray[Any, Any]:
        """The values of one file, which must lie on the mesh of the first."""
        file, frames = self.files[row], self.kept.get(row) or self._checked(row)
        if name not in frames.data:
            raise DataFileError(f"{file} has no array {name!r}: it holds {', '.join(sorted(frames.data)) or 'none'}.")
        values, wanted = frames.data[name], self.first.data[name].shape
        if values.shape != wanted:
            raise DataFileError(f"{file}[{name}] has shape {values.shape}, but in {self.files[0].name} it is {wanted}.")
        return values

    def _checked(self, row: int) -> _Frames:
        file = self.files[row]
        frames = _read(file, self.leave)
        if not frames.on_mesh_of(self.first):
            raise DataFileError(
                f"{file} has another mesh than {self.files[0].name} ({_size(frames)}, {_size(self.first)}): "
                "samples must share one."
            )
        size = sum(values.nbytes for values in frames.data.values())
        if size * (len(self.kept) + 1) <= _KEPT:
            self.kept[row] = frames
        return frames


def _size(frames: _Frames) -> str:
    return f"{len(frames.points)} nodes and {sum(map(len, frames.cells.values()))} cells"


def _unreadable(path: Path, error: Exception) -> DataFileError:
    reason = " ".join(str(error).split()) or "it is damaged or cut short"
    return DataFileError(f"{path} cannot be read as {path.suffix}: {unstopped(reason)}.")


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """A key that sorts run_2 before run_10."""
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def _read(path: Path, leave: Leave) -> _Frames:
    if not path.is_file():
        known = f"{path} is not a regular file: it cannot be read."
        raise DataFileError(known if path.exists() else f"There is no data file {path}.")
    package, ending = meshio(path), path.suffix.lower()
    if ending in _SERIES:
        return _read_xdmf(package, path, leave)
    reader = {".vtu": package.vtu, ".vtk": package.vtk, ".msh": package.gmsh}[ending]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's, of numbers that end too soon
        try:
            mesh = reader.read(str(path))
        except Exception as error:  # of a damaged file meshio raises anything
            raise _unreadable(path, error) from error
    return _framed(mesh.points, mesh.cells, mesh.point_data, mesh.cell_data)


def _read_xdmf(package: Any, path: Path, leave: Leave) -> _Frames:
    """Read all steps of a series, or the one grid there is."""
    try:
        _refuse_leading_out(path, leave)
        if not _is_series(path):
            mesh = package.xdmf.read(str(path))
            return _framed(mesh.points, mesh.cells, mesh.point_data, mesh.cell_data)
        with package.xdmf.TimeSeriesReader(str(path)) as reader:
            points, cells = reader.read_points_cells()
            steps = [reader.read_data(k)[1:] for k in range(reader.num_steps)]
    except (DataFileError, ImportError, MemoryError):
        raise
    except Exception as error:  # of a damaged file meshio raises anything
        raise _unreadable(path, error) from error
    first, cell_data = steps[0] if steps else ({}, {})
    for k, (data, _) in enumerate(steps):
        if {name: np.shape(values) for name, values in data.items()} != {n: np.shape(v) for n, v in first.items()}:
            raise DataFileError(f"{path}: step {k} has other point data than step 0: {', '.join(data) or 'none'}.")
    data = {name: np.stack([data[name] for data, _ in steps]) for name in first}
    return _framed(points, cells, data, cell_data, series=True)


def _framed(points: Any, cells: Any, data: Any, cell_data: Any, *, series: bool = False) -> _Frames:
    merged: dict[str, list[Any]] = {}
    for block in cells:
        merged.setdefault(block.type, []).append(np.asarray(block.data))
    values = {str(name): _native(column) for name, column in data.items()}
    kinds = {kind: np.concatenate(blocks) for kind, blocks in merged.items()}
    return _Frames(_native(points), kinds, values, tuple(cell_data or ()), series)


def _native(values: Any) -> np.ndarray[Any, Any]:
    """An array in the byte order of this machine."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _is_series(path: Path) -> bool:
    from xml.etree import ElementTree

    return any(grid.get("CollectionType") == "Temporal" for grid in ElementTree.parse(path).iter("Grid"))


def _refuse_leading_out(path: Path, leave: Leave) -> None:
    """Refuse an XDMF file whose numbers are in other files than HDF5 ones beside it, which keep to themselves."""
    from xml.etree import ElementTree

    seen: set[str] = set()
    for item in ElementTree.parse(path).iter("DataItem"):
        kind, text = item.get("Format", "XML"), (item.text or "").strip()
        if kind == "XML" or item.get("Reference") is not None:
            continue
        name = text.rpartition(":")[0] if kind == "HDF" else text
        if kind != "HDF" or Path(name).name != name or (path.parent / name).is_symlink():
            raise DataFileError(f"{path} keeps numbers in {name or 'a file'}, which is not read: HDF5 beside it is.")
        if not (path.parent / name).is_file():
            raise DataFileError(f"{path} keeps its numbers in {name}, which is not beside it.")
        if name not in seen:
            refuse_endless_heaps(path.parent / name)
            with require("h5py", path).File(path.parent / name, "r") as file:
                for key in datasets(file, path.parent / name):
                    whole = tuple(map(range, file[key].shape or ()))
                    check_dataset(file[key], whole, leave, f"{path.parent / name}[{key}]")
        seen.add(name)
