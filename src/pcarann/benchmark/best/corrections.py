"""What each stage corrects: û of one Darcy sample before and after every stage, kept as fields for a picture."""

from __future__ import annotations

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.benchmark.paper.configurations import Problem
from pcarann.benchmark.paper.runs import Tell, fit_quietly, generate, header, sample_errors
from pcarann.benchmark.records import Fields, Record
from pcarann.staged import Staged

__all__ = ["run_corrections"]

_SAMPLES = 200


def run_corrections(
    problem: Problem, *, device: str | None = None, tell: Tell = lambda message: None
) -> tuple[Record, Fields]:
    """Fit stages to a few samples of a problem; return a record, and fields of a sample of median error all along."""
    tell(f"{problem.title}: what each stage corrects")
    train, _, test = generate(problem, device=device).split(*problem.sizes)
    train = train[:_SAMPLES]
    model = Staged(n_members=1, n_stages=4, n_features=10 if problem.is_quick else 120, device=device)
    fit_quietly(model, train.inputs, train.outputs)
    after = np.stack([to_host(fields) for fields in model.after_each(test.inputs)])
    errors = np.stack([sample_errors(problem, fields, test.outputs) for fields in after])
    apart = np.log(errors / np.median(errors, axis=1, keepdims=True))
    typical = int(np.argmin((apart**2).sum(axis=0)))
    record = {
        **header("corrections", problem, device),
        "n_train": len(train),
        "errors": errors.mean(axis=1).tolist(),
    }
    fields = {
        "input": test.inputs[typical],
        "truth": test.outputs[typical],
        "after": after[:, typical],
        "errors": errors[:, typical],
        **{f"axis_{name}": values for name, values in test.coordinates.items()},
    }
    return record, fields
