"""Points without values take those of their neighbours, and give their cotangents to them."""

import numpy as np
import pytest

from meshes import triangles
from pcarann.containers.filling import filled, filled_adjoint
from pcarann.containers.parts import Part

MESH = triangles(5)
HOLES = np.zeros((6, 7), dtype=bool)
HOLES[1:4, 2:6] = True


def test_the_nearest_point_gives_its_value():
    part = Part("u", (5,), holes=np.array([False, True, True, True, False]))
    np.testing.assert_array_equal(filled(np.array([[1.0, 2.0]]), part, None)[0][[0, 1, 3, 4]], [1, 1, 2, 2])
    whole = Part("u", (5,))
    rows = np.ones((2, 5))
    assert filled(rows, whole, None) is rows
    assert filled_adjoint(rows, whole, None) is rows


@pytest.mark.parametrize(
    ("part", "mesh"),
    [
        (Part("u", (6, 7), holes=HOLES), None),
        (Part("u", (25, 2), holes=np.arange(50).reshape(25, 2) % 7 < 3), MESH),
    ],
    ids=["grid", "mesh"],
)
def test_cotangents_go_where_values_came_from(part, mesh):
    rng, kept = np.random.default_rng(0), np.flatnonzero(~part.holes.reshape(-1))
    change, back = rng.normal(size=(2, part.holes.size)), rng.normal(size=(2, part.holes.size))
    pulled = filled_adjoint(back, part, mesh)
    assert not pulled[:, part.holes.reshape(-1)].any()
    np.testing.assert_allclose(np.sum(filled(change[:, kept], part, mesh) * back), np.sum(change * pulled), rtol=1e-12)
