"""The surrogate as a torch function: autograd and its own check go through it."""

import sys

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.derivatives import torch_function as module

SMALL = {"n_components": (4, 5), "widths": (20, 10), "n_members": 2, "scales": ("gain", 1.0, 1.0), "ridge": 1e-6}
RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3)) @ np.cos(np.outer(range(3), np.linspace(0, 3, 6)))
NUMBER = RNG.uniform(1, 2, 60)
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),  # which torch itself calls
    pytest.mark.filterwarnings("ignore:n_components=.* is more than there are"),
    pytest.mark.filterwarnings("ignore:.*outside the training data"),
    pytest.mark.filterwarnings("ignore:.*are unlike those of the training"),
]


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**SMALL).fit(A, np.tanh(A)[:, None, :3])


@pytest.fixture(scope="module")
def named():
    outputs = {"u": np.where(np.arange(6) == 2, np.nan, np.tanh(A)), "top": A[:, 0] * NUMBER}
    return PCARaNN(**SMALL).fit({"a": A, "n": NUMBER}, outputs)


def test_gradcheck_passes_forward_and_back(model):
    torch = pytest.importorskip("torch")
    X = torch.tensor(A[:3], requires_grad=True)
    assert torch.autograd.gradcheck(model.as_torch(), (X,), check_forward_ad=True)


def test_it_is_the_prediction_and_its_gradient_the_vjp(model):
    torch = pytest.importorskip("torch")
    X = torch.tensor(A[:3], requires_grad=True)
    found = model.as_torch()(2 * X)
    np.testing.assert_allclose(found.detach(), model.predict(2 * A[:3]), rtol=1e-12, atol=1e-13)
    dY = RNG.normal(size=found.shape)
    found.backward(torch.tensor(dY))
    np.testing.assert_allclose(X.grad, 2 * model.vjp(2 * A[:3], dY), rtol=1e-12, atol=1e-13)


def test_parts_go_by_name(named):
    torch = pytest.importorskip("torch")
    function, there = named.as_torch(), [0, 1, 3, 4, 5]

    def numbers(n, a):
        found = function({"n": n, "a": a})
        return found["u"][:, there], found["top"]

    X = (torch.tensor(NUMBER[:2], requires_grad=True), torch.tensor(A[:2], requires_grad=True))
    assert torch.autograd.gradcheck(numbers, X, check_forward_ad=True)
    assert torch.autograd.gradcheck(lambda a: numbers(X[0].detach(), a), X[1:], check_forward_ad=True)


def test_gradients_have_the_type_of_their_inputs(model):
    torch = pytest.importorskip("torch")
    X = torch.tensor(A[:2], dtype=torch.float32, requires_grad=True)
    found = model.as_torch()(X)
    assert found.dtype == torch.float64
    found.sum().backward()
    assert X.grad.dtype == torch.float32


def test_second_derivatives_and_other_arrays_are_refused(model):
    torch = pytest.importorskip("torch")
    X = torch.tensor(A[:2], requires_grad=True)
    (slope,) = torch.autograd.grad(model.as_torch()(X).sum(), X, create_graph=True)
    with pytest.raises(ValueError, match="has no second derivatives"):
        (slope.sum() + X.sum()).backward()
    with pytest.raises(ValueError, match="has no second derivatives"):
        torch.autograd.grad((slope**2).sum(), X)
    with pytest.raises(ValueError, match="X must be a torch tensor, or a mapping of torch tensors by name"):
        model.as_torch()(A)


def test_no_second_derivative_is_taken_for_zero(named):
    torch = pytest.importorskip("torch")
    forward = torch.autograd.forward_ad
    X = torch.tensor(A[:2], requires_grad=True)

    def squares(a):
        return (named.as_torch()({"a": a, "n": torch.tensor(NUMBER[:2])})["top"] ** 2).sum()

    with forward.dual_level():
        value = squares(forward.make_dual(X, torch.ones_like(X)))
        tangent = forward.unpack_dual(value).tangent
        for ask in (
            lambda: torch.autograd.functional.hessian(squares, X),
            lambda: (tangent + X.sum()).backward(),  # back over forward
            lambda: torch.autograd.grad(value, X),  # forward over back
        ):
            with pytest.raises(ValueError, match="has no second derivatives"):
                ask()


def test_without_torch_one_sentence_says_so(model, monkeypatch):
    module._call.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="as_torch needs PyTorch"):
        model.as_torch()
