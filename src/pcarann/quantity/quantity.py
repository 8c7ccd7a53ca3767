"""`Quantity`: what is wanted of a field, as a surrogate of its own.

    linear       q = Σ w û                  the mean over a region, a sensor, a flux
    nonlinear    q = f(û)                   a largest stress, an energy

A linear functional of a latent model is applied to its modes once (`pcarann.ensemble.functionals`): a call makes no
field, and spread and possible error outside the data are those of the value itself. Stages, roll-outs and functions
have no such form. They are evaluated on blocks of fields: the value is that of the mean field, the spread that of the
members' values, and nothing is added to it outside the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.containers.exchange import said_of_repeats
from pcarann.containers.labels import is_labelled_set
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Part, Side
from pcarann.ensemble.functionals import Functionals
from pcarann.fitted import Fitted
from pcarann.quantity.intervals import Calibrations
from pcarann.quantity.weights import Weights
from pcarann.uncertainty.bands import Band, Spread
from pcarann.uncertainty.conformal import ALPHA, check_level
from pcarann.uncertainty.fingerprints import distinct_samples
from pcarann.validation import check_fields, check_numeric, check_pair_lengths, warn_user

__all__ = ["Quantity"]

Function = Callable[[Any], Array]


class Quantity:
    """One quantity of interest of a fitted surrogate, or k of them; see `Surrogate.quantity`.

    It belongs to the state of the model in which it was asked for: after `partial_fit`, ask again.

    >>> import numpy as np
    >>> from pcarann import PCARaNN
    >>> x, frequency = np.linspace(0, 1, 64), np.random.default_rng(0).uniform(1, 3, (300, 1))
    >>> a, u = np.sin(frequency * x), np.cos(frequency * x) ** 2
    >>> model = PCARaNN(n_components=0.999999, widths=(100, 50), n_members=5).fit(a[:200], u[:200])
    >>> mean = model.quantity(np.full(64, 1 / 64))
    >>> bool(np.allclose(mean(a[200:]), model.predict(a[200:]).mean(axis=1), rtol=1e-10))
    True
    >>> mean.calibrate(a[200:250], u[200:250]).predict_interval(a[250:], alpha=0.1).lower.shape
    (50,)
    """

    def __init__(self, model: Any, of: Any, derivative: Function | None = None):
        if derivative is not None and not callable(of):
            raise ValueError("derivative is that of a function of fields: weights need none.")
        self._given = _Outputs.of(model.fitted_)
        self._derivative = derivative
        self._calibration: Calibrations | None = None
        fitted = model.fitted_
        self._source, self._model = copy(model), copy(model)
        self._weights = None if callable(of) else Weights.of(of, self._given.parts)
        self._function = of if self._weights is None else self._contracted
        self._closed = self._weights is not None and isinstance(fitted, Fitted)
        if self._weights is not None and isinstance(fitted, Fitted):
            self._model.fitted_ = _projected(fitted, self._weights)

    def __repr__(self) -> str:
        count = None if self._weights is None else self._weights.count
        kind = "function" if count is None else f"{count} linear functional{'s' * (count > 1)}"
        return f"<Quantity: {kind} of the fields of {type(self._source).__name__}>"

    @property
    def weights(self) -> Any:
        """Of linear functionals, an array or arrays by name, as `Surrogate.jacobian` takes them; None of a function"""
        return None if self._weights is None else self._weights.given

    def __call__(self, X: Any, **how: Any) -> Array:
        """The values of inputs X, (samples,) or (samples, k)."""
        return self._values(X, how)

    def predict(self, X: Any, return_std: bool = False, **how: Any) -> Any:
        """The values of inputs X, with their standard deviation if asked; a roll-out takes `steps`, `controls` too."""
        if not return_std:
            return self._values(X, how)
        found, shape = self._spread(X, how)
        return shape(found.mean), shape(found.std)

    def calibrate(self, X: Any, y: Any = None, *, values: Any = None, **how: Any) -> Quantity:
        """Calibrate intervals on samples that were used for nothing else: their true fields y, or true `values`.

        A warning says how many of them the model was trained on, as far as it can tell: by inputs and fields, or by
        inputs only where `values` are given. Trajectories with `values` are not recognised. Repeats of a sample count
        once, with a warning.
        """
        if (y is None) == (values is None):
            raise ValueError("calibrate needs either true fields y or true values of the quantity.")
        given, name = (values, "values") if y is None else (self._true(X, y, how), "the quantity of y")
        found, shape = self._spread(X, how)
        truth, grid = check_fields(given, name, place_of(found.mean), scalar=True)
        samples, wanted = int(truth.shape[0]), tuple(shape(found.mean).shape)
        check_pair_lengths(wanted[0], samples)
        if grid != wanted[1:]:
            raise ValueError(f"values must have the shape {wanted} of the quantity, found {(samples, *grid)}.")
        marks, said = self._source.checked_for_calibration(X, y, **how)
        if y is None and marks.size:
            marks = np.concatenate([marks.reshape(samples, -1), to_host(truth)], axis=1)
        labels = distinct_samples(marks, samples)
        self._calibration = Calibrations.of(found, truth, labels)
        warn_user(*(said or said_of_repeats(self._source.asked(**how), labels)))
        return self

    def predict_interval(self, X: Any, alpha: float = ALPHA, **how: Any) -> Band:
        """The values with intervals of level 1 − alpha, each quantity with its own quantile."""
        check_level(alpha, "sample")
        if self._calibration is None:
            raise NotFittedError("This quantity has no calibration: call calibrate(X, y) before predict_interval.")
        found, shape = self._spread(X, how)
        band = self._calibration.band(found, alpha)
        return Band(shape(band.mean), shape(band.std), shape(band.lower), shape(band.upper))

    def gradient(self, X: Any, **how: Any) -> Any:
        """The derivative of the values by the inputs, in the form of the inputs, with k after the samples.

        That of a function needs its derivative, which is handed to `Surrogate.quantity`.
        """
        self._source.asked(**how)
        if self._weights is not None:
            if self._closed and self._model.fitted_.ensemble.group is None:
                return self._model.jacobian(X, of=np.eye(self._weights.count) if self._weights.grid else 1.0)
            return self._source.jacobian(X, of=self.weights, **how)
        if self._derivative is None:
            raise ValueError("The gradient of a function needs its derivative: quantity(function, derivative).")
        fields = self._source.predict(X, **how)
        cotangents = self._derivative(fields)
        count = self._given.stacked(cotangents, fields)
        if count is None:
            return self._source.vjp(X, cotangents, **how)
        pulled = [self._source.vjp(X, self._given.layer(cotangents, j), **how) for j in range(count)]
        if not isinstance(pulled[0], Mapping):
            return place_of(pulled[0]).xp.stack(pulled, axis=1)
        return {
            name: place_of(part).xp.stack([one[name] for one in pulled], axis=1) for name, part in pulled[0].items()
        }

    def _contracted(self, fields: Any) -> Array:
        assert self._weights is not None
        return self._weights(self._given.opened(fields))

    def _of(self, fields: Any, samples: int) -> Array:
        """The values of so many fields, or a refusal of a function that gives others."""
        values = self._function(fields)
        shape = getattr(values, "shape", None)
        if shape is None or len(shape) not in (1, 2) or shape[0] != samples:
            found = type(values).__name__ if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                "The function of a quantity must give an array of shape (samples,) or (samples, k): "
                f"of {samples} samples it gave {found}."
            )
        return values

    def _true(self, X: Any, y: Any, how: dict[str, Any]) -> Array:
        """The values of true fields, which are refused where `Surrogate.calibrate` would."""
        fitted = self._source.asked(**how)
        packing, place, grid = fitted.packing, fitted.place, fitted.output_grid
        if packing is None:
            y = plain = check_numeric(y, "y")
        else:
            if not (packing.outputs.single or isinstance(y, Mapping) or is_labelled_set(y)):
                raise ValueError(
                    f"y must be the parts {', '.join(packing.outputs.names)}, as in fit, found {type(y).__name__}: "
                    "true values of the quantity go as values=."
                )
            packing.refuse_unaligned(X, y)
            plain, opened = packing.truth(y, place), packing.outputs.opened(y, "y")
            y = packing.outputs.container(opened.arrays, opened)
        check_fields(plain, "y", place, grid=grid, scalar=not grid, owner="the model")
        return self._of(y, int(plain.shape[0]))

    def _values(self, X: Any, how: dict[str, Any]) -> Any:
        if self._closed:
            self._source.asked(**how)
            return self._model.predict(X)
        blocks = [self._of(fields[0], rows.stop - rows.start) for rows, fields in self._model.predict_blocks(X, **how)]
        return blocks[0] if len(blocks) == 1 else place_of(blocks[0]).xp.concat(blocks, axis=0)

    def _spread(self, X: Any, how: dict[str, Any]) -> tuple[Spread, Callable[[Array], Array]]:
        """Values, their deviation and their possible error, (samples, k) each, and what brings them into shape."""
        if self._closed:
            self._source.asked(**how)
            found = self._model.predict_parts(X)
            parts, beyond = (found.mean, found.members), found.beyond
        else:
            blocks = self._model.predict_blocks(X, members=True, directions=True, **how)
            pairs = [self._over_members(fields, rows.stop - rows.start) for rows, fields in blocks]
            xp, beyond = place_of(pairs[0][0]).xp, None
            parts = tuple(xp.concat(list(part), axis=0) for part in zip(*pairs, strict=True))
        grid, xp = tuple(parts[0].shape[1:]), place_of(parts[0]).xp
        flat = [None if one is None else xp.reshape(one, (one.shape[0], -1)) for one in (*parts, beyond)]
        return Spread(flat[0], flat[1], flat[2]), lambda one: xp.reshape(one, (one.shape[0], *grid))

    def _over_members(self, fields: tuple[Any, ...], samples: int) -> tuple[Array, Array]:
        """The value of the mean field, which comes first, and its deviation: σ² = s² + Σⱼ (f(μ + L_j) − f(μ))².

        s² is the variance of the members' values, L_j are directions of left-out residuals, where the spread counts
        such: what their leading directions leave over is taken as proportional to them.
        """
        fitted = self._model.fitted_
        count, known = fitted.members, fitted.residual_spread
        mean, *others = (self._of(one, samples) for one in fields)
        xp = place_of(mean).xp
        members, moved = others[:count], others[count:]
        variance = xp.zeros_like(mean)
        if count > 1 and not (known is not None and known.alone):
            variance = xp.var(xp.stack(members), axis=0, correction=1)
        return mean, xp.sqrt(sum(((one - mean) ** 2 for one in moved), start=variance))


@dataclass(frozen=True, eq=False)
class _Outputs:
    """What fields are made of."""

    parts: dict[str, Part]
    packing: Packing | None

    @classmethod
    def of(cls, fitted: Any) -> _Outputs:
        packing = fitted.packing
        parts = (Part("", fitted.output_grid),) if packing is None else packing.outputs.parts
        return cls({part.name: part for part in parts}, packing)

    def opened(self, fields: Any) -> dict[str, Array]:
        """Fields as arrays by name."""
        if self.packing is not None:
            return self.packing.outputs.opened(fields, "y").arrays
        name, part = next(iter(self.parts.items()))
        if tuple(fields.shape[1:]) != part.grid:
            raise ValueError(f"There are fields of shape {tuple(fields.shape[1:])}, but weights on {part.grid}.")
        return {name: fields}

    def stacked(self, cotangents: Any, fields: Any) -> int | None:
        """How many cotangents a function's derivative has given for each field; None for one without an axis."""
        if isinstance(cotangents, Mapping):
            name = next(iter(cotangents))
            cotangents, fields = cotangents[name], fields[name]
        return int(cotangents.shape[1]) if cotangents.ndim > fields.ndim else None

    def layer(self, cotangents: Any, j: int) -> Any:
        """One of them."""
        if isinstance(cotangents, Mapping):
            return {name: part[:, j, ...] for name, part in cotangents.items()}
        return cotangents[:, j, ...]


def _projected(fitted: Fitted, weights: Weights) -> Fitted:
    """The record of a latent model whose outputs are the values of functionals."""
    inside = weights.side_by_side(fitted.packing, fitted.place)
    packing = fitted.packing
    if packing is not None:
        outputs = Side((Part("", weights.grid),), single=True)
        packing = replace(packing, outputs=outputs, output_code=None, mesh=None)
    ensemble = Functionals.of(fitted.ensemble, inside, weights.grid)
    return replace(fitted, ensemble=ensemble, packing=packing, calibration=None, adaptation=None)
