"""Times and points of labelled trajectories: what goes together is taken, everything else raises ValueError."""

import numpy as np
import pytest
from flows import POINTS, waves

from pcarann import Marching, PCARaNN, Staged, load

xr = pytest.importorskip("xarray")
SMALL = {"n_components": 2, "widths": (20, 10), "n_members": 2}
TIMES = 0.1 * np.arange(10)
DATES = np.datetime64("2026-01-31T23:00") + np.arange(10) * np.timedelta64(600, "s")


def labelled(times=TIMES, n=40, *, points=POINTS, seed=0):
    """Waves with coordinates of time and space."""
    return xr.DataArray(waves(n, seed=seed), dims=("run", "t", "x"), coords={"t": times, "x": points})


def fitted(u, given=3, **options):
    return Marching(PCARaNN(**SMALL), choose=False, **options).fit(u[:30, :given], u[:30, given:])


@pytest.fixture(scope="module")
def model():
    return fitted(labelled())


@pytest.mark.parametrize(
    "times",
    [TIMES, TIMES.astype(np.float32) + np.float32(100), np.arange(10), -TIMES, DATES, DATES - DATES[0],
     np.round(np.arange(10) / 3, 3)],
    ids=["floats", "single", "whole", "backward", "dates", "durations", "rounded"],
)  # fmt: skip
def test_evenly_spaced_times_of_any_kind_are_taken(times):
    u = labelled(times)
    model = fitted(u)
    assert np.array_equal(model.predict(u[30:, 2:5]), model.predict(u.values[30:, 2:5]))


GAP = np.where(np.arange(10) > 5, TIMES + 1, TIMES)


@pytest.mark.parametrize(
    ("times", "at"),
    [(GAP, "y along 't' .* after 0.5 comes 1.6"), (TIMES**1.5, "X along 't'"), (TIMES[[0, 2, 1, *range(3, 10)]], "'t'"),
     (np.repeat(TIMES[:5], 2), "'t'"), (np.where(TIMES > 0.8, np.nan, TIMES), "finite"),
     (DATES[[0, 1, 2, 3, 4, 5, 6, 7, 9, 9]], "y along 't'")],
    ids=["gap", "stretched", "unsorted", "repeated", "nan", "dates"],
)  # fmt: skip
def test_uneven_times_are_refused_where_they_are(times, at):
    with pytest.raises(ValueError, match=at):
        fitted(labelled(times))


def test_early_times_that_are_not_learned_may_be_uneven():
    times = np.concatenate([[-5.0, -1.0], TIMES[2:]])
    model = fitted(labelled(times), first=2)
    assert model.predict(labelled(times)[30:, :4]).shape == (10, 7, 16)


@pytest.mark.parametrize("start", [2, 4], ids=["overlap", "gap"])
def test_outputs_must_begin_one_interval_after_the_inputs(model, start):
    u = labelled()
    with pytest.raises(ValueError, match="y must begin one interval after X"):
        Marching(PCARaNN(**SMALL)).fit(u[:30, :3], u[:30, start:])
    plain = Marching(PCARaNN(**SMALL), choose=False).fit(u.values[:30, :3], u.values[:30, 3:])
    for one in (model, plain):
        for call in (one.calibrate, one.partial_fit, one.observe, one.score):
            with pytest.raises(ValueError, match="y must begin one interval after X"):
                call(u[30:, :3], u[30:, start:])


@pytest.mark.parametrize("kind", ["memory", "lazy", "file"])
def test_another_interval_is_refused_by_every_method(model, kind, tmp_path):
    u, slow = labelled(), labelled(2 * TIMES)
    if kind == "file":
        model.save(tmp_path / "flow")
        model = load(tmp_path / "flow")
    if kind == "lazy":
        pytest.importorskip("dask")
        slow = slow.chunk({"run": 5})
    X, y = slow[30:, :3], slow[30:, 3:]
    calls = [lambda: model.predict(X), lambda: model.novelty(X), lambda: model.calibrate(X, y)]
    calls += [lambda: model.partial_fit(X, y), lambda: model.observe(X, y), lambda: model.score(X, y)]
    for call in calls:
        with pytest.raises(ValueError, match=r"0\.2 apart along 't', but the model was fitted to snapshots 0\.1 apart"):
            call()
    assert model.predict(u[30:, :3]).shape == (10, 7, 16)
    assert model.predict(slow.values[30:, :3]).shape == (10, 7, 16)


def test_dates_and_numbers_are_not_compared(model):
    with pytest.raises(ValueError, match="dates"):
        model.predict(labelled(DATES)[30:, :3])
    u = labelled()
    with pytest.raises(ValueError, match="different kinds"):
        Marching(PCARaNN(**SMALL)).fit(labelled(DATES)[:30, :3], u[:30, 3:])


def test_other_points_samples_and_dimensions_are_refused(model):
    u = labelled()
    moved = labelled(points=POINTS + 1)
    for call in (lambda: model.predict(moved[30:, :3]), lambda: fitted(u).calibrate(u[30:, :3], moved[30:, 3:])):
        with pytest.raises(ValueError, match="coordinates"):
            call()
    with pytest.raises(ValueError, match="transpose"):
        model.score(u[30:, :3], u[30:, 3:].transpose("run", "x", "t"))
    with pytest.raises(ValueError, match="dimensions"):
        model.predict(u[30:, :3].rename(x="z"))
    named = u.assign_coords(run=np.arange(40))
    with pytest.raises(ValueError, match="samples"):
        model.score(named[30:, :3], named[30:, 3:][::-1])


def test_a_step_that_sees_space_needs_even_points():
    u = labelled(points=np.linspace(0, 1, 16) ** 2)
    stages = Staged(n_features=10, n_members=1, n_stages=1)
    with pytest.raises(ValueError, match="along 'x' are not evenly spaced"):
        Marching(stages).fit(u[:30, :3], u[:30, 3:])


def test_a_flow_on_another_grid_keeps_its_interval(model):
    moved = model.on((31,))
    fine = xr.DataArray(np.ones((2, 3, 31)), dims=("run", "t", "x"), coords={"t": 2 * TIMES[:3]})
    with pytest.raises(ValueError, match="apart along 't'"):
        moved.predict(fine)
