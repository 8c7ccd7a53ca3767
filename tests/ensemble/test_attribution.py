"""Shares of parts are total Sobol indices of the surrogate, where parts are independent."""

import numpy as np
import pytest

from pcarann import PCARaNN


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 20)
    field = rng.normal(size=(300, 3)) @ np.cos(np.pi * np.outer(range(3), x))
    steep, flat, noise = rng.uniform(-1, 1, (3, 300))
    outputs = 0.1 * field + 3 * flat[:, None] * x + 0.5 * np.sin(6 * steep)[:, None] * (1 - x)
    inputs = {"field": field, "steep": 100 * steep, "flat": flat, "noise": noise}
    return PCARaNN((20, 4), regressor="kernel", n_members=2).fit(inputs, outputs), inputs, outputs


def test_what_moves_the_outputs_most_counts_most_not_what_is_most_nonlinear(model):
    parts = model[0].sensitivity_.parts
    assert sum(parts.values()) == pytest.approx(1)
    assert sorted(parts, key=parts.get) == ["noise", "field", "steep", "flat"]
    assert parts["noise"] < 1e-3


def test_shares_are_those_of_the_variance_where_effects_add_up(model):
    fitted, inputs, _ = model
    x = np.linspace(0, 1, 20)
    effects = {
        "field": 0.1 * inputs["field"],
        "flat": 3 * inputs["flat"][:, None] * x,
        "steep": 0.5 * np.sin(0.06 * inputs["steep"])[:, None] * (1 - x),
    }
    sizes = {name: part.var(axis=0).sum() for name, part in effects.items()}
    for name, size in sizes.items():
        assert fitted.sensitivity_.parts[name] == pytest.approx(size / sum(sizes.values()), rel=0.25)
