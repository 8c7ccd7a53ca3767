"""Harmonics against cosines and spherical harmonics, and against another solver."""

import numpy as np
import pytest
import scipy.sparse as sparse

from meshes import cloud, line, quads, sphere, tilted, triangles
from pcarann.mesh.elements import KINDS, Block, assembled
from pcarann.mesh.harmonics import solved
from pcarann.mesh.mesh import Mesh

MADE = {"line": line, "triangles": triangles, "quads": quads, "sphere": lambda: sphere(150), "cloud": cloud}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_functions_are_orthonormal_and_begin_with_a_constant(made, share):
    mesh = made()
    count = max(3, int(share * mesh.nodes))
    values, functions = mesh.harmonics(count)
    assert functions.shape == (count, mesh.nodes)
    assert np.allclose((functions * mesh.weights) @ functions.T, np.eye(count), rtol=0, atol=1e-9)
    assert np.allclose(functions[0], functions[0, 0])
    assert values[0] == 0
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("made", [triangles, quads], ids=["triangles", "quads"])
def test_values_on_a_square_are_sums_of_squares(made):
    wanted = np.sort(np.add.outer(np.arange(4) ** 2, np.arange(4) ** 2).reshape(-1))[:6] * np.pi**2
    errors = [np.abs(made(count).harmonics(6).values - wanted).max() for count in (9, 17)]
    assert errors[1] < 0.4 * errors[0]  # second order
    assert errors[1] < 0.03 * wanted[-1]


def test_values_on_a_sphere_are_those_of_spherical_harmonics():
    found = sphere(800).harmonics(9).values
    assert np.allclose(found, [0, *[2] * 3, *[6] * 5], rtol=0.02, atol=1e-9)


def test_values_of_a_cloud_are_near_those_of_the_square():
    assert np.allclose(cloud(900).harmonics(4).values[1:], np.array([1, 1, 2]) * np.pi**2, rtol=0.15)


def test_a_turned_plane_has_the_same_values():
    assert np.allclose(tilted().harmonics(8).values, triangles(7).harmonics(8).values, rtol=1e-9, atol=1e-9)


def test_lanczos_finds_what_a_dense_solver_finds():
    mesh = triangles(28)  # beyond what is solved densely
    _, _, stiffness = assembled([Block(KINDS["triangle"], mesh.cells["triangle"])], mesh.points)
    sought = solved(stiffness, mesh.weights, 12)
    roots = sparse.diags(1 / np.sqrt(mesh.weights))
    dense = np.linalg.eigvalsh((roots @ stiffness @ roots).toarray())[:12]
    assert np.allclose(sought.values, dense, rtol=1e-8, atol=1e-7)
    again = solved(stiffness, mesh.weights, 12)
    assert np.array_equal(sought.functions, again.functions)


def test_every_connected_part_has_a_constant():
    points = np.concatenate([triangles(5).points, triangles(5).points + np.array([3.0, 0.0])])
    cells = triangles(5).cells["triangle"]
    values = Mesh(points, np.concatenate([cells, cells + 25])).harmonics(4).values
    assert (values[:2] == 0).all()
    assert values[2] > 1


def test_signs_are_settled():
    functions = triangles().harmonics(20).functions
    size = np.abs(functions)
    first = np.argmax(size >= 0.5 * size.max(axis=1, keepdims=True), axis=1)
    assert (functions[np.arange(20), first] > 0).all()
