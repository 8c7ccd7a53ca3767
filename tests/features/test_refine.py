import math
from dataclasses import replace

import numpy as np
import pytest

from pcarann import PCARaNN, Refine
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.refine import refine_scales
from pcarann.features.scales import energy_matched_scales
from pcarann.features.validation_loss import ValidationLoss
from pcarann.latent.weighting import Weighting

WIDTHS = {"primal": (30, 20), "dual": (120, 60)}
FORMS = pytest.mark.parametrize("form", WIDTHS)


def problem(form, ridge=1e-4, seed=0, samples=100):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 4)) * [2.0, 1.0, 0.5, 0.25]
    y = np.column_stack([np.sin(x[:, 0] + x[:, 1]), x[:, 2] * x[:, 0], np.exp(-(x[:, 3] ** 2))])
    y = y - y.mean(axis=0)
    layers = HiddenLayers(seed, 0, (4, *WIDTHS[form]))
    scales = energy_matched_scales(layers, x[:80], y[:80])
    features, _ = anchor_features(layers, x[:80], scales)
    return ValidationLoss.of(features, x, y, n_inner=80, ridge=ridge), features, x, y


def literal_loss(features, x, y, eta, ridge):
    """J(η) as the paper prints it."""
    W1, W2 = features.hidden_weights()
    r1, r2 = features.scales[0] * math.exp(eta[0]), features.scales[1] * math.exp(eta[1])
    h1 = np.tanh(r1 * (x @ W1.T - features.anchors[0]))
    H = np.hstack([h1, np.tanh(r2 * (h1 @ W2.T - features.anchors[1]))])
    A = np.linalg.solve(H[:80].T @ H[:80] + ridge * np.eye(H.shape[1]), H[:80].T @ y[:80])
    return ((H[80:] @ A - y[80:]) ** 2).sum() / y[80:].size


@FORMS
def test_loss_is_the_papers(form):
    loss, features, x, y = problem(form, ridge=1e-2)
    for eta in ((0.0, 0.0), (0.5, -0.3), (-1.0, 1.0)):
        assert loss(eta) == pytest.approx(literal_loss(features, x, y, eta, 1e-2), rel=1e-9)
        assert loss.with_gradient(eta)[0] == pytest.approx(loss(eta), rel=1e-9)


@FORMS
@pytest.mark.parametrize("ridge", [1e-1, 1e-4])
def test_gradient_agrees_with_central_differences(form, ridge):
    loss, *_ = problem(form, ridge)
    step = 1e-4  # truncation step² ≈ 1e-8 of the third derivative, rounding eps/step ≈ 1e-12
    for eta in ((0.1, -0.2), (-0.7, 0.6)):
        value, gradient = loss.with_gradient(eta)
        for axis in (0, 1):
            ahead, behind = list(eta), list(eta)
            ahead[axis] += step
            behind[axis] -= step
            difference = (loss(tuple(ahead)) - loss(tuple(behind))) / (2 * step)
            assert gradient[axis] == pytest.approx(difference, rel=1e-6, abs=1e-6 * value)


@FORMS
def test_gradient_agrees_with_torch_autograd(form):
    torch = pytest.importorskip("torch")
    loss, features, x, y = problem(form, ridge=1e-2)
    W1, W2 = (torch.asarray(w) for w in features.hidden_weights())
    c1, c2 = (torch.asarray(c) for c in features.anchors)
    X, Y = torch.asarray(x), torch.asarray(y)
    eta = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
    h1 = torch.tanh(features.scales[0] * torch.exp(eta[0]) * (X @ W1.T - c1))
    H = torch.hstack([h1, torch.tanh(features.scales[1] * torch.exp(eta[1]) * (h1 @ W2.T - c2))])
    A = torch.linalg.solve(H[:80].T @ H[:80] + 1e-2 * torch.eye(H.shape[1], dtype=torch.float64), H[:80].T @ Y[:80])
    ((H[80:] @ A - Y[80:]) ** 2).mean().backward()
    _, gradient = loss.with_gradient((0.3, -0.4))
    assert gradient[:2] == pytest.approx(eta.grad.tolist(), rel=1e-9)


