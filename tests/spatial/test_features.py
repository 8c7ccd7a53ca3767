"""Random features of points and their surroundings."""

from dataclasses import replace

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.spatial.axis import Axis
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.domain import Domain
from pcarann.spatial.features import Features
from random_fields_in_space import numpy_and_torch, waves

CIRCLE = Domain((Axis(24, "periodic"),))
PLANE = Domain((Axis(8, "free"), Axis(6, "periodic")))
A, U = waves(30, 24, seed=1)[..., None], waves(30, 24, seed=2)[..., None]


def drawn(families=None, domain=CIRCLE, samples=(A, U), number=0, seed=0, count=40):
    sight = Sight(domain, families or Channels(), False)
    return Features.drawn(sight, *samples, count=count, terms=6.0, seed=seed, number=number)


def test_features_are_tanh_of_mixtures_with_channels_and_1_beside_them():
    features = drawn(Channels(reach=1))
    seen = (features.sight.channels(A, U) - features.shift) * features.scale
    slopes = (np.roll(seen, -1, 1) - np.roll(seen, 1, 1)) / 2
    mixed = np.concatenate([seen, slopes], axis=-1) @ features.mixing + features.biases
    expected = np.concatenate([np.tanh(mixed), seen, np.ones((30, 24, 1))], axis=-1)
    assert features.count == 40 + 7 + 1 == expected.shape[-1]
    assert np.allclose(features(A, U), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("gain", [0.3, 1.5])
def test_arguments_have_the_size_of_the_gain(gain):
    features = drawn(Channels(gain=gain), count=400)
    arguments = np.arctanh(features(A, U)[..., :400])
    assert np.allclose(arguments.std(axis=(0, 1)), gain, rtol=1e-6)
    # Biases ~ g N(0, 1): their spread over 400 strays by 1/√800 of itself; five of these.
    assert features.biases.std() == pytest.approx(gain, rel=5 / np.sqrt(800))


def test_channels_are_standardised():
    seen = drawn()(A, U)[..., 40:-1]
    assert np.allclose(seen.mean(axis=(0, 1)), 0, atol=1e-12)
    assert np.allclose(seen.std(axis=(0, 1)), 1, rtol=1e-12)


@pytest.mark.parametrize(("reach", "fields"), [(0, 1), (1, 2), (2, 6)])
def test_reach_says_how_many_fields_are_made_of_a_channel(reach, fields):
    features = drawn(Channels(reach=reach))
    assert features.mixing.shape == (fields * 7, 40)


def test_about_6_fields_are_mixed():
    found = (drawn(Channels(reach=2), count=500).mixing != 0).sum(axis=0)
    assert found.mean() == pytest.approx(6, abs=5 * np.sqrt(6 / 500))


@numpy_and_torch()
def test_single_precision_differs_by_its_rounding_alone(library):
    a, u = library(A), library(U)
    double, single = (drawn(Channels(reach=2, single=one), samples=(a, u)) for one in (False, True))
    found = to_host(single(a, u))
    assert found.dtype == np.float32
    assert double.bytes_each == 2 * single.bytes_each
    assert np.allclose(found, to_host(double(a, u)), rtol=0, atol=3e-6)
    assert to_host(single.rounded(library(np.ones(2) + 0j))).dtype == np.complex64


def test_numbers_and_seeds_draw_other_features_and_the_same_again():
    first = drawn()
    assert np.array_equal(first.mixing, drawn().mixing)
    for other in (drawn(number=1), drawn(seed=1)):
        assert not np.isclose(first.biases, other.biases).any()


def test_what_never_varies_is_not_looked_at():
    constant = np.concatenate([A, np.full_like(A, 3.7)], axis=-1)
    features = drawn(Channels(products=False), samples=(constant, U))
    assert features.scale[1] == 0
    moved = np.concatenate([A, np.full_like(A, -9.0)], axis=-1)
    assert np.array_equal(features(constant, U), features(moved, U))
    assert np.isfinite(drawn(samples=(0 * A, 0 * U))(A, U)).all()


def test_features_move_with_fields():
    features = drawn(Channels(reach=2, smoothed=0.2))
    there = features(np.roll(A, 5, axis=1), np.roll(U, 5, axis=1))
    assert np.allclose(there, np.roll(features(A, U), 5, axis=1), rtol=0, atol=1e-12)


def test_features_see_so_many_points_and_no_more():
    features = drawn(Channels(reach=1, products=False))
    touched = A.copy()
    touched[:, 10] += 1
    changed = np.abs(features(touched, U) - features(A, U)).max(axis=(0, 2)) > 0
    assert np.flatnonzero(changed).tolist() == [9, 10, 11]


def test_samples_do_not_see_each_other():
    features = drawn(Channels(reach=2))
    alone = np.concatenate([features(A[i : i + 1], U[i : i + 1]) for i in range(30)])
    assert np.allclose(features(A, U), alone, rtol=0, atol=1e-13)


def test_what_is_looked_at_is_left_alone():
    before = A.copy(), U.copy()
    drawn()(A, U)
    assert np.array_equal(A, before[0])
    assert np.array_equal(U, before[1])


@numpy_and_torch()
@pytest.mark.parametrize("families", [Channels(), Channels(reach=2, smoothed=0.1), Channels(reach=0, products=False)])
def test_libraries_agree(library, families):
    a, u = np.random.default_rng(0).normal(size=(2, 20, 8, 6, 2))
    there = drawn(families, PLANE, (library(a), library(u)))
    expected = drawn(families, PLANE, (a, u))(a, u)
    assert np.allclose(to_host(there(library(a), library(u))), expected, rtol=0, atol=1e-10)


def test_channels_are_clipped_beyond_what_the_training_samples_reach_and_never_within_4_spreads():
    features = replace(drawn(), scale=drawn().scale * np.array([1, 0.1, 1, 4, 1, 10, 1]))
    limited = features.limited(lambda rows: (A[rows], U[rows]), [slice(0, 17), slice(17, 30)])
    seen = (features.sight.channels(A, U) - features.shift) * features.scale
    reach = np.abs(seen).max(axis=(0, 1))
    assert reach.min() < 2 < 12 / 1.1 < reach.max()
    assert np.allclose(limited.limit, np.maximum(np.maximum(4.0, 1.1 * reach), np.minimum(2 * reach, 12.0)), rtol=1e-12)
    assert np.array_equal(limited(A, U), features(A, U))
    far, farther = (limited(factor * A, factor * U)[..., 40:-1] for factor in (1e3, 1e6))
    assert np.abs(farther).max() <= limited.limit.max()
    assert np.allclose(np.abs(far).max(axis=(0, 1)), limited.limit)
