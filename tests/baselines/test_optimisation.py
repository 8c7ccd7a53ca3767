"""The shared training: loss, schedule, budget, checkpoints, seeds; what each network has in common."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from pcarann.baselines import METHODS, ON_CPU, PROBLEMS, baseline
from pcarann.baselines.deeponet import DeepONet
from pcarann.baselines.fields import Gaussian, split
from pcarann.baselines.fno import FNO
from pcarann.baselines.optimisation import Samples, one_cycle, relative_errors
from pcarann.baselines.pca_nn import PCANN
from pcarann.metrics import relative_l2

# (input grid, output grid): the layouts of the four problems on small grids
LAYOUTS = {
    "burgers": ((17,), (13, 17)),
    "darcy": ((13, 13), (13, 13)),
    "navier_stokes": ((3, 12, 12), (4, 12, 12)),
    "backward_heat": ((12, 12), (5, 12, 12)),
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny networks lose more to waiting than they gain; the number of threads of others is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fields(n, grid, seed=0):
    """Smooth random fields of size 1: a few waves along the last axes, and a factor of the first."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 1, size) for size in grid), indexing="ij")
    total = np.zeros((n, *grid))
    for k in (1, 2):
        phase = sum(k * np.pi * (j + 1) * axis / len(grid) for j, axis in enumerate(axes))
        total += np.multiply.outer(rng.normal(size=n), np.sin(phase)) + np.multiply.outer(
            rng.normal(size=n), np.cos(phase)
        )
    return 2.0 + total


def small(kind, **settings):
    tiny = {
        FNO: {"modes": (3, 3), "width": 8, "layers": 2, "projection": 16, "rate": 1e-2, "batch": 4},
        DeepONet: {"widths": (32,), "trunk": (32, 32), "basis": 16, "rate": 1e-2, "batch": 4},
        PCANN: {"n_components": 0.9999, "widths": (64, 64), "rate": 5e-3, "batch": 4},
    }[kind]
    return kind(**{**tiny, "epochs": 10, "device": "cpu", **settings})


NETWORKS = [FNO, DeepONet, PCANN]


@pytest.mark.parametrize(("kind", "epochs"), [(FNO, 150), (DeepONet, 500), (PCANN, 200)])
def test_each_network_learns_eight_samples_by_heart(kind, epochs):
    a = fields(8, (10, 10))
    u = np.tanh(a) * a[:, ::-1]
    model = small(kind, epochs=epochs, validation=0.0).fit(a, u)
    # The best that ignores the input is the mean field, far above.
    assert relative_l2(model.predict(a), u) < 0.03 < 0.3 < relative_l2(np.broadcast_to(u.mean(axis=0), u.shape), u)
    assert model.history[-1]["validation_error"] is None


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_layout_of_every_problem(problem, method):
    input_grid, output_grid = LAYOUTS[problem]
    a, u = fields(20, input_grid), fields(20, output_grid, seed=1)
    model = baseline(problem, method, device="cpu", quick=True)
    assert model.fit(a, u).predict(a[:3]).shape == (3, *output_grid)
    assert model.seconds > 0
    assert model.n_parameters > 0
    assert model.device == "cpu"
    assert (len(model.history) > 0) == (method not in ON_CPU)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_the_full_architectures_can_be_made(problem, method):
    assert baseline(problem, method, device="cpu").seed == 0


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_same_seed_gives_the_same_model_and_another_seed_another(kind):
    a = fields(12, (10, 10))
    first, same, other = (small(kind, seed=seed, epochs=3).fit(a, a**2).predict(a) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert abs(first - other).max() > 1e-6


def test_fitting_leaves_the_global_generator_of_torch_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    small(FNO, epochs=1).fit(fields(6, (8, 8)), fields(6, (8, 8)))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("kind", NETWORKS)
def test_predicting_before_fitting_is_refused(kind):
    with pytest.raises(NotFittedError, match="call fit"):
        small(kind).predict(fields(2, (10, 10)))


@pytest.mark.parametrize("kind", NETWORKS)
def test_not_a_number_and_wrong_shapes_are_refused(kind):
    a = fields(6, (10, 10))
    broken = a.copy()
    broken[4, 0, 0] = np.nan
    with pytest.raises(ValueError, match="inputs contains NaN or infinity: 1 value"):
        small(kind).fit(broken, a)
    with pytest.raises(ValueError, match="same number of samples, found 6 and 5"):
        small(kind).fit(a, a[:5])
    model = small(kind, epochs=1).fit(a, a)
    with pytest.raises(ValueError, match="inputs contains NaN"):
        model.predict(broken)
    with pytest.raises(ValueError, match=r"\(10,\)"):
        model.predict(a[:, 0])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"rate": 0.0}, "rate must be a number above 0"),
        ({"decay": -1.0}, "decay must be a number at least 0"),
        ({"validation": 1.0}, "validation must be"),
    ],
)
def test_settings_out_of_range_are_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        small(FNO, **settings)


