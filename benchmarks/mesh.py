"""Stages on meshes beside the latent model, and errors on a mesh that is finer in one corner.

    python benchmarks/mesh.py                              all cases, three seeds: wants a GPU (--device cuda)
    python benchmarks/mesh.py --cases norms                without stages, in seconds on any machine
    python benchmarks/mesh.py --quick                      the machinery; the numbers mean nothing

`disc` is Darcy flow in a disc whose triangles are finer in the middle, for conductivities of two phases: −∇·(k ∇u) = 1,
u = 0 around it. `plate` is that of `examples/plate.py`, a field and two numbers to displacements. Each is fitted by
`PCARaNN.auto` (60 s), the latent model, and by `Staged` as it comes; the seeds are those of the models. `norms` fits
one family of fields on a uniform and on a graded mesh of the same square, with the lumped masses as inner product and
without: the errors in the L² norm of the domain should be those of one problem. Records of other cases stay.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import spsolve
from scipy.spatial import Delaunay

from pcarann import Channels, Fields, Mesh, PCARaNN, Staged
from pcarann.backend.arrays import place_of, to_host
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["CASES", "disc", "main", "norms"]

Values = np.ndarray[Any, Any]
Record = dict[str, Any]

SEEDS = (0, 1, 2)
BUDGET = 60.0


class Samples(NamedTuple):
    """Inputs, an array or several by name, and outputs, of a training set and of a test set."""

    mesh: Mesh
    train: tuple[Any, Values]
    test: tuple[Any, Values]


def disc(quick: bool) -> Samples:
    """Darcy flow in a disc: 2000 nodes, 400 samples to train, 100 to test."""
    nodes, counts = (150, (40, 20)) if quick else (2000, (400, 100))
    edge = round(2 * np.sqrt(nodes))
    turn, radius = np.pi * (3 - np.sqrt(5)) * np.arange(nodes - edge), np.sqrt(np.linspace(0, 0.94, nodes - edge))
    turn = np.concatenate([turn, np.linspace(0, 2 * np.pi, edge, endpoint=False)])
    radius = np.concatenate([radius * (0.6 + 0.4 * radius), np.ones(edge)])
    points = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    cells = Delaunay(points).simplices
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    mesh = Mesh(points, cells[np.abs(np.linalg.det(sides)) > 1e-6])
    phases, rng = mesh.harmonics(100), np.random.default_rng(0)
    waves = rng.normal(size=(sum(counts), 99)) / (9 + phases.values[1:]) @ phases.functions[1:]
    k = np.where(waves > 0, 12.0, 3.0)
    u = np.stack([_flow(mesh, one) for one in k])
    return Samples(mesh, (k[: counts[0]], u[: counts[0]]), (k[counts[0] :], u[counts[0] :]))


def _flow(mesh: Mesh, k: Values) -> Values:
    """Linear elements, the conductivity of a triangle being the mean of its corners'; u = 0 on the boundary."""
    from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, LinearForm, MeshTri, condense
    from skfem.helpers import dot, grad

    cells = mesh.cells["triangle"]
    basis = Basis(MeshTri(mesh.points.T.copy(), cells.T.copy()), ElementTriP1())
    inside = basis.with_element(ElementTriP0()).interpolate(k[cells].mean(axis=1))
    stiffness = BilinearForm(lambda u, v, w: w.k * dot(grad(u), grad(v))).assemble(basis, k=inside)
    load = LinearForm(lambda v, w: v).assemble(basis)
    matrix, vector, found, free = condense(stiffness, load, D=basis.get_dofs())
    found[free] = spsolve(matrix, vector)
    return np.asarray(found)


def plate(quick: bool) -> Samples:
    """The plate with a hole: 3936 nodes, 300 samples to train, 100 to test."""
    import plate as comparison

    found = comparison.load((40, 1, 20), 0) if quick else comparison.load(comparison.SIZES, 2)
    return Samples(Mesh(found.mesh.p.T, found.mesh.t.T), found.train, found.test)


def latent(samples: Samples, seed: int, quick: bool, device: str | None) -> Any:
    """All options chosen by validation."""
    settled: Record = {"random_state": seed, "device": device}
    if quick:
        model = PCARaNN((20, 10), regressor="kernel", n_members=2, fields=Fields(mesh=samples.mesh), **settled)
        return model.fit(*samples.train)
    return PCARaNN.auto(*samples.train, budget=BUDGET, **settled)


def staged(samples: Samples, seed: int, quick: bool, device: str | None) -> Any:
    """Stages as they come."""
    small: Record = {"n_features": 8, "n_stages": 1, "channels": Channels()} if quick else {}
    return Staged(grid=samples.mesh, random_state=seed, device=device, **small).fit(*samples.train)


METHODS: dict[str, Callable[..., Any]] = {"latent": latent, "stages": staged}


