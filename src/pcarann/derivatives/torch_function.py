"""A surrogate as a function of torch tensors that autograd goes through, forward and back.

The derivative is the surrogate's own, in closed form: nothing is recorded but where it was taken. Numbers are float64;
gradients have the type of their inputs. Second derivatives are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pcarann.derivatives.fields import FieldDerivative

__all__ = ["torch_function"]


def torch_function(derivative: Callable[[Any], FieldDerivative]) -> Callable[[Any], Any]:
    """The function of one tensor, or of a mapping of them by name, that has this value and derivative."""
    call = _call()

    def function(X: Any) -> Any:
        names = tuple(X) if isinstance(X, Mapping) else None
        tensors = (X,) if names is None else tuple(X.values())
        if not all(hasattr(tensor, "requires_grad") for tensor in tensors):
            raise ValueError("X must be a torch tensor, or a mapping of torch tensors by name.")
        outputs: list[str] = []
        found = call.apply(derivative, names, outputs, *tensors)
        return found[0] if outputs == [""] else dict(zip(outputs, found, strict=True))

    return function


@cache
def _call() -> Any:
    """The class that autograd wants, made where torch is there."""
    try:
        import torch
    except ImportError:
        raise ValueError("as_torch needs PyTorch: install it with pip install 'pcarann[torch]'.") from None

    class Once(torch.autograd.Function):  # type: ignore[misc]
        """Nothing, which cannot be differentiated: autograd would take a gradient for a constant."""

        @staticmethod
        def forward(ctx: Any, gradient: Any) -> Any:
            return gradient.clone()

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise ValueError("A surrogate has no second derivatives: its gradient cannot be differentiated again.")

    class Call(torch.autograd.Function):  # type: ignore[misc]
        """Tensors in, tensors out; the derivative is kept between forward and back."""

        @staticmethod
        def forward(ctx: Any, derivative: Any, names: Any, found: Any, *tensors: Any) -> Any:
            plain = tuple(tensor.detach() for tensor in tensors)
            ctx.at = at = derivative(plain[0] if names is None else dict(zip(names, plain, strict=True)))
            ctx.names, ctx.shapes = names or ("",), tuple(tensor.shape for tensor in tensors)
            found.extend(part.name for part in at.outputs)
            return tuple(at.apart(at.rows.value, at.outputs).values())

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            at, again = ctx.at, torch.is_grad_enabled()
            parts = zip(gradients, at.outputs, strict=True)
            rows = [at.matrix(gradient, part, "the gradient") for gradient, part in parts]
            found = at.apart(at.rows.pull(at.place.xp.concat(rows, axis=1)), at.inputs)
            shaped = (found[name].reshape(shape) for name, shape in zip(ctx.names, ctx.shapes, strict=True))
            return (None, None, None, *(Once.apply(one.requires_grad_()) if again else one for one in shaped))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            at, given = ctx.at, dict(zip(ctx.names, tangents[3:], strict=True))
            rows = [
                at.place.zeros(at.samples, math.prod(part.grid))
                if given[part.name] is None
                else at.matrix(given[part.name].reshape(-1, *part.grid), part, "the tangent")
                for part in at.inputs
            ]
            return tuple(at.apart(at.rows.push(at.place.xp.concat(rows, axis=1)), at.outputs).values())

    return Call
