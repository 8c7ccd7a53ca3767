"""The derivative of an ensemble's mean: kept or made again, whole or by blocks, it is the same."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import periodic_pairs
from pcarann import PCARaNN, Symmetry
from pcarann.ensemble import linearization
from pcarann.ensemble.linearization import linearized_mean

DATA = periodic_pairs(60, points=8)
OPTIONS = {"n_components": (4, 5), "widths": (20, 10), "n_members": 2, "scales": ("gain", 1.0, 1.0), "ridge": 1e-6}


@pytest.fixture(scope="module", params=["random", "kernel"])
def ensemble(request):
    model = PCARaNN(regressor=request.param, symmetry=Symmetry.shifts(-1).using(predict=3), **OPTIONS)
    return model.fit(DATA.inputs, DATA.outputs).fitted_.ensemble


def products(ensemble, samples=7):
    rng = np.random.default_rng(0)
    record = linearized_mean(ensemble, ensemble.orbit(DATA.inputs[:samples]))
    return record.value, record.push(rng.normal(size=(samples, 8))), record.pull(rng.normal(size=(samples, 16)))


def test_its_value_is_the_mean_prediction(ensemble):
    expected = ensemble.mean_fields(ensemble.orbit(DATA.inputs[:7]))
    np.testing.assert_allclose(products(ensemble)[0], expected, rtol=1e-10, atol=1e-12)


def test_slopes_that_are_not_kept_are_made_again_block_by_block(ensemble, monkeypatch):
    kept = products(ensemble)
    monkeypatch.setattr(linearization, "_KEPT_BYTES", 0)
    monkeypatch.setattr(linearization, "ROWS", 4)
    for found, expected in zip(products(ensemble), kept, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_hidden_weights_that_are_not_kept_are_drawn_again(ensemble):
    members = ensemble.members
    if hasattr(members[0].features, "weights"):
        members = tuple(replace(one, features=replace(one.features, weights=None)) for one in members)
    for found, expected in zip(products(replace(ensemble, members=members)), products(ensemble), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
