import numpy as np

from pcarann.containers.labels import Label
from pcarann.containers.parts import Part
from pcarann.containers.quadrature import quadrature_of
from pcarann.mesh import Mesh

X = np.linspace(0, 1, 6)


def labelled(x):
    return Part("u", (6,), label=Label("u", ("x",), {"x": (("x",), x)}))


def test_uniform_grids_and_unknown_ones_need_none():
    assert quadrature_of(Part("u", (6,)), None) is None
    assert quadrature_of(labelled(X), None) is None


def test_coordinates_give_the_trapezoidal_rule():
    found = quadrature_of(labelled(X**2), None)
    steps = np.diff(X**2)
    assert np.isclose(found.mean(), 1)
    assert np.isclose(found[2] / found[4], (steps[1] + steps[2]) / (steps[3] + steps[4]))
    assert (quadrature_of(labelled(X[::-1] ** 2), None) > 0).all()


def test_a_mesh_weighs_its_nodes_wherever_they_stand():
    mesh = Mesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    weights = mesh.weights / mesh.weights.mean()
    assert np.allclose(quadrature_of(Part("u", (4,)), mesh), weights)
    assert np.allclose(quadrature_of(Part("u", (4, 2)), mesh), weights[:, None] * np.ones(2))
    assert np.allclose(quadrature_of(Part("u", (2, 4)), mesh), weights * np.ones((2, 1)))
    assert quadrature_of(Part("a", (7,)), mesh) is None
