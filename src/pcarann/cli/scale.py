"""Options of commands on data that are larger than memory: --memory and --scheduler.

With one of them DATA are read by blocks, by threads of this process or by the workers of a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from pcarann.validation import check_memory

__all__ = ["in_memory", "scale_options"]

_LEAST = 8  # MB that a task takes with blocks of 1 MB
_PATIENCE = 10  # seconds in which a scheduler may answer


def in_memory(data: Any, option: str) -> None:
    """Refuse data that are read by blocks, on behalf of an option that needs them in memory."""
    if data.chunks is not None:
        raise click.UsageError(f"{option} needs DATA in memory: it does not go with --memory and --scheduler.")


def scale_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two options; the command receives `data` that are lazy where one of them is given."""

    @wraps(command)
    def scaled(*, data: Any, memory: str | None, scheduler: str | None, **others: Any) -> Any:
        if memory is None and scheduler is None:
            return command(data=data, **others)
        with ExitStack() as stack:
            _enter(stack, memory, scheduler)
            return command(data=replace(data, chunks="auto"), **others)

    decorated: Callable[..., Any] = scaled
    for option in (
        click.option("--scheduler", help="Dask scheduler, tcp://HOST:PORT, whose workers read DATA by blocks."),
        click.option("--memory", help="Read DATA by blocks, in so much memory of each process: 4GB, 500MB."),
    ):
        decorated = option(decorated)
    return decorated


def _enter(stack: ExitStack, memory: str | None, scheduler: str | None) -> None:
    try:
        import dask

        from pcarann.scale.engine import Budget, limited
    except ImportError:
        raise ImportError("--memory and --scheduler need Dask: install it with pip install 'pcarann[scale]'.") from None
    if memory is not None:
        stack.enter_context(limited(check_memory(memory)))
    if scheduler is not None:
        from distributed import Client

        try:
            stack.enter_context(Client(scheduler, timeout=_PATIENCE))
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(f"There is no Dask scheduler at {scheduler}: {type(error).__name__}.") from error
    budget = Budget.now()
    if budget.each < 1_000_000 * _LEAST:
        raise click.UsageError(
            f"{budget.memory / 1e6:.3g} MB are too little to read DATA by blocks, {budget.tasks} at a time: give "
            f"--memory {_LEAST * budget.tasks}MB, or more."
        )
    # Chunks of files: several fit into what one task may take, as float64.
    stack.enter_context(dask.config.set({"array.chunk-size": budget.each // 32}))
