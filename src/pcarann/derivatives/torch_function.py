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
        """Work on tensors that cannot be differentiated, tied to them: autograd would take it for a constant."""

        @staticmethod
        def forward(ctx: Any, work: Any, *tensors: Any) -> Any:
            return work(*tensors)

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise ValueError("A surrogate has no second derivatives: its gradient cannot be differentiated again.")

        jvp = backward

    class Call(torch.autograd.Function):  # type: ignore[misc]
        """Tensors in, tensors out; the derivative is kept between forward and back."""

        @staticmethod
        def forward(ctx: Any, derivative: Any, names: Any, found: Any, *tensors: Any) -> Any:
            plain = tuple(tensor.detach() for tensor in tensors)
            ctx.at = at = derivative(plain[0] if names is None else dict(zip(names, plain, strict=True)))
            ctx.names, ctx.shapes = names or ("",), tuple(tensor.shape for tensor in tensors)
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            found.extend(part.name for part in at.outputs)
            return tuple(at.apart(at.rows.value, at.outputs).values())

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            at, names, shapes = ctx.at, ctx.names, ctx.shapes

            def pull(*tensors: Any) -> Any:
                parts = zip(tensors[: len(gradients)], at.outputs, strict=True)
                rows = [at.matrix(gradient.detach(), part, "the gradient") for gradient, part in parts]
                found = at.apart(at.rows.pull(at.place.xp.concat(rows, axis=1)), at.inputs)
                return tuple(found[name].reshape(shape) for name, shape in zip(names, shapes, strict=True))

            return (None, None, None, *Once.apply(pull, *gradients, *ctx.saved_tensors))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            at, names = ctx.at, ctx.names

            def push(*tensors: Any) -> Any:
                given = dict(zip(names, tensors, strict=False))  # the inputs come after
                rows = [
                    at.place.zeros(at.samples, math.prod(part.grid))
                    if given[part.name] is None
                    else at.matrix(given[part.name].detach().reshape(-1, *part.grid), part, "the tangent")
                    for part in at.inputs
                ]
                return tuple(at.apart(at.rows.push(at.place.xp.concat(rows, axis=1)), at.outputs).values())

            return Once.apply(push, *tangents[3:], *ctx.saved_tensors)

    return Call
