"""How far a long call has come, and what each of its stages took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pcarann.backend.arrays import Place

__all__ = ["Clock", "Tick", "progress"]

Tick = Callable[[str, int, int | None], None]
"""Progress: (stage, steps done, steps in all where known)."""


class Clock:
    """Seconds by stage."""

    def __init__(self, place: Place, before: dict[str, float] | None = None):
        self.place = place
        self.seconds = dict(before or {})
        self.last = time.perf_counter()
        self.begun = self.last - sum(self.seconds.values())

    def lap(self, stage: str) -> None:
        """Note the seconds since the stage before."""
        self.place.wait()
        now = time.perf_counter()
        self.seconds[stage], self.last = now - self.last, now

    def stopped(self) -> dict[str, float]:
        """Seconds of each stage, and of all."""
        return self.seconds | {"total": self.last - self.begun}


@contextmanager
def progress(verbose: bool) -> Iterator[Tick]:
    """Show a bar on standard error, if asked."""
    if not verbose:
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fitting", total=None)
        yield lambda stage, done, total: bar.update(task, description=stage, completed=done, total=total)