def test_the_loss_is_the_relative_error_of_the_metrics():
    rng = np.random.default_rng(0)
    found, truth = rng.normal(size=(2, 5, 3, 4))
    sizes = np.linalg.norm(truth.reshape(5, -1), axis=1)
    samples = Samples(None, *(torch.as_tensor(part) for part in (truth, np.zeros(5), sizes)))
    expected = relative_l2(found, truth, per_sample=True)
    np.testing.assert_allclose(relative_errors(torch.as_tensor(found), samples), expected, rtol=1e-10)


def test_the_last_validation_error_is_that_of_the_fields_also_for_latents():
    a = fields(20, (10, 10))
    u = np.abs(a - 2.5)  # kinks: a basis of a few modes misses a part, which has to count
    for kind in NETWORKS:
        model = small(kind, epochs=4, n_components=(3, 3)) if kind is PCANN else small(kind, epochs=4)
        model.fit(a, u)
        _, held = split(20, model.validation, model.seed)
        best = min(point["validation_error"] for point in model.history)
        # float32 of fields of size 1
        assert relative_l2(model.predict(a[held]), u[held]) == pytest.approx(best, rel=1e-4)


def test_the_rate_rises_and_falls_without_a_jump():
    rates = [one_cycle(share) for share in np.linspace(0, 1, 1001)]
    assert max(rates) == pytest.approx(1.0)
    assert np.argmax(rates) == 300
    assert rates[0] == pytest.approx(1 / 25)
    assert rates[-1] == pytest.approx(1e-4)
    assert np.abs(np.diff(rates)).max() < 0.01


def test_history_has_a_few_dozen_points_and_grows_in_time():
    model = small(PCANN, epochs=200).fit(fields(12, (6,)), fields(12, (6,), seed=1))
    epochs = [point["epoch"] for point in model.history]
    assert 25 <= len(epochs) <= 60
    assert epochs == sorted(set(epochs))
    assert epochs[-1] == model.epochs_done == 200
    seconds = [point["seconds"] for point in model.history]
    assert seconds == sorted(seconds)
    assert set(model.history[0]) == {"seconds", "epoch", "training_loss", "validation_error"}


def test_a_budget_is_kept_and_the_schedule_ends_in_it():
    a = fields(60, (16, 16))
    model = small(FNO, epochs=100_000, width=16)
    totals = []
    model.fit(a, a**2, budget=2.0, tick=lambda stage, done, total: totals.append((done, total)))
    assert 0.7 * 2.0 < model.seconds < 1.3 * 2.0
    assert totals[-1][0] == totals[-1][1] == model.epochs_done  # the rate has come down to its end
    assert model.epochs_done > 3


def test_no_more_epochs_than_asked_are_trained_for_a_long_budget():
    a = fields(8, (8, 8))
    assert small(FNO, epochs=4).fit(a, a, budget=1000.0).epochs_done == 4