@FORMS
def test_gradient_holds_where_only_an_orthogonal_factor_is_safe(form):
    loss, *_ = problem(form, ridge=1e-15)
    step = 1e-4
    _, gradient = loss.with_gradient((0.5, 0.2))
    difference = (loss((0.5 + step, 0.2)) - loss((0.5 - step, 0.2))) / (2 * step)
    assert gradient[0] == pytest.approx(difference, rel=1e-3)


def test_products_of_rows_give_the_loss_and_gradient_of_the_readout(monkeypatch):
    loss, *_ = problem("dual", 1e-3)
    assert loss._from_products(loss._features(loss.scales)[0]) is not None
    value, gradient = loss.with_gradient((0.3, -0.4))
    monkeypatch.setattr(ValidationLoss, "_from_products", lambda self, features: None)
    expected, slopes = loss.with_gradient((0.3, -0.4))
    assert value == pytest.approx(expected, rel=1e-10)
    assert gradient == pytest.approx(slopes, rel=1e-8)


def test_refinement_lowers_the_loss_and_reports_it():
    loss, *_ = problem("primal")
    found = refine_scales(loss)
    assert found.loss < found.start_loss
    assert found.loss < found.scan_loss < found.start_loss
    assert found.loss == pytest.approx(loss(found.log_offsets), rel=1e-9)
    assert found.evaluations > 24
    _, gradient = loss.with_gradient(found.log_offsets)
    assert max(map(abs, gradient[:2])) < 1e-2 * found.loss


def test_the_papers_start_makes_no_scan():
    loss, *_ = problem("primal")
    found = refine_scales(loss, start="energy")
    assert found.scan_loss == found.start_loss == pytest.approx(loss((0.0, 0.0)))
    assert found.loss <= found.start_loss


def test_the_scan_crosses_a_barrier_that_descent_does_not():
    class TwoBasins:
        """log J has a shallow basin at 0 and a deep one at η₁ = −4.5, with a ridge between."""

        def value(self, e):
            return 1.0 - 0.9 * math.exp(-((e[0] + 4.5) ** 2)) + 0.1 * (e[0] * (e[0] + 4.5)) ** 2 / 25 + e[1] ** 2

        def scan(self, first, second):
            return {(a, b): self.value((a, b)) for a in first for b in second}

        def with_gradient(self, eta):
            step = 1e-6
            shift = [(eta[0] + step, eta[1]), (eta[0] - step, eta[1]), (eta[0], eta[1] + step), (eta[0], eta[1] - step)]
            f = [self.value(s) for s in shift]
            return self.value(eta), ((f[0] - f[1]) / (2 * step), (f[2] - f[3]) / (2 * step))

    assert refine_scales(TwoBasins(), start="energy").log_offsets[0] == pytest.approx(0.0, abs=0.3)
    assert refine_scales(TwoBasins()).log_offsets[0] == pytest.approx(-4.5, abs=0.3)


def test_a_line_search_that_fails_keeps_the_best_point_seen():
    class Jagged:
        """A gradient that lies: every line search fails."""

        def scan(self, first, second):
            return {(a, b): 1.0 + abs(a) + abs(b) for a in first for b in second}

        def with_gradient(self, eta):
            return 1.0 + abs(eta[0]) + abs(eta[1]), (-1.0, 1.0)

    found = refine_scales(Jagged())
    assert found.log_offsets == (0.0, 0.0)
    assert found.loss == 1.0


def test_offsets_are_rounded_to_what_can_be_resolved():
    loss, *_ = problem("primal")
    assert all(eta == round(eta, 4) for eta in refine_scales(loss).log_offsets)


@pytest.mark.parametrize("eta", [(60.0, 0.0), (-60.0, 900.0)])
def test_scales_running_away_stay_finite(eta):
    loss, *_ = problem("primal")
    value, gradient = loss.with_gradient(eta)
    assert math.isfinite(value)
    assert all(map(math.isfinite, gradient))


def test_a_loss_of_zero_ends_at_once():
    _, features, x, y = problem("primal")
    found = refine_scales(ValidationLoss.of(features, x, 0 * y, n_inner=80, ridge=1e-4))
    assert found.log_offsets == (0.0, 0.0)
    assert found.iterations == 0
    assert "zero" in found.message


