"""Figures: what is drawn is what the records say, and both formats are there."""

import numpy as np
import pytest

from pcarann.benchmark.paper.configurations import LATER_WINDOW, PROBLEMS
from pcarann.benchmark.records import read_fields

matplotlib = pytest.importorskip("matplotlib")

from pcarann.benchmark.paper import figures as paper_figures  # noqa: E402
from pcarann.benchmark.report.headline import headline  # noqa: E402
from pcarann.drawing import save  # noqa: E402


def smooth(shape, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=shape), axis=-1).astype(np.float32)


def sample_fields(name):
    """Fields as the runner keeps them, on small grids."""
    shapes = {
        "burgers": ((3, 11), (3, 12, 11)),
        "darcy": ((3, 9, 9), (3, 9, 9)),
        "navier_stokes": ((1, 3, 8, 8), (1, 3, 8, 8)),
        "backward_heat": ((1, 8, 8), (1, 3, 8, 8)),
    }
    inputs, outputs = shapes[name]
    truth = smooth(outputs)
    mean = truth + 0.1 * smooth(outputs, 1)
    axes = {"x": outputs[-1], "y": outputs[-2], "t": outputs[1]}
    return {
        "inputs": smooth(inputs),
        "truth": truth,
        "mean": mean,
        "std": np.full_like(mean, 0.1),
        "lower": mean - 0.2,
        "upper": mean + 0.2,
        "errors": np.array([0.01, 0.02, 0.3]),
        **{f"axis_{axis}": np.linspace(0, 1, n) for axis, n in axes.items()},
    }


def model_record(problem, variant, place, error, seconds):
    levels = [0.05, 0.5, 0.95]
    return {
        "kind": "pcarann",
        "problem": problem,
        "variant": variant,
        "place": place,
        "seconds": {"single": seconds / 2, "ensemble": seconds},
        "errors": {"ensemble": error, "single": 2 * error},
        "intervals": {"levels": levels, "coverages": [level + 0.01 for level in levels]},
    }


def baseline_record(problem, method, error, seconds, curve):
    run = {"kind": "baseline", "problem": problem, "method": method, "place": "h200"}
    return {**run, "error": error, "seconds": seconds, "curve": curve}


def adaptation_record(counts, place="cpu"):
    rows = [{"samples": 0, "error_last": 0.3}]
    for n in counts:
        rows.append(
            {"samples": n, "error_last": 0.2, "batch_error_last": 0.2, "recursive_seconds": 0.1, "batch_seconds": 1}
        )
    return {"kind": "adaptation", "problem": "navier_stokes", "place": place, "rows": rows}


RECORDS = [
    *(model_record(name, variant, "cpu", 0.01, 5.0) for name in PROBLEMS for variant in ("energy", "refined")),
    model_record("darcy", "refined", "h200", 0.011, 0.2),
    baseline_record("darcy", "fno", 0.02, 130.0, [[1.0, 0.9], [60.0, 0.1], [130.0, 0.025]]),
    baseline_record("darcy", "kernel", 0.03, 0.5, []),
    adaptation_record((10, LATER_WINDOW.counts[-1])),
    adaptation_record((10, LATER_WINDOW.counts[-1]), "h200"),
]


@pytest.fixture(scope="module")
def picture():
    return headline(RECORDS)


def points(axis):
    """Single markers of an axis, as (x, y) → marker and whether it is hollow."""
    singles = [line for line in axis.lines if len(line.get_xdata()) == 1]
    return {
        (float(line.get_xdata()[0]), float(line.get_ydata()[0])): (
            line.get_marker(),
            line.get_markerfacecolor() == "white",
        )
        for line in singles
    }


def labels(axis):
    return {text.get_text() for text in axis.texts}


def test_the_headline_has_ours_filled_by_machine_and_the_papers_hollow(picture):
    drawn = points(picture.axes[1])
    assert drawn[5.0, 0.01] == ("o", False)
    assert drawn[0.2, 0.011] == ("s", False)
    assert drawn[130.0, 0.02] == ("s", False)
    assert drawn[1258.6, 2.43e-2] == ("D", True)


def test_the_headline_draws_the_curve_of_a_training(picture):
    (curve,) = [line for line in picture.axes[1].lines if len(line.get_xdata()) > 1]
    np.testing.assert_allclose(curve.get_xydata(), [[1.0, 0.9], [60.0, 0.1], [130.0, 0.025]])


def test_the_headline_names_every_method_beside_it(picture):
    assert labels(picture.axes[0]) == {"PCA–RaNN refined", "PCA–RaNN EM", "FNO", "DeepONet", "PCA–NN"}
    assert labels(picture.axes[1]) == {*labels(picture.axes[0]), "kernel ridge"}


