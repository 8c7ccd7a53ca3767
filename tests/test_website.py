"""The site: every page is in its navigation, every example has a test and a picture, links and docstrings arrive."""

import re
import subprocess
import sys
from importlib import import_module

import pytest

from house import ROOT

EXAMPLES = sorted(path.stem for path in ROOT.glob("examples/*.py"))


@pytest.fixture(scope="module")
def site():
    """A module of website/ by name."""
    sys.path.insert(0, str(ROOT / "website"))
    yield import_module
    sys.path.remove(str(ROOT / "website"))


# What is there


def test_the_navigation_has_every_page_once_and_no_other(site):
    listed = [page for pages in site("nav").NAV.values() for page in pages]
    assert sorted(["index.md", *listed]) == sorted(path.name for path in ROOT.glob("docs/*.md"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_test_a_picture_and_a_place_in_the_gallery(name):
    tests = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert f'example("{name}")' in tests
    picture = ROOT / "docs" / "gallery" / f"{name}.png"
    assert 1000 < picture.stat().st_size < 120_000
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert f"(gallery/{name}.png)" in page
    assert f"(../examples/{name}.py)" in page


def test_the_gallery_has_no_picture_without_a_script():
    assert sorted(path.stem for path in ROOT.glob("docs/gallery/*")) == EXAMPLES


@pytest.mark.parametrize("name", ["samples.md", "stages.md"])
def test_tables_of_errors_are_those_of_the_records(name, site):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text == site("samples").written(name), "run: python website/samples.py"


# How it is made


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, str(ROOT / "website" / "build.py"), "--check", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


ADDRESSES = {
    "docs/data.md": "data.md",
    "docs/gallery/plate.png": "gallery/plate.png",
    "src/pcarann/latent": "modules/latent/index.md",
    "src/pcarann/latent/pca.py": "modules/latent/pca.md",
    "src/pcarann/latent/__init__.py": "modules/latent/index.md",
    "src/pcarann/files.py": "modules/files.md",
    "examples/plate.py": "examples/plate.md",
    "results/report.md": "results/report.md",
    "results/speed": "results/speed/index.md",
}


@pytest.mark.parametrize(("path", "address"), ADDRESSES.items(), ids=ADDRESSES)
def test_files_of_the_repository_have_an_address_on_the_site(path, address, site):
    assert (ROOT / path).exists()
    assert site("links").address(path) == address


def test_links_are_changed_where_they_lead_into_the_repository_and_nowhere_else(site):
    text = (
        "[a](../src/pcarann/files.py) [b](data.md#meshes) [c](https://x.org/y) [d](nowhere.md) ![e](../results/f.png)"
    )
    changed = site("links").relinked(text, "docs/options.md")
    assert changed == text.replace("../src/pcarann/files.py", "modules/files.md")
    up = site("links").relinked("[a](../docs/data.md) [b](figures/stages.png)", "results/report.md")
    assert up == "[a](../data.md) [b](figures/stages.png)"


DOCSTRINGS = {
    "code has double quotes": ("As `fit_` says.", "As ``fit_`` says."),
    "signs are signs": ("(samples, *grid), |k|, ridge_ and n_1", r"(samples, \*grid), \|k\|, ridge\_ and n_1"),
    "columns keep their lines": ("Two:\n\na   b\nc   d", "Two:\n\n::\n\n    a   b\n    c   d"),
    "what is indented is a block": ("Two:\n\n    x = *y", "Two:\n\n::\n\n        x = *y"),
    "examples stay": ("One.\n\n>>> f(*x)\n1", "One.\n\n>>> f(*x)\n1"),
    "sections are left to Napoleon": (
        "One.\n\nParameters\n----------\nx : *int\n    Of `y`.",
        "One.\n\nParameters\n----------\nx : \\*int\n    Of ``y``.",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_docstrings_are_translated(text, wanted, site):
    assert site("docstrings").as_rst(text).strip() == wanted


def test_every_room_and_arrow_of_the_graph_is_drawn(site):
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = site("graph").rooms_as_svg(text.split("```mermaid")[1].split("```")[0])
    rooms, arrows = re.findall(r'\["(.*?)"\]', text), text.count(" --> ")
    assert sorted(re.findall(r"<text[^>]*>([^<]+)<", drawing)) == sorted(rooms)
    assert drawing.count("<path d") == arrows + 1  # and the tip of an arrow
