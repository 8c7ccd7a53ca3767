"""Clouds of points: slopes that converge, energies of a Laplacian, points that are too far."""

import numpy as np
import pytest

from meshes import cloud, tilted
from pcarann.mesh.cloud import Cloud
from pcarann.mesh.mesh import Mesh


def test_neighbours_are_the_nearest_others():
    mesh = cloud(100)
    distances, index = Cloud(mesh.points).neighbours
    every = np.linalg.norm(mesh.points[:, None] - mesh.points[None], axis=-1)
    assert np.allclose(distances, np.sort(every, axis=1)[:, 1 : distances.shape[1] + 1])
    assert (index != np.arange(100)[:, None]).all()


def test_slopes_converge():
    errors = []
    for count in (225, 900):
        mesh = cloud(count)
        x, y = mesh.points.T
        errors.append(np.abs(mesh.slopes[1](np.sin(2 * x + 3 * y)) - 3 * np.cos(2 * x + 3 * y)).mean())
    assert errors[1] < 0.65 * errors[0] < 0.2


def test_the_energy_of_a_linear_field_is_about_its_slope_squared():
    mesh = cloud(900)
    stiffness = Cloud(mesh.points).stiffness()
    assert mesh.points[:, 0] @ stiffness @ mesh.points[:, 0] == pytest.approx(mesh.weights.sum(), rel=0.2)
    assert np.allclose(stiffness @ np.ones(mesh.nodes), 0, atol=1e-10)


def test_points_of_a_plane_in_space_have_slopes_along_it():
    flat = tilted()
    mesh = Mesh(flat.points)
    found, wanted = (np.stack([slope(flat.points[:, 0]) for slope in one.slopes]) for one in (mesh, flat))
    assert np.allclose(found, wanted, rtol=0, atol=1e-9)


def test_values_between_points_converge():
    at = np.random.default_rng(0).uniform(0.1, 0.9, (100, 2))
    errors = []
    for count in (225, 900):
        mesh = cloud(count)
        found = mesh.interpolation(at)(np.sin(4 * mesh.points[:, 0] + mesh.points[:, 1]))
        errors.append(np.abs(found - np.sin(4 * at[:, 0] + at[:, 1])).mean())
    assert errors[1] < 0.4 * errors[0]


def test_points_far_from_all_are_refused():
    with pytest.raises(ValueError, match=r"2 of 3 points are far from all nodes, the first is point 1 at \[5.0, 5.0\]"):
        cloud().interpolation([[0.5, 0.5], [5, 5], [-3, 0]])


def test_few_points_are_enough():
    mesh = Mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert np.allclose([slope(mesh.points @ [1.0, 2.0]) for slope in mesh.slopes], [[1] * 3, [2] * 3])
    assert mesh.harmonics(3).values[0] == 0
