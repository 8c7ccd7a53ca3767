"""Models do not depend on the machine, on the order of samples or on who else writes; files hold what predicts."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open

import pcarann.features.kernel
import pcarann.features.relevance
from conftest import smooth_pairs
from pcarann import Adapt, Kernel, Marching, PCARaNN, load
from pcarann.metrics import relative_l2
from pcarann.readout.direct import fit_readout, fit_streamed_readout
from pcarann.uncertainty.conformal import Calibration, conformal_rank

SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 2, "scales": "energy"}


# A kernel under another BLAS

KERNELS = {
    f"length {length:g}, ridge {ridge:g}": {"regressor": Kernel(length), "ridge": ridge}
    for length in (256.0, 64.0)
    for ridge in (1e-10, 0.0)
}
KERNELS |= {"length 256": {"regressor": Kernel(256.0)}, "length 64": {"regressor": Kernel(64.0)}, "default": {}}
ELSEWHERE = """
import numpy as np, pcarann
for i in range({count}):
    np.save(f"{{i}}.npy", pcarann.load(f"{{i}}.pcarann").predict(np.load("inputs.npy")))
"""


@pytest.fixture(scope="module", params=[{"OPENBLAS_CORETYPE": "Nehalem"}, {"OPENBLAS_NUM_THREADS": "1"}], ids=str)
def here_and_there(request, tmp_path_factory):
    """What each kernel predicts here, and what a fresh process with another BLAS predicts with its file."""
    pairs, folder = smooth_pairs(160), tmp_path_factory.mktemp("kernels")
    np.save(folder / "inputs.npy", pairs.inputs[130:])
    here = []
    for i, options in enumerate(KERNELS.values()):
        model = PCARaNN(n_components=0.99999, n_members=2, **{"regressor": "kernel", **options}).fit(*pairs[:130])
        model.save(folder / f"{i}.pcarann")
        here.append(model.predict(pairs.inputs[130:]))
    command = [sys.executable, "-c", ELSEWHERE.format(count=len(KERNELS))]
    subprocess.run(command, cwd=folder, env={**os.environ, **request.param}, check=True)
    return here, [np.load(folder / f"{i}.npy") for i in range(len(KERNELS))]


@pytest.mark.parametrize("i", range(len(KERNELS)), ids=KERNELS)
def test_a_kernel_is_the_same_function_under_another_blas(here_and_there, i):
    here, there = (part[i] for part in here_and_there)
    assert np.abs(there - here).max() <= 1e-9 * np.abs(here).max()  # row 27 of shared/FAULTS.md


# Sorted sweeps


def ring(n, power, seed):
    """A sweep of growing amplitude through a disc: what is learned early is the middle alone."""
    rng = np.random.default_rng(seed)
    radius, angle, x = np.sort(rng.uniform(size=n) ** power), rng.uniform(0, 2 * np.pi, n), np.linspace(0, 1, 8)
    a = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return a, np.sin(8 * a[:, :1] + x) + np.cos(8 * a[:, 1:] * x)


def waking(n, seed):
    """A sweep in t along which the second parameter begins to matter late."""
    rng = np.random.default_rng(seed)
    t, s, x = np.sort(rng.uniform(-1, 1, n))[:, None], rng.uniform(-1, 1, n)[:, None], np.linspace(0, 1, 8)
    return np.hstack([t, s]), t * x + 1 + np.sin(6 * s + 5 * t + 2 * x) / (1 + np.exp(12 * (0.2 - t)))


def errors_sorted_and_shuffled(sweep, test, **options):
    order = np.random.default_rng(2).permutation(len(sweep[0]))
    both = (sweep, (sweep[0][order], sweep[1][order]))
    return [relative_l2(PCARaNN(n_components=(2, 4), **options).fit(*one).predict(test[0]), test[1]) for one in both]


@pytest.mark.filterwarnings("ignore:.*lie outside the training data")  # the rim, which the sweep passes quickly
@pytest.mark.parametrize("scales", ["energy", ("gain", 1.0, 1.0), "refined"], ids=str)
def test_random_layers_learn_a_sorted_sweep_as_well_as_a_shuffled_one(scales):
    options = {"widths": (40, 20), "n_members": 2, "scales": scales, "random_state": 1}
    ordered, shuffled = errors_sorted_and_shuffled(ring(6000, 6, seed=0), ring(400, 1, seed=1), **options)
    assert ordered <= 1.5 * shuffled  # anchors, which differ, are chance; the fault costs a factor of 1.5 to 9


@pytest.fixture
def few_rows(monkeypatch):
    """As many rows of 1000 as are looked at of 6000, so that a test takes a second and not a minute."""
    for module, name, count in (
        (pcarann.features.kernel, "_TUNED_ROWS", 150),
        (pcarann.features.kernel, "_MEDIAN_ROWS", 100),
        (pcarann.features.kernel, "MOST_LANDMARKS", 400),
        (pcarann.features.relevance, "_ROWS", 200),
    ):
        monkeypatch.setattr(module, name, count)


@pytest.mark.parametrize(
    "options",
    [
        {"regressor": "kernel", "n_members": 2, "ridge": 1e-6},
        {"relevance": "learned", "widths": (50, 25), "n_members": 3, "scales": "energy"},
        {"relevance": "learned", "widths": (50, 25), "n_members": 3},
        {"relevance": "learned", "regressor": "kernel", "n_members": 2, "ridge": 1e-6},
    ],
    ids=["kernel", "learned, energy", "learned, refined", "learned, kernel"],
)
def test_lengths_and_metrics_are_learned_from_a_whole_sorted_sweep(few_rows, options):
    ordered, shuffled = errors_sorted_and_shuffled(waking(1000, seed=0), waking(400, seed=1), **options)
    assert ordered <= 1.5 * shuffled  # the fault costs a factor of 7 to 200


# Adaptation and parameters that change on the way


@pytest.fixture
def adapting(pairs):
    return PCARaNN(**SMALL).fit(*pairs[:90])


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
def test_a_refit_keeps_what_partial_fit_learned(pairs, start):
    one, whole = (PCARaNN(**SMALL, adapt=Adapt(start=start)).fit(*pairs[:90]) for _ in range(2))
    one.partial_fit(*pairs[90:120]).refit_readout(*pairs[120:150], ridge=1e-3)
    whole.refit_readout(*pairs[90:150], ridge=1e-3)
    found, wanted = (model.predict(pairs.inputs[200:]) for model in (one, whole))
    assert np.abs(found - wanted).max() <= 1e-8 * np.abs(wanted).max()  # rounding, times a condition number of 1e6


def rotation(n, times=8, seed=0):
    angle = np.random.default_rng(seed).uniform(0, 6, (n, 1)) + 0.3 * np.arange(times)
    return np.cos(angle[:, :, None] + np.linspace(0, 6, 16))


def test_a_step_that_is_set_after_the_fit_changes_no_prediction():
    flow = rotation(30)
    model = Marching(PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy")).fit(
        flow[:, :3], flow[:, 3:]
    )
    before = model.predict(flow[:4, :3])
    assert np.array_equal(model.set_params(step=2).predict(flow[:4, :3]), before)


@pytest.mark.parametrize(
    ("generator", "state"),
    [
        (np.random.RandomState, lambda one: [*one.get_state()[1].tolist(), one.get_state()[2]]),
        (np.random.default_rng, lambda one: one.bit_generator.state),
    ],
    ids=["RandomState", "Generator"],
)
def test_partial_fit_draws_nothing_from_the_random_state(pairs, generator, state):
    source = generator(0)
    model = PCARaNN(**SMALL, random_state=source).fit(*pairs[:90])
    before = state(source)
    model.partial_fit(*pairs[90:95])
    assert state(source) == before


def test_a_refit_drops_the_report_of_an_earlier_search(pairs):
    model = PCARaNN(**SMALL)
    model.auto_report_ = "of another fit"
    assert not hasattr(model.fit(*pairs[:90]), "auto_report_")


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
@pytest.mark.parametrize("samples", [90, 40], ids=["primal", "dual"])
def test_another_adapt_ridge_counts_for_all_samples_taken_in(pairs, start, samples):
    changed = PCARaNN(**SMALL, adapt=Adapt(start=start)).fit(*pairs[:samples]).partial_fit(*pairs[90:100])
    changed.set_params(adapt__ridge=1.0).partial_fit(*pairs[100:110])
    always = PCARaNN(**SMALL, adapt=Adapt(1.0, start)).fit(*pairs[:samples])
    always.partial_fit(*pairs[90:100]).partial_fit(*pairs[100:110])
    found, wanted = (model.predict(pairs.inputs[200:]) for model in (changed, always))
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()  # rounding: the ridge bounds the condition


def test_another_start_is_refused_after_adaptation_began(adapting, pairs):
    adapting.partial_fit(*pairs[90:95]).set_params(adapt__start="ridge")
    before = adapting.predict(pairs.inputs[:3])
    with pytest.raises(
        ValueError, match=r"adapt\.start is 'ridge', but this model began to adapt with 'least-squares'"
    ):
        adapting.partial_fit(*pairs[95:100])
    assert np.array_equal(adapting.predict(pairs.inputs[:3]), before)


# Reports of the readout


def test_a_rank_that_was_not_computed_is_not_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    report = fit_readout(H, H[:, :2], 1e-3)[1]
    assert (report.solver, report.rank) == ("cholesky", None)


def test_the_ridge_that_was_asked_for_is_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    assert fit_readout(H, H[:, :2], 1e-3)[1].ridge == 1e-3


def test_a_ridge_that_a_stream_had_to_raise_is_reported():
    rng = np.random.default_rng(0)
    H, Y = rng.normal(size=(200, 40)) @ rng.normal(size=(40, 1510)), rng.normal(size=(200, 2))
    _, report = fit_streamed_readout(lambda: [(H[:90], Y[:90]), (H[90:], Y[90:])])
    rounding = 2.0**-52 * (H**2).sum()  # of HᵀH, which is what a factor must be lifted over
    assert rounding <= report.ridge <= 100 * rounding


# Noise


def test_a_kernel_copes_with_noise_by_default(pairs):
    noisy = pairs.outputs + 0.05 * pairs.outputs.std() * np.random.default_rng(0).normal(size=pairs.outputs.shape)

    def error(**options):
        model = PCARaNN(n_components=0.9999, n_members=3, regressor="kernel", **options)
        return relative_l2(
            model.fit(pairs.inputs[:200], noisy[:200]).predict(pairs.inputs[200:300]), pairs.outputs[200:300]
        )

    assert error() <= 1.01 * error(ridge="gcv")  # which it is; rounding of the same choice


# Parameters in files


@pytest.mark.parametrize(
    "options", [{"random_state": 10**64}, {"n_components": Fraction(9, 10)}], ids=["many zeros", "fraction"]
)
def test_numbers_of_any_kind_come_back_from_a_file(pairs, tmp_path, options):
    model = PCARaNN(**SMALL | options).fit(*pairs[:90])
    wanted = model.predict(pairs.inputs[90:])
    for _ in range(10):  # the order in which a file names what it holds is chance
        model.save(tmp_path / "model.pcarann")
        assert np.array_equal(load(tmp_path / "model.pcarann").predict(pairs.inputs[90:]), wanted)


# Torch on a CPU


def test_numpy_computes_for_torch_tensors_on_a_cpu(pairs):
    torch = pytest.importorskip("torch")
    place = PCARaNN(**SMALL).fit(*(torch.asarray(part) for part in pairs[:90])).ensemble_.place
    assert isinstance(place.zeros(1), np.ndarray)


def test_torch_tensors_on_a_cpu_give_numpys_predictions_as_tensors(pairs):
    torch = pytest.importorskip("torch")
    model = PCARaNN(**SMALL).fit(*(torch.asarray(part) for part in pairs[:90]))
    found = model.predict(torch.asarray(pairs.inputs[90:]))
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), PCARaNN(**SMALL).fit(*pairs[:90]).predict(pairs.inputs[90:]))


# Files hold what predicts


MEMBERS, WIDTHS = 4, (90, 30)


@pytest.fixture(scope="module")
def ten_lines(tmp_path_factory):
    """The README's model, smaller: fitted, calibrated, adapted and saved; with its data, and its calibration before."""
    pairs = smooth_pairs(720, points=150)
    model = PCARaNN(n_components=(6, 20), widths=WIDTHS, n_members=MEMBERS).fit(*pairs[:400])
    model.calibrate(*pairs[400:700])
    model.partial_fit(*pairs[400:700])
    path = tmp_path_factory.mktemp("files") / "model.pcarann"
    model.save(path)
    return model, path, pairs


