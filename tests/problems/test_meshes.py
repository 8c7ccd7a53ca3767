"""Meshes: what was written is read back, on one mesh, and bad files end in one sentence."""

import sys

import h5py
import numpy as np
import pytest
import xarray
import zarr

from pcarann.problems import DataFileError, describe, read
from pcarann.problems.meshes import read_mesh, triangles_of, write_mesh_fields, write_mesh_samples

meshio = pytest.importorskip("meshio", reason="meshes are read and written by meshio")

RNG = np.random.default_rng(0)
POINTS = RNG.random((12, 2))
CELLS = {"triangle": np.array([[0, 1, 2], [3, 4, 5]]), "quad": np.array([[6, 7, 8, 9]])}
FIELDS = {
    "T": RNG.normal(size=(11, 12)),
    "velocity": RNG.normal(size=(11, 12, 2)),
    "single": RNG.normal(size=(11, 12, 3)).astype("f4"),
    "count": RNG.integers(0, 9, (11, 12)),
}


def write_all(folder, ending):
    """The same arrays in any format; returns what `read` is given."""
    path = folder / f"data{ending}"
    dims = {name: ("s", *"xyz"[: field.ndim - 1]) for name, field in FIELDS.items()}
    dims = {name: tuple(f"{d}{name}" if d != "s" else d for d in axes) for name, axes in dims.items()}
    if ending == ".npz":
        np.savez(path, **FIELDS)
    elif ending == ".h5":
        with h5py.File(path, "w") as file:
            file.update(FIELDS)
    elif ending == "plain.zarr":
        group = zarr.open_group(path, mode="w")
        for name, field in FIELDS.items():
            group.create_array(name, data=field)
    elif ending == ".nc":
        xarray.Dataset({n: (dims[n], f) for n, f in FIELDS.items()}).to_netcdf(path, engine="h5netcdf")
    elif ending == ".zarr":
        xarray.Dataset({n: (dims[n], f) for n, f in FIELDS.items()}).to_zarr(path, consolidated=False)
    else:
        write_mesh_samples(path, POINTS, CELLS, FIELDS)
        return folder / "data_*.vtu" if ending == ".vtu" else path
    return path


@pytest.mark.parametrize("ending", [".npz", ".h5", ".nc", ".zarr", "plain.zarr", ".vtu", ".xdmf"])
def test_the_same_arrays_come_back_from_every_format(tmp_path, ending):
    path = write_all(tmp_path, ending)
    found, _ = read(path, {name: name for name in FIELDS}, None)
    for name, field in FIELDS.items():
        assert np.array_equal(found[name], field), name
    assert set(describe(path)) >= set(FIELDS)


@pytest.mark.parametrize("ending", [".vtu", ".xdmf"])
def test_the_mesh_comes_back_too(tmp_path, ending):
    mesh = read_mesh(write_all(tmp_path, ending))
    assert np.array_equal(mesh.points, POINTS)
    assert {kind: cells.tolist() for kind, cells in mesh.cells.items()} == {k: c.tolist() for k, c in CELLS.items()}
    assert mesh.triangles.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [6, 8, 9]]


@pytest.mark.parametrize("ending", [".vtk", ".msh", ".xdmf"])
def test_single_files_that_meshio_wrote_are_one_sample(tmp_path, ending):
    points = np.hstack([POINTS, np.ones((12, 1))])
    mesh = meshio.Mesh(points, list(CELLS.items()), point_data={"T": FIELDS["T"][0], "v": FIELDS["single"][0]})
    if ending == ".msh":
        meshio.gmsh.write(tmp_path / "one.msh", mesh, "2.2", binary=True)
    else:
        mesh.write(tmp_path / f"one{ending}")
    T, v = read(tmp_path / f"one{ending}", "T", "v")
    assert np.array_equal(T, FIELDS["T"][:1])
    assert np.array_equal(v, FIELDS["single"][:1])
    assert np.array_equal(read_mesh(tmp_path / f"one{ending}").points, points)


