"""100 000 Monte-Carlo evaluations of a quantity of interest, through `model.quantity` and through full fields.

    python benchmarks/monte_carlo.py                    everything, on the CPU
    python benchmarks/monte_carlo.py --device cuda      on a GPU, beside what is recorded of the CPU
    python benchmarks/monte_carlo.py --quick            seconds: the numbers mean nothing

    plate            a field on 1008 nodes and two numbers to displacement and temperature, by name; the quantity is the
                     mean temperature of a quarter of the plate
    Navier–Stokes    sizes of the paper, 10 × 64² to 10 × 64² values, 150 modes, on synthetic fields of that size; the
                     quantity is the mean vorticity of a quarter at the last time. Two models: the paper's 20 members
                     of 3000 + 3000 features, and a kernel, 1000 samples and 4 members

On the plate there is a run of emcee too, 2424 evaluations of 20 sensors. Records of other cases stay.

Inputs are drawn in blocks outside of the clock, where the model is: 100 000 of Navier–Stokes take 33 GB. What is
measured is every call, with its checks, the encoding of the inputs and their comparison with the training data. Where
all evaluations would take minutes, so many blocks are measured as fit into a stated time, and the rest is extrapolated:
the record says of how many evaluations. Beside the seconds on the clock stand those of all cores together, which other
work on the same machine hardly changes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from beside import example

from pcarann import PCARaNN
from pcarann.backend.arrays import Array, Place, to_host
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["main", "measured", "plate", "vorticity"]

Record = dict[str, Any]
Draw = Callable[[int, np.random.Generator], Any]

EVALUATIONS, BLOCK = 100_000, 5_000
CASES = ("plate", "navier_stokes_kernel", "navier_stokes_paper")
PATIENCE = 20.0
"""Seconds after which the rest is extrapolated"""
ROOT = Path(__file__).resolve().parents[1]


def combinations(fields: np.ndarray[Any, Any], place: Place) -> Callable[[int, np.random.Generator], Array]:
    """Random combinations of two training fields each, with the mean and the variance that these have, in a place."""
    mean, apart = place.put(fields.mean(axis=0)), place.put(fields - fields.mean(axis=0))

    def draw(count: int, rng: np.random.Generator) -> Array:
        parts = (place.xp.asarray(part, device=place.device) for part in rng.integers(len(fields), size=(2, count)))
        angle = rng.uniform(0, 2 * np.pi, count).reshape(-1, *(1 for _ in mean.shape))
        sides = zip((np.cos(angle), np.sin(angle)), parts, strict=True)
        return mean + sum(place.put(factor) * place.xp.take(apart, part, axis=0) for factor, part in sides)

    return draw


def plate(quick: bool, device: str | None) -> tuple[PCARaNN, Any, Draw]:
    """A small plate by named parts: a model, weights, and how inputs are drawn."""
    solver = example("plate")
    inputs, outputs = solver.sample(30 if quick else 300, 0, level=0 if quick else 1)
    model = PCARaNN(regressor="kernel", n_members=4, device=device).fit(inputs, outputs)
    x, y = solver.mesh(0 if quick else 1).p
    region = (x > 0) & (y > 0)
    fields = combinations(inputs["conductivity"], model.fitted_.place)

    def draw(count: int, rng: np.random.Generator) -> Any:
        numbers = {"angle": rng.uniform(*solver.ANGLES, count), "temperature": rng.uniform(*solver.TEMPERATURES, count)}
        return {"conductivity": fields(count, rng), **numbers}

    return model, {"temperature": region / region.sum()}, draw


def vorticity(quick: bool, device: str | None, **options: Any) -> tuple[PCARaNN, Any, Draw]:
    """A model of the paper's sizes on synthetic fields: smooth random waves, and a nonlinear function of them."""
    samples, points, times, modes = (60, 16, 2, 10) if quick else (1000, 64, 10, 150)
    rng = np.random.default_rng(0)
    waves = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(modes + 50, times, points, points))) * _decay(points))
    inputs = np.tensordot(rng.normal(size=(samples, modes + 50)) / (1 + np.arange(modes + 50)) ** 0.5, waves, 1)
    outputs = np.tanh(inputs / inputs.std()) + 0.1 * np.roll(inputs / inputs.std(), 3, axis=-1)
    model = PCARaNN(n_components=(modes, modes), device=device, **options).fit(inputs, outputs)
    weights = np.zeros((times, points, points))
    weights[-1, : points // 2, : points // 2] = 4 / points**2
    return model, weights, combinations(inputs, model.fitted_.place)


def _decay(points: int) -> np.ndarray[Any, Any]:
    first, second = np.fft.fftfreq(points) * points, np.arange(points // 2 + 1)
    return (1 + first[:, None] ** 2 + second**2) ** -1.5


def measured(
    call: Callable[[Any], Any], draw: Draw, evaluations: int, block: int, place: Any, patience: float
) -> Record:
    """Seconds of so many evaluations by blocks, the first not counted; extrapolated where they take long."""
    rng = np.random.default_rng(1)
    call(draw(min(block, 256), rng))
    spent, worked, done = 0.0, 0.0, 0
    while done < evaluations and spent < patience:
        inputs = _there(draw(min(block, evaluations - done), rng), place)
        place.wait()
        begun, before = time.perf_counter(), time.process_time()
        call(inputs)
        place.wait()
        spent, worked = spent + time.perf_counter() - begun, worked + time.process_time() - before
        done += min(block, evaluations - done)
    times = {"seconds": spent * evaluations / done, "processor_seconds": worked * evaluations / done}
    return {**times, "measured": done, "extrapolated": done < evaluations}


def _there(inputs: Any, place: Any) -> Array:
    """Inputs where the model is, so that the way there is not on the clock."""
    return {name: place.put(part) for name, part in inputs.items()} if isinstance(inputs, dict) else place.put(inputs)


def chain(model: PCARaNN, draw: Draw, steps: int) -> Record:
    """Seconds of emcee, 24 walkers in two numbers of the plate, for 20 sensors: call by call, and all together."""
    import emcee

    rng, place = np.random.default_rng(2), model.fitted_.place
    one = draw(1, rng)
    nodes = int(np.prod(np.shape(model.predict(one)["temperature"])[1:]))
    sensors = np.zeros((20, nodes))
    sensors[np.arange(20), np.linspace(0, nodes - 1, 20).astype(int)] = 1.0
    quantity = model.quantity({"temperature": sensors})
    measured = np.asarray(to_host(quantity(one)))[0]

    def density(numbers: np.ndarray[Any, Any]) -> Any:
        field = place.xp.broadcast_to(one["conductivity"], (len(numbers), *one["conductivity"].shape[1:]))
        given = {"conductivity": field, "angle": numbers[:, 0], "temperature": numbers[:, 1]}
        found = -0.5 * ((to_host(quantity(given)) - measured) ** 2).sum(axis=1)
        return np.where((np.abs(numbers[:, 0]) < np.pi / 2) & (np.abs(numbers[:, 1] - 150) < 100), found, -np.inf)

    begun = np.column_stack([rng.uniform(-0.5, 0.5, 24), rng.uniform(100, 200, 24)])
    ways: dict[str, tuple[Callable[..., Any], bool]] = {
        "emcee_call_by_call": (lambda p: float(density(p[None, :])[0]), False),
        "emcee_together": (density, True),
    }
    found: Record = {}
    for name, (function, together) in ways.items():
        sampler = emcee.EnsembleSampler(24, 2, function, vectorize=together)
        started, before = time.perf_counter(), time.process_time()
        sampler.run_mcmc(begun, steps)
        found[name] = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - before}
        found[name] |= {"measured": 24 * (steps + 1), "extrapolated": False}
    return found


PAPER = {"widths": (3000, 3000), "n_members": 20, "scales": (0.024, 0.055)}
QUICK = {"widths": (30, 20), "n_members": 2, "scales": (0.5, 0.5)}


def main(arguments: Sequence[str] | None = None) -> Record:
    """Measure all cases, and write the record beside that of other devices."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default=None, help="cpu or cuda")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds of one measurement")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "monte_carlo")
    chosen = parser.parse_args(arguments)
    device, quick = (None if chosen.device == "cpu" else chosen.device), chosen.quick
    cases: dict[str, Callable[[], tuple[PCARaNN, Any, Draw]]] = {
        "plate": lambda: plate(quick, device),
        "navier_stokes_kernel": lambda: vorticity(quick, device, regressor="kernel", n_members=4),
        "navier_stokes_paper": lambda: vorticity(quick, device, **(QUICK if quick else PAPER)),
    }
    evaluations = 200 if quick else EVALUATIONS
    warnings.simplefilter("ignore")  # combinations may lie at the edge of the data
    path = chosen.output / f"{'cpu' if device is None else device.replace(':', '')}.json"
    found = json.loads(path.read_text())["cases"] if path.exists() and not quick else {}
    for name in chosen.cases:
        model, weights, draw = cases[name]()
        quantity = model.quantity(weights)
        place = model.fitted_.place
        block = min(evaluations, 1000 if name != "plate" and device is None else BLOCK)
        calls = {"quantity": quantity, "quantity_with_std": lambda X, q=quantity: q.predict(X, return_std=True)}
        calls["fields"] = model.predict
        found[name] = {
            way: measured(call, draw, evaluations, block, place, chosen.patience) for way, call in calls.items()
        }
        if name == "plate" and device is None:
            found[name] |= chain(model, draw, 2 if quick else 100)
        times = {way: (one["seconds"], one["processor_seconds"]) for way, one in found[name].items()}
        said = "  ".join(f"{way} {clock:.3g} s, {cores:.3g} of cores" for way, (clock, cores) in times.items())
        sys.stdout.write(f"{name:22} {said}\n")
        sys.stdout.flush()
    record = {"evaluations": evaluations, "machine": machine_facts(chosen.device), "cases": found}
    chosen.output.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    return record


if __name__ == "__main__":
    main()
