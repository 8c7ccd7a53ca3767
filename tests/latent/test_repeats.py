"""Repeats and near-repeats are grouped; random samples, designs, clusters and outliers are not."""

from __future__ import annotations

import numpy as np
import pytest

from pcarann.latent.repeats import groups_of


def response(X, values=20):
    return np.sin(2 * X @ np.random.default_rng(3).normal(size=(X.shape[1], values)) / np.sqrt(X.shape[1]))


def near(rng, n=60, each=4, columns=6, size=1e-3):
    """Groups of samples that differ by a relative perturbation, in a random order, and their labels."""
    base = rng.normal(size=(n // each, columns))
    labels = rng.permutation(np.repeat(np.arange(n // each), each))
    X = base[labels] * (1 + size * rng.normal(size=(n, columns)))
    return X, response(X), labels


def split(labels, groups):
    """Share of pairs of a group that are apart."""
    same = (labels[:, None] == labels) & ~np.eye(len(labels), dtype=bool)
    return 1 - (np.asarray(groups)[:, None] == np.asarray(groups))[same].mean()


def merged(groups):
    return 1 - len(set(groups)) / len(groups)


def test_samples_that_stand_twice_share_a_label():
    X = np.random.default_rng(0).normal(size=(50, 6))
    order = np.random.default_rng(1).permutation(100)
    groups = np.asarray(groups_of(np.concatenate([X, X])[order], response(np.concatenate([X, X]))[order]))
    back = np.argsort(order)
    assert len(set(groups)) == 50
    assert (groups[back[:50]] == groups[back[50:]]).all()


def test_equal_inputs_with_noisy_outputs_share_a_label():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 2)), 3, axis=0)
    assert groups_of(X, response(X) + 0.5 * rng.normal(size=(90, 20))) == [i // 3 for i in range(90)]


def test_repeats_that_went_through_single_precision_share_a_label():
    X = np.random.default_rng(0).normal(size=(30, 3))
    both = np.concatenate([X, X.astype("f4").astype(float)])
    assert groups_of(both, response(both)) == [*range(30), *range(30)]


@pytest.mark.parametrize("size", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("columns", [3, 6, 30])
def test_near_repeats_share_a_label(columns, size):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        X, y, labels = near(rng, columns=columns, size=size)
        found.append(split(labels, groups_of(X, y)))
    assert np.mean(found) <= 0.05


def test_near_repeats_of_fields_share_a_label():
    rng = np.random.default_rng(0)
    waves = np.sin(np.pi * np.arange(1, 9)[:, None] * np.linspace(0, 1, 200))
    labels = np.repeat(np.arange(15), 4)
    a = rng.normal(size=(15, 8))[labels] @ waves + 3e-3 * rng.normal(size=(60, 8)) @ waves
    assert groups_of(a, np.cumsum(a**2, axis=1)) == list(labels)


def test_units_of_columns_do_not_hide_near_repeats():
    X, y, labels = near(np.random.default_rng(0))
    units = np.array([1e-9, 1.0, 1e6, 1e12, 1.0, 1e-3])
    assert groups_of(X * units, y) == groups_of(X, y)
    assert split(labels, groups_of(X * units, y)) == 0


def test_a_few_near_repeats_among_random_samples_are_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    X[:10] = X[10:20] * (1 + 1e-3 * rng.normal(size=(10, 5)))
    assert len(set(groups_of(X, response(X)))) == 90


@pytest.mark.parametrize("draw", ["uniform", "normal", "lognormal", "standard_cauchy"])
@pytest.mark.parametrize("columns", [1, 2, 5, 30])
@pytest.mark.parametrize("n", [20, 300])
def test_random_samples_are_not_grouped(draw, columns, n):
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(10):
        X = getattr(rng, draw)(size=(n, columns))
        shares.append(merged(groups_of(X, response(np.tanh(X)))))
    assert np.mean(shares) <= (0.06 if columns == 1 else 0.01)  # close pairs on a line are chance


def sweep(rng):
    return np.linspace(0, 1, 60)[:, None]


def logarithmic_sweep(rng):
    return np.logspace(-3, 3, 60)[:, None]


def grid(rng):
    return np.stack(np.meshgrid(np.linspace(0, 1, 30), [0.0, 1.0, 2.0]), -1).reshape(-1, 2)


def factorial(rng):
    return np.stack(np.meshgrid(*[[0.0, 1.0]] * 6), -1).reshape(-1, 6)


def latin_hypercube(rng):
    return np.stack([rng.permutation(60) for _ in range(4)], axis=1) / 60


def two_clusters(rng):
    return np.where(rng.random((100, 1)) < 0.5, -1.0, 1.0) + 0.1 * rng.normal(size=(100, 3))


def levels_and_a_column(rng):
    return np.stack([100.0 * rng.integers(0, 3, 80), rng.normal(size=80)], axis=1)


def outlier(rng):
    return np.concatenate([rng.normal(size=(40, 4)), np.full((1, 4), 1e5)])


DESIGNS = [sweep, logarithmic_sweep, grid, factorial, latin_hypercube, two_clusters, levels_and_a_column, outlier]


@pytest.mark.parametrize("design", DESIGNS)
def test_designs_and_clusters_are_not_grouped(design):
    shares = []
    for seed in range(10):
        X = design(np.random.default_rng(seed))
        shares.append(merged(groups_of(X, response(np.tanh(X)))))
    assert np.mean(shares) <= 0.02


def test_levels_of_one_factor_whose_outputs_depend_on_more_are_not_grouped():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 1)).astype(float)
    assert merged(groups_of(X, rng.normal(size=(60, 3)))) == 0


def test_samples_that_are_all_alike_can_still_be_held_out():
    assert groups_of(np.ones((5, 3)), np.ones((5, 2))) == [0, 1, 2, 3, 4]


def test_every_backend_finds_the_same_groups(backend):
    X, y, _ = near(np.random.default_rng(0), columns=100)
    assert groups_of(backend(X), backend(y)) == groups_of(X, y)
