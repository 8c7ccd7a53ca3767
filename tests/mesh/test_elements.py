"""Reference cells: shape functions, quadrature, and integrals that are known."""

import numpy as np
import pytest

from meshes import CELLS, triangles
from pcarann.mesh.elements import KINDS, Block, assembled

KIND = pytest.mark.parametrize("element", KINDS.values(), ids=KINDS)


@KIND
def test_shape_functions_are_one_at_their_corner_and_add_up_to_one(element):
    assert np.allclose(element.shapes(element.corners), np.eye(element.nodes))
    at = np.random.default_rng(0).uniform(0, 1, (5, element.dimension))
    assert np.allclose(element.shapes(at).sum(axis=-1), 1)
    assert np.allclose(element.shape_slopes(at).sum(axis=-2), 0)


@KIND
def test_slopes_are_those_of_the_shape_functions(element):
    at = np.random.default_rng(0).uniform(0.2, 0.4, (5, element.dimension))
    for k in range(element.dimension):
        step = 1e-6 * np.eye(element.dimension)[k]
        slope = (element.shapes(at + step) - element.shapes(at - step)) / 2e-6
        assert np.allclose(element.shape_slopes(at)[..., k], slope, atol=1e-8)


@KIND
def test_weights_add_up_to_the_size_of_the_reference_cell(element):
    at, weights = element.quadrature()
    size = {"line": 1, "triangle": 1 / 2, "quad": 1, "tetra": 1 / 6, "hexahedron": 1}[element.name]
    assert weights.sum() == pytest.approx(size)
    assert (element.outside(at) == 0).all()
    assert (element.outside(at + 1) > 0).all()


def test_corners_go_around_as_in_vtk():
    assert KINDS["quad"].corners.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert KINDS["hexahedron"].corners[4:].tolist() == [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]


def test_the_stiffness_of_a_right_triangle_is_worked_by_hand():
    points = np.array([[0.0, 0], [1, 0], [0, 1]])
    lumped, slopes, stiffness = assembled([Block(KINDS["triangle"], np.array([[0, 1, 2]]))], points)
    assert np.allclose(lumped, 1 / 6)
    assert np.allclose(stiffness.toarray(), [[1, -0.5, -0.5], [-0.5, 0.5, 0], [-0.5, 0, 0.5]])
    assert np.allclose(slopes[0].toarray(), np.array([[-1, 1, 0]] * 3) / 6)


@pytest.mark.parametrize("made", CELLS.values(), ids=CELLS)
def test_the_energy_of_a_linear_field_is_its_slope_squared(made):
    mesh = made()
    blocks = [Block(KINDS[kind], cells) for kind, cells in mesh.cells.items()]
    lumped, _, stiffness = assembled(blocks, mesh.points)
    assert mesh.points[:, 0] @ stiffness @ mesh.points[:, 0] == pytest.approx(lumped.sum(), rel=1e-12)
    assert np.allclose(stiffness @ np.ones(mesh.nodes), 0, atol=1e-12)


def test_orientation_does_not_matter():
    mesh = triangles()
    cells = mesh.cells["triangle"]
    some = np.where(np.arange(len(cells))[:, None] % 2, cells, cells[:, ::-1])
    found = [assembled([Block(KINDS["triangle"], one)], mesh.points) for one in (cells, some)]
    assert np.allclose(found[0][0], found[1][0])
    assert np.allclose(found[0][2].toarray(), found[1][2].toarray())
