"""Two numbers and a field of ten modes from twenty noisy sensors: a posterior that knows what its surrogate is worth.

    −∇·(eᵃ ∇u) + h u = q  on the unit square,  u = 0 on its edges,     a = Σ ξᵢ φᵢ,  ξᵢ ~ N(0, 1)

log h and q are uniform. The surrogate learns the field u from 12 numbers; its `quantity` of the 20 sensors makes no
field, and gives the gradients for the most likely parameters (scipy's L-BFGS with bounds), from where emcee draws the
posterior. What the surrogate itself may be wrong by is measured on solutions kept for that: the half width of conformal
intervals at 68 % is the standard deviation of its error at each sensor, correlated as errors of the calibration are.
Without it the posterior is too sure of itself: `benchmarks/inversion.py` counts how often it holds the truth.

    python examples/inversion.py            a minute; writes inversion.png
    python examples/inversion.py --quick    seconds
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import emcee
import numpy as np
from scipy.optimize import minimize
from scipy.sparse import diags_array
from scipy.sparse.linalg import spsolve

from pcarann import PCARaNN

Values = np.ndarray[Any, Any]
SIDE, MODES, NOISE = 25, 10, 0.002
BOUNDS = [(0.0, 3.0), (0.5, 2.0), *[(-4.0, 4.0)] * MODES]
"""Of log h, q and the ξᵢ"""
NAMES = ["log h", "q", *(f"ξ{i}" for i in range(1, MODES + 1))]
GRID = np.linspace(0, 1, SIDE)
SENSORS = [SIDE * i + j for i in (4, 9, 15, 20) for j in (3, 8, 12, 16, 21)]


def waves() -> Values:
    """φᵢ, (modes, side, side): the smoothest products of cosines, those of higher frequency weaker."""
    pairs = sorted(((i, j) for i in range(5) for j in range(5) if i + j), key=lambda p: p[0] ** 2 + p[1] ** 2)[:MODES]
    return np.array(
        [np.outer(np.cos(np.pi * i * GRID), np.cos(np.pi * j * GRID)) / (1 + 0.5 * (i * i + j * j)) for i, j in pairs]
    )


def solve(numbers: Values) -> Values:
    """u, (side, side), by finite volumes with the conductivity at the faces."""
    inner, step = SIDE - 2, GRID[1]
    k = np.exp(np.tensordot(numbers[2:], waves(), 1))
    across, down = (k[1:, 1:-1] + k[:-1, 1:-1]) / 2, (k[1:-1, 1:] + k[1:-1, :-1]) / 2
    beside = np.pad(-down[:, 1:-1], ((0, 0), (0, 1))).ravel()[:-1]  # no neighbour across the end of a row
    middle = (across[1:] + across[:-1] + down[:, 1:] + down[:, :-1]).ravel() + step**2 * np.exp(numbers[0])
    below = -across[1:-1].ravel()
    A = diags_array([middle, beside, beside, below, below], offsets=[0, 1, -1, inner, -inner], format="csc")
    return np.pad(spsolve(A, np.full(inner**2, step**2 * numbers[1])).reshape(inner, inner), 1)


def prior(rng: np.random.Generator, count: int) -> Values:
    """(count, 12) parameters."""
    return np.column_stack([*(rng.uniform(*ends, count) for ends in BOUNDS[:2]), rng.normal(size=(count, MODES))])


def together(quantity: Any, measured: Values, covariance: Values, parameters: Values) -> Values:
    """Log densities (problems, walkers) of (problems, walkers, 12) parameters given (problems, 20) measurements."""
    low, high = np.array(BOUNDS).T
    flat = np.clip(parameters, low, high).reshape(-1, len(BOUNDS))
    missed = quantity(flat).reshape(*parameters.shape[:2], -1) - measured[:, None]
    squares = np.einsum("pwi,ij,pwj->pw", missed, np.linalg.inv(covariance), missed, optimize=True)
    inside = ((low <= parameters) & (parameters <= high)).all(axis=2)
    return np.where(inside, -0.5 * (squares + (parameters[..., 2:] ** 2).sum(axis=2)), -np.inf)


class Posterior:
    """The density of parameters given measurements, up to a constant."""

    def __init__(self, quantity: Any, measured: Values, covariance: Values):
        self.quantity, self.measured, self.covariance = quantity, measured, covariance
        self.inverse = np.linalg.inv(covariance)

    def __call__(self, parameters: Values) -> Values:
        """Its logarithm, of (walkers, 12)."""
        return together(self.quantity, self.measured[None], self.covariance, parameters[None])[0]

    def slope(self, parameters: Values) -> tuple[float, Values]:
        """−log and its gradient, of (12,)."""
        missed = self.quantity(parameters[None])[0] - self.measured
        weighted, own = self.inverse @ missed, np.r_[0, 0, parameters[2:]]
        gradient = self.quantity.gradient(parameters[None])[0].T @ weighted + own
        return 0.5 * float(missed @ weighted + own @ own), gradient

    def begun(self, rng: np.random.Generator, walkers: int) -> tuple[Values, Values]:
        """The most likely parameters, and some (walkers, 12) around them by Laplace's rule, inside the bounds."""
        middle, options = np.r_[1.5, 1.25, np.zeros(MODES)], {"maxiter": 40}
        best = minimize(self.slope, middle, jac=True, method="L-BFGS-B", bounds=BOUNDS, options=options).x
        J = self.quantity.gradient(best[None])[0]
        information = J.T @ self.inverse @ J + np.diag([1.0, 5.0, *np.ones(MODES)])  # uniform by their variance
        around = best + rng.normal(size=(walkers, len(best))) @ np.linalg.cholesky(np.linalg.inv(information)).T
        low, high = np.array(BOUNDS).T
        return best, np.clip(around, low + 1e-3, high - 1e-3)


