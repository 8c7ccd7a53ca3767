"""Maps of inputs and prediction with their derivative: channels and features, by differences and adjoint."""

import math

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.spatial.axis import Axis
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.domain import Domain
from pcarann.spatial.features import Features
from pcarann.spatial.pairs import LinearizedPair
from random_fields_in_space import numpy_and_torch

RNG = np.random.default_rng(0)
PLANE = Domain((Axis(6, "periodic"), Axis(5, "free")))
A, U = RNG.normal(size=(4, 6, 5, 3)), RNG.normal(size=(4, 6, 5, 2))
SEEN = [Channels(), Channels(products=False, reach=0), Channels(smoothed=math.inf, reach=2), Channels(smoothed=0.3)]


def check(record, value):
    """A record at (A, U), and the function of both that it stands for."""
    assert isinstance(record, LinearizedPair)
    da, du = RNG.normal(size=A.shape), RNG.normal(size=U.shape)
    found = to_host(record.value)
    assert np.allclose(found, value(A, U), rtol=0, atol=1e-12)
    return da, du, RNG.normal(size=found.shape)


@pytest.mark.parametrize("families", SEEN, ids=str)
@pytest.mark.parametrize("evolving", [True, False])
@numpy_and_torch()
def test_channels_and_features_have_derivatives(families, evolving, library):
    sight = Sight(PLANE, families, evolving)
    features = Features.drawn(sight, library(A), library(U), count=7, terms=6.0, seed=0, number=0)
    there = library(A), library(U)
    for record, function in (
        (sight.linearized(*there), lambda a, u: to_host(sight.channels(library(a), library(u)))),
        (features.linearized(*there), lambda a, u: to_host(features(library(a), library(u)))),
    ):
        da, du, c = check(record, function)
        slope = (function(A + 1e-5 * da, U + 1e-5 * du) - function(A - 1e-5 * da, U - 1e-5 * du)) / 2e-5
        pushed = to_host(record.push(library(da), library(du)))
        assert np.allclose(pushed, slope, rtol=0, atol=1e-7 * np.abs(slope).max())
        back = [to_host(part) for part in record.pull(library(c))]
        assert np.sum(pushed * c) == pytest.approx(np.sum(da * back[0]) + np.sum(du * back[1]), rel=1e-10)
