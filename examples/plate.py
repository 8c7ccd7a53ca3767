"""A plate with a hot hole, clamped on the left and pulled on the right: heat, then thermo-elasticity, on triangles.

    −∇·(k ∇T) = 0        k = eᵃ,  T = `temperature` on the hole,  T = 0 on the outer edges
    −∇·σ = 0             σ = C (ε(u) − α T I),  plane stress
    u = 0 on the left,   σn = p (cos `angle`, sin `angle`) on the right,  σn = 0 elsewhere

Inputs are the field a on the nodes and two numbers; outputs are u, a vector at each node, and T. Lengths are in mm,
stresses in MPa, temperatures in K above the surroundings. The field is Gaussian with the covariance (κ² − Δ)⁻², drawn
by its Karhunen–Loève expansion on the square, so that sample i depends on the seed and i alone, not on the mesh. The
stiffness never changes: it is factorised once, and a sample costs one assembly and one solve of the heat equation.

    python examples/plate.py --count 500        writes plate.npz, plate_mesh.vtu and plate.png

>>> conductivity = np.zeros(len(mesh(1).p.T))                 # k = 1 everywhere
>>> u, T = solve(conductivity, angle=0.0, temperature=100.0, level=1)
>>> u.shape, T.shape, float(T.max())
((1008, 2), (1008,), 100.0)
>>> shape = 2 * np.pi / np.log(1.08 * 2 * HALF_SIDE / (2 * RADIUS))       # of a hole in a square, from the handbooks
>>> print(f"{heat_flow(conductivity, T, level=1) / 100.0 / shape:.2f}")
1.00
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTriP1, ElementVector, FacetBasis, LinearForm, MeshQuad, MeshTri
from skfem.helpers import ddot, div, dot, eye, grad, sym_grad, trace

from pcarann.drawing import blank, draw_field, save, style

__all__ = ["draw", "heat_flow", "mesh", "options", "random_field", "ring", "sample", "solve", "write"]

Field = np.ndarray[Any, Any]

HALF_SIDE, RADIUS, LEVEL = 100.0, 25.0, 2
YOUNG, POISSON, EXPANSION, TRACTION = 210e3, 0.3, 1.2e-5, 40.0
ANGLES, TEMPERATURES = (-np.pi / 2, np.pi / 2), (50.0, 250.0)
SPREAD, CORRELATION, WAVES = 1.0, 50.0, 12
"""Standard deviation of log k, its correlation length 1/κ, and cosines along each axis"""


@cache
def mesh(level: int = LEVEL, radius: float = RADIUS) -> MeshTri:
    """Square minus disk: a ring of crossed quadrilaterals, graded so that cells are as long as they are wide.

    Levels are nested, each with four times as many triangles; level 2 has 3936 nodes.
    """
    shells, sectors = 5 * 2**level, 24 * 2**level
    flat = MeshQuad.init_tensor(np.linspace(0, 1, shells + 1), np.linspace(0, 1, sectors + 1)).to_meshtri(style="x")
    points = ring(*flat.p, radius)
    _, kept, merged = np.unique(points.round(6), axis=1, return_index=True, return_inverse=True)  # along the seam
    whole = MeshTri(np.ascontiguousarray(points[:, kept]), merged.ravel()[flat.t])
    return whole.with_boundaries(
        {
            "hole": lambda x: np.hypot(*x) < 1.01 * radius,
            "outer": lambda x: np.abs(x).max(axis=0) > 0.999 * HALF_SIDE,
            "left": lambda x: x[0] < -0.999 * HALF_SIDE,
            "right": lambda x: x[0] > 0.999 * HALF_SIDE,
        }
    )


def ring(depth: Field, turn: Field, radius: float) -> Field:
    """Points (2, nodes) between circle, depth 0, and square, depth 1; a whole turn is 1 and begins at a corner."""
    angle = 2 * np.pi * turn + np.pi / 4
    circle = radius * np.array([np.cos(angle), np.sin(angle)])
    corners = np.linspace(0, 1, 5), [[1, -1, -1, 1, 1], [1, 1, -1, -1, 1]]
    square = HALF_SIDE * np.array([np.interp(turn, corners[0], along) for along in corners[1]])
    ratio = HALF_SIDE / radius
    return circle + (ratio**depth - 1) / (ratio - 1) * (square - circle)


def random_field(points: Field, rng: np.random.Generator) -> Field:
    """Gaussian field at points (2, nodes): Σ ξᵢⱼ cos ωᵢx cos ωⱼy / (κ² + ωᵢ² + ωⱼ²), with x, y from a corner."""
    frequency = np.pi * np.arange(WAVES) / (2 * HALF_SIDE)
    amplitude = 1 / (CORRELATION**-2 + frequency[:, None] ** 2 + frequency**2)
    norms = np.where(np.arange(WAVES) > 0, 0.5, 1.0)  # mean squares of the cosines
    amplitude *= SPREAD / np.sqrt(norms @ amplitude**2 @ norms)
    first, second = np.cos(frequency[:, None, None] * (points + HALF_SIDE)).transpose(1, 0, 2)
    return np.einsum("ij,in,jn->n", amplitude * rng.normal(size=amplitude.shape), first, second, optimize=True)


@BilinearForm
def _conduction(T: Any, v: Any, w: Any) -> Any:
    return np.exp(w.a) * dot(grad(T), grad(v))


def _stress(strain: Any) -> Any:
    """Hooke's law in plane stress."""
    return YOUNG / (1 - POISSON**2) * ((1 - POISSON) * strain + POISSON * eye(trace(strain), 2))


@BilinearForm
def _elasticity(u: Any, v: Any, w: Any) -> Any:
    return ddot(_stress(sym_grad(u)), sym_grad(v))


