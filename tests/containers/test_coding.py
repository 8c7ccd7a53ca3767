import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.containers.coding import InputCode, OutputCode, holes_of, is_table, matrix_of, scale_of
from pcarann.containers.parts import Part, Side

RNG = np.random.default_rng(0)
N, P = 80, 40
x = np.linspace(0, 1, P)
FIELD = sum(RNG.standard_normal((N, 1)) * np.cos(np.pi * k * x) / (1 + k) for k in range(5))
NUMBER = RNG.uniform(300, 400, N)
TABLE = RNG.uniform(size=(N, 3)) * [1.0, 1e6, 1e-6]
NOISE = RNG.standard_normal((N, 1)) * x + RNG.standard_normal((N, 1)) * x**2
Y = np.tanh(FIELD) + (NUMBER[:, None] - 350) / 50 * x**2
HOST = place_of(Y)


def code(arrays, y=Y, weights=None):
    side, found = Side.of(arrays, "X")
    return InputCode.fit(side.parts, found.arrays, y, weights or {}, seed=0), found.arrays


def test_numbers_are_columns_and_fields_are_modes():
    found, arrays = code({"f": FIELD, "n": NUMBER, "t": TABLE})
    assert [one.modes is not None for one in found.codes] == [True, False, False]
    assert found.names[:2] == ("mode 0 of f", "mode 1 of f")
    assert found.names[-4:] == ("n", "t.0", "t.1", "t.2")
    z, unlike = found(arrays, HOST)
    assert z.shape == (N, len(found.names)) == (N, *found.grid)
    assert not unlike
    assert np.abs(z.mean(axis=0)).max() < 1e-9


def test_units_do_not_count():
    first = code({"f": FIELD, "n": NUMBER})
    second = code({"f": 1e-8 * FIELD, "n": 1e100 * NUMBER})
    assert np.allclose(np.abs(first[0](first[1], HOST)[0]), np.abs(second[0](second[1], HOST)[0]), atol=1e-7)


def test_a_part_that_says_nothing_fades():
    found, arrays = code({"f": FIELD, "n": NUMBER, "noise": NOISE})
    sizes = {name: np.sqrt((found(arrays, HOST)[0][:, part] ** 2).sum()) for name, part in found.named.items()}
    assert sizes["noise"] < 0.1 * min(sizes["f"], sizes["n"])


def test_columns_are_read_in_the_users_unit():
    found, arrays = code({"f": FIELD, "n": NUMBER})
    offset, factor = found.shown[-1]
    assert np.allclose(offset + factor * found(arrays, HOST)[0][:, -1], NUMBER)


def test_a_field_of_another_kind_is_told():
    found, arrays = code({"f": FIELD, "n": NUMBER})
    rough = {**arrays, "f": FIELD + 0.5 * np.sin(60 * x)}
    assert found(rough, HOST)[1] == [f"{N} of {N} samples of X['f']"]


def test_a_number_that_never_changed_is_no_division_by_zero():
    found, arrays = code({"f": FIELD, "n": np.full(N, 7.0), "z": np.zeros(N)})
    assert np.isfinite(found(arrays, HOST)[0]).all()


def test_quadrature_belongs_to_its_part():
    weights = np.linspace(0.5, 1.5, P)
    found, _ = code({"f": FIELD, "n": NUMBER}, weights={"f": weights})
    modes = found.codes[0].modes
    assert np.allclose((modes * weights) @ modes.T, np.eye(len(modes)), atol=1e-9)


def test_tables_are_told_from_fields():
    assert is_table(Part("n", ()), NUMBER)
    assert is_table(Part("n", (1,)), NUMBER[:, None])
    assert is_table(Part("t", (3,)), TABLE)
    assert is_table(Part("t", (P,), columns=tuple(map(str, range(P)))), FIELD)
    assert not is_table(Part("f", (P,)), FIELD)
    assert not is_table(Part("f", (5, 8)), FIELD)


def test_outputs_have_one_size_and_come_back():
    side, found = Side.of({"u": Y, "v": 1e6 * Y[:, :7], "w": NUMBER}, "y")
    out = OutputCode.fit(side.parts, found.arrays, HOST)
    flat = out(found.arrays, HOST)
    assert flat.shape == (N, *out.grid)
    for part in (slice(0, P), slice(P, P + 7), slice(P + 7, None)):
        assert 0.5 < np.sqrt(np.mean((flat[:, part] - flat[:, part].mean(axis=0)) ** 2)) < 2
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
    with pytest.raises(
        ValueError, match=r"y\['u'\] contains NaN .* the first in sample 4\. Only points that are NaN in ev"
    ):
        matrix_of(holed, part, "y", HOST)


def test_scales_are_powers_of_two_whatever_the_size():
    for size in (1e-200, 1.0, 3e200):
        found = scale_of(size * Y)
        assert np.log2(found) % 1 == 0
        assert 0.2 < np.std(size * (Y - Y.mean(axis=0)) / found) < 3
    assert scale_of(np.zeros((3, 2))) == 1.0
