"""Data files with something changed in them, read.

A data file has no digest: changed numbers are other numbers. It must be refused with a DataFileError, or give arrays
of real numbers, as many samples in each, and take no more memory than a file of its size may.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from nasty import BYTES, changed_bytes, changed_document
from workers import memory_beyond, ran_out_of_memory

from pcarann.problems import DataFileError, read
from pcarann.problems.readers import describe

__all__ = ["DataFiles"]

_Files = dict[str, bytes]
"""A file, or the files of a folder, by name"""


@dataclass(frozen=True)
class DataFiles:
    """Cases of data files of every format."""

    sources: dict[str, _Files]
    seed: int = 0

    @classmethod
    def made(cls, folder: Path, seed: int = 0, *, stores: bool) -> DataFiles:
        """From a small file of every format, or from stores, which are folders."""
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        a, u = rng.standard_normal((5, 4, 3)), rng.standard_normal((5, 4))
        sources = {}
        for name, writer in WRITERS.items():
            path = folder / name
            if stores != (path.suffix == ".zarr"):
                continue
            writer(path, a, u)
            parts = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
            read(path, *_keys(path))  # which imports what reading needs
            sources[name] = {one.relative_to(folder).as_posix(): one.read_bytes() for one in parts}
        return cls(sources, seed)

    def plan(self, index: int) -> tuple[str, str]:
        """The format, and the way in which the file is changed."""
        draw = random.Random(f"{self.seed} {index}")
        subject = draw.choice(sorted(self.sources))
        structural = STRUCTURE.get(Path(subject).suffix, {})
        ways = list(structural) if structural and draw.random() < 0.5 else list(BYTES)
        return subject, draw.choice(ways)

    def files(self, index: int) -> _Files:
        """The files of a case."""
        subject, way = self.plan(index)
        draw, files = random.Random(f"{self.seed} {index} content"), dict(self.sources[subject])
        if way in BYTES:
            name = draw.choice(sorted(files))
            other = self.sources[draw.choice(sorted(self.sources))]
            for _ in range(draw.choice((1, 1, 3))):
                files[name] = changed_bytes(files[name], way, draw, next(iter(other.values())))
            return files
        return STRUCTURE[Path(subject).suffix][way](files, draw)

    def run(self, index: int, folder: Path) -> tuple[str, str]:
        """Read the file of a case."""
        files, path = self.files(index), folder / self.plan(index)[0]
        if path.is_dir():
            shutil.rmtree(path)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        if not path.exists():
            return "refused", "there is nothing"
        size = sum(map(len, files.values()))
        try:
            with warnings.catch_warnings(), memory_beyond(4 * size + 256_000_000):
                warnings.simplefilter("ignore")
                if index % 4 == 0:
                    describe(path)
                found = read(path, *_keys(path))
        except DataFileError as error:
            return ("beyond memory" if ran_out_of_memory(error) else "refused"), str(error)
        except Exception as error:
            outcome = "beyond memory" if ran_out_of_memory(error) else f"{type(error).__name__} in read"
            return outcome, f"{type(error).__name__}: {error}"
        return ("read" if all(_are_fields(one) for one in found if one is not None) else "no numbers"), ""


def _keys(path: Path) -> tuple[str, str | None]:
    return ("inputs", None) if path.suffix == ".npy" else ("a", "u")


def _are_fields(found: Any) -> bool:
    """Real numbers, finite but for points that no sample has."""
    array = np.asarray(found)
    if array.dtype.kind not in "fiub":
        return False
    return bool((np.isfinite(array) | np.isnan(array).all(axis=0)).all()) if array.ndim else False


# Sound files


def _write_h5(path: Path, a: np.ndarray, u: np.ndarray, **options: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=a, **options)
        file.create_dataset("u", data=u, **options)


def _write_matlab_73(path: Path, a: np.ndarray, u: np.ndarray) -> None:
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in (("a", a), ("u", u)):
            file.create_dataset(name, data=array.T).attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def _write_mat(path: Path, a: np.ndarray, u: np.ndarray, *, packed: bool) -> None:
    from scipy.io import savemat

    savemat(path, {"a": a, "u": u}, do_compression=packed)


def _write_nc(path: Path, a: np.ndarray, u: np.ndarray, engine: str) -> None:
    import xarray

    xarray.Dataset({"a": (("s", "x", "y"), a), "u": (("s", "x"), u)}).to_netcdf(path, engine=engine)


def _write_zarr(path: Path, a: np.ndarray, u: np.ndarray, version: int) -> None:
    import zarr

    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("a", data=a, chunks=(3, 4, 2))
    group.create_array("u", data=u, chunks=(5, 4))


def _write_vtu(path: Path, a: np.ndarray, u: np.ndarray, **options: Any) -> None:
    import meshio

    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    mesh = meshio.Mesh(points, {"triangle": np.array([[0, 1, 2], [1, 3, 2]])}, {"a": a[0], "u": u[0]})
    meshio.vtu.write(path, mesh, **options)


WRITERS: dict[str, Callable[[Path, np.ndarray, np.ndarray], None]] = {
    "plain.npy": lambda path, a, u: np.save(path, a),
    "plain.npz": lambda path, a, u: np.savez(path, a=a, u=u),
    "packed.npz": lambda path, a, u: np.savez_compressed(path, a=a, u=u),
    "plain.mat": lambda path, a, u: _write_mat(path, a, u, packed=False),
    "packed.mat": lambda path, a, u: _write_mat(path, a, u, packed=True),
    "new.mat": _write_matlab_73,
    "plain.h5": _write_h5,
    "packed.h5": lambda path, a, u: _write_h5(path, a, u, chunks=True, compression="gzip", shuffle=True),
    "new.nc": lambda path, a, u: _write_nc(path, a, u, "h5netcdf"),
    "old.nc": lambda path, a, u: _write_nc(path, a, u, "scipy"),
    "two.zarr": lambda path, a, u: _write_zarr(path, a, u, 2),
    "three.zarr": lambda path, a, u: _write_zarr(path, a, u, 3),
    "text.vtu": lambda path, a, u: _write_vtu(path, a, u, binary=False),
    "plain.vtu": lambda path, a, u: _write_vtu(path, a, u, compression=None),
    "packed.vtu": lambda path, a, u: _write_vtu(path, a, u),
}


# What formats say of their numbers, changed

_SHAPES = ("(5, 4, 3)", "()", "(0,)", "(-1,)", "(10**9,)", "(60,)", "(1000000000, 1000000000)", "(5, 4, 4)", "5", "[5]")
_TYPES = ("<f8", ">f8", "<f4", "<i8", "|O", "|S8", "<U2", "<c16", "|b1", "|V8", "<M8[s]", "<f16", "odd", "<f99")


def _npy(draw: random.Random, content: bytes) -> bytes:
    """An `.npy` file with another header of the same length."""
    length = int.from_bytes(content[8:10], "little")
    header = content[10 : 10 + length].decode("latin1")
    for _ in range(draw.choice((1, 1, 2))):
        way = draw.randrange(4)
        if way == 0:
            header = re.sub(r"\([^)]*\)", lambda _: draw.choice(_SHAPES), header, count=1)
        elif way == 1:
            header = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': '{draw.choice(_TYPES)}'", header)
        elif way == 2:
            header = header.replace("False", draw.choice(("True", "None", "1", "__import__('os')")))
        else:
            header = draw.choice(
                ("{}", "[" * 500, header + header, header.replace("shape", "form"), "{'descr': [('a', '<f8')]}")
            )
    text = header.rstrip().ljust(length - 1).encode("latin1") + b"\n"
    return (
        content[:6]
        + bytes([draw.choice((1, 1, 1, 2, 3, 9)), 0])
        + len(text).to_bytes(2, "little")
        + text
        + content[10 + length :]
    )


def _npy_header(files: _Files, draw: random.Random) -> _Files:
    return {name: _npy(draw, content) for name, content in files.items()}


def _npz_arrays(files: _Files, draw: random.Random) -> _Files:
    """Arrays changed inside a sound archive."""
    return {name: _zipped(content, draw, lambda inner: _npy(draw, inner)) for name, content in files.items()}


def _npz_bytes(files: _Files, draw: random.Random) -> _Files:
    way = draw.choice(list(BYTES))
    return {
        name: _zipped(content, draw, lambda inner: changed_bytes(inner, way, draw, b"other"))
        for name, content in files.items()
    }


def _npz_members(files: _Files, draw: random.Random) -> _Files:
    """Members that are there twice, under odd names, packed in odd ways, or too large."""
    name, content = next(iter(files.items()))
    odd = draw.choice(("a.npy", "../a.npy", "/a.npy", "b.npy", "a", "a.npy/", "u.npy\x00", "é.npy"))
    body = draw.choice((b"", b"\x93NUMPY", bytes(10_000_000), content))
    found = io.BytesIO(content)
    with warnings.catch_warnings(), zipfile.ZipFile(found, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr(odd, body, draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)))
    return {name: found.getvalue()}


def _zipped(content: bytes, draw: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    found, wanted = io.BytesIO(), draw.choice(("a.npy", "u.npy"))
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(found, "w") as new:
        for one in old.infolist():
            inner = old.read(one)
            new.writestr(one, change(inner) if one.filename == wanted else inner)
    return found.getvalue()


def _zarr_words(files: _Files, draw: random.Random) -> _Files:
    """What a store says of its arrays."""
    name = draw.choice([one for one in sorted(files) if one.endswith(("json", ".zarray", ".zgroup", ".zattrs"))])
    document = json.loads(files[name])
    for _ in range(draw.choice((1, 1, 2, 4))):
        document = changed_document(document, draw)
    try:
        return files | {name: json.dumps(document).encode()}
    except (ValueError, UnicodeError):
        return files | {name: b"{}"}


def _zarr_files(files: _Files, draw: random.Random) -> _Files:
    """Chunks that are lost, swapped or somebody else's."""
    name, other = draw.choice(sorted(files)), draw.choice(sorted(files))
    found = dict(files)
    way = draw.randrange(4)
    if way == 0:
        del found[name]
    elif way == 1:
        found[name], found[other] = found[other], found[name]
    elif way == 2:
        found[name] = b""
    else:
        found[name + draw.choice(("0", ".0", "x"))] = found.pop(name)
    return found


