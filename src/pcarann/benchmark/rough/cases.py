"""Three problems whose input is a rough random field: a PCA of few modes loses what their solution depends on.

**Burgers**, uₜ + u uₓ = ν uₓₓ on the periodic interval with ν = 0.01, from u(0) ~ N(0, σ²(−Δ + 4π²)⁻¹) of root mean
square 1, whose amplitudes fall like 1/k up to k = 60, to the one snapshot u(T), T = 0.2. With v = Tu and s = t/T this
is vₛ + v vₓ = νT vₓₓ until s = 1, which is what `pcarann.problems.burgers` solves. On 512 points with 100 steps, 100
samples differ from a run on 1024 points with 400 steps by 2e-6 in the relative L² norm.

**Two-valued**, −∇·(a ∇u) = 1 on the unit square with u = 0 on its boundary; a is 1 or 10 on 11 × 11 blocks of 3 × 3
data nodes, by the sign of a rough field. Blocks meet half-way between nodes, those of the data and those of a solver
that is finer by an odd factor; there the harmonic mean of a is that of the continuous problem. The solver's grid is
three times finer; against nine times finer u differs by 1 %.

**Continuous**, the same equation with a = eᵍ and g ~ N(0, σ²(−Δ + 100)^−³ᐟ²) of standard deviation 0.7: in the plane
this is the exponential covariance e^{−10 r}. The field has 32 modes along each axis, four data nodes for the shortest
wave, and the data nodes are those of the solver; against four times finer u differs by 1 %.

Sample i is a function of the seed and of i alone. Data are kept by `pcarann.problems.cache`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place
from pcarann.backend.concurrency import in_pieces
from pcarann.baselines.fields import Axis
from pcarann.problems.burgers import evolve
from pcarann.problems.darcy import solve
from pcarann.problems.dataset import OperatorData, Simulation
from pcarann.problems.random_fields import Covariance, neumann_square, periodic_interval

__all__ = ["CASES", "SIZES", "Case", "continuous", "rough_burgers", "two_valued"]

SIZES = (50, 200, 1000)
"""Training samples"""

_POINTS = 128
_TIME = 0.2
_BLOCKS, _NODES_OF_BLOCK = 11, 3
_LOW, _HIGH = 1.0, 10.0
_NODES = 64
_MODES, _WAVES = 60, 32  # of the initial state, and of g along an axis
_TOLERANCE = 1e-9  # of the conjugate gradients: far below the discretisation
_TAGS = 10_011, 10_012, 10_013


@dataclass(frozen=True)
class Case:
    """A rough problem: how its data are made, and what a network has to know of its grid."""

    name: str
    title: str
    simulate: Callable[..., tuple[Array, ...]]
    coordinates: dict[str, np.ndarray[Any, Any]]
    axes: tuple[Axis, ...]
    sizes: tuple[int, ...] = SIZES
    """Training samples, ascending"""
    n_test: int = 200
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of the simulation"""
    is_quick: bool = False

    def generate(self, *, seed: int = 0) -> tuple[OperatorData, OperatorData]:
        """Return training and test samples; fewer training samples are the first of these."""
        simulation = Simulation(self.name, self.simulate, self.options, self.coordinates, block=(200, 200))
        train, test = simulation.generate(self.sizes[-1] + self.n_test, seed=seed).split(self.sizes[-1], self.n_test)
        return train, test

    def quick(self) -> Case:
        """The same case in seconds."""
        options = {"rough_burgers": {"grid": 256, "steps": 50}, "two_valued": {"finer": 1}}
        return replace(self, sizes=(20, 40), n_test=10, options=options.get(self.name, {}), is_quick=True)


