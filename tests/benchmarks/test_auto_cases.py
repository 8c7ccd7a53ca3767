"""The data sets of the automatic recipe solve what they say, and the script compares on them."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import auto
import auto_cases
import numpy as np
import pytest
from auto_cases import CASES

from pcarann.problems.burgers import evolve


@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_the_same_samples_and_another_seed_others(name):
    make = CASES[name].make
    inputs, outputs = make(3, 0)
    again = make(3, 0)
    assert np.array_equal(inputs, again[0])
    assert np.array_equal(outputs, again[1])
    assert np.isfinite(outputs).all()
    assert not np.array_equal(inputs, make(3, 1)[0])


@pytest.mark.parametrize("name", CASES)
def test_training_and_test_parts_have_the_stated_sizes(name):
    train, test = CASES[name].quick().load()
    assert (len(train), len(test)) == (40, 10)
    assert train.inputs.shape[1:] == test.inputs.shape[1:]


def test_sizes_span_what_the_recipe_is_for():
    assert len(CASES) >= 8
    assert min(case.n_train for case in CASES.values()) <= 150
    assert max(case.n_train for case in CASES.values()) >= 3500
    assert sum(case.kind == "table" for case in CASES.values()) == 2
    assert all(100 <= case.n_test <= 200 for case in CASES.values())


def test_cole_hopf_agrees_with_time_stepping():
    initial, found = auto_cases.burgers_smooth(4, 0)
    stepped = evolve(initial, viscosity=0.02, times=1, steps=400)[:, -1, :]
    # Fourth order at a step of 1/400, with waves up to 2π·85 that diffusion has removed: 1e-8 is left.
    assert np.abs(found - stepped).max() < 1e-6


def test_a_rod_of_constant_conductivity_has_a_parabola_of_temperature():
    x = np.linspace(0, 1, 256)
    # The trapezoidal rule is exact for ∫s ds: rounding is left.
    assert np.abs(auto_cases.heated_rod(np.full((1, 256), 2.0)) - x * (1 - x) / 4).max() < 1e-14


def test_columns_without_effect_do_not_change_the_pipe_flow():
    table, profiles = auto_cases.pipe_table(500, 0)
    kept = [0, 2, 3, 4, 5]
    log = np.log(profiles[:, 0])
    shear = np.log(table[:, 0] * table[:, 2] / (2 * table[:, 4] * table[:, 3])) / table[:, 5]
    expected = shear + np.log(table[:, 2]) - np.log(1 + 1 / table[:, 5])
    assert np.allclose(log, expected, rtol=1e-12)
    assert table.shape[1] - len(kept) == 3


def test_the_screened_potential_satisfies_its_equation():
    source, u = auto_cases.screened_poisson(3, 0)
    padded = np.pad(u, ((0, 0), (1, 1), (1, 1)))
    neighbours = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    residual = 65**2 * (4 * u - neighbours) + 10 * u**3 - source
    # Twenty steps that shrink the error by about (40 − 30u²)/60 each.
    assert np.linalg.norm(residual) < 1e-3 * np.linalg.norm(source)


def test_lorenz_states_have_left_their_start():
    states, later = auto_cases.lorenz96(400, 0)
    # Long-time statistics of the model with forcing 8: mean 2.3, standard deviation 3.6 at any number of variables.
    for fields in (states, later):
        assert fields.mean() == pytest.approx(2.35, abs=0.15)
        assert fields.std() == pytest.approx(3.65, abs=0.15)


OPERATORS = {
    "burgers_smooth": lambda a: auto_cases.cole_hopf(a, viscosity=0.02, time=1.0),
    "lorenz96": auto_cases.lorenz_later,
    "screened_poisson": auto_cases.screened,
}


def test_a_symmetry_is_offered_on_three_data_sets():
    assert {name for name, case in CASES.items() if case.symmetry is not None} == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_symmetry_that_is_offered_is_exact(name):
    inputs, outputs = CASES[name].make(2, 0)
    group = CASES[name].symmetry.bind(inputs.shape[1:], outputs.shape[1:])
    flat, expected = inputs.reshape(2, -1), outputs.reshape(2, -1)
    for element in range(min(group.order, 8)):
        moved = group.move_inputs(flat, element).reshape(inputs.shape)
        found = OPERATORS[name](moved).reshape(2, -1)
        # Sums in another order, and on Lorenz's attractor a fifth of a time unit to grow in.
        assert np.allclose(found, group.move_outputs(expected, element), rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_the_recipe_is_compared_with_the_better_of_the_plain_estimators():
    methods = {name: {"error": value} for name, value in (("auto", 0.3), ("energy", 0.2), ("refined", 0.6))}
    assert auto._against(methods, auto.PLAIN, "plain") == {"auto_over_plain": pytest.approx(1.5)}
    assert auto._against({"auto": methods["auto"]}, auto.PLAIN, "plain") == {}


def test_the_recipe_is_compared_with_the_better_of_its_parts_where_there_are_two():
    methods = {name: {"error": value} for name, value in (("auto", 0.3), ("latent", 0.2), ("stages", 0.6))}
    assert auto._against(methods, auto.PARTS, "parts") == {"auto_over_parts": pytest.approx(1.5)}
    alone = methods | {"stages": {"failed": "nothing to see in space"}}
    assert auto._against(alone, auto.PARTS, "parts") == {"auto_over_parts": pytest.approx(1.5)}


def test_ratios_are_to_the_opponent_of_least_error():
    methods = {
        "kernel": {"error": 0.4, "seconds": 1.0},
        "smoothed": {"error": 0.2, "seconds": 4.0},
        "auto": {"error": 0.1, "seconds": 2.0},
    }
    found = auto._against_opponents(methods)
    assert found == {"better_opponent": "smoothed", "ratios": {"auto": {"error": 0.5, "seconds": 0.5}}}
    table = auto._against_opponents(
        {"kernel": methods["kernel"], "smoothed": {"failed": "no"}, "auto": methods["auto"]}
    )
    assert table["better_opponent"] == "kernel"


def test_quick_mode_writes_record_and_table(tmp_path):
    path = auto.main(["--quick", "--budget", "0.5", "--cases", "burgers_few", "pipe_table", "-o", str(tmp_path)])
    cases = json.loads((tmp_path / "auto.json").read_text())["cases"]
    assert set(cases) == {"burgers_few", "pipe_table"}
    assert set(cases["burgers_few"]["methods"]) == set(auto.METHODS)
    assert cases["burgers_few"]["methods"]["smoothed"]["chosen"]["smoothing"] in auto.SMOOTHING
    assert "failed" in cases["pipe_table"]["methods"]["smoothed"]
    assert "failed" in cases["pipe_table"]["methods"]["symmetric"]
    assert "nothing to see in space" in cases["pipe_table"]["methods"]["stages"]["failed"]
    assert cases["pipe_table"]["methods"]["auto"]["fit_over_budget"] > 0
    assert "auto / better plain | auto / better part" in path.read_text()
    assert cases["pipe_table"]["methods"]["auto"]["report"]
    assert "these numbers mean nothing" in path.read_text()


def test_a_long_set_is_tuned_on_a_part_and_fitted_to_all(monkeypatch):
    monkeypatch.setattr(auto, "MOST_TUNED", 20)
    train, _ = CASES["pipe_table"].quick().load()
    tuned = auto._tuned(train.inputs, train.outputs, auto._options(["--quick"]))
    assert len(tuned._fitted.latents) == 20
    model = auto._on_all(tuned, train.inputs, train.outputs)
    assert len(model._fitted.latents) == 40
    assert len(model.lengths) == len(model.whitenings) == 1
