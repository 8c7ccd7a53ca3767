import json
import re
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from conftest import table
from pcarann import PCARaNN

umbridge = pytest.importorskip("umbridge")
requests = pytest.importorskip("requests")
uvicorn = pytest.importorskip("uvicorn")
from starlette.applications import Starlette  # noqa: E402

from pcarann.serving.umbridge import umbridge_routes  # noqa: E402


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(1)
    fields = PCARaNN(n_components=4, widths=(12, 8), n_members=2, scales="energy")
    X = {"k": rng.normal(size=(60, 2, 3)), "f": rng.normal(size=60)}
    fields.fit(X, {"u": np.tanh(X["k"] + X["f"][:, None, None]), "v": X["k"][:, 0, :] ** 2})
    p, u = table(80)
    numbers = PCARaNN(n_components=3, widths=(12, 8), n_members=2, scales="energy").fit(p[:60], u[:60])
    return {"numbers": numbers.calibrate(p[60:], u[60:]), "fields": fields}


@contextmanager
def running(app):
    """The address of a server with this app."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def url(models):
    with running(Starlette(routes=umbridge_routes(lambda: list(models), models.__getitem__))) as address:
        yield address


def test_the_client_finds_models_and_what_they_do(url):
    assert umbridge.supported_models(url) == ["numbers", "fields"]
    model = umbridge.HTTPModel(url, "fields")
    assert (model.get_input_sizes(), model.get_output_sizes()) == ([6, 1], [6, 3])
    supported = model.supports_evaluate(), model.supports_gradient(), model.supports_apply_jacobian()
    assert supported == (True, True, True)
    assert not model.supports_apply_hessian()


def test_values_are_those_of_predict_to_the_last_bit(url, models):
    k, f = np.random.default_rng(3).normal(size=(2, 3)), 0.25
    found = umbridge.HTTPModel(url, "fields")([k.reshape(-1).tolist(), [f]])
    expected = models["fields"].predict({"k": k[None], "f": np.array([f])})
    assert found == [expected["u"].reshape(-1).tolist(), expected["v"].reshape(-1).tolist()]


def test_spread_and_intervals_by_config(url, models):
    model, p = umbridge.HTTPModel(url, "numbers"), table(3)[0][:1]
    band = models["numbers"].predict_interval(p, 0.2)
    assert model(p.tolist(), {"output": "upper", "alpha": 0.2}) == band.upper.tolist()
    assert model(p.tolist(), {"output": "lower", "alpha": 0.2}) == band.lower.tolist()
    assert model(p.tolist(), {"output": "std"}) == models["numbers"].predict(p, return_std=True)[1].tolist()
    with pytest.raises(Exception, match="UnsupportedFeature: Gradient is not supported for std"):
        model.gradient(0, 0, p.tolist(), [0.0] * 12, {"output": "std"})


@pytest.mark.parametrize(("o", "i"), [(0, 0), (1, 0), (0, 1)])
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


GOOD = {"name": "numbers", "input": [[0.1, 0.2, 0.3]], "config": {}}
AT = {"outWrt": 0, "inWrt": 0, "sens": [0.0] * 12, "vec": [0.0] * 3}
REFUSED = {
    "no such model": ("Evaluate", {"name": "other"}, "ModelNotFound", "no model 'other'; there are: numbers, fields"),
    "no name": ("InputSizes", {}, "ModelNotFound", "no model 'None'"),
    "a longer vector": ("Evaluate", {**GOOD, "input": [[0.0] * 4]}, "InvalidInput", "3 numbers, found 4"),
    "one vector more": ("Evaluate", {**GOOD, "input": [[0.0] * 3] * 2}, "InvalidInput", "1 vectors, found 2"),
    "no vectors": ("Evaluate", {"name": "numbers"}, "InvalidInput", "found none"),
    "no vector": ("Evaluate", {**GOOD, "input": [3]}, "InvalidInput", "list of 3 numbers, found int"),
    "words": ("Evaluate", {**GOOD, "input": [["1", 2, 3]]}, "InvalidInput", "numbers alone"),
    "a number of 400 digits": ("Evaluate", {**GOOD, "input": [[10**400, 2, 3]]}, "InvalidInput", "too large"),
    "NaN": ("Evaluate", {**GOOD, "input": [[float("nan"), 2, 3]]}, "InvalidInput", "NaN or infinity"),
    "config that is a list": ("Evaluate", {**GOOD, "config": [1]}, "InvalidInput", "must be an object, found list"),
    "unknown config": ("Evaluate", {**GOOD, "config": {"level": 1}}, "InvalidInput", "level unknown"),
    "unknown output": ("Evaluate", {**GOOD, "config": {"output": "mode"}}, "InvalidInput", "found 'mode'"),
    "an alpha of no use": ("Evaluate", {**GOOD, "config": {"alpha": 0.1}}, "InvalidInput", "the output is mean"),
    "alpha in words": ("Evaluate", {**GOOD, "config": {"output": "lower", "alpha": "a"}}, "InvalidInput", "found 'a'"),
    "alpha of 2": ("Evaluate", {**GOOD, "config": {"output": "lower", "alpha": 2}}, "InvalidInput", "alpha"),
    "no such output": ("Gradient", {**GOOD, **AT, "outWrt": 1}, "InvalidInput", "outWrt .* 0 to 0, found 1"),
    "no such input": ("ApplyJacobian", {**GOOD, **AT, "inWrt": -1}, "InvalidInput", "inWrt .* 0 to 0, found -1"),
    "a short sens": ("Gradient", {**GOOD, **AT, "sens": [1.0]}, "InvalidInput", "sens must have 12 numbers, found 1"),
    "a long vec": ("ApplyJacobian", {**GOOD, **AT, "vec": [1.0] * 4}, "InvalidInput", "vec must have 3 numbers"),
    "second derivatives": ("ApplyHessian", GOOD, "UnsupportedFeature", "ApplyHessian is not supported"),
    "a list": ("Evaluate", [], "InvalidInput", "must be an object, found list"),
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
