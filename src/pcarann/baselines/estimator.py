"""The estimator that every network is: fields in, fields out.

    fields a ──encode──▶ what the network reads ──network──▶ what it predicts ──decode──▶ fields u

A subclass says how (`_build`): it returns a `Codec`, which makes arrays of fields into arrays for the network and
back, and the network. Splitting, training, checkpoints and prediction are here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import torch
from sklearn.exceptions import NotFittedError

from pcarann.backend.arrays import place_of
from pcarann.backend.progress import Tick
from pcarann.baselines.checkpoints import Checkpoint
from pcarann.baselines.fields import Fields, Gaussian, checked, flat, split
from pcarann.baselines.optimisation import Recipe, Samples, Training, exact_convolutions, silent
from pcarann.validation import check_count, check_fields, check_number

__all__ = ["Codec", "FieldCodec", "Rescaled", "TorchOperator", "dense"]


class Codec(Protocol):
    """Fields to arrays for the network, and back."""

    def encode(self, inputs: Fields) -> Fields:
        """Return what the network reads."""

    def targets(self, outputs: Fields) -> tuple[Fields, Fields]:
        """Return what the network should predict, and the squared norm of what it cannot, (samples,)."""

    def decode(self, found: Fields) -> Fields:
        """Return the fields that a prediction means."""


@dataclass(frozen=True)
class FieldCodec:
    """The network reads normalised fields and predicts fields in physical units."""

    normaliser: Gaussian

    def encode(self, inputs: Fields) -> Fields:
        """Normalise, in float64."""
        return self.normaliser.encode(inputs)

    def targets(self, outputs: Fields) -> tuple[Fields, Fields]:
        """Return the fields themselves; all of a field is within reach."""
        return outputs, np.zeros(len(outputs))

    def decode(self, found: Fields) -> Fields:
        """Return the fields as they are."""
        return found


class Rescaled(torch.nn.Module):  # type: ignore[misc]
    """û = ū + σ · network(z): the network predicts normalised numbers, the loss sees physical ones."""

    def __init__(self, network: Any, mean: Fields, std: Fields):
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))

    def forward(self, inputs: Any) -> Any:
        """Predict in physical units."""
        return self.mean + self.std * self.network(inputs)


@dataclass(kw_only=True, eq=False)
class TorchOperator:
    """A network from fields to fields, trained as `pcarann.baselines.optimisation` says.

    `epochs` is the most it trains, `batch` the samples of a step, `rate` the peak of the one-cycle rate, `decay` that
    of AdamW, `validation` the share of the training set that chooses the weights to keep (0: the last are kept, and
    no error is measured), `device` None for a GPU where there is one.
    """

    epochs: int = 300
    batch: int = 20
    rate: float = 2e-3
    decay: float = 1e-4
    validation: float = 0.1
    seed: int = 0
    device: str | None = None
    checkpoint_every: float = 30.0
    """Seconds between two writings of a checkpoint"""

    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)
    """Of the training: seconds, epoch, training_loss, validation_error"""
    seconds: float = field(init=False, repr=False, default=0.0)
    epochs_done: int = field(init=False, repr=False, default=0)
    n_parameters: int = field(init=False, repr=False, default=0)
    _network: Any = field(init=False, repr=False, default=None)
    _codec: Codec | None = field(init=False, repr=False, default=None)
    _grids: tuple[tuple[int, ...], tuple[int, ...]] = field(init=False, repr=False, default=((), ()))

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            check_count(getattr(self, name), name)
        check_number(self.rate, "rate", above=0.0)
        check_number(self.decay, "decay", least=0.0)
        check_number(self.validation, "validation", least=0.0, most=0.9)
        self.device = str(_device(self.device))

    def fit(
        self,
        inputs: Fields,
        outputs: Fields,
        *,
        budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        tick: Tick = silent,
    ) -> Self:
        """Train on input and output fields, each (samples, *grid), for at most `budget` seconds.

        With `checkpoint`, a file is kept there from which an interrupted fit goes on; it is removed in the end.
        """
        inputs, outputs = checked(inputs, outputs)
        if budget is not None:
            check_number(budget, "budget", above=0.0)
        recipe = Recipe(self.epochs, self.batch, self.rate, self.decay, self.seed, budget)
        file = Checkpoint.at(checkpoint, self.checkpoint_every, f"{self!r} budget={budget}", inputs, outputs)
        _warm_up(self.device)
        start = time.perf_counter()
        rows, held = split(len(inputs), self.validation, self.seed)
        codec, network = self._initial(inputs[rows], outputs[rows])
        training = Training(network.to(self.device), recipe)
        samples = self._samples(codec, inputs[rows], outputs[rows])
        training.seconds = time.perf_counter() - start
        validation = self._samples(codec, inputs[held], outputs[held]) if len(held) else None
        file.restore(training)
        training.run(samples, validation, tick=tick, after_epoch=file.follow)
        self._network, self._codec, self._grids = training.network, codec, (inputs.shape[1:], outputs.shape[1:])
        self.history, self.seconds, self.epochs_done = training.history, training.seconds, training.epoch
        self.n_parameters = sum(part.numel() for part in training.network.parameters())
        file.remove()
        return self

    def predict(self, inputs: Fields) -> Fields:
        """Predict output fields (samples, *grid) for input fields (samples, *grid)."""
        if self._network is None or self._codec is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit(inputs, outputs) first.")
        matrix, grid = check_fields(inputs, "inputs", place_of(None))
        self._check_grid(grid)
        encoded = _tensor(self._codec.encode(matrix.reshape(-1, *grid)), self.device)
        self._network.eval()
        with torch.inference_mode(), exact_convolutions():
            found = [self._network(part).cpu() for part in encoded.split(self.batch)]
        return self._codec.decode(torch.cat(found).double().numpy())

    def _build(self, inputs: Fields, outputs: Fields) -> tuple[Codec, Any]:
        """Return the codec and the network for training fields of these grids."""
        raise NotImplementedError

    def _check_grid(self, grid: tuple[int, ...]) -> None:
        if grid != self._grids[0]:
            raise ValueError(f"inputs have fields of shape {grid}, but the model was fitted to {self._grids[0]}.")

    def _initial(self, inputs: Fields, outputs: Fields) -> tuple[Codec, Any]:
        """Build with initial weights that depend on the seed alone, leaving the generator of others untouched."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            return self._build(inputs, outputs)

    def _samples(self, codec: Codec, inputs: Fields, outputs: Fields) -> Samples:
        targets, missed = codec.targets(outputs)
        sizes = np.linalg.norm(flat(outputs), axis=1)
        sizes = np.where(sizes > 0, sizes, 1.0)
        return Samples(*(_tensor(array, self.device) for array in (codec.encode(inputs), targets, missed, sizes)))


def dense(*sizes: int) -> list[Any]:
    """Linear layers of these sizes, with GELU between them."""
    layers: list[Any] = []
    for size, following in pairwise(sizes):
        layers += [torch.nn.Linear(size, following), torch.nn.GELU()]
    return layers[:-1]


def _device(name: str | None) -> Any:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r} was asked for, but PyTorch sees no CUDA GPU: use device='cpu'.")
    return device


def _tensor(array: Fields, device: str | None) -> Any:
    return torch.as_tensor(np.ascontiguousarray(array, dtype=np.float32), device=device)


def _warm_up(device: str | None) -> None:
    """Start the device before the clock: a process pays for that once, not every training."""
    float((torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)).sum())
