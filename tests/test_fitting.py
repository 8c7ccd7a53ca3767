import numpy as np
import pytest

import pcarann.features.kernel
import pcarann.features.relevance
from conftest import blas_threads
from pcarann import PCARaNN
from pcarann.metrics import relative_l2


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


@pytest.mark.filterwarnings("ignore:.*lies? outside the training data")  # the rim, which the sweep passes quickly
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


def smooth_table(samples=250):
    rng, x = np.random.default_rng(3), np.linspace(0, 1, 300)
    a = rng.uniform(size=(samples, 5))
    return a, np.sin(3 * a[:, :1] + x) * a[:, 1:2]


@pytest.mark.parametrize(
    "options",
    [
        {"widths": (200, 80), "n_members": 1},
        {"regressor": "kernel", "n_members": 1},
        {"regressor": "kernel", "relevance": "learned", "n_members": 2},
        {"widths": (60, 30), "relevance": "learned", "n_members": 2, "scales": "energy"},
        {"widths": (60, 30), "ridge": "gcv", "n_members": 3, "scales": "energy"},
    ],
    ids=["one member", "kernel", "kernel in a learned metric", "learned metric", "chosen ridge"],
)
def test_fits_and_predictions_are_the_same_bytes_on_any_number_of_threads(options):
    a, u = smooth_table()
    found = []
    for threads in (1, 2):
        with blas_threads(threads):
            model = PCARaNN(n_components=(5, 1 - 1e-12), **options).fit(a[:200], u[:200])
            found.append((model.ridge_, *model.predict(a[200:], return_std=True)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])
    assert np.array_equal(found[0][2], found[1][2])
