"""What a server counts, in the text format of Prometheus.

    # HELP pcarann_requests_total Requests that were answered.
    # TYPE pcarann_requests_total counter
    pcarann_requests_total{model="plate",status="200"} 12

A histogram counts, for each bound, the values up to it, and ends with their sum and number. All is changed by the event
loop alone, or by one assignment, so that there is no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

__all__ = ["Counter", "Counters", "Histogram", "Labels", "gauge_text"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = tuple(float(1 << k) for k in range(0, 15, 1))

Labels = tuple[str, ...]


class Counter:
    """Numbers that only grow, one for each combination of labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()):
        self.name, self.about, self.labels = name, about, tuple(labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count so many more."""
        self.values[labels] = self.values.get(labels, 0) + by

    def text(self) -> str:
        """As Prometheus reads it."""
        lines = [_line(self.name, self.labels, labels, value) for labels, value in sorted(self.values.copy().items())]
        return _block(self.name, self.about, "counter", lines)


class Histogram:
    """How values are distributed, for each combination of labels."""

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: Sequence[str] = ()):
        self.name, self.about, self.bounds, self.labels = name, about, tuple(bounds), tuple(labels)
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def add(self, value: float, *labels: str) -> None:
        """Count one value."""
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def text(self) -> str:
        """As Prometheus reads it."""
        lines = []
        for labels, counts in sorted(self.counts.copy().items()):
            bounds = [*(_number(bound) for bound in self.bounds), "+Inf"]
            for bound, count in zip(bounds, accumulate(counts), strict=True):
                lines.append(_line(f"{self.name}_bucket", (*self.labels, "le"), (*labels, bound), count))
            lines.append(_line(f"{self.name}_sum", self.labels, labels, self.sums[labels]))
            lines.append(_line(f"{self.name}_count", self.labels, labels, sum(counts)))
        return _block(self.name, self.about, "histogram", lines)


def gauge_text(name: str, about: str, values: Mapping[Labels, float], labels: Sequence[str] = ()) -> str:
    """Numbers that go up and down, as they are now."""
    lines = [_line(name, tuple(labels), one, value) for one, value in sorted(values.items())]
    return _block(name, about, "gauge", lines)


class Counters:
    """All of a server; `gauges` are asked when the text is made."""

    def __init__(self) -> None:
        self.requests = Counter("pcarann_requests_total", "Requests that were answered.", ("route", "model", "status"))
        self.errors = Counter("pcarann_errors_total", "Requests that were refused or failed.", ("kind",))
        self.seconds = Histogram("pcarann_request_seconds", "Seconds of an inference.", SECONDS, ("model",))
        self.batches = Histogram("pcarann_batch_requests", "Requests that a prediction answered.", SIZES)
        self.rows = Histogram("pcarann_batch_samples", "Samples of a prediction.", SIZES)
        self.predicting = Histogram("pcarann_predict_seconds", "Seconds of a prediction.", SECONDS)
        self.inputs = Counter("pcarann_inputs_total", "Samples that were predicted.", ("model",))
        self.outside = Counter("pcarann_inputs_outside_total", "Of these, outside the training data.", ("model",))
        self.alarms = Counter("pcarann_alarms_total", "Answers that came with a warning of the model.", ("model",))
        self.reloads = Counter("pcarann_reloads_total", "Model files that had changed.", ("model", "result"))
        self.gauges: list[Callable[[], str]] = []

    def batch(self, requests: int, rows: int, seconds: float) -> None:
        """Count a prediction."""
        self.batches.add(requests)
        self.rows.add(rows)
        self.predicting.add(seconds)

    def reloaded(self, model: str, loaded: bool) -> None:
        """Count a file that changed."""
        self.reloads.add(model, "loaded" if loaded else "failed")

    def text(self) -> str:
        """All of it."""
        own = [one.text() for one in vars(self).values() if isinstance(one, Counter | Histogram)]
        return "".join([*own, *(gauge() for gauge in self.gauges)])


def _block(name: str, about: str, kind: str, lines: Sequence[str]) -> str:
    return "\n".join([f"# HELP {name} {about}", f"# TYPE {name} {kind}", *lines]) + "\n"


def _line(name: str, labels: Labels, values: Labels, number: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True))
    return f"{name}{{{pairs}}} {_number(number)}" if pairs else f"{name} {_number(number)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(float(value))
