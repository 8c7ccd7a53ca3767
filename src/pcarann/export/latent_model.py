"""A model of latents on a sheet: û = G(Φ(F(a))), its spread over the members, and what leaving the data adds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pcarann.export.ensembles import LatentModel
from pcarann.export.graph import Sheet, Value
from pcarann.export.outside import Looks, possible_error
from pcarann.export.sizes import square_unit
from pcarann.export.written import Written
from pcarann.fitted import Fitted
from pcarann.latent.smoothing import Smoothing

__all__ = ["write_latent_model", "write_looks", "write_member"]


def write_latent_model(sheet: Sheet, fitted: Fitted, inputs: Value) -> Written:
    """The prediction of a record for (samples, values) inputs in the user's units."""
    model = LatentModel(sheet, fitted.ensemble, fitted.training_x)
    fields = _entered(model, fitted, inputs)
    x = model.encoded(fields)
    latents = model.latents(x)
    centre = sheet.averaged(latents, [0])
    found = Written(model.decoded(centre), model.spread(latents - centre, x, square_unit(fitted.output_size)))
    if fitted.novelty_test is None:
        return found
    looks = Looks.of(sheet, fitted, fields, x)
    if fitted.edge is None:
        return replace(found, novelty=looks.p)
    beyond = possible_error(model, fitted, looks, lambda at_edge: model.change(centre - at_edge))
    return replace(found, beyond=beyond, novelty=looks.p)


def write_member(sheet: Sheet, fitted: Fitted, member: int, inputs: Value) -> Value:
    """The prediction of one member in the units inside; all of its numbers are kept in double precision."""
    model = LatentModel(sheet, replace(fitted.ensemble, members=(fitted.ensemble.members[member],)))
    return model.decoded(sheet.averaged(model.latents(model.encoded(_entered(model, fitted, inputs))), [0]))


def write_looks(sheet: Sheet, fitted: Fitted, inputs: Value, mean: Value) -> tuple[Value | None, Value]:
    """δ and the p-values of inputs in the user's units whose predictions, in the units inside, are known already.

    The record knows its training inputs; δ is None where it does not know how far its outputs reach.
    """
    model = LatentModel(sheet, fitted.ensemble, fitted.training_x)
    fields = _entered(model, fitted, inputs)
    looks = Looks.of(sheet, fitted, fields, model.encoded(fields))
    if fitted.edge is None:
        return None, looks.p
    return possible_error(model, fitted, looks, lambda at_edge: mean - model.decoded(at_edge)), looks.p


def _entered(model: LatentModel, fitted: Fitted, inputs: Value) -> Value:
    """(samples, elements, values) that are encoded, of inputs in the user's units."""
    inside = inputs if fitted.units.inputs == 1.0 else inputs / fitted.units.inputs
    return model.orbit(_smoothed(model.sheet, inside, fitted.smoothing, fitted.ensemble.input_pca.grid))


def _smoothed(sheet: Sheet, fields: Value, smoothing: Smoothing, grid: tuple[int, ...]) -> Value:
    """(samples, values) fields on a grid, smoothed along its last axes."""
    if not smoothing.width:
        return fields
    points = grid[-2:]
    kernels = [
        Smoothing(smoothing.width, (around,))(np.eye(n), (n,))  # G of an axis, transposed
        for n, around in zip(points, smoothing.periodic, strict=True)
    ]
    found = sheet.reshaped(fields, points) @ kernels[-1]
    if len(points) == 2:
        found = kernels[0].T @ found
    return sheet.reshaped(found, (math.prod(grid),))