# The linear term and relevance

OPTIONS = {
    "linear": Weighting(linear=np.array([0.5, 1.0, 2.0, 4.0])),
    "weights": Weighting(np.array([1.0, 2.0, 0.5, 3.0])),
    "both": Weighting(np.random.default_rng(3).normal(size=(4, 4)), np.array([0.5, 1.0, 2.0, 4.0])),
}
every_option = pytest.mark.parametrize("weighting", list(OPTIONS.values()), ids=list(OPTIONS))


def problem_with(weighting, form, ridge=1e-2):
    _, plain, x, y = problem(form)
    features, _ = anchor_features(plain.layers, x[:80], plain.scales, weighting)
    return ValidationLoss.of(features, x, y, n_inner=80, ridge=ridge), features, x, y


@FORMS
@every_option
def test_loss_is_that_of_the_features_with_a_linear_term_and_relevance(form, weighting):
    loss, features, x, y = problem_with(weighting, form)
    H = replace(features, scales=(features.scales[0] * math.exp(0.5), features.scales[1] * math.exp(-0.3)))(x)
    A = np.linalg.solve(H[:80].T @ H[:80] + 1e-2 * np.eye(H.shape[1]), H[:80].T @ y[:80])
    assert loss((0.5, -0.3)) == pytest.approx(((H[80:] @ A - y[80:]) ** 2).mean(), rel=1e-9)
    assert loss.with_gradient((0.5, -0.3))[0] == pytest.approx(loss((0.5, -0.3)), rel=1e-9)


@FORMS
@every_option
def test_gradient_agrees_with_central_differences_with_a_linear_term_and_relevance(form, weighting):
    loss, *_ = problem_with(weighting, form)
    step, eta = 1e-4, (0.1, -0.2)
    value, gradient = loss.with_gradient(eta)
    for axis, shift in enumerate(((step, 0.0), (0.0, step))):
        ahead, behind = loss((eta[0] + shift[0], eta[1] + shift[1])), loss((eta[0] - shift[0], eta[1] - shift[1]))
        assert gradient[axis] == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-6 * value)


# The ridge, and several members


@FORMS
@pytest.mark.parametrize("ridge", [1e-1, 1e-4])
def test_the_gradient_of_the_ridge_agrees_with_central_differences(form, ridge):
    loss, *_ = problem(form, ridge)
    step = 1e-4
    value, gradient = loss.with_gradient((0.1, -0.2))
    ahead, behind = (loss.at_ridge(math.exp(sign * step))((0.1, -0.2)) for sign in (1, -1))
    assert gradient[2] == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-6 * value)


def test_a_refined_ridge_is_no_worse_and_far_from_a_poor_start():
    loss, *_ = problem("dual", ridge=10.0)
    alone, both = refine_scales(loss), refine_scales(loss, with_ridge=True)
    assert alone.ridge is None
    assert both.loss < 0.5 * alone.loss
    assert both.ridge < 1.0
    assert both.loss == pytest.approx(loss.at_ridge(both.ridge / 10.0)(both.log_offsets), rel=1e-9)


NOISY = np.random.default_rng(0).normal(size=(120, 6))
NOISY_SINE = np.sin(NOISY[:, :2]) + 0.3 * np.random.default_rng(1).normal(size=(120, 2))
SMALL = dict(n_components=6, widths=(60, 40), n_members=2)


def test_noise_asks_for_a_larger_ridge_and_the_estimator_uses_it():
    noisy, clean = (
        PCARaNN(**SMALL, ridge="refined", scales=Refine(start="energy")).fit(NOISY, targets)
        for targets in (NOISY_SINE, np.sin(NOISY[:, :2]))
    )
    assert noisy.ridge_ == noisy.refinement_.ridge
    assert noisy.ridge_ > 10 * clean.ridge_


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(ridge="refined", scales="energy"), "needs scales='refined'"),
        (dict(ridge="refined", scales=("gain", 0.1, 0.1)), "needs scales='refined'"),
        (dict(ridge="refined", regressor="kernel"), "belongs to random layers"),
    ],
)
def test_what_cannot_be_refined_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        PCARaNN(**{**SMALL, **options}).fit(NOISY, NOISY_SINE)
