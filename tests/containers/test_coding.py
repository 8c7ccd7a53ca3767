import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.containers import coding as module
from pcarann.containers.coding import InputCode, is_table
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
    return InputCode.fit(side.parts, found.arrays, y, weights or {}, seed=0)[0], found.arrays


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


@pytest.mark.parametrize("kept", [True, False])
def test_modes_are_those_of_the_quadrature_unless_nodes_say_more(kept):
    # Outputs are functions of the leading modes in the one inner product, which the other one mixes with the rest.
    field = RNG.normal(size=(N, 20)) / np.arange(1, 21) ** 0.5 @ np.cos(np.pi * np.outer(np.arange(20), x))
    weights = 10 ** RNG.uniform(-2, 0, P)
    seen = field * np.sqrt(weights) if kept else field
    left = np.linalg.svd(seen - seen.mean(axis=0), full_matrices=False)[0]
    outputs = np.tanh(np.sqrt(N) * left[:, :3]) @ RNG.normal(size=(3, 10))
    found, _ = code({"f": field, "n": NUMBER}, outputs, weights={"f": weights})
    modes = found.codes[0].modes
    by_area = np.allclose((modes * weights) @ modes.T, np.eye(len(modes)), atol=1e-9)
    by_nodes = np.allclose(modes @ modes.T, np.eye(len(modes)), atol=1e-9)
    assert (by_area, by_nodes) == (kept, not kept)


def test_tables_are_told_from_fields():
    assert is_table(Part("n", ()), NUMBER)
    assert is_table(Part("n", (1,)), NUMBER[:, None])
    assert is_table(Part("t", (3,)), TABLE)
    assert is_table(Part("t", (P,), columns=tuple(map(str, range(P)))), FIELD)
    assert not is_table(Part("f", (P,)), FIELD)
    assert not is_table(Part("f", (5, 8)), FIELD)


def test_modes_that_do_not_hold_for_other_samples_may_go():
    """Along the last modes of few samples others reach further: they would make all that is new look strange."""
    rough = RNG.standard_normal((N, 60)) / np.arange(1, 61)
    field = rough @ np.cos(np.pi * np.outer(np.arange(60), np.linspace(0, 1, 90)))
    modes, far, _ = module._reached(field, None, 0)
    assert 4 <= modes < 60
    assert far > 0
    assert module._reached(FIELD, None, 0)[0] >= 5  # all there are, where they hold
    found, arrays = code({"f": FIELD, "n": NUMBER})
    assert found.numbers == (5,)
    fewer = found.codes[0].leading(3)
    matrix = np.asarray(arrays["f"])
    assert np.allclose(fewer(matrix), found.codes[0](matrix)[:, :3])


def test_modes_that_the_outputs_need_stay():
    flat = RNG.standard_normal((N, 20)) @ np.cos(np.pi * np.outer(np.arange(20), np.linspace(0, 1, 60)))
    found, _ = code({"f": flat, "n": NUMBER}, flat * NUMBER[:, None])
    assert len(found.codes[0].factor) == 20
