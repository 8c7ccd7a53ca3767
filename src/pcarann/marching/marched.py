"""All that a fit of a flow found, in one record that is replaced as a whole and never edited."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from pcarann.marching.coordinates import Coordinates
from pcarann.marching.flow import Flow
from pcarann.marching.intervals import WindowCalibration
from pcarann.marching.report import RolloutReport
from pcarann.marching.rollout_spread import RolloutSpread
from pcarann.marching.watch import Reach
from pcarann.operator import PCARaNN
from pcarann.storage.arrays import Arrays
from pcarann.storage.document import described_calibration
from pcarann.storage.formats import Document, Tensors
from pcarann.storage.streams import described_history, rebuilt_history
from pcarann.storage.typed import checked, record, seconds_of
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.monitor import History
from pcarann.uncertainty.outliers import above_mean

__all__ = ["Marched"]


@dataclass(frozen=True)
class Marched:
    """All that a fit found. Replaced as a whole, never edited."""

    model: Any
    """The fitted surrogate of one step"""
    step: int
    window: int
    """Snapshots that are predicted"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state of the model that the calibration belongs to"""
    n_controls: int = 0
    """Numbers that act at each step"""
    reach: Reach | None = None
    """Range of the training snapshots; None in older files"""
    report: RolloutReport | None = None
    fit_report: FitReport | None = None
    """Error of roll-outs of trajectories left out; None where none could be"""
    seconds: dict[str, float] = field(default_factory=dict)
    history: History | None = None
    coordinates: Coordinates | None = None
    """Interval between snapshots and their points, where trajectories had labels"""
    spread: RolloutSpread | None = None
    """Of roll-outs that were held out; None for three members or more of random layers, and in older files"""
    held: tuple[Any, ...] | None = None
    """Suspicious trajectories that `partial_fit` holds back, with their controls; files do not keep them"""

    def flow(self) -> Flow:
        """The roll-out over the window of the fit."""
        facts = (self.step, self.window, self.calibration, self.calibrated, self.n_controls)
        flow = Flow(self.model.fitted_, *facts, reach=self.reach, history=self.history, spread=self.spread)
        return replace(flow, coordinates=self.coordinates)

    def on(self, target: Any) -> Marched:
        """The record of the same flow with snapshots on another grid, uncalibrated, or a refusal."""
        if not hasattr(self.model, "on"):
            raise ValueError(f"A flow of {type(self.model).__name__} cannot go to another grid, since it cannot.")
        model = self.model.on(target, **({"inputs": target} if isinstance(self.model, PCARaNN) else {}))
        values = [math.prod(one.fitted_.output_grid) for one in (model, self.model)]
        reach = self.reach and replace(self.reach, norm=self.reach.norm * math.sqrt(values[0] / values[1]))
        coordinates, spread = (
            self.coordinates and self.coordinates.moved(),
            self.spread and self.spread.on(model.fitted_),
        )
        moved = replace(self, model=model, reach=reach, coordinates=coordinates, spread=spread)
        return replace(moved, calibration=None, history=None)

    @property
    def unwatched(self) -> History:
        """The history before anything was met"""
        if self.report is not None and self.report.trajectories:
            return History(float(np.mean(self.report.median)))
        report = getattr(self.model.fitted_, "report", None)
        step = report.relative_error if isinstance(report, FitReport) else None
        return History(high=None if step is None else above_mean(self.window * step))  # errors of steps add up

    @property
    def memory(self) -> tuple[tuple[float, float] | None, float | None, str]:
        """What counts in the step, which learns pairs: weights and number, the forgetting, why to fit it again."""
        inner = self.model.monitor
        weights = None if inner.remembered is None else (inner.remembered, inner.remembered + inner.forgotten)
        return weights, inner.forgetting, inner.reason

    def described(self, parameters: Any, tensors: Tensors) -> Document:
        """The part of a document that is its own; its arrays are added to the tensors."""
        if isinstance(self.calibration, WindowCalibration):
            self.calibration.described(tensors)
        return {
            **{"step": self.step, "first": int(parameters.first), "choose": bool(parameters.choose)},
            **{"window": self.window, "controls": self.n_controls, "seconds": self.seconds},
            "calibration": described_calibration(self.calibration, "marching", tensors),
            "calibrated": self.calibrated,
            "history": described_history(self.history, "marching.history", tensors),
            "reach": None if self.reach is None else asdict(self.reach),
            "report": None if self.report is None else asdict(self.report),
            "fit_report": None if self.fit_report is None else asdict(self.fit_report),
            "coordinates": self.coordinates and self.coordinates.described(tensors),
            "spread": None if self.spread is None else self.spread.described(tensors),
        }

    @classmethod
    def rebuilt(
        cls, described: Document, model: Any, calibration: Calibration | None, arrays: Arrays | None = None
    ) -> Marched:
        """The record that a document describes; what older ones did not keep stays unknown."""
        reach, report, coordinates = (described.get(name) for name in ("reach", "report", "coordinates"))
        spread, tensors = described.get("spread"), {} if arrays is None else arrays.found
        grid = tuple(model.fitted_.output_grid)
        return cls(
            model,
            checked(described["step"], int, "its step"),
            checked(described["window"], int, "its window"),
            calibration,
            checked(described["calibrated"], int, "calibrated"),
            checked(described.get("controls", 0), int, "its controls"),
            None if reach is None else record(Reach, reach, "its reach"),
            None if report is None else RolloutReport.rebuilt(report),
            None if (told := described.get("fit_report")) is None else record(FitReport, told, "its fit report"),
            seconds_of(described.get("seconds", {})),
            rebuilt_history(described.get("history"), "marching.history", tensors),
            None if coordinates is None or arrays is None else Coordinates.rebuilt(coordinates, arrays, grid),
            None if spread is None else RolloutSpread.rebuilt(spread, model.fitted_, tensors),
        )
