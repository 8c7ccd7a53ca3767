"""What left-out samples show of the error, as arrays of a file, and back, every part checked."""

from __future__ import annotations

import math
from typing import Any

from pcarann.backend.arrays import to_host
from pcarann.ensemble.residual_spread import DIRECTIONS, ResidualSpread
from pcarann.features.posterior import MOST_PIVOTS, KernelPosterior
from pcarann.latent.weighting import Weighting
from pcarann.storage.arrays import Arrays
from pcarann.storage.formats import Tensors

__all__ = ["described_spread", "rebuilt_spread"]

_NAME = "residual_spread"
_NUMBERS = ("length", "nugget", "unit")


def described_spread(spread: ResidualSpread | None, tensors: Tensors) -> dict[str, Any] | None:
    """Add the arrays of a spread; return the rest of it."""
    if spread is None:
        return None
    tensors |= {f"{_NAME}.{name}": to_host(getattr(spread, name)) for name in ("directions", "rest")}
    posterior = spread.posterior
    if posterior is None:
        return {"posterior": None}
    tensors[f"{_NAME}.points"] = to_host(posterior.points)
    return {"posterior": {name: getattr(posterior, name) for name in _NUMBERS}}


def rebuilt_spread(
    described: dict[str, Any] | None, values: int, arrays: Arrays, weighting: Weighting | None = None, latents: int = 0
) -> ResidualSpread | None:
    """The spread of so many output values; that of a kernel needs its weighting and number of input latents."""
    if described is None:
        return None
    directions, rest = arrays(f"{_NAME}.directions"), arrays(f"{_NAME}.rest", values)
    xp = arrays.place.xp
    if directions.ndim != 2 or not 0 < directions.shape[0] <= DIRECTIONS or directions.shape[1] != values:
        raise ValueError(f"{_NAME}.directions has shape {tuple(directions.shape)} instead of (1 to 8, {values})")
    if not bool(xp.all(rest >= 0)):
        raise ValueError(f"{_NAME}.rest has negative variances")
    found = described["posterior"]
    if found is None:
        return ResidualSpread(directions, rest)
    points = arrays(f"{_NAME}.points")
    length, nugget, unit = (float(found[name]) for name in _NUMBERS)
    if weighting is None or points.ndim != 2 or not 0 < points.shape[0] <= MOST_PIVOTS or points.shape[1] != latents:
        raise ValueError(f"{_NAME}.points do not fit its PCA")
    if not all(0 < number < math.inf for number in (length, nugget, unit)):
        raise ValueError("its posterior has a length, nugget or unit that is not positive")
    posterior = KernelPosterior(points, length, weighting, nugget, unit)
    _ = posterior.lower  # refuses points that have no factor
    return ResidualSpread(directions, rest, posterior)
