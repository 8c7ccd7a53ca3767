"""Stages on another grid of the same domain.

A readout is a function of the wavenumber. On n′ points of a period in the place of n, harmonics of features and of
corrections, which are orthonormal, grow alike, by √(n′/n); between ends they are those of the training. So weights
carry over as they are.

    wavenumbers that the training had     the band that they had
    higher ones                           no correction
    local operators                       the stencils of the training (`pcarann.spatial.axis`)
    mean and fixed fields                 interpolated, by the trigonometric polynomial along a period, else by splines

Points span the same box: i/(n − 1), both ends among them, and i/n along a period whose first point is not repeated.
Those of the training must be among them. Elsewhere slopes would have to be interpolated, which for rough fields makes
features of a kind that training never showed: in a trial on Darcy, errors grew to many times the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.latent.resampled import spline_matrix
from pcarann.spatial.axis import Axis
from pcarann.spatial.bands import Bands
from pcarann.spatial.chain import Chain
from pcarann.spatial.domain import Domain
from pcarann.spatial.fitted import FittedStages
from pcarann.spatial.layout import Layout
from pcarann.spatial.mesh_domain import MeshDomain, Space
from pcarann.spatial.stage import Scene, Stage
from pcarann.spatial.start import Start
from pcarann.symmetry.generators import Symmetry

__all__ = ["bands_on", "stages_on"]

_FEWEST = 4
Index = np.ndarray[Any, np.dtype[np.int64]]


def stages_on(fitted: FittedStages, target: Any, symmetry: Symmetry | None) -> FittedStages:
    """The record of the same stages on space of another shape, or a refusal; it cannot adapt."""
    layout = _checked(fitted, target)
    scene = _scene(fitted.chains[0].scene, layout, symmetry)
    report = replace(fitted.report, settled=replace(fitted.report.settled, layout=layout))
    chains = tuple(
        Chain(scene, tuple(_stage(stage, fitted.layout, layout) for stage in chain.stages)) for chain in fitted.chains
    )
    start, missed = _start(fitted.start, fitted.layout, layout), fitted.residual_spread
    if missed is not None:
        missed = missed.moved(lambda fields: _fields_on(fields, fitted.layout, layout))
    return replace(fitted, start=start, chains=chains, report=report, sums=(), residual_spread=missed)


def bands_on(layout: Layout, singles: int) -> tuple[Bands, Index]:
    """Bands of a layout, and of which band at the training each has the weights: one past the last has none."""
    old, new = layout.at_training.domain, layout.domain
    known = Bands.of(old, singles)
    if isinstance(old, MeshDomain) or isinstance(new, MeshDomain) or not layout.trained:
        return known, np.arange(known.count)
    numbers = [_places(old, new, i) for i in range(len(new.axes))]
    padded = np.full([size + 1 for size in old.modes], known.count)
    padded[tuple(slice(0, size) for size in old.modes)] = known.labels.reshape(old.modes)
    rows, labels = np.unique(padded[np.ix_(*numbers)], return_inverse=True)
    return Bands(labels.reshape(-1)), rows


def _places(old: Domain, new: Domain, i: int) -> Index:
    """Where the wavenumbers of a new axis stand among the old ones; one past the last where they do not."""
    known = {int(number): place for place, number in enumerate(old.numbers(i))}
    return np.asarray([known.get(int(number), old.modes[i]) for number in new.numbers(i)])


def _checked(fitted: FittedStages, target: Any) -> Layout:
    """The layout of the new grid."""
    layout = fitted.layout
    if layout.mesh is not None:
        raise ValueError("Stages on a mesh stay there: interpolate what they predict, by mesh.interpolation(points).")
    if layout.trained:
        raise ValueError("This model is on another grid already: call `on` of the one that it came from.")
    if fitted.terms is not None:
        raise ValueError("Stages with terms cannot go to another grid, since a term may know the grid it was made for.")
    shape = (target,) if isinstance(target, Integral) else tuple(target) if isinstance(target, Sequence) else ()
    whole = shape and all(isinstance(n, Integral) and not isinstance(n, bool) for n in shape)
    old = tuple(layout.output_grid[i] for i in layout.space)
    if not whole or len(shape) != len(old) or min(shape) < _FEWEST:
        raise ValueError(
            f"target must be the shape of the {len(old)} axes of space, {old} at the training, with at least {_FEWEST} "
            f"points each, got {target!r}: components stay as they are, and points need a grid around them."
        )
    found = layout.on([int(n) for n in shape])
    _ = found.domain  # refuses axes without the points of the training
    return found


def _scene(scene: Scene, layout: Layout, symmetry: Symmetry | None) -> Scene:
    """The same symmetry on the new grid."""
    if scene.group is None:
        return Scene(layout)
    if symmetry is None:
        raise ValueError("The model was fitted with a symmetry that is no longer among its parameters: set it again.")
    group = symmetry.rebound(layout.input_grid, layout.output_grid)
    if group.order == scene.group.order:
        return replace(scene, layout=layout, group=group)
    fitted, averaged = (group.subset(count, 0) for count in (symmetry.n_fit, symmetry.n_predict))
    return Scene(layout, group, fitted, averaged)


def _start(start: Start, old: Layout, new: Layout) -> Start:
    if start.model is not None:
        if not hasattr(start.model, "on"):
            kind = type(start.model).__name__
            raise ValueError(f"Stages that start from a {kind} cannot go to another grid, since it cannot.")
        axes = -min(new.space)
        model = start.model.on(new.output_grid[-axes:], inputs=new.input_grid[-axes:])
        return Start(model=model, input_grid=new.input_grid)
    if start.mean is None:
        return replace(start, values=_values(new))
    return Start(mean=_fields_on(start.mean[None, :], old, new)[0, :])


def _fields_on(fields: Array, old: Layout, new: Layout) -> Array:
    """(samples, values) outputs on another grid."""
    return new.flat(_interpolated(old.outputs(fields), old.domain, new.domain))


def _values(layout: Layout) -> int:
    return int(np.prod(layout.output_grid))


def _stage(stage: Stage, old: Layout, new: Layout) -> Stage:
    sight = stage.features.sight
    fixed = None if sight.fixed is None else _interpolated(sight.fixed, old.domain, new.domain)
    features = replace(stage.features, sight=replace(sight, domain=new.domain, fixed=fixed))
    bands, rows = bands_on(new, sight.families.singles)
    place = place_of(stage.readout)
    xp = place.xp
    padded = xp.concat([stage.readout, xp.zeros_like(stage.readout[:1, ...])], axis=0)
    return Stage(features, bands, xp.take(padded, xp.asarray(rows, device=place.device), axis=0), stage.ridge)


def _interpolated(fields: Array, old: Space, new: Space) -> Array:
    """(samples, *space, columns) on another grid."""
    assert isinstance(old, Domain)
    assert isinstance(new, Domain)
    place, found = place_of(fields), to_host(fields)
    for at, (before, after) in enumerate(zip(old.axes, new.axes, strict=True), start=1):
        if before.points == after.points:
            continue
        found = np.moveaxis(np.tensordot(_matrix(before, after), found, axes=(1, at)), 0, at)
    return place.put(np.ascontiguousarray(found))


def _matrix(old: Axis, new: Axis) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(new points, old points)"""
    if old.boundary != "periodic":
        return spline_matrix(old.points, np.linspace(0, 1, new.points))
    n = old.points
    numbers = np.arange(n // 2 + 1)
    weights = np.where((numbers == 0) | (2 * numbers == n), 1.0, 2.0) / n
    turns = [np.exp(2j * np.pi * np.outer(np.arange(axis.points) / axis.points, numbers)) for axis in (new, old)]
    found: np.ndarray[Any, np.dtype[np.float64]] = ((turns[0] * weights) @ turns[1].conj().T).real
    return found
