"""Kernel ridge on latents: the closed form against dense solves, the choice, the refusals."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, Matern

from pcarann.baselines.fields import split
from pcarann.baselines.kernel_ridge import KERNELS, KernelOperator
from pcarann.latent.pca import fit_pca
from pcarann.metrics import relative_l2


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "rbf"])
@pytest.mark.parametrize("whitening", [0.0, 1.0])
def test_prediction_equals_a_dense_solve(kernel, whitening, pairs):
    (a, u), new = pairs[:60], pairs.inputs[60:80]
    settings = {"lengths": (2.0,), "ridges": (1e-4,), "whitenings": (whitening,), "n_components": (5, 6)}
    found = KernelOperator(kernel=kernel, **settings).fit(a, u).predict(new)
    pca, x = fit_pca(a, 5)
    output_pca, y = fit_pca(u.reshape(60, -1), 6)
    scale = x.std(axis=0) if whitening else x.std(axis=0)[0]
    x, z = x / scale, pca.encode(new) / scale
    length = 2.0 * np.median(np.linalg.norm(x[:, None] - x, axis=2))
    k = RBF(length) if kernel == "rbf" else Matern(length, nu=int(kernel[-2]) / 2)
    solved = scipy.linalg.solve(k(x) + 1e-4 * np.eye(60), y, assume_a="pos")
    expected = output_pca.decode(k(z, x) @ solved).reshape(20, *u.shape[1:])
    # The matrix has condition 60/1e-4, and float64 keeps ten digits of its solution.
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", list(KERNELS))
def test_kernels_are_one_at_zero_and_fall(name):
    values = KERNELS[name](np.linspace(0, 5, 50))
    assert values[0] == 1.0
    assert (np.diff(values) < 0).all()


def test_the_chosen_setting_has_the_least_error_on_the_validation_part(pairs):
    a, u = pairs[:100]
    model = KernelOperator(n_components=6, lengths=(0.5, 4.0), ridges=(1e-8, 1e-1), whitenings=(0.0, 1.0)).fit(a, u)
    rows, held = split(100, 0.2, 0)
    errors = {}
    for length in (0.5, 4.0):
        for ridge in (1e-8, 1e-1):
            for whitening in (0.0, 1.0):
                # One setting, fitted to the training part alone; its own validation has nothing to choose.
                one = KernelOperator(n_components=6, lengths=(length,), ridges=(ridge,), whitenings=(whitening,))
                predicted = one.fit(a[rows], u[rows]).predict(a[held])
                errors[whitening, length, ridge] = relative_l2(predicted, u[held])
    best = min(errors, key=errors.get)
    assert (model.choice.whitening, model.choice.length, model.choice.ridge) == best
    assert model.choice.error == pytest.approx(errors[best], rel=1e-6)


def test_it_learns_a_smooth_operator_and_says_what_it_holds(pairs):
    model = KernelOperator(n_components=0.9999).fit(*pairs[:300])
    assert relative_l2(model.predict(pairs.inputs[300:]), pairs.outputs[300:]) < 0.05
    assert model.n_parameters % 300 == 0
    assert model.history == []
    assert (model.epochs_done, model.device) == (0, "cpu")


def test_predicting_before_fitting_and_not_a_number_are_refused(pairs):
    with pytest.raises(NotFittedError, match="call fit"):
        KernelOperator().predict(pairs.inputs)
    broken = pairs.inputs[:20].copy()
    broken[3, 0] = np.inf
    with pytest.raises(ValueError, match="inputs contains NaN or infinity"):
        KernelOperator().fit(broken, pairs.outputs[:20])
    model = KernelOperator(n_components=3).fit(*pairs[:20])
    with pytest.raises(ValueError, match=r"shape \(7,\), but the model was fitted to \(40,\)"):
        model.predict(pairs.inputs[:, :7])


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="kernel must be one of"):
        KernelOperator(kernel="laplace")
    with pytest.raises(ValueError, match="validation must be"):
        KernelOperator(validation=0.0)
