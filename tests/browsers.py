"""What runs JavaScript in tests: node for modules, Chromium for pages."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

import pcarann

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCRIPTS = Path(pcarann.__file__).parent / "explorer"


def node(code, document=None):
    """What an ES module gives out, as JSON, that finds scripts of the explorer under ./ and a document in `given`."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    read = 'import { readFileSync } from "node:fs"; const given = JSON.parse(readFileSync(0, "utf8"));'
    code = read + code.replace('from "./', f'from "{SCRIPTS.as_uri()}/')
    run = subprocess.run(
        [program, "--input-type=module", "-e", code], input=json.dumps(document), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@contextmanager
def chromium():
    """A browser, for as long as it is needed."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
