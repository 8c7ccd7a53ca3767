"""Sliders reach as far as the training inputs did, along the directions in which they varied."""

import numpy as np
import pytest
from explored import flow, grid, parts, stages, table

from meshes import triangles
from pcarann import PCARaNN, Staged
from pcarann.explorer.moving import inputs_at, movables_of


def test_columns_have_the_names_and_ranges_of_the_training():
    (movable,) = movables_of(table())
    low, high = table().fitted_.edge.columns
    assert [slider.label for slider in movable.sliders] == ["speed", "depth <b>"]
    np.testing.assert_allclose([slider.low for slider in movable.sliders], low)
    np.testing.assert_allclose([slider.high for slider in movable.sliders], high)


def test_modes_are_standard_deviations_of_the_training_inputs():
    model = grid()
    (movable,) = movables_of(model)
    x = model.fitted_.training_x
    decoded = model.input_pca_.decode(x).reshape(-1, 12, 9)
    variance = (movable.modes**2).sum(axis=0)
    np.testing.assert_allclose(variance, decoded.var(axis=0), rtol=0.2)
    np.testing.assert_allclose(model.input_pca_.encode(inputs_at(model).reshape(1, -1)), 0, atol=1e-9)


def test_parts_are_moved_apart():
    movables = {one.tensor.name: one for one in movables_of(parts())}
    assert movables["k"].sliders[0].low == pytest.approx(1.0, abs=0.05)
    assert movables["k"].sliders[0].high == pytest.approx(2.0, abs=0.05)
    X = inputs_at(parts(), {"k": {"k": 1.25}, "a": {"mode 1": 1.0}})
    assert X["k"] == pytest.approx(1.25)
    np.testing.assert_allclose(X["a"][0] - movables["a"].start, movables["a"].modes[0])


def test_a_sample_of_its_own_is_moved_from_where_it_is():
    sample = np.ones((12, 9))
    X = inputs_at(grid(), {"inputs": {"sample": sample, "mode 1": -2.0}})
    np.testing.assert_allclose(X[0], sample - 2 * movables_of(grid())[0].modes[0])


def test_a_flow_departs_from_one_state_under_constant_controls():
    X, controls = inputs_at(flow(), {"controls": {"control 0": 2.5}})
    assert X.shape == (1, 1, 10)
    np.testing.assert_array_equal(controls, np.full((1, 5, 1), 2.5))
    assert flow().predict(X, controls=controls).shape == (1, 5, 10)


def test_stages_are_moved_by_waves_within_the_range_of_the_training():
    (movable,) = movables_of(stages())
    low, high = (stages().fitted_.units.inputs * np.array(end) for end in stages().fitted_.value_range)
    np.testing.assert_allclose(movable.at({"wave 0": 1.0}), high[0])
    np.testing.assert_allclose(movable.at({"wave 0": -1.0}), low[0], atol=1e-12)
    assert stages().fitted_.layout.boundaries == ("periodic",)
    around = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    sine = movable.modes[1] / np.abs(movable.modes[1]).max()
    np.testing.assert_allclose(sine, np.sin(around), atol=1e-9)


def test_what_is_unknown_is_refused_by_name():
    with pytest.raises(ValueError, match="The inputs are a, k: 'b' is none of them"):
        inputs_at(parts(), {"b": {}})
    with pytest.raises(ValueError, match=r"A sample of inputs has shape \(12, 9\), found \(3,\)"):
        inputs_at(grid(), {"inputs": {"sample": np.ones(3)}})


def test_stages_of_parts_on_a_mesh_are_moved_by_waves_and_columns():
    mesh = triangles(5)
    x, y = mesh.points.T
    c, k = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).uniform(1, 2, (40, 2))
    a = c[:, :1] * x + c[:, 1:] * y
    model = Staged(grid=mesh, n_features=5, n_members=1, n_stages=1).fit({"a": a, "k": k}, np.tanh(a) * k[:, :1])
    field, columns = movables_of(model)
    assert [slider.label for slider in columns.sliders] == ["column 0", "column 1"]
    np.testing.assert_allclose([slider.low for slider in columns.sliders], k.min(axis=0))
    np.testing.assert_allclose([slider.high for slider in columns.sliders], k.max(axis=0))
    np.testing.assert_allclose(field.at({"wave 0": 1.0}), a.max())
    assert field.modes.shape[1:] == (mesh.nodes,)
    assert model.predict(inputs_at(model, {"k": {"column 0": 1.5}})).shape == (1, mesh.nodes)


def test_stages_that_start_from_a_latent_model_are_moved_as_it_is():
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 16)
    a = rng.normal(size=(40, 2)) @ np.stack([x, x**2])
    start = PCARaNN(n_components=2, widths=(8, 6), n_members=1, scales="energy")
    model = Staged(start, n_features=5, n_members=1, n_stages=1).fit(a, np.tanh(a))
    (movable,) = movables_of(model)
    assert [slider.label for slider in movable.sliders] == ["mode 1", "mode 2"]
