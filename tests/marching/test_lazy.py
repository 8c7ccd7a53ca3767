import warnings
from copy import deepcopy

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import Marching, PCARaNN, Staged
from pcarann.cli import main
from pcarann.marching.lazy import _furthest
from pcarann.marching.watch import Reach
from pcarann.scale import calibration, limited

ANGLE = np.random.default_rng(0).uniform(0, 6, (40, 1)) + 0.5 * np.arange(8)
WAVE = np.cos(ANGLE[:, :, None] + np.linspace(0, 6, 72)).reshape(40, 8, 8, 9)
STEP = PCARaNN(n_components=2, widths=(20, 10), n_members=2, ridge=1e-8, scales="energy")


def lazily(array, samples, space=8):
    return da.from_array(array, chunks=(samples, 3, space, 9))


def test_masked_snapshots_in_memory_beside_lazy_ones_are_refused():
    with pytest.raises(ValueError, match="y is a masked array: fill or drop"):
        Marching(STEP).fit(lazily(WAVE[:, :4], 7), np.ma.masked_greater(WAVE[:, 4:], 0.9))


@pytest.mark.parametrize(("model", "within"), [(STEP, 1e-7), (Staged(n_features=4, n_stages=1, n_members=1), 1e-9)])
def test_a_flow_of_lazy_trajectories_is_that_in_memory(model, within):
    known = Marching(model).fit(WAVE[:, :4], WAVE[:, 4:])
    with limited("40MB"):
        found = Marching(model).fit(lazily(WAVE[:, :4], 7), lazily(WAVE[:, 4:], 12, 3))
    assert np.abs(found.predict(WAVE[:, :4]) - known.predict(WAVE[:, :4])).max() < within
    assert found.rollout_report_.chosen == known.rollout_report_.chosen
    assert found.rollout_report_.error == pytest.approx(known.rollout_report_.error, abs=1e-6)
    reached, wanted = found.marched_.reach, known.marched_.reach
    assert (reached.largest, reached.norm) == pytest.approx((wanted.largest, wanted.norm), rel=1e-12)


def test_lazy_trajectories_that_cannot_be_learned_are_refused():
    X, y = lazily(WAVE[:, :4], 7), lazily(WAVE[:, 4:], 7)
    with pytest.raises(ValueError, match="without controls"):
        Marching(STEP).fit(X, y, controls=np.ones((40, 7, 1)))
    with pytest.raises(ValueError, match=r"of shape \(samples, times, \*grid\), found \(40, 4\)"):
        Marching(STEP).fit(X[:, :, 0, 0], y)
    with pytest.raises(ValueError, match="on the same grid"):
        Marching(STEP).fit(X, y[:, :, :3])


X, Y = WAVE[:, :4], WAVE[:, 4:]
CONTROLS = np.diff(ANGLE, axis=1)[:, :, None] + 0.01 * np.random.default_rng(1).normal(size=(40, 7, 1))


def flow(model=STEP, **controls):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Marching(model, choose=False).fit(X[:20], Y[:20], **{k: v[:20] for k, v in controls.items()})


@pytest.fixture(scope="module")
def marching():
    return flow()


def agree(found, known, within=1e-9):
    for name in ("mean", "std", "lower", "upper"):
        one, wanted = getattr(found, name).compute(), getattr(known, name)
        assert np.abs(one - wanted).max() <= within * np.abs(wanted).max()


@pytest.mark.parametrize("samples", [7, 40])
def test_a_flow_does_with_lazy_snapshots_what_it_does_in_memory(marching, samples):
    known, found = deepcopy(marching).calibrate(X[20:], Y[20:]), deepcopy(marching)
    x, y = lazily(X, samples), lazily(Y, 12, 3)
    with limited("40MB"):
        found.calibrate(x[20:], y[20:])
    mean, std = found.predict(x, return_std=True, steps=6)
    assert isinstance(mean, da.Array)
    for one, wanted in zip((mean, std), known.predict(X, return_std=True, steps=6), strict=True):
        assert np.abs(one.compute() - wanted).max() < 1e-9
    for method in ("sample", "simultaneous", "local"):
        agree(found.predict_interval(x, 0.2, method), known.predict_interval(X, 0.2, method))
    agree(found.predict_interval(x, 0.2, steps=2), known.predict_interval(X, 0.2, steps=2))
    assert found.score(x, y[:, :3]) == pytest.approx(known.score(X, Y[:, :3]), abs=1e-10)
    seen, wanted = found.novelty(x, steps=3), known.novelty(X, steps=3)
    assert np.abs(seen.p_value - wanted.p_value).max() < 1e-9
    assert seen.reasons == wanted.reasons
    assert str(found.monitor) == str(known.monitor)


