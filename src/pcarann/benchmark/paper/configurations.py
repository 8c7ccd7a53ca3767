"""Every number of the paper, as data: what was run, and what it gave.

Errors are mean relative L² errors on the test set (at the last time for Navier–Stokes); times are seconds on one
NVIDIA RTX A6000.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = [
    "BASELINES",
    "LATER_WINDOW",
    "PAPER_EPOCHS",
    "PAPER_IMPROVEMENT",
    "PROBLEMS",
    "SYMMETRIC",
    "VARIANTS",
    "LaterWindow",
    "Paper",
    "Problem",
    "Result",
    "Variant",
]

Variant = Literal["energy", "refined"]

VARIANTS: dict[Variant, str] = {"energy": "PCA–RaNN, energy-matched", "refined": "PCA–RaNN, refined"}
"""The paper's models, by name"""
BASELINES = {
    "deeponet": "DeepONet",
    "fno": "FNO",
    "pca_nn": "PCA–NN",
    "kernel": "PCA + kernel ridge",
    "random_features": "Function-valued random features",
}
"""Methods to compare with, by name; the last two are not in the paper"""
SYMMETRIC = {
    "fno_symmetric": "FNO, same symmetry and inputs",
    "kernel_symmetric": "PCA + kernel ridge, same symmetry and inputs",
}
"""Those that see what the best model sees"""


@dataclass(frozen=True)
class Result:
    """A row of a table: error, its standard deviation over test samples where given, and training time."""

    error: float
    seconds: float
    std: float | None = None


@dataclass(frozen=True)
class Paper:
    """What the paper reports for one problem."""

    energy_scales: tuple[float, float]
    refined_scales: tuple[float, float]
    log_offsets: tuple[float, float]
    iterations: int
    single: dict[Variant, Result]
    ensemble: dict[Variant, Result]
    baselines: dict[str, Result]
    coverage: float
    """At 95 %, pooled"""
    width: float

    @property
    def results(self) -> dict[str, Result]:
        """By method: the ensembles and the baselines."""
        return {str(variant): result for variant, result in self.ensemble.items()} | self.baselines


@dataclass(frozen=True)
class Problem:
    """One benchmark: its data, its model and the paper's results."""

    name: str
    title: str
    n_components: tuple[int, int]
    widths: tuple[int, int]
    paper: Paper
    refine_ridge: float = 1e-4
    n_train: int = 1000
    n_calibration: int = 300
    n_test: int = 200
    n_members: int = 20
    last_time_only: bool = False
    """Whether the error is that of the last snapshot"""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of the generator"""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Samples for training, calibration and test."""
        return self.n_train, self.n_calibration, self.n_test

    @property
    def is_quick(self) -> bool:
        """Whether this is anything but the paper's problem at its full size."""
        return self != PROBLEMS[self.name]

    @property
    def later_window(self) -> LaterWindow:
        """What the model is adapted to, at the size of the problem."""
        return replace(LATER_WINDOW, counts=(0, 5, 10), n_test=5) if self.is_quick else LATER_WINDOW

    def quick(self) -> Problem:
        """The same problem in seconds: fewer samples, members and neurons."""
        options = {"darcy": {"fine": 29}, "navier_stokes": {"steps": 5}, "burgers": {"grid": 200, "steps": 1}}
        return replace(
            self,
            n_train=60,
            n_calibration=40,
            n_test=10,
            n_members=3,
            n_components=(20, 20),
            widths=(60, 40),
            options=options.get(self.name, {}),
        )


@dataclass(frozen=True)
class LaterWindow:
    """The later time window that the Navier–Stokes model is adapted to online."""

    start: int
    """The inputs begin at this time"""
    counts: tuple[int, ...]
    """Adaptation samples after which the error is measured"""
    n_test: int
    last_time_errors: tuple[float, float]
    """The paper's error at t = 30, before and after"""
    mean_errors: tuple[float, float]
    """The paper's mean error over t = 21–30, before and after"""
    recursive_seconds: float
    batch_seconds: float


def _results(**rows: tuple[float, ...]) -> dict[Any, Result]:
    return {name: Result(*row) for name, row in rows.items()}


