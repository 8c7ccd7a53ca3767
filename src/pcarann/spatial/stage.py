"""One stage: û ← û + T⁻¹[ Σⱼ V(j, k) · (T hⱼ)(k) ], averaged over the moves of a symmetry.

Fields come and go as (samples, values), the grid in C order, in which moves are tabulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts, place_of
from pcarann.backend.concurrency import concurrently
from pcarann.spatial.bands import Bands, Sums
from pcarann.spatial.features import Features
from pcarann.spatial.layout import Layout
from pcarann.spatial.pairs import Pair
from pcarann.symmetry.generators import Symmetry
from pcarann.symmetry.group import Group

__all__ = ["Scene", "Stage", "Triple", "corrections", "sample_sizes", "sample_weights", "summed"]

Index = np.ndarray[Any, np.dtype[np.int64]]
Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK = 6 << 20  # bytes of features at a time on a CPU: they stay in cache, and threads seldom wait for one another
_BLOCK_GPU = 1 << 30
_GATHERED = 256 << 20  # bytes of rows between two additions to the sums
_ROWS = 24  # for each unknown of a band
_SMALLEST = 0.05  # of the mean size: an error relative to nothing says nothing, and must not outweigh all others


class Triple(NamedTuple):
    """Inputs a, predictions û so far and outputs u, (samples, values) each."""

    inputs: Array
    fields: Array
    outputs: Array


@dataclass(frozen=True, eq=False)
class Scene:
    """Where stages work."""

    layout: Layout
    group: Group | None = None
    fitted: tuple[int, ...] = (0,)
    """Elements of the group whose copies are fitted, the identity first"""
    averaged: tuple[int, ...] = (0,)
    """Elements over which predictions are averaged"""

    @classmethod
    def under(cls, symmetry: Symmetry | None, layout: Layout, seed: int) -> Callable[[Layout], Scene]:
        """Where stages work under a symmetry of fields that lie so, whatever the ends of the axes."""
        if symmetry is None:
            return cls
        if layout.mesh is not None:
            raise ValueError("symmetry needs a grid, on which moves are tables of points: it must be None on a mesh.")
        group = symmetry.bind(layout.input_grid, layout.output_grid)
        fitted, averaged = (group.subset(count, seed) for count in (symmetry.n_fit, symmetry.n_predict))
        return lambda here: cls(here, group, fitted, averaged)

    def moved_inputs(self, flat: Array, element: int) -> Array:
        """Inputs moved by an element."""
        return flat if self.group is None else self.group.move_inputs(flat, element)

    def moved_outputs(self, flat: Array, element: int) -> Array:
        """Outputs moved by an element."""
        return flat if self.group is None else self.group.move_outputs(flat, element)

    def moved_back(self, flat: Array, element: int) -> Array:
        """Outputs moved by the inverse of an element."""
        return flat if self.group is None else self.group.move_outputs(flat, self.group.inverse(element))

    def inputs_pulled(self, flat: Array, element: int) -> Array:
        """Adjoint of `moved_inputs`."""
        return flat if self.group is None else self.group.move_inputs_adjoint(flat, element)

    def outputs_pulled(self, flat: Array, element: int) -> Array:
        """Adjoint of `moved_outputs`."""
        return flat if self.group is None else self.group.move_outputs_adjoint(flat, element)

    def back_pulled(self, flat: Array, element: int) -> Array:
        """Adjoint of `moved_back`."""
        return flat if self.group is None else self.group.move_outputs_adjoint(flat, self.group.inverse(element))


@dataclass(frozen=True, eq=False)
class Stage:
    """What one stage has learned."""

    features: Features
    bands: Bands
    readout: Array
    """V, (bands, features, components of the outputs)"""
    ridge: float

    def applied(self, scene: Scene, inputs: Array, fields: Array, out: Array | None = None) -> Array:
        """û after this stage, in the memory of `out` if there is some, which may be that of `fields`."""
        into = None if out is None else out[None, ...]
        return corrections(scene, self.features, self.bands, (inputs, fields), [self.readout], into)[0]

    def pushed(self, scene: Scene, samples: Pair, tangents: Pair) -> Array:
        """The change of û after this stage with a and û before it, in double precision."""
        layout, place = scene.layout, place_of(samples[1])

        def changed(rows: slice) -> Array:
            total = place.xp.zeros_like(tangents[1][rows, :])
            for element in scene.averaged:
                at, by = (self._moved(scene, pair, rows, element) for pair in (samples, tangents))
                features = self.features.linearized(*at).push(*by)
                spectrum = self.bands.products(layout.domain.forward(features), self.readout)
                total += scene.moved_back(layout.flat(layout.domain.backward(spectrum)), element)
            return total / len(scene.averaged) + tangents[1][rows, :]

        return place.xp.concat(list(self._each(changed, scene, samples)))

    def pulled(self, scene: Scene, samples: Pair, cotangents: Array) -> Pair:
        """Adjoint of `pushed`: what û after this stage wants of a and of û before it."""
        layout, place = scene.layout, place_of(samples[1])
        domain = layout.domain

        def wanted(rows: slice) -> Pair:
            of_inputs, of_fields = (place.xp.zeros_like(side[rows, :]) for side in samples)
            for element in scene.averaged:
                change = layout.flat_adjoint(scene.back_pulled(cotangents[rows, :], element))
                spectrum = self.bands.products_adjoint(domain.backward_adjoint(change), self.readout)
                features = self.features.linearized(*self._moved(scene, samples, rows, element))
                a, u = features.pull(domain.forward_adjoint(spectrum))
                of_inputs += scene.inputs_pulled(layout.inputs_adjoint(a), element)
                of_fields += scene.outputs_pulled(layout.outputs_adjoint(u), element)
            count = len(scene.averaged)
            return of_inputs / count, of_fields / count + cotangents[rows, :]

        parts = list(self._each(wanted, scene, samples))
        a, u = (place.xp.concat([part[side] for part in parts]) for side in (0, 1))
        return a, u

    def _moved(self, scene: Scene, samples: Pair, rows: slice, element: int) -> Pair:
        """Some samples in space, moved by an element."""
        a, u = (side[rows, :] for side in samples)
        layout = scene.layout
        return layout.inputs(scene.moved_inputs(a, element)), layout.outputs(scene.moved_outputs(u, element))

    def _each(self, function: Callable[[slice], Result], scene: Scene, samples: Pair) -> Iterator[Result]:
        """A function of blocks of samples."""
        layout, features, place = scene.layout, self.features, place_of(samples[1])
        blocks = list(cuts(int(samples[1].shape[0]), _block(layout, features, place)))
        return _each(function, blocks, layout, features, place)


def corrections(
    scene: Scene, features: Features, bands: Bands, samples: tuple[Array, Array], readouts: Sequence[Array],
    out: Array | None = None,
) -> list[Array]:  # fmt: skip
    """û after a stage with each of several readouts, whose features are the same; in the memory of `out` if given.

    For one readout that may be the memory of û: a block of samples is read before it is written, and no other reads it.
    """
    inputs, fields = samples
    place, layout = place_of(fields), scene.layout
    xp = place.xp
    readout = features.rounded(xp.concat(list(readouts), axis=-1))
    columns = layout.n_outputs

    def corrected(rows: slice) -> Array:
        total = xp.zeros(
            (len(readouts), rows.stop - rows.start, fields.shape[1]), dtype=fields.dtype, device=place.device
        )
        for element in scene.averaged:
            a = layout.inputs(scene.moved_inputs(inputs[rows, :], element))
            u = layout.outputs(scene.moved_outputs(fields[rows, :], element))
            spectrum = bands.products(layout.domain.forward(features(a, u)), readout)
            change = layout.domain.backward(spectrum)
            parts = [change[..., i : i + columns] for i in range(0, int(change.shape[-1]), columns)]
            total += xp.stack([scene.moved_back(layout.flat(part), element) for part in parts])
        return total / len(scene.averaged) + fields[None, rows, :]

    shape = (len(readouts), *fields.shape)
    found = xp.empty(shape, dtype=fields.dtype, device=place.device) if out is None else out
    blocks = list(cuts(int(fields.shape[0]), _block(layout, features, place)))
    for rows, part in zip(blocks, _each(corrected, blocks, layout, features, place), strict=True):
        found[:, rows, :] = part
    return [found[i, ...] for i in range(len(readouts))]


def summed(scene: Scene, features: Features, bands: Bands, samples: Triple, usual: float | None = None) -> Sums:
    """The sums of a stage over samples and as many of their copies as add rows; large bands see a share of these."""
    place, layout = place_of(samples.fields), scene.layout
    xp = place.xp
    n = int(samples.fields.shape[0])
    copies = min(len(scene.fitted), -(-_ROWS * features.count // (2 * n)))
    taken = bands.taken(n * copies, _ROWS * features.count)
    weights = sample_weights(samples.outputs, usual)

    def gathered(item: tuple[int, Index]) -> tuple[Array, Array]:
        which, numbers = item
        rows, element = xp.asarray(numbers, device=place.device), scene.fitted[which]
        inputs, fields, outputs = (xp.take(part, rows, axis=0) for part in samples)
        a = layout.inputs(scene.moved_inputs(inputs, element))
        u, y = (layout.outputs(scene.moved_outputs(part, element)) for part in (fields, outputs))
        chosen = bands.chosen(numbers * copies + (which - numbers) % len(scene.fitted), taken)
        chosen += len(bands.labels) * np.arange(len(chosen))[:, None]
        index = xp.asarray(chosen.reshape(-1), device=place.device)
        weight = xp.take(weights, rows)[:, None, None]
        left, right = (
            xp.reshape(xp.take(_rows_of(layout.domain.forward(part)), index, axis=0), (*chosen.shape, -1))
            for part in (features(a, u), y - u)
        )
        left *= features.rounded(weight)
        right *= weight
        return left, right

    sums = Sums.none(bands.count, features.count, layout.n_outputs, place, layout.domain.is_complex)
    counts = [len(one) / copies for one in bands.modes]  # a sample counts once, whatever the copies
    size = _block(layout, features, place)
    items = [
        (which, numbers[part])
        for which, numbers in enumerate(_shares(n, len(scene.fitted), copies))
        for part in cuts(len(numbers), size)
    ]
    bytes_each = sum(taken) * features.count * (2 if layout.domain.is_complex else 1) * features.bytes_each * size
    for some in cuts(len(items), max(1, _GATHERED // bytes_each)):
        sums.add(list(_each(gathered, items[some], layout, features, place)), taken, counts)
    return sums


def _shares(samples: int, elements: int, copies: int) -> list[Index]:
    """The samples that each element moves, so that every sample has so many copies and every element its share.

    >>> [share.tolist() for share in _shares(4, 4, 2)]
    [[0, 3], [0, 1], [1, 2], [2, 3]]
    """
    numbers = np.arange(samples)
    return [numbers[(which - numbers) % elements < copies] for which in range(elements)]


def sample_weights(outputs: Array, usual: float | None = None) -> Array:
    """1/‖u‖ of every sample, as errors are relative; of those that are far smaller than usual, that of a small one."""
    xp = place_of(outputs).xp
    norms = sample_sizes(outputs)
    least = _SMALLEST * (float(xp.mean(norms)) if usual is None else usual)
    return 1.0 / xp.clip(norms, min=least if least > 0 else 1.0)


def sample_sizes(outputs: Array) -> Array:
    """The root mean square of every sample, by blocks of samples: a square of all fields would be one more of them."""
    place = place_of(outputs)
    xp = place.xp
    size = max(1, _BLOCK // (8 * int(outputs.shape[1]))) if place.on_host else int(outputs.shape[0])
    parts = [xp.mean(outputs[rows, :] ** 2, axis=1) for rows in cuts(int(outputs.shape[0]), size)]
    return xp.sqrt(xp.concat(parts))


def _rows_of(harmonics: Array) -> Array:
    return place_of(harmonics).xp.reshape(harmonics, (-1, harmonics.shape[-1]))


def _block(layout: Layout, features: Features, place: Place) -> int:
    """Samples at a time."""
    each = features.bytes_each * layout.domain.points * features.count
    return max(1, (_BLOCK if place.on_host else _BLOCK_GPU) // each)


def _each(
    function: Callable[[Item], Result], items: list[Item], layout: Layout, features: Features, place: Place
) -> Iterator[Result]:
    size = _block(layout, features, place) * layout.domain.points * features.count * 8 * features.bytes_each
    return concurrently(function, items, place=place, bytes_each=size)
