"""The automatic recipe against tuned kernel ridge, on data sets of our own (`auto_cases`).

    python benchmarks/auto.py                              everything, on the CPU
    python benchmarks/auto.py --cases lorenz96             one data set
    python benchmarks/auto.py --methods kernel refined     without the recipe
    python benchmarks/auto.py --methods auto --keep        the recipe anew, beside what is recorded of the others
    python benchmarks/auto.py --quick                      the machinery in seconds; the numbers mean nothing

The opponent is PCA and Matérn-5/2 kernel ridge that loses nothing to the PCAs (`COMPONENTS`), with length, ridge and
whitening chosen by validation (`kernel`), and the same on inputs that a Gaussian has smoothed along the axes of their
grid, its width chosen by the same validation (`smoothed`). Columns of a table are standardised for it. Ours are
`pcarann.auto`, without a symmetry and with one where the problem has it (`symmetric`), and what it chooses from, each
alone: the latent search (`latent`, which is `PCARaNN.auto`, with the same budget) and stages as they come (`stages`,
without any budget), than the better of which it should hardly ever be worse. The paper's two variants with default
parameters (`energy`, `refined`) stand beside them. Everyone's seconds contain everything from raw arrays to a model
that predicts; those of the recipe stand beside its budget. For the run there are one JSON record, written anew after
every case, and one Markdown table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from auto_cases import CASES, AutoCase
from scipy.ndimage import gaussian_filter

import pcarann
from pcarann.baselines.kernel_ridge import KernelOperator
from pcarann.benchmark.machine import machine_facts
from pcarann.benchmark.paper.runs import DATA_SEED, MODEL_SEED
from pcarann.files import atomic_writer
from pcarann.metrics import relative_l2
from pcarann.operator import PCARaNN
from pcarann.problems.dataset import OperatorData
from pcarann.staged import Staged

__all__ = ["METHODS", "OPPONENTS", "main"]

Fields = np.ndarray[Any, Any]
Record = dict[str, Any]

COMPONENTS = (0.999999, 1 - 1e-10)
"""Shares of the energy: what the outputs lose is a relative error of 1e-5, below every error here"""
SMOOTHING = (0.005, 0.015, 0.05, 0.15)
"""Standard deviations of the smoothing Gaussian, as shares of an axis"""
MOST_TUNED = 1000
"""Samples on which length and whitening are chosen: an eigendecomposition of N × N for each takes O(N³)"""
OPPONENTS = ("kernel", "smoothed")
PLAIN = ("energy", "refined")
PARTS = ("latent", "stages")
"""What the recipe chooses from"""


def kernel(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """Kernel ridge on the inputs as they are, or on standardised columns."""
    begun = time.perf_counter()
    mean, std = (train.inputs.mean(axis=0), train.inputs.std(axis=0)) if case.kind == "table" else (0.0, 1.0)
    inputs = (train.inputs - mean) / std
    model = _on_all(_tuned(inputs, train.outputs, options), inputs, train.outputs)
    return _record(model.predict((test.inputs - mean) / std), test, begun, chosen=_chosen(model))


def smoothed(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """Kernel ridge on smoothed inputs, with the width of least validation error."""
    if case.kind == "table":
        return {"failed": "columns of a table have no neighbours"}
    begun = time.perf_counter()
    models = {width: _tuned(_smooth(train.inputs, width, case.kind), train.outputs, options) for width in SMOOTHING}
    width = min(models, key=lambda width: _chosen(models[width])["error"])
    model = _on_all(models[width], _smooth(train.inputs, width, case.kind), train.outputs)
    prediction = model.predict(_smooth(test.inputs, width, case.kind))
    return _record(prediction, test, begun, chosen=_chosen(model) | {"smoothing": width})


def latent(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """The search of a latent model."""
    return _auto(PCARaNN.auto, train, test, options)


def stages(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """Stages as they come."""
    begun = time.perf_counter()
    try:
        model = Staged(random_state=MODEL_SEED).fit(train.inputs, train.outputs)
    except ValueError as nothing_shared:
        return {"failed": str(nothing_shared)}
    fitted = time.perf_counter() - begun
    return _record(model.predict(test.inputs), test, begun, fit_seconds=fitted, report=str(model.stages_))


def auto(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """The recipe."""
    return _auto(pcarann.auto, train, test, options)


def symmetric(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """The recipe, offered the symmetry of the problem."""
    if case.symmetry is None:
        return {"failed": "no symmetry is offered"}
    return _auto(pcarann.auto, train, test, options, symmetry=case.symmetry)


def energy(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """The paper's method with energy-matched scales and default parameters."""
    return _plain(train, test, PCARaNN(scales="energy", random_state=MODEL_SEED))


