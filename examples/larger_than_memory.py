"""Data larger than memory: a zarr store that is read, learned from and predicted into by blocks.

    u = tanh(a ∗ g)   on a circle of 2048 points, as a stand-in for a solver

The first block gives PCAs, features and a readout; every further one adds its rows to the normal equations
(`partial_fit`), which gives the readout that all rows together would have. At no time is more than one block in memory.
Take a first block with a sample of everything: modes and features are those of it.

    python examples/larger_than_memory.py [FOLDER]        writes larger_than_memory.png; the store of 800 MB is removed
"""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from pcarann import Adapt, PCARaNN
from pcarann.drawing import BLUE, GREY, blank, save, style
from pcarann.metrics import relative_l2

Field = np.ndarray[Any, Any]


def sample(count: int, seed: int, points: int) -> tuple[Field, Field]:
    """Inputs and outputs (samples, points)."""
    rng, k = np.random.default_rng(seed), np.arange(1, 9)
    waves = np.exp(2j * np.pi * np.outer(k, np.arange(points)) / points)
    amplitudes = (rng.normal(size=(count, 8)) + 1j * rng.normal(size=(count, 8))) / k**1.5
    return (amplitudes @ waves).real, np.tanh((amplitudes / (1 + 0.2j * k) @ waves).real)


def write(path: Path, blocks: int, block: int, points: int) -> Any:
    """A store of so many blocks, written one at a time."""
    store = zarr.open_group(path, mode="w")
    for name in ("inputs", "outputs", "predictions"):
        store.create_array(
            name, shape=(blocks * block, points), chunks=(block, points), dtype="float64", compressors=None
        )
    for number, rows in enumerate(rows_of(store, block)):
        store["inputs"][rows], store["outputs"][rows] = sample(block, number, points)
    return store


def rows_of(store: Any, block: int) -> list[slice]:
    """The rows of each block."""
    return [slice(start, start + block) for start in range(0, store["inputs"].shape[0], block)]


def main(
    folder: Path = Path(),
    *,
    blocks: int = 16,
    block: int = 1024,
    points: int = 2048,
    widths: tuple[int, int] = (400, 200),
) -> dict[str, Any]:
    """Write a store, learn from it, predict into it, and draw errors and memory."""
    path = folder / "larger_than_memory.zarr"
    store = write(path, blocks, block, points)
    test, truth = sample(200, 10**6, points)
    tracemalloc.start()
    model = PCARaNN((16, 64), widths=widths, n_members=2, adapt=Adapt(start="ridge", ridge=1e-6))
    errors = []
    for number, rows in enumerate(rows_of(store, block)):
        learn = model.partial_fit if number else model.fit
        learn(store["inputs"][rows], store["outputs"][rows])
        errors.append(relative_l2(model.predict(test), truth))
    for rows in rows_of(store, block):
        store["predictions"][rows] = model.predict(store["inputs"][rows])
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    size = sum(store[name].nbytes for name in ("inputs", "outputs", "predictions")) / 1e6
    same = np.allclose(store["predictions"][:block], model.predict(store["inputs"][:block]))
    shutil.rmtree(path)
    draw(folder / "larger_than_memory.png", errors, block, size, peak)
    return {"errors": errors, "store_mb": size, "peak_mb": peak, "same": same}


def draw(path: Path, errors: list[float], block: int, size: float, peak: float) -> None:
    """The error after each block, and the memory beside the size of the store."""
    with style():
        figure = blank(7, 2.8)
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        left.semilogy(block * (1 + np.arange(len(errors))), errors, ".-", color=BLUE)
        left.set(xlabel="samples read", ylabel="relative error")
        right.bar(("store", "memory, peak"), (size, peak), color=(GREY, BLUE))
        right.set(ylabel="MB")
        save(figure, path)


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
