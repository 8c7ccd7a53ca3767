"""A surrogate as a function of torch tensors that autograd goes through, forward and back.

The derivative is the surrogate's own, in closed form: nothing is recorded but where it was taken. Numbers are float64;
gradients have the type of their inputs. Second derivatives are refused.
"""

from __future__ import annotations

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
        holder: list[tuple[str, ...]] = []
        found = call.apply(derivative, names, holder, *tensors)
        return found[0] if holder[0] == ("",) else dict(zip(holder[0], found, strict=True))

    return function


@cache
def _call() -> Any:
    """The class that autograd wants, made where torch is there."""
    try:
        import torch
    except ImportError:
        raise ValueError("as_torch needs PyTorch: install it with pip install 'pcarann[torch]'.") from None

    class Call(torch.autograd.Function):  # type: ignore[misc]
        """Tensors in, tensors out; the derivative is kept between forward and back."""

        @staticmethod
        def forward(ctx: Any, derivative: Any, names: Any, holder: Any, *tensors: Any) -> Any:
            plain = tuple(tensor.detach() for tensor in tensors)
            ctx.at = derivative(plain[0] if names is None else dict(zip(names, plain, strict=True)))
            ctx.names, ctx.shapes = names, tuple(tensor.shape for tensor in tensors)
            holder.append(tuple(part.name for part in ctx.at.outputs))
            return tuple(ctx.at.apart(ctx.at.rows.value, ctx.at.outputs).values())

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *grads: Any) -> Any:
            at = ctx.at
            rows = [at.matrix(grad, part, "the gradient") for grad, part in zip(grads, at.outputs, strict=True)]
            found = at.apart(at.rows.pull(at.place.xp.concat(rows, axis=1)), at.inputs)
            order = tuple(found) if ctx.names is None else ctx.names
            return (
                None,
                None,
                None,
                *(found[name].reshape(shape) for name, shape in zip(order, ctx.shapes, strict=True)),
            )

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            at, given = ctx.at, tangents[3:]
            order = ("",) if ctx.names is None else ctx.names
            by_name = {
                name: at.place.xp.zeros(shape) if tangent is None else tangent
                for name, tangent, shape in zip(order, given, ctx.shapes, strict=True)
            }
            rows = [at.matrix(by_name[part.name].reshape(-1, *part.grid), part, "the tangent") for part in at.inputs]
            return tuple(at.apart(at.rows.push(at.place.xp.concat(rows, axis=1)), at.outputs).values())

    return Call
