import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged, load
from pcarann.metrics import coverage
from pcarann.uncertainty import fingerprints
from pcarann.uncertainty.fingerprints import Fingerprints, Recognised, too_narrow

POINTS = np.linspace(0, 1, 24)
SMALL = {"n_components": 5, "widths": (40, 20), "n_members": 1, "scales": "energy"}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def fields(count, seed=0):
    z = np.random.default_rng(seed).normal(size=(count, 5))
    a = sum(z[:, [k]] * np.sin((k + 1) * np.pi * POINTS) / (k + 1) for k in range(5))
    return a, np.tanh(2 * a) + np.cumsum(a, axis=1) / 10


def waves(count, seed=0, times=10):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 6, (count, 1)) + 0.3 * np.arange(times)
    return rng.uniform(0.5, 1.5, (count, 1, 1)) * np.cos(angle[:, :, None] + 6 * POINTS)


def surrogates():
    yield "latent", lambda: PCARaNN(**SMALL)
    yield "stages", lambda: Staged(n_stages=1, n_features=12, n_members=1, adaptable=True)


KINDS = dict(surrogates())
every_kind = pytest.mark.parametrize("kind", KINDS)


def count(learned, asked):
    return Fingerprints.of(*learned).recognised(*asked).number


@every_kind
def test_calibration_on_training_samples_warns_and_on_new_ones_does_not(kind):
    a, u = fields(150)
    model = KINDS[kind]().fit(a[:100], u[:100])
    model.calibrate(a[100:], u[100:])  # a warning is an error here
    with pytest.warns(UserWarning, match="trained on 40 of the 60 calibration samples: intervals from them are too"):
        model.calibrate(a[60:120], u[60:120])


def test_what_is_warned_of_is_a_coverage_far_below_its_level():
    a, u = fields(220)
    model = PCARaNN(n_components=(5, 20), widths=(200, 60), n_members=1, scales="energy").fit(a[:80], u[:80])
    with pytest.warns(UserWarning, match="trained on 80 of the 80"):
        model.calibrate(a[:80], u[:80])
    band = model.predict_interval(a[150:], 0.05)
    assert coverage(band.lower, band.upper, u[150:]) < 0.6


@every_kind
def test_copies_of_another_precision_order_and_number_are_recognised(kind, rng):
    a, u = fields(120)
    model = KINDS[kind]().fit(a[:100], u[:100])
    rows = rng.permutation(120)
    found = model.trained_on(a[rows].astype(np.float32), u[rows].astype(np.float32))
    assert np.array_equal(found, rows < 100)


@every_kind
def test_samples_that_were_learned_later_are_known_and_a_file_remembers_all(kind, tmp_path):
    a, u = fields(160)
    model = KINDS[kind]().fit(a[:100], u[:100]).partial_fit(a[100:130], u[100:130])
    model.save(tmp_path / "model.pcarann")
    for one in (model, load(tmp_path / "model.pcarann")):
        assert one.trained_on(a, u).tolist() == [True] * 130 + [False] * 30


@every_kind
def test_parts_and_holes_are_recognised(kind):
    a, u = fields(120)
    holes = np.where(np.arange(24) < 4, np.nan, u)
    inputs, outputs = {"a": a, "p": a[:, :1]}, {"u": holes, "v": u**2}
    split = [{name: part[rows] for name, part in side.items()} for rows in (slice(100), slice(90, 120))
             for side in (inputs, outputs)]  # fmt: skip
    model = KINDS[kind]().fit(*split[:2])
    assert model.trained_on(*split[2:]).tolist() == [True] * 10 + [False] * 20


@pytest.mark.parametrize("kind", KINDS)
def test_trajectories_are_recognised_those_that_only_chose_options_too(kind):
    flow = waves(40)
    model = Marching(KINDS[kind]()).fit(flow[:30, :3], flow[:30, 3:])
    assert model.trained_on(flow[:, :3], flow[:, 3:]).tolist() == [True] * 30 + [False] * 10
    model.calibrate(flow[30:, :3], flow[30:, 3:])
    with pytest.warns(UserWarning, match="trained on 20 of the 25 calibration trajectories"):
        model.calibrate(flow[10:35, :3], flow[10:35, 3:])


def test_other_windows_of_the_same_trajectories_are_recognised():
    flow = waves(40, times=12)
    model = Marching(PCARaNN(**SMALL), choose=False).fit(flow[:30, :3], flow[:30, 3:9])
    assert model.trained_on(flow[:30, 3:6], flow[:30, 6:12]).all()
    assert not model.trained_on(flow[30:, 3:6], flow[30:, 6:12]).any()


