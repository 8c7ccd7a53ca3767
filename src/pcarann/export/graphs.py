"""The graph of a surrogate: from its inputs by name to its outputs by name, with spread and intervals.

    u          the mean
    u.std      its standard deviation
    u.lower    the interval of level 1 − alpha,
    u.upper      where the surrogate is calibrated
    novelty    the p-value of each input among those of the training, where the surrogate knows it; of a roll-out that
               of the input of each step

Each kind of record is written by a function of its own; what is common to all of them, names, units and intervals,
stands here. Outputs are those of `predict`, `predict_interval` and `novelty` to rounding, outside the training data
too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sklearn.exceptions import NotFittedError

from pcarann.export.doors import by_name, entered
from pcarann.export.flow import write_flow
from pcarann.export.graph import Graph, Sheet, Value
from pcarann.export.latent_model import write_latent_model
from pcarann.export.signature import NOVELTY, Signature
from pcarann.export.sizes import square_unit
from pcarann.export.stages import write_stages
from pcarann.export.written import Written, factor_of
from pcarann.fitted import Fitted
from pcarann.marching.flow import Flow
from pcarann.spatial.fitted import FittedStages
from pcarann.uncertainty.conformal import ALPHA, Method, check_level

__all__ = ["graph_of", "level_of"]

Writer = Callable[[Sheet, Any, Value], Written]
"""Writes the prediction of a record for (samples, values) inputs in the user's units"""

_WRITERS: dict[type, Writer] = {Fitted: write_latent_model, FittedStages: write_stages, Flow: write_flow}


def graph_of(
    model: Any,
    alpha: float | None = None,
    method: Method = "sample",
    *,
    steps: int | None = None,
    mean_only: bool = False,
) -> Graph:
    """All that a fitted surrogate predicts, as a graph; with intervals of level 1 − alpha where it is calibrated.

    None for alpha is 0.05 where there is a calibration, and no interval where there is none. A flow is written over so
    many steps, those of its fit unless told. `mean_only` leaves out all but the mean: runtimes compute every output of
    a graph, whatever they are asked for.
    """
    alpha, fitted = level_of(model, alpha, method, steps=steps, mean_only=mean_only), _asked(model, steps)
    signature, sheet = Signature.of(model, steps), Sheet()
    found = _writer(model, fitted)(sheet, fitted, entered(sheet, signature, fitted.packing))
    found = replace(found, unit=square_unit(fitted.output_size))
    parts = {"": found.mean} if mean_only else {"": found.mean, ".std": found.std}
    if alpha is not None:
        factor = factor_of(fitted.calibration, alpha, method, _values(fitted))
        half = found.half_width(factor, fitted.calibration.floor)
        with sheet.loosely():
            parts |= {".lower": found.mean - half, ".upper": found.mean + half}
    outputs: dict[str, tuple[Value, tuple[int, ...]]] = {}
    for suffix, fields in parts.items():
        with sheet.loosely():
            outputs |= by_name(sheet, signature, fitted.packing, fitted.handed(fields), suffix)
    if found.novelty is not None and not mean_only:
        shape = () if signature.steps is None else (signature.steps,)
        outputs[NOVELTY] = found.novelty, shape
    return sheet.graph(outputs)


def level_of(
    model: Any,
    alpha: float | None = None,
    method: Method = "sample",
    *,
    steps: int | None = None,
    mean_only: bool = False,
) -> float | None:
    """The alpha of the intervals of a graph: what is asked for, or 0.05; None where there are no intervals.

    A roll-out has none beyond the steps that it was calibrated for.
    """
    fitted = _asked(model, steps)
    check_level(ALPHA if alpha is None else alpha, method)
    if mean_only:
        if alpha is not None:
            raise ValueError("The mean alone has no intervals: leave out alpha, or ask for all outputs.")
        return None
    reaches = fitted.calibration is not None and (steps is None or fitted.calibration.points >= _values(fitted))
    if reaches and not fitted.stale:
        return ALPHA if alpha is None else float(alpha)
    if alpha is not None:
        why = "has no calibration" if fitted.calibration is None else "has a stale calibration"
        why = why if reaches or fitted.calibration is None else "was calibrated for fewer steps"
        raise NotFittedError(f"This {type(model).__name__} {why}: call calibrate(X, y) before intervals are exported.")
    return None


def _asked(model: Any, steps: int | None) -> Any:
    return model.asked() if steps is None else model.asked(steps=steps)


def _values(fitted: Any) -> int:
    return math.prod(fitted.output_grid)


def _writer(model: Any, fitted: Any) -> Writer:
    for kind, write in _WRITERS.items():
        if isinstance(fitted, kind):
            return write
    raise ValueError(f"A {type(model).__name__} cannot be written as a graph.")