def test_a_file_holds_no_matrices_of_features_by_features(ten_lines):
    features = sum(WIDTHS)
    with safe_open(ten_lines[1], framework="np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert [name for name, shape in shapes.items() if shape.count(features) > 1] == []


def test_a_file_is_little_larger_than_what_it_must_hold(ten_lines):
    model, path, _ = ten_lines
    features, values = sum(WIDTHS), 2 * 150
    weighting = model.input_pca_.n_components + model.output_pca_.n_components
    rows = (400 + 700) * weighting  # training rows, and all rows that were learned from
    members = 2 * MEMBERS * features * model.output_pca_.n_components  # readouts, and those that adaptation began with
    modes, scores = (weighting + 4) * values, 2 * 20_000  # modes and means; scores and their ranks
    assert path.stat().st_size <= 1.1 * 8 * (rows + members + modes + scores) + 50_000  # anchors, text: small


def test_calibration_scores_in_a_file_are_few(ten_lines):
    with safe_open(ten_lines[1], framework="np") as file:
        sizes = [np.prod(file.get_slice(name).get_shape()) for name in file.keys() if "calibration" in name]  # noqa: SIM118
    assert 0 < max(sizes) <= 20_000  # of 90 000


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).exponential(size=(300, 300))


@pytest.mark.parametrize("method", ["sample", "pooled"])
def test_quantiles_at_thousandths_are_those_of_all_scores(scores, method):
    kept, ordered = Calibration.of(scores, 1e-8), np.sort(scores, axis=None)
    assert len(kept.scores) < ordered.size / 4
    ranks = [conformal_rank(k / 1000, *scores.shape, method) for k in range(1, 1000)]
    wanted = [ordered[rank - 1] if rank <= ordered.size else np.inf for rank in ranks]
    assert [kept.quantile(k / 1000, method) for k in range(1, 1000)] == wanted


@pytest.mark.parametrize("method", ["sample", "pooled"])
def test_quantiles_at_other_levels_are_never_smaller_than_those_of_all_scores(scores, method):
    kept, ordered = Calibration.of(scores, 1e-8), np.sort(scores, axis=None)
    assert len(kept.scores) < ordered.size / 4
    alphas = np.random.default_rng(1).uniform(0.004, 0.999, 2000)
    wanted = np.array([ordered[conformal_rank(alpha, *scores.shape, method) - 1] for alpha in alphas])
    assert np.all([kept.quantile(alpha, method) for alpha in alphas] >= wanted)


def test_adaptation_goes_on_from_a_small_file(ten_lines):
    model, path, pairs = ten_lines
    loaded = load(path).partial_fit(*pairs[700:710])
    loaded.save(path.with_name("again.pcarann"))
    found = load(path.with_name("again.pcarann")).partial_fit(*pairs[710:720]).predict(pairs.inputs[:50])
    model.partial_fit(*pairs[700:710]).partial_fit(*pairs[710:720])
    wanted = model.predict(pairs.inputs[:50])
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()  # sums made again, in another order
