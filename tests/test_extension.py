"""An output basis that grows with the adaptation."""

import numpy as np
import pytest

from pcarann import PCARaNN, Symmetry, load
from pcarann.extension import extended
from pcarann.latent.pca import fit_pca
from pcarann.metrics import relative_l2

# Leaving the training data is the point.
pytestmark = pytest.mark.filterwarnings("ignore:.*inputs lie outside the training data")
POINTS = np.linspace(0, 1, 40)


def squares(n, low, seed=0):
    """Waves of frequencies above `low`, and their squares."""
    rng = np.random.default_rng(seed)
    slow, fast = rng.uniform(1, 2, (n, 1)), rng.uniform(low, low + 1, (n, 1))
    inputs = np.sin(np.pi * slow * POINTS) + (low > 1) * 0.5 * np.sin(np.pi * fast * POINTS)
    return inputs, inputs**2


OLD, NEW, TEST = squares(120, 1), squares(120, 5, seed=1), squares(60, 5, seed=2)
FEW = dict(n_components=0.99999, widths=(80, 60), n_members=2, scales="energy")


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**FEW, adapt_modes=20).fit(*OLD)


def copy_of(model, tmp_path):
    model.save(tmp_path / "m")
    return load(tmp_path / "m")


def test_modes_are_added_until_as_little_is_missed_as_of_the_training_outputs():
    pca, _ = fit_pca(OLD[1], 0.9999)
    grown = extended(pca, NEW[1], 40, 120)
    assert np.array_equal(grown.modes[: pca.n_components], pca.modes)
    assert np.allclose(grown.modes @ grown.modes.T, np.eye(grown.n_components), rtol=0, atol=1e-12)

    def missed(one, fields):
        return (one.residual(fields, one.encode(fields)) ** 2).mean()

    assert missed(grown, NEW[1]) <= 1.0001 * missed(pca, OLD[1]) < 0.1 * missed(pca, NEW[1])
    assert extended(pca, NEW[1], 3, 120).n_components == pca.n_components + 3


def test_modes_are_orthonormal_in_the_weighted_product():
    weights = np.linspace(1, 2, 40)
    pca, _ = fit_pca(OLD[1], 0.9999, weights=weights)
    grown = extended(pca, NEW[1], 40, 120)
    assert grown.n_components > pca.n_components
    assert np.allclose((grown.modes * weights) @ grown.modes.T, np.eye(grown.n_components), rtol=0, atol=1e-12)


def test_outputs_inside_the_basis_add_nothing(model, tmp_path):
    before = model.output_pca_.n_components
    again = copy_of(model, tmp_path).partial_fit(OLD[0][:20], OLD[1][:20])
    assert again.output_pca_.n_components == before
    pca, _ = fit_pca(OLD[1], 0.9999)
    assert extended(pca, np.zeros((3, 40)) + pca.mean, 5, 120) is pca
    full, _ = fit_pca(np.random.default_rng(0).normal(size=(60, 5)), 5)
    assert extended(full, np.random.default_rng(1).normal(size=(4, 5)), 5, 60) is full


def test_new_outputs_are_reached_that_the_old_basis_cannot_hold(model, tmp_path):
    errors = {}
    for modes in (0, 20):
        adapted = copy_of(model, tmp_path).set_params(adapt_modes=modes).partial_fit(*NEW)
        errors[modes] = relative_l2(adapted.predict(TEST[0]), TEST[1])
    assert errors[20] < 0.5 * errors[0]


def test_old_outputs_are_still_predicted(model, tmp_path):
    adapted = copy_of(model, tmp_path).partial_fit(*NEW)
    assert relative_l2(adapted.predict(OLD[0]), OLD[1]) < 0.15


@pytest.mark.parametrize("widths", [(80, 60), (30, 20)], ids=["dual", "primal"])
def test_growing_equals_a_ridge_refit_on_the_grown_basis(widths):
    model = PCARaNN(**{**FEW, "widths": widths}, adapt_modes=20, adapt_start="ridge").fit(*OLD)
    x, modes = model._fitted.x, model.output_pca_.n_components
    model.partial_fit(*NEW)
    basis = model.output_pca_
    assert basis.n_components > modes
    old = basis.encode(OLD[1])
    old[:, modes:] = 0.0  # what the recursion knows of the training outputs
    y = np.concatenate([old, basis.encode(NEW[1])])
    for member in model.ensemble_.members:
        H = member.features(np.concatenate([x, model.input_pca_.encode(NEW[0])]))
        V = np.linalg.solve(H.T @ H + model.adapt_ridge * np.eye(H.shape[1]), H.T @ y)
        assert np.allclose(H @ member.readout, H @ V, rtol=0, atol=1e-8 * np.abs(y).max())


def test_a_grown_model_is_saved_loaded_and_grows_on(model, tmp_path):
    first = copy_of(model, tmp_path).partial_fit(*(part[:60] for part in NEW))
    second = copy_of(first, tmp_path)
    assert np.array_equal(first.predict(TEST[0]), second.predict(TEST[0]))
    for one in (first, second):
        one.partial_fit(*(part[60:] for part in NEW))
    assert np.allclose(first.predict(TEST[0]), second.predict(TEST[0]), rtol=0, atol=1e-9)


def test_a_symmetry_and_intervals_go_with_it():
    mirror = Symmetry.reflection(-1)
    model = PCARaNN(**FEW, adapt_modes=20, symmetry=mirror).fit(*OLD).partial_fit(*NEW)
    mirrored = model.predict(np.flip(TEST[0], -1))
    assert np.allclose(mirrored, np.flip(model.predict(TEST[0]), -1), rtol=0, atol=1e-9)
    band = model.calibrate(*TEST).predict_interval(TEST[0], alpha=0.2)
    assert np.mean((band.lower <= TEST[1]) & (TEST[1] <= band.upper)) > 0.7


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_a_number_of_modes_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="adapt_modes must be a whole number of at least 0"):
        PCARaNN(**FEW, adapt_modes=value).fit(*OLD)
