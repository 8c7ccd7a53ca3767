"""Meshes of meshio and pyvista, and of files."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from meshes import cloud, hexahedra, mixed, quads, tetrahedra, tilted, triangles
from pcarann.mesh.mesh import Mesh
from pcarann.mesh.reading import parts_of

meshio = pytest.importorskip("meshio")
MADE = {"triangles": triangles, "quads": quads, "mixed": mixed, "tetrahedra": tetrahedra, "hexahedra": hexahedra,
        "surface": tilted}  # fmt: skip


def in_space(points):
    return np.pad(points, ((0, 0), (0, 3 - points.shape[1])))


def foreign(mesh):
    return meshio.Mesh(in_space(mesh.points), list(mesh.cells.items()))


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_mesh_of_meshio_is_read_and_flattened(made):
    mesh = made()
    assert Mesh.of(foreign(mesh)) == mesh
    assert Mesh.of(mesh) is mesh


def test_a_file_is_read(tmp_path):
    foreign(triangles()).write(tmp_path / "mesh.vtu")
    assert Mesh.of(tmp_path / "mesh.vtu") == triangles()
    assert Mesh.of(str(tmp_path / "mesh.vtu"), components="last").components == "last"


def test_cells_of_the_boundary_are_left_out():
    mesh = triangles()
    cells = [("line", np.array([[0, 1], [1, 2]])), ("vertex", np.array([[0]])), *mesh.cells.items()]
    assert Mesh.of(meshio.Mesh(in_space(mesh.points), cells)) == mesh


def test_points_alone_are_a_cloud():
    mesh = cloud()
    assert Mesh.of(meshio.Mesh(in_space(mesh.points), [("vertex", np.arange(mesh.nodes)[:, None])])) == mesh


def test_kinds_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="kind 'triangle6' are not known"):
        Mesh.of(meshio.Mesh(np.random.default_rng(0).normal(size=(6, 3)), [("triangle6", np.arange(6)[None])]))


def test_what_is_no_mesh_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"A mesh is a pcarann.Mesh, a meshio.Mesh.*got 3"):
        Mesh.of(3)
    with pytest.raises(FileNotFoundError, match=r"There is no mesh file .*none.vtu"):
        Mesh.of(tmp_path / "none.vtu")
    (tmp_path / "text.vtu").write_text("no mesh")
    with pytest.raises(ValueError, match="no mesh file that meshio can read"):
        Mesh.of(tmp_path / "text.vtu")


def test_without_meshio_files_cannot_be_read(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(ImportError, match=r"pip install 'pcarann\[mesh\]'"):
        Mesh.of(tmp_path / "mesh.vtu")


def test_datasets_of_pyvista_are_read():
    pyvista = pytest.importorskip("pyvista")
    mesh = mixed()
    assert Mesh.of(pyvista.from_meshio(foreign(mesh))) == mesh
    image = Mesh.of(pyvista.ImageData(dimensions=(3, 4, 2)))
    assert list(image.cells) == ["hexahedron"]
    assert image.weights.sum() == pytest.approx(6)
    plane = Mesh.of(pyvista.ImageData(dimensions=(3, 4, 1)))
    assert list(plane.cells) == ["quad"]
    assert plane.weights.sum() == pytest.approx(6)
    ball = Mesh.of(pyvista.Sphere(theta_resolution=12, phi_resolution=12))
    assert (list(ball.cells), ball.dimension, ball.points.shape[1]) == (["triangle"], 2, 3)


def test_a_dataset_of_pyvista_is_taken_with_its_image_cells_in_the_order_of_others():
    """Stands for pyvista's ImageData: cells by VTK's numbers, 8 a pixel, 11 a voxel."""
    plane = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    points = np.concatenate([plane, plane + np.array([0, 0, 1])])
    cells = {11: np.arange(8)[None], 12: np.array([[4, 5, 7, 6, 0, 1, 3, 2]]), 8: np.arange(4)[None]}
    grid = SimpleNamespace(points=points, cells_dict=cells)
    found = parts_of(SimpleNamespace(cast_to_unstructured_grid=lambda: grid))
    assert np.array_equal(found[0], points)
    assert {name: part.tolist() for name, part in found[1].items()} == {
        "hexahedron": [[0, 1, 3, 2, 4, 5, 7, 6], [4, 5, 7, 6, 0, 1, 3, 2]]
    }
