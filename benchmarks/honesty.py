"""What reports, intervals and novelty say, compared with the truth on fresh data.

    python benchmarks/honesty.py [--quick] [--aside] [--parts report coverage novelty] [-o results/honesty]

report      reported error over the real one on 400 fresh samples: 30 problems of 8, 20, 60 and 300 samples, as they are
            and with every sample twice, for `PCARaNN()`, `auto`, `Staged` and `Marching`
coverage    share of points (of whole fields for "simultaneous") inside intervals after a calibration, and after 1, 20
            and 100 further samples of the same stream were observed or learned
novelty     share of exchangeable inputs with p ≤ 0.01 in every container, and share of inputs in holes of the data that
            are found

The error is the mean relative L² error; of a single number, which may pass through 0, it is √(1 − R²). Problems that
were set aside (`honesty_problems.ASIDE`) run only with --aside, into a record of their own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from honesty_problems import ASIDE, FIELDS, FLOWS, PROBLEMS, TABLES, problem
from threadpoolctl import threadpool_limits

from pcarann import Marching, PCARaNN, Staged, auto
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["main", "summary_of_reports"]

Record = dict[str, Any]
Values = np.ndarray[Any, np.dtype[Any]]

SIZES = (8, 20, 60, 300)
TEST = 400
LEVEL = 0.01
METHODS = ("sample", "pooled", "simultaneous", "local")
OBSERVED = (0, 1, 20, 100)
CONTAINERS = ("array", "DataFrame", "mapping", "xarray", "dask")


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Run the parts that are asked for; write one record for each."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in options.parts:
        begun, cpu = time.perf_counter(), time.process_time()
        rows, summary = {"report": _reports, "coverage": _coverages, "novelty": _novelties}[part](options)
        seconds = {"wall": time.perf_counter() - begun, "cpu_of_parent": time.process_time() - cpu}
        record = {"kind": "honesty", "part": part, "quick": options.quick, "aside": options.aside}
        record |= {"machine": machine_facts(None), "seconds": seconds, "summary": summary, "rows": rows}
        paths.append(options.output / f"{part}{'_aside' if options.aside else ''}.json")
        with atomic_writer(paths[-1]) as file:
            file.write(json.dumps(record, indent=1).encode())
        for line in summary:
            print(
                " ".join(
                    f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
                    for name, value in line.items()
                )
            )
    return paths


def _names(options: argparse.Namespace, among: Iterable[str]) -> list[str]:
    found = [name for name in among if (name in ASIDE) == options.aside]
    return found[:: max(1, len(found) // 2)] if options.quick else found


def _in_parallel(tasks: list[Callable[[], list[Record]]], workers: int) -> Iterator[list[Record]]:
    if workers == 1:
        yield from (task() for task in tasks)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_called, tasks)


def _called(task: Callable[[], list[Record]]) -> list[Record]:
    with threadpool_limits(1):  # processes share the cores
        return task()


# Reports


def _reports(options: argparse.Namespace) -> tuple[list[Record], list[Record]]:
    tasks: list[Callable[[], list[Record]]] = []
    sizes = SIZES[1:2] if options.quick else SIZES
    for surrogate, among in (("PCARaNN", PROBLEMS), ("Staged", FIELDS), ("Marching", FLOWS), ("auto", PROBLEMS)):
        if surrogate in options.surrogates:
            for name in _names(options, among):
                for size in sizes:
                    tasks += [
                        partial(_report, surrogate, name, size, repeats, seed, options.budget)
                        for repeats in (1, 2)
                        for seed in range(options.seeds)
                    ]
    rows = []
    for found in _in_parallel(tasks, options.workers):
        rows += found
        for row in found:
            print(json.dumps(row), flush=True)
    return rows, summary_of_reports(rows)


def _report(surrogate: str, name: str, size: int, repeats: int, seed: int, budget: float) -> list[Record]:
    """One fit: what its report says, and what is true."""
    X, y = problem(name, size, seed)
    X_test, y_test = problem(name, TEST, 1000 + seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(np.arange(size), repeats))
    row: Record = {"surrogate": surrogate, "problem": name, "samples": size, "repeats": repeats, "seed": seed}
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _fitted(surrogate, X[order], y[order], seed, budget)
            report = model.fit_report_
            found = np.asarray(model.predict(X_test))
        except Exception as error:  # recorded, not hidden: it counts as a failure
            return [row | {"failed": f"{type(error).__name__}: {str(error)[:200]}"}]
    row |= {"cpu_seconds": time.process_time() - begun, "chosen": type(model).__name__}
    real, r2 = _errors(found, y_test, y)
    reported = {"error": report.relative_error, "r2": report.r2}
    single = y[0].size == 1
    pair = (np.sqrt(max(1 - report.r2, 0.0)), np.sqrt(max(1 - r2, 0.0))) if single else (reported["error"], real)
    said = [str(one.message).split(":")[0][:80] for one in caught if issubclass(one.category, UserWarning)]
    row |= {"reported": reported, "real": {"error": real, "r2": r2}, "warned": said}
    row |= {"ratio": float(pair[0] / max(pair[1], 1e-300)), "standard_error": getattr(report, "standard_error", None)}
    return [row]


def _fitted(surrogate: str, X: Values, y: Values, seed: int, budget: float) -> Any:
    if surrogate == "auto":
        return auto(X, y, budget=budget, random_state=seed)
    model = {"PCARaNN": PCARaNN, "Staged": Staged}.get(surrogate)
    if model is not None:
        return model(random_state=seed).fit(X, y)
    return Marching(PCARaNN(ridge="refined", n_members=3, random_state=seed)).fit(X, y)


def _errors(found: Values, truth: Values, training: Values) -> tuple[float, float]:
    """Mean relative L² error, and R² against the mean of the training outputs."""
    found, truth, training = (part.reshape(len(part), -1) for part in (found, truth, training))
    missed, sizes = np.linalg.norm(found - truth, axis=1), np.linalg.norm(truth, axis=1)
    r2 = 1 - float((missed**2).sum() / ((truth - training.mean(axis=0)) ** 2).sum())
    return float(np.mean(missed / np.where(sizes > 0, sizes, 1.0))), r2


def summary_of_reports(rows: list[Record]) -> list[Record]:
    """Median of reported over real, and the share below one half, by surrogate, size and repeats."""
    found = []
    kinds = sorted({(row["surrogate"], row["repeats"], row["samples"]) for row in rows})
    for surrogate, repeats, samples in kinds:
        mine = [r for r in rows if (r["surrogate"], r["repeats"], r["samples"]) == (surrogate, repeats, samples)]
        ratios = [row["ratio"] for row in mine if "ratio" in row]
        line: Record = {"surrogate": surrogate, "repeats": repeats, "samples": samples, "fits": len(mine)}
        if ratios:
            line |= {"median": statistics.median(ratios), "below_half": float(np.mean(np.array(ratios) < 0.5))}
            line |= {"above_double": float(np.mean(np.array(ratios) > 2.0)), "least": min(ratios)}
        found.append(line | {"failed": sum("failed" in row for row in mine)})
    return found


# Coverage


def _coverages(options: argparse.Namespace) -> tuple[list[Record], list[Record]]:
    kinds = ("random", "kernel", "one member", "named", "Staged", "Marching")
    draws = 4 if options.quick else options.draws
    tasks: list[Callable[[], list[Record]]] = []
    for kind in kinds[:1] if options.quick else kinds:
        for calibration in (19, 100):
            for how in ("observe", "partial_fit"):
                tasks.append(partial(_coverage, kind, calibration, how, draws))
    rows = [row for found in _in_parallel(tasks, options.workers) for row in found]
    return rows, [row for row in rows if not row["within"]] or [{"coverage": "all within bounds", "rows": len(rows)}]


def _stream(kind: str, samples: int, seed: int) -> tuple[Any, Any]:
    if kind == "Marching":
        X, y = problem("heat", samples, seed)
        return X[:, :, ::4], y[:, :3, ::4]
    if kind == "Staged":
        X, y = problem("screened", samples, seed)
        return X, y
    X, y = problem("kink" if kind != "named" else "fin", samples, seed)
    return (X, {"profile": y[:, ::4], "peak": np.exp(y.max(axis=1) / y.max())}) if kind == "named" else (X, y[:, ::4])


def _base(kind: str, seed: int) -> Any:
    X, y = _stream(kind, 80, seed)
    small = {"widths": (60, 30), "n_members": 3, "ridge": "refined", "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "Marching":
            return Marching(PCARaNN(**small), choose=False).fit(X, y)
        if kind == "Staged":
            return Staged(n_stages=1, n_features=30, n_members=2, adaptable=True).fit(X, y)
        if kind == "kernel":
            return PCARaNN(regressor="kernel", n_members=3).fit(X, y)
        return PCARaNN(**small | ({"n_members": 1} if kind == "one member" else {})).fit(X, y)


def _coverage(kind: str, calibration: int, how: str, draws: int) -> list[Record]:
    """Coverage at 90 % over draws of calibration, stream and test samples, all from one distribution."""
    levels, shares = 0.1, {(count, method): [] for count in OBSERVED for method in METHODS}
    base, tests = _base(kind, 0), 50
    for draw in range(draws):
        X, y = _stream(kind, calibration + OBSERVED[-1] + tests, 10_000 + draw)
        cut = lambda a, b, one: {k: v[a:b] for k, v in one.items()} if isinstance(one, dict) else one[a:b]  # noqa: E731
        model, end = copy(base), calibration
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.calibrate(cut(0, end, X), cut(0, end, y))
            test = cut(calibration + OBSERVED[-1], None, X), cut(calibration + OBSERVED[-1], None, y)
            for before, count in zip((0, *OBSERVED[:-1]), OBSERVED, strict=True):
                size = 1 if count <= 20 else 10
                for start in range(calibration + before, calibration + count, size):
                    getattr(model, how)(cut(start, start + size, X), cut(start, start + size, y))
                for method in METHODS:
                    band = model.predict_interval(test[0], levels, method)
                    shares[count, method].append(_inside(band, test[1], method == "simultaneous"))
    rows = []
    for (count, method), found in shares.items():
        least = int(np.argmin(np.mean(found, axis=0)))  # of named outputs, that which is covered least
        mine = np.asarray(found)[:, least]
        error = max(float(np.std(mine) / np.sqrt(len(mine))), 1e-4)
        mean, slack = float(np.mean(mine)), 1 / (calibration + 1) + 0.01
        row = {"kind": kind, "calibration": calibration, "how": how, "observed": count, "method": method}
        row |= {"level": 1 - levels, "coverage": mean, "standard_error": error, "draws": draws}
        within = mean >= 1 - levels - 3 * error - (0.01 if method != "pooled" else slack)
        rows.append(row | {"within": bool(within and mean <= 1 - levels + slack + 3 * error + 0.03)})
    return rows


def _inside(band: Any, truth: Any, whole: bool) -> list[float]:
    """Share of points inside, or of whole fields, for each output."""
    if isinstance(truth, dict):
        parts = [(band.lower[name], band.upper[name], truth[name]) for name in truth]
    else:
        parts = [(band.lower, band.upper, truth)]
    inside = [((np.asarray(low) <= one) & (one <= np.asarray(high))).reshape(len(one), -1) for low, high, one in parts]
    if whole:
        return [float(np.concatenate(inside, axis=1).all(axis=1).mean())]
    return [float(part.mean()) for part in inside]


# Novelty


def _novelties(options: argparse.Namespace) -> tuple[list[Record], list[Record]]:
    tasks: list[Callable[[], list[Record]]] = []
    sizes = (60,) if options.quick else (20, 60, 200)
    for name in _names(options, [*TABLES, *FIELDS]):
        for container in CONTAINERS[: 2 if options.quick else None]:
            if name in TABLES or container in ("array", "xarray", "dask"):
                tasks += [partial(_alarms, name, container, size) for size in sizes]
    for name in ("field and numbers", "two fields") * (not options.aside):
        tasks += [partial(_alarms, name, "mapping", size) for size in sizes]
    for hole in HOLES:
        for container in ("array", "DataFrame", "mapping"):
            tasks += [partial(_hole, hole, container, size) for size in sizes]
    rows = [row for found in _in_parallel(tasks, options.workers) for row in found]
    return rows, _summary_of_novelty(rows)


def _contained(X: Any, container: str) -> Any:
    if isinstance(X, dict) or container == "array":
        return X
    if container == "DataFrame":
        import pandas

        return pandas.DataFrame(X, columns=[f"p{i}" for i in range(X.shape[1])])
    if container == "mapping":
        return {f"p{i}": X[:, i] for i in range(X.shape[1])}
    if container == "xarray":
        import xarray

        return xarray.DataArray(X, dims=["sample", *(f"axis{i}" for i in range(1, X.ndim))])
    import dask.array

    return dask.array.from_array(X, chunks=(max(10, len(X) // 3), *X.shape[1:]))


def _mixed(name: str, samples: int, seed: int) -> tuple[Any, Values]:
    """Inputs of several parts: a plane field with a source position, or two fields."""
    a, u = problem("plane", samples, seed)
    rng = np.random.default_rng(seed + 7)
    if name == "two fields":
        b, _ = problem("screened", samples, seed + 1)
        return {"coefficient": a, "load": b}, u * (1 + 0.1 * b.mean(axis=1)[:, None, None])
    place = rng.uniform(0.2, 0.8, (samples, 2))
    x = np.linspace(0, 1, 16)
    bump = np.exp(-((x[:, None] - place[:, 0, None, None]) ** 2 + (x - place[:, 1, None, None]) ** 2) / 0.02)
    return {"coefficient": a, "x": place[:, 0], "y": place[:, 1]}, u + bump


def _alarms(name: str, container: str, size: int) -> list[Record]:
    """Share of exchangeable inputs that count as new."""
    make = partial(problem, name) if name in PROBLEMS else partial(_mixed, name)
    (X, y), (fresh, _) = make(size, 3), make(500, 1003)
    row: Record = {"part": "alarms", "problem": name, "container": container, "samples": size}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = PCARaNN(ridge="refined", n_members=2, widths=(100, 50))
            given = _contained(y, "dask") if container == "dask" else y
            model.fit(_contained(X, container), given)
            p = np.asarray(model.novelty(_contained(fresh, container)).p_value)
        except Exception as error:
            return [row | {"failed": f"{type(error).__name__}: {str(error)[:200]}"}]
    return [row | {"share": float((p <= LEVEL).mean())}]


def _levels(rng: np.random.Generator, n: int, count: int) -> tuple[Values, Values]:
    others = rng.uniform(-1, 1, (n, 2))
    return np.column_stack([rng.integers(0, count, n), others]), np.column_stack(
        [np.full(200, 0.5), rng.uniform(-1, 1, (200, 2))]
    )


def _clusters(rng: np.random.Generator, n: int) -> tuple[Values, Values]:
    centres = np.where(rng.random((n, 1)) < 0.5, -1.0, 1.0)
    return centres + 0.15 * rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(200, 3))


def _ring(rng: np.random.Generator, n: int) -> tuple[Values, Values]:
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + 0.05 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), 0.1 * rng.normal(size=(200, 2))


HOLES: dict[str, Callable[[np.random.Generator, int], tuple[Values, Values]]] = {
    "two levels": partial(_levels, count=2),
    "three levels": partial(_levels, count=3),
    "two clusters": _clusters,
    "ring": _ring,
}


def _response(X: Values) -> Values:
    """Different on both sides of a hole, and different again inside."""
    x = np.linspace(0, 1, 20)
    return np.sin(3 * X[:, :1] + 2 * x) + 2 * np.exp(-4 * (X[:, :1] - 0.5) ** 2) * x + X[:, 1:2] * x


def _hole(hole: str, container: str, size: int) -> list[Record]:
    """Share of inputs in a hole of the data that are found, and what a band of 90 % covers there."""
    rng = np.random.default_rng([5, size])
    X, asked = HOLES[hole](rng, 2 * size)
    row: Record = {"part": "holes", "problem": hole, "container": container, "samples": size}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCARaNN(ridge="refined", n_members=3, widths=(100, 50))
        model.fit(_contained(X[:size], container), _response(X[:size]))
        model.calibrate(_contained(X[size:], container), _response(X[size:]))
        inside = _contained(asked, container)
        p = np.asarray(model.novelty(inside).p_value)
        band = model.predict_interval(inside, 0.1)
    truth = _response(asked)
    covered = float(((np.asarray(band.lower) <= truth) & (truth <= np.asarray(band.upper))).mean())
    return [row | {"share": float((p <= LEVEL).mean()), "coverage": covered}]


def _summary_of_novelty(rows: list[Record]) -> list[Record]:
    found = []
    for part, container in sorted({(row["part"], row["container"]) for row in rows}):
        mine = [row for row in rows if (row["part"], row["container"]) == (part, container)]
        shares = [row["share"] for row in mine if "share" in row]
        line = {"part": part, "container": container, "fits": len(mine), "mean": float(np.mean(shares))}
        line |= {"largest": max(shares), "least": min(shares), "failed": sum("failed" in row for row in mine)}
        found.append(line)
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--aside", action="store_true", help="the problems that were set aside")
    parser.add_argument("--parts", nargs="*", default=["report", "coverage", "novelty"])
    parser.add_argument("--surrogates", nargs="*", default=["PCARaNN", "auto", "Staged", "Marching"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of auto")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/honesty"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(*main(), sep="\n")