@BilinearForm
def _thermal_load(T: Any, v: Any, w: Any) -> Any:
    return YOUNG * EXPANSION / (1 - POISSON) * T * div(v)  # C (α T I) = E α T / (1 − ν) I in plane stress


def _pull(axis: int) -> LinearForm:
    return LinearForm(lambda v, w: TRACTION * v[axis])


@cache
def _scalar_basis(level: int, radius: float) -> Basis:
    return Basis(mesh(level, radius), ElementTriP1(), intorder=2)


@cache
def _mechanics(level: int, radius: float) -> Callable[[Field, Field], Field]:
    """Displacements (nodes, 2) of temperatures at the nodes and a direction of the traction, by one factorisation."""
    scalar, element = _scalar_basis(level, radius), ElementVector(ElementTriP1())
    basis = scalar.with_element(element)
    edge = FacetBasis(basis.mesh, element, facets="right")
    free = basis.complement_dofs(basis.get_dofs("left"))
    factors = splu(_elasticity.assemble(basis)[free][:, free].tocsc())
    heat = _thermal_load.assemble(scalar, basis)
    pulls = np.stack([_pull(axis).assemble(edge) for axis in (0, 1)])

    def displacement(temperature: Field, direction: Field) -> Field:
        u = basis.zeros()
        u[free] = factors.solve((heat @ temperature + direction @ pulls)[free])
        return u[basis.nodal_dofs].T

    return displacement


def _temperature(log_conductivity: Field, hole: float, level: int, radius: float) -> Field:
    basis = _scalar_basis(level, radius)
    T, warm = basis.zeros(), basis.get_dofs("hole").all()
    T[warm] = hole
    free = basis.complement_dofs(basis.get_dofs({"hole", "outer"}))
    K = _conduction.assemble(basis, a=log_conductivity)
    T[free] = splu(K[free][:, free].tocsc(), permc_spec="MMD_AT_PLUS_A").solve(-(K[free][:, warm] @ T[warm]))
    return T


def solve(
    log_conductivity: Field, angle: float, temperature: float, *, level: int = LEVEL, radius: float = RADIUS
) -> tuple[Field, Field]:
    """Displacement (nodes, 2) and temperature (nodes,) of one plate."""
    T = _temperature(log_conductivity, temperature, level, radius)
    return _mechanics(level, radius)(T, np.array([np.cos(angle), np.sin(angle)])), T


def heat_flow(log_conductivity: Field, temperature: Field, *, level: int = LEVEL, radius: float = RADIUS) -> float:
    """Heat that leaves the hole, for a thickness of 1: ∫ k |∇T|² / T(hole)."""
    K = _conduction.assemble(_scalar_basis(level, radius), a=log_conductivity)
    return float(temperature @ K @ temperature / temperature.max())


def sample(count: int, seed: int, *, level: int = LEVEL) -> tuple[dict[str, Field], dict[str, Field]]:
    """Inputs and outputs by name, axis 0 the sample; "conductivity" is the field a = log k."""
    drawn, solved = [], []
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        drawn.append((random_field(mesh(level).p, rng), rng.uniform(*ANGLES), rng.uniform(*TEMPERATURES)))
        solved.append(solve(*drawn[-1], level=level))
    inputs = dict(zip(("conductivity", "angle", "temperature"), map(np.array, zip(*drawn, strict=True)), strict=True))
    outputs = dict(zip(("displacement", "temperature"), map(np.array, zip(*solved, strict=True)), strict=True))
    return inputs, outputs


def write(name: str, mesh: Any, inputs: dict[str, Field], outputs: dict[str, Field], folder: Path) -> None:
    """Write all samples to NAME.npz, and the mesh with the fields of the first to NAME_mesh.vtu and NAME.png."""
    named = {f"input_{key}": values for key, values in inputs.items()}
    named |= {f"output_{key}": values for key, values in outputs.items()}
    np.savez_compressed(folder / f"{name}.npz", points=mesh.p.T, cells=mesh.t.T, **named)
    first = {key: _in_space(values[0]) for key, values in named.items() if values.ndim > 1}
    cells = {{3: "triangle", 4: "tetra"}[len(mesh.t)]: mesh.t.T}
    meshio.write_points_cells(folder / f"{name}_mesh.vtu", _in_space(mesh.p.T), cells, point_data=first)
    draw(folder / f"{name}.png", mesh, {key: values[0] for key, values in named.items() if values.ndim > 1})


def draw(path: Path, mesh: Any, fields: dict[str, Field]) -> None:
    """Draw fields at the nodes side by side: of vectors their lengths, of solids the surface."""
    triangles = mesh.t.T if len(mesh.t) == 3 else mesh.facets[:, mesh.boundary_facets()].T
    with style():
        figure = blank(3.2 * len(fields), 2.6)
        for axis, (name, values) in zip(np.atleast_1d(figure.subplots(1, len(fields))), fields.items(), strict=True):
            draw_field(axis, values, points=mesh.p.T, triangles=triangles)
            axis.set(title=name.replace("_", ": "), xlabel="", ylabel="")
        save(figure, path)


def _in_space(values: Field) -> Field:
    """Vectors with a third component of 0 where they have two, as VTK wants them; numbers as they are."""
    return np.pad(values, ((0, 0), (0, 3 - values.shape[1]))) if values.ndim > 1 else values


def options(description: str, *, count: int, level: int) -> argparse.Namespace:
    """Read how many samples are wanted, from which seed, and where to write them."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", type=int, default=level, help=f"of the mesh ({level})")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options(__doc__, count=500, level=LEVEL)
    write("plate", mesh(chosen.level), *sample(chosen.count, chosen.seed, level=chosen.level), chosen.output)