def test_controls_in_memory_or_lazy_are_cut_as_lazy_samples_are():
    known = flow(controls=CONTROLS)
    found = deepcopy(known)
    known.calibrate(X[20:], Y[20:], controls=CONTROLS[20:])
    with limited("40MB"):
        found.calibrate(lazily(X[20:], 7), lazily(Y[20:], 7), controls=CONTROLS[20:])
    x, wanted = lazily(X, 7), known.predict(X, controls=CONTROLS)
    for controls in (CONTROLS, da.from_array(CONTROLS, chunks=9)):
        assert np.abs(found.predict(x, controls=controls).compute() - wanted).max() < 1e-9
    agree(found.predict_interval(x, controls=CONTROLS), known.predict_interval(X, controls=CONTROLS))
    for one, pair in ((known, (X, Y)), (found, (x, lazily(Y, 9)))):
        with pytest.warns(UserWarning, match="trained on 20 of these 40"):
            one.partial_fit(*pair, controls=CONTROLS)
    assert np.abs(found.predict(X, controls=CONTROLS) - known.predict(X, controls=CONTROLS)).max() < 1e-7
    with pytest.raises(ValueError, match=r"controls must be \(40, 1\).* found \(39, 7, 1\)"):
        found.predict(x, controls=CONTROLS[1:])


def test_training_trajectories_among_lazy_ones_are_said(marching):
    with limited("40MB"), pytest.warns(UserWarning, match="trained on 5 of the 25 calibration trajectories"):
        deepcopy(marching).calibrate(lazily(X[15:], 7), lazily(Y[15:], 9))


def test_scores_of_roll_outs_that_do_not_fit_are_counted_at_each_step(marching):
    known, found = deepcopy(marching).calibrate(X[20:], Y[20:]), deepcopy(marching)
    with limited("120kB"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.calibrate(lazily(X[20:], 1), lazily(Y[20:], 1))
    for alpha in (0.1, 0.3):
        one, wanted = (model.marched_.calibration.factor(alpha, "sample", 4 * 72) for model in (found, known))
        assert ((wanted <= one) & (one <= wanted * (1 + 5e-4))).all()


@pytest.mark.parametrize("method", ["observe", "partial_fit"])
def test_a_flow_meets_lazy_streams_in_their_order(marching, monkeypatch, method):
    monkeypatch.setattr(calibration, "_STREAM_ROWS", 5)
    known, found = (deepcopy(marching).calibrate(X[20:30], Y[20:30]) for _ in range(2))
    for start in (30, 35):
        getattr(known, method)(X[start : start + 5], Y[start : start + 5])
    getattr(found, method)(lazily(X[30:], 3), lazily(Y[30:], 7))
    assert np.abs(found.predict(X) - known.predict(X)).max() < 1e-8
    assert str(found.monitor) == str(known.monitor)


def test_a_flow_whose_lazy_stream_breaks_stays_as_it_was(marching):
    found, bad = deepcopy(marching), Y.copy()
    before, bad[33] = found.marched_, np.nan
    for change in (found.partial_fit, found.observe, found.calibrate):
        with pytest.raises(ValueError, match="y contains NaN or infinity in sample 33"):
            change(lazily(X, 7), lazily(bad, 9))
    assert found.marched_ is before


def test_lazy_snapshots_of_other_shapes_are_refused_at_the_call(marching):
    with pytest.raises(ValueError, match=r"fields of shape \(8, 8\), but Marching is expecting \(8, 9\)"):
        marching.predict(lazily(X, 7)[..., 1:])
    with pytest.raises(ValueError, match=r"of shape \(samples, times, \*grid\), found \(40, 4\)"):
        marching.predict(lazily(X, 7)[:, :, 0, 0])
    with pytest.raises(ValueError, match="a calibration needs them all"):
        marching.calibrate(lazily(X, 7), lazily(Y, 7)[:, :2])
    with pytest.raises(ValueError, match="has no calibration"):
        marching.predict_interval(lazily(X, 7))


def test_roll_outs_are_written_by_blocks(tmp_path):
    zarr, model, path = pytest.importorskip("zarr"), tmp_path / "flow.pcarann", tmp_path / "out.zarr"
    known = flow()
    known.save(model)
    np.save(tmp_path / "x.npy", X)
    command = ["predict", str(model), str(tmp_path / "x.npy"), "-o", str(path), "--steps", "6", "--memory", "40MB"]
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 0, found.output
    assert np.abs(zarr.open_group(path, mode="r")["mean"][:] - known.predict(X, steps=6)).max() < 1e-9


def test_the_reach_of_blocks_together_is_that_of_all_snapshots():
    fields = np.random.default_rng(0).normal(size=(12, 3))
    parts = [Reach.of(fields[i : i + 4], 2) for i in (0, 4, 8)]
    assert _furthest(parts) == Reach.of(fields, 2)
