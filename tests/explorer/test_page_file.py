"""A page that is one file, opened from disk in a browser that may ask nobody."""

import json
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from explored import stages
from explored import table as labelled

from conftest import smooth_pairs, table
from pcarann import PCARaNN
from pcarann.explorer.page_file import LIMIT, MARK, page_file
from pcarann.export.signature import Signature

SMALL = dict(n_components=5, widths=(30, 20), n_members=3, scales="energy")
HOSTILE = ("</script><!--<script>alert(1)</script>", "a'\"`${b}\\", "__proto__", "constructor", "温度 ☃\u2028")


@contextmanager
def opened(browser, path):
    """A page from disk; at the end nothing was said and nothing was asked for."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector('[data-state="shown"]')
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def last(page):
    """Inputs and outputs of the last answer, by name, each with an axis of one sample."""
    found = page.evaluate(
        """() => ["inputs", "outputs"].map((which) => Object.entries(window.pcarann.last[which])
             .map(([name, { shape, data }]) => [name, shape, [...data].map(String)]))"""
    )
    return [{name: np.array(list(map(float, data))).reshape(shape) for name, shape, data in one} for one in found]


def assert_predicted(model, inputs, outputs):
    signature = Signature.of(model)
    opened_inputs, _ = signature.opened(inputs)
    with warnings.catch_warnings(action="ignore"):
        band = model.predict_interval(opened_inputs)
        wanted = signature.by_name(band.mean) | signature.by_name(band.lower, ".lower")
        wanted |= signature.by_name(band.upper, ".upper") | {"novelty": model.novelty(opened_inputs).p_value}
    assert set(outputs) == set(wanted)
    for name, values in wanted.items():
        assert np.abs(outputs[name] - values).max() < 1e-6 * max(np.abs(values).max(), 1e-300), name


def moved(page):
    """Move the first slider, and wait for the answer: the page awaits it from the press of the key on."""
    slider = page.locator("input[type=range]").first
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    page.wait_for_selector('[data-state="shown"]')


@pytest.fixture(scope="module")
def model():
    pairs = smooth_pairs(160, seed=2)
    return PCARaNN(**SMALL).fit(*pairs[:100]).calibrate(*pairs[100:])


def test_a_page_opened_from_disk_predicts_as_the_model_does(model, browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_file(model), encoding="utf-8")
    with opened(browser, path) as page:
        start = last(page)
        assert_predicted(model, *start)
        moved(page)
        assert not np.array_equal(last(page)[0]["inputs"], start[0]["inputs"])
        assert_predicted(model, *last(page))


def test_names_do_not_break_out_of_a_page(browser, tmp_path):
    X, y = table(160)
    inputs = dict(zip(HOSTILE, (X[:, 0], X[:, 1], y, X[:, 2], X), strict=True))
    outputs = {f"{name}.": y * k for k, name in enumerate(HOSTILE, start=1)}
    outputs |= {"u": 7 * y, "u.lower": 8 * y, "novelty": 9 * y}
    rows = lambda of, where: {name: one[where] for name, one in of.items()}  # noqa: E731
    model = PCARaNN(**SMALL).fit(rows(inputs, slice(100)), rows(outputs, slice(100)))
    model.calibrate(rows(inputs, slice(100, 160)), rows(outputs, slice(100, 160)))
    path = tmp_path / "page.html"
    text = page_file(model, "</title></script><img src=x onerror=alert(1)>", '"><script>alert(2)</script>')
    path.write_text(text, encoding="utf-8")
    assert len(re.findall("<script", text)) == 3
    assert "<img" not in text
    with opened(browser, path) as page:
        moved(page)
        assert_predicted(model, *last(page))
        assert page.locator("script").count() == 3
        assert page.title().startswith("</title>")


@pytest.mark.parametrize(
    ("make", "label", "value", "words"),
    [
        (stages, "wave 0", "5", "a value of the input is "),
        (labelled, "speed", "9", "speed is 9, training range "),
    ],
)
def test_a_page_says_why_an_input_is_outside(make, label, value, words, browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_file(make()), encoding="utf-8")
    with opened(browser, path) as page:
        assert page.locator("#warning").is_hidden()
        page.get_by_label(f"{label}, as a number").fill(value)
        page.get_by_text(f"This input lies outside the training data: {words}").wait_for()


def test_a_page_forbids_itself_what_is_not_in_it(model):
    text = page_file(model)
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert "default-src 'none'" in text
    assert "unsafe" not in text.split("<style>")[0]
    assert not re.search(
        r'(?:src|href)="(?!data:)', text.split("</style>")[0] + text.split("</style>")[1].split("<script")[0]
    )
    assert MARK in text[:2048]


def test_blocks_of_data_are_whole(model):
    blocks = re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', page_file(model))
    documents = {name: json.loads(text) for name, text in blocks}
    assert set(documents) == {"portrait", "model"}
    assert documents["portrait"]["alphas"] == [float(key) for key in documents["model"]["outputs"]]


def test_a_page_that_is_too_large_is_refused_with_its_size(model):
    size = len(page_file(model).encode())
    assert size < LIMIT / 50
    assert len(page_file(model, limit=size).encode()) == size
    with pytest.raises(ValueError, match=rf"The page would have {size / 1e6:.3g} MB, more than 0\.01 MB: fit fewer"):
        page_file(model, limit=10_000)