def rough_burgers(samples: range, place: Place, *, seed: int, grid: int = 512, steps: int = 100) -> tuple[Array, ...]:
    """u(0) and u(T) of these samples, (samples, 128); the solver takes `grid` points, a multiple, and `steps` steps."""
    if grid % _POINTS:
        raise ValueError(f"grid must be a multiple of {_POINTS}, got {grid}.")
    covariance = _of_deviation(1.0, 2 * math.pi, 1.0, 4 * math.pi**2 * np.arange(1, _MODES + 1) ** 2, pairs=2)

    def piece(part: range) -> tuple[Array, Array]:
        u = periodic_interval(part, place, covariance, grid=grid, modes=_MODES, seed=seed, tag=_TAGS[0])
        v = evolve(_TIME * u, viscosity=0.01 * _TIME, times=1, steps=steps)[:, -1, :]
        return u[:, :: grid // _POINTS], v[:, :: grid // _POINTS] / _TIME

    return in_pieces(piece, samples, place=place, size=50, bytes_each=100 * 16 * grid)


def two_valued(samples: range, place: Place, *, seed: int, finer: int = 3) -> tuple[Array, ...]:
    """a and u of these samples, (samples, 33, 33); the solver's grid is finer by an odd factor."""
    if finer < 1 or finer % 2 == 0:
        raise ValueError(f"finer must be odd, so that blocks meet between nodes, got {finer}.")
    covariance = Covariance(variance=1.0, shift=3.0, power=1.0)
    nodes = np.arange((_BLOCKS * _NODES_OF_BLOCK - 1) * finer + 1) / finer
    block = place.put(np.eye(_BLOCKS)[((nodes + 0.5) / _NODES_OF_BLOCK).astype(int)])

    def piece(part: range) -> tuple[Array, Array]:
        levels = neumann_square(part, place, covariance, grid=_BLOCKS, modes=_BLOCKS, seed=seed, tag=_TAGS[1])
        a = _LOW + (_HIGH - _LOW) * (block @ place.xp.astype(levels >= 0, place.xp.float64) @ block.T)
        u = solve(a, place.zeros(*a.shape) + 1.0, tolerance=_TOLERANCE, harmonic=True)
        return a[:, ::finer, ::finer], u[:, ::finer, ::finer]

    return in_pieces(piece, samples, place=place, size=10, bytes_each=20 * 8 * len(nodes) ** 2)


def continuous(samples: range, place: Place, *, seed: int, finer: int = 1) -> tuple[Array, ...]:
    """a and u of these samples, (samples, 64, 64); the solver's grid is `finer` times as fine."""
    squares = np.arange(_WAVES) ** 2
    covariance = _of_deviation(0.7, 10.0, 1.5, math.pi**2 * (squares[:, None] + squares))
    nodes = (_NODES - 1) * finer + 1

    def piece(part: range) -> tuple[Array, Array]:
        g = neumann_square(part, place, covariance, grid=nodes, modes=_WAVES, seed=seed, tag=_TAGS[2])
        a = place.xp.exp(g)
        u = solve(a, place.zeros(*a.shape) + 1.0, tolerance=_TOLERANCE, most=500)
        return a[:, ::finer, ::finer], u[:, ::finer, ::finer]

    return in_pieces(piece, samples, place=place, size=10, bytes_each=20 * 8 * nodes**2)


def _of_deviation(deviation: float, shift: float, power: float, laplacian: Array, pairs: int = 1) -> Covariance:
    """The covariance whose fields have this root mean square, if each eigenvalue of −Δ comes with so many waves."""
    total = pairs * float(Covariance(1.0, shift, power).eigenvalues(laplacian).sum())
    return Covariance(deviation**2 / total, shift, power)


_SQUARE: dict[str, Any] = {"axes": ("interval", "interval")}


def _square(nodes: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.linspace(0, 1, nodes), "y": np.linspace(0, 1, nodes)}


CASES = {
    case.name: case
    for case in (
        Case(
            "rough_burgers",
            "Burgers, rough",
            rough_burgers,
            {"x": np.arange(_POINTS) / _POINTS},
            ("periodic",),
        ),
        Case("two_valued", "Two-valued coefficient", two_valued, _square(_BLOCKS * _NODES_OF_BLOCK), **_SQUARE),
        Case("continuous64", "Rough coefficient, 64²", continuous, _square(_NODES), **_SQUARE),
    )
}
"""By name"""
