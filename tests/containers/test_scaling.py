import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.containers.parts import Part, Side
from pcarann.containers.scaling import OutputCode, holes_of, matrix_of, scale_of

RNG = np.random.default_rng(0)
N, P = 80, 40
Y = RNG.standard_normal((N, 3)) @ np.cos(np.outer(np.arange(3), np.linspace(0, 3, P)))
NUMBER = RNG.uniform(300, 400, N)
HOST = place_of(Y)


def test_outputs_have_one_size_and_come_back():
    side, found = Side.of({"u": Y, "v": 1e6 * Y[:, :7], "w": NUMBER}, "y")
    out = OutputCode.fit(side.parts, found.arrays, HOST)
    flat = out(found.arrays, HOST)
    assert flat.shape == (N, *out.grid)
    for part in (slice(0, P), slice(P, P + 7), slice(P + 7, None)):
        energy = np.mean(np.sum((flat[:, part] - flat[:, part].mean(axis=0)) ** 2, axis=1))
        assert 0.4 < energy / P < 2.5  # whatever the unit and the number of points
    for name, array in out.apart(flat):
        assert np.allclose(array, found.arrays[name], rtol=1e-15)


def test_points_without_values_are_left_out_and_come_back_as_such():
    holed = Y.copy()
    holed[:, 10:15] = np.nan
    side, found = Side.of({"u": holed, "v": Y}, "y")
    side = side.with_holes({"u": holes_of(holed, HOST)})
    out = OutputCode.fit(side.parts, found.arrays, HOST)
    flat = out(found.arrays, HOST)
    assert flat.shape == (N, 2 * P - 5)
    assert np.isfinite(flat).all()
    assert np.array_equal(dict(out.apart(flat))["u"], holed, equal_nan=True)
    assert out.weights({}) is None
    assert out.weights({"u": np.arange(1.0, P + 1)}).tolist() == [*range(1, 11), *range(16, P + 1), *[1] * P]


def test_holes_are_those_of_every_sample():
    holed = Y.copy()
    assert holes_of(holed, HOST) is None
    holed[:, 3] = np.nan
    assert np.flatnonzero(holes_of(holed, HOST)).tolist() == [3]
    holed[4, 5] = np.nan
    part = Part("u", (P,), holes=holes_of(holed, HOST))
    with pytest.raises(ValueError, match=r"y\['u'\] contains NaN .* samples \(4\).* Only points that are NaN in ev"):
        matrix_of(holed, part, "y", HOST)


def test_scales_are_powers_of_two_whatever_the_size():
    for size in (1e-200, 1.0, 3e200):
        found = scale_of(size * Y)
        assert np.log2(found) % 1 == 0
        assert 0.2 < np.std(size * (Y - Y.mean(axis=0)) / found) < 3
    assert scale_of(np.zeros((3, 2))) == 1.0
