"""A surrogate of named parts that is handed the fields of stages, on which parts are stacked.

Stages may start from the prediction of a model of latents, which wants parts as they were: a number is the value of a
constant field anywhere.
"""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from pcarann.backend.arrays import Array
from pcarann.containers.stacking import InputStack

__all__ = ["Unstacked"]


class Unstacked(BaseEstimator):  # type: ignore[misc]
    """An estimator of parts by name, for (samples, components, *space) inputs that a stack made of them."""

    def __init__(self, model: Any, stack: InputStack):
        self.model = model
        self.stack = stack

    def fit(self, X: Array, y: Array) -> Self:
        """Fit the estimator to the parts."""
        self.model_ = clone(self.model).fit(self.stack.apart(X), y)
        return self

    def predict(self, X: Array) -> Array:
        """Predict from the parts."""
        return self.model_.predict(self.stack.apart(X))
