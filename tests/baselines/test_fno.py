"""The Fourier neural operator: symmetry, other grids, closed axes."""

import numpy as np
import pytest
import torch

from pcarann.baselines.fno import FNO
from pcarann.metrics import relative_l2


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny networks lose more to waiting than they gain; the number of threads of others is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def waves(n, points, seed=0):
    """Periodic fields of the three lowest modes, the same functions on any grid."""
    rng = np.random.default_rng(seed)
    x = np.arange(points) / points
    total = np.zeros((n, points, points))
    for k, m in ((1, 0), (0, 1), (1, 1)):
        phase = 2 * np.pi * np.add.outer(k * x, m * x)
        total += np.multiply.outer(rng.normal(size=n), np.cos(phase))
        total += np.multiply.outer(rng.normal(size=n), np.sin(phase))
    return total


def small(**settings):
    defaults = {"modes": (3, 3), "width": 8, "layers": 2, "projection": 16, "epochs": 20, "batch": 10, "rate": 1e-2}
    return FNO(**{**defaults, "device": "cpu", **settings})


def test_without_positions_a_periodic_operator_commutes_with_shifts():
    a = waves(20, 12)
    model = small(axes=("periodic", "periodic"), positions=False, epochs=5).fit(a, np.tanh(a))
    moved = np.roll(a, (5, 3), axis=(1, 2))
    found, expected = model.predict(moved), np.roll(model.predict(a), (5, 3), axis=(1, 2))
    np.testing.assert_allclose(found, expected, atol=1e-5)  # float32 through a dozen operations of size 1


def test_with_positions_it_does_not():
    a = waves(20, 12)
    model = small(axes=("periodic", "periodic"), epochs=5).fit(a, np.tanh(a))
    moved = np.roll(a, (5, 3), axis=(1, 2))
    assert abs(model.predict(moved) - np.roll(model.predict(a), (5, 3), axis=(1, 2))).max() > 1e-3


def test_a_model_predicts_on_a_finer_grid_than_it_was_fitted_to():
    coarse, fine = waves(60, 16), waves(60, 32)
    model = small(axes=("periodic", "periodic"), positions=False, epochs=30).fit(coarse, np.tanh(coarse))
    on_coarse, on_fine = model.predict(coarse), model.predict(fine)
    assert on_fine.shape == (60, 32, 32)
    # The grids share every second point; GELU makes modes that 16 points cannot hold, hence not equal.
    assert relative_l2(on_fine[:, ::2, ::2], on_coarse) < 0.02
    assert relative_l2(on_fine, np.tanh(fine)) < 1.3 * relative_l2(on_coarse, np.tanh(coarse))


def test_pointwise_scales_tie_a_model_to_its_grid():
    a = waves(10, 12)
    model = small(normalisation=("channel", "pointwise"), epochs=1).fit(a, a)
    with pytest.raises(ValueError, match=r"shape \(24, 24\), but the model was fitted to \(12, 12\)"):
        model.predict(waves(2, 24))


def test_the_last_point_of_a_closed_axis_repeats_the_first():
    a = np.concatenate([waves(10, 12), waves(10, 12)[..., :1]], axis=2)
    predicted = small(axes=("periodic", "closed"), epochs=2).fit(a, a).predict(a)
    np.testing.assert_array_equal(predicted[..., 0], predicted[..., -1])


def test_an_input_on_one_axis_is_repeated_along_time():
    x, t = np.linspace(0, 1, 17), np.linspace(0, 1, 9)
    phase = np.random.default_rng(0).uniform(0, 6, (20, 1))
    a = np.sin(2 * np.pi * x + phase)
    u = np.exp(-t)[:, None] * a[:, None, :]
    model = small(axes=("interval", "closed"), epochs=80).fit(a, u)
    assert relative_l2(model.predict(a), u) < 0.05


@pytest.mark.parametrize("padding", [0.0, 0.3])
def test_padding_leaves_the_shape_of_the_output(padding):
    a = waves(10, 13)
    assert small(padding=padding, epochs=1).fit(a, a).predict(a).shape == a.shape


def test_more_modes_than_the_grid_holds_are_refused():
    a = waves(10, 8)
    with pytest.raises(ValueError, match=r"modes=\(6, 3\) need a grid"):
        small(modes=(6, 3), axes=("periodic", "periodic")).fit(a, a)


def test_axes_of_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match="axes must be one of"):
        small(axes=("periodic", "open")).fit(waves(4, 8), waves(4, 8))


def test_fields_on_a_line_are_learned_and_commute_with_shifts():
    a = waves(40, 16)[:, 0]
    settings = {"axes": ("periodic", "periodic"), "modes": (0, 4), "positions": False}
    model = small(**settings, epochs=60).fit(a, np.tanh(a))
    assert relative_l2(model.predict(a), np.tanh(a)) < 0.2
    np.testing.assert_allclose(model.predict(np.roll(a, 5, axis=1)), np.roll(model.predict(a), 5, axis=1), atol=1e-5)
    with pytest.raises(ValueError, match=r"modes=\(3, 3\): the first is 0 for fields on a line"):
        small(axes=("periodic", "periodic"), epochs=1).fit(a, a)
    with pytest.raises(ValueError, match=r"modes=\(0, 3\): the first is 0 for fields on a line"):
        small(modes=(0, 3), epochs=1).fit(waves(4, 8), waves(4, 8))