def compared(draw: Callable[[bool], Samples], options: argparse.Namespace) -> Iterator[tuple[str, Record]]:
    """Each method with each seed, judged on the test samples."""
    samples = draw(options.quick)
    for name, method in METHODS.items():
        runs = []
        for seed in SEEDS[:1] if options.quick else SEEDS:
            begun = time.perf_counter()
            model = method(samples, seed, options.quick, options.device)
            place_of(model.fitted_.place.zeros(1)).wait()
            seconds = time.perf_counter() - begun
            errors = _errors(samples.mesh, to_host(model.predict(samples.test[0])), samples.test[1])
            runs.append({"seed": seed, "seconds": seconds, "error": errors[0], "error_by_area": errors[1]})
            if hasattr(model, "stages_"):
                runs[-1]["stages"] = str(model.stages_)
        yield name, {"nodes": samples.mesh.nodes, "samples": len(samples.train[1]), "runs": runs}


def norms(options: argparse.Namespace) -> Iterator[tuple[str, Record]]:
    """One family of fields on two meshes, with quadrature and without."""
    rng = np.random.default_rng(0)
    count, side = (60, 12) if options.quick else (300, 24)
    waves = rng.standard_normal((count, 6, 6)) / (1 + np.arange(6)[:, None] + np.arange(6))
    line = np.linspace(0, 1, side)
    for name, along in (("uniform", line), ("graded", line**2.5)):
        points = np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2)
        number = np.arange(side**2).reshape(side, side)
        corners = [part.ravel() for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])]
        mesh = Mesh(
            points, np.concatenate([np.stack([corners[i] for i in part], 1) for part in ((0, 1, 2), (0, 2, 3))])
        )
        x, y = (np.cos(np.pi * np.outer(np.arange(6), axis)) for axis in points.T)
        a = np.einsum("nij,ip,jp->np", waves, x, y)
        u = np.tanh(2 * a) + np.sin(3 * points[:, 0]) * a
        cut = 2 * count // 3
        found = {}
        for how, fields in (("with", Fields(mesh=mesh)), ("without", None)):
            model = PCARaNN((10, 10), regressor="kernel", n_members=1, fields=fields).fit(a[:cut], u[:cut])
            found[how] = _errors(mesh, model.predict(a[cut:]), u[cut:])[1]
        yield name, {"nodes": mesh.nodes, "error_by_area": found}


def _errors(mesh: Mesh, found: Values, truth: Values) -> tuple[float, float]:
    """Mean relative errors, over nodes as they are and in the L² norm of the domain."""
    missed, size = (np.reshape(part, (len(truth), mesh.nodes, -1)) ** 2 for part in (found - truth, truth))
    plain, by_area = (
        np.mean(np.sqrt(np.einsum("npc,p->n", missed, w) / np.einsum("npc,p->n", size, w)))
        for w in (np.ones(mesh.nodes), mesh.weights)
    )
    return float(plain), float(by_area)


CASES: dict[str, Callable[[argparse.Namespace], Iterator[tuple[str, Record]]]] = {
    "disc": lambda options: compared(disc, options),
    "plate": lambda options: compared(plate, options),
    "norms": norms,
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run, write record and table, and return the path of the table."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "mesh.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    record: Record = (
        kept if kept.get("quick") == options.quick else {"kind": "mesh", "quick": options.quick, "cases": {}}
    )
    for case in options.cases:
        found: Record = {"machine": machine_facts(options.device), "methods": {}}
        record["cases"][case] = found
        for name, one in CASES[case](options):
            found["methods"][name] = one
            sys.stderr.write(f"{case} {name}: {json.dumps(one)}\n")
            for file, text in ((path, json.dumps(record, indent=1) + "\n"), (path.with_suffix(".md"), _table(record))):
                with atomic_writer(file) as out:
                    out.write(text.encode())
    return path.with_suffix(".md")


def _table(record: Record) -> str:
    quick = " **Quick mode: these numbers mean nothing.**" if record["quick"] else ""
    lines = [
        "# Meshes\n",
        f"Mean relative errors in the L² norm of the domain, in %: median of the seeds (least, largest).{quick}\n",
        "| case | nodes | samples | latent model | stages | seconds | machine |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in [name for name in record["cases"] if name != "norms"]:
        found = record["cases"][case]
        one = found["methods"]["latent"]
        cells = [_spread(found["methods"].get(name)) for name in METHODS]
        seconds = ", ".join(
            f"{np.median([run['seconds'] for run in m['runs']]):.0f}" for m in found["methods"].values()
        )
        machine = found["machine"]["accelerator"] or f"{found['machine']['cores']} cores"
        row = [case, str(one["nodes"]), str(one["samples"]), *cells, seconds, machine]
        lines.append(f"| {' | '.join(row)} |")
    if "norms" in record["cases"]:
        lines += ["\n| mesh of the square | with lumped masses | without |", "|---|---|---|"]
        for name, one in record["cases"]["norms"]["methods"].items():
            each = one["error_by_area"]
            lines.append(f"| {name} | {100 * each['with']:.1f} | {100 * each['without']:.1f} |")
    return "\n".join(lines) + "\n"


def _spread(found: Record | None) -> str:
    if found is None:
        return "–"
    errors = [100 * run["error_by_area"] for run in found["runs"]]
    return f"{np.median(errors):.2f} ({min(errors):.2f}, {max(errors):.2f})"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small meshes and models")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--device", default=None)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/mesh"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sys.stdout.write(main().read_text())
