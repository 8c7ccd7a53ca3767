"""How much each part of an input does to the prediction: what swapping it between samples changes.

    S_p = E‖f(a with part p of another sample) − f(a)‖² / (2 E‖f(a) − f̄‖²)

is the total Sobol index of part p (Jansen 1999) where parts are independent of each other: the share of the variance
that is lost with it, interactions included, so that indices sum to 1 without interactions and to more with them.
Samples are those of the training, and f is the mean of the surrogate. A part is a named part, a column of a table, a
channel, or one latent of a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.random import permutation, spread
from pcarann.ensemble.mean_and_spread import Ensemble

__all__ = ["effects_of_latents", "effects_of_values"]

_ROWS, _MEMBERS = 200, 4  # training samples and members that are evaluated
_STREAM = (-41,)


def effects_of_values(ensemble: Ensemble, x: Array, parts: Mapping[str, slice]) -> dict[str, float]:
    """The S_p of parts, each some of the values of an input; x are training latents, (samples, latent)."""
    pca = ensemble.input_pca

    def of_part(change: Array, part: slice) -> Array:
        values = change @ pca.modes
        swapped = place_of(x).zeros(*values.shape)
        swapped[:, part] = values[:, part]
        return pca.encode_change(swapped)

    return _effects(ensemble, x, parts, of_part)


def effects_of_latents(ensemble: Ensemble, x: Array, count: int) -> dict[str, float]:
    """The S_p of the `count` leading input latents; they are uncorrelated over the training samples."""

    def of_latent(change: Array, part: slice) -> Array:
        swapped = place_of(x).zeros(*change.shape)
        swapped[:, part] = change[:, part]
        return swapped

    leading = range(min(count, int(x.shape[1])))
    return _effects(ensemble, x, {f"latent {j}": slice(j, j + 1) for j in leading}, of_latent)


def _effects(
    ensemble: Ensemble, x: Array, parts: Mapping[str, slice], change_of: Callable[[Array, slice], Array]
) -> dict[str, float]:
    xp = place_of(x).xp
    x = taken(x, spread(int(x.shape[0]), _ROWS))
    order = permutation(int(x.shape[0]), seed=0, stream=_STREAM)
    other = taken(x, [*order[1:], *order[:1]])
    x = taken(x, order)
    here = _predicted(ensemble, x)
    variance = float(xp.sum((here - xp.mean(here, axis=0)) ** 2)) or 1.0
    changes = {name: _predicted(ensemble, x + change_of(other - x, part)) - here for name, part in parts.items()}
    return {name: float(xp.sum(change**2)) / (2 * variance) for name, change in changes.items()}


def _predicted(ensemble: Ensemble, x: Array) -> Array:
    """Output latents, the mean over some members."""
    members = ensemble.members[:_MEMBERS]
    return sum(member(x) for member in members) / len(members)
