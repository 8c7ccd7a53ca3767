"""Derivatives beside central differences, and forward beside back, for whatever users hold."""

from collections.abc import Mapping

import numpy as np

from pcarann.backend.arrays import place_of, to_host


def parts(value):
    """Arrays by name on the host."""
    named = value if isinstance(value, Mapping) else {"": value}
    wrapped = {name: hasattr(part, "dims") or hasattr(part, "columns") for name, part in named.items()}
    return {name: part.values if wrapped[name] else to_host(part) for name, part in named.items()}


def flat(value):
    """All numbers side by side, (samples, values), 0 for none."""
    return np.concatenate([np.nan_to_num(one).reshape(len(one), -1) for one in parts(value).values()], axis=1)


def like(value, function, kind=None):
    """The same kind of thing, each of its arrays made anew, or made of another kind."""
    if isinstance(value, Mapping):
        return {name: like(part, function, kind) for name, part in value.items()}
    if hasattr(value, "dims"):
        return value.copy(data=function(value.values))
    if hasattr(value, "columns"):
        return type(value)(function(value.values), columns=value.columns)
    made = function(to_host(value))
    return kind(made) if kind else place_of(value).put(made)


def moved(value, by, step):
    """value + step · by, of the same kind."""
    if isinstance(value, Mapping):
        return {name: moved(part, by[name], step) for name, part in value.items()}
    return value + step * by


def direction(value, rng):
    """A random change, a tenth of the largest value of each column, nothing where there are no values."""
    return like(value, lambda array: 0.1 * np.abs(array).max(axis=0) * rng.normal(size=array.shape))


def weights(value, rng):
    """Random cotangents, of a size that does not depend on the unit of each array."""
    return like(value, lambda array: rng.normal(size=array.shape) / np.nanmax(np.abs(array)))


def check(model, X, *, adjoint=1e-10, difference=1e-6, step=1e-4, differences=True):
    """Forward and back are adjoint, and forward is the limit of differences; returns both products."""
    rng = np.random.default_rng(1)
    prediction, dX = model.predict(X), direction(X, rng)
    dY = weights(prediction, rng)
    pushed, pulled = model.jvp(X, dX), model.vjp(X, dY)
    assert {name: part.shape for name, part in parts(pushed).items()} == {
        name: part.shape for name, part in parts(prediction).items()
    }
    assert {name: part.shape for name, part in parts(pulled).items()} == {
        name: part.shape for name, part in parts(X).items()
    }
    assert type(pushed) is type(prediction)
    assert np.array_equal(
        np.isnan(next(iter(parts(pushed).values()))), np.isnan(next(iter(parts(prediction).values())))
    )
    ahead, back = flat(pushed), flat(pulled)
    left, right = np.sum(ahead * flat(dY), axis=1), np.sum(flat(dX) * back, axis=1)
    size = np.sum(np.abs(ahead * flat(dY)), axis=1)
    assert np.all(size > 0)
    assert np.max(np.abs(left - right) / size) < adjoint
    if differences:
        apart = flat(model.predict(moved(X, dX, step))) - flat(model.predict(moved(X, dX, -step)))
        assert np.max(np.abs(ahead - apart / (2 * step))) < difference * np.max(np.abs(ahead))
    return pushed, pulled
