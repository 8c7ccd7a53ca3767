"""Terms of an equation see fields in the user's units."""

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.latent.units import Units
from pcarann.spatial.terms import Terms
from random_fields_in_space import numpy_and_torch

A, U = np.random.default_rng(0).normal(size=(2, 3, 8, 1))


def reaction(a, u):
    return a * u**2


def both(a, u):
    return np.stack([a, u], axis=-1)


def test_terms_are_functions_of_fields_in_their_own_units():
    found = Terms((reaction, both), Units(2.0, 0.25))(A, U)
    expected = np.stack([(2 * A * (U / 4) ** 2)[..., 0], 2 * A[..., 0], U[..., 0] / 4], axis=-1)
    assert np.array_equal(found, expected)


def test_several_components_stand_on_a_last_axis():
    seen = []

    def term(a, u):
        seen.extend([a.shape, u.shape])
        return a[..., 0] * u

    Terms((term,), Units())(np.repeat(A, 2, axis=-1), U)
    assert seen == [(3, 8, 2), (3, 8)]


def test_terms_have_names():
    assert Terms((reaction, both), Units()).names == ["reaction", "both"]


@pytest.mark.parametrize("term", [lambda a, u: a[:, :4], lambda a, u: a.mean(), lambda a, u: a[:, :, None, None]])
def test_terms_of_another_shape_are_refused(term):
    with pytest.raises(ValueError, match=r"^The term <lambda> must return fields of shape \(3, 8\), found \(.*\)\.$"):
        Terms((term,), Units())(A, U)


@numpy_and_torch()
def test_libraries_agree(library):
    terms = Terms((reaction,), Units(2.0, 0.25))
    assert np.array_equal(to_host(terms(library(A), library(U))), terms(A, U))


def test_a_term_that_is_no_array_or_not_finite_is_refused():
    with pytest.raises(ValueError, match=r"^The term <lambda> must return an array of shape \(3, 8\), got list\.$"):
        Terms((lambda a, u: [1.0],), Units())(A, U)
    with pytest.raises(ValueError, match="The term <lambda> is not finite everywhere"):
        Terms((lambda a, u: u + np.inf,), Units())(A, U)