def refined(case: AutoCase, train: OperatorData, test: OperatorData, options: argparse.Namespace) -> Record:
    """The same with refined scales, `PCARaNN()`."""
    return _plain(train, test, PCARaNN(random_state=MODEL_SEED))


METHODS: dict[str, Callable[[AutoCase, OperatorData, OperatorData, argparse.Namespace], Record]] = {
    method.__name__: method for method in (kernel, smoothed, latent, stages, auto, symmetric, energy, refined)
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run, write record and table, and return the path of the table."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    record = {"kind": "auto", "quick": options.quick, "budget": options.budget, "machine": machine_facts(None)}
    before = json.loads((options.output / "auto.json").read_text())["cases"] if options.keep else {}
    record["cases"] = dict(before)
    table: Path = options.output / "auto.md"
    for name in options.cases:
        record["cases"][name] = _case_record(name, options, before.get(name, {}).get("methods", {}))
        _write(options.output / "auto.json", json.dumps(record, indent=1) + "\n")
        _write(table, _report(record))
    return table


def _case_record(name: str, options: argparse.Namespace, kept: dict[str, Record]) -> Record:
    case = CASES[name].quick() if options.quick else CASES[name]
    train, test = case.load(options.seed)
    shapes = {"inputs": train.inputs.shape[1:], "outputs": train.outputs.shape[1:]}
    record: Record = {"n_train": case.n_train, "n_test": case.n_test, **shapes, "seed": options.seed}
    record["methods"] = dict(kept)
    for method in options.methods:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=")  # the default number is above some ranks
            warnings.filterwarnings("ignore", message=".* outside the range of the training data")
            warnings.filterwarnings("ignore", message=".*extrapolations")  # few rough samples span too little
            found = METHODS[method](case, train, test, options)
        record["methods"][method] = found
        said = found.get("failed") or f"{found['error']:.3e}  {found['seconds']:6.1f} s  {found.get('chosen', '')}"
        sys.stderr.write(f"{name:20} {method:10} {said}\n")
    methods = record["methods"]
    return record | _against_opponents(methods) | _against(methods, PLAIN, "plain") | _against(methods, PARTS, "parts")


def _against_opponents(methods: dict[str, Record]) -> Record:
    """Ratios of error and seconds of our methods to the opponent of the lesser error."""
    rivals = {name: methods[name] for name in OPPONENTS if "error" in methods.get(name, {})}
    if not rivals:
        return {}
    better = min(rivals, key=lambda name: rivals[name]["error"])
    ratios = {
        name: {key: found[key] / rivals[better][key] for key in ("error", "seconds")}
        for name, found in methods.items()
        if name not in OPPONENTS and "error" in found
    }
    return {"better_opponent": better, "ratios": ratios}


def _against(methods: dict[str, Record], others: Sequence[str], name: str) -> Record:
    """Ratio of the recipe's error to that of the best of some others."""
    errors = [methods[other]["error"] for other in others if "error" in methods.get(other, {})]
    if not errors or "auto" not in methods:
        return {}
    return {f"auto_over_{name}": methods["auto"]["error"] / min(errors)}


def _tuned(inputs: Fields, outputs: Fields, options: argparse.Namespace) -> KernelOperator:
    """Choose length, ridge and whitening on at most `MOST_TUNED` samples, and fit to these."""
    sizes: Record = {"lengths": (1.0, 4.0), "ridges": (1e-8, 1e-2)} if options.quick else {}
    return KernelOperator(n_components=COMPONENTS, **sizes).fit(inputs[:MOST_TUNED], outputs[:MOST_TUNED])


def _on_all(tuned: KernelOperator, inputs: Fields, outputs: Fields) -> KernelOperator:
    """Where there are more samples, choose the ridge again among all of them, and fit to them."""
    if len(inputs) <= MOST_TUNED:
        return tuned
    found = _chosen(tuned)
    settings: Record = {"lengths": (found["length"],), "whitenings": (found["whitening"],)}
    return replace(tuned, **settings).fit(inputs, outputs)


def _chosen(model: KernelOperator) -> Record:
    assert model.choice is not None  # it is fitted
    return asdict(model.choice)


def _smooth(fields: Fields, width: float, kind: str) -> Fields:
    """Convolve each field with a Gaussian along all axes of its grid."""
    sigma = (0.0, *(width * points for points in fields.shape[1:]))
    return np.asarray(gaussian_filter(fields, sigma, mode="wrap" if kind == "periodic" else "nearest"))


def _auto(
    choose: Callable[..., Any], train: OperatorData, test: OperatorData, options: argparse.Namespace, **offered: Any
) -> Record:
    begun = time.perf_counter()
    model = choose(train.inputs, train.outputs, budget=options.budget, random_state=MODEL_SEED, **offered)
    seconds = time.perf_counter() - begun
    record = _record(model.predict(test.inputs), test, begun, report=str(model.auto_report_))
    return record | {"winner": type(model).__name__, "fit_over_budget": seconds / options.budget}


def _plain(train: OperatorData, test: OperatorData, model: PCARaNN) -> Record:
    begun = time.perf_counter()
    model.fit(train.inputs, train.outputs)
    return _record(model.predict(test.inputs), test, begun)


def _record(prediction: Fields, test: OperatorData, begun: float, **more: Any) -> Record:
    """Note the error and the seconds since `begun`."""
    seconds = time.perf_counter() - begun
    return {"error": relative_l2(prediction, test.outputs), "seconds": seconds, **more}


def _report(record: Record) -> str:
    methods = list(dict.fromkeys(method for case in record["cases"].values() for method in case["methods"]))
    quick = " **Quick mode: these numbers mean nothing.**" if record["quick"] else ""
    heading = (
        "Mean relative L² error on the test set (seconds to fit and predict). Ratios are those of error and of seconds "
        f"to the better of {' and '.join(OPPONENTS)}, and of error to the better of {' and '.join(PLAIN)}, and of "
        f"{' and '.join(PARTS)}. `symmetric` is auto with an exact symmetry offered. Budget of latent, auto and "
        f"symmetric: {record['budget']:g} s; beside it the seconds to the fitted model (auto, symmetric). Sources "
        f"{record['machine']['sources']}, {record['machine']['cores']} cores.{quick}"
    )
    ratios = (
        ["auto / better opponent", "auto / better plain", "auto / better part", "seconds / budget"]
        if "auto" in methods
        else []
    )
    columns = ["case", "training samples", *methods, *ratios]
    rows = [_row(name, case, methods) for name, case in record["cases"].items()]
    lines = [columns, ["---"] * len(columns), *rows]
    return heading + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(name: str, case: Record, methods: list[str]) -> list[str]:
    cells = [name, str(case["n_train"])]
    for method in methods:
        found = case["methods"][method]
        cells.append("–" if "failed" in found else f"{found['error']:.2e} ({found['seconds']:.1f})")
    if "auto" in methods:
        ratio = case.get("ratios", {}).get("auto")
        cells.append(f"{ratio['error']:.2f} ({ratio['seconds']:.1f})" if ratio else "–")
        for key in ("auto_over_plain", "auto_over_parts"):
            cells.append(f"{case[key]:.2f}" if key in case else "–")
        used = (case["methods"].get(name, {}).get("fit_over_budget") for name in ("auto", "symmetric"))
        cells.append(", ".join(f"{share:.2f}" for share in used if share is not None))
    return cells


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few samples and settings")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--keep", action="store_true", help="what was recorded of other methods and cases stays")
    parser.add_argument("--budget", type=float, help="seconds given to the recipe (60, quick: 2)")
    parser.add_argument("--seed", type=int, default=DATA_SEED, help=f"of the data ({DATA_SEED})")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/auto"))
    options = parser.parse_args(arguments)
    options.budget = options.budget or (2.0 if options.quick else 60.0)
    return options


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
