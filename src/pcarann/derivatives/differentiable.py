"""The derivatives that every surrogate has, from its own: `jvp`, `vjp`, `jacobian`, `as_torch`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pcarann.backend.arrays import Array
from pcarann.backend.linearized import Linearized
from pcarann.derivatives.fields import FieldDerivative
from pcarann.derivatives.jacobian import jacobian
from pcarann.derivatives.torch_function import torch_function

__all__ = ["Differentiable"]


class Differentiable:
    """What knows its derivative between the arrays that it was fitted to, for users in the form of what they hold."""

    @abstractmethod
    def _linearized(self, X: Array, fitted: Any) -> Linearized:
        """(samples, values) of inputs as they are handed in, to those of outputs as they are handed out, at X.

        X is an array as the fitted record knows it, and is checked as for a prediction, with a warning where it leaves
        the data.
        """

    @abstractmethod
    def _require_fitted(self) -> Any:
        """The fitted record, or a refusal."""

    def jvp(self, X: Any, dX: Any) -> Any:
        """How predictions change with changes dX of the inputs: the derivative at X times dX, as predictions look."""
        return self._derivative(X).push(dX)

    def vjp(self, X: Any, dY: Any) -> Any:
        """The gradient of Σ dY · prediction by the inputs: the transposed derivative at X times dY, as inputs look."""
        return self._derivative(X).pull(dY)

    def jacobian(self, X: Any, of: Any = None) -> Any:
        """The derivative at X itself, or that of linear functionals of predictions.

        Whole, it is (samples, *output grid, *input grid). `of` are weights w on the outputs' grid, or a stack of them:
        Σ w · prediction has the derivative (samples, *input grid), or (samples, stack, *input grid). Several outputs
        have weights by name, 0 where a name is missing; an object with an attribute `weights` will do. Where inputs or
        outputs have names, so has the derivative, outputs first.
        """
        return jacobian(self._derivative(X), of)

    def as_torch(self) -> Callable[[Any], Any]:
        """The prediction as a function of tensors that autograd goes through, in float64, by `vjp` and `jvp`.

        It takes a tensor (samples, *grid) on any device, or a mapping of them by name, and returns the like.
        """
        self._require_fitted()
        return torch_function(self._derivative)

    def linearized(self, X: Array) -> Linearized:
        """Value and derivative at (samples, *grid) inputs as (samples, values) rows, for what stands on this one."""
        return self._linearized(X, self._require_fitted())

    def _derivative(self, X: Any) -> FieldDerivative:
        fitted = self._require_fitted()
        packing = fitted.packing
        plain, like = (X, None) if packing is None else packing.opened(X, fitted.place)

        def linearize(array: Array) -> Linearized:
            return self._linearized(array, fitted)

        names = getattr(fitted, "names", ())
        return FieldDerivative.at(linearize, plain, like=like, packing=packing, grid=fitted.output_grid, names=names)
