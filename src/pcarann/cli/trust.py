"""Coverage of intervals by location and by level, and the picture of both."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.cli.targets import Target
from pcarann.drawing import Place

__all__ = ["Evaluated", "Lowest", "draw_trusts"]

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_BLOCKS, _MESH_BLOCKS = 8, 4  # of an axis of a grid, and of a direction of a mesh

Fields = Mapping[str, Any]
"""mean, and where a model is calibrated lower and upper"""


@dataclass(frozen=True)
class Evaluated:
    """A model, what it was asked, and what came true."""

    model: Any
    inputs: Any
    truth: Any
    found: Fields
    alpha: float
    method: Any

    def outputs(self) -> Iterator[tuple[str, Any]]:
        """True fields by the name of the output, "" where there is one without."""
        yield from (self.truth if isinstance(self.truth, Mapping) else {"": self.truth}).items()

    def inside(self, fields: Fields, name: str, truth: Any) -> Any:
        """Whether each value of each sample lies in an interval, (samples, values); where there is none, it does."""
        low, high = (np.asarray(fields[end][name] if name else fields[end]) for end in ("lower", "upper"))
        return (((low <= truth) & (truth <= high)) | np.isnan(truth)).reshape(len(truth), -1)

    def share(self, fields: Fields, name: str, truth: Any) -> float:
        """Covered values, or whole fields where intervals are to hold these."""
        held = self.inside(fields, name, truth)
        return float(np.mean(held.all(axis=1) if self.method == "simultaneous" else held))

    def shares(self, name: str, truth: Any) -> dict[str, Any]:
        """Share of samples in which each value is covered, by the method asked for and by "local", (*grid) each.

        Methods whose intervals are infinite, or that the calibration has no scores for, are left out.
        """
        found = {self.method: self.found} if "lower" in self.found else {}
        if found and self.method != "local":
            with warnings.catch_warnings(), suppress(ValueError):  # no scores of single points after lazy calibration
                warnings.simplefilter("ignore")
                found["local"] = vars(self.model.predict_interval(self.inputs, self.alpha, "local"))
        return {
            method: self.inside(fields, name, truth).mean(axis=0).reshape(truth.shape[1:])
            for method, fields in found.items()
            if _finite(fields["upper"])
        }

    def bands(self) -> dict[float, Fields]:
        """Intervals of several levels, those that the calibration has samples for."""
        if "lower" not in self.found:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say was said of the level that was asked for
            ask = self.model.predict_interval
            found = {level: vars(ask(self.inputs, round(1 - level, 6), self.method)) for level in _LEVELS}
        return {level: band for level, band in found.items() if _finite(band["upper"])}

    def p_values(self) -> Any:
        """The p-value of each input, of a flow the least along its roll-out; None where a model has none."""
        if not hasattr(self.model, "novelty"):
            return None
        try:
            p = np.asarray(self.model.novelty(self.inputs).p_value)
        except ValueError:  # its file does not say
            return None
        return p.reshape(len(p), -1).min(axis=1)


@dataclass(frozen=True)
class Lowest:
    """The part of the domain that intervals cover least."""

    where: str
    coverage: dict[str, float]
    """Share of values covered there, by method"""

    @classmethod
    def of(cls, shares: Mapping[str, Any], points: Any = None) -> Lowest:
        """Find it by the first method: the least mean over blocks of the grid, or over boxes of a mesh's nodes.

        An axis of more than 16 points has 8 blocks, a shorter one as many as points; each direction of a mesh has 4.
        """
        first = next(iter(shares.values()))
        numbers, words = zip(*(_blocks(axis, n, points) for axis, n in enumerate(first.shape)), strict=True)
        sizes = [int(one.max()) + 1 for one in numbers]
        block = np.ravel_multi_index(np.meshgrid(*numbers, indexing="ij"), sizes).ravel()
        counts = np.bincount(block, minlength=math.prod(sizes))
        means = {
            method: np.bincount(block, one.ravel(), len(counts)) / np.maximum(counts, 1)
            for method, one in shares.items()
        }
        worst = int(np.argmin(np.where(counts > 0, next(iter(means.values())), np.inf)))
        at = np.unravel_index(worst, sizes)
        where = ", ".join(word(int(number)) for word, number in zip(words, at, strict=True))
        return cls(where, {method: float(one[worst]) for method, one in means.items()})


def _blocks(axis: int, n: int, points: Any) -> tuple[Any, Callable[[int], str]]:
    """The number of the block of each point of an axis, and what a block is called."""
    if points is not None and n == len(points):
        points = np.asarray(points, dtype=float)
        low, size = points.min(axis=0), np.ptp(points, axis=0)
        boxes = np.minimum((_MESH_BLOCKS * (points - low) / np.where(size > 0, size, 1)).astype(int), _MESH_BLOCKS - 1)
        number = np.ravel_multi_index(boxes.T, (_MESH_BLOCKS,) * points.shape[1])

        def box(block: int) -> str:
            at = np.array(np.unravel_index(block, (_MESH_BLOCKS,) * points.shape[1]))
            starts, ends = low + size * at / _MESH_BLOCKS, low + size * (at + 1) / _MESH_BLOCKS
            return " × ".join(f"[{start:.3g}, {end:.3g}]" for start, end in zip(starts, ends, strict=True))

        return number, box
    if n <= 2 * _BLOCKS:
        return np.arange(n), lambda block: f"value {block} of axis {axis}"
    number = _BLOCKS * np.arange(n) // n

    def rows(block: int) -> str:
        inside = np.flatnonzero(number == block)
        return f"points {inside[0]} to {inside[-1]} of axis {axis}"

    return number, rows


def draw_trusts(
    target: Target, case: Evaluated, place_of: Callable[[tuple[int, ...]], Place] = lambda shape: Place()
) -> tuple[list[str], dict[str, Lowest]]:
    """Draw it for each output, one with a name on its own; return the files, and where each is covered least.

    `place_of` gives the place of fields of a shape.
    """
    from pcarann.drawing import draw_trust
    from pcarann.metrics import relative_l2

    bands, p_values, files, lowest = case.bands(), case.p_values(), [], {}
    for name, truth in case.outputs():
        truth, mean = np.asarray(truth), case.found["mean"][name] if name else case.found["mean"]
        known: dict[str, Any] = {"errors": np.asarray(relative_l2(mean, truth, per_sample=True)), "p_values": p_values}
        if bands:
            known["coverage"] = tuple(bands), [case.share(band, name, truth) for band in bands.values()]
        if shares := case.shares(name, truth):
            place = place_of(truth.shape[1:])
            known |= {"shares": shares, "level": 1 - case.alpha, "place": place}
            grid = {method: np.atleast_1d(one) for method, one in shares.items()}
            lowest[name] = Lowest.of(grid, place.get("points"))
        path: Path = target.path.with_name(f"{target.path.stem}_{name}.png") if name else target.path
        Target(path, "--plots", force=False).check_picture()
        draw_trust(path, title=name, **known)
        files.append(str(path))
    return files, lowest


def _finite(fields: Any) -> bool:
    parts = fields.values() if isinstance(fields, Mapping) else [fields]
    return not any(np.isinf(np.asarray(part)).any() for part in parts)
