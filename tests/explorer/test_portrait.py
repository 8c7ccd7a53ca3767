"""Portraits hold what a page needs, in plain JSON."""

import base64
import json

import numpy as np
import pytest
from explored import MODELS, flow, grid, parts, stages, table

from pcarann import PCARaNN
from pcarann.explorer import inputs_at, portrait
from pcarann.uncertainty.conformal import ALPHA, samples_needed


def values(document):
    kind = {"FP64": "<f8", "INT32": "<i4"}[document["datatype"]]
    return np.frombuffer(base64.b64decode(document["base64"]), kind).reshape(document["shape"])


@pytest.mark.parametrize("name", MODELS)
def test_a_portrait_is_plain_json_and_starts_where_inputs_at_does(name):
    model = MODELS[name]()
    found = portrait(model, name)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    X = inputs_at(model)
    X = dict(zip(("inputs", "controls"), X, strict=True)) if isinstance(X, tuple) else X
    for one in found["inputs"]:
        given = X[one["part"] or one["name"]] if isinstance(X, dict) else X
        np.testing.assert_array_equal(values(one["start"]), given[0])
        assert all(slider["low"] <= slider["start"] <= slider["high"] for slider in one["sliders"])


def test_levels_are_those_that_the_calibration_can_give():
    assert portrait(grid())["alphas"] == [0.5, 0.2, 0.1, 0.05]
    assert samples_needed(0.01, 1, "sample") > 40 >= samples_needed(0.05, 1, "sample")
    assert portrait(grid())["alpha"] == ALPHA
    assert (portrait(parts())["alphas"], portrait(parts())["alpha"]) == ([], None)


def test_few_calibration_samples_begin_with_the_level_that_they_reach():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 9))
    model = PCARaNN(n_components=2, widths=(6, 4), n_members=2).fit(X[:20], y[:20]).calibrate(X[20:], y[20:])
    assert (portrait(model)["alphas"], portrait(model)["alpha"]) == ([0.5, 0.2, 0.1], 0.1)


def test_axes_have_roles_names_and_coordinates():
    (height,) = portrait(table())["outputs"]
    assert (height["units"], height["axes"][0]["name"]) == ("m", "t")
    np.testing.assert_array_equal(height["axes"][0]["coords"], np.linspace(0, 1, 25))
    vector, scalar, loads = portrait(parts())["outputs"]
    assert [axis["role"] for axis in vector["axes"]] == ["node", "component"]
    assert (scalar["mesh"], loads["mesh"], loads["kind"]) == (0, None, "table")
    assert [axis["role"] for axis in portrait(flow())["outputs"][0]["axes"]] == ["time", "space"]


def test_what_a_model_cannot_tell_is_not_promised():
    assert portrait(grid())["novelty"]
    assert not portrait(stages())["novelty"]
    assert portrait(stages())["inputs"][0]["unit"].startswith("half ranges")


def test_ranges_of_stages_and_steps_of_flows_are_told():
    given, fitted = portrait(stages())["inputs"][0], stages().fitted_
    ends = {k: fitted.units.inputs * end[0] for k, end in zip(("low", "high"), fitted.value_range, strict=True)}
    assert given["range"] == ends
    assert (given["margin"], portrait(grid())["inputs"][0]["range"]) == (0.1, None)
    assert portrait(flow())["about"].startswith("150 training steps")
