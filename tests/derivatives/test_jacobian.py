"""Jacobians: what products are with, whole and of functionals."""

from types import SimpleNamespace

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.derivatives import jacobian as module

SMALL = {"n_components": (4, 5), "widths": (20, 10), "n_members": 2, "scales": ("gain", 1.0, 1.0), "ridge": 1e-6}
RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3)) @ np.cos(np.outer(range(3), np.linspace(0, 3, 9)))
NUMBER = RNG.uniform(1, 2, 60)
pytestmark = pytest.mark.filterwarnings("ignore:n_components=.* is more than there are")


@pytest.fixture(scope="module", params=["more outputs", "fewer outputs"])
def model(request):
    outputs = np.stack([np.tanh(A), A**2], axis=1) if request.param == "more outputs" else np.tanh(A[:, :2])
    return PCARaNN(**SMALL).fit(A, outputs)


@pytest.fixture(scope="module")
def named():
    field = np.where(np.arange(9) == 3, np.nan, np.tanh(A) * NUMBER[:, None])
    return PCARaNN(**SMALL).fit({"a": A, "n": NUMBER}, {"u": field, "top": A[:, 0] * NUMBER})


@pytest.mark.parametrize("samples", [1, 3])
def test_the_whole_jacobian_has_products_as_its_rows_and_columns(model, samples):
    X = A[:samples]
    J, dX, dY = model.jacobian(X), RNG.normal(size=X.shape), RNG.normal(size=model.predict(X).shape)
    assert J.shape == (*dY.shape, 9)
    np.testing.assert_allclose(np.einsum("n...i,ni->n...", J, dX), model.jvp(X, dX), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.einsum("nji,nj->ni", J.reshape(samples, -1, 9), dY.reshape(samples, -1)),
                               model.vjp(X, dY), rtol=1e-9, atol=1e-12)  # fmt: skip


def test_many_samples_go_one_direction_at_a_time(model, monkeypatch):
    expected = model.jacobian(A[:5])
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    np.testing.assert_allclose(model.jacobian(A[:5]), expected, rtol=1e-9, atol=1e-12)


def test_functionals_have_the_products_of_the_jacobian_with_their_weights(model):
    J, grid = model.jacobian(A[:4]), model.predict(A[:1]).shape[1:]
    w = RNG.normal(size=(3, *grid))
    expected = np.einsum("nji,kj->nki", J.reshape(4, -1, 9), w.reshape(3, -1))
    np.testing.assert_allclose(model.jacobian(A[:4], of=w), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.jacobian(A[:4], of=w[0]), expected[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        model.jacobian(A[:4], SimpleNamespace(weights=w[0])), expected[:, 0], rtol=1e-9, atol=1e-12
    )


def test_more_functionals_than_inputs_have_the_same_rows(model, named):
    w = RNG.normal(size=(12, *model.predict(A[:1]).shape[1:]))
    apart = np.concatenate([model.jacobian(A[:4], of=w[:6]), model.jacobian(A[:4], of=w[6:])], axis=1)
    np.testing.assert_allclose(model.jacobian(A[:4], of=w), apart, rtol=1e-9, atol=1e-12)
    X, u = {"a": A[:2], "n": NUMBER[:2]}, np.where(np.arange(9) == 3, np.nan, RNG.normal(size=(12, 9)))
    found, first = named.jacobian(X, of={"u": u}), named.jacobian(X, of={"u": u[0]})
    np.testing.assert_allclose(found["a"][:, 0], first["a"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["n"][:, 0], first["n"], rtol=1e-9, atol=1e-12)


def test_parts_have_jacobians_by_name(named):
    X = {"a": A[:2], "n": NUMBER[:2]}
    J = named.jacobian(X)
    assert {out: {name: one.shape for name, one in of.items()} for out, of in J.items()} == {
        "u": {"a": (2, 9, 9), "n": (2, 9)},
        "top": {"a": (2, 9), "n": (2,)},
    }
    assert np.isnan(J["u"]["a"][:, 3]).all()
    assert np.isfinite(np.delete(J["u"]["a"], 3, axis=1)).all()
    dX = {"a": RNG.normal(size=(2, 9)), "n": RNG.normal(size=2)}
    pushed = np.einsum("nji,ni->nj", J["u"]["a"], dX["a"]) + J["u"]["n"] * dX["n"][:, None]
    np.testing.assert_allclose(pushed, named.jvp(X, dX)["u"], rtol=1e-9, atol=1e-12)
    of_top = named.jacobian(X, of={"top": 2.0})
    np.testing.assert_allclose(of_top["a"], 2 * J["top"]["a"], rtol=1e-9, atol=1e-12)
    w = np.where(np.arange(9) == 3, np.nan, 1.0)
    of_sum = named.jacobian(X, of={"u": w})
    np.testing.assert_allclose(of_sum["a"], np.nansum(J["u"]["a"], axis=1), rtol=1e-9, atol=1e-12)


def test_one_that_would_not_fit_is_refused_with_its_size(model, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match=r"The whole Jacobian of 3 sample\(s\), \d+ × 9 values each, takes .* GB"):
        model.jacobian(A[:3])


def test_weights_that_do_not_fit_are_refused(model, named):
    with pytest.raises(ValueError, match=r"of must have the shape of an output, .* or of a stack of these, found"):
        model.jacobian(A[:2], of=np.ones(7))
    with pytest.raises(ValueError, match=r"of must be weights on the outputs' grid, .* found function"):
        model.jacobian(A[:2], of=lambda u: u.mean())
    X = {"a": A[:2], "n": NUMBER[:2]}
    with pytest.raises(ValueError, match=r"by the names u, top, .* found the names v\."):
        named.jacobian(X, of={"v": 1.0})
    with pytest.raises(ValueError, match=r"by the names u, top, .* found ndarray\."):
        named.jacobian(X, of=np.ones(9))
    with pytest.raises(ValueError, match="of must have as many weights for every output"):
        named.jacobian(X, of={"u": np.ones(9), "top": np.ones(4)})
