"""The derivative of one member of a fitted model, in the user's units."""

import numpy as np
import pytest

from conftest import smooth_pairs
from pcarann import Fields, PCARaNN
from pcarann.derivatives.latent_model import linearized_at, linearized_member

DATA = smooth_pairs(60, seed=2, points=12)


@pytest.mark.filterwarnings("ignore:n_components=.* is more than there are")
def test_members_have_derivatives_whose_mean_is_that_of_the_model():
    options = {"n_components": (5, 6), "widths": (30, 20), "n_members": 3, "scales": ("gain", 1.0, 1.0), "ridge": 1e-8}
    model = PCARaNN(fields=Fields(smoothing=0.1), **options).fit(1e200 * DATA.inputs, DATA.outputs)
    fitted, X, rng = model.fitted_, 1e200 * DATA.inputs[:4], np.random.default_rng(0)
    dX, dY, h = 1e199 * rng.normal(size=(4, 12)), rng.normal(size=(4, 24)), 1e-4
    members = [linearized_member(fitted, k, X) for k in range(3)]
    for k, member in enumerate(members):
        np.testing.assert_allclose(member.value, fitted.member_step(k, X), rtol=1e-9, atol=1e-11)
        apart = (fitted.member_step(k, X + h * dX) - fitted.member_step(k, X - h * dX)) / (2 * h)
        np.testing.assert_allclose(member.push(dX), apart, rtol=1e-6, atol=1e-7)
    whole = linearized_at(fitted, fitted.look(fitted.checked(X)))
    np.testing.assert_allclose(np.mean([m.push(dX) for m in members], axis=0), whole.push(dX), rtol=1e-9, atol=1e-12)
    pulled = np.mean([1e200 * member.pull(dY) for member in members], axis=0)
    np.testing.assert_allclose(pulled, 1e200 * whole.pull(dY), rtol=1e-9, atol=1e-12)
