"""Effects of parts, columns, channels and latents are total Sobol indices, where these are independent."""

import numpy as np
import pandas as pd
import pytest

from pcarann import Fields, PCARaNN, load


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


SLOPES = np.array([1.4, 7.2, 39.7])


@pytest.mark.parametrize("regressor", ["random", "kernel"])
@pytest.mark.parametrize("units", [(1, 1, 1), (1e4, 1, 1e-3)])
def test_effects_of_columns_are_their_total_sobol_indices_in_any_unit(regressor, units):
    table = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    outputs = (table @ SLOPES)[:, None] * np.linspace(1, 2, 10)
    fitted = PCARaNN((3, 1), regressor=regressor, n_members=2, ridge="gcv").fit(table * units, outputs)
    effects = fitted.sensitivity_.effects
    assert list(effects) == ["column 0", "column 1", "column 2"]
    assert np.allclose(list(effects.values()), SLOPES**2 / (SLOPES**2).sum(), rtol=0.25, atol=1e-4)


def test_an_interaction_counts_for_both_of_its_columns():
    table = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    fitted = PCARaNN((3, 1), regressor="kernel", n_members=2).fit(
        table, (table[:, 0] * table[:, 1])[:, None] * np.ones(4)
    )
    effects = list(fitted.sensitivity_.effects.values())
    assert effects[:2] == pytest.approx([1, 1], rel=0.25)
    assert effects[2] < 0.02


def test_columns_of_a_table_have_their_names():
    table = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (100, 2)), columns=["load", "angle"])
    outputs = table["angle"].to_numpy()[:, None] * np.ones(5)
    effects = PCARaNN((2, 1), widths=(20, 10), n_members=2).fit(table, outputs).sensitivity_.effects
    assert max(effects, key=effects.get) == "angle"
    assert sorted(effects) == ["angle", "load"]


def test_effects_of_one_field_are_those_of_its_latents():
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 40)
    first, second = rng.normal(size=(2, 300, 1))
    fields = 3 * first * np.cos(np.pi * x) + second * np.cos(2 * np.pi * x)
    shown = PCARaNN((2, 2), regressor="kernel", n_members=2).fit(fields, np.tanh(second) * x).sensitivity_
    assert shown.weights.argmax() == 0  # it is seen best, and does nothing
    assert shown.effects["latent 0"] < 0.05
    assert shown.effects["latent 1"] == pytest.approx(1, rel=0.25)


def test_effects_of_channels_are_those_of_the_channels():
    inputs = np.random.default_rng(0).normal(size=(200, 2, 3)) @ np.cos(np.outer(range(3), np.linspace(0, 3, 16)))
    model = PCARaNN(3, widths=(60, 30), n_members=2, fields=Fields(channels=True)).fit(inputs, inputs[:, 1])
    effects = model.sensitivity_.effects
    assert effects["channel 0"] < 0.05
    assert effects["channel 1"] == pytest.approx(1, rel=0.25)


def test_effects_survive_a_file(model, tmp_path):
    model[0].save(tmp_path / "model")
    assert load(tmp_path / "model").sensitivity_.effects == pytest.approx(model[0].sensitivity_.effects)
