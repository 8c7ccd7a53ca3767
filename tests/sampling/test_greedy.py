"""Where to solve next: where errors are, where samples are few, and never the same place twice."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.exceptions import NotFittedError

from pcarann import PCARaNN, Staged
from pcarann.sampling import next_points
from pcarann.sampling.greedy import _greedy, _judged, _widths

RNG = np.random.default_rng(0)
POINTS = np.linspace(0, 1, 16)


def outputs(p):
    """Smooth but for a front at p₀ = 0.2 that is steep in the parameter."""
    return np.tanh(20 * (p[:, :1] - 0.2)) * (1 + POINTS) + np.sin(p[:, 1:] + POINTS)


INPUTS = RNG.uniform(0, 1, (300, 2))
FIELDS = RNG.normal(size=(60, 3)) @ np.cos(np.arange(3)[:, None] * 6 * POINTS)


@pytest.fixture(scope="module")
def model():
    return PCARaNN(0.999999, regressor="kernel", n_members=4).fit(INPUTS[:40], outputs(INPUTS[:40]))


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data")
@pytest.mark.parametrize("by", ["error", "variance", "interval", "novelty"])
def test_points_are_further_apart_than_those_of_the_largest_scores(model, by):
    found = next_points(model, INPUTS[40:], 10, by=by)
    assert len(set(found.tolist())) == 10
    scores = _judged(model, {"": INPUTS[40:]}, by)[0]

    def nearest(rows):
        points = INPUTS[40:][rows]
        distances = np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(len(points))
        return distances.min(axis=1).mean()

    assert np.isclose(scores[found[0]], scores.max())
    if by != "novelty":  # the newest lie in different corners anyhow
        assert nearest(found) > nearest(np.argsort(scores)[-10:])


def test_errors_ask_for_points_where_the_output_is_steep(model):
    def near(by):
        return (np.abs(INPUTS[40:][next_points(model, INPUTS[40:], 12, by=by)][:, 0] - 0.2) < 0.2).mean()

    assert near("error") >= 0.6
    assert near("error") > near("variance")


def test_a_pair_of_twins_is_chosen_once():
    correlations = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert _greedy(np.array([3.0, 2.9, 1.0]), correlations, 3) == [0, 2, 1]


def test_hand_worked_conditioning():
    # S = [[4, 3, 0], [3, 9/4 + …]]: with c = 3/4 the second keeps 9 (1 − 9/16) = 3.94 < 4 of the third.
    correlations = np.array([[1.0, 0.75, 0.0], [0.75, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert _greedy(np.array([4.0, 3.0, 2.0]), correlations, 2) == [0, 2]
    assert _greedy(np.array([4.0, 3.0, 1.9]), correlations, 2) == [0, 1]


@pytest.mark.parametrize("most", [np.inf, np.nan])
def test_a_score_that_is_not_finite_leaves_the_others_in_their_order(most):
    assert _greedy(np.array([1.0, 2.0, most, 3.0, 5.0]), 0.9 * np.eye(5) + 0.1, 4) == [2, 4, 3, 1]
    assert _greedy(1e200 * np.array([1.0, 2.0, 7.0, 3.0, 5.0]), 0.9 * np.eye(5) + 0.1, 4) == [2, 4, 3, 1]


def test_spreads_are_compared_in_any_unit_and_where_one_is_infinite():
    std = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, np.nan]])

    def widths(unit, first=1.0):
        found = SimpleNamespace(predict=lambda X, return_std: (X, unit * std * np.array([[first], [1.0], [1.0]])))
        return _widths(found, {"": std})

    assert np.allclose(widths(1e200), widths(1.0), rtol=1e-12)
    assert np.argsort(widths(1.0, first=np.inf)).tolist() == [2, 1, 0]


def test_samples_that_were_learned_since_count_as_known():
    model = PCARaNN(0.999999, regressor="kernel", n_members=2).fit(INPUTS[:40], outputs(INPUTS[:40]))
    first = next_points(model, INPUTS[40:], 5, by="variance") + 40
    model.partial_fit(INPUTS[first], outputs(INPUTS[first]))
    assert not set(next_points(model, INPUTS[40:], 5, by="variance") + 40) & set(first.tolist())


def test_parts_by_name_and_random_layers():
    X = {"field": FIELDS, "number": INPUTS[:60, 0]}
    y = {"u": np.tanh(FIELDS) * INPUTS[:60, :1], "n": INPUTS[:60, 0] ** 2}
    options = dict(widths=(30, 20), n_members=3, scales="energy", n_components=(4, 6))
    model = PCARaNN(**options).fit({k: v[:30] for k, v in X.items()}, {k: v[:30] for k, v in y.items()})
    for by in ("error", "interval"):
        assert len(next_points(model, X, 4, by=by)) == 4


@pytest.mark.parametrize("by", ["error", "interval"])
def test_candidates_in_any_container_are_the_same(model, by):
    def columns(p):
        return pd.DataFrame(p, columns=["front", "shift"], index=np.arange(len(p))[::-1])

    def labelled(p):
        return xr.DataArray(p, dims=("run", "parameter"))

    wanted = next_points(model, INPUTS[40:], 3, by=by).tolist()
    for held in (columns, labelled):
        same = PCARaNN(0.999999, regressor="kernel", n_members=4).fit(held(INPUTS[:40]), outputs(INPUTS[:40]))
        for candidates in (held(INPUTS[40:]), INPUTS[40:], INPUTS[40:].tolist()):
            assert next_points(same, candidates, 3, by=by).tolist() == wanted
        assert len(next_points(same, held(INPUTS[40:]), 3, by="novelty")) == 3  # ties fall by rounding
    assert next_points(model, columns(INPUTS[40:]), 3, by=by).tolist() == wanted


def test_columns_in_another_order_are_refused():
    table = pd.DataFrame(INPUTS[:40], columns=["front", "shift"])
    model = PCARaNN(0.999999, regressor="kernel", n_members=4).fit(table, outputs(INPUTS[:40]))
    with pytest.raises(ValueError, match="expected front, shift, found shift, front"):
        next_points(model, table[["shift", "front"]], 3)


@pytest.mark.parametrize("candidates", [3.0, None, np.float64(2), {"a": [1.0]}, "a"])
def test_candidates_that_are_none_are_refused(model, candidates):
    with pytest.raises(ValueError, match=r"^candidates must "):
        next_points(model, candidates, 2)


def test_stages_have_intervals_alone():
    model = Staged(n_features=10, n_members=2, n_stages=1).fit(FIELDS[:30], np.tanh(FIELDS[:30]))
    assert len(set(next_points(model, FIELDS[30:], 5, by="interval").tolist())) == 5
    with pytest.raises(ValueError, match="which Staged does not keep: use 'interval'"):
        next_points(model, FIELDS, 5)


def test_many_candidates_are_drawn_from(model, monkeypatch):
    monkeypatch.setattr("pcarann.sampling.greedy._MOST_CANDIDATES", 20)
    first, again, other = (next_points(model, INPUTS, 5, random_state=seed).tolist() for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "said"),
    [(dict(n=3, by="chance"), "by must be one of"), (dict(n=301), "at most the number of candidates, 300, got 301")],
)
def test_wrong_wishes_are_refused(model, options, said):
    with pytest.raises(ValueError, match=said):
        next_points(model, INPUTS, **options)


def test_more_points_than_have_correlations_are_refused(model, monkeypatch):
    monkeypatch.setattr("pcarann.sampling.greedy._MOST_CANDIDATES", 20)
    assert len(next_points(model, INPUTS, 20)) == 20
    with pytest.raises(ValueError, match="n must be at most 20, of which correlations are made, got 21"):
        next_points(model, INPUTS, 21)


def test_what_is_no_surrogate_is_refused(model):
    with pytest.raises(ValueError, match="model must be a surrogate, such as PCARaNN, found Quantity"):
        next_points(model.quantity(np.ones(16)), INPUTS, 3)


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError, match="This PCARaNN instance is not fitted yet"):
        next_points(PCARaNN(), INPUTS, 3)
