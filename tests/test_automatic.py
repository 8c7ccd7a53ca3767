import math
import time
import warnings

import numpy as np
import pytest

import pcarann
from pcarann import PCARaNN, Staged, Symmetry, load
from pcarann.metrics import relative_l2

BUDGET = 15.0


def circle(n, seed=0, points=24):
    """Waves up to the eighth on a circle in, a local response with a direction out."""
    rng = np.random.default_rng(seed)
    x = 2 * np.pi * np.arange(points) / points
    a = sum(rng.normal(size=(n, 1)) * np.cos(k * x + rng.uniform(0, 6, (n, 1))) for k in range(1, 9)) / 3
    return a, np.tanh(a - np.roll(a, 1, axis=1))


def scattered(n, seed=0, points=24):
    """Two amplitudes of fixed rough fields in, smooth functions of them on other rough fields out: nothing is local."""
    rng = np.random.default_rng(5)
    fields, modes = rng.normal(size=(2, points)), rng.normal(size=(4, points))
    z = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return z @ fields, np.stack([z[:, 0] ** 2, np.sin(3 * z[:, 1]), z[:, 0] * z[:, 1], np.exp(z[:, 0])], axis=1) @ modes


@pytest.fixture(scope="module", autouse=True)
def a_clock_of_its_own():
    """Budgets are seconds of this process, so that others on the machine do not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", time.process_time)
        yield


@pytest.fixture(scope="module")
def local(a_clock_of_its_own):
    return pcarann.auto(*circle(60), budget=BUDGET)


def test_stages_win_where_the_response_is_local(local):
    assert isinstance(local, Staged)
    a, u = circle(50, seed=1)
    latent = PCARaNN.auto(*circle(60), budget=3)
    assert relative_l2(local.predict(a), u) < 0.5 * relative_l2(latent.predict(a), u)


def test_the_report_says_what_was_tried_on_both_sides_and_why(local):
    report, text = local.auto_report_, str(local.auto_report_)
    assert report.winner == "stages"
    assert text.startswith("Stages: error ")
    assert f"{report.error:.3g}" in text.splitlines()[0]
    assert report.error == local.stages_.steps[-1].error
    assert "Stages that were tried:" in text
    assert "a first look, a kernel on their latents has" in text
    assert "Latent models:" in text
    assert "settings tried in" in text
    assert str(local.stages_).splitlines()[0] in text
    assert report.seconds > 0


def test_another_fit_forgets_the_report(local, tmp_path):
    local.save(tmp_path / "model")
    again = load(tmp_path / "model")
    a = circle(5, seed=1)[0]
    assert np.array_equal(again.predict(a), local.predict(a))
    again.auto_report_ = local.auto_report_
    assert not hasattr(again.set_params(n_stages=1, n_features=5).fit(*circle(20)), "auto_report_")


def test_a_latent_model_wins_where_nothing_is_local():
    model = pcarann.auto(*scattered(60), budget=BUDGET)
    assert isinstance(model, PCARaNN)
    assert model.auto_report_.winner == "latent"
    assert str(model.auto_report_).startswith("A latent model: ")
    a, u = scattered(50, seed=1)
    assert relative_l2(model.predict(a), u) < 0.05


def test_a_table_is_left_to_latent_models():
    table = np.random.default_rng(0).uniform(size=(40, 3))
    model = pcarann.auto(table, np.sin(table @ np.ones((3, 12))), budget=2)
    assert isinstance(model, PCARaNN)
    assert "nothing to see in space" in str(model.auto_report_)
    assert not model.auto_report_.stages


def test_numbers_as_outputs_are_left_to_latent_models():
    a = circle(40)[0]
    assert pcarann.auto(a, a[:, 0] ** 2, budget=2).predict(a).shape == (40,)


def test_a_budget_below_everything_still_gives_a_model():
    a, u = circle(40)
    model = pcarann.auto(a, u, budget=1e-3)
    assert model.predict(a).shape == u.shape
    assert model.auto_report_.stopped
    assert "would take" in str(model.auto_report_)


def test_a_symmetry_that_the_problem_lacks_is_tried_and_not_used():
    model = pcarann.auto(*circle(40), budget=BUDGET, symmetry=Symmetry.reflection(-1))
    assert isinstance(model, Staged)
    assert model.symmetry is None
    assert "symmetry by 2 elements" in str(model.auto_report_)


@pytest.mark.filterwarnings("ignore:.* outside the range of the training data")  # of those that were fitted
def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    a, u = (torch.asarray(part) for part in circle(40))
    model = pcarann.auto(a, u, budget=2, device="cpu")
    assert isinstance(model.predict(a), torch.Tensor)
    assert math.isfinite(float(((model.predict(a) - u) ** 2).mean()))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"budget": 0.0}, "budget"),
        ({"X": np.ones((5, 24)), "y": np.ones((5, 24))}, "10"),
        ({"y": np.ones((59, 24))}, "59"),
    ],
)
def test_mistakes_are_named(arguments, says):
    given = dict(zip(("X", "y"), circle(60), strict=True)) | arguments
    with pytest.raises(ValueError, match=says):
        pcarann.auto(given.pop("X"), given.pop("y"), **given)


def hidden_band(samples, seed=0):
    """Fields of 48 modes, of which four, neither the largest nor the smoothest, make the output."""
    rng, k, points = np.random.default_rng(seed), np.arange(1, 25), np.arange(64) / 64
    modes = np.concatenate([np.cos(2 * np.pi * k[:, None] * points), np.sin(2 * np.pi * k[:, None] * points)])
    relevant = np.tile((k == 5) | (k == 6), 2)
    c = rng.normal(size=(samples, 48))
    return c * np.where(relevant, 1.0, 0.3) @ modes, np.tanh(c * relevant @ modes)


def test_stages_on_a_latent_model_with_a_learned_metric_do_not_end_the_call():
    found = pcarann.auto(*hidden_band(40), budget=10.0)
    assert found.auto_report_.latent.choice.steps > 0
    assert "on the latent model" in str(found.auto_report_)
    assert not found.auto_report_.failed


def failing(monkeypatch, kind, error, when=lambda model: True):
    """Let fits of models of a kind raise an error."""
    fit = kind.fit

    def broken(self, *args, **options):
        if when(self):
            raise error
        return fit(self, *args, **options)

    monkeypatch.setattr(kind, "fit", broken)


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("SVD did not converge"), MemoryError()])
def test_stages_that_fail_are_left_out_and_named(monkeypatch, error):
    failing(monkeypatch, Staged, error)
    found = pcarann.auto(*circle(30), budget=3.0)
    assert isinstance(found, PCARaNN)
    (_, why), *_ = found.auto_report_.failed
    assert why.startswith(type(error).__name__)
    assert why in str(found.auto_report_)


def test_latent_candidates_that_fail_are_left_out_and_named(monkeypatch):
    failing(monkeypatch, PCARaNN, RuntimeError("no kernel today"), lambda model: model.regressor != "random")
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    found = PCARaNN.auto(X, np.sin(3 * X[:, :1]) * np.linspace(0, 1, 5), budget=3.0)
    assert found.regressor == "random"
    assert any(why == "RuntimeError: no kernel today" for _, why in found.auto_report_.failed)


def test_the_estimator_as_it_comes_is_fitted_where_every_candidate_fails(monkeypatch):
    calls = []

    def all_but_the_last(model):
        calls.append(model)
        return len(calls) <= most

    X = np.random.default_rng(0).uniform(-1, 1, (12, 2))
    y = X * [1.0, 2.0]
    most = math.inf
    with monkeypatch.context() as patch:
        failing(patch, PCARaNN, RuntimeError("broken"), all_but_the_last)
        with pytest.raises(RuntimeError, match="broken"):
            pcarann.auto(X, y, budget=2.0)
    most, calls[:] = len(calls) - 1, []
    failing(monkeypatch, PCARaNN, RuntimeError("broken"), all_but_the_last)
    found = pcarann.auto(X, y, budget=2.0)
    assert found.get_params()["regressor"] == PCARaNN().regressor
    assert found.predict(X).shape == y.shape


def test_an_interrupt_ends_the_call(monkeypatch):
    failing(monkeypatch, PCARaNN, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pcarann.auto(*circle(12), budget=2.0)


@pytest.mark.parametrize("make", [circle, scattered])
def test_the_fit_report_of_the_winner_holds_on_new_samples_though_all_were_repeated(make):
    X, y = make(24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pcarann.auto(np.concatenate([X, X]), np.concatenate([y, y]), budget=4.0)
        inputs, truth = make(200, seed=1)
        real = relative_l2(found.predict(inputs), truth)
    report = found.fit_report_
    assert report.relative_error > 0.5 * real
    assert report.distinct == 24
    assert str(report) in str(found.auto_report_)