def _words(files: _Files, draw: random.Random) -> _Files:
    """Words and numbers of a text."""
    name, content = next(iter(files.items()))
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = list(re.finditer(rb"[A-Za-z]+|-?\d+(\.\d+)?(e[+-]?\d+)?", content))
        if not places:
            break
        one, other = draw.choice(places), draw.choice(places).group()
        nasty = (
            b"",
            b"0",
            b"-1",
            b"3",
            b"nan",
            b"inf",
            b"999999999999",
            b"1e999",
            b"appended",
            b"Float16",
            b"UInt64",
            other,
        )
        content = content[: one.start()] + draw.choice(nasty) + content[one.end() :]
    return {name: content}


def _xml(files: _Files, draw: random.Random) -> _Files:
    """Elements that are lost, there twice, or of another kind; entities."""
    name, content = next(iter(files.items()))
    places = list(re.finditer(rb"<[^>]+>", content))
    one = draw.choice(places)
    entity = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "' + b"&a;" * 50 + b'">]>'
    instead = draw.choice((b"", one.group() * 2, b"<odd>", b"&b;", b"<!--", draw.choice(places).group()))
    content = content[: one.start()] + instead + content[one.end() :]
    return {name: (entity if draw.random() < 0.2 else b"") + content}


def _hdf5(files: _Files, draw: random.Random) -> _Files:
    """Datasets of any type, layout, filter and link, written by HDF5 itself."""
    import h5py

    name = next(iter(files))
    found = io.BytesIO()
    shape = draw.choice(((5, 4), (), (0, 3), (1,), (5, 4, 3), (10**9, 10**6), (5, 10**6)))
    kind = draw.choice(("f8", "f4", ">f8", "i4", "S5", "c16", "?", "f2", h5py.string_dtype(), h5py.ref_dtype))
    packed = draw.choice((None, "gzip", "lzf"))
    chunks = None if not shape or 0 in shape else tuple(min(n, draw.choice((1, 3, 10**6))) for n in shape)
    with h5py.File(found, "w") as file:
        try:
            options = {"chunks": chunks, "compression": packed} if chunks else {}
            one = file.create_dataset("a", shape, kind, fillvalue=None, **options)
            pieces = 1 if chunks is None else one.size / max(int(np.prod(chunks)), 1)
            if draw.random() < 0.5 and one.size < 10**5 and pieces < 1000 and one.dtype.kind in "fiu":
                one[...] = draw.choice((0, 1, np.nan)) if one.dtype.kind == "f" else 1
        except (ValueError, TypeError):  # HDF5 itself refuses
            file.attrs["odd"] = 1
        other = draw.choice(
            ("a", h5py.SoftLink("/a"), h5py.SoftLink("/u"), h5py.ExternalLink("/etc/hostname", "x"), np.ones((5, 4)))
        )
        if not isinstance(other, str):
            file["u"] = other
        elif "a" in file:
            file["u"] = file["a"]
        if draw.random() < 0.1:
            file.create_virtual_dataset("v", h5py.VirtualLayout((5,), "f8"))
    return {name: found.getvalue()}


STRUCTURE: dict[str, dict[str, Callable[[_Files, random.Random], _Files]]] = {
    ".npy": {"header": _npy_header},
    ".npz": {"headers inside": _npz_arrays, "bytes inside": _npz_bytes, "members": _npz_members},
    ".zarr": {"words of a store": _zarr_words, "files of a store": _zarr_files},
    ".vtu": {"words": _words, "elements": _xml},
    ".h5": {"datasets": _hdf5},
    ".nc": {"datasets": _hdf5},
    ".mat": {"datasets": _hdf5},
}
"""Changes of what a format says, by ending"""
