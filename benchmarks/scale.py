"""Fits to lazy arrays: do they agree with those in memory, in which memory do they run, what do workers gain?

    python benchmarks/scale.py [--quick] [--parts agreement memory wide workers] [-o results/scale]
    python benchmarks/scale.py --parts device --device cuda

agreement   the paper's problems in memory and lazy, cut into several blocks on each side, three chunkings, 1, 2 and 4
            workers: largest difference of predictions, relative to the largest value
memory      generated fields of growing number on two workers of 2 GB each, fitted, calibrated, predicted to zarr:
            seconds of each, beside those of reading alone, of the sums of the PCAs alone and of their eigenvectors
            alone, what workers sent, and the peak memory of every process
wide        200 fields of 10⁷ points by threads of one process, inside 6 GB
workers     the same with one worker
device      fields that fit into the memory of a GPU, fitted there in one go and by blocks from the host; and as many as
            two GPUs hold, by blocks

From `memory` and `workers` follows a model of the cost, and what it says of 64 workers and 10⁷ samples.
Fields are made from their number when they are read, so that no disk limits what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pcarann import PCARaNN
from pcarann.backend.arrays import place_of
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer
from pcarann.latent.pca import leading_eigenvectors
from pcarann.scale import limited
from pcarann.scale.writing import write_predictions

__all__ = ["main", "table"]

Row = dict[str, Any]
PROBLEMS: dict[str, tuple[int, str, Row]] = {
    "burgers": (400, "32MB", {}),
    "darcy": (400, "6MB", {"fine": 113}),
    "darcy of many samples": (5000, "32MB", {"fine": 29}),
    "backward_heat": (160, "32MB", {}),
    "navier_stokes": (160, "32MB", {"steps": 10}),
}
"""Samples, memory that makes several blocks of them, and options of a quick solver"""
CHUNKS = ("samples", "few samples", "space")
PARTS = ("agreement", "memory", "wide", "workers", "device")
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # whose roots no whole numbers relate
_MODES = len(_PRIMES)  # of the generated fields
AHEAD = (10_000_000, 64)
"""Samples and workers that the model of the cost is asked for"""
LINK = 1.0e9
"""Bytes in a second between two workers, as assumed: a network of 10 Gbit/s"""


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure all parts; write record and table after each row; return the path of the record."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path: Path = options.output / "scale.json"
    record: Row = {"kind": "scale", "quick": options.quick, "machine": machine_facts(options.device), "rows": []}
    if path.exists():  # what is not measured again stays
        record["rows"] = json.loads(path.read_text())["rows"]
    measure: dict[str, Callable[[bool], Iterator[Row]]] = {
        "agreement": agreement,
        "memory": in_memory_limits,
        "wide": wide,
        "workers": workers,
        "device": partial(on_device, options.device),
    }
    for part in options.parts:
        for row in measure[part](options.quick):
            record["rows"] = [old for old in record["rows"] if _name(old) != _name(row)]
            record["rows"].append(row | {"load": os.getloadavg()[0]})
            record["model"] = cost_model(record["rows"])
            for file, text in ((path, json.dumps(record, indent=1)), (path.with_suffix(".md"), table(record))):
                with atomic_writer(file) as out:
                    out.write(text.encode())
    return path


def _name(row: Row) -> tuple[Any, ...]:
    """What was measured."""
    return tuple(row.get(key) for key in ("part", "case", "samples", "values", "workers", "chunks"))


def agreement(quick: bool) -> Iterator[Row]:
    """The problems in memory and lazy."""
    options: Row = {"n_components": (20, 20), "n_members": 2, "ridge": 1e-6, "widths": (60, 40), "scales": "energy"}
    options |= {} if quick else {"n_components": (40, 40), "widths": (200, 100)}
    for name, (samples, memory, solver) in list(PROBLEMS.items())[: 1 if quick else None]:
        data = import_module(f"pcarann.problems.{name.split()[0]}").generate(60 if quick else samples, seed=0, **solver)
        a, u = data.inputs, data.outputs
        known = PCARaNN(**options).fit(a, u).predict(a[:50])
        for count in (1,) if quick else (1, 2, 4):
            with _cluster(count, "2GB"), limited(memory):
                for chunks in CHUNKS:
                    model = PCARaNN(**options)
                    with tempfile.TemporaryDirectory() as folder:
                        X, y = (_stored(one, chunks, Path(folder) / side) for one, side in ((a, "a"), (u, "u")))
                        seconds = _seconds(partial(model.fit, X, y))
                    apart = float(np.abs(model.predict(a[:50]) - known).max() / np.abs(known).max())
                    found: Row = {"part": "agreement", "case": name, "workers": count, "chunks": chunks}
                    found |= {"samples": len(a), "pca": [side.method for side in _sides(model)], "apart": apart}
                    yield found | {"blocks": [side.blocks for side in _sides(model)], "fit": seconds}


def in_memory_limits(quick: bool) -> Iterator[Row]:
    """Generated fields of growing number, workers of 2 GB."""
    for size in (2000, 4000) if quick else (62_500, 125_000, 500_000):
        yield _generated_row("memory", size, 256 if quick else 4096, 2)


def workers(quick: bool) -> Iterator[Row]:
    """The same with one worker."""
    for size in (4000,) if quick else (125_000, 500_000):
        yield _generated_row("workers", size, 256 if quick else 4096, 1)


def _generated_row(part: str, samples: int, values: int, count: int) -> Row:
    row: Row = {"part": part, "samples": samples, "values": values, "workers": count}
    row["bytes"] = 2 * 8 * samples * values
    X, y = (generated(samples, values, side) for side in (0, 1))
    fresh, truth = (generated(1000, values, side, first=samples) for side in (0, 1))
    model = PCARaNN(n_components=_MODES, widths=(200, 100), n_members=2, ridge=1e-8)
    folder = tempfile.mkdtemp()
    with _cluster(count, "2GB") as client:
        row["reading"] = _seconds(lambda: (X.sum().compute(), y.sum().compute()))
        row["arithmetic"] = max(client.run(arithmetic, values, samples).values()) / count
        row["fit"] = _seconds(lambda: model.fit(X, y))
        row["stages"] = model.fit_seconds_
        row["passes"] = [side.passes for side in _sides(model)]
        row["eigenvectors"] = eigenvectors(values)
        row["least"] = max(row["passes"]) * row["reading"] + row["arithmetic"] + row["eigenvectors"]
        row["moved"] = sum(client.run(_sent).values())
        row["calibrate"] = _seconds(lambda: model.calibrate(fresh, truth))
        row["predict"] = _seconds(lambda: write_predictions(model, X, Path(folder) / "out.zarr", {}))
        row["r2"] = model.score(fresh, truth)
        row["peak_workers"] = list(client.run(_peak).values())
        row["peak_client"] = _peak()
    shutil.rmtree(folder)
    return row


def wide(quick: bool) -> Iterator[Row]:
    """Few fields of many points, by threads of this process."""
    samples, points = (24, 20_000) if quick else (200, 10_000_000)
    # The Gram matrix wants all samples of some points at a time.
    X, y = (generated(samples, points, side, along=1) for side in (0, 1))
    model = PCARaNN(n_components=(6, 4), widths=(30, 20), n_members=2, ridge=1e-3, scales="energy")
    before = _peak()
    with limited("2GB"):
        seconds = _seconds(lambda: model.fit(X, y))
    yield (
        {"part": "wide", "samples": samples, "values": points, "fit": seconds, "stages": model.fit_seconds_}
        | {"bytes": 2 * 8 * samples * points, "peak_client": _peak(), "peak_before": before}
        | {"r2": model.fit_report_.r2}
    )


def on_device(device: str | None, quick: bool) -> Iterator[Row]:
    """Fields in the memory of a GPU, and by blocks from the host, where they are made as they are read."""
    values = 256 if quick else 4096
    few, many = (500, 2000) if quick else (400_000, 4_300_000)  # 26 GB, and the 282 GB of two GPUs
    for samples in (few, many):
        X, y = (generated(samples, values, side) for side in (0, 1))
        row: Row = {"part": "device", "samples": samples, "values": values, "bytes": 2 * 8 * samples * values}
        row["machine"] = machine_facts(device)  # perhaps another than that of the other parts
        if samples == few:
            inside = [place_of(None, device).put(one.compute()) for one in (X, y)]
            yield row | {"case": "in its memory"} | _fitted_there(*inside, device)
            del inside
        row["reading"] = _seconds(lambda X=X, y=y: (X.sum().compute(), y.sum().compute()))
        yield row | {"case": "by blocks"} | _fitted_there(X, y, device)


def _fitted_there(X: Any, y: Any, device: str | None) -> Row:
    """Seconds of a fit, the second of two, and how good it is on new fields."""
    values = int(X.shape[-1])
    fresh, truth = (generated(200, values, side, first=len(X)).compute() for side in (0, 1))
    model = PCARaNN(n_components=_MODES, widths=(200, 100), n_members=2, ridge=1e-8, device=device)
    model.fit(X[:500], y[:500])  # the first call waits for libraries
    row: Row = {"fit": _seconds(lambda: model.fit(X, y)), "stages": model.fit_seconds_}
    return row | {"r2": model.score(fresh, truth), "peak_client": _peak()}


def generated(samples: int, values: int, side: int, *, first: int = 0, along: int = 0) -> Any:
    """Lazy (samples, 1, values) fields that are functions of their number: inputs, or outputs that go with them."""
    import dask.array as da

    rows = max(1, min(samples, (1 << 25) // (8 * values))) if along == 0 else samples
    columns = values if along == 0 else max(4, (1 << 25) // (8 * samples) // 4 * 4)
    numbers = da.arange(first, first + samples, chunks=rows)[:, None]
    points = da.arange(values, chunks=columns)[None, :]
    chunks = (numbers.chunks[0], points.chunks[1])
    found = da.map_blocks(_made, numbers, points, values, side, dtype=np.float64, meta=np.empty((0, 0)), chunks=chunks)
    # A second axis, so that no column counts as one of a table.
    return found.map_blocks(_folded, dtype=np.float64, new_axis=1, meta=np.empty((0, 0, 0)))


def _folded(block: Any) -> Any:
    return block[:, None, :]


def _made(numbers: Any, points: Any, values: int, side: int) -> Any:
    orders = np.arange(1, _MODES + 1)
    phases = numbers * np.sqrt(_PRIMES)
    c = 2 * np.abs(2 * (phases % 1.0) - 1) - 1  # in [−1, 1], as good as independent
    if side:
        c = np.tanh(c) * (1 + 0.2 * c[:, :1])
    return (c / orders) @ np.cos(np.pi * orders[:, None] * (points + 0.5) / values)


def arithmetic(values: int, samples: int) -> float:
    """Seconds that the sums of both PCAs over so many samples take one core, from some of them in memory."""
    rows = min(samples, max(64, (1 << 24) // values))
    fields, modes = np.random.default_rng(0).normal(size=(rows, values)), np.ones((values, _MODES))
    _ = fields[:2048].T @ fields[:2048]  # the first product waits for memory and threads
    begun = time.perf_counter()
    for part in np.array_split(fields, max(1, rows // max(512, values // 2))):
        centred = part - modes[:, 0]
        _ = centred.T @ centred, centred @ modes, (centred**2).sum(axis=1), (part**2).sum(axis=1)
    return 2 * (time.perf_counter() - begun) * samples / rows


def eigenvectors(values: int) -> float:
    """Seconds that the leading eigenvectors of both covariances take this process."""
    fields = np.random.default_rng(0).normal(size=(values, values))
    covariance = fields.T @ fields
    return 2 * _seconds(lambda: leading_eigenvectors(covariance, _MODES))


def _sides(model: PCARaNN) -> Sequence[Any]:
    """What is reported of inputs and outputs."""
    return () if model.scale_report_ is None else model.scale_report_.sides


def _sent(dask_worker: Any) -> int:
    """Bytes that a worker has sent to other workers and to the caller."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def _stored(array: Any, chunks: str, path: Path) -> Any:
    """The same on disk, in chunks of about 4 MB, lazy: numbers inside a graph would travel with it."""
    import dask
    import dask.array as da

    whole, rest = len(array), array.ndim - 1
    wanted: Row = {
        "samples": ("auto", *[-1] * rest),
        "few samples": (max(1, whole // 29), *[-1] * rest),
        "space": (whole, "auto", *[-1] * (rest - 1)),
    }
    with dask.config.set({"array.chunk-size": "4MB"}):
        lazy = da.from_array(array, chunks=wanted[chunks])
    # Chunks of a store are alike but for the last, those of the array need not be.
    lazy.rechunk(tuple(max(sizes) for sizes in lazy.chunks)).to_zarr(str(path), compute=True)
    return da.from_zarr(str(path))


def _cluster(count: int, memory: str) -> Any:
    from contextlib import contextmanager

    from distributed import Client, LocalCluster

    @contextmanager
    def running() -> Any:
        options: Row = {"n_workers": count, "threads_per_worker": 1, "memory_limit": memory}
        with LocalCluster(**options, dashboard_address=":0", silence_logs=50) as cluster, Client(cluster) as client:
            yield client

    return running()


def _seconds(function: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def _peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def cost_model(rows: Sequence[Row]) -> Row | None:
    """Seconds of a fit as constant + a N / W + b N, from what its stages took; None where there are too few rows.

    N samples, W workers. Eigenvectors and scales are found by the caller, the latter on so many samples at most: the
    constant. Novelty is the caller's too, and grows with N. All else counts as divided among the workers.
    """
    used = [row for row in rows if row["part"] in ("memory", "workers")]
    if len(used) < 3 or len({row["workers"] for row in used}) < 2:
        return None
    constants = [row["eigenvectors"] + row["stages"]["refinement"] + row["stages"]["energy_matching"] for row in used]
    alone = [row["stages"]["novelty"] / row["samples"] for row in used]
    shared = [
        (row["fit"] - constant - row["stages"]["novelty"]) * row["workers"] / row["samples"]
        for row, constant in zip(used, constants, strict=True)
    ]
    constant, a, b = (float(np.median(found)) for found in (constants, shared, alone))

    def said(samples: int, count: int) -> float:
        return constant + a * samples / count + b * samples

    wrong = max(abs(said(row["samples"], row["workers"]) / row["fit"] - 1) for row in used)
    moved = float(np.mean([row["moved"] / row["samples"] for row in used if row["workers"] > 1]))
    samples, workers_there = AHEAD
    return {
        "constant": constant,
        "each_over_workers": a,
        "each": b,
        "largest_relative_error": wrong,
        "moved_each": moved,
        "ahead": {"samples": samples, "workers": workers_there, "values": used[0]["values"]}
        | {"seconds": said(samples, workers_there), "moved": moved * samples}
        | {"seconds_on_links": moved * samples / workers_there / LINK},
    }


def table(record: Row) -> str:
    """All rows in words."""
    lines = [
        "| part | case | samples × values | workers | blocks | s to read once | s of sums | s of eigenvectors "
        "| s to fit | over reading and arithmetic | s to predict | GB sent | peak GB | agrees to |",
        f"|{14 * '---|'}",
    ]
    for row in record["rows"]:
        peak = max([*row.get("peak_workers", [0]), row.get("peak_client", 0)]) / 1e9
        size = f"{row['samples']} × {row['values']}" if "values" in row else f"{row['samples']}, by {row['chunks']}"
        numbers = [row.get(name) for name in ("reading", "arithmetic", "eigenvectors", "fit")]
        numbers += [row["fit"] / row["least"] if "least" in row else None, row.get("predict")]
        numbers += [row["moved"] / 1e9 if "moved" in row else None, peak or None]
        blocks = ", ".join(map(str, row.get("blocks", ())))
        cells = [row["part"], row.get("case", "generated"), size, str(row.get("workers", "")), blocks]
        cells += [*map(_number, numbers), format(row["apart"], ".1e") if "apart" in row else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + (_said_of(record["model"]) if record.get("model") else "")


def _said_of(model: Row) -> str:
    ahead = model["ahead"]
    return (
        f"\nA fit of N samples on W workers takes {model['constant']:.3g} + {model['each_over_workers']:.3g} N / W + "
        f"{model['each']:.3g} N seconds, to {100 * model['largest_relative_error']:.0f} % of what was measured. That "
        f"is {ahead['seconds']:.3g} s for {ahead['samples']:g} samples of {ahead['values']} values on "
        f"{ahead['workers']} workers; they send {ahead['moved'] / 1e9:.3g} GB, which takes "
        f"{ahead['seconds_on_links']:.2g} s on links of {LINK / 1e9:.3g} GB/s that all work at a time.\n"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fits to lazy arrays.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; the numbers mean nothing")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:-1])
    parser.add_argument("--device", help="of the part `device`, such as cuda")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/scale"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sys.stdout.write(main().with_suffix(".md").read_text())
