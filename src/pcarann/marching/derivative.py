"""The derivative of a roll-out: the chain of those of its steps, along each member's own trajectory.

    dû(t) = Φ̂ₖ′(û(t − s)) dû(t − s),   dû = du at the times that are given        forward
    ĉ(t − s) = c(t − s) + Φ̂ₖ′(û(t − s))ᵀ ĉ(t)                                     and back, from the last time on

and the mean over the members. Controls stay as they are. A value that is held, at three times all that was seen, does
not change any more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linearized import Linearized, in_blocks
from pcarann.backend.patience import look_up
from pcarann.derivatives.latent_model import linearized_member
from pcarann.fitted import Fitted
from pcarann.marching.flow import Departure, Flow
from pcarann.marching.watch import Watch
from pcarann.validation import warn_user

__all__ = ["linearized_flow"]

_KEPT_BYTES = 1 << 29  # of a block of roll-outs, all members and steps
_COPIES = 10  # of a field that the record of one step may keep


def linearized_flow(flow: Flow, X: Any) -> Linearized:
    """Mean trajectories with their derivative: (samples, times × values) to (samples, window × values), user's units.

    A warning says where roll-outs leave the training data.
    """
    departure = flow.departing(X)
    times, values = int(np.shape(X)[1]), int(np.prod(flow.model.output_grid))
    size = max(1, _KEPT_BYTES // (8 * _COPIES * flow.model.members * flow.window * values))
    later = in_blocks(lambda rows: _mean(flow, departure.part(rows)), len(departure), size)
    _warn(flow, departure, later.value)
    xp, unread = flow.place.xp, (times - flow.step) * values

    def pull(cotangents: Array) -> Array:
        return xp.concat([flow.place.zeros(len(departure), unread), later.pull(cotangents)], axis=1)

    return Linearized(later.value, lambda tangents: later.push(tangents[:, unread:]), pull)


def _mean(flow: Flow, departure: Departure) -> Linearized:
    """The mean over the members, from the snapshots that are read, side by side."""
    with np.errstate(over="ignore", invalid="ignore"):
        first, *others = (_rolled_out(flow, departure, member) for member in range(flow.model.members))
    total = first
    for other in others:
        total = total.plus(other)
    return total.scaled(1 / flow.model.members)


def _rolled_out(flow: Flow, departure: Departure, member: int) -> Linearized:
    """A member's trajectory; its steps are kept."""
    xp, s, most = flow.place.xp, flow.step, flow.most(departure.given)
    states, steps, free = list(departure.given), [], []
    for t in range(flow.window):
        look_up()
        steps.append(_step(flow.model, member, departure.inputs(t, states[t])))
        found = steps[t].value
        free.append(1.0 if most is None else xp.astype(xp.abs(found) < most, found.dtype))
        states.append(found if most is None else xp.clip(found, -most, most))
    values = int(states[0].shape[1])
    acting = 0 if departure.acting is None else int(departure.acting.shape[2]) * values

    def push(tangents: Array) -> Array:
        changes = _apart(tangents, values)
        for step, inside in zip(steps, free, strict=True):
            look_up()
            state = changes[len(changes) - s]
            still = flow.place.zeros(state.shape[0], acting)
            changes.append(step.push(xp.concat([state, still], axis=1)) * inside)
        return xp.concat(changes[s:], axis=1)

    def pull(cotangents: Array) -> Array:
        later = _apart(cotangents, values)
        wanted = [xp.zeros_like(later[0]) for _ in range(s)] + later
        for t in reversed(range(flow.window)):
            look_up()
            wanted[t] = wanted[t] + steps[t].pull(wanted[s + t] * free[t])[:, :values]
        return xp.concat(wanted[:s], axis=1)

    return Linearized(xp.concat(states[s:], axis=1), push, pull)


def _step(state: Any, member: int, inputs: Array) -> Linearized:
    """One step of a member, in the user's units."""
    if isinstance(state, Fitted):
        return linearized_member(state, member, inputs)
    if not hasattr(state, "member_linearized"):
        raise ValueError("This flow has no derivative, since its step has none: those of PCARaNN and Staged have.")
    found: Linearized = state.member_linearized(member, inputs)
    return found


def _apart(rows: Array, values: int) -> list[Array]:
    """Snapshots that stand side by side."""
    return [rows[:, i : i + values] for i in range(0, int(rows.shape[1]), values)]


def _warn(flow: Flow, departure: Departure, value: Array) -> None:
    """Look along mean trajectories, as a prediction does."""
    watch = Watch(flow.model, flow.step, flow.window, flow.reach)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in flow.parts(len(departure)):
            part = departure.part(rows)
            shape = (rows.stop - rows.start, flow.window, -1)
            mean = place_of(value).xp.reshape(flow.outputs(value[rows, :]), shape)
            watch.block(flow.inputs_along(part, mean), mean)
        said = watch.said()
    if said:
        warn_user(said)
