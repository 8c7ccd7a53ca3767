import numpy as np
import pytest
from flows import steered
from sklearn.base import clone

from pcarann import Fields, Marching, PCARaNN, load
from pcarann.backend.arrays import place_of
from pcarann.marching.controls import as_channels, checked_controls, reading_channels
from pcarann.metrics import relative_l2

HERE = place_of(np.empty(0))
STEP = PCARaNN(n_components=2, widths=(60, 30), n_members=2, scales=("gain", 0.5, 0.5))


def test_constant_controls_are_the_same_at_every_departure():
    found = checked_controls([[1, 2], [3, 4]], HERE, samples=2, departures=3)
    assert np.array_equal(found, [[[1, 2]] * 3, [[3, 4]] * 3])


def test_channels_hold_the_state_first_and_one_number_each_behind_it():
    found = as_channels(np.ones((2, 2, 3)), np.array([[5.0], [6.0]]))
    assert found.shape == (2, 2, 2, 3)
    assert np.array_equal(found[:, 0], np.ones((2, 2, 3)))
    assert np.array_equal(found[:, 1], [np.full((2, 3), 5.0), np.full((2, 3), 6.0)])


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        (None, 2, r"^This model was fitted with 2 controls a step: hand them over as controls=…\.$"),
        (np.ones((4, 1)), 0, r"^controls were handed over, but this model was fitted without any\.$"),
        (np.ones((3, 1)), None, r"^controls must be \(4, p\), .* or \(4, 6, p\), .*, found \(3, 1\)\.$"),
        (np.ones((4, 5, 1)), None, r"found \(4, 5, 1\)\.$"),
        (np.ones(4), None, r"found \(4,\)\.$"),
        (np.ones((4, 3)), 2, r"^controls must be \(4, 2\), .* or \(4, 6, 2\), .*, found \(4, 3\)\.$"),
        (np.full((4, 1), np.nan), None, r"^controls contains NaN"),
    ],
    ids=["missing", "none in the fit", "samples", "times", "one axis", "too many", "nan"],
)
def test_controls_that_do_not_fit_get_one_sentence(value, wanted, message):
    with pytest.raises(ValueError, match=message):
        checked_controls(value, HERE, samples=4, departures=6, wanted=wanted)


def test_a_model_is_set_to_read_channels_where_the_user_has_not():
    model = reading_channels(PCARaNN())
    assert (model.fields.channels, model.relevance) == (True, "channels")
    own = reading_channels(PCARaNN(fields=Fields(smoothing=0.1), relevance=-0.5))
    assert (own.fields.channels, own.fields.smoothing, own.relevance) == (True, 0.1, -0.5)


@pytest.fixture(scope="module", params=[True, False], ids=["steady", "every step"])
def flow(request):
    fields, controls = steered(90, steady=request.param)
    controls = controls[:, 0] if request.param else controls
    return fields, controls, Marching(STEP).fit(fields[:60, :1], fields[:60, 1:], controls=controls[:60])


def test_a_flow_follows_its_controls_which_nothing_else_tells(flow):
    fields, controls, model = flow
    found = model.predict(fields[60:, :1], controls=controls[60:])
    assert relative_l2(found, fields[60:, 1:]) < 0.02
    alone = Marching(clone(STEP).set_params(ridge=1e-2), choose=False).fit(fields[:60, :1], fields[:60, 1:])
    assert relative_l2(alone.predict(fields[60:, :1]), fields[60:, 1:]) > 0.2
    assert model.score(fields[60:, :1], fields[60:, 1:], controls=controls[60:]) > 0.999


def test_every_method_takes_controls_and_files_keep_them(flow, tmp_path):
    fields, controls, model = flow
    late = slice(60, 90)
    model.calibrate(fields[late, :1], fields[late, 1:], controls=controls[late]).save(tmp_path / "m")
    again = load(tmp_path / "m")
    first, second = (one.predict_interval(fields[late, :1], 0.2, controls=controls[late]) for one in (model, again))
    assert np.array_equal(first.lower, second.lower)
    assert again.novelty(fields[late, :1], controls=controls[late]).p_value.shape == (30, 7)
    again.partial_fit(fields[late, :1], fields[late, 1:], controls[late])
    assert again.predict_parts(fields[late, :1], controls=controls[late]).mean.shape == (30, 7, 16)
    with pytest.raises(ValueError, match=r"fitted with 1 controls"):
        again.predict(fields[late, :1])


def test_rows_of_controls_count_from_the_first_snapshot_given():
    fields, controls = steered(60)
    model = Marching(STEP, choose=False).fit(fields[:, :3], fields[:, 3:], controls=controls)
    whole = model.predict(fields[:5, :3], controls=controls[:5])
    assert np.array_equal(model.predict(fields[:5, 2:3], controls=controls[:5, 2:]), whole)
    assert np.array_equal(model.predict(fields[:5, :3], controls=controls[:5, :4], steps=2), whole[:, :2])


def test_controls_outside_those_of_the_fit_are_reported(flow):
    fields, controls, model = flow
    with pytest.warns(UserWarning, match=r"^At step 1 of 7 of the roll-out: \d+ of 30 inputs lie outside"):
        model.predict(fields[60:, :1], controls=5 + controls[60:])


def test_tensors_are_marched_under_controls_as_arrays_are(torch_computes):
    torch = pytest.importorskip("torch")
    fields, controls = (torch.as_tensor(part.copy()) for part in steered(40))
    model = Marching(STEP).fit(fields[:30, :1], fields[:30, 1:], controls=controls[:30])
    late = (fields[30:, :1], fields[30:, 1:])
    band = model.calibrate(*late, controls=controls[30:]).predict_interval(late[0], 0.2, controls=controls[30:])
    assert isinstance(band.upper, torch.Tensor)
    assert model.novelty(late[0], controls=controls[30:]).p_value.shape == (10, 7)
    host = Marching(STEP).fit(*(part[:30].numpy() for part in (fields[:, :1], fields[:, 1:], controls)))
    found = host.predict(late[0].numpy(), controls=controls[30:].numpy())
    assert np.allclose(band.mean.numpy(), found, rtol=0, atol=1e-6)
