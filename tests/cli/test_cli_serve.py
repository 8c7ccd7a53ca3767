"""`pcarann serve`: what it hands over, what it refuses, and the recipe of its container."""

import json
import re
import threading
import urllib.request

import pytest
from click.testing import CliRunner

from conftest import table
from house import ROOT
from pcarann import PCARaNN
from pcarann.cli import main
from pcarann.cli.serve import serve
from pcarann.serving import running


@pytest.fixture
def path(tmp_path):
    PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(*table(20)).save(tmp_path / "m.pcarann")
    return tmp_path / "m.pcarann"


@pytest.fixture
def handed(monkeypatch):
    """What would be run."""
    found = {}

    def run(app, listener, limits, started):
        found.update(app=app, limits=limits, address=running.address(listener))
        started()

    monkeypatch.setattr(running, "run", run)
    return found


def called(*arguments, **options):
    return CliRunner(**options).invoke(main, ["serve", *map(str, arguments)])


def test_a_server_of_this_machine_says_where_it_is(path, handed):
    found = called(path, "--port", 0, "--max-body", "1MB", "--timeout", "5s", "--max-requests", 3, "--max-steps", 9)
    assert found.exit_code == 0, found.output
    assert f"Serving m at {handed['address']} " in found.output
    assert handed["address"].startswith("http://127.0.0.1:")
    limits = handed["limits"]
    assert (limits.body, limits.json, limits.seconds, limits.requests) == (10**6, 10**6, 5.0, 3)
    assert limits.steps == 9
    assert handed["app"].rules.token is None
    assert set(handed["app"].rules.hosts) == {"localhost", "127.0.0.1", "::1"}


def test_elsewhere_without_a_token_it_warns_and_with_one_it_does_not(path, handed, tmp_path):
    assert "nobody is asked for a token" in called(path, "--port", 0, "--host", "0.0.0.0").output
    assert handed["app"].rules.hosts is None
    (tmp_path / "token").write_text("secret\n")
    options = ("--port", 0, "--host", "0.0.0.0", "--token-file", tmp_path / "token", "--allow-host", "Models.lab")
    assert "nobody" not in called(path, *options).output
    assert (handed["app"].rules.token, handed["app"].rules.hosts) == ("secret", {"0.0.0.0", "models.lab"})
    called(path, "--port", 0, "--host", "LocalHost")
    assert set(handed["app"].rules.hosts) == {"localhost", "127.0.0.1", "::1"}
    called(path, "--port", 0, env={"PCARANN_TOKEN": "other"})
    assert handed["app"].rules.token == "other"


def test_a_model_is_prepared_where_that_is_asked_for(path, handed):
    called(path, "--port", 0, "--prepare", "1MB")
    (entry,) = handed["app"].service.shelf.entries
    assert entry.model.prepared_.bytes_kept > 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "Missing argument"),
        (("{path}", "{path}"), "would both be served as m"),
        (("{path}.gone",), "m.pcarann.gone"),
        ((".",), "is a folder, no model file"),
        (("{path}", "--timeout", "soon"), "not a time"),
        (("{path}", "--max-body", "much"), "memory must be"),
        (("{path}", "--token-file", "{path}.token"), "must hold one word"),
        (("{path}", "--host", "no.such.host.invalid"), "cannot be served"),
    ],
)
def test_mistakes_end_in_one_line(path, handed, arguments, why):
    path.with_name("m.pcarann.token").write_text("two words")
    found = called(*(one.format(path=path) for one in arguments))
    assert found.exit_code != 0
    assert why in found.output
    assert "Traceback" not in found.output


def test_the_container_does_what_the_command_can():
    lines = (ROOT / "Containerfile").read_text().splitlines()
    recipe = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines if line and line[0] != "#"}
    command = json.loads(recipe["CMD"])[-1].removeprefix("exec ").split()
    assert command[:2] == ["pcarann", "serve"]
    known = {name for option in serve.params for name in option.opts}
    assert {word for word in command if word.startswith("--")} <= known
    assert command[command.index("--port") + 1] == recipe["EXPOSE"]
    assert command[-1] == f"{recipe['VOLUME']}/*"
    assert recipe["USER"] in recipe["RUN"]
    extra = re.search(r"\.\[(\w+)\]", recipe["RUN"]).group(1)
    assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()
    for line in lines:
        if line.startswith("COPY"):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])


def test_the_health_of_the_container_is_asked_where_a_server_answers(path):
    from pcarann.serving.app import application
    from pcarann.serving.limits import Limits

    script = json.loads((ROOT / "Containerfile").read_text().split("HEALTHCHECK CMD ")[1].splitlines()[0])[-1]
    listener = running.bound("127.0.0.1", 0)
    import uvicorn

    server = uvicorn.Server(running.configured(application([path]), Limits()))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        exec(script.replace("http://127.0.0.1:8000", running.address(listener)), {})
    finally:
        server.should_exit = True
        thread.join()
    with running.bound("127.0.0.1", 0) as nobody:
        url = running.address(nobody)
    with pytest.raises(urllib.request.URLError):
        exec(script.replace("http://127.0.0.1:8000", url), {})
