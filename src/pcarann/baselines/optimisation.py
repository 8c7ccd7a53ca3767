"""The training that all networks share.

The loss is the relative L² error of the field, the number that is reported,

    L(θ) = mean over samples of ‖û − u‖ / ‖u‖,   ‖û − u‖² = ‖found − target‖² + missed,

where `missed` is what no output of the network can reach (the part of u outside a PCA basis; 0 for full fields).
AdamW steps along it with the one-cycle rate of Smith and Topin (2019): with s ∈ [0, 1] the share of all steps done,

    rate(s) = peak · c(1/25, 1; s/0.3)               for s < 0.3,
              peak · c(1, 10⁻⁴; (s − 0.3)/0.7)       after,      c(a, b; τ) = a + (b − a)(1 − cos πτ)/2.

All data stay on the device, and an epoch is a permutation made there from (seed, epoch) alone, so that a resumed
training sees the same batches. The clock stops while the validation error is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pcarann.backend.progress import Tick

__all__ = ["Recipe", "Samples", "Training", "exact_convolutions", "one_cycle", "relative_errors", "silent"]

WARM = 0.3
"""Share of the training in which the rate rises"""
# Where the validation error is measured, as shares of the training: evenly, and more densely at the beginning,
# for a curve over the logarithm of time.
_MEASURED = np.union1d(np.geomspace(1e-3, 1 / 30, 12), np.arange(1, 31) / 30)
# Its square root, 1e-7, is the rounding of float32: without it the gradient of a perfect fit is 0/0.
_FLOOR = 1e-14
# The pace of the first epochs is uncertain: until this share of the training the number of epochs is planned anew
# after each, and later only when the end is off by more than a tenth of the budget.
_PLANNING, _OFF = 0.1, 0.1


def silent(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Samples:
    """What the network reads and what it is compared with, on one device; axis 0 is the sample."""

    inputs: Any
    targets: Any
    missed: Any
    """Squared norm that is out of reach, (samples,)"""
    sizes: Any
    """‖u‖, (samples,)"""

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: Any) -> Samples:
        return Samples(self.inputs[rows], self.targets[rows], self.missed[rows], self.sizes[rows])


@dataclass(frozen=True)
class Recipe:
    """How to train: epochs at most, samples in a batch, peak rate, weight decay, seed of the batches."""

    epochs: int
    batch: int
    rate: float
    decay: float
    seed: int
    budget: float | None = None
    """Seconds of training at most"""


def relative_errors(found: Any, samples: Samples) -> Any:
    """Relative L² error of each sample."""
    sizes = samples.sizes[:, None]
    apart = (found - samples.targets).flatten(1) / sizes
    return ((apart * apart).sum(1) + samples.missed / samples.sizes**2 + _FLOOR).sqrt()


def one_cycle(share: float) -> float:
    """Return the rate over its peak when this share of all steps is done.

    >>> [round(one_cycle(share), 4) for share in (0.0, 0.3, 0.65, 1.0)]
    [0.04, 1.0, 0.5, 0.0001]
    """
    if share < WARM:
        return _cosine(1 / 25, 1.0, share / WARM)
    return _cosine(1.0, 1e-4, (share - WARM) / (1 - WARM))


def exact_convolutions() -> Any:
    """Keep convolutions in float32 and reproducible: cuDNN alone would round their inputs to ten bits."""
    return torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)


@dataclass
class Training:
    """A training under way: all that is needed to go on with it is in its fields."""

    network: Any
    recipe: Recipe
    seconds: float = 0.0
    epoch: int = 0
    total: int = 0
    """Epochs that the schedule is laid out for"""
    history: list[dict[str, Any]] = field(default_factory=list)
    best_error: float = math.inf
    best_weights: dict[str, Any] = field(default_factory=dict)
    pace: float = 0.0
    """Seconds of an epoch, in the mean"""

    def __post_init__(self) -> None:
        self.total = self.total or self.recipe.epochs
        self.device = next(self.network.parameters()).device
        rates, fused = {"lr": self.recipe.rate, "weight_decay": self.recipe.decay}, self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.network.parameters(), **rates, fused=fused)

    def run(
        self,
        samples: Samples,
        validation: Samples | None,
        *,
        tick: Tick = silent,
        after_epoch: Callable[[Training], None] = lambda training: None,
    ) -> None:
        """Train to the end of the schedule, then put the weights of least validation error back."""
        with exact_convolutions():
            while self.epoch < self.total:
                before = self.epoch / self.total
                loss = self._train_epoch(samples)
                self._plan()
                if _due(before, self.epoch / self.total):
                    self._measure(loss, validation)
                tick("epochs", self.epoch, self.total)
                after_epoch(self)
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)

    def _train_epoch(self, samples: Samples) -> Any:
        """Step through all samples once; return the mean loss, still on the device."""
        start = time.perf_counter()
        self.network.train()
        generator = torch.Generator(self.device).manual_seed(self.recipe.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(samples), generator=generator, device=self.device)
        batches = order.split(self.recipe.batch)
        loss = torch.zeros((), device=self.device)
        for step, rows in enumerate(batches):
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.rate * one_cycle((self.epoch + step / len(batches)) / self.total)
            batch = samples[rows]
            self.optimizer.zero_grad(set_to_none=True)
            error = relative_errors(self.network(batch.inputs), batch).mean()
            error.backward()
            self.optimizer.step()
            loss += error.detach() * (len(rows) / len(samples))
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.epoch += 1
        elapsed = time.perf_counter() - start
        self.seconds += elapsed
        # The first epoch also pays for what is set up once, so the second starts the mean anew.
        self.pace += (elapsed - self.pace) / max(1, self.epoch - 1)
        return loss

    def _plan(self) -> None:
        """Choose the number of epochs such that the schedule ends within the budget."""
        budget = self.recipe.budget
        if budget is None:
            return
        share = self.epoch / self.total
        expected = (self.seconds + (self.total - self.epoch) * self.pace) / budget
        off = expected > 1 + _OFF or (expected < 1 - _OFF and share < 0.5)
        if self.epoch <= 3 or share <= _PLANNING or off:
            seconds_left = max(0.0, budget - self.seconds)
            # The first epoch is no measure yet: where there is time left, a second one is.
            left = max(math.floor(seconds_left / self.pace), int(self.epoch == 1 and seconds_left > 0))
            self.total = min(self.recipe.epochs, self.epoch + left)

    def _measure(self, loss: Any, validation: Samples | None) -> None:
        """Record where the training stands, and keep the weights if they are the best so far."""
        error = None if validation is None else self.error(validation)
        self.history.append(
            {"seconds": self.seconds, "epoch": self.epoch, "training_loss": float(loss), "validation_error": error}
        )
        if error is not None and error < self.best_error:
            self.best_error = error
            self.best_weights = {name: value.clone() for name, value in self.network.state_dict().items()}

    def error(self, samples: Samples) -> float:
        """Mean relative L² error over samples."""
        self.network.eval()
        with torch.no_grad():
            parts = torch.arange(len(samples), device=self.device).split(self.recipe.batch)
            errors = [relative_errors(self.network(samples.inputs[rows]), samples[rows]) for rows in parts]
        return float(torch.cat(errors).mean())


def _due(before: float, after: float) -> bool:
    """Whether a point of measurement lies in (before, after], up to rounding."""
    passed = [int(np.searchsorted(_MEASURED, share + 1e-9)) for share in (before, after)]
    return passed[1] > passed[0]


def _cosine(start: float, end: float, share: float) -> float:
    return start + (end - start) * (1 - math.cos(math.pi * share)) / 2
