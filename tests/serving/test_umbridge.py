"""The protocol on a running server, through the client that its project publishes."""

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from served import running

from conftest import table
from pcarann import Marching, PCARaNN

umbridge = pytest.importorskip("umbridge")
requests = pytest.importorskip("requests")
from pcarann.serving.limits import Limits, Refused  # noqa: E402
from pcarann.serving.umbridge import UMBRIDGE, Unsupported, as_protocol_error  # noqa: E402


def small(n_components=3):
    return PCARaNN(n_components=n_components, widths=(12, 8), n_members=2, scales="energy")


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(1)
    X = {"k": rng.normal(size=(60, 2, 3)), "f": rng.normal(size=60)}
    v = X["k"] ** 2
    v[:, 1, 0] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "u: no better than the mean field")  # seven inputs, 60 samples
        fields = small(4).fit(X, {"u": np.tanh(X["k"] + X["f"][:, None, None]), "v": v})
    p, u = table(80)
    numbers = small().fit(p[:60], u[:60]).calibrate(p[60:], u[60:])
    waves = np.cos(rng.uniform(0, 6, (20, 1, 1)) + 0.3 * np.arange(6)[:, None] + np.linspace(0, 6, 8))
    flow = Marching(small(2), choose=False).fit(waves[:, :1], waves[:, 1:], rng.normal(size=(20, 2)))
    return {"numbers": numbers, "fields": fields, "flow": flow}


