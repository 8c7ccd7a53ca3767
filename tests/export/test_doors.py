"""Inputs and outputs by name, with holes and labels: what containers do with arrays, files do too."""

import numpy as np
import pytest
from runtime import assert_same, by_file, by_model, calibrated, moved, pairs, rounded

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* lies? outside the training data"),
    pytest.mark.filterwarnings("ignore:.* are unlike those of the training"),
]


@pytest.fixture(scope="module")
def parts():
    """A field, a number and a table with a unit of its own in; a field with holes and a number out."""
    k, u = pairs(inputs=(5, 4), outputs=(6, 3))
    u[:, 2:, 1] = np.nan
    rng = np.random.default_rng(1)
    strength, table = rng.uniform(1, 2, len(k)), 1e4 + rng.normal(size=(len(k), 2))
    u = u * strength[:, None, None]
    return {"k": k, "strength": strength, "table": table}, {"u": u, "total": 1e3 * np.nansum(u, axis=(1, 2))}


@pytest.fixture(scope="module")
def model(parts):
    return calibrated({}, *parts)


@pytest.mark.parametrize(("single", "tolerance"), [(False, 1e-12), (True, 1e-5)])
def test_parts_by_name_go_in_and_come_out(parts, model, single, tolerance):
    asked = moved(parts[0])
    found = by_file(model, asked, single=single)
    assert list(found)[:3] == ["u", "total", "u.std"]
    assert np.isnan(found["u.lower"][:, 2:, 1]).all()
    assert_same(found, by_model(model, rounded(asked) if single else asked), tolerance)


def test_intervals_of_parts_follow_a_stream_each_by_itself(parts, model):
    from copy import copy

    followed = copy(model)
    followed.observe({n: a[:40] for n, a in parts[0].items()}, {n: 1.3 * a[:40] for n, a in parts[1].items()})
    assert followed.fitted_.calibration.apart
    asked = moved(parts[0])
    assert_same(by_file(followed, asked), by_model(followed, asked), 1e-12)


def test_one_input_with_holes(parts):
    X, y = pairs()
    X[:, 3:6] = np.nan
    model = calibrated({}, X, y)
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), 1e-11)


def test_one_number_for_each_sample():
    X, y = pairs()
    model = calibrated({}, X, {"norm": np.linalg.norm(y, axis=1)})
    asked = moved(X)
    found = by_file(model, asked)
    assert found["norm"].shape == (7,)
    assert_same(found, by_model(model, asked), 1e-12)
