"""Parts of stages by name in a file: numbers, other grids, meshes, points without values."""

import numpy as np
import pytest
from files_beside import SMALL, assert_file_agrees, waves

from pcarann import Staged
from pcarann.mesh.mesh import Mesh
from pcarann.spatial.channels import Channels


def part(arrays, rows):
    return {name: array[rows] for name, array in arrays.items()}


def checked(X, y, grid=None, calibrated=False):
    train = part(X, slice(28)), part(y, slice(28)) if isinstance(y, dict) else y[:28]
    model = Staged("mean", **SMALL, grid=grid, channels=Channels()).fit(*train)
    assert model.fitted_.chains[0].stages
    if calibrated:
        model.calibrate(*train)
    assert_file_agrees(model, part(X, slice(28, None)))


@pytest.mark.filterwarnings("ignore:The model was trained on")
@pytest.mark.parametrize("calibrated", [False, True])
def test_numbers_components_and_points_without_values(calibrated):
    a, strength = waves(16), np.random.default_rng(0).uniform(0.5, 2, 36)
    X = {"a": a, "strength": strength, "pair": np.stack([a**2, np.sin(a)], axis=1)}
    holes = np.isin(np.arange(16), [3, 4])
    y = {"u": 50 * np.tanh(a) * strength[:, None], "v": np.where(holes, np.nan, a**2)}
    checked(X, y, calibrated=calibrated)


def test_fields_on_other_grids_and_lines_are_brought_onto_that_of_the_outputs():
    a, line, fine = waves(9, 10), waves(10, seed=1), waves(17, 23, seed=2)
    checked({"a": a, "line": line, "fine": fine}, np.tanh(a) + 0.1 * line[:, None, :])


def test_parts_on_a_mesh():
    mesh = Mesh(np.random.default_rng(1).uniform(0, 1, (50, 2)))
    rng = np.random.default_rng(2)
    k = sum(rng.normal(size=(36, 1)) * np.cos(j * mesh.points[:, 0] + j * mesh.points[:, 1]) for j in (1, 2, 3))
    holes = np.arange(50) == 7
    X = {"k": k, "numbers": rng.uniform(0.5, 1, (36, 2))}
    y = {"u": np.where(holes, np.nan, np.tanh(k)), "pair": np.stack([k, k**2], axis=2) * X["numbers"][:, None, :]}
    checked(X, y, mesh)


def test_one_field_on_a_mesh_has_no_name():
    mesh = Mesh(np.random.default_rng(1).uniform(0, 1, (50, 2)))
    k = np.cos(np.random.default_rng(2).uniform(0, 3, (36, 1)) * mesh.points[:, 0])
    model = Staged("mean", **SMALL, grid=mesh, channels=Channels(smoothed=0.3, reach=2)).fit(
        k[:28], 30 * np.tanh(k[:28])
    )
    assert_file_agrees(model, {"inputs": k[28:]})
