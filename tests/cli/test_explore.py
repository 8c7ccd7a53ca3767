"""`pcarann explore`: a page of a model as one file, never written over anything else."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import table
from pcarann import PCARaNN
from pcarann.cli import main


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(part) for part in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = PCARaNN(n_components=3, widths=(8, 5), n_members=2, scales="energy").fit(*table(40))
    fitted.save("beam.pcarann")
    return "beam.pcarann"


def test_a_page_is_written_and_replaced(model):
    facts = json.loads(run("explore", model, "-o", "page.html", "--json").output)
    text = Path("page.html").read_text(encoding="utf-8")
    assert facts["file"] == "page.html"
    assert '"name":"beam","file":"beam.pcarann"' in text
    run("explore", model, "-o", "page.html")
    assert Path("page.html").read_text(encoding="utf-8") == text


def test_other_pages_are_not_written_over(model):
    Path("page.html").write_text("<!doctype html><title>mine</title>")
    message = run("explore", model, "-o", "page.html", code=1).stderr
    assert "page.html exists and is not evidently a page of a model" in message
    run("explore", model, "-o", "page.html", "--force")
    assert "<title>mine" not in Path("page.html").read_text(encoding="utf-8")


def test_a_page_that_is_too_large_leaves_no_file(model):
    message = run("explore", model, "-o", "page.html", "--max-size", "0.001", code=1).stderr
    assert "more than 0.001 MB: fit fewer members, allow more, or show the model by `pcarann serve`." in message
    assert not Path("page.html").exists()


def test_files_of_other_names_are_refused(model):
    assert "-o must end in .html." in run("explore", model, "-o", "page.pdf", code=2).stderr
    assert "page.html" in run("explore", "page.html", "-o", "page.html", code=1).stderr
