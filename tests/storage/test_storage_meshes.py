"""The mesh of stages comes back from a file bit for bit; one that is broken is refused."""

import numpy as np
import pytest

from conftest import rewritten
from meshes import cloud, mixed, quads, sphere, triangles
from pcarann import Channels, Mesh, ModelFileError, Staged, load

pytestmark = pytest.mark.filterwarnings("ignore:.*outside the (range of the )?training data")
MADE = {
    "triangles": triangles,
    "quads": quads,
    "mixed": mixed,
    "surface": lambda: sphere(60),
    "cloud": lambda: cloud(49),
}


def fitted(mesh, **changes):
    a = np.random.default_rng(0).normal(size=(30, mesh.nodes))
    settings = dict(n_stages=2, n_features=8, channels=Channels(reach=2, smoothed=0.1, singles=2)) | changes
    return Staged(grid=mesh, **settings).fit(a, np.tanh(a - mesh.mean(a))), a


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_stages_on_a_mesh_come_back_bit_for_bit(made, tmp_path):
    model, a = fitted(made())
    model.calibrate(a, np.tanh(a))
    model.save(tmp_path / "model.pcarann")
    again = load(tmp_path / "model.pcarann")
    assert again.grid == model.grid
    assert np.array_equal(again.predict(a), model.predict(a))
    assert np.array_equal(again.predict_interval(a).lower, model.predict_interval(a).lower)
    assert str(again.stages_) == str(model.stages_)
    again.save(tmp_path / "again.pcarann")
    assert np.array_equal(load(tmp_path / "again.pcarann").predict(a), model.predict(a))


def test_harmonics_of_the_file_are_those_of_the_fit(tmp_path):
    """A regular square has pairs of equal eigenvalues, of which other machines find other functions."""
    model, a = fitted(quads(6))
    model.save(tmp_path / "model.pcarann")
    wanted = model.fitted_.layout.mesh.functions

    def turned(document, tensors):
        angle = 0.3
        tensors["mesh.functions"][1:3] = (
            np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ tensors["mesh.functions"][1:3]
        )

    assert np.array_equal(load(tmp_path / "model.pcarann").fitted_.layout.mesh.functions, wanted)
    rewritten(tmp_path / "model.pcarann", turned)
    assert not np.allclose(load(tmp_path / "model.pcarann").predict(a), model.predict(a))


def test_components_and_adaptation_are_kept(tmp_path):
    model, a = fitted(Mesh(triangles().points, triangles().cells, components="first"), adaptable=True)
    model.save(tmp_path / "model.pcarann")
    again = load(tmp_path / "model.pcarann")
    assert again.grid.components == "first"
    for one in (model, again):
        one.partial_fit(a[:10], np.tanh(a[:10]))
    assert np.array_equal(again.predict(a), model.predict(a))


def spoiled(name, value):
    def change(document, tensors):
        tensors[name] = value(tensors[name])

    return change


def other(name, value):
    def change(document, tensors):
        document["layout"]["mesh"][name] = value

    return change


def part(array, index, value):
    array = array.copy()
    array[index] = value
    return array


BROKEN = {
    "NaN points": spoiled("mesh.points", lambda points: part(points, 0, np.nan)),
    "another mesh": spoiled("mesh.points", lambda points: points * [1.0, 2.0]),
    "fewer points": spoiled("mesh.points", lambda points: points[:-1]),
    "cells out of range": spoiled("mesh.cells.triangle", lambda cells: part(cells, (0, 0), 10_000)),
    "cells of fractions": spoiled("mesh.cells.triangle", lambda cells: cells.astype(float)),
    "flat cells": spoiled("mesh.cells.triangle", lambda cells: part(cells, (0, 0), cells[0, 1])),
    "infinite functions": spoiled("mesh.functions", lambda functions: part(functions, (0, 0), np.inf)),
    "fewer functions": spoiled("mesh.functions", lambda functions: functions[:-1].copy()),
    "not orthonormal": spoiled("mesh.functions", lambda functions: 1.01 * functions),
    "single precision": spoiled("mesh.values", lambda values: values.astype(np.float32)),
    "values in disorder": spoiled("mesh.values", lambda values: values[::-1].copy()),
    "negative values": spoiled("mesh.values", lambda values: values - 1),
    "cells of no kind": other("cells", ["polygon"]),
    "cells that are not there": other("cells", ["triangle", "quad"]),
    "no components": other("components", "middle"),
    "no mesh": lambda document, tensors: document["layout"].update(mesh=3),
    "other grids": lambda document, tensors: document["layout"].update(input_grid=[80]),
    "other ends": lambda document, tensors: document["layout"].update(boundaries=["periodic"]),
    "mesh left out": lambda document, tensors: tensors.pop("mesh.points"),
    "a grid": lambda document, tensors: document["layout"].pop("mesh"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_broken_mesh_is_refused(change, tmp_path):
    model, _ = fitted(triangles(), n_members=1, n_stages=1)
    model.save(tmp_path / "model.pcarann")
    rewritten(tmp_path / "model.pcarann", change)
    with pytest.raises(ModelFileError, match="does not describe a model"):
        load(tmp_path / "model.pcarann")
