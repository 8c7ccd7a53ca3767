"""The explorer in a browser: what it shows is what `predict` says, by pointer, keys and eyes of every kind."""

import contextlib
import json
import time
from urllib.request import urlopen

import numpy as np
import pytest
from explored import MODELS, grid, parts, running, served_fixture, table  # noqa: F401

import pcarann

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of models in the threads of the server
SHOWN = "#field[data-state=shown]"
TENSORS = """(what) => {
  const tensors = window.pcarann.last[what];
  return Object.fromEntries(Object.entries(tensors).map(([name, { data }]) => [name, [...data]]));
}"""


@pytest.fixture
def opened(browser, served):
    """Open the page of a model; all that the browser says or asks for elsewhere fails the test at its end."""
    address, _ = served
    heard, asked, contexts = [], [], []

    def open_page(name, width=1280, height=860, scheme="light", at=address, routes=None, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for pattern, handler in (routes or {}).items():
            page.route(pattern, handler)
        page.goto(f"{at}/?model={name}")
        if not routes:
            page.wait_for_selector(SHOWN)
        return page

    open_page.heard = heard
    yield open_page
    for context in contexts:
        context.close()
    assert not heard
    assert not [url for url in asked if not url.startswith(("http://127.0.0.1:", "http://localhost:"))]


def settled(page):
    """Wait for the answer to what was done last: the page awaits it from the event on."""
    page.wait_for_selector(SHOWN)
    return {name: np.array(values, dtype=float) for name, values in page.evaluate(TENSORS, "outputs").items()}


def slide(page, label, key="PageUp"):
    page.get_by_label(label, exact=True).press(key)


def test_a_slider_moves_the_field_to_what_predict_says(opened):
    page, model = opened("grid"), grid()
    before = settled(page)["outputs"]
    slide(page, "mode 2")
    found = settled(page)
    X = np.array(page.evaluate(TENSORS, "inputs")["inputs"]).reshape(1, 12, 9)
    place = float(page.get_by_label("mode 2, as a number").input_value())
    np.testing.assert_allclose(X, pcarann.explorer.inputs_at(model, {"inputs": {"mode 2": place}}), atol=1e-12)
    band = model.predict_interval(X)
    assert abs(found["outputs"] - before).max() > 0.01
    for name, field in (("outputs", band.mean), ("outputs.lower", band.lower), ("outputs.upper", band.upper)):
        np.testing.assert_allclose(found[name], field.ravel(), atol=1e-9)
    assert found["novelty"][0] == pytest.approx(model.novelty(X).p_value[0])


def test_the_probe_follows_pointer_and_keys(opened):
    page = opened("grid")
    fields = settled(page)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#value[data-index]")
    value = page.locator("#value")
    first = int(value.get_attribute("data-index"))
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    assert int(value.get_attribute("data-index")) == first + 1
    page.keyboard.press("ArrowUp")
    index = int(value.get_attribute("data-index"))
    assert index == first + 1 + 9
    assert float(value.get_attribute("data-value")) == fields["outputs"][index]
    half = (fields["outputs.upper"] - fields["outputs.lower"])[index] / 2
    assert float(value.get_attribute("data-half")) == pytest.approx(half)
    page.keyboard.press("Shift+ArrowDown")
    assert int(value.get_attribute("data-index")) == (first + 1) % 9
    assert page.locator("#cross").is_visible()


def run_python(page, folder):
    """Run what the page shows, beside the files of the models; what it defines."""
    code = page.locator("#python").inner_text()
    names = {}
    with contextlib.chdir(folder):
        exec(compile(code, "page", "exec"), names)
    return names


@pytest.mark.parametrize("name", ["table", "parts", "flow", "stages"])
def test_every_kind_of_model_is_shown_as_predicted_and_as_its_code_computes(opened, served, name):
    page = opened(name)
    page.click("#random")
    found, given = settled(page), page.evaluate(TENSORS, "inputs")
    model = MODELS[name]()
    signature = pcarann.export.signature.Signature.of(model)
    arrays = {one.name: np.reshape(given[one.name], (1, *one.shape)) for one in signature.inputs}
    X, how = signature.opened(arrays)
    expected = signature.by_name(model.predict(X, **how))
    names = run_python(page, served[1])
    computed = signature.by_name(names["band"].mean if "band" in names else names["prediction"])
    for output in signature.outputs:
        np.testing.assert_allclose(found[output.name], np.asarray(expected[output.name]).ravel(), atol=1e-9)
        np.testing.assert_allclose(found[output.name], np.asarray(computed[output.name]).ravel(), atol=1e-9)


def test_names_units_and_coordinates_are_shown_as_they_are(opened):
    page = opened("table")
    assert page.get_by_label("depth <b>", exact=True).count() == 1
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    words = page.locator("#value").inner_text()
    assert "at t = 0.5" in words
    assert " m at" in words


def test_outputs_components_and_numbers_of_a_mesh(opened):
    page = opened("parts")
    fields = settled(page)
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    value = page.locator("#value")
    at = int(value.get_attribute("data-index"))
    page.get_by_label("y", exact=True).check()
    assert int(value.get_attribute("data-index")) == at + 1  # the same node, the other component
    assert float(value.get_attribute("data-value")) == fields["u"][at + 1]
    page.get_by_label("T", exact=True).check()
    assert not page.get_by_label("y", exact=True).count()
    page.get_by_label("loads", exact=True).check()
    assert page.locator("#list tbody tr").count() == 2


def test_two_inputs_are_compared(opened):
    page = opened("grid")
    before = settled(page)["outputs"]
    page.click("#pin")
    slide(page, "mode 1")
    after = settled(page)["outputs"]
    page.get_by_label("Difference").check()
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    value = page.locator("#value")
    index = int(value.get_attribute("data-index"))
    assert float(value.get_attribute("data-value")) == after[index] - before[index]
    page.get_by_label("Pinned").check()
    assert float(value.get_attribute("data-value")) == before[index]
    page.click("#pin")
    assert not page.get_by_label("Difference").count()


def test_a_sample_from_a_file_is_shown_and_others_are_refused(opened, served, tmp_path):
    page, model = opened("grid"), grid()
    samples = np.random.default_rng(5).normal(size=(3, 12, 9))
    np.save(served[1] / "samples.npy", np.asfortranarray(samples.astype(np.float32)))
    page.set_input_files("#file", served[1] / "samples.npy")
    page.fill("#sample-number", "2")
    found = settled(page)["outputs"]
    expected = model.predict(samples[2:].astype(np.float32).astype(float))
    np.testing.assert_allclose(found, expected.ravel(), atol=1e-9)
    np.testing.assert_allclose(run_python(page, served[1])["band"].mean.ravel(), found, atol=1e-9)
    np.save(tmp_path / "other.npy", np.zeros((3, 4)))
    page.set_input_files("#file", tmp_path / "other.npy")
    page.wait_for_selector("#trouble:not([hidden])")
    words = "other.npy holds an array of shape (3, 4), but a sample is inputs (12, 9)."
    assert page.locator("#trouble").inner_text() == words
    assert page.locator("#file").evaluate("(one) => one.files.length") == 0
    assert page.locator("#sample-words").inner_text() == "samples.npy is shown; sliders move it from there."
    (tmp_path / "named.json").write_text(json.dumps({"inputs": samples[0].tolist()}))
    page.set_input_files("#file", tmp_path / "named.json")
    page.wait_for_selector("#trouble", state="hidden")
    assert settled(page)["outputs"] == pytest.approx(model.predict(samples[:1]).ravel(), abs=1e-9)


def test_the_box_of_samples_says_which_one_is_shown(opened, tmp_path):
    page = opened("grid")
    np.save(tmp_path / "samples.npy", np.zeros((3, 12, 9)))
    page.set_input_files("#file", tmp_path / "samples.npy")
    box = page.locator("#sample-number")
    for typed in ("1", "7", "-1", "1.5", ""):
        box.fill(typed)
        box.blur()
        assert box.input_value() == "1"
        assert 'np.load("samples.npy")[1]' in page.locator("#python").inner_text()
    page.click("#random")
    assert "samples.npy" not in page.locator("#python").inner_text()
    assert box.is_hidden()


def test_columns_of_a_file_are_found_by_name(opened, tmp_path):
    page = opened("table")
    (tmp_path / "rows.csv").write_text("depth <b>;speed\n0.25;1.5\n")
    page.set_input_files("#file", tmp_path / "rows.csv")
    page.get_by_text("Sliders were set from rows.csv.").wait_for()
    settled(page)
    assert page.evaluate(TENSORS, "inputs")["inputs"] == [1.5, 0.25]


def test_what_is_shown_of_an_interval_is_said(opened):
    page = opened("grid")
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Half-width", exact=True).check()
    assert page.locator("#value").inner_text().startswith("half-width of outputs = ")
    assert page.locator("#value").inner_text().endswith(" % interval")
    assert page.locator("#canvas").get_attribute("aria-label").startswith("Half-width of outputs, 9")


def test_the_spread_of_a_model_without_calibration_is_called_so(opened):
    page = opened("stages")
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("− 1 std", exact=True).check()
    words = page.locator("#value").inner_text()
    assert words.startswith("outputs − 1 std = ")
    assert words.endswith(", standard deviation, uncalibrated")
    assert "prediction, std = model.predict(X, return_std=True)" in page.locator("#python").inner_text()
    assert not page.get_by_label("Half-width", exact=True).count()


def test_the_slider_that_moves_the_field_most_is_named_as_it_is_labelled(opened):
    page = opened("flow")
    page.get_by_text("here: mode 1 most, by").wait_for()


def test_outside_the_data_the_gauge_says_so(opened):
    page = opened("table")
    assert "Like the training data" in page.locator("#novelty").inner_text()
    page.get_by_label("speed, as a number").fill("9")
    settled(page)
    assert "Outside the training data" in page.locator("#novelty").inner_text()
    low, high = (f"{end[0]:.4g}" for end in table().fitted_.edge.columns)
    words = f"This input lies outside the training data: speed is 9, training range {low} to {high}."
    assert page.locator("#warning").inner_text().startswith(words)


@pytest.mark.parametrize(("name", "scheme"), [("grid", "light"), ("grid", "dark"), ("parts", "dark")])
def test_labels_and_contrast_hold_in_light_and_dark(opened, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(name, scheme=scheme)
    page.click("#pin")
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("html").get_attribute("data-theme") == scheme
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_theme_can_be_turned_and_the_code_copied(opened):
    page = opened("grid", scheme="dark", permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy")
    page.get_by_text("Copied").first.wait_for()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.strip() == page.locator("#python").inner_text().strip()
    slide(page, "mode 1")
    assert page.locator("#copy").inner_text() == "Copy"
    assert page.locator("#copied").inner_text() == ""
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != dark
    page.reload()
    page.wait_for_selector(SHOWN)
    assert page.locator("html").get_attribute("data-theme") == "light"


@pytest.mark.parametrize("name", ["grid", "parts"])
def test_a_narrow_screen_needs_no_scrolling_aside(opened, name):
    page = opened(name, width=360, height=740)
    page.click("#pin")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360


def test_a_canvas_is_no_higher_than_its_picture(opened):
    page = opened("parts", width=360, height=740)
    box = page.locator("#canvas").bounding_box()
    assert box["height"] < 0.8 * box["width"]  # a square with its axes, beside a bar of colours
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function("(before) => document.getElementById('canvas').clientHeight > before", arg=box["height"])


def test_stale_answers_are_dropped_and_troubles_told(opened):
    page = opened("grid")
    settled(page)
    held = []

    def hold(route):
        asked = route.request.post_data_buffer
        if b'"outputs.lower"' in asked:  # not the comparison of sliders
            held.append(route)
        else:
            route.abort()

    page.route("**/infer", hold)
    for count in (1, 2):
        slide(page, "mode 1", "ArrowRight")
        for _ in range(1500):
            if len(held) >= count:
                break
            page.wait_for_timeout(20)
    assert len(held) == 2
    assert page.locator("#field").get_attribute("data-state") == "waiting"
    held[-1].fulfill(status=400, content_type="application/json", body='{"error": "This is refused."}')
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.locator("#trouble").inner_text() == "This is refused."
    page.unroute("**/infer")
    slide(page, "mode 1", "ArrowRight")
    page.wait_for_selector(SHOWN)
    assert page.locator("#trouble").is_hidden()
    opened.heard[:] = [words for words in opened.heard if "400" not in words and "ERR_FAILED" not in words]


CHANGED = "The model has changed: reload the page."


def replaced(path, address):
    """Put another model in the place of one that is served, and wait until it is."""
    parts().save(path.with_name("new"))
    path.with_name("new").replace(path)
    while json.load(urlopen(f"{address}/v2/models/{path.stem}"))["versions"] == ["1"]:
        time.sleep(0.02)


@pytest.fixture
def replaceable(opened, tmp_path):
    """A server of one model that looks for another file often: its address, and the path of the file."""
    path = tmp_path / "m.pcarann"
    grid().save(path)
    with running([path], poll=0.05) as address:
        yield address, path
    opened.heard[:] = [words for words in opened.heard if "status of 404" not in words]  # a browser may say so


def test_a_model_that_was_replaced_is_told(opened, replaceable):
    address, path = replaceable
    page = opened("m", at=address)
    replaced(path, address)
    slide(page, "mode 1")
    page.get_by_text(CHANGED).wait_for()
    page.click("#reload")
    page.get_by_label("k, as a number").wait_for()
    page.close()


def test_a_server_that_was_started_again_with_another_model_is_told(opened, tmp_path):
    path = tmp_path / "m.pcarann"
    grid().save(path)
    with running([path]) as address:
        page = opened("m", at=address)
    port = int(address.rpartition(":")[2])
    with running([path], port=port):  # the same file: the page goes on
        slide(page, "mode 1")
        settled(page)
    grid().save(path)
    with running([path], port=port):
        slide(page, "mode 1")
        page.get_by_text(CHANGED).wait_for()
        page.close()
    expected = ("status of 404", "net::ERR")  # bars may have been asked for when nobody was there
    opened.heard[:] = [words for words in opened.heard if not any(one in words for one in expected)]


@pytest.mark.parametrize(
    ("address_of", "words"),
    [("**/portrait/m", b""), ("**/infer", b'"outputs.lower"'), ("**/infer", b'"outputs"')],
    ids=["its portrait", "the first answer", "the comparison of sliders"],
)
def test_a_model_that_is_replaced_before_an_answer_is_told(opened, replaceable, address_of, words):
    address, path = replaceable
    count = 0

    def hold(route):
        nonlocal count
        count += words in (route.request.post_data_buffer or b"")
        if count == 1 + (words == b'"outputs"'):
            replaced(path, address)
        route.continue_()

    page = opened("m", at=address, routes={address_of: hold})
    page.get_by_text(CHANGED).wait_for()
    page.close()


def test_an_unknown_model_is_answered_by_links_to_those_there_are(browser, served):
    page = browser.new_context().new_page()
    page.goto(f"{served[0]}/?model=nosuch")
    page.get_by_role("link", name="grid").click()
    page.wait_for_selector(SHOWN)
    page.context.close()


def test_a_server_with_a_token_asks_for_it(opened, browser, served):
    with running([served[1] / "grid.pcarann"], token="secret") as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.fill("#token", "secret")
        page.click("#enter")
        page.wait_for_selector(SHOWN)
        page.context.close()
