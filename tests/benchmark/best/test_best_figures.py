"""Learning curves and the best model in the headline, as the records have them."""

import numpy as np
import pytest
from test_best_tables import RECORDS, SEEDS

pytest.importorskip("matplotlib")

from pcarann.benchmark.best.figures import has_learning_curves, learning_curves, stage_corrections
from pcarann.benchmark.report.headline import headline


def lines(axis):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines}


def test_learning_curves_are_drawn_on_logarithmic_axes_with_and_without_symmetry():
    (axis,) = learning_curves(RECORDS).axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert lines(axis) == {
        "with symmetry": ([100, 1000], [9e-4, 1e-4]),
        "without symmetry": ([100, 1000], [20e-4, 4e-4]),
        "paper’s PCA–RaNN": ([1000], [1.93e-3]),
    }


def test_one_number_of_samples_is_no_curve():
    assert not has_learning_curves([])
    assert not has_learning_curves(SEEDS)
    assert has_learning_curves(RECORDS)


def test_every_stage_has_a_correction_and_the_error_that_it_leaves():
    truth = np.outer(np.arange(5.0), np.ones(5))
    after = np.stack([0 * truth, 0.9 * truth, truth - 0.01])
    axis = np.linspace(0, 1, 5)
    errors = np.array([1.0, 0.1, 0.004])
    fields = {"input": truth, "truth": truth, "after": after, "errors": errors, "axis_x": axis, "axis_y": axis}
    drawn = {axis.get_title(): axis.images[0].get_array() for axis in stage_corrections(fields).axes if axis.images}
    assert list(drawn) == [
        *("input a", "start: mean field û₀", "stage 1 adds", "stage 2 adds"),
        *("truth u", "error left: 100 %", "error left: 10 %", "error left: 0.40 %"),
    ]
    assert np.allclose(drawn["stage 1 adds"], 0.9 * truth.T)
    assert np.allclose(drawn["error left: 0.40 %"], -0.01)


@pytest.fixture(scope="module")
def burgers():
    return headline(RECORDS).axes[0]


def test_the_headline_has_the_best_model_on_each_machine_by_its_mean_over_seeds(burgers):
    names = {text.get_text(): text for text in burgers.texts}
    drawn = {
        (float(line.get_xdata()[0]), round(float(line.get_ydata()[0]), 10), line.get_marker())
        for line in burgers.lines
        if len(line.get_xdata()) == 1
    }
    assert {(60.0, 2e-4, "o"), (4.0, 1e-4, "s")} <= drawn
    assert names["PCA–RaNN, best latent"].get_fontweight() == "bold"


def test_a_baseline_trained_without_validation_has_a_marker_and_no_curve(burgers):
    assert "FNO + symmetry" in {text.get_text() for text in burgers.texts}
    assert not [line for line in burgers.lines if len(line.get_xdata()) > 1]
