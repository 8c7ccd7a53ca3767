"""What PCARaNN and Marching do in the same way, tried on both."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pcarann import Marching, PCARaNN, load

TIMES = np.arange(8)
PHASES = np.random.default_rng(0).uniform(0, 6, (120, 2))
WAVES = np.cos(PHASES[:, :1, None] + 0.4 * TIMES[:, None] + np.linspace(0, 6, 16)) * (
    1 + 0.2 * np.sin(PHASES[:, 1:, None])
)
STEP = PCARaNN(n_components=4, widths=(30, 20), n_members=3, scales="energy")


@pytest.fixture(scope="module", params=["latent", "marching"])
def kind(request):
    return request.param


@pytest.fixture
def unfitted(kind):
    return Marching(STEP) if kind == "marching" else PCARaNN(**STEP.get_params())


@pytest.fixture
def model(unfitted):
    return unfitted.fit(*waves(slice(60)))


def waves(rows):
    return WAVES[rows, :3], WAVES[rows, 3:]


def test_before_fit_every_method_says_so(unfitted, tmp_path):
    assert not hasattr(unfitted, "fitted_")
    name = type(unfitted).__name__
    for call in (
        lambda: unfitted.predict(WAVES),
        lambda: unfitted.calibrate(*waves(slice(5))),
        lambda: unfitted.predict_interval(WAVES),
        lambda: unfitted.save(tmp_path / "m"),
        lambda: check_is_fitted(unfitted),
    ):
        with pytest.raises(NotFittedError, match=f"This {name} "):
            call()


def test_predictions_have_the_shape_and_kind_of_what_was_handed_in(model):
    torch = pytest.importorskip("torch")
    inputs, outputs = waves(slice(60, 70))
    mean, std = model.predict(torch.as_tensor(inputs), return_std=True)
    assert isinstance(mean, torch.Tensor)
    assert mean.shape == std.shape == outputs.shape
    assert np.allclose(mean.numpy(), model.predict(inputs), rtol=0, atol=1e-12)


def test_parts_join_to_the_deviation(model):
    inputs = 1.5 * waves(slice(60, 70))[0]
    with pytest.warns(UserWarning, match="outside the training data"):
        found = model.predict_parts(inputs)
    with pytest.warns(UserWarning, match="outside the training data"):
        mean, std = model.predict(inputs, return_std=True)
    assert found.beyond is not None
    assert np.array_equal(found.mean, mean)
    assert np.allclose(np.hypot(found.members, found.beyond), std, rtol=1e-14)


def test_blocks_are_checked_at_the_call_and_keep_its_state(model):
    inputs, outputs = waves(slice(60, 70))
    with pytest.raises(ValueError, match=r"X|snapshots"):
        model.predict_blocks(inputs[:, :, :5])
    before = model.predict(inputs)
    blocks = model.predict_blocks(inputs)
    model.partial_fit(inputs, 1.1 * outputs)
    assert np.allclose(np.concatenate([fields[0] for _, fields in blocks]), before, rtol=0, atol=1e-12)


def test_intervals_need_a_calibration(model):
    with pytest.raises(NotFittedError, match="has no calibration: call calibrate"):
        model.predict_interval(WAVES[:5, :3])


def test_intervals_cover_new_samples(model):
    model.calibrate(*waves(slice(60, 90)))
    inputs, outputs = waves(slice(90, 120))
    band = model.predict_interval(inputs, alpha=0.1)
    assert ((band.lower <= outputs) & (outputs <= band.upper)).mean() >= 0.8
    assert ((band.lower <= outputs + 1) & (outputs + 1 <= band.upper)).mean() <= 0.5
    assert np.allclose(band.mean, model.predict(inputs), rtol=0, atol=1e-12)


def test_a_calibration_follows_the_samples_that_are_learned(model):
    inputs, outputs = waves(slice(90, 100))
    before = model.calibrate(*waves(slice(60, 90))).fitted_.calibration.quantile(0.1)
    assert model.partial_fit(inputs, outputs).fitted_.calibration.quantile(0.1) != before
    assert not model.fitted_.stale
    assert (model.monitor.observed, model.monitor.learned) == (10, 10)
    band = model.predict_interval(WAVES[:5, :3])
    assert (band.lower <= band.upper).all()


@pytest.mark.filterwarnings("ignore:Errors are no longer:UserWarning")
def test_what_was_met_is_saved_and_goes_on_after_loading(model, tmp_path):
    model.calibrate(*waves(slice(60, 90))).partial_fit(*waves(slice(90, 95)))
    model.observe(*waves(slice(95, 100))).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert str(loaded.monitor) == str(model.monitor)
    for one in (model, loaded):
        one.observe(*waves(slice(100, 110)))
    assert str(loaded.monitor) == str(model.monitor)
    for method in ("sample", "simultaneous"):
        bands = [one.predict_interval(WAVES[:5, :3], 0.2, method) for one in (model, loaded)]
        assert np.allclose(bands[0].upper, bands[1].upper, rtol=0, atol=1e-10)


def test_what_is_wrong_with_a_calibration_leaves_the_old_one(model):
    inputs, outputs = waves(slice(60, 90))
    before = model.calibrate(inputs, outputs).predict_interval(inputs).upper
    for wrong in (outputs[:5], outputs[:, :2], np.full_like(outputs, np.nan), None):
        with pytest.raises(ValueError, match=r"y|samples"):
            model.calibrate(inputs, wrong)
    assert np.array_equal(model.predict_interval(inputs).upper, before)


def test_warnings_point_at_the_line_of_the_user(model):
    model.calibrate(*waves(slice(60, 65)))
    far = [3 * part for part in waves(slice(70, 75))]
    for call in (
        lambda: model.predict(far[0]),
        lambda: model.predict_interval(WAVES[:5, :3], alpha=0.01),
        lambda: model.calibrate(*far),
        lambda: model.partial_fit(*far) if type(model) is PCARaNN else model.predict(far[0]),
    ):
        with pytest.warns(UserWarning, match="outside the training data|too few") as caught:
            call()
        assert {one.filename for one in caught} == {__file__}


def test_a_file_keeps_the_intervals(model, tmp_path):
    model.calibrate(*waves(slice(60, 90))).save(tmp_path / "m")
    inputs = waves(slice(90, 100))[0]
    again = load(tmp_path / "m")
    assert type(again) is type(model)
    assert np.array_equal(again.predict_interval(inputs).lower, model.predict_interval(inputs).lower)


def test_the_score_is_r_squared(model):
    inputs, outputs = waves(slice(60, 100))
    missed = ((model.predict(inputs) - outputs) ** 2).sum()
    assert np.isclose(model.score(inputs, outputs), 1 - missed / ((outputs - outputs.mean(axis=0)) ** 2).sum())