@pytest.mark.parametrize("columns", [1, 2])
def test_names_in_the_headline_do_not_overlap_and_stay_inside(columns):
    figure = headline(RECORDS, columns=columns)
    figure.draw_without_rendering()
    for axis in figure.axes:
        # Of the text alone: the box of an annotation includes the line to its marker.
        boxes = [matplotlib.text.Text.get_window_extent(text) for text in axis.texts]
        assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
        assert all(axis.bbox.x0 <= box.x0 and box.x1 <= axis.bbox.x1 for box in boxes)


def test_the_headline_of_no_records_shows_the_paper():
    figure = headline([])
    assert all(len(points(axis)) == 5 for axis in figure.axes)


def test_reliability_has_a_line_for_each_problem_and_the_diagonal():
    left, right = paper_figures.reliability(RECORDS).axes
    assert [line.get_linestyle() for line in left.lines] == ["--", "-", "-", "-", "-"]
    np.testing.assert_allclose(right.lines[1].get_ydata(), 1.0)
    assert [text.get_text() for text in left.get_legend().get_texts()] == [p.title for p in PROBLEMS.values()]


def test_truth_and_mean_of_darcy_share_one_scale():
    fields = sample_fields("darcy")
    axes = paper_figures.darcy_panel(fields).axes
    truth, mean = (axis.images[0] for axis in axes[:2])
    assert truth.get_clim() == mean.get_clim()
    np.testing.assert_array_equal(truth.get_array(), fields["truth"][1].T)


def test_the_slice_of_darcy_is_that_at_one_half():
    fields = sample_fields("darcy")
    truth, mean = paper_figures.darcy_panel(fields).axes[2].lines
    np.testing.assert_array_equal(truth.get_ydata(), fields["truth"][1][:, 4])
    np.testing.assert_array_equal(mean.get_ydata(), fields["mean"][1][:, 4])


@pytest.mark.parametrize("name", PROBLEMS)
def test_representative_samples_share_one_scale_between_truth_and_prediction(name):
    fields = sample_fields(name)
    figure = getattr(paper_figures, f"representative_{name}")(fields)
    rows = 3 if name in ("navier_stokes", "backward_heat") else 4
    grid = np.array(figure.axes[: 3 * rows]).reshape(rows, 3)
    for truth, prediction, error in grid[-3:].T:
        assert truth.images[0].get_clim() == prediction.images[0].get_clim()
        difference = np.abs(prediction.images[0].get_array() - truth.images[0].get_array())
        np.testing.assert_allclose(error.images[0].get_array(), difference, rtol=1e-6)
    assert all(axis.get_xlabel() == "x" for axis in grid[-1])


@pytest.mark.parametrize(("counts", "shown"), [((5, 10), False), ((10, 200), True)])
def test_the_papers_adaptation_is_drawn_where_ours_reaches_as_far(counts, shown):
    left, _ = paper_figures.adaptation([adaptation_record(counts)]).axes
    names = [text.get_text() for text in left.get_legend().get_texts()]
    assert ("paper" in names) == shown


def test_adaptation_shows_the_error_without_and_the_time_on_each_machine():
    left, right = paper_figures.adaptation(RECORDS).axes
    assert [line.get_ydata()[0] for line in left.lines if line.get_linestyle() == "--"] == [0.3]
    names = {text.get_text() for text in right.get_legend().get_texts()}
    assert {"recursion CPU", "recursion H200", "batch refit CPU", "batch refit H200"} <= names


def test_adaptation_of_no_records_shows_the_paper():
    left, right = paper_figures.adaptation([]).axes
    assert len(left.lines) == 1
    assert len(right.lines) == 2


def drawings():
    yield "headline", lambda: headline(RECORDS)
    yield "reliability", lambda: paper_figures.reliability(RECORDS)
    yield "adaptation", lambda: paper_figures.adaptation(RECORDS)
    yield "darcy_panel", lambda: paper_figures.darcy_panel(sample_fields("darcy"))
    for name in PROBLEMS:
        yield name, lambda name=name: getattr(paper_figures, f"representative_{name}")(sample_fields(name))


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in drawings()])
def test_each_figure_is_saved_as_svg_and_png_without_a_date(draw, tmp_path):
    figure = draw()
    for ending, start in (("svg", b"<?xml ve"), ("png", b"\x89PNG\r\n\x1a\n")):
        save(figure, tmp_path / f"figure.{ending}")
        content = (tmp_path / f"figure.{ending}").read_bytes()
        assert content.startswith(start)
        assert b"<dc:date>" not in content
        assert len(content) > 10_000


def test_fields_are_those_of_the_refined_model_or_none(tmp_path):
    records = [model_record("darcy", variant, "cpu", 0.01, 5.0) for variant in ("energy", "refined")]
    assert read_fields(tmp_path, records, "darcy") is None
    for variant, value in (("energy", 1), ("refined", 2)):
        np.savez(tmp_path / f"darcy-{variant}-cpu.npz", truth=value)
        assert read_fields(tmp_path, records, "darcy")["truth"] == value