@pytest.fixture(scope="module")
def paths(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        model.save(folder / f"{name}.pcarann")
    return [folder / f"{name}.pcarann" for name in models]


@pytest.fixture(scope="module")
def url(paths):
    """The address of the command itself."""
    command = [sys.executable, "-c", "from pcarann.cli import main; main()", "serve", *map(str, paths)]
    process = subprocess.Popen([*command, "--umbridge", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
    finally:
        process.terminate()
        process.communicate()


def test_the_client_finds_models_and_what_they_do(url):
    assert umbridge.supported_models(url) == ["numbers", "fields", "flow"]
    model = umbridge.HTTPModel(url, "fields")
    assert (model.get_input_sizes(), model.get_output_sizes()) == ([6, 1], [6, 5])
    supported = model.supports_evaluate(), model.supports_gradient(), model.supports_apply_jacobian()
    assert supported == (True, True, True)
    assert not model.supports_apply_hessian()


def test_values_are_those_of_predict(url, models):
    k, f = np.random.default_rng(3).normal(size=(2, 3)), 0.25
    found = umbridge.HTTPModel(url, "fields")([k.reshape(-1).tolist(), [f]])
    expected = models["fields"].predict({"k": k[None], "f": np.array([f])})
    assert found == [expected["u"].reshape(-1).tolist(), expected["v"].reshape(-1)[[0, 1, 2, 4, 5]].tolist()]


def test_spread_and_intervals_by_config(url, models):
    model, p = umbridge.HTTPModel(url, "numbers"), table(3)[0][:1]
    band = models["numbers"].predict_interval(p, 0.2)
    assert model(p.tolist(), {"output": "upper", "alpha": 0.2}) == band.upper.tolist()
    assert model(p.tolist(), {"output": "lower", "alpha": 0.2}) == band.lower.tolist()
    assert model(p.tolist(), {"output": "std"}) == models["numbers"].predict(p, return_std=True)[1].tolist()
    with pytest.raises(Exception, match="UnsupportedFeature: std has no derivatives"):
        model.gradient(0, 0, p.tolist(), [0.0] * 12, {"output": "std"})


@pytest.mark.parametrize(("o", "i"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_derivatives_agree_with_differences_of_evaluations(url, o, i):
    model, rng = umbridge.HTTPModel(url, "fields"), np.random.default_rng(4)
    x = [rng.normal(size=6).tolist(), [0.25]]
    v, s = rng.normal(size=len(x[i])), rng.normal(size=model.get_output_sizes()[o])
    ends = [
        np.asarray(model([(np.asarray(one) + h * v).tolist() if k == i else one for k, one in enumerate(x)])[o])
        for h in (1e-5, -1e-5)
    ]
    change = model.apply_jacobian(o, i, x, v.tolist())
    assert change == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)
    assert np.dot(model.gradient(o, i, x, s.tolist()), v) == pytest.approx(np.dot(s, change), rel=1e-10)


def test_a_flow_goes_so_many_steps_under_its_controls(url, models):
    model, start, acting = umbridge.HTTPModel(url, "flow"), np.cos(np.linspace(0, 6, 8)), np.zeros((3, 2))
    steps = {"steps": 3}
    assert (model.get_input_sizes(), model.get_output_sizes()) == ([8, 10], [40])
    assert (model.get_input_sizes(steps), model.get_output_sizes(steps)) == ([8, 6], [24])
    x = [start.tolist(), acting.reshape(-1).tolist()]
    expected = models["flow"].predict(start[None, None], steps=3, controls=acting[None])
    assert model(x, steps) == [expected.reshape(-1).tolist()]
    change = model.apply_jacobian(0, 0, x, x[0], steps)
    assert change == pytest.approx(
        models["flow"].jvp(start[None, None], start[None, None], steps=3, controls=acting[None]).reshape(-1)
    )
    with pytest.raises(Exception, match="UnsupportedFeature: There are no derivatives by controls"):
        model.gradient(0, 1, x, [0.0] * 24, steps)


def test_rules_and_limits_of_the_server_hold_and_are_worded_as_the_protocol_does(paths):
    with running(paths[:1], Limits(json=2000), additions=[UMBRIDGE], token="secret") as url:
        found = requests.get(f"{url}/Info", timeout=10)
        assert (found.status_code, found.json()["error"]["type"]) == (401, "InvalidInput")
        bearer = {"Authorization": "Bearer secret"}
        assert requests.get(f"{url}/Info", headers=bearer, timeout=10).json()["models"] == ["numbers"]
        large = json.dumps({"name": "numbers", "input": [[0.1] * 1000]})
        found = requests.post(f"{url}/Evaluate", data=large, headers=bearer, timeout=10)
        assert found.status_code == 413
        assert "more than 2000" in found.json()["error"]["message"]
        assert 'route="infer"' not in requests.get(f"{url}/metrics", headers=bearer, timeout=10).text
        requests.post(f"{url}/Evaluate", json=GOOD, headers=bearer, timeout=10)
        counted = requests.get(f"{url}/metrics", headers=bearer, timeout=10).text
        assert 'route="infer",model="numbers",status="200"' in counted


def test_refusals_have_the_types_of_the_protocol():
    said = {
        why: as_protocol_error(one)
        for why, one in {
            "UnsupportedFeature": Unsupported("no"),
            "ModelNotFound": Refused(404, "no"),
            "InvalidOutput": Refused(500, "no"),
            "InvalidInput": Refused(413, "no"),
        }.items()
    }
    assert {why: json.loads(one.body)["error"]["type"] for why, one in said.items()} == {why: why for why in said}
    assert [one.status_code for one in said.values()] == [400, 400, 500, 413]


GOOD = {"name": "numbers", "input": [[0.1, 0.2, 0.3]], "config": {}}
AT = {"outWrt": 0, "inWrt": 0, "sens": [0.0] * 12, "vec": [0.0] * 3}
REFUSED = {
    "no such model": ("Evaluate", {"name": "other"}, "ModelNotFound", "no model other: numbers, fields, flow"),
    "no name": ("InputSizes", {}, "ModelNotFound", "no model None"),
    "a longer vector": ("Evaluate", {**GOOD, "input": [[0.0] * 4]}, "InvalidInput", "3 numbers, found 4"),
    "one vector more": ("Evaluate", {**GOOD, "input": [[0.0] * 3] * 2}, "InvalidInput", "1 vectors, found 2"),
    "no vectors": ("Evaluate", {"name": "numbers"}, "InvalidInput", "found none"),
    "no vector": ("Evaluate", {**GOOD, "input": [3]}, "InvalidInput", "list of 3 numbers, found int"),
    "words": ("Evaluate", {**GOOD, "input": [["1", 2, 3]]}, "InvalidInput", "numbers alone"),
    "a number of 400 digits": ("Evaluate", {**GOOD, "input": [[10**400, 2, 3]]}, "InvalidInput", "too large"),
    "NaN": ("Evaluate", {**GOOD, "input": [[float("nan"), 2, 3]]}, "InvalidInput", "NaN is no number"),
    "config that is a list": ("Evaluate", {**GOOD, "config": [1]}, "InvalidInput", "must be an object, found list"),
    "config that is an empty list": ("Evaluate", {**GOOD, "config": []}, "InvalidInput", "an object, found list"),
    "an output in a list": ("Evaluate", {**GOOD, "config": {"output": ["std"]}}, "InvalidInput", "one of mean, std"),
    "an output in an object": ("Evaluate", {**GOOD, "config": {"output": {}}}, "InvalidInput", "one of mean, std"),
    "an alpha of 400 digits": (
        "Evaluate",
        {**GOOD, "config": {"output": "lower", "alpha": 10**400}},
        "InvalidInput",
        "strictly between 0 and 1",
    ),
    "an alpha for which samples are too few": (
        "Evaluate",
        {**GOOD, "config": {"output": "lower", "alpha": 1e-6}},
        "InvalidInput",
        "20 calibration samples are too few for alpha",
    ),
    "steps without an end": (
        "OutputSizes",
        {"name": "flow", "config": {"steps": 10**30}},
        "InvalidInput",
        "steps must be a whole number from 1 to 500",
    ),
    "unknown config": ("Evaluate", {**GOOD, "config": {"level": 1}}, "InvalidInput", "no entry level: output, alpha"),
    "unknown output": ("Evaluate", {**GOOD, "config": {"output": "mode"}}, "InvalidInput", "found mode"),
    "an alpha of no use": ("Evaluate", {**GOOD, "config": {"alpha": 0.1}}, "InvalidInput", "the output is mean"),
    "alpha in words": (
        "Evaluate",
        {**GOOD, "config": {"output": "lower", "alpha": "a"}},
        "InvalidInput",
        "alpha must be a number",
    ),
    "alpha of 2": ("Evaluate", {**GOOD, "config": {"output": "lower", "alpha": 2}}, "InvalidInput", "alpha"),
    "no such output": ("Gradient", {**GOOD, **AT, "outWrt": 1}, "InvalidInput", "outWrt .* 0 to 0, found 1"),
    "no such input": ("ApplyJacobian", {**GOOD, **AT, "inWrt": -1}, "InvalidInput", "inWrt .* 0 to 0, found -1"),
    "a short sens": ("Gradient", {**GOOD, **AT, "sens": [1.0]}, "InvalidInput", "sens must have 12 numbers, found 1"),
    "a long vec": ("ApplyJacobian", {**GOOD, **AT, "vec": [1.0] * 4}, "InvalidInput", "vec must have 3 numbers"),
    "second derivatives": ("ApplyHessian", GOOD, "UnsupportedFeature", "ApplyHessian is not supported"),
    "a list": ("Evaluate", [], "InvalidInput", "must be a JSON object"),
    "steps of what does not march": (
        "OutputSizes",
        {**GOOD, "config": {"steps": 3}},
        "InvalidInput",
        "steps are those of a flow",
    ),
    "steps in words": ("OutputSizes", {"name": "flow", "config": {"steps": "3"}}, "InvalidInput", "whole number"),
    "intervals without calibration": (
        "Evaluate",
        {"name": "fields", "input": [[0] * 6, [0]], "config": {"output": "lower"}},
        "InvalidInput",
        "not calibrated",
    ),
}


@pytest.mark.parametrize(("what", "body", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_mistakes_are_answered_by_errors_of_the_protocol(url, what, body, kind, message):
    found = requests.post(f"{url}/{what}", data=json.dumps(body), timeout=10)  # NaN as clients in Python send it
    assert found.status_code == 400
    assert list(found.json()) == ["error"]
    assert found.json()["error"]["type"] == kind
    assert re.search(message, found.json()["error"]["message"])


def test_a_body_that_is_no_json_is_refused(url):
    found = requests.post(f"{url}/Evaluate", data=b"{", timeout=10)
    assert (found.status_code, found.json()["error"]["type"]) == (400, "InvalidInput")
    deep = requests.post(f"{url}/Evaluate", data=b"[" * 100_000, timeout=10)
    assert (deep.status_code, deep.json()["error"]["type"]) == (400, "InvalidInput")
