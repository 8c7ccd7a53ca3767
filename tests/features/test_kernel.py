import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Matern

from conftest import smooth_pairs
from pcarann import Kernel, PCARaNN
from pcarann.backend.arrays import to_host
from pcarann.features.kernel import (
    LENGTHS,
    choose_length,
    landmark_features,
    matern52,
    median_distance,
    squared_distances,
)
from pcarann.latent.weighting import Weighting
from pcarann.metrics import relative_l2

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [2.0, 1.0, 0.5]
NEW = RNG.normal(size=(9, 3)) * [2.0, 1.0, 0.5]
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])


def kernel(x, z, length):
    """scikit-learn's Matérn kernel, the oracle."""
    return Matern(length_scale=length, nu=2.5)(x, z)


def rows_of(landmarks, x):
    """Which rows of x the landmarks are."""
    return {int(np.flatnonzero((x == z).all(axis=1))[0]) for z in landmarks}


# The kernel


@pytest.mark.parametrize("length", [0.3, 1.0, 20.0])
def test_the_kernel_is_the_matern_kernel_of_smoothness_five_halves(backend, length):
    found = matern52(squared_distances(backend(X), backend(NEW)), length)
    assert np.allclose(to_host(found), kernel(X, NEW, length), rtol=0, atol=1e-13)


def test_squared_distances_are_those_of_scipy_and_never_negative(backend):
    points = np.vstack([X, X])
    found = to_host(squared_distances(backend(points), backend(points)))
    assert np.allclose(found, cdist(points, points, "sqeuclidean"), rtol=0, atol=1e-13)
    assert found.min() >= 0


def test_the_median_distance_is_over_all_pairs_of_rows(backend):
    points = np.array([[0.0], [1.0], [3.0], [10.0]])
    # sorted: 0 0 0 0 1 1 2 2 | 3 3 7 7 9 9 10 10
    assert median_distance(backend(points)) == pytest.approx(3.0)


def test_the_median_distance_of_rows_that_coincide_is_one(backend):
    assert median_distance(backend(np.full((5, 2), 4.0))) == 1.0


# The features


def test_products_of_features_are_the_kernel_wherever_one_is_a_landmark(backend):
    features = landmark_features(backend(X), 1.5, member=0, seed=0)
    phi, at_landmarks = (to_host(features(backend(rows))) for rows in (NEW, to_host(features.landmarks)))
    expected = kernel(NEW, to_host(features.landmarks), 1.5 * median_distance(X))
    # The jitter, 4 n eps, and rounding grow with the inverse of the kernel matrix, whose condition is about 1e5.
    assert np.allclose(phi @ at_landmarks.T, expected, rtol=0, atol=1e-9)


def test_features_of_landmarks_have_unit_length():
    features = landmark_features(X, 1.5, member=0, seed=0)
    assert np.allclose((features(features.landmarks) ** 2).sum(axis=1), 1.0, rtol=0, atol=1e-9)


def test_landmarks_are_nine_tenths_of_the_samples_and_differ_between_members():
    one, other, again = (rows_of(landmark_features(X, 1.0, member=m, seed=0).landmarks, X) for m in (0, 1, 0))
    assert len(one) == len(other) == 36
    assert one == again
    assert one != other


def test_another_seed_takes_other_landmarks():
    one, other = (rows_of(landmark_features(X, 1.0, member=0, seed=s).landmarks, X) for s in (0, 1))
    assert one != other


def test_landmarks_are_limited_in_number(monkeypatch):
    monkeypatch.setattr("pcarann.features.kernel.MOST_LANDMARKS", 7)
    assert landmark_features(X, 1.0, member=0, seed=0).count == 7


def test_landmarks_that_coincide_give_finite_features(backend):
    features = landmark_features(backend(np.vstack([X, X, X])), 4.0, member=0, seed=0)
    assert np.isfinite(to_host(features(backend(NEW)))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("rows", "length"), [(X, float("nan")), (1e200 * X, 1.0)], ids=["length", "latents"])
def test_a_kernel_that_is_not_finite_is_refused_and_not_tried_forever(rows, length):
    features = landmark_features(rows, length, member=0, seed=0)
    with pytest.raises(ValueError, match="not finite"):
        features(NEW)


@pytest.mark.parametrize("c", [1e30, 1e-30])
def test_the_unit_of_the_latents_does_not_matter(c):
    plain, scaled = (landmark_features(unit * X, 1.5, member=0, seed=0)(unit * NEW) for unit in (1.0, c))
    assert np.allclose(plain, scaled, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", [np.array([1.0, 3.0, 0.2]), RNG.normal(size=(3, 3))], ids=["weights", "matrix"])
def test_relevance_means_the_kernel_of_weighted_latents(backend, metric):
    moved = [rows * metric if metric.ndim == 1 else rows @ metric for rows in (X, NEW)]
    weighted = landmark_features(backend(X), 1.5, member=0, seed=0, weighting=Weighting(backend(metric)))
    plain = landmark_features(moved[0], 1.5, member=0, seed=0)
    assert np.allclose(to_host(weighted(backend(NEW))), plain(moved[1]), rtol=0, atol=1e-9)


def test_the_linear_term_stands_behind_the_kernel_features(backend):
    slopes = np.array([1.0, 2.0, 4.0])
    features = landmark_features(backend(X), 1.5, member=0, seed=0, weighting=Weighting(linear=backend(slopes)))
    found = to_host(features(backend(NEW)))
    assert found.shape == (9, features.count) == (9, 36 + 3)
    assert np.array_equal(found[:, 36:], NEW * slopes)


# The length


def leave_one_out(K, ridge):
    """Mean squared error of N explicit refits without one sample."""
    errors = []
    for i in range(len(K)):
        rest = np.delete(np.arange(len(K)), i)
        weights = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), Y[rest])
        errors.append(((K[i, rest] @ weights - Y[i]) ** 2).sum())
    return np.mean(errors)


