"""Trainings on disk, from which `fit` goes on after an interruption.

A checkpoint holds weights, state of the optimiser, schedule, clock and history, and a fingerprint of the model, the
budget and the data. It is written in one step, read without running any code that it might contain, and set aside
with a warning where the fingerprint is another.
"""

from __future__ import annotations

import os
import pickle
import time
import warnings
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pcarann.baselines.fields import Fields
from pcarann.baselines.optimisation import Training
from pcarann.files import atomic_writer, check_target

__all__ = ["Checkpoint", "fingerprint"]

_PLAIN = ("seconds", "epoch", "total", "history", "best_error", "best_weights", "pace")


def fingerprint(description: str, *arrays: Fields) -> str:
    """Return a text that another model or other data do not have."""
    sums = [f"{array.shape} {zlib.crc32(np.ascontiguousarray(array).data):08x}" for array in arrays]
    return " | ".join([description, *sums])


@dataclass
class Checkpoint:
    """A file that follows a training, written at most every `every` seconds; no path, no file."""

    path: Path | None
    identity: str
    every: float
    written: float = field(default_factory=time.monotonic)

    @classmethod
    def at(cls, path: str | os.PathLike[str] | None, every: float, description: str, *arrays: Fields) -> Checkpoint:
        """Take a path and what identifies the training; refuse at once where no file can be written there."""
        if path is None:
            return cls(None, "", every)
        return cls(check_target(path), fingerprint(description, *arrays), every)

    def follow(self, training: Training) -> None:
        """Write the training where the last writing is long enough ago."""
        if self.path is None or time.monotonic() - self.written < self.every:
            return
        state = {name: getattr(training, name) for name in _PLAIN}
        state |= {"weights": training.network.state_dict(), "optimizer": training.optimizer.state_dict()}
        with atomic_writer(self.path) as file:
            torch.save(state | {"identity": self.identity}, file)
        self.written = time.monotonic()

    def restore(self, training: Training) -> bool:
        """Bring a training to where the file has it; return whether there was one that fits."""
        if self.path is None or not self.path.exists() or (state := self._read(self.path, training.device)) is None:
            return False
        training.network.load_state_dict(state["weights"])
        training.optimizer.load_state_dict(state["optimizer"])
        for name in _PLAIN:
            setattr(training, name, state[name])
        return True

    def remove(self) -> None:
        """Delete the file: the training is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _read(self, path: Path, device: Any) -> dict[str, Any] | None:
        try:
            state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
            identity = state["identity"]
        except (RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
            warnings.warn(f"{path} is no checkpoint ({error}): training starts anew.", stacklevel=4)
            return None
        if identity != self.identity:
            warnings.warn(f"{path} belongs to another model, budget or data: training starts anew.", stacklevel=4)
            return None
        return state
