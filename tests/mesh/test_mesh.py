"""What a mesh says of fields at its nodes, against exact answers."""

import copy
import pickle

import numpy as np
import pytest

from meshes import CELLS, CLOUDS, cloud, hexahedra, line, mixed, quads, sphere, tetrahedra, tilted, triangles
from pcarann import Mesh

EVERY = CELLS | CLOUDS | {"tilted": tilted}


def linear(points):
    return 1.5 + points @ np.array([2.0, -1.0, 0.5])[: points.shape[1]]


@pytest.mark.parametrize("made", CELLS.values(), ids=CELLS)
def test_weights_integrate_linear_fields(made):
    mesh = made()
    size = float(np.prod(np.ptp(mesh.points, axis=0)))
    middle = mesh.points.min(axis=0) + np.ptp(mesh.points, axis=0) / 2
    assert mesh.weights.sum() == pytest.approx(size, rel=1e-12)
    assert mesh.weights @ linear(mesh.points) == pytest.approx(size * float(linear(middle[None])[0]), rel=1e-12)


def test_weights_of_a_cloud_add_up_to_about_its_size():
    assert cloud(2025).weights.sum() == pytest.approx(1, rel=0.2)


def test_the_area_of_a_surface_is_near_that_of_the_sphere():
    assert sphere(1000).weights.sum() == pytest.approx(4 * np.pi, rel=0.01)


@pytest.mark.parametrize("made", EVERY.values(), ids=EVERY)
def test_slopes_of_linear_fields_are_exact(made):
    mesh = made()
    wanted = np.array([2.0, -1.0, 0.5])[: mesh.points.shape[1]]
    if mesh.dimension < mesh.points.shape[1]:  # along the plane only
        plane = np.linalg.svd((mesh.points - mesh.points.mean(axis=0)).T)[0][:, :2]
        wanted = plane @ plane.T @ wanted
    found = np.stack([slope(linear(mesh.points)) for slope in mesh.slopes], axis=1)
    assert np.allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("made", [triangles, quads], ids=["triangles", "quads"])
def test_slopes_converge(made):
    errors = []
    for count in (9, 17, 33):
        mesh = made(count)
        x, y = mesh.points.T
        inner = ((mesh.points > 0) & (mesh.points < 1)).all(axis=1)
        found = mesh.slopes[0](np.sin(3 * x + y))
        errors.append(np.abs(found - 3 * np.cos(3 * x + y))[inner].mean())
    assert errors[0] > 1.6 * errors[1] > 1.6**2 * errors[2]


@pytest.mark.parametrize("made", EVERY.values(), ids=EVERY)
def test_means_keep_constants_and_lie_between_neighbours(made):
    mesh = made()
    field = np.random.default_rng(0).normal(size=mesh.nodes)
    assert np.allclose(mesh.mean(np.ones(mesh.nodes)), 1, rtol=0, atol=1e-14)
    assert (mesh.mean.weight >= 0).all()
    assert mesh.mean(field).std() < 0.8 * field.std()


def test_corners_of_a_cell_are_neighbours_across_right_angles():
    mesh = Mesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2, 3]])
    assert (mesh.mean.weight == 0.25).all()


@pytest.mark.parametrize("made", EVERY.values(), ids=EVERY)
def test_interpolation_is_exact_on_linear_fields(made):
    mesh = made()
    rng = np.random.default_rng(3)
    if mesh.cells:
        cells = next(iter(mesh.cells.values()))
        shares = rng.dirichlet(np.ones(cells.shape[1]), size=50)
        at = np.einsum("nk,nkd->nd", shares, mesh.points[rng.permutation(cells)[np.arange(50) % len(cells)]])
    else:
        at = rng.uniform(0.1, 0.9, (50, mesh.points.shape[1]))
    assert np.allclose(mesh.interpolation(at)(linear(mesh.points)), linear(at), rtol=0, atol=1e-9)


