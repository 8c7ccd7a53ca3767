"""Windows of trajectories: how long they are, what values they reach, and which of them a roll-out can be judged by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pcarann.marching.flow import Flow

__all__ = ["judged_window", "later_times", "reaches", "refuse_longer"]


def later_times(y: Any) -> int | None:
    """Later times of y; None where it has none."""
    shape = np.shape(y)
    return int(shape[1]) if len(shape) > 1 and shape[1] else None


def reaches(flow: Flow, y: Any) -> bool:
    """Whether y has as many later times as a roll-out is judged by."""
    return (later_times(y) or 0) >= _steps(flow)


def judged_window(flow: Flow, y: Any, controls: Any) -> tuple[int, Any]:
    """Over how many steps a roll-out is judged, those of its calibration if it has one; and the controls of these.

    A refusal where y has fewer.
    """
    steps, later = _steps(flow), later_times(y) or 0
    if not reaches(flow, y):
        raise ValueError(f"y has {later} later snapshots, but {steps} are needed to judge a roll-out.")
    if controls is not None and np.ndim(controls) == 3:
        controls = controls[:, : np.shape(controls)[1] - (later - steps), :]
    return steps, controls


def refuse_longer(flow: Flow) -> None:
    """Refuse intervals over more steps than they were calibrated for."""
    if flow.calibration is not None and flow.window > _steps(flow):
        raise ValueError(
            f"Intervals were calibrated for {_steps(flow)} steps, but {flow.window} are asked for: calibrate on longer "
            "trajectories, or ask for fewer."
        )


def _steps(flow: Flow) -> int:
    return flow.window if flow.calibration is None else flow.calibration.points // math.prod(flow.model.output_grid)
