"""Pictures of predictions: panels for what is known, shared colours, errors that are right."""

import re

import numpy as np
import pytest

from pcarann.drawing import draw_prediction
from pcarann.metrics import relative_l2

pytest.importorskip("matplotlib")
RNG = np.random.default_rng(0)
TRUTH = RNG.normal(size=(12, 10))
MEAN = TRUTH + 0.1 * RNG.normal(size=(12, 10))
BAND = {"lower": MEAN - 0.3, "upper": MEAN + 0.3}


def titles(figure):
    return [axis.get_title(loc="left") or axis.get_title() for axis in figure.axes]


def colours(figure):
    return [axis.collections[0].get_clim() for axis in figure.axes]


def test_what_is_known_has_a_panel():
    full = draw_prediction(mean=MEAN, truth=TRUTH, **BAND)
    assert titles(full) == ["truth", "prediction", "prediction − truth", "half-width of the band"]
    assert titles(draw_prediction(mean=MEAN)) == ["prediction"]
    assert titles(draw_prediction(mean=MEAN, std=np.ones_like(MEAN))) == ["prediction", "standard deviation"]


def test_truth_and_prediction_share_their_colours_and_the_error_is_symmetric():
    shown = colours(draw_prediction(mean=MEAN, truth=TRUTH, **BAND))
    assert shown[0] == shown[1] == (min(MEAN.min(), TRUTH.min()), max(MEAN.max(), TRUTH.max()))
    assert shown[2][1] == -shown[2][0] == np.abs(MEAN - TRUTH).max()
    assert shown[3] == pytest.approx((0, 0.3))


def test_the_title_has_the_relative_error():
    figure = draw_prediction(mean=MEAN, truth=TRUTH)
    found = float(re.search(r"error (\S+)", figure.get_suptitle())[1])
    assert found == pytest.approx(relative_l2(MEAN[None], TRUTH[None]), rel=5e-3)  # three digits are printed
    assert draw_prediction(mean=MEAN, truth=0 * TRUTH).get_suptitle() == "truth is zero"


def test_a_row_for_each_component_with_its_name():
    points = RNG.random((12, 2))
    figure = draw_prediction(mean=MEAN[:, :2], truth=TRUTH[:, :2], points=points, names=["u", "v"])
    assert titles(figure)[::3] == ["u, truth", "v, truth"]


def test_curves_have_a_band_and_their_error_beside_it():
    x = np.linspace(0, 1, 10)[::-1]
    lower, upper = MEAN[0] - 0.1, MEAN[0] + 0.2
    figure = draw_prediction(mean=MEAN[0], truth=TRUTH[0], lower=lower, upper=upper, coords={"x": x})
    left, right = figure.axes
    band = left.collections[0].get_datalim(left.transData)
    assert (band.y0, band.y1) == pytest.approx((lower.min(), upper.max()))
    assert np.array_equal(right.lines[-1].get_ydata(), (MEAN[0] - TRUTH[0])[::-1])
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["prediction", "band", "truth"]


def test_curves_of_several_components_have_a_row_each():
    figure = draw_prediction(mean=MEAN[:2], std=np.ones((2, 10)), names=["u", "v"])
    assert [axis.get_ylabel() for axis in figure.axes] == ["u", "v"]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_written_where_a_path_is_given(tmp_path, ending):
    draw_prediction(tmp_path / f"a.{ending}", mean=MEAN, truth=TRUTH, **BAND)
    assert (tmp_path / f"a.{ending}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"truth": TRUTH[:3]}, r"truth must have the shape of mean, \(12, 10\), found \(3, 10\)"),
        ({"lower": MEAN}, "lower and upper belong together"),
        ({"names": ["u", "v"]}, "names must be 1, one for each component, found 2"),
    ],
)
def test_what_does_not_fit_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        draw_prediction(mean=MEAN, **fields)
