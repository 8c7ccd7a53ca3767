"""How much each part of an input counts for the prediction: what swapping it between samples does.

    S_p = E‖f(a with part p of another sample) − f(a)‖² / (2 E‖f(a) − f̄‖²)

is the total Sobol index of part p (Jansen 1999) where parts are independent of each other: the share of the variance
that is lost with it, interactions counted. Samples are those of the training, and f is the surrogate itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.random import permutation, spread
from pcarann.ensemble.mean_and_spread import Ensemble

__all__ = ["shares_of_parts"]

_ROWS, _MEMBERS = 200, 4  # training samples, and members that are asked
_STREAM = (-41,)


def shares_of_parts(ensemble: Ensemble, x: Array, parts: Mapping[str, slice]) -> dict[str, float]:
    """The S_p of parts, each some of the values of an input, over their sum; x are training latents."""
    place, pca = place_of(x), ensemble.input_pca
    x = taken(x, spread(int(x.shape[0]), _ROWS))
    order = permutation(int(x.shape[0]), seed=0, stream=_STREAM)
    other = taken(x, [*order[1:], *order[:1]])
    x = taken(x, order)
    change, here = (other - x) @ pca.modes, _predicted(ensemble, x)
    found = {}
    for name, part in parts.items():
        swapped = place.zeros(*change.shape)
        swapped[:, part] = change[:, part]
        found[name] = float(place.xp.sum((_predicted(ensemble, x + pca.encode_change(swapped)) - here) ** 2))
    total = sum(found.values()) or 1.0
    return {name: energy / total for name, energy in found.items()}


def _predicted(ensemble: Ensemble, x: Array) -> Array:
    """Output latents, the mean over some members."""
    members = ensemble.members[:_MEMBERS]
    return sum(member(x) for member in members) / len(members)
