"""Files of stages that see space, with every option, beside what the stages predict."""

import json

import numpy as np
import pytest
from files_beside import SMALL, assert_file_agrees, from_file, waves
from sklearn.linear_model import Ridge

from pcarann import PCARaNN, Staged
from pcarann.export.graphs import graph_of
from pcarann.export.onnx_file import metadata_of
from pcarann.options import Grid
from pcarann.spatial.channels import Channels
from pcarann.symmetry.generators import Symmetry


def fitted(a, u, start="mean", ends=None, seen=None, **options):
    grid = None if ends is None else Grid(ends)
    found = Staged(start, **SMALL | options, grid=grid, channels=seen or Channels()).fit(a[:28], u[:28])
    assert all(chain.stages for chain in found.fitted_.chains)
    return found


CHANNELS = {
    "plain": Channels(),
    "few": Channels(products=False, reach=0, singles=0),
    "smoothed and far": Channels(smoothed=0.3, reach=2, singles=2),
    "inverse Laplacian": Channels(smoothed=np.inf, reach=1, gain=0.5),
}


@pytest.mark.parametrize("seen", CHANNELS)
@pytest.mark.parametrize("ends", ["periodic", "free", "zero"])
def test_a_line_with_all_ends_and_channels(ends, seen):
    a = waves(14) * (np.sin(np.linspace(0, np.pi, 14)) if ends == "zero" else 1.0)
    assert_file_agrees(fitted(a, np.tanh(a), ends=ends, seen=CHANNELS[seen]), {"inputs": a[28:]})


@pytest.mark.parametrize("ends", [("periodic", "periodic"), ("free", "periodic"), ("free", "zero")])
def test_a_plane(ends):
    a = waves(9, 10) * (np.sin(np.linspace(0, np.pi, 10)) if "zero" in ends else 1.0)
    model = fitted(a, np.tanh(a), "input", ends, CHANNELS["smoothed and far"])
    assert_file_agrees(model, {"inputs": a[28:]})


@pytest.mark.filterwarnings("ignore:The model was trained on")
def test_intervals_of_a_calibrated_model():
    a = waves(12)
    model = fitted(a, np.tanh(a), ends="periodic").calibrate(a, np.tanh(a))
    assert_file_agrees(model, {"inputs": a[28:]})


@pytest.mark.parametrize("symmetry", [None, Symmetry.shifts(-1, stride=4, closed=True)])
def test_a_period_that_repeats_its_first_point(symmetry):
    a = waves(13, closed=True)
    model = fitted(a, np.tanh(a), ends="periodic", symmetry=symmetry)
    assert model.fitted_.layout.closed == (True,)
    assert_file_agrees(model, {"inputs": a[28:]})


def test_moves_that_change_signs_and_axes():
    a = waves(9, 9)
    model = fitted(a, a + a**3, "input", "free", symmetry=Symmetry.dihedral() * Symmetry.reflection(sign=-1))
    assert_file_agrees(model, {"inputs": a[28:]})


def test_components_and_axes_that_inputs_lack():
    a = np.stack([waves(12, seed=i) for i in range(3)], axis=1)
    u = np.stack([a[:, 0] * a[:, 1], np.tanh(a[:, 2])], axis=1)
    assert_file_agrees(fitted(a, u), {"inputs": a[28:]})
    history = np.stack([np.tanh(t * a[:, 0]) for t in np.linspace(0.5, 1, 9)], axis=1)
    assert_file_agrees(fitted(a[:, 0], history), {"inputs": a[28:, 0]})


@pytest.mark.filterwarnings("ignore:.* ha(ve|s) values outside the range")
@pytest.mark.parametrize(
    "start",
    [
        PCARaNN(n_components=3, widths=(8, 6), n_members=2, scales="energy"),
        Staged(n_features=4, n_members=1, n_stages=1, channels=Channels()),
    ],
)
def test_stages_after_another_surrogate(start):
    a = waves(12)
    assert_file_agrees(fitted(a, np.tanh(a), start), {"inputs": a[28:]})


def test_stages_after_an_estimator_from_elsewhere_are_refused():
    a = waves(12)
    with pytest.raises(ValueError, match="Stages that start from a Ridge cannot be written"):
        graph_of(fitted(a, np.tanh(a), Ridge()))


@pytest.mark.parametrize("ends", ["periodic", "free"])
def test_another_resolution(ends):
    closed = ends == "free"
    a = waves(15, closed=closed)
    model = fitted(a, np.tanh(a), ends=ends, seen=CHANNELS["smoothed and far"]).on(29 if closed else 30)
    assert_file_agrees(model, {"inputs": waves(29 if closed else 30, count=5, closed=closed)})


def test_one_member_with_features_of_single_precision_is_double_in_a_file():
    a = waves(12)
    model = fitted(a, np.tanh(a), ends="periodic", seen=Channels(single=True), n_members=1)
    assert_file_agrees(model, {"inputs": a[28:]}, tolerance=1e-5)
    assert (from_file(model, {"inputs": a[28:]})["outputs.std"] > 0).all()


def test_channels_are_clipped_outside_the_data():
    a = waves(12)
    model = fitted(a, np.tanh(a), ends="periodic")
    with pytest.warns(UserWarning, match="outside the range"):
        assert_file_agrees(model, {"inputs": 50 * a[28:]})


def test_a_file_tells_the_range_of_the_training_inputs():
    a = np.stack([waves(12), 100 * waves(12, seed=1)], axis=1)
    found = json.loads(metadata_of(fitted(a, np.tanh(a[:, 0])))["pcarann.range"])
    assert np.allclose(found, [a[:28].min(axis=(0, 2)), a[:28].max(axis=(0, 2))])
