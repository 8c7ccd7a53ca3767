"""Where points lie: every cell is found, on graded meshes too; what is outside is refused."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

from meshes import hexahedra, mixed, quads, sphere, triangles
from pcarann.mesh.mesh import Mesh


def test_every_point_of_a_graded_mesh_is_found():
    rng = np.random.default_rng(0)
    inner = rng.uniform(0, 1, (300, 2)) ** 4  # crowded in a corner, with long thin triangles
    points = np.concatenate([inner, [[0, 0], [1, 0], [1, 1], [0, 1]]])
    cells = Delaunay(points).simplices
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    mesh = Mesh(points, cells[np.abs(np.linalg.det(sides)) > 1e-13])
    at = rng.uniform(0.001, 0.999, (500, 2))
    assert np.allclose(mesh.interpolation(at)(points @ [1.0, -2.0]), at @ [1.0, -2.0], atol=1e-8)


@pytest.mark.parametrize("made", [quads, hexahedra], ids=["quads", "hexahedra"])
def test_newton_finds_points_of_bent_cells(made):
    mesh = made()
    at = np.random.default_rng(0).uniform(0, 1, (200, mesh.dimension))
    stencil = mesh.interpolation(at)
    assert np.allclose(stencil(mesh.points, 0), at, atol=1e-10)
    assert (stencil.weight > -1e-5).all()


def test_weights_are_those_of_the_cell_that_holds_the_point():
    stencil = mixed().interpolation([[0.5, 0.5], [1.75, 0.25]])
    assert np.allclose(stencil.weight[0], 0.25)
    assert sorted(stencil.index[0]) == [0, 1, 3, 4]
    assert sorted(stencil.index[1][stencil.weight[1] > 0]) == [1, 2, 5]


def test_points_outside_are_refused():
    with pytest.raises(ValueError, match=r"2 of 4 points lie outside the mesh, the first is point 1 at \[1.01, 0.5\]"):
        triangles().interpolation([[0.5, 0.5], [1.01, 0.5], [0, 1], [0.5, -1e-3]])
    triangles().interpolation([[1 + 1e-9, 0.5]])  # rounding


def test_a_point_may_lie_a_little_above_a_surface():
    mesh = sphere(400)
    at = np.random.default_rng(0).normal(size=(50, 3))
    at /= np.linalg.norm(at, axis=1, keepdims=True)
    assert np.abs(mesh.interpolation(at)(mesh.points, 0) - at).max() < 0.02
    with pytest.raises(ValueError, match="1 of 1 points lie outside"):
        mesh.interpolation([[0, 0, 1.3]])
