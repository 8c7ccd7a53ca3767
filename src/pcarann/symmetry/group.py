"""A finite group of moves of (input, output) pairs, tabulated on their grids.

Every move is a signed gather, (g a)ᵢ = sᵢ a_{jᵢ} with sᵢ = ±1, and is known by what it does to the field of numbers
1, 2, …, n: its table tᵢ = sᵢ (jᵢ + 1). Moves compose as tables do, since the table of "h, then g" is g applied to the
table of h. The group is all products of its generators, found breadth first. The numbers of the products gₖ ∘ e are
kept for every element e (the Cayley graph), and inverses are read from them.

On a closed periodic grid the last value repeats the first, and a shift never reads one of the two. The identity of
the group is then not that of all arrays but the idempotent power E of g₁ ∘ … ∘ g_m, which writes the repeated
value anew: moves are exact for the fields with E a = a, whose repeated values agree.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.gathers import gather_adjoint
from pcarann.backend.random import permutation
from pcarann.validation import check_count

__all__ = ["STREAM", "Group", "Table"]

Table: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

STREAM = (0x73796D,)
"""Of the random numbers here: "sym" in ASCII, which no other stream has"""
_MOST_ELEMENTS = 4096
_MOST_KEPT = 50_000_000  # numbers in tables kept in memory, 200 MB; larger groups make a table when it is asked for


@dataclass(frozen=True, eq=False, repr=False)
class Group:
    """The elements 0, …, order − 1 of a symmetry on its grids; 0 is the identity.

    >>> from pcarann.symmetry.generators import Symmetry
    >>> group = Symmetry.shifts(-1).bind((4,), (4,))
    >>> group.move_inputs(np.array([[1.0, 2.0, 3.0, 4.0]]), 1)
    array([[2., 3., 4., 1.]])
    >>> group.inverse(1)
    3
    """

    generators: Table
    """(generators, input values + output values): one table moves the input's and the output's values side by side"""
    n_inputs: int
    """Values of an input field"""
    identity: Table
    """E, (values,)"""
    graph: np.ndarray[Any, np.dtype[np.int64]]
    """The number of gₖ ∘ e, (order, generators)"""
    kept: tuple[Table, ...] = ()
    """The table of every element; empty where they are too large together"""

    @classmethod
    def generated(cls, inputs: Table, outputs: Table, most_numbers: float = math.inf) -> Group:
        """Return all products of these generators: tables (generators, input values), (generators, output values).

        A group whose tables hold more than `most_numbers` together is refused.
        """
        n_inputs = inputs.shape[1]
        generators = np.concatenate([inputs, _counted_from(n_inputs, outputs)], axis=1)
        identity = _common_identity(generators)
        graph, kept = _closure(generators, identity, most_numbers)
        return cls(generators, n_inputs, identity, graph, kept)

    @classmethod
    def from_tables(cls, tables: Mapping[str, np.ndarray[Any, Any]], most_numbers: float = math.inf) -> Group:
        """Return the group that `tables` describes; raise ValueError for anything that describes none."""
        inputs, outputs = (_checked_tables(tables, side) for side in ("input", "output"))
        if len(inputs) != len(outputs):
            raise ValueError(f"The symmetry has {len(inputs)} input tables, but {len(outputs)} output tables.")
        return cls.generated(inputs, outputs, most_numbers)

    def tables(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the tables of the generators, tᵢ = sᵢ (jᵢ + 1), from which `from_tables` makes the same group."""
        inputs, outputs = np.split(self.generators, [self.n_inputs], axis=1)
        return {"input": inputs.copy(), "output": _counted_from(-self.n_inputs, outputs)}

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.graph)

    def inverse(self, element: int) -> int:
        """Return the number of the element that undoes this one."""
        number = 0
        for generator in self._word(element):
            number = int(np.flatnonzero(self.graph[:, generator] == number)[0])
        return number

    def move_inputs(self, fields: Array, element: int) -> Array:
        """Return (samples, values) inputs, grids in C order, moved by an element; the identity returns them as is."""
        return _moved(fields, self._table(element)[: self.n_inputs], first=0) if element else fields

    def move_outputs(self, fields: Array, element: int) -> Array:
        """Return (samples, values) outputs, grids in C order, moved by an element; the identity returns them as is."""
        return _moved(fields, self._table(element)[self.n_inputs :], first=self.n_inputs) if element else fields

    def move_inputs_adjoint(self, fields: Array, element: int) -> Array:
        """Return (samples, values) cotangents of inputs that an element moved as those of the inputs before."""
        return _moved_adjoint(fields, self._table(element)[: self.n_inputs], first=0) if element else fields

    def move_outputs_adjoint(self, fields: Array, element: int) -> Array:
        """Return (samples, values) cotangents of outputs that an element moved as those of the outputs before."""
        return _moved_adjoint(fields, self._table(element)[self.n_inputs :], self.n_inputs) if element else fields

    def subset(self, count: int | None, seed: int) -> tuple[int, ...]:
        """Return the identity and count − 1 others, a choice that grows with the count; None takes all.

        >>> from pcarann.symmetry.generators import Symmetry
        >>> Symmetry.dihedral().bind((3, 3), (3, 3)).subset(3, seed=0)
        (0, 3, 1)
        """
        if count is None or check_count(count, "count") >= self.order:
            return tuple(range(self.order))
        others = permutation(self.order - 1, seed=seed, stream=STREAM)
        return (0, *(number + 1 for number in others[: count - 1]))

    def _word(self, element: int) -> list[int]:
        """Return the generators whose product the element is, the one applied last first."""
        if not 0 <= element < self.order:
            raise ValueError(f"element must be a number from 0 to {self.order - 1}, got {element!r}.")
        word = []
        while element:  # an element is first met as a product of an earlier one
            element, generator = (int(n) for n in np.argwhere(self.graph == element)[0])
            word.append(generator)
        return word

    def _table(self, element: int) -> Table:
        if self.kept and 0 <= element < self.order:
            return self.kept[element]
        table = self.identity
        for generator in reversed(self._word(element)):
            table = _after(self.generators[generator], table)
        return table

    def __repr__(self) -> str:
        n_outputs = self.generators.shape[1] - self.n_inputs
        return f"Group(order={self.order}, input values={self.n_inputs}, output values={n_outputs})"


