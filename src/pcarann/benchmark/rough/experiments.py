"""Runs on rough inputs: every method on the first 50, 200 and 1000 training samples of each case.

One data seed, and three for the fewest samples, where one says little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pcarann.backend.arrays import place_of, to_host
from pcarann.baselines import ON_CPU
from pcarann.benchmark.paper.runs import DATA_SEED, Tell, circumstances
from pcarann.benchmark.records import Record, write_record
from pcarann.benchmark.rough.cases import CASES, Case
from pcarann.benchmark.rough.models import (
    METHODS,
    Chosen,
    available,
    is_ours,
    latent_model,
    quietly,
    rival,
    stages_model,
)
from pcarann.metrics import relative_l2
from pcarann.problems.dataset import OperatorData

__all__ = ["reproduce_rough", "run_rough"]

SEEDS = (DATA_SEED, 1, 2)
"""Of the data, with the fewest samples"""


def reproduce_rough(
    folder: Path, *, device: str | None, quick: bool, budget: float | None, tell: Tell
) -> Iterator[Path]:
    """Run all methods on all cases, write the records into `folder`, and yield their paths.

    FNO is trained where there is a budget, for at most so many seconds.
    """
    methods = [method for method in METHODS if available(method) and (method != "fno" or budget is not None)]
    for case in (one.quick() if quick else one for one in CASES.values()):
        for seed in SEEDS:
            train, test = case.generate(seed=seed)
            for size in case.sizes if seed == DATA_SEED else case.sizes[:1]:
                for method in methods:
                    tell(f"{case.title}, {size} samples, seed {seed}: {method}")
                    yield write_record(folder, run_rough(case, method, (train[:size], test), seed, device, budget))


def run_rough(
    case: Case,
    method: str,
    parts: tuple[OperatorData, OperatorData],
    seed: int = DATA_SEED,
    device: str | None = None,
    budget: float | None = None,
) -> Record:
    """Fit a method to training samples of a case, whose data have this seed, and test it; return its record."""
    train, test = parts
    where = None if method in ON_CPU else device
    model = _model(case, method, len(train), where)
    place = place_of(None, where if is_ours(method) else None)
    a, u, new = (place.put(fields) for fields in (train.inputs, train.outputs, test.inputs))
    options = {"budget": budget} if method == "fno" else {}
    with quietly():
        place.wait()
        begun = time.perf_counter()
        model.fit(a, u, **options)
        place.wait()
        fitted = time.perf_counter()
        found = to_host(model.predict(new))
        predicted = time.perf_counter()
    errors = to_host(relative_l2(found, test.outputs, per_sample=True))
    return {
        **circumstances("rough", case.name, where, seed, quick=case.is_quick),
        "method": method,
        "sizes": [len(train), len(test)],
        "n_train": len(train),
        "choice": model.choice if isinstance(model, Chosen) else None,
        "error": float(errors.mean()),
        "error_std": float(errors.std()),
        "seconds": fitted - begun,
        "predict_seconds": predicted - fitted,
    }


def _model(case: Case, method: str, n_train: int, device: str | None) -> Any:
    if method == "latent":
        return latent_model(case)
    return stages_model(case) if method == "stages" else rival(case, method, n_train, device)
