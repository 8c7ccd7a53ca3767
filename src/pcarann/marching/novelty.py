"""How far roll-outs lie from the training data, sample by sample and step by step.

The input of every step along the mean trajectory is compared with the training inputs, as `PCARaNN.novelty` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.marching.flow import Departure, Flow
from pcarann.marching.watch import finite_rows
from pcarann.uncertainty.novelty import LEVEL

__all__ = ["RolloutNovelty", "novelty_along"]


@dataclass(frozen=True)
class RolloutNovelty:
    """How far the inputs of each step lie from the training data."""

    p_value: Array
    """(samples, steps): probability that an input like the training ones is as far out in any respect"""
    reasons: tuple[tuple[str, ...], ...]
    """For each sample and step, in what respect it is farthest out, new or not"""

    def __str__(self) -> str:
        """Say how many roll-outs become new, from which step on, and in what respect the farthest of them."""
        p = to_host(self.p_value)
        new = p <= LEVEL
        i, t = (int(n) for n in np.unravel_index(p.argmin(), p.shape))
        begins = f" from step {int(new.any(axis=0).argmax()) + 1} of {p.shape[1]} on" if new.any() else ""
        return (
            f"{int(new.any(axis=1).sum())} of {len(p)} roll-outs have p ≤ {LEVEL:g}{begins}; sample {i} is farthest "
            f"out at step {t + 1}, p = {p[i, t]:.2g}: {self.reasons[i][t]}."
        )


def novelty_along(flow: Flow, departure: Departure) -> RolloutNovelty:
    """Look at the inputs of all steps, by blocks of samples; what is no number any more has p = 0."""
    model: Any = flow.model
    if not hasattr(model, "novelty"):
        raise ValueError("This step model cannot compare inputs with its training data: there is no novelty of it.")
    samples, steps = len(departure), flow.window
    p, reasons = np.zeros((samples, steps)), [["the roll-out is not finite any more"] * steps for _ in range(samples)]
    for rows in flow.parts(samples):
        part = departure.part(rows)
        mean, _ = flow.mean_and_std(part)
        for t, fields in enumerate(flow.inputs_along(part, mean)):
            alive = finite_rows(fields)
            mask = place_of(fields).xp.asarray(alive, device=place_of(fields).device)[:, None]
            found = model.novelty(model.look(model.inputs(place_of(fields).xp.where(mask, fields, 0.0))))
            if found is None:
                raise ValueError(
                    "This model was saved by an older pcarann, which did not keep what novelty needs: fit again."
                )
            p[rows, t] = np.where(alive, to_host(found.p_value), 0.0)
            for i in np.flatnonzero(alive):
                reasons[rows.start + int(i)][t] = found.reasons[int(i)]
    return RolloutNovelty(p, tuple(tuple(one) for one in reasons))