def test_trajectories_that_come_to_rest_are_told_by_how_they_move():
    times = np.exp(-4.0 * np.arange(12))[:, None]
    flow = np.random.default_rng(1).normal(size=(60, 1, 3)) * times
    pairs = [part.reshape(-1, 3) for part in (flow[:, :-1], flow[:, 1:])]
    learned = Fingerprints.of(*(part[: 40 * 11] for part in pairs))
    assert learned.recognised(*(part[40 * 11 :] for part in pairs)).by_group(11).number == 0
    assert learned.recognised(*(part[: 20 * 11] for part in pairs)).by_group(11).number == 20


def test_stages_of_older_files_stay_silent():
    a, u = fields(60)
    model = KINDS["stages"]().fit(a, u)
    model._publish(known=None)
    model.calibrate(a, u)
    assert not model.partial_fit(a, u).trained_on(a, u).any()


def test_a_score_of_training_samples_is_no_reason_to_warn():
    a, u = fields(60)
    assert PCARaNN(**SMALL).fit(a, u).score(a, u) > 0.9


@pytest.mark.parametrize(
    "pair",
    [
        lambda rng: (np.repeat(rng.normal(size=(50, 3)), 8, axis=0), rng.normal(size=(400, 2))),
        lambda rng: (np.ones((400, 3)), rng.normal(size=(400, 2))),
        lambda rng: (rng.normal(size=(400, 3)), np.full((400, 2), 7.0)),
        lambda rng: (np.zeros((400, 3)), np.zeros((400, 1))),
        lambda rng: (rng.integers(0, 3, (400, 3)).astype(float), rng.normal(size=(400, 1))),
        lambda rng: (rng.integers(0, 3, (400, 4)).astype(float), rng.integers(0, 6, (400, 1)).astype(float)),
        lambda rng: (1e6 + rng.normal(size=(400, 5)), 1e-6 * rng.normal(size=(400, 5))),
    ],
    ids=["repeated inputs", "constant inputs", "constant outputs", "all constant", "few values", "fewer", "far away"],
)
def test_new_samples_are_no_false_alarm(pair):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        inputs, outputs = pair(rng)
        rows = rng.permutation(400)
        first, second = ((inputs[some], outputs[some]) for some in (rows[:200], rows[200:]))
        assert count(first, second) == 0


@pytest.mark.parametrize("samples", [1000, 30_000])
def test_new_samples_of_one_parameter_are_no_false_alarm_and_known_ones_are_known(samples, rng):
    t = rng.uniform(size=(samples + 2000, 1))
    learned, new = ((part, np.sin(3 * part)) for part in (t[:samples], t[samples:]))
    assert count(learned, new) == 0
    assert count(learned, tuple(side[:500] for side in learned)) > 450


def test_both_sides_must_agree(rng):
    inputs, outputs = rng.normal(size=(100, 4)), rng.normal(size=(100, 3))
    assert count((inputs, outputs), (inputs, outputs)) == 100
    assert count((inputs, outputs), (inputs, outputs + 1e-4)) == 0
    assert count((inputs, outputs), (inputs + 1e-4, outputs)) == 0


def test_of_many_samples_some_are_remembered_evenly(monkeypatch, rng):
    monkeypatch.setattr(fingerprints, "_MOST", 100)
    inputs, outputs = rng.normal(size=(400, 4)), rng.normal(size=(400, 3))
    known = Fingerprints.of(inputs[:200], outputs[:200]).joined(Fingerprints.of(inputs[200:], outputs[200:]))
    found = known.recognised(inputs, outputs).learned
    assert found.sum() == 100
    assert 20 < found[:200].sum() < 80


def test_the_sentence_gives_both_numbers_and_nothing_is_said_of_what_is_new():
    found = Recognised(np.arange(10) < 7, np.zeros(10, dtype=bool), 0.1)
    assert "trained on 7 of the 10 calibration samples" in too_narrow(found, "calibration samples")[0]
    assert too_narrow(Recognised.unknown(10), "calibration samples") == []


def test_torch_leaves_the_same_numbers(rng):
    torch = pytest.importorskip("torch")
    inputs, outputs = rng.normal(size=(30, 40)), rng.normal(size=(30, 7))
    found = Fingerprints.of(torch.asarray(inputs), torch.asarray(outputs)).numbers
    assert np.allclose(found, Fingerprints.of(inputs, outputs).numbers, atol=1e-12)
