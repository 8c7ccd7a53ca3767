"""The derivative of a fitted model of latents: units, smoothing, ensemble, units."""

from __future__ import annotations

from dataclasses import replace

from pcarann.backend.arrays import Array
from pcarann.backend.linearized import Linearized
from pcarann.ensemble.linearization import linearized_mean
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.fitted import Fitted
from pcarann.uncertainty.look import Look

__all__ = ["linearized_at", "linearized_member"]


def linearized_at(fitted: Fitted, look: Look) -> Linearized:
    """The mean prediction at encoded inputs, (samples, values) in and out in the user's units."""
    return _in_user_units(fitted, fitted.ensemble, look.orbit)


def linearized_member(fitted: Fitted, member: int, fields: Array) -> Linearized:
    """What one member alone predicts for (samples, values) inputs, as `Fitted.member_step` does."""
    alone = replace(fitted.ensemble, members=(fitted.ensemble.members[member],))
    return _in_user_units(fitted, alone, alone.orbit(fitted.inputs(fields)))


def _in_user_units(fitted: Fitted, ensemble: Ensemble, orbit: list[Array]) -> Linearized:
    units, grid, smoothing = fitted.units, ensemble.input_pca.grid, fitted.smoothing
    inside = linearized_mean(ensemble, orbit)

    def push(tangents: Array) -> Array:
        return fitted.handed(inside.push(fitted.inputs(tangents)))  # inputs are linear in what is handed in

    def pull(cotangents: Array) -> Array:
        found = smoothing.adjoint(inside.pull(cotangents * units.outputs), grid)
        return found if units.inputs == 1.0 else found / units.inputs

    return Linearized(fitted.handed(inside.value), push, pull)
