"""What the server hands to a browser."""

import pytest
from explored import grid
from starlette.testclient import TestClient

from pcarann.explorer.site import assets, explorer
from pcarann.serving.app import application


@pytest.fixture(name="client")
def client_fixture(tmp_path):
    grid().save(tmp_path / "grid.pcarann")
    app = application([tmp_path / "grid.pcarann"], additions=[explorer()], token="secret")
    with TestClient(app, base_url="http://localhost") as found:
        yield found


def test_the_page_is_open_and_may_load_nothing_from_elsewhere(client):
    page = client.get("/?model=grid")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for name in assets():
        if name != "page.html":
            assert client.get(f"/explore/{name}").status_code == 200
    assert client.get("/explore/words.js").headers["content-type"].startswith("text/javascript")


def test_models_and_portraits_need_the_token(client):
    assert client.get("/explore/portrait/grid").status_code == 401
    headers = {"Authorization": "Bearer secret"}
    assert client.get("/explore/models", headers=headers).json() == {"models": ["grid"]}
    portrait = client.get("/explore/portrait/grid", headers=headers).json()
    assert (portrait["name"], portrait["file"]) == ("grid", "grid.pcarann")
    assert "no model other" in client.get("/explore/portrait/other", headers=headers).json()["error"]


def test_nothing_outside_of_the_page_can_be_read(client):
    for path in ("/explore/site.py", "/explore/..%2fsite.py", "/explore/%2e%2e/site.py"):
        assert client.get(path, headers={"Authorization": "Bearer secret"}).status_code == 404


def test_scripts_import_only_what_is_served():
    texts = assets()
    for name, text in texts.items():
        for line in text.splitlines():
            if line.startswith("import "):
                assert line.split('"')[1].removeprefix("./") in texts, (name, line)
            assert "://" not in line or "www.w3.org" in line, (name, line)