def _after(later: Table, earlier: Table) -> Table:
    """Return the table of `earlier`, then `later`: (later ∘ earlier)ᵢ = ± earlier_{jᵢ}."""
    product: Table = earlier[np.abs(later, dtype=np.intp) - 1]  # NumPy gathers by other integers four times slower
    product *= np.sign(later)
    return product


def _counted_from(first: int, tables: Table) -> Table:
    """Return tables for fields whose values stand `first` places further on."""
    return np.asarray(tables + np.sign(tables) * first, dtype=np.int32)


def _moved(fields: Array, table: Table, first: int) -> Array:
    """Return sᵢ a_{jᵢ} of (samples, values) fields, whose values the table counts from `first` on."""
    if fields.shape[1] != len(table):
        raise ValueError(f"The symmetry moves fields of {len(table)} values, found {fields.shape[1]}.")
    place = place_of(fields)
    index = place.xp.asarray(np.abs(table).astype(np.int64) - (1 + first), device=place.device)
    moved = place.xp.take(fields, index, axis=1)
    if (table < 0).any():
        moved *= place.xp.asarray(np.sign(table), dtype=fields.dtype, device=place.device)
    return moved


def _moved_adjoint(fields: Array, table: Table, first: int) -> Array:
    """Return the sums of sᵢ cᵢ over all i with jᵢ = j: a value that a move reads twice gets both."""
    place = place_of(fields)
    signed = fields
    if (table < 0).any():
        signed = fields * place.xp.asarray(np.sign(table), dtype=fields.dtype, device=place.device)
    return gather_adjoint(signed, np.abs(table).astype(np.int64) - (1 + first), len(table))


def _common_identity(generators: Table) -> Table:
    """Return E, which leaves alone the fields on which the generators can be undone."""
    product = generators[0]
    for generator in generators[1:]:
        product = _after(product, generator)
    E = _idempotent_power(product)
    for number, generator in enumerate(generators):
        moved = _after(generator, E)
        # A move must map the fields with E a = a to each other, and reach all of them.
        if (_after(E, moved) != moved).any() or len(np.unique(np.abs(moved))) != len(np.unique(np.abs(E))):
            raise ValueError(f"Generator {number + 1} of {len(generators)} cannot be undone: there is no group.")
    return E


def _idempotent_power(table: Table) -> Table:
    """Return E = tᵐ with E ∘ E = E: the identity where t reads all values, and writes forgotten ones anew."""
    core = np.unique(np.abs(table)) - 1
    inverse = np.zeros_like(table)
    inverse[np.abs(table[core]) - 1] = np.sign(table[core]) * (core + 1)
    if (read := np.count_nonzero(inverse)) < len(core):
        message = f"a field has {len(core)} of {len(table)} values after it, and {read} after it again"
        raise ValueError(f"The product of the generators cannot be undone: {message}.")
    return _after(table, inverse)


def _closure(
    generators: Table, identity: Table, most_numbers: float
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[Table, ...]]:
    """Return the number of every product gₖ ∘ e, and the tables of the elements where they fit in memory."""
    numbers = {_digest(identity): 0}
    waiting, graph = deque([identity]), []
    kept: list[Table] = []
    while waiting:
        table = waiting.popleft()
        if len(kept) * len(table) <= _MOST_KEPT:
            kept.append(table)
        graph.append([0] * len(generators))
        for column, generator in enumerate(generators):
            product = _after(generator, table)
            graph[-1][column] = number = numbers.setdefault(_digest(product), len(numbers))
            if number == len(graph) + len(waiting):
                waiting.append(product)
        if len(numbers) > _MOST_ELEMENTS:
            raise ValueError(f"The symmetry has more than {_MOST_ELEMENTS} elements: take fewer, as with stride=.")
        if len(numbers) * len(generators) * len(table) > most_numbers:
            raise ValueError(f"The tables of the symmetry hold more than {most_numbers:.0f} numbers.")
    fits = len(graph) * len(identity) <= _MOST_KEPT
    return np.array(graph, dtype=np.int64), tuple(kept) if fits else ()


def _digest(table: Table) -> bytes:
    return hashlib.sha256(table.data).digest()


def _checked_tables(tables: Mapping[str, np.ndarray[Any, Any]], side: str) -> Table:
    """Return tables (generators, values) from an untrusted source as they must be."""
    if side not in tables:
        raise ValueError(f"The symmetry has no {side} tables, found {sorted(tables)}.")
    found = np.asarray(tables[side])
    if found.ndim != 2 or 0 in found.shape or found.dtype.kind != "i":
        raise ValueError(
            f"The symmetry's {side} tables must be whole numbers of shape (generators, values), "
            f"found {found.dtype} of shape {found.shape}."
        )
    values = found.shape[1]
    if found.min() < -values or found.max() > values or not found.all():
        raise ValueError(
            f"The symmetry's {side} tables must hold numbers ±1, …, ±{values}, "
            f"found {found.size - np.count_nonzero(found)} zeros and numbers from {found.min()} to {found.max()}."
        )
    return np.ascontiguousarray(found, dtype=np.int32)
