"""A block with a hot bore, cooled on its faces: heat conduction in space, on tetrahedra.

    −∇·(k ∇T) = 0,  k = eᵃ        T = `temperature` on the bore,  T = 0 on the four sides
                                  k ∂T/∂n = −`film` T on bottom and top

Inputs are the field a on the nodes and two numbers, the output is T. Lengths are in mm, temperatures in K above the
surroundings, k in units of its median, so that a film is in 1/mm. Sample i depends on the seed and i alone, not on the
mesh.

    python examples/block.py --count 300        writes block.npz, block_mesh.vtu and block.png

>>> conductivity = np.zeros(len(mesh(0).p.T))                 # k = 1 everywhere
>>> T = solve(conductivity, film=0.0, temperature=100.0, level=0)          # faces insulated: the same at all heights
>>> shape = 2 * np.pi * HEIGHT / np.log(1.08 * HALF_SIDE / RADIUS)        # of a bore in a square bar: handbooks
>>> print(f"{heat_flow(conductivity, T, level=0) / 100.0 / shape:.1f}")
1.0
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from plate import HALF_SIDE, RADIUS, SPREAD, TEMPERATURES, options, ring, write
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTetP1, FacetBasis, MeshTet
from skfem.helpers import dot, grad

__all__ = ["heat_flow", "mesh", "random_field", "sample", "solve"]

Field = np.ndarray[Any, Any]

HEIGHT, LEVEL = 80.0, 1
FILMS = (0.0, 0.05)
CORRELATION, WAVES = 50.0, 6
"""Correlation length of log k, and cosines along each axis"""


@cache
def mesh(level: int = LEVEL) -> MeshTet:
    """Square bar minus cylinder: a ring of tetrahedra, finer at the bore; level 1 has 2520 nodes."""
    flat = MeshTet.init_tensor(*(np.linspace(0, 1, cells * 2**level + 1) for cells in (4, 20, 3)))
    points = np.vstack([ring(*flat.p[:2], RADIUS), HEIGHT * flat.p[2]])
    _, kept, merged = np.unique(points.round(6), axis=1, return_index=True, return_inverse=True)  # along the seam
    whole = MeshTet(np.ascontiguousarray(points[:, kept]), merged.ravel()[flat.t])
    return whole.with_boundaries(
        {
            "bore": lambda x: np.hypot(x[0], x[1]) < 1.01 * RADIUS,
            "sides": lambda x: np.abs(x[:2]).max(axis=0) > 0.999 * HALF_SIDE,
            "faces": lambda x: np.abs(x[2] - HEIGHT / 2) > 0.499 * HEIGHT,
        }
    )


def random_field(points: Field, rng: np.random.Generator) -> Field:
    """Gaussian field at points (3, nodes): Σ ξᵢⱼₖ cos cos cos / (κ² + |ω|²)^1.5, from a corner."""
    waves = np.arange(WAVES)
    frequencies = [np.pi * waves / length for length in (2 * HALF_SIDE, 2 * HALF_SIDE, HEIGHT)]
    squares = sum(np.meshgrid(*(frequency**2 for frequency in frequencies), indexing="ij"))
    amplitude = (CORRELATION**-2 + squares) ** -1.5
    norms = np.where(waves > 0, 0.5, 1.0)  # mean squares of the cosines
    amplitude *= SPREAD / np.sqrt(np.einsum("ijk,i,j,k->", amplitude**2, norms, norms, norms))
    corner = np.array([-HALF_SIDE, -HALF_SIDE, 0.0])[:, None]
    cosines = [np.cos(np.outer(w, x)) for w, x in zip(frequencies, points - corner, strict=True)]
    return np.einsum("ijk,in,jn,kn->n", amplitude * rng.normal(size=amplitude.shape), *cosines, optimize=True)


@BilinearForm
def _conduction(T: Any, v: Any, w: Any) -> Any:
    return np.exp(w.a) * dot(grad(T), grad(v))


@BilinearForm
def _cooling(T: Any, v: Any, w: Any) -> Any:
    return T * v


@cache
def _assembled(level: int) -> tuple[Basis, Any]:
    """The basis, and the matrix of a film of 1."""
    basis = Basis(mesh(level), ElementTetP1(), intorder=2)
    return basis, _cooling.assemble(FacetBasis(basis.mesh, ElementTetP1(), facets="faces"))


def solve(log_conductivity: Field, film: float, temperature: float, *, level: int = LEVEL) -> Field:
    """Temperature (nodes,) of one block."""
    basis, cooling = _assembled(level)
    T, warm = basis.zeros(), basis.get_dofs("bore").all()
    T[warm] = temperature
    free = basis.complement_dofs(basis.get_dofs({"bore", "sides"}))
    K = _conduction.assemble(basis, a=log_conductivity) + film * cooling
    T[free] = splu(K[free][:, free].tocsc(), permc_spec="MMD_AT_PLUS_A").solve(-(K[free][:, warm] @ T[warm]))
    return T


def heat_flow(log_conductivity: Field, temperature: Field, *, level: int = LEVEL) -> float:
    """Heat that leaves the bore of a block with insulated faces: ∫ k |∇T|² / T(bore)."""
    K = _conduction.assemble(_assembled(level)[0], a=log_conductivity)
    return float(temperature @ K @ temperature / temperature.max())


def sample(count: int, seed: int, *, level: int = LEVEL) -> tuple[dict[str, Field], dict[str, Field]]:
    """Inputs and outputs by name, axis 0 the sample; "conductivity" is the field a = log k."""
    drawn, solved = [], []
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        drawn.append((random_field(mesh(level).p, rng), rng.uniform(*FILMS), rng.uniform(*TEMPERATURES)))
        solved.append(solve(*drawn[-1], level=level))
    inputs = dict(zip(("conductivity", "film", "temperature"), map(np.array, zip(*drawn, strict=True)), strict=True))
    return inputs, {"temperature": np.array(solved)}


if __name__ == "__main__":
    chosen = options(__doc__, count=300, level=LEVEL)
    write("block", mesh(chosen.level), *sample(chosen.count, chosen.seed, level=chosen.level), chosen.output)
