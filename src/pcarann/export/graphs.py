"""The graph of a surrogate: from its inputs by name to its outputs by name, with spread and intervals.

    u          the mean
    u.std      its standard deviation
    u.lower    the interval of level 1 − alpha,
    u.upper      where the surrogate is calibrated
    novelty    the p-value of each input among those of the training, where the surrogate knows it

Each kind of record is written by a function of its own; what is common to all of them, names, units and intervals,
stands here. Outputs are those of `predict`, `predict_interval` and `novelty` to rounding, outside the training data
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sklearn.exceptions import NotFittedError

from pcarann.export.doors import by_name, entered
from pcarann.export.graph import Graph, Sheet, Value
from pcarann.export.latent_model import write_latent_model
from pcarann.export.signature import Signature
from pcarann.export.written import Written, factor_of
from pcarann.fitted import Fitted
from pcarann.uncertainty.conformal import Method, check_level

__all__ = ["ALPHA", "graph_of", "level_of"]

ALPHA = 0.1
"""Of the intervals of a calibrated surrogate, unless another is asked for"""

Writer = Callable[[Sheet, Any, Value], Written]
"""Writes the prediction of a record for (samples, values) inputs in the user's units"""

_WRITERS: dict[type, Writer] = {Fitted: write_latent_model}


def graph_of(model: Any, alpha: float | None = None, method: Method = "sample") -> Graph:
    """All that a fitted surrogate predicts, as a graph; with intervals of level 1 − alpha where it is calibrated.

    None for alpha is 0.1 where there is a calibration, and no interval where there is none.
    """
    alpha, fitted = level_of(model, alpha, method), model.asked()
    signature, sheet = Signature.of(model), Sheet()
    found = _writer(model, fitted)(sheet, fitted, entered(sheet, signature, fitted.packing))
    parts = {"": found.mean, ".std": found.std}
    if alpha is not None:
        factor = factor_of(fitted.calibration, alpha, method, math.prod(fitted.output_grid))
        half = found.half_width(factor, fitted.calibration.floor)
        with sheet.loosely():
            parts |= {".lower": found.mean - half, ".upper": found.mean + half}
    outputs: dict[str, tuple[Value, tuple[int, ...]]] = {}
    for suffix, fields in parts.items():
        with sheet.loosely():
            outputs |= by_name(sheet, signature, fitted.packing, fitted.handed(fields), suffix)
    if found.novelty is not None:
        outputs["novelty" if "novelty" not in outputs else "novelty.p_value"] = found.novelty, ()
    return sheet.graph(outputs)


def level_of(model: Any, alpha: float | None = None, method: Method = "sample") -> float | None:
    """The alpha of the intervals of a graph: what is asked for, or 0.1; None where there are no intervals."""
    fitted = model.asked()
    check_level(ALPHA if alpha is None else alpha, method)
    if fitted.calibration is not None and not fitted.stale:
        return ALPHA if alpha is None else float(alpha)
    if alpha is not None:
        why = "has no calibration" if fitted.calibration is None else "has a stale calibration"
        raise NotFittedError(f"This {type(model).__name__} {why}: call calibrate(X, y) before intervals are exported.")
    return None


def _writer(model: Any, fitted: Any) -> Writer:
    for kind, write in _WRITERS.items():
        if isinstance(fitted, kind):
            return write
    raise ValueError(f"A {type(model).__name__} cannot be written as a graph.")
