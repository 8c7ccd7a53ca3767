"""DeepONet: trunk features, branches, what each refuses."""

import numpy as np
import pytest
import torch

from pcarann.baselines.deeponet import DeepONet, trunk_features
from pcarann.metrics import relative_l2


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny networks lose more to waiting than they gain; the number of threads of others is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(**settings):
    defaults = {"channels": (4, 8), "widths": (32,), "trunk": (32, 32), "basis": 16, "rate": 1e-2, "batch": 10}
    return DeepONet(**{**defaults, "epochs": 5, "device": "cpu", **settings})


def test_periodic_features_are_equal_at_both_ends_of_a_closed_axis():
    features = trunk_features((3, 9), ("interval", "closed"), 2)
    assert features.shape == (27, 1 + 4)
    grid = features.reshape(3, 9, 5)
    np.testing.assert_allclose(grid[:, 0], grid[:, -1], atol=1e-14)
    np.testing.assert_array_equal(grid[:, 0, 0], [-1, 0, 1])


def test_features_are_those_worked_out_by_hand():
    np.testing.assert_allclose(trunk_features((4,), ("periodic",), 1), [[1, 0], [0, 1], [-1, 0], [0, -1]], atol=1e-15)


@pytest.mark.parametrize("branch", ["mlp", "cnn"])
@pytest.mark.parametrize("axes", [None, ("periodic", "periodic")])
def test_both_branches_learn_a_linear_operator(branch, axes):
    rng = np.random.default_rng(0)
    x = np.arange(12) / 12
    shapes = np.stack([wave(2 * np.pi * np.add.outer(x, x)) for wave in (np.cos, np.sin)])
    a = np.tensordot(rng.normal(size=(40, 2)), shapes, 1)
    u = 2 * a + 1
    model = small(branch=branch, axes=axes, epochs=80).fit(a, u)
    assert relative_l2(model.predict(a), u) < 0.1 < 0.5 < relative_l2(np.broadcast_to(u.mean(axis=0), u.shape), u)


def test_a_cnn_of_fields_on_one_axis_is_refused():
    a = np.random.default_rng(0).normal(size=(5, 7))
    with pytest.raises(ValueError, match="branch='cnn' needs input fields on two axes"):
        small(branch="cnn").fit(a, a)


def test_an_unknown_branch_and_a_wrong_number_of_axes_are_refused():
    a = np.random.default_rng(0).normal(size=(5, 7))
    with pytest.raises(ValueError, match="branch must be one of"):
        small(branch="transformer").fit(a, a)
    with pytest.raises(ValueError, match="axes names 2 kind"):
        small(axes=("interval", "periodic")).fit(a, a)
