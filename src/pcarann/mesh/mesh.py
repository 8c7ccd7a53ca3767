"""Meshes: `Mesh`, what is known of the nodes at which fields have their values.

Fields are (nodes,), or (nodes, components) or (components, nodes); meshes of lines, triangles, quadrilaterals,
tetrahedra and hexahedra, surfaces in space, and clouds of points without cells all offer the same: weights of a
quadrature, slopes and means as stencils, harmonics, and values at other points.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse

from pcarann.mesh.cells import checked_blocks, checked_points
from pcarann.mesh.cloud import Cloud
from pcarann.mesh.elements import Index, Matrix, assembled
from pcarann.mesh.harmonics import Harmonics, solved
from pcarann.mesh.location import located
from pcarann.mesh.reading import parts_of
from pcarann.mesh.stencil import Stencil
from pcarann.validation import check_count

__all__ = ["Mesh"]


class Mesh:
    """Nodes in space, and the cells between them; it never changes.

    Parameters
    ----------
    points : (nodes, 1, 2 or 3) array
        Where the nodes are.
    cells : None, (n, k) array or mapping
        Corners of the cells, numbered as in VTK: of one kind, told by k (in two dimensions 3 triangles and 4
        quadrilaterals, in three 3 triangles, 4 tetrahedra and 8 hexahedra), or a mapping from meshio's names "line",
        "triangle", "quad", "tetra" and "hexahedron" to such arrays. Triangles and quadrilaterals in three dimensions
        are a surface. None is a cloud of points.
    components : None, "first" or "last"
        Where components stand beside the nodes in fields that have them; None finds the nodes by their number.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import Mesh
    >>> mesh = Mesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    >>> mesh
    Mesh(4 nodes in 2 dimensions, 2 triangle cells)
    >>> round(float(mesh.weights.sum()), 12)
    1.0
    >>> mesh.interpolation([[0.5, 0.25]])(np.array([0.0, 1.0, 1.0, 0.0]))                # the field x
    array([0.5])
    """

    def __init__(self, points: Any, cells: Any = None, components: str | None = None):
        if components not in (None, "first", "last"):
            raise ValueError(f"components must be None, 'first' or 'last', got {components!r}.")
        self.components = components
        self.points: Matrix = checked_points(points)
        self._blocks = checked_blocks(cells, self.points)
        self._found: dict[int, Harmonics] = {}

    @classmethod
    def of(cls, thing: Any, components: str | None = None) -> Mesh:
        """A mesh as it is, that of meshio or pyvista, or the one in a file.

        Cells of the boundary, which have fewer dimensions than the others, are left out, and so is a last coordinate
        that is the same for all points.
        """
        if isinstance(thing, Mesh):
            return thing
        return cls(*parts_of(thing), components)

    @property
    def nodes(self) -> int:
        """How many there are"""
        return len(self.points)

    @property
    def dimension(self) -> int:
        """That of the cells: 2 for a surface in space; that of space for a cloud"""
        return self._blocks[0].element.dimension if self._blocks else self.points.shape[1]

    @property
    def cells(self) -> dict[str, Index]:
        """Corners by kinds; none for a cloud"""
        return {block.element.name: block.cells for block in self._blocks}

    @cached_property
    def weights(self) -> Matrix:
        """(nodes,): ∫ Nᵢ, rows of the mass matrix summed; they add up to length, area or volume, of a cloud roughly"""
        return _frozen(self._cloud.weights if self._cloud else self._integrals[0])

    @cached_property
    def slopes(self) -> tuple[Stencil, ...]:
        """∂ along every direction of space, exact on linear fields; of a surface, the parts of the gradient along it.

        Of cells, ∂ᵢf = Σⱼ ∫ Nᵢ ∂Nⱼ fⱼ / ∫ Nᵢ: the mean of the gradients in the cells around a node, by their size.
        """
        if self._cloud:
            return tuple(self._cloud.slopes())
        inverse = sparse.diags(1 / self.weights)
        return tuple(Stencil.of_matrices([inverse @ part for part in self._integrals[1]]))

    @cached_property
    def mean(self) -> Stencil:
        """The mean over a node and those beside it, by their weights"""
        if self._cloud:
            beside = self._cloud.adjacency()
        else:
            beside = (abs(self._integrals[2]) > 0).astype(np.float64)
            for block in self._blocks:  # right angles have no part in the stiffness, and stand beside all the same
                beside = beside + _incidence(block.cells, self.nodes)
            beside = (beside > 0).astype(np.float64)
        beside = ((beside + sparse.eye(self.nodes)) > 0) @ sparse.diags(self.weights)
        return Stencil.of_matrix(sparse.diags(1 / np.asarray(beside.sum(axis=1)).reshape(-1)) @ beside)

    def harmonics(self, count: int) -> Harmonics:
        """The `count` smallest eigenvalues and functions of the Laplacian, slopes across the boundary being zero.

        Functions are (count, nodes) and orthonormal with `weights`. They are kept: asked again for as many or fewer,
        it costs nothing.
        """
        count = check_count(count, "count")
        if count > self.nodes:
            raise ValueError(f"count must be at most the number of nodes, {self.nodes}, got {count}.")
        known = max(self._found, default=0)
        if known < count:
            stiffness = self._cloud.stiffness() if self._cloud else self._integrals[2]
            found = solved(stiffness, self.weights, count)
            self._found = {count: Harmonics(_frozen(found.values), _frozen(found.functions))}
            known = count
        values, functions = self._found[known]
        return Harmonics(values[:count], functions[:count])

    def interpolation(self, points: Any) -> Stencil:
        """From values at the nodes to values at (n, d) other points; those outside are refused."""
        at = np.asarray(points, dtype=np.float64)
        if at.ndim != 2 or at.shape[1] != self.points.shape[1] or not len(at):
            raise ValueError(f"points must be (n, {self.points.shape[1]}) coordinates, found shape {at.shape}.")
        if not np.isfinite(at).all():
            first = int(np.flatnonzero(~np.isfinite(at).all(axis=1))[0])
            raise ValueError(f"points contain NaN or infinity, the first is point {first}.")
        return self._cloud.interpolation(at) if self._cloud else located(self._blocks, self.points, at)

    @cached_property
    def triangles(self) -> Index:
        """(n, 3), to draw a plane mesh or a surface; quadrilaterals are split"""
        if self._cloud or self.dimension != 2:
            raise ValueError(f"{self!r} has no triangles to draw: meshes of triangles and quadrilaterals have.")
        cuts = {"triangle": [[0, 1, 2]], "quad": [[0, 1, 2], [0, 2, 3]]}
        parts = [block.cells[:, corners] for block in self._blocks for corners in cuts[block.element.name]]
        return np.concatenate(parts)

    def node_axis(self, grid: tuple[int, ...]) -> int:
        """Which axis of one field of this shape counts nodes, from 0 on: 1 of (components, nodes)."""
        places = {None: range(len(grid)), "first": range(len(grid) - 1, len(grid)), "last": range(min(1, len(grid)))}
        found = [i for i in places[self.components] if grid[i] == self.nodes]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(
                f"Fields of shape {grid} have more than one axis of {self.nodes} values, the number of nodes: say "
                "Mesh(components='first' or 'last')."
            )
        where = {None: "no axis", "first": "no last axis", "last": "no first axis"}[self.components]
        raise ValueError(f"Fields of shape {grid} have {where} of {self.nodes} values, the nodes of the mesh.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh):
            return NotImplemented
        alike = self.components == other.components and self.cells.keys() == other.cells.keys()
        return (
            alike
            and np.array_equal(self.points, other.points)
            and all(np.array_equal(part, other.cells[kind]) for kind, part in self.cells.items())
        )

    def __hash__(self) -> int:
        return hash((self.components, self.points.shape, *((kind, len(part)) for kind, part in self.cells.items())))

    def __copy__(self) -> Mesh:
        return self

    def __deepcopy__(self, memo: Any) -> Mesh:
        return self  # it never changes, and copies would lose or double the tables of harmonics

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(part)} {kind} cells" for kind, part in self.cells.items()) or "no cells"
        return f"Mesh({self.nodes} nodes in {self.points.shape[1]} dimensions, {kinds})"

    @cached_property
    def _cloud(self) -> Cloud | None:
        return None if self._blocks else Cloud(self.points)

    @cached_property
    def _integrals(self) -> tuple[Matrix, list[Any], Any]:
        return assembled(list(self._blocks), self.points)


def _incidence(cells: Index, nodes: int) -> Any:
    """How many cells two nodes share."""
    count = cells.shape[1]
    rows, columns = np.repeat(cells, count, axis=1).reshape(-1), np.tile(cells, count).reshape(-1)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))


def _frozen(array: Matrix) -> Matrix:
    array.flags.writeable = False
    return array
