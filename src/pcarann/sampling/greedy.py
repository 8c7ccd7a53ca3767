"""Which candidates to solve next: those of which the surrogate would learn most, and which do not repeat each other.

Each candidate has a score sᵢ, how wrong its prediction may be, and each pair a correlation cᵢⱼ, how much the solution
of one tells of the other, given all that was learned before. With the Matérn kernel k of the model's weighted latents
and K = k(x, x) + λ over the training rows,

    C = k(z, z) − k(z, x) K⁻¹ k(x, z),        cᵢⱼ = Cᵢⱼ / √(Cᵢᵢ Cⱼⱼ)

Points are chosen one by one, each where Sᵢⱼ = sᵢ cᵢⱼ sⱼ is largest on its diagonal, and S is conditioned on it as if it
had been solved: S ← S − S·ᵢ Sᵢ· / Sᵢᵢ. So a batch does not crowd. What scores there are:

    error      √Cᵢᵢ times what leaving training samples out says of errors near the candidate, in units of their own √C
    variance   √Cᵢᵢ, which asks where samples are few, and not what the outputs do there
    interval   the size of the spread of the prediction, what leaving the data adds among it
    novelty    −log p of the input

Errors of samples left out come in closed form, eᵢ = (K⁻¹y)ᵢ / (K⁻¹)ᵢᵢ, with the variance 1 / (K⁻¹)ᵢᵢ. Stages and flows
keep no training inputs: they have intervals alone, and correlations of the candidates among each other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pcarann.backend.arrays import Array, cuts, place_of, taken, to_host
from pcarann.backend.linalg import cholesky, solve_cholesky, solve_lower
from pcarann.backend.random import permutation, spread
from pcarann.features.kernel import choose_length, matern52, median_distance, squared_distances
from pcarann.fitted import Fitted
from pcarann.latent.pca import fit_pca
from pcarann.surrogate import Surrogate
from pcarann.validation import check_count, check_fields, check_numeric, check_seed

__all__ = ["By", "next_points"]

By = Literal["error", "variance", "interval", "novelty"]

_STREAM = (0x6E657874,)  # "next" in ASCII
_MOST_CANDIDATES, _MOST_ROWS = 4000, 3000  # of which correlations are made
_PREDICTED = 256  # candidates at a time
_NEAR = 1 / 3  # of the median distance, within which errors of training samples tell of a candidate
_EVERYWHERE = 1e-3  # weight of samples further off
_LEAST_RIDGE, _ROUNDING = 1e-8, 1e-10  # of k(x, x) = 1: the latter what a difference of such kernels is known to
_ENERGY = 0.999  # of candidates, in the modes by which they are compared where a model has none

Values = np.ndarray[Any, np.dtype[Any]]


def next_points(model: Surrogate, candidates: Any, n: int, *, by: By = "error", random_state: Any = 0) -> Values:
    """The numbers of the n candidates to solve next, the most wanted first.

    Of more than 4000 candidates so many are drawn by `random_state`, which is of no effect otherwise. More points than
    these are not chosen at once.

    >>> from pcarann import PCARaNN
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> model = PCARaNN(0.9999, regressor="kernel", n_members=4).fit(x[:20], np.sin(6 * x[:20] + np.arange(3)))
    >>> bool((next_points(model, x, 3, by="variance") > 20).all())       # beyond what was learned
    True
    """
    if by not in get_args(By):
        raise ValueError(f"by must be one of {', '.join(get_args(By))}, got {by!r}.")
    if not isinstance(model, Surrogate):
        raise ValueError(f"model must be a surrogate, such as PCARaNN, found {type(model).__name__}.")
    check_is_fitted(model)
    fitted = model.fitted_
    if by != "interval" and not isinstance(fitted, Fitted):
        raise ValueError(
            f"by={by!r} needs training inputs, which {type(model).__name__} does not keep: use 'interval'."
        )
    arrays = _arrays(candidates, fitted)
    count, wanted = len(next(iter(arrays.values()))), check_count(n, "n")
    if wanted > count:
        raise ValueError(f"n must be at most the number of candidates, {count}, got {wanted}.")
    if wanted > _MOST_CANDIDATES:
        raise ValueError(f"n must be at most {_MOST_CANDIDATES}, of which correlations are made, got {wanted}.")
    seed = check_seed(random_state)
    among = np.arange(count)
    if count > _MOST_CANDIDATES:
        among = np.sort(np.asarray(permutation(count, seed=seed, stream=_STREAM)[:_MOST_CANDIDATES]))
    some = {name: _rows(array, among) for name, array in arrays.items()}
    with warnings.catch_warnings():  # candidates may well lie outside the data: that is why they are looked at
        warnings.simplefilter("ignore")
        scores, correlations = _judged(model, some, by)
    return among[_greedy(scores, correlations, wanted)]


def _arrays(candidates: Any, fitted: Any) -> dict[str, Array]:
    """Candidates as arrays by name, one without a name where there is one."""
    if fitted.packing is not None:
        found: dict[str, Array] = fitted.packing.inputs.opened(candidates, "candidates").arrays
    elif isinstance(candidates, Mapping) or not hasattr(candidates, "shape"):
        found = {"": check_numeric(candidates, "candidates")}
    else:
        found = {"": candidates}
    if not all(np.shape(array) for array in found.values()):
        raise ValueError(f"candidates must have shape (candidates, …), found {candidates!r}.")
    return found


def _rows(array: Any, rows: Any) -> Any:
    """Some of the candidates, of a table too: the model checks the names of its columns."""
    return array.iloc[rows] if hasattr(array, "iloc") else array[rows]


def _held(arrays: Mapping[str, Array]) -> Any:
    """What a model takes: one array, or a mapping of them."""
    return arrays[""] if set(arrays) == {""} else dict(arrays)


def _judged(model: Surrogate, arrays: Mapping[str, Array], by: By) -> tuple[Array, Array]:
    """Scores (candidates,) and correlations (candidates, candidates)."""
    fitted: Any = model.fitted_
    known = _Known.of(fitted, model, _held(arrays)) if isinstance(fitted, Fitted) else _among(arrays, fitted)
    place = place_of(known.covariance)
    xp = place.xp
    covariance = known.covariance + _ROUNDING * place.eye(int(known.covariance.shape[0]))
    deviations = xp.sqrt(xp.clip(xp.linalg.diagonal(covariance), min=_ROUNDING))
    correlations = covariance / (deviations[:, None] * deviations)
    if by == "variance":
        return deviations, correlations
    if by == "error":
        return deviations * known.wrong, correlations
    if by == "novelty":
        return -xp.log(place.put(model.novelty(_held(arrays)).p_value)), correlations
    return place.put(_widths(model, arrays)), correlations


@dataclass(frozen=True, eq=False)
class _Known:
    """Candidates beside what was learned."""

    covariance: Array
    """C"""
    wrong: Array | float = 1.0
    """Errors near each candidate, in units of their deviation"""

    @classmethod
    def of(cls, fitted: Fitted, model: Any, candidates: Any) -> _Known:
        """Candidates of a latent model, by its weighted latents."""
        x, y, _ = fitted.rows.joined()
        rows = spread(int(x.shape[0]), _MOST_ROWS)
        x, y = taken(x, rows), taken(y, rows)
        weighting = fitted.feature_map.weighting
        packing = fitted.packing
        plain = candidates if packing is None else packing.opened(candidates, fitted.place)[0]
        known, new = (weighting.weighted(part) for part in (x, fitted.ensemble.encode(fitted.checked(plain))))
        relative, ridge, _ = choose_length(x, y, weighting)
        unit = median_distance(known)
        length, ridge = relative * unit, max(ridge, _LEAST_RIDGE)
        eye = fitted.place.eye(len(rows))
        lower = cholesky(matern52(squared_distances(known, known), length) + ridge * eye)
        if lower is None:
            raise ValueError("The training inputs cannot be told apart in float64: there are no correlations.")
        between = solve_lower(lower, matern52(squared_distances(known, new), length))
        covariance = matern52(squared_distances(new, new), length) - between.T @ between
        near = matern52(squared_distances(new, known), _NEAR * unit) + _EVERYWHERE
        return cls(covariance, _wrong(near, solve_cholesky(lower, eye), y))


def _wrong(near: Array, inverse: Array, y: Array) -> Array:
    """Root mean square of the errors of samples left out, each in units of its deviation, with weights `near`."""
    xp = place_of(near).xp
    squares = xp.sum((inverse @ y) ** 2, axis=1) / xp.linalg.diagonal(inverse)
    return xp.sqrt((near @ squares) / xp.sum(near, axis=1))


def _among(arrays: Mapping[str, Array], fitted: Any) -> _Known:
    """Candidates among each other alone."""
    place = fitted.place
    flat = [check_fields(array, name or "candidates", place, scalar=True)[0] for name, array in arrays.items()]
    scaled = [part / (float(place.xp.std(part)) or 1.0) for part in flat]
    z = fit_pca(place.xp.concat(scaled, axis=1), _ENERGY, complain=lambda _: None)[1]
    return _Known(matern52(squared_distances(z, z), median_distance(z)))


def _widths(model: Surrogate, arrays: Mapping[str, Array]) -> Values:
    """The size of the spread of every prediction, all outputs alike."""
    found = []
    for rows in cuts(len(next(iter(arrays.values()))), _PREDICTED):
        _, std = model.predict(_held({name: _rows(array, rows) for name, array in arrays.items()}), return_std=True)
        parts = [std[name] for name in std] if isinstance(std, Mapping) or hasattr(std, "data_vars") else [std]
        found.append(np.stack([_norms(np.asarray(to_host(part)).reshape(len(part), -1)) for part in parts], axis=1))
    squares = np.stack([_capped(column) for column in np.concatenate(found).T], axis=1) ** 2
    means = squares.mean(axis=0)
    return np.asarray(np.sqrt((squares / np.where(means > 0, means, 1.0)).sum(axis=1)))


def _norms(rows: Values) -> Values:
    """Euclidean norms, nothing where there are no values, of numbers whose squares may be none."""
    rows = np.where(np.isnan(rows), 0.0, rows)
    most = np.abs(rows).max(axis=1, keepdims=True)
    unit = np.where((most > 0) & np.isfinite(most), most, 1.0)
    return np.asarray(unit[:, 0] * np.linalg.norm(rows / unit, axis=1))


def _capped(scores: Array) -> Array:
    """Scores in units of the largest finite one, twice that where they are not finite: squares are numbers."""
    xp = place_of(scores).xp
    finite = xp.isfinite(scores)
    most = float(xp.max(xp.where(finite, scores, 0.0)))
    return xp.where(finite, scores / (most or 1.0), 2.0)


def _greedy(scores: Array, correlations: Array, n: int) -> list[int]:
    """Choose one by one where the conditioned variance is largest."""
    xp = place_of(correlations).xp
    scores = _capped(scores)
    S = scores[:, None] * correlations * scores
    chosen: list[int] = []
    for _ in range(n):
        left = xp.linalg.diagonal(S) + 0.0
        for i in chosen:
            left[i] = -math.inf
        best = int(xp.argmax(left))
        column, variance = S[:, best] + 0.0, float(S[best, best])
        chosen.append(best)
        if variance > 0:
            S = S - column[:, None] * (column / variance)
    return chosen
