"""What the first stage corrects."""

import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from pcarann import PCARaNN
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene
from pcarann.spatial.start import FOLDS, Start
from pcarann.symmetry.generators import Symmetry
from random_fields_in_space import local, planes, waves

A = waves(23, 16)
U = local(A)


def test_the_mean_field_is_the_same_for_all_inputs():
    start = Start(mean=U.mean(axis=0))
    assert np.array_equal(start(A[:3]), np.repeat(U.mean(axis=0)[None], 3, axis=0))
    assert (start.name, start.evolves) == ("mean field", False)


def test_the_input_is_itself_or_the_state_that_comes_first():
    assert np.array_equal(Start(values=16)(A), A)
    both = np.concatenate([A, U], axis=1)
    assert np.array_equal(Start(values=16)(both), A)
    assert (Start().name, Start().evolves) == ("input", True)


@pytest.mark.parametrize("units", [(1.0, 1.0), (1e200, 1e200), (1e-200, 1e-200)])
def test_the_nearer_of_input_and_mean_field_is_taken(units):
    a, near, far = A * units[0], (A + 0.01 * U) * units[1], -3 * A * units[1]
    assert Start.simple(a, near, True).name == "input"
    assert Start.simple(a, far, True).name == "mean field"
    assert Start.simple(a, near, False).name == "mean field"


@pytest.mark.parametrize("units", [(1e200, 1e-200), (1e-200, 1e200), (0.0, 1.0), (1.0, 0.0)])
def test_an_input_of_another_size_is_not_taken(units):
    found = Start.simple(A * units[0], (A + 5) * units[1], True)
    assert found.name == "mean field"
    assert np.allclose(found.mean, (A + 5).mean(axis=0) * units[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("together", [1, 2])
def test_predictions_for_training_samples_have_not_seen_them(together):
    """One nearest neighbour repeats whatever it has seen."""
    a, u = A[:22], U[:22]
    start, found = Start.fitted(
        KNeighborsRegressor(1), (a, u), ((16,), (16,)), 0, [i // together for i in range(len(a))]
    )
    assert np.array_equal(start(a), u)
    distance = np.linalg.norm(found[:, None] - u[None], axis=2)
    assert (distance.min(axis=1) == 0).all()  # each is some sample
    for i, j in enumerate(distance.argmin(axis=1)):
        assert i // together != j // together  # of another group
    assert (start.name, start.evolves) == ("KNeighborsRegressor", False)


def test_four_fifths_are_fitted_each_time_and_then_all():
    sizes = []

    class Counting(KNeighborsRegressor):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    Start.fitted(Counting(1), (A, U), ((16,), (16,)), 0, range(len(A)))
    assert sizes == [23 - 5, 23 - 5, 23 - 5, 23 - 4, 23 - 4, 23]
    assert len(sizes) == FOLDS + 1


def test_fewer_groups_than_folds_are_left_out_one_by_one():
    _, found = Start.fitted(KNeighborsRegressor(1), (A[:22], U[:22]), ((16,), (16,)), 0, [i // 11 for i in range(22)])
    assert np.isfinite(found).all()
    assert not (found[:, None] == U[None, :22]).all(axis=2).diagonal().any()


def test_the_model_handed_in_is_left_alone_and_sees_fields_on_their_grid():
    a, u = planes(12, (8, 4)), planes(12, (8, 4), 1)
    model = PCARaNN(n_components=3, widths=(8, 6), n_members=1, scales="energy")
    start, found = Start.fitted(model, (a.reshape(12, -1), u.reshape(12, -1)), ((8, 4), (8, 4)), 0, range(12))
    assert not hasattr(model, "_fitted")
    assert start.model.input_pca_.grid == (8, 4)
    assert found.shape == (12, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(start(a.reshape(12, -1)), start.model.predict(a).reshape(12, -1))


def test_the_mean_field_takes_the_symmetry_of_what_is_added_to_it():
    layout = Layout.of((9, 9), (9, 9))
    group = Symmetry.dihedral().bind((9, 9), (9, 9))
    scene = Scene(layout, group, tuple(range(8)), tuple(range(8)))
    field = np.random.default_rng(0).normal(size=81)
    found = Start(mean=field).symmetric(scene).mean
    turns = [np.rot90(part, k) for part in (field.reshape(9, 9), field.reshape(9, 9).T) for k in range(4)]
    assert np.allclose(found.reshape(9, 9), np.mean(turns, axis=0), rtol=0, atol=1e-14)
    assert Start(mean=field).symmetric(Scene(layout)).mean is field
    assert Start().symmetric(scene).evolves