def test_files_come_in_the_order_of_their_numbers_from_a_folder_or_a_pattern(tmp_path):
    for k in range(11):
        write_mesh_fields(tmp_path / f"run{k}.vtu", POINTS, CELLS, {"T": FIELDS["T"][k]})
    (tmp_path / "notes.txt").write_text("notes")
    for path in (tmp_path, tmp_path / "run*.vtu"):
        assert np.array_equal(read(path, "T", None)[0], FIELDS["T"])
    chosen = read(tmp_path, "T[:, 3:]", None, samples=slice(2, 11, 4))[0]
    assert np.array_equal(chosen, FIELDS["T"][2:11:4, 3:])


def test_only_the_files_that_are_wanted_are_read(tmp_path):
    path = write_all(tmp_path, ".vtu")
    (tmp_path / "data_0009.vtu").write_text("damaged")
    assert np.array_equal(read(path, "T", None, samples=slice(0, 8))[0], FIELDS["T"][:8])
    with pytest.raises(DataFileError, match=r"data_0009\.vtu cannot be read as \.vtu"):
        read(path, "T", None)


def test_several_series_have_an_axis_for_their_steps(tmp_path):
    for k in range(2):
        write_mesh_samples(tmp_path / f"run{k}.xdmf", POINTS, CELLS, {"T": FIELDS["T"][5 * k : 5 * k + 5]})
    assert np.array_equal(read(tmp_path, "T", None)[0], FIELDS["T"][:10].reshape(2, 5, 12))


def test_one_sample_is_one_file_without_a_number(tmp_path):
    write_mesh_fields(tmp_path / "a.vtu", POINTS, CELLS, {"T": FIELDS["T"][0]})
    assert [path.name for path in tmp_path.iterdir()] == ["a.vtu"]


