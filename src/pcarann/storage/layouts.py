"""How fields lie on the grid or mesh of stages, as a part of a document, and back, every part checked.

A grid is only said: no array of the file need have its size. What it makes of memory is counted before it is made.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, get_args

from pcarann.spatial.axis import Boundary
from pcarann.spatial.channels import Sight
from pcarann.spatial.domain import Domain
from pcarann.spatial.layout import Layout
from pcarann.storage.arrays import Arrays
from pcarann.storage.formats import Tensors
from pcarann.storage.limits import shape_of
from pcarann.storage.meshes import described_mesh, rebuilt_mesh

__all__ = ["described_layout", "rebuilt_layout", "seen_channels"]

_FEW = 16  # points of an axis on which channels are counted
_POINT = 64  # bytes of a point while the bands of its wavenumbers are found
_PAIR = 200  # bytes of a product that is considered as a channel


def described_layout(layout: Layout, tensors: Tensors) -> dict[str, Any]:
    """The part of a document; the arrays of a mesh are added to the tensors."""
    found = {field.name: getattr(layout, field.name) for field in fields(layout) if field.name != "mesh"}
    return found if layout.mesh is None else found | {"mesh": described_mesh(layout.mesh, tensors)}


def rebuilt_layout(described: dict[str, Any], arrays: Arrays) -> Layout:
    """The layout that a document describes."""
    parts: dict[str, Any] = {name: tuple(part) for name, part in described.items() if name != "mesh"}
    for name in ("input_grid", "output_grid", "trained"):
        parts[name] = shape_of(described.get(name, ()), "its grid")
    layout = Layout(**parts)
    if described.get("mesh") is not None:
        found = Layout.on_mesh(layout.input_grid, layout.output_grid, rebuilt_mesh(described["mesh"], arrays))
        if replace(found, mesh=None) != layout:
            raise ValueError("its grids are not those of its mesh")
        _check_size(found, arrays)
        return found
    kinds = len(layout.boundaries) == len(layout.closed) == len(layout.space)
    kinds = kinds and len(layout.trained) in (0, len(layout.space)) and min(layout.trained, default=4) >= 4
    kinds = kinds and all(kind in get_args(Boundary) for kind in layout.boundaries)
    kinds = kinds and all(isinstance(one, bool) for one in layout.closed)
    if not kinds or Layout.of(layout.input_grid, layout.output_grid, layout.space).space != layout.space:
        raise ValueError("its grids are none")
    _check_size(layout, arrays)
    return layout


def _check_size(layout: Layout, arrays: Arrays) -> None:
    """Refuse grids that are too large for one sample, or for the bands of wavenumbers."""
    values = math.prod(layout.input_grid) + math.prod(layout.output_grid)
    arrays.allowance.check(8 * values + _POINT * layout.domain.points, "one sample on its grid")
    if layout.trained:
        arrays.allowance.check(_POINT * math.prod(layout.trained), "the grid of its training")


def seen_channels(sight: Sight, layout: Layout, arrays: Arrays) -> int:
    """Channels that are seen, but for those of terms, which may be any number; counted on a small grid."""
    inputs, outputs, ways = layout.n_inputs, layout.n_outputs, layout.domain.directions
    pairs = (inputs * outputs + inputs**2 + outputs**2) * (1 + ways) * sight.families.products
    pairs += (inputs**2 + outputs**2) * ways**2 * (sight.families.smoothed is not None)
    arrays.allowance.check(_PAIR * pairs, "the products of its channels")
    domain, fixed = layout.domain, sight.fixed
    if isinstance(domain, Domain):
        axes = tuple(replace(axis, points=min(axis.points, _FEW), stretch=1) for axis in domain.axes)
        domain = Domain(axes)
        fixed = None if fixed is None else fixed[(slice(None), *(slice(0, n) for n in domain.shape))]
    some = (arrays.place.zeros(1, *domain.shape, n) for n in (inputs, outputs))
    small = replace(sight, domain=domain, fixed=fixed, terms=None)
    return int(small.channels(*some).shape[-1])
