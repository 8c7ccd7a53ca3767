"""Meshes that tests share: unstructured, bent, on surfaces, of points alone; and an equation on them."""

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import spsolve
from scipy.spatial import ConvexHull, Delaunay

from pcarann.mesh.elements import KINDS, Block, assembled
from pcarann.mesh.mesh import Mesh


def unit_square(count, dimension=2, seed=0, moved=0.25):
    """A grid on the unit square or cube, inner points moved."""
    lines = np.meshgrid(*[np.linspace(0, 1, count)] * dimension, indexing="ij")
    points = np.stack(lines, axis=-1).reshape(-1, dimension)
    inner = ((points > 0) & (points < 1)).all(axis=1)
    rng = np.random.default_rng(seed)
    points[inner] += moved / (count - 1) * rng.uniform(-1, 1, (inner.sum(), dimension))
    return points


def triangles(count=9, seed=0):
    points = unit_square(count, seed=seed)
    cells = Delaunay(points).simplices
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    return Mesh(points, cells[np.abs(np.linalg.det(sides)) > 1e-9])


def tetrahedra(count=4, seed=0):
    points = unit_square(count, 3, seed)
    cells = Delaunay(points).simplices
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    return Mesh(points, cells[np.abs(np.linalg.det(sides)) > 1e-9])


def quads(count=7, seed=0):
    number = np.arange(count**2).reshape(count, count)
    around = [number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]]
    return Mesh(unit_square(count, seed=seed), {"quad": np.stack([part.reshape(-1) for part in around], axis=1)})


def hexahedra(count=4, seed=0):
    number = np.arange(count**3).reshape(count, count, count)
    low, high = slice(None, -1), slice(1, None)
    corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
    around = [number[tuple(high if one else low for one in corner)].reshape(-1) for corner in corners]
    return Mesh(unit_square(count, 3, seed, moved=0.15), {"hexahedron": np.stack(around, axis=1)})


def mixed():
    """A square of quadrilaterals on the left and triangles on the right."""
    points = [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2], [1, 2], [2, 2]]
    return Mesh(points, {"quad": [[0, 1, 4, 3], [3, 4, 7, 6]],
                         "triangle": [[1, 2, 5], [1, 5, 4], [4, 5, 8], [4, 8, 7]]})  # fmt: skip


def line(count=12, seed=0):
    points = np.sort(np.random.default_rng(seed).uniform(0, 1, count - 2))
    points = np.concatenate([[0.0], points, [1.0]])[:, None]
    return Mesh(points, np.stack([np.arange(count - 1), np.arange(1, count)], axis=1))


def sphere(count=400):
    """Fibonacci's points on the unit sphere, and the triangles of their hull."""
    turn, height = np.pi * (3 - np.sqrt(5)) * np.arange(count), 1 - 2 * (np.arange(count) + 0.5) / count
    ring = np.sqrt(1 - height**2)
    points = np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=1)
    return Mesh(points, {"triangle": ConvexHull(points).simplices})


def tilted(seed=0):
    """A plane mesh, turned and moved in space."""
    flat = triangles(7, seed)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0][:, :2]
    return Mesh(flat.points @ turned.T + [1.0, 2.0, 3.0], {"triangle": flat.cells["triangle"]})


def cloud(count=200, dimension=2, seed=0):
    """So many points, at random but for one in each of as many cubes."""
    side = round(count ** (1 / dimension))
    return Mesh(unit_square(max(side, 3), dimension, seed, moved=0.45)[:count])


CELLS = {"line": line, "triangles": triangles, "quads": quads, "tetrahedra": tetrahedra, "hexahedra": hexahedra,
         "mixed": mixed}  # fmt: skip
CLOUDS = {f"cloud in {d}": lambda d=d: cloud(150, d) for d in (1, 2, 3)}


def disc(count=400):
    """A sunflower's points on a disc, finer in the middle, and their triangles."""
    turn, radius = np.pi * (3 - np.sqrt(5)) * np.arange(count), np.sqrt((np.arange(count) + 0.5) / count)
    radius = radius * (0.6 + 0.4 * radius)
    points = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    cells = Delaunay(points).simplices
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    return Mesh(points, cells[np.abs(np.linalg.det(sides)) > 1e-6])


def reactions(mesh, samples, seed=0):
    """Rough a, and u of −Δu + 30 eᵃ u = 30, solved with linear elements: (samples, nodes) each."""
    values, functions = mesh.harmonics(min(mesh.nodes, 200))
    a = np.random.default_rng(seed).normal(size=(samples, len(values))) / (1 + values / 50) ** 0.75 @ functions
    a /= a.std()
    blocks = [Block(KINDS[kind], cells) for kind, cells in mesh.cells.items()]
    stiffness, weights = assembled(blocks, mesh.points)[2], sparse.diags(mesh.weights)
    u = [spsolve((stiffness + 30 * weights @ sparse.diags(np.exp(one))).tocsc(), 30 * mesh.weights) for one in a]
    return a, np.stack(u)
