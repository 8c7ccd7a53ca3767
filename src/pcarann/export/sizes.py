"""How large the fields of a model are: whether single precision has such numbers, and in which unit it squares them.

float32 ends at 3e38 and 1e-38. Spreads are smaller than outputs by many digits, and intervals outside the training data
larger, so that outputs themselves must stay away from these ends. Squares leave them at half the digits already:
numbers are divided by a power of two before they are squared, which rounds nothing.
"""

from __future__ import annotations

import math
from typing import Any

from pcarann.backend.arrays import largest, place_of
from pcarann.containers.coding import InputCode
from pcarann.fitted import Fitted
from pcarann.spatial.fitted import FittedStages

__all__ = ["check_single", "square_unit"]

_OUTPUTS = (2.0**-80, 2.0**100)  # 1e-24 and 1e30, which leave fourteen digits below and eight above
_INPUTS = (2.0**-113, 2.0**117)  # 1e-34 and 2e35: of these values alone come in, some smaller or larger than others
_SQUARED = 2.0**16  # what numbers between this and its inverse squared make of thirteen digits below is still there


def check_single(fitted: Any) -> None:
    """Refuse fields that single precision cannot hold."""
    sides = ("Inputs", _input_sizes(fitted), _INPUTS), ("Outputs", _output_sizes(fitted), _OUTPUTS)
    for side, sizes, (least, most) in sides:
        for size in sizes:
            if size and not least < size < most:
                raise ValueError(f"{side} of size {size:.1g} do not fit into single precision: export in double.")


def square_unit(size: float) -> float:
    """The power of two by which fields of this size are divided before they are squared; 1 for ordinary ones.

    >>> square_unit(3.0), square_unit(0.0), square_unit(2.0**70 + 1)
    (1.0, 1.0, 1.1805916207174113e+21)
    """
    if not size or 1 / _SQUARED < size < _SQUARED:
        return 1.0
    return math.ldexp(1.0, math.frexp(size)[1] - 1)


def _output_sizes(fitted: Any) -> list[float]:
    """Of every output in the user's units."""
    inside = float(fitted.handed(fitted.output_size))
    code = None if fitted.packing is None else fitted.packing.output_code
    return [inside] if code is None else [inside * float(scale) for scale in code.scales]


def _input_sizes(fitted: Any) -> list[float]:
    """Of every input in the user's units, as far as the record knows."""
    step = getattr(fitted, "model", fitted)  # of a flow
    code = None if fitted.packing is None else fitted.packing.input_code
    if isinstance(code, InputCode):
        return [one.unit * largest(place_of(one.mean).xp.reshape(one.mean, (1, -1))) for one in code.codes]
    if isinstance(step, FittedStages):
        return [step.units.inputs * max(abs(end) for ends in step.value_range for end in ends)]
    assert isinstance(step, Fitted)
    pca = step.ensemble.input_pca
    xp = place_of(pca.mean).xp
    parts = pca.mean, pca.singular_values[:, None] * pca.modes / step.pca_samples**0.5  # energy is that in other units
    size = math.hypot(*(float(xp.linalg.vector_norm(part)) for part in parts))
    return [step.units.inputs * size / int(pca.mean.shape[0]) ** 0.5]