class Interruption(Exception):
    pass


def interrupt_at(epoch):
    def tick(stage, done, total):
        if done == epoch:
            raise Interruption

    return tick


@pytest.mark.parametrize("kind", NETWORKS)
def test_resuming_from_a_checkpoint_equals_the_uninterrupted_run(kind, tmp_path):
    a = fields(14, (10, 10))
    path = tmp_path / "training.ckpt"
    whole = small(kind).fit(a, a**2)
    model = small(kind, checkpoint_every=0.0)
    with pytest.raises(Interruption):
        model.fit(a, a**2, checkpoint=path, tick=interrupt_at(6))
    assert path.exists()
    seen = []
    model.fit(a, a**2, checkpoint=path, tick=lambda stage, done, total: seen.append(done))
    assert seen == [6, 7, 8, 9, 10]  # the file is from the end of epoch 5: the tick comes before the writing
    np.testing.assert_array_equal(model.predict(a), whole.predict(a))
    assert [p["validation_error"] for p in model.history] == [p["validation_error"] for p in whole.history]
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_other_data_or_no_checkpoint_starts_anew_with_a_warning(tmp_path):
    a = fields(8, (8, 8))
    path = tmp_path / "training.ckpt"
    with pytest.raises(Interruption):
        small(FNO, checkpoint_every=0.0).fit(a, a, checkpoint=path, tick=interrupt_at(3))
    expected = small(FNO).fit(a, 2 * a).predict(a)
    with pytest.warns(UserWarning, match="belongs to another model, budget or data"):
        found = small(FNO, checkpoint_every=0.0).fit(a, 2 * a, checkpoint=path).predict(a)
    np.testing.assert_array_equal(found, expected)
    path.write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="is no checkpoint"):
        small(FNO).fit(a, a, checkpoint=path)


def test_a_checkpoint_in_no_folder_is_refused_before_training(tmp_path):
    a = fields(8, (8, 8))
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        small(FNO).fit(a, a, checkpoint=tmp_path / "nowhere" / "training.ckpt")


def test_pointwise_scales_give_constant_points_back_exactly():
    a = fields(10, (9, 9))
    a[:, 0, :] = 0.1  # a boundary condition; 0.1 has no exact mean in float64
    normaliser = Gaussian.fit(a, "pointwise")
    assert not normaliser.std[0].any()
    assert not normaliser.encode(a)[:, 0].any()
    model = small(FNO, normalisation=("channel", "pointwise"), epochs=2).fit(a, a)
    np.testing.assert_allclose(model.predict(a)[:, 0], 0.1, rtol=1e-7)  # float32


def test_channel_scales_are_one_number_for_each_snapshot():
    a = fields(10, (3, 9, 9)) * np.array([1.0, 10.0, 100.0])[:, None, None]
    normaliser = Gaussian.fit(a, "channel")
    assert normaliser.std.shape == (3, 1, 1)
    z = normaliser.encode(a)
    np.testing.assert_allclose(z.std(axis=(0, 2, 3)), 1.0)
    np.testing.assert_allclose(z.mean(axis=(0, 2, 3)), 0.0, atol=1e-12)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="problem must be one of"):
        baseline("stokes", "fno")
    with pytest.raises(ValueError, match="method must be one of"):
        baseline("darcy", "unet")


def test_the_package_and_what_runs_on_the_cpu_import_no_torch():
    code = (
        "import sys\n"
        "from pcarann.baselines import baseline\n"
        "baseline('darcy', 'kernel'), baseline('darcy', 'random_features')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_a_network_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "pcarann.baselines.fno", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"FNO needs PyTorch: install it with pip install 'pcarann\[baselines\]'"):
        baseline("darcy", "fno")


def test_another_package_that_is_missing_is_named_by_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "pcarann.baselines.fno", None)
    with pytest.raises(ModuleNotFoundError, match=r"pcarann\.baselines\.fno"):
        baseline("darcy", "fno")