_BURGERS = Paper(
    energy_scales=(0.45, 0.10),
    refined_scales=(0.54, 0.10),
    log_offsets=(0.18, 0.00),
    iterations=17,
    single=_results(energy=(4.89e-3, 0.6, 5.09e-3), refined=(4.33e-3, 3.0, 4.52e-3)),
    ensemble=_results(energy=(2.28e-3, 2.3, 2.79e-3), refined=(1.93e-3, 5.5, 2.67e-3)),
    baselines=_results(deeponet=(2.28e-2, 32330.9), fno=(1.11e-2, 13468.7), pca_nn=(9.87e-3, 2878.8)),
    coverage=0.9471,
    width=1.29e-3,
)
_DARCY = Paper(
    energy_scales=(0.00046, 0.03),
    refined_scales=(0.00046, 0.03),
    log_offsets=(0.0, 0.0),
    iterations=0,
    single=_results(energy=(3.52e-2, 0.8, 1.17e-2), refined=(3.52e-2, 2.1, 1.12e-2)),
    ensemble=_results(energy=(2.95e-2, 10.6, 1.00e-2), refined=(2.94e-2, 14.6, 9.58e-3)),
    baselines=_results(deeponet=(3.01e-2, 1740.1), fno=(2.43e-2, 1258.6), pca_nn=(3.35e-2, 1546.3)),
    coverage=0.9552,
    width=8.87e-4,
)
_NAVIER_STOKES = Paper(
    energy_scales=(0.024, 0.061),
    refined_scales=(0.024, 0.055),
    log_offsets=(0.01, -0.11),
    iterations=9,
    single=_results(energy=(3.12e-2, 3.6, 1.43e-2), refined=(2.93e-2, 67.0, 1.33e-2)),
    ensemble=_results(energy=(2.59e-2, 19.4, 1.34e-2), refined=(2.47e-2, 88.7, 1.26e-2)),
    baselines=_results(deeponet=(2.23e-2, 2000.7), fno=(2.03e-2, 1150.3), pca_nn=(3.34e-2, 1468.2)),
    coverage=0.9550,
    width=6.58e-2,
)
_BACKWARD_HEAT = Paper(
    energy_scales=(0.48, 0.24),
    refined_scales=(0.0083, 0.34),
    log_offsets=(-4.04, 0.34),
    iterations=5,
    single=_results(energy=(3.86e-1, 3.1, 1.75e-1), refined=(6.27e-2, 7.7, 2.25e-2)),
    ensemble=_results(energy=(2.89e-1, 4.6, 9.05e-2), refined=(5.59e-2, 9.8, 1.71e-2)),
    baselines=_results(deeponet=(2.53e-1, 2736.9), fno=(3.21e-1, 2221.7), pca_nn=(1.17e-1, 1507.1)),
    coverage=0.9469,
    width=1.92e-2,
)

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("burgers", "Burgers", (100, 100), (500, 200), _BURGERS, n_test=100),
        Problem("darcy", "Darcy", (150, 150), (3500, 1000), _DARCY),
        Problem("navier_stokes", "Navier–Stokes", (150, 150), (3000, 3000), _NAVIER_STOKES, last_time_only=True),
        Problem("backward_heat", "Backward heat", (100, 100), (400, 100), _BACKWARD_HEAT, refine_ridge=1e-12),
    )
}

LATER_WINDOW = LaterWindow(
    start=11,
    counts=(0, 10, 25, 50, 100, 150, 200),
    n_test=200,
    last_time_errors=(0.290, 0.079),
    mean_errors=(0.228, 0.049),
    recursive_seconds=0.60,
    batch_seconds=4.5,
)

PAPER_IMPROVEMENT = {"burgers": 0.1558, "darcy": 0.0021, "navier_stokes": 0.0451, "backward_heat": 0.7946}
"""As printed: the paper takes it from unrounded errors, so that it cannot be had from its other columns"""

PAPER_EPOCHS = {
    "burgers": {"pca_nn": 30_000, "deeponet": 100_000, "fno": 5_000},
    "darcy": {"pca_nn": 20_000, "deeponet": 30_000, "fno": 2_000},
    "navier_stokes": {"pca_nn": 10_000, "deeponet": 15_000, "fno": 2_000},
    "backward_heat": {"pca_nn": 20_000, "deeponet": 10_000, "fno": 2_000},
}
"""At most, for each problem and baseline"""
