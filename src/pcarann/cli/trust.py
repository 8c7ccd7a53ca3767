"""The picture that tells how far predictions may be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.cli.targets import Target

__all__ = ["Evaluated", "draw_trusts"]

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

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


def draw_trusts(target: Target, case: Evaluated) -> list[str]:
    """Draw it for each output, one with a name on its own; return the files."""
    from pcarann.drawing import draw_trust
    from pcarann.metrics import relative_l2

    bands, p_values, files = case.bands(), case.p_values(), []
    for name, truth in case.outputs():
        truth, mean = np.asarray(truth), case.found["mean"][name] if name else case.found["mean"]
        known: dict[str, Any] = {"errors": np.asarray(relative_l2(mean, truth, per_sample=True)), "p_values": p_values}
        if bands:
            known["coverage"] = tuple(bands), [case.share(band, name, truth) for band in bands.values()]
            known |= {"inside": case.inside(case.found, name, truth), "level": 1 - case.alpha}
        path: Path = target.path.with_name(f"{target.path.stem}_{name}.png") if name else target.path
        Target(path, "--plots", force=False).check_picture()
        draw_trust(path, title=name, **known)
        files.append(str(path))
    return files


def _finite(fields: Any) -> bool:
    parts = fields.values() if isinstance(fields, Mapping) else [fields]
    return not any(np.isinf(np.asarray(part)).any() for part in parts)
