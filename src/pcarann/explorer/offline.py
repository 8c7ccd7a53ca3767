"""A model inside a page: its graph for every level of its intervals, as one JSON document for `local.js`.

{"graph": what `packed` writes, "inputs": {name of a tensor: name in the graph},
 "outputs": {"": {name of a tensor: name in the graph}, "0.1": the same with intervals of level 1 − 0.1, …}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.random import uniform
from pcarann.explorer.levels import joined
from pcarann.explorer.moving import movables_of
from pcarann.explorer.packed import Known, draws_in, packed
from pcarann.explorer.rounding import stored_kinds
from pcarann.explorer.sliders import Movable
from pcarann.export.graphs import graph_of

__all__ = ["offline", "probes"]

Values = np.ndarray[Any, np.dtype[Any]]

_PROBES = 4


def offline(model: Any, alphas: Sequence[float] = ()) -> dict[str, Any]:
    """The document of a fitted surrogate with intervals of these levels.

    Large constants have few bytes where predictions stay the same to seven digits for inputs that sliders reach.
    """
    graphs = {repr(float(alpha)): graph_of(model, alpha) for alpha in alphas}
    graph, outputs = joined(graphs or {"": graph_of(model)})
    inputs = dict(zip((one.tensor.name for one in movables_of(model)), (one.name for one in graph.inputs), strict=True))
    draws = list(draws_in(model.fitted_))
    known = Known(draws)
    drawn = [name for name, values in graph.constants.items() if known.among(values)]
    rows = {inputs[name]: values for name, values in probes(model).items()}
    kinds = stored_kinds(graph, rows, drawn)
    return {"graph": packed(graph, draws, kinds), "inputs": inputs, "outputs": outputs}


def probes(model: Any) -> Mapping[str, Values]:
    """Some inputs that sliders reach, by the names of tensors: the start, and others between the ends of sliders."""
    return {one.tensor.name: _reached(one, i) for i, one in enumerate(movables_of(model))}


def _reached(movable: Movable, number: int) -> Values:
    shares = uniform((_PROBES, len(movable.sliders)), seed=0, stream=(-30, number), place=place_of(None))
    rows = [movable.start]
    for row in shares:
        at = zip(movable.sliders, row, strict=True)
        rows.append(movable.at({one.label: one.low + float(share) * (one.high - one.low) for one, share in at}))
    return np.stack(rows).reshape(-1, *movable.tensor.shape)
