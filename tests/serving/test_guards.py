import pytest
from served import model_fixture, path_fixture, question  # noqa: F401
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pcarann.serving.app import Addition, application
from pcarann.serving.guards import LOCAL
from pcarann.serving.limits import Limits


def served(path, **options):
    return TestClient(application([path], **options), base_url="http://localhost:8000", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8000", 403),
        ("", 403),
        ("[", 403),
        ("evil@localhost", 403),
        ("localhost/evil", 403),
        ("localhost:80:80", 403),
    ],
)
def test_a_server_of_this_machine_goes_by_its_names_alone(path, host, status):
    assert served(path).get("/v2", headers={"host": host}).status_code == status


def test_other_names_are_told_or_all_are_taken(path):
    assert served(path, hosts={*LOCAL, "Models.lab"}).get("/v2", headers={"host": "models.lab:80"}).status_code == 200
    assert served(path, hosts=None).get("/v2", headers={"host": "any.where"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8000", 200),
        ("http://localhost:8001", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_pages_from_elsewhere_are_not_answered(path, origin, status):
    for hosts in (LOCAL, None):
        assert served(path, hosts=hosts).get("/v2", headers={"origin": origin}).status_code == status


@pytest.mark.parametrize("name", ["authorization", "content-encoding", "host"])
def test_headers_that_stand_twice_are_refused(path, name):
    value = {"authorization": "Bearer secret", "content-encoding": "identity", "host": "localhost"}[name]
    found = served(path, token="secret").get("/v2", headers=[(name, value), (name, value), ("host", "localhost")])
    assert (found.status_code, found.json()["error"]) == (400, f"The header {name} stands twice in the request.")


@pytest.mark.parametrize(
    ("header", "status"),
    [(None, 401), ("Bearer wrong", 401), ("Basic secret", 401), ("Bearer ", 401), ("bearer  secret", 200)],
)
def test_a_token_is_asked_for(path, header, status):
    found = served(path, token="secret").get("/v2/models/waves", headers={"authorization": header} if header else {})
    assert found.status_code == status
    assert status == 200 or found.headers["www-authenticate"] == "Bearer"


def test_health_is_asked_by_any_name(path):
    client = served(path, hosts={"models.lab"})
    found = [client.get(one, headers={"host": "127.0.0.1:8000"}).status_code for one in ("/v2/health/ready", "/v2")]
    assert found == [200, 403]


def test_health_is_open_and_what_additions_open(path):
    addition = Addition(lambda service: [Route("/page", lambda request: PlainTextResponse("here"))], open=("/page",))
    client = served(path, token="secret", additions=[addition])
    assert [client.get(one).status_code for one in ("/v2/health/live", "/v2/health/ready", "/page")] == [200] * 3
    assert [client.get(one).status_code for one in ("/metrics", "/v2", "/nowhere", "/v2/health/live/")] == [401] * 4


REFUSED = {
    "nowhere": ("GET", "/v3", {}, b"", 404),
    "another method": ("GET", "/v2/models/waves/infer", {}, b"", 405),
    "no model": ("GET", "/v2/models/heat", {}, b"", 404),
    "a path": ("GET", "/v2/models/..%2F..%2Fetc%2Fpasswd", {}, b"", 404),
    "compressed": ("POST", "/v2/models/waves/infer", {"content-encoding": "gzip"}, b"x", 415),
    "too large": ("POST", "/v2/models/waves/infer", {}, b" " * 2001, 413),
    "a large head": ("GET", "/v2", {"x": "x" * 20000}, b"", 431),
    "no request": ("POST", "/v2/models/waves/infer", {}, b"x", 400),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_are_one_sentence_of_json_and_are_counted(path, case):
    method, url, headers, body, status = case
    with served(path, limits=Limits(body=2000)) as client:
        found = client.request(method, url, headers=headers, content=body)
        assert found.status_code == status
        assert list(found.json()) == ["error"]
        assert found.json()["error"].endswith(".")
        assert "pcarann_errors_total{kind=" in client.get("/metrics").text


def test_a_failure_of_ours_is_said_without_its_inside(path, caplog):
    def broken(request):
        raise RuntimeError("secret inside")

    found = served(path, additions=[Addition(lambda service: [Route("/broken", broken)])]).get("/broken")
    assert (found.status_code, "secret" in found.text) == (500, False)
    assert "secret inside" in caplog.text


def test_too_many_requests_are_told_to_come_again_but_health_answers(path):
    client = served(path, limits=Limits(requests=0))
    found = client.get("/v2")
    assert (found.status_code, found.headers["retry-after"]) == (503, "1")
    assert client.get("/v2/health/ready").status_code == client.get("/metrics").status_code == 200


def test_what_was_admitted_leaves_again(path):
    app = application([path])
    with TestClient(app, base_url="http://localhost") as client:
        client.get("/v2")
        client.post("/v2/models/waves/infer", content=b"x")
    assert (app.service.admission.requests, app.service.admission.memory) == (0, 0)


@pytest.mark.parametrize(("site", "status"), [("same-origin", 200), ("none", 200), ("cross-site", 403)])
def test_requests_that_a_browser_calls_cross_site_are_refused(path, site, status):
    found = served(path).get("/v2", headers={"sec-fetch-site": site})
    assert found.status_code == status


def test_every_answer_is_for_pages_of_the_server_alone(path):
    client = served(path)
    for one in ("/v2", "/v2/health/live", "/metrics", "/nowhere", "/v2/models/waves"):
        assert client.get(one).headers["cross-origin-resource-policy"] == "same-origin"


def test_a_long_request_line_is_refused(path):
    assert served(path).get("/v2?" + "a" * 20_000).status_code == 431