@pytest.mark.parametrize("made", EVERY.values(), ids=EVERY)
def test_interpolation_gives_back_the_values_at_nodes(made):
    mesh = made()
    field = np.random.default_rng(0).normal(size=(2, mesh.nodes))
    # A weight of 1e12 beside those of the neighbours, of a cloud.
    assert np.allclose(mesh.interpolation(mesh.points)(field), field, rtol=0, atol=1e-9 if mesh.cells else 1e-3)


def test_bilinear_fields_are_interpolated_exactly_in_a_square():
    mesh = Mesh([[0, 0], [2, 0], [2, 1], [0, 1]], [[0, 1, 2, 3]])
    at = np.random.default_rng(0).uniform(0, 1, (20, 2)) * [2, 1]
    assert np.allclose(mesh.interpolation(at)(np.prod(mesh.points, axis=1)), np.prod(at, axis=1), atol=1e-12)


def test_triangles_to_draw_cover_the_mesh():
    for mesh in (triangles(), quads(), mixed()):
        corners = mesh.points[mesh.triangles]
        assert 0.5 * np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() == pytest.approx(mesh.weights.sum())
    for mesh in (tetrahedra(), line(), cloud()):
        with pytest.raises(ValueError, match="no triangles to draw"):
            _ = mesh.triangles


def test_harmonics_are_kept_and_cut():
    mesh = triangles()
    many = mesh.harmonics(20)
    few = mesh.harmonics(5)
    assert few.functions.base is many.functions or few.functions.base is many.functions.base
    assert np.array_equal(few.values, many.values[:5])
    with pytest.raises(ValueError, match="at most the number of nodes, 81, got 82"):
        mesh.harmonics(82)


def test_the_axis_of_nodes_is_found_or_told():
    points = np.arange(5.0)[:, None]
    mesh = Mesh(points)
    assert [mesh.node_axis(grid) for grid in ((5,), (2, 5), (5, 2), (3, 2, 5))] == [0, 1, 0, 2]
    assert Mesh(points, components="first").node_axis((5, 5)) == 1
    assert Mesh(points, components="last").node_axis((5, 5)) == 0
    with pytest.raises(ValueError, match=r"\(5, 5\) have more than one axis of 5 values.*components='first' or 'last'"):
        mesh.node_axis((5, 5))
    for where, words in ((None, "no axis"), ("first", "no last axis"), ("last", "no first axis")):
        with pytest.raises(ValueError, match=rf"\(4, 3\) have {words} of 5 values"):
            Mesh(points, components=where).node_axis((4, 3))
    with pytest.raises(ValueError, match="no last axis"):
        Mesh(points, components="first").node_axis((5, 2))
    with pytest.raises(ValueError, match="components must be None, 'first' or 'last', got 'middle'"):
        Mesh(points, components="middle")


def test_meshes_are_told_apart_and_never_copied():
    mesh, other = triangles(), triangles()
    assert mesh == other
    assert hash(mesh) == hash(other)
    assert mesh != quads()
    assert mesh != triangles(seed=1)
    assert mesh != "mesh"
    assert copy.deepcopy(mesh) is mesh
    assert copy.copy(mesh) is mesh
    mesh.slopes[0](np.ones(mesh.nodes))
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    assert repr(mixed()) == "Mesh(9 nodes in 2 dimensions, 2 quad cells, 4 triangle cells)"
    assert repr(cloud(16)) == "Mesh(16 nodes in 2 dimensions, no cells)"
    assert [one.dimension for one in (mesh, sphere(50), hexahedra(), line(), cloud(20, 3))] == [2, 2, 3, 1, 3]


def test_what_a_mesh_holds_cannot_be_written_to():
    points = np.array([[0.0, 0], [1, 0], [0, 1]])
    mesh = Mesh(points, np.array([[0, 1, 2]]))
    points[0] = 7
    assert mesh.points[0, 0] == 0
    for array in (mesh.points, mesh.weights, mesh.cells["triangle"], mesh.harmonics(2).functions):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_points_to_interpolate_at_are_checked():
    with pytest.raises(ValueError, match=r"points must be \(n, 2\) coordinates, found shape \(3, 3\)"):
        triangles().interpolation(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="NaN or infinity, the first is point 1"):
        triangles().interpolation([[0, 0], [np.nan, 0]])
