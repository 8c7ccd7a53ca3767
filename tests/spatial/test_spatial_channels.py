"""What a stage sees, channel by channel, written out by hand."""

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.latent.units import Units
from pcarann.spatial.axis import Axis
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.domain import Domain
from pcarann.spatial.terms import Terms
from random_fields_in_space import numpy_and_torch

RNG = np.random.default_rng(0)
CIRCLE, LINE = Domain((Axis(12, "periodic"),)), Domain((Axis(12, "free"),))
PLANE = Domain((Axis(6, "periodic"), Axis(5, "zero")))
A, U = RNG.normal(size=(2, 4, 12, 1))


def around(fields):
    return (np.roll(fields, -1, 1) - np.roll(fields, 1, 1)) / 2


def along(fields):
    return np.gradient(fields, axis=1)


def same(found, *parts):
    assert found.shape[-1] == sum(part.shape[-1] for part in parts)
    assert np.allclose(found, np.concatenate(parts, axis=-1), rtol=0, atol=1e-13)


def test_inputs_prediction_and_slopes_are_always_seen():
    found = Sight(CIRCLE, Channels(products=False), False).channels(A, U)
    same(found, A, U, around(U))


def test_products_are_those_with_the_prediction():
    found = Sight(CIRCLE, Channels(), False).channels(A, U)
    same(found, A, U, around(U), A * U, A * around(U), U * U, U * around(U))


def test_two_states_are_treated_alike():
    found = Sight(CIRCLE, Channels(), True).channels(A, U)
    da, du = around(A), around(U)
    same(found, A, U, da, du, A * A, A * da, U * U, U * du)


def test_coordinates_are_seen_where_an_axis_has_ends():
    found = Sight(LINE, Channels(products=False), False).channels(A, U)
    x = np.broadcast_to(np.linspace(-1, 1, 12)[None, :, None], A.shape)
    same(found, A, U, along(U), x, x**2)
    plane = Sight(PLANE, Channels(products=False), False).channels(*RNG.normal(size=(2, 3, 6, 5, 1)))
    assert plane.shape == (3, 6, 5, 1 + 1 + 2 + 2)
    assert np.array_equal(plane[1, 2, :, -2], np.linspace(-1, 1, 5))


@pytest.mark.parametrize("length", [np.inf, 0.05])
@pytest.mark.parametrize("evolving", [False, True])
def test_smoothed_fields_come_with_slopes_and_products_of_slopes(length, evolving):
    found = Sight(CIRCLE, Channels(products=False, smoothed=length), evolving).channels(A, U)
    parts = []
    for state in (A, U):
        smooth = CIRCLE.smoothed(state, length)
        parts += [smooth, around(smooth), around(state) * around(smooth)]
    same(found, A, U, *([around(A)] if evolving else []), around(U), *parts)


def test_fixed_fields_and_terms_are_seen():
    fixed = RNG.normal(size=(1, 12, 2))
    terms = Terms((lambda a, u: a - 3 * u,), Units())
    found = Sight(CIRCLE, Channels(products=False), False, fixed, terms).channels(A, U)
    same(found, A, U, around(U), A - 3 * U, np.broadcast_to(fixed, (4, 12, 2)))


def test_products_of_many_components_are_a_choice_that_stays():
    many = RNG.normal(size=(2, 12, 30))
    sight = Sight(CIRCLE, Channels(), False)
    found = sight.channels(many, U[:2])
    assert found.shape[-1] == 30 + 1 + 1 + 48
    assert np.array_equal(found, sight.channels(many, U[:2]))
    alone = np.concatenate([sight.channels(many[i : i + 1], U[i : i + 1]) for i in (0, 1)])
    assert np.array_equal(found, alone)


def test_what_is_looked_at_is_left_alone():
    before = A.copy(), U.copy()
    Sight(LINE, Channels(smoothed=0.1), True).channels(A, U)
    assert np.array_equal(A, before[0])
    assert np.array_equal(U, before[1])


@numpy_and_torch()
@pytest.mark.parametrize("evolving", [False, True])
def test_libraries_agree(library, evolving):
    a, u = RNG.normal(size=(2, 3, 6, 5, 2))
    sight = Sight(PLANE, Channels(smoothed=0.3), evolving)
    assert np.allclose(to_host(sight.channels(library(a), library(u))), sight.channels(a, u), rtol=0, atol=1e-12)