def test_the_length_is_the_one_whose_refits_without_a_sample_err_least():
    length, ridge, error = choose_length(X, Y, Weighting())
    errors = {one: leave_one_out(kernel(X, X, one * median_distance(X)), ridge) for one in LENGTHS}
    assert errors[length] == min(errors.values()) == pytest.approx(error)


def test_the_length_suits_a_ridge_that_is_given():
    length, ridge, _ = choose_length(X, Y, Weighting(), 1e-2)
    errors = {one: leave_one_out(kernel(X, X, one * median_distance(X)), 1e-2) for one in LENGTHS}
    assert ridge == 1e-2
    assert errors[length] == min(errors.values())
    assert PCARaNN(n_components=(3, 2), n_members=1, regressor="kernel", ridge=1e-2).fit(X, Y).length_ == length


def test_the_length_is_chosen_in_the_metric_of_the_latents(backend):
    metric = np.array([1e-9, 1e-9, 1.0])
    wave = np.sin(4 * X[:, 2:])
    expected, *_ = choose_length(X * metric, wave, Weighting())
    found, *_ = choose_length(backend(X), backend(wave), Weighting(backend(metric)))
    assert found == expected != choose_length(X, wave, Weighting())[0]


# The whole


def test_one_member_with_all_landmarks_is_textbook_kernel_ridge_regression(monkeypatch):
    monkeypatch.setattr("pcarann.features.kernel.SHARE", 1.0)
    model = PCARaNN(n_components=(3, 2), n_members=1, regressor=Kernel(1.5), ridge=0.1).fit(X, Y)
    centred = X - X.mean(axis=0)  # distances do not change under the rotation to three of three modes
    unit = 1.5 * median_distance(centred)
    alpha = np.linalg.solve(kernel(centred, centred, unit) + 0.1 * np.eye(40), Y - Y.mean(axis=0))
    expected = Y.mean(axis=0) + kernel(NEW - X.mean(axis=0), centred, unit) @ alpha
    assert np.allclose(model.predict(NEW), expected, rtol=0, atol=1e-9)


def test_without_a_ridge_all_landmarks_are_interpolated(monkeypatch):
    monkeypatch.setattr("pcarann.features.kernel.SHARE", 1.0)
    model = PCARaNN(n_components=(3, 2), n_members=2, regressor="kernel", ridge=0.0).fit(X, Y)
    assert np.allclose(model.predict(X), Y, rtol=0, atol=1e-7)


def test_members_spread_where_samples_are_sparse():
    model = PCARaNN(n_components=(3, 2), n_members=8, regressor=Kernel(1.0)).fit(X, Y)
    near = model.predict(X, return_std=True)[1].mean()
    between = model.predict(1.3 * X[:20] - 0.3 * X[20:], return_std=True)[1].mean()
    assert between > near


# Under another BLAS, and with noise


KERNELS = {
    f"length {length:g}, ridge {ridge:g}": {"regressor": Kernel(length), "ridge": ridge}
    for length in (256.0, 64.0)
    for ridge in (1e-10, 0.0)
}
KERNELS |= {"length 256": {"regressor": Kernel(256.0)}, "length 64": {"regressor": Kernel(64.0)}, "default": {}}
ELSEWHERE = """
import numpy as np, pcarann
for i in range({count}):
    np.save(f"{{i}}.npy", pcarann.load(f"{{i}}.pcarann").predict(np.load("inputs.npy")))
"""


@pytest.fixture(scope="module", params=[{"OPENBLAS_CORETYPE": "Nehalem"}, {"OPENBLAS_NUM_THREADS": "2"}], ids=str)
def here_and_there(request, tmp_path_factory):
    """What each kernel predicts here, and what a fresh process with another BLAS predicts with its file."""
    pairs, folder = smooth_pairs(160), tmp_path_factory.mktemp("kernels")
    np.save(folder / "inputs.npy", pairs.inputs[130:])
    here = []
    for i, options in enumerate(KERNELS.values()):
        model = PCARaNN(n_components=0.99999, n_members=2, **{"regressor": "kernel", **options}).fit(*pairs[:130])
        model.save(folder / f"{i}.pcarann")
        here.append(model.predict(pairs.inputs[130:]))
    command = [sys.executable, "-c", ELSEWHERE.format(count=len(KERNELS))]
    subprocess.run(command, cwd=folder, env={**os.environ, **request.param}, check=True)
    return here, [np.load(folder / f"{i}.npy") for i in range(len(KERNELS))]


@pytest.mark.parametrize("i", range(len(KERNELS)), ids=KERNELS)
def test_a_kernel_is_the_same_function_under_another_blas(here_and_there, i):
    here, there = (part[i] for part in here_and_there)
    assert np.abs(there - here).max() <= 1e-9 * np.abs(here).max()  # a file is the same function to nine digits


def test_a_kernel_copes_with_noise_by_default(pairs):
    noisy = pairs.outputs + 0.05 * pairs.outputs.std() * np.random.default_rng(0).normal(size=pairs.outputs.shape)

    def error(**options):
        model = PCARaNN(n_components=0.9999, n_members=3, regressor="kernel", **options)
        return relative_l2(
            model.fit(pairs.inputs[:200], noisy[:200]).predict(pairs.inputs[200:300]), pairs.outputs[200:300]
        )

    assert error() <= 1.01 * error(ridge="gcv")  # which it is; rounding of the same choice