def learned(rng: np.random.Generator, train: int, kept: int) -> tuple[Any, Values]:
    """The quantity of the sensors, calibrated, and the covariance of its error."""
    parameters = prior(rng, train + kept)
    fields = np.array([solve(one) for one in parameters])
    model = PCARaNN((12, 40), (150, 50), n_members=4, ridge="gcv", linear=True).fit(parameters[:train], fields[:train])
    sensors = np.eye(SIDE * SIDE)[SENSORS].reshape(-1, SIDE, SIDE)
    quantity = model.quantity(sensors).calibrate(parameters[train:], fields[train:])
    band = quantity.predict_interval(parameters[train:], alpha=0.32)
    width = np.median(band.upper - band.lower, axis=0) / 2
    missed = band.mean - fields[train:].reshape(kept, -1)[:, SENSORS]
    return quantity, width[:, None] * np.corrcoef(missed.T) * width


def draw(truth: Values, draws: dict[str, Values], path: Path) -> None:
    """Posteriors beside the truth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    for axis, name, value, column in zip(figure.subplots(2, 6).flat, NAMES, truth, range(len(truth)), strict=True):
        for label, found in draws.items():
            axis.hist(found[:, column], bins=40, density=True, histtype="step", label=label)
        axis.axvline(value, color="black", label="truth")
        axis.set(title=name, yticks=[])
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> dict[str, Values]:
    """Invert one set of measurements with the model error and without."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder")
    chosen = parser.parse_args(arguments)
    train, kept, steps = (100, 60, 30) if chosen.quick else (600, 300, 800)
    rng = np.random.default_rng(0)
    quantity, error = learned(rng, train, kept)
    truth, noise, draws = prior(rng, 1)[0], NOISE**2 * np.eye(len(SENSORS)), {}
    measured = solve(truth).ravel()[SENSORS] + NOISE * rng.normal(size=len(SENSORS))
    for name, covariance in (("with model error", noise + error), ("without", noise)):
        posterior = Posterior(quantity, measured, covariance)
        best, begun = posterior.begun(rng, walkers=48)
        sampler = emcee.EnsembleSampler(48, len(best), posterior, vectorize=True, moves=emcee.moves.DEMove())
        sampler.random_state = np.random.RandomState(0).get_state()
        sampler.run_mcmc(begun, steps)
        draws[name] = sampler.get_chain(discard=steps // 4, flat=True)
        low, high = np.quantile(draws[name], (0.05, 0.95), axis=0)
        print(f"{name}: {((low <= truth) & (truth <= high)).sum()} of 12 parameters in their 90 % intervals")
    draw(truth, draws, chosen.output / "inversion.png")
    return draws


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie outside the training data")  # walkers may try what they like
        main()