@pytest.mark.parametrize("ending", [".vtu", ".xdmf"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_clouds_and_lines_are_written_too(tmp_path, ending, dimensions):
    points = RNG.random((12, dimensions))
    path = tmp_path / f"a{ending}"
    for cells in ({}, {"line": np.array([[0, 1], [1, 2]])}):
        write_mesh_fields(path, points, cells, {"T": FIELDS["T"][0]})
        assert np.array_equal(read(path, "T", None)[0], FIELDS["T"][:1])
        assert np.array_equal(read_mesh(path).points[:, :dimensions], points)


# What is refused


@pytest.mark.parametrize("what", ["points", "cells", "nodes"])
def test_another_mesh_is_refused(tmp_path, what):
    write_mesh_fields(tmp_path / "a1.vtu", POINTS, CELLS, {"T": FIELDS["T"][0]})
    points = {"points": POINTS + 1e-9, "nodes": POINTS[:10]}.get(what, POINTS)
    cells = CELLS if what != "cells" else {"triangle": CELLS["triangle"]}
    write_mesh_fields(tmp_path / "a2.vtu", points, cells, {"T": FIELDS["T"][1, : len(points)]})
    with pytest.raises(
        DataFileError, match=r"a2\.vtu has another mesh than a1\.vtu \(\d+ nodes and \d cells, 12 nodes"
    ):
        read(tmp_path, "T", None)


def test_a_name_that_is_missing_is_answered_with_those_there_are(tmp_path):
    path = write_all(tmp_path, ".vtu")
    with pytest.raises(DataFileError, match=r"has no array 'p': it holds T, count, single, velocity\.$"):
        read(path, "p", None)
    write_mesh_fields(tmp_path / "data_0004.vtu", POINTS, CELLS, {"S": FIELDS["T"][0]})
    with pytest.raises(DataFileError, match=r"data_0004\.vtu has no array 'T': it holds S"):
        read(path, "T", None)


def test_a_mesh_without_point_data_is_refused_but_has_its_mesh_read(tmp_path):
    data = {"k": [np.ones(2), np.ones(1)]}
    meshio.Mesh(np.hstack([POINTS, np.zeros((12, 1))]), list(CELLS.items()), cell_data=data).write(tmp_path / "a.vtu")
    with pytest.raises(DataFileError, match=r"a\.vtu has no point data: .* \(cell data, k, are not read\)"):
        read(tmp_path / "a.vtu", "k", None)
    assert np.array_equal(read_mesh(tmp_path / "a.vtu").points, POINTS)


@pytest.mark.parametrize("ending", [".vtu", ".vtk", ".xdmf", ".msh"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.9])
def test_a_file_cut_short_is_refused_in_one_sentence(tmp_path, ending, keep, capsys):
    mesh = meshio.Mesh(np.hstack([POINTS, np.ones((12, 1))]), list(CELLS.items()), point_data={"T": FIELDS["T"][0]})
    path = tmp_path / f"a{ending}"
    if ending == ".xdmf":
        write_mesh_samples(path, POINTS, CELLS, FIELDS)
    elif ending == ".msh":
        meshio.gmsh.write(path, mesh, "2.2", binary=True)
    else:
        mesh.write(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    capsys.readouterr()
    with pytest.raises(DataFileError) as refused:
        read(path, "T", None)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert capsys.readouterr() == ("", "")


def test_nan_names_the_sample(tmp_path):
    broken = FIELDS["T"].copy()
    broken[3, 2] = np.nan
    write_mesh_samples(tmp_path / "a.vtu", POINTS, CELLS, {"T": broken})
    with pytest.raises(DataFileError, match="1 value is NaN or infinite, the first in sample 3"):
        read(tmp_path, "T", None)


def test_files_of_several_kinds_in_a_folder_are_not_mixed(tmp_path):
    write_all(tmp_path, ".vtu")
    write_all(tmp_path, ".xdmf")
    with pytest.raises(DataFileError, match=r"holds \.vtu and \.xdmf files: name one kind, such as"):
        read(tmp_path, "T", None)


@pytest.mark.parametrize("name", ["none.vtu", "none*.vtu"])
def test_a_mesh_that_is_not_there_is_said_to_be_so(tmp_path, name):
    with pytest.raises(DataFileError, match="There is no data file"):
        read(tmp_path / name, "T", None)


@pytest.mark.parametrize("leads", ["../secret.h5:/T", "gone.h5:/T", "/etc/passwd:/T"])
def test_an_xdmf_file_that_leads_elsewhere_is_refused(tmp_path, leads):
    folder = tmp_path / "here"
    folder.mkdir()
    write_mesh_samples(folder / "a.xdmf", POINTS, CELLS, {"T": FIELDS["T"]})
    text = (folder / "a.xdmf").read_text()
    start = text.index(">", text.index("Format=", text.index("Attribute"))) + 1
    head = text[: start - 1].rpartition('Format="XML"')
    text = head[0] + 'Format="HDF"' + head[2] + ">" + leads + text[text.index("<", start) :]
    (folder / "a.xdmf").write_text(text)
    with pytest.raises(DataFileError, match=r"keeps (its )?numbers in"):
        read(folder / "a.xdmf", "T", None)


def test_without_meshio_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    write_all(tmp_path, ".vtu")
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(ImportError, match=r"is a mesh, which needs meshio: pip install 'pcarann\[mesh\]'\.$"):
        read(tmp_path, "T", None)


@pytest.mark.parametrize(
    ("path", "fields", "says"),
    [
        ("a.vtk", {"T": FIELDS["T"]}, "must end in .vtu or .xdmf, got 'a.vtk'"),
        ("a.vtu", {"T": FIELDS["T"][:, :5]}, r"T must be .* for 12 nodes, found \(11, 5\)"),
        ("a.vtu", {"T": FIELDS["T"], "S": FIELDS["T"][:3]}, "as many samples each, found T 11, S 3"),
        ("a.vtu", {}, "as many samples each, found none at all"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_file_is_there(tmp_path, path, fields, says):
    with pytest.raises(ValueError, match=says):
        write_mesh_samples(tmp_path / path, POINTS, CELLS, fields)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_file_among_the_numbers_leaves_all_as_they_were(tmp_path):
    write_mesh_samples(tmp_path / "a.vtu", POINTS, CELLS, {"T": FIELDS["T"][:3]})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "a_0003.vtu").chmod(0o444)
    with pytest.raises(PermissionError, match=r"a_0003\.vtu is read-only"):
        write_mesh_samples(tmp_path / "a.vtu", POINTS, CELLS, {"T": FIELDS["T"][3:6]})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_surface_of_volumes_is_what_one_cell_has_alone():
    two = {"tetra": np.array([[0, 1, 2, 3], [1, 2, 3, 4]])}
    assert {frozenset(face) for face in triangles_of(two).tolist()} == {
        frozenset(face) for face in ([0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 4], [1, 3, 4], [2, 3, 4])
    }
    assert len(triangles_of({"hexahedron": np.arange(8)[None]})) == 12
    assert triangles_of({"line": np.array([[0, 1]])}).shape == (0, 3)
