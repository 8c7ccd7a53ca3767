import numpy as np
import pytest
from flows import waves

from conftest import rewritten
from pcarann import Marching, ModelFileError, PCARaNN, load
from pcarann.marching.intervals import WindowCalibration
from pcarann.uncertainty.conformal import Calibration

FLOW = waves(60, times=10)
STEP = PCARaNN(n_components=2, widths=(30, 20), n_members=3, scales="energy")


@pytest.fixture
def model():
    return Marching(STEP, choose=False).fit(FLOW[:40, :2], FLOW[:40, 2:7]).calibrate(FLOW[40:, :2], FLOW[40:, 2:7])


def test_each_step_has_the_quantile_of_its_own_scores():
    scores = np.random.default_rng(0).exponential(size=(30, 3, 4)) * np.array([1.0, 5.0, 20.0])[:, None]
    found = WindowCalibration.by_steps(scores.reshape(30, 12), 1e-8, 3)
    alone = [Calibration.of(scores[:, t], 1e-8).quantile(0.1) for t in range(3)]
    assert np.array_equal(found.factor(0.1, "sample", 12), np.repeat(alone, 4))
    assert np.array_equal(found.factor(0.1, "sample", 8), np.repeat(alone[:2], 4))
    assert found.factor(0.1, "simultaneous", 12) == Calibration.of(scores.reshape(30, 12), 1e-8).quantile(
        0.1, "simultaneous"
    )


def test_every_step_is_covered_as_promised():
    rng = np.random.default_rng(1)
    flow = waves(340, seed=1, times=8)
    noisy = flow + rng.normal(size=flow.shape) * np.geomspace(1e-3, 0.3, 8)[:, None]  # grows faster than any spread
    model = Marching(STEP, choose=False).fit(flow[:40, :1], flow[:40, 1:])
    model.calibrate(flow[40:140, :1], noisy[40:140, 1:])
    band = model.predict_interval(flow[140:, :1], alpha=0.2)
    inside = (band.lower <= noisy[140:, 1:]) & (noisy[140:, 1:] <= band.upper)
    # 1600 and 3200 nearly independent values a step: three standard deviations are 4 %.
    assert np.abs(inside.mean(axis=(0, 2)) - 0.8).max() < 0.04


def test_intervals_go_as_far_as_the_calibration(model):
    whole = model.predict_interval(FLOW[:5, :2], 0.2)
    assert np.array_equal(model.predict_interval(FLOW[:5, :2], 0.2, steps=2).upper, whole.upper[:, :2])
    with pytest.raises(ValueError, match=r"^Intervals were calibrated for 5 steps, but 6 are asked for: calibrate on"):
        model.predict_interval(FLOW[:5, :2], 0.2, steps=6)
    model.calibrate(FLOW[40:, :2], FLOW[40:, 2:])
    assert model.predict_interval(FLOW[:5, :2], 0.2, steps=8).upper.shape == (5, 8, 16)
    assert model.predict_interval(FLOW[:5, :2], 0.2).upper.shape == (5, 5, 16)


def test_a_calibration_on_fewer_steps_is_refused(model):
    with pytest.raises(ValueError, match=r"^y has 3 later snapshots, but this model predicts 5: a calibration needs"):
        model.calibrate(FLOW[40:, :2], FLOW[40:, 2:5])


def test_files_keep_the_quantiles_of_the_steps_and_older_ones_have_one_for_all(model, tmp_path):
    model.calibrate(FLOW[40:, :2], FLOW[40:, 2:]).save(tmp_path / "m")
    expected = model.predict_interval(FLOW[:5, :2], 0.2, steps=8)
    assert np.array_equal(load(tmp_path / "m").predict_interval(FLOW[:5, :2], 0.2, steps=8).upper, expected.upper)

    def age(document, tensors):
        for name in ("choose", "controls", "seconds", "reach", "report"):
            del document["marching"][name]
        for name in [name for name in tensors if name.startswith("marching.steps")]:
            del tensors[name]

    rewritten(tmp_path / "m", age)
    old = load(tmp_path / "m")
    assert old.choose is False
    calibration = model.fitted_.calibration
    half = old.predict_interval(FLOW[:5, :2], 0.2).upper - old.predict(FLOW[:5, :2])
    std = old.predict(FLOW[:5, :2], return_std=True)[1]
    assert np.allclose(half, calibration.quantile(0.2) * np.maximum(std, calibration.floor))


@pytest.mark.parametrize("name", ["ranks", "scores", "largest"])
def test_a_file_whose_steps_do_not_fit_is_refused(model, tmp_path, name):
    model.save(tmp_path / "m")

    def damage(document, tensors):
        tensors[f"marching.steps.{name}"] = tensors[f"marching.steps.{name}"][..., 1:].copy()

    rewritten(tmp_path / "m", damage)
    with pytest.raises(ModelFileError, match="steps"):
        load(tmp_path / "m")
