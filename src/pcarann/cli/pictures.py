"""Pictures that commands draw: samples of data, and predictions beside the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.cli.options import Source
from pcarann.cli.targets import Target, check_folder
from pcarann.drawing import Place
from pcarann.spatial.report import StagesReport

__all__ = ["draw_data", "draw_samples", "draw_stages", "on_mesh", "picture_targets", "place_of"]

_RANKS = ("best", "median", "worst")
_COORDINATE = "coordinates."
_MOST_ROWS = 6


def picture_targets(folder: Path, sources: Iterable[Path]) -> dict[str, Target]:
    """The pictures that `evaluate` draws into a folder, which is made; refused where it has others of these names."""
    check_folder(folder)
    targets = {name: Target(folder / f"{name}.png", "--plots", force=False) for name in (*_RANKS, "trust")}
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets.values():
        target.check_picture(sources)
    return targets


def draw_samples(
    targets: dict[str, Target], found: Mapping[str, Any], truth: Any, mesh: Any, data: Source
) -> list[str]:
    """Draw the samples of least, median and greatest error, an output with a name on its own; return the files.

    They are drawn on the mesh where it fits, else on what the data lie on.
    """
    from pcarann.drawing import draw_prediction
    from pcarann.metrics import relative_l2

    files = []
    for name, wanted in (truth if isinstance(truth, Mapping) else {"": truth}).items():
        fields = {part: np.asarray(field[name] if name else field) for part, field in found.items()}
        order = np.argsort(np.asarray(relative_l2(fields["mean"], wanted, per_sample=True)), kind="stable")
        place = on_mesh(mesh, wanted.shape[1:]) or place_of(data.path, wanted.shape[1:])
        for rank, row in zip(_RANKS, (order[0], order[(len(order) - 1) // 2], order[-1]), strict=True):
            path = targets[rank].path
            path = path.with_name(f"{rank}_{name}.png") if name else path
            Target(path, "--plots", force=False).check_picture()
            shown = {part: field[row] for part, field in fields.items()}
            draw_prediction(path, title=name, truth=np.asarray(wanted[row]), **shown, **place)
            files.append(str(path))
    return files


def on_mesh(mesh: Any, shape: tuple[int, ...]) -> Place:
    """The place of fields of this shape on a mesh; nothing where there is none, or where they have other nodes."""
    from pcarann.problems.meshes import triangles_of

    fits = mesh is not None and len(mesh.points) in shape and len(shape) <= 2
    return Place(points=mesh.points, triangles=triangles_of(mesh.cells)) if fits else Place()


def place_of(path: Path, shape: tuple[int, ...]) -> Place:
    """What fields of this shape lie on: the mesh of mesh files, coordinates that were stored with them, or nothing.

    Nobody says which axis a coordinate belongs to, so its length must leave no doubt.
    """
    from pcarann.problems.formats.mesh import is_mesh_source
    from pcarann.problems.meshes import read_mesh
    from pcarann.problems.readers import open_arrays

    if is_mesh_source(path):
        return on_mesh(read_mesh(path), shape)
    if path.suffix.lower() != ".npz":
        return Place()
    with open_arrays(path) as arrays:
        axes = {name[len(_COORDINATE) :]: arrays[name]().whole() for name in arrays if name.startswith(_COORDINATE)}
    found = [[name for name, axis in axes.items() if len(axis) == length] for length in shape]
    if any(len(names) != 1 for names in found) or len(set(shape)) < len(shape):
        return Place()
    return Place(coords={names[0]: axes[names[0]] for names in found})


def draw_data(path: Path, target: Path) -> None:
    """Draw the first, the middle and the last sample of each array of fields in a file."""
    from pcarann.drawing import blank, draw_field, save, style
    from pcarann.problems.readers import open_arrays

    with open_arrays(path) as arrays:
        rows = [_samples_of(arrays[name]()) for name in arrays if not name.startswith(_COORDINATE)]
        names = [name for name in arrays if not name.startswith(_COORDINATE)]
    shown = [(name, samples) for name, samples in zip(names, rows, strict=True) if samples][:_MOST_ROWS]
    if not shown:
        raise ValueError(f"{path} holds no fields to draw: arrays of numbers, the sample as their first axis.")
    columns = max(len(samples) for _, samples in shown)
    with style():
        figure = blank(3.4 * columns, 2.6 * len(shown))
        axes = figure.subplots(len(shown), columns, squeeze=False)
        for line, (name, samples) in zip(axes, shown, strict=True):
            for axis in line[len(samples) :]:
                axis.set_axis_off()
            for axis, (row, values) in zip(line, samples.items(), strict=False):
                draw_field(axis, values, **place_of(path, values.shape))
                axis.set_title(f"{name}, sample {row}")
        save(figure, target)


def draw_stages(report: StagesReport, target: Path) -> None:
    """Draw the relative error on samples held out at the start and after each stage."""
    from pcarann.drawing import BLUE, blank, save, style

    errors = [100 * error for error in (report.begun, *(step.error for step in report.steps))]
    with style():
        figure = blank(4.6, 3.0)
        axis = figure.subplots()
        axis.plot(range(len(errors)), errors, color=BLUE, marker="o", markersize=4)
        axis.set(xlabel=f"stage (0: {report.start})", ylabel="relative error, %", yscale="log")
        axis.set_title("error on samples held out, after each stage")
        axis.xaxis.get_major_locator().set_params(integer=True)
        save(figure, target)


def _samples_of(stored: Any) -> dict[int, Any]:
    """The first, the middle and the last sample of an array by number; none of what is no array of fields."""
    if stored.dtype.kind not in "fiub" or len(stored.shape) < 2 or not np.prod(stored.shape):
        return {}
    last, rest = stored.shape[0] - 1, tuple(map(range, stored.shape[1:]))
    return {row: stored.read((row, *rest)) for row in sorted({0, last // 2, last})}
