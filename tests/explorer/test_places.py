"""Meshes as they are drawn."""

from itertools import product

import numpy as np

import meshes
from pcarann.explorer.places import mesh_of
from pcarann.mesh.mesh import Mesh


def test_a_plane_mesh_is_drawn_by_its_triangles():
    mesh = meshes.triangles(5)
    found = mesh_of(mesh)
    np.testing.assert_array_equal(found["triangles"], mesh.triangles)
    np.testing.assert_array_equal(found["seen"], mesh.points)


def test_of_a_solid_the_surface_is_drawn():
    corners = np.array(list(product((0.0, 1.0), repeat=3)))
    around = [(0, 4, 6, 7), (0, 4, 5, 7), (0, 2, 6, 7), (0, 2, 3, 7), (0, 1, 5, 7), (0, 1, 3, 7)]  # the diagonal
    for mesh in (Mesh(corners, around), meshes.hexahedra(4)):
        found = mesh_of(mesh)
        corners = mesh.points[found["triangles"]]
        sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert np.isclose(np.linalg.norm(sides, axis=1).sum() / 2, 6)  # of the unit cube
        assert set(found["nodes"]) == set(found["triangles"].ravel())
        assert "surface" in found["words"]


def test_what_is_in_front_is_painted_last():
    found = mesh_of(meshes.tetrahedra(4))
    towards = np.cross([0.85, 0.53, 0.0], [-0.25, 0.41, 0.88])
    depth = meshes.tetrahedra(4).points[found["triangles"]].mean(axis=1) @ towards
    assert (np.diff(depth) >= 0).all()


def test_points_without_cells_are_dots_and_of_those_in_space_a_slice():
    plane = mesh_of(meshes.cloud(60))
    assert (len(plane["triangles"]), len(plane["nodes"])) == (0, 60)
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (400, 3)) * [1.0, 1.0, 0.5]
    found = mesh_of(Mesh(points))
    assert 50 <= len(found["nodes"]) < 100
    assert np.abs(points[found["nodes"], 2] - 0.25).max() < 0.1
    np.testing.assert_array_equal(found["seen"], points[:, :2])
    assert "near z = 0.2" in found["words"]


def test_nodes_on_a_line_are_seen_along_it():
    found = mesh_of(meshes.line())
    assert found["seen"].shape[1] == 1
