"""How axes end, as data show it; what they contradict is refused."""

import itertools

import numpy as np
import pytest

from pcarann.spatial.ends import given_ends, possible_ends
from pcarann.spatial.layout import Layout
from random_fields_in_space import numpy_and_torch, planes, waves

PERIODIC = waves(20, 32)
CLOSED = np.concatenate([PERIODIC, PERIODIC[:, :1]], axis=1)
FREE = PERIODIC + np.linspace(-5, 5, 32)
ZERO = PERIODIC * np.sin(np.linspace(0, np.pi, 32))
LINE = Layout.of((32,), (32,))


def kinds(inputs, outputs):
    layout = Layout.of(inputs.shape[1:], outputs.shape[1:])
    found = possible_ends(layout, inputs.reshape(20, -1), outputs.reshape(20, -1))
    return [(one.boundaries, one.closed) for one in found]


def test_ends_of_a_line_are_found():
    assert kinds(PERIODIC, PERIODIC**2) == [(("periodic",), (False,)), (("free",), (False,))]
    assert kinds(CLOSED, CLOSED**2) == [(("periodic",), (True,))]
    assert kinds(FREE, FREE**2) == [(("free",), (False,))]
    assert kinds(FREE, ZERO) == [(("zero",), (False,)), (("free",), (False,))]


def test_inputs_must_be_periodic_too():
    assert kinds(FREE, PERIODIC) == [(("free",), (False,))]
    assert kinds(np.concatenate([FREE, FREE[:, -1:]], axis=1), CLOSED) == [(("free",), (False,))]


def test_an_axis_that_inputs_lack_is_seen_in_the_outputs():
    time = np.linspace(0, 1, 10)[:, None]
    outputs = CLOSED[:, None] * np.exp(-time)
    assert kinds(CLOSED, outputs) == [(("free", "periodic"), (False, True))]


def test_candidates_change_one_axis_at_a_time():
    torus = planes(20, (12, 10, 9))
    found = [boundaries for boundaries, _ in kinds(torus, torus)]
    assert found[0] == ("periodic",) * 3
    assert sorted(found[1:]) == sorted(tuple("free" if i == at else "periodic" for i in range(3)) for at in range(3))


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e200])
def test_units_do_not_matter(size):
    for inputs, outputs in itertools.product((PERIODIC, FREE), (PERIODIC, FREE, ZERO)):
        assert kinds(inputs * size, outputs) == kinds(inputs, outputs) == kinds(inputs, outputs * size)
        assert kinds(inputs, outputs.astype(np.float32).astype(float)) == kinds(inputs, outputs)


def test_outputs_of_zeros_and_constants_have_ends():
    assert kinds(PERIODIC, 0 * PERIODIC)[0][0] == ("zero",)
    assert kinds(PERIODIC, 0 * PERIODIC + 3)[0][0] == ("periodic",)


@pytest.mark.parametrize(
    ("boundary", "outputs"),
    [("periodic", PERIODIC), ("zero", ZERO), ("free", PERIODIC), ("free", FREE), ("free", ZERO), ("periodic", ZERO)],
)
@pytest.mark.parametrize("wrapped", [str, lambda one: [one], lambda one: (one,)])
def test_ends_may_be_given(boundary, outputs, wrapped):
    found = given_ends(LINE, wrapped(boundary), outputs, outputs)
    assert found.boundaries == (boundary,)


def test_a_period_that_is_given_may_repeat_its_first_point():
    closed = Layout.of((33,), (33,))
    assert given_ends(closed, "periodic", CLOSED, CLOSED).closed == (True,)
    assert given_ends(closed, "free", CLOSED, CLOSED).closed == (False,)
    assert given_ends(LINE, "periodic", PERIODIC, PERIODIC).closed == (False,)


def test_ends_may_be_given_for_each_axis():
    layout = Layout.of((32,), (10, 32))
    outputs = (PERIODIC[:, None] + np.arange(10)[:, None]).reshape(20, -1)
    assert given_ends(layout, ("free", "periodic"), PERIODIC, outputs).boundaries == ("free", "periodic")


@pytest.mark.parametrize("boundary", ["dirichlet", ("periodic", "periodic"), (), 3, ("zero", 1), [["free"]], None])
def test_words_that_say_nothing_are_refused(boundary):
    with pytest.raises(
        ValueError, match=r"^boundary must be one of 'periodic', 'zero', 'free', or one of them .* 1 ax"
    ):
        given_ends(LINE, boundary, PERIODIC, PERIODIC)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_a_period_whose_ends_differ_is_refused(size):
    with pytest.raises(ValueError, match=r"^Axis -1 cannot be periodic: the ends of the outputs differ \d+ times as m"):
        given_ends(LINE, "periodic", FREE, FREE * size)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_zero_ends_that_are_not_zero_are_refused(size):
    with pytest.raises(ValueError, match=r"^Axis -1 cannot end in zeros: the outputs reach [\d.]+ of their size there"):
        given_ends(LINE, "zero", ZERO, FREE * size)


@numpy_and_torch()
def test_libraries_agree(library):
    for outputs in (PERIODIC, FREE, ZERO):
        found = possible_ends(LINE, library(PERIODIC), library(outputs))
        assert found == possible_ends(LINE, PERIODIC, outputs)
