"""Files of roll-outs beside the roll-outs themselves."""

import numpy as np
import pytest
from files_beside import assert_file_agrees, from_file, predicted
from runtime import assert_same, rounded
from sklearn.exceptions import NotFittedError

from pcarann import Marching, PCARaNN, Staged
from pcarann.export.flow import write_step
from pcarann.export.graphs import graph_of
from pcarann.mesh.mesh import Mesh
from pcarann.options import Grid
from pcarann.spatial.channels import Channels

pytestmark = [pytest.mark.filterwarnings("ignore:At step"), pytest.mark.filterwarnings("ignore:the roll-outs")]

X = np.linspace(0, 2 * np.pi, 12, endpoint=False)
RNG = np.random.default_rng(0)
ANGLES = RNG.uniform(0, 6, (40, 1, 1)) + 0.2 * np.arange(5)[:, None]
FLOW = np.cos(ANGLES + X) + 0.3 * np.sin(2 * ANGLES + 2 * X) * RNG.uniform(0.5, 1, (40, 1, 1))
FLOW += 0.01 * RNG.normal(size=FLOW.shape)
STEPS = {
    "latents": PCARaNN(n_components=5, widths=(16, 8), n_members=2, scales="energy"),
    "stages": Staged(n_features=10, n_members=2, n_stages=2, grid=Grid("periodic"), channels=Channels()),
}


def rolling(step, together=1, flow=FLOW, controls=None):
    model = Marching(STEPS[step], step=together, choose=False)
    return model.fit(flow[:20, :2], flow[:20, 2:], None if controls is None else controls[:20])


@pytest.fixture(scope="module", params=STEPS)
def model(request):
    return rolling(request.param, 2).calibrate(FLOW[20:, :2], FLOW[20:, 2:])


def test_a_window_with_intervals(model):
    assert_file_agrees(model, {"inputs": FLOW[30:, :2]})


def test_values_are_held_and_what_leaves_the_data_widens(model):
    assert_file_agrees(model, {"inputs": -4 * FLOW[30:34, :2]}, tolerance=1e-10)  # δ is a difference of latents


def test_other_steps_than_those_of_the_fit(model):
    assert_file_agrees(model, {"inputs": FLOW[30:, :2]}, steps=2)
    assert "outputs.lower" not in from_file(model, {"inputs": FLOW[30:, :2]}, steps=5)
    with pytest.raises(NotFittedError, match="calibrated for fewer steps"):
        graph_of(model, 0.1, steps=5)


KINDS = {"a kernel": {"regressor": "kernel"}, "wide layers": {"widths": (100, 50), "ridge": 1e-6}}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_intervals_in_single_precision_are_as_wide_where_members_hardly_differ(options):
    step = PCARaNN(n_components=5, n_members=2, **options)
    model = Marching(step, step=1, choose=False).fit(FLOW[:20, :2], FLOW[:20, 2:])
    model.calibrate(FLOW[20:, :2], FLOW[20:, 2:])
    given = {"inputs": rounded(FLOW[20:, 1:2])}
    found, wanted = from_file(model, given, single=True), predicted(model, given)
    widths = [(one["outputs.upper"].astype(float) - one["outputs.lower"]) / 2 for one in (found, wanted)]
    ends = 2 * np.finfo(np.float32).eps * np.abs(wanted["outputs"]).max()  # what single precision leaves of these
    assert np.all(np.abs(widths[0] - widths[1]) <= 1e-5 * widths[1] + ends)
    spread = wanted["outputs.std"]
    assert np.all(np.abs(found["outputs.std"] - spread) <= 1e-5 * spread + 1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_controls_act_at_each_step(step):
    controls = RNG.uniform(0.5, 1, (40, 2))
    model = rolling(step, flow=FLOW * controls[:, :1, None], controls=controls)
    along = RNG.uniform(0.5, 1, (10, 3, 2))
    assert_file_agrees(model, {"inputs": FLOW[30:, 1:2], "controls": along})


def test_p_values_are_those_of_each_step():
    model, given = rolling("latents"), 1.3 * FLOW[30:, 1:2]
    found = from_file(model, {"inputs": given})["novelty"]
    assert_same({"novelty": found}, {"novelty": model.novelty(given).p_value}, 1e-9)


def test_numbers_of_a_step_are_in_a_file_once():
    sizes = [sum(one.nbytes for one in graph_of(rolling("stages"), steps=n).constants.values()) for n in (2, 9)]
    assert sizes[1] < 1.1 * sizes[0]


def test_steps_of_a_kind_that_has_no_graph_are_refused():
    flow = rolling("stages").fitted_
    with pytest.raises(ValueError, match="A flow of str cannot be written as a graph"):
        write_step("a step", 0)
    assert [port.shape for port in write_step(flow.model, 0).outputs] == [(12,)]


def test_a_flow_on_a_mesh_is_its_step_in_any_unit():
    mesh = Mesh(np.random.default_rng(1).uniform(0, 1, (40, 2)))
    flow = 40 * np.cos(ANGLES + 5 * mesh.points[:, 0])
    step = Staged("input", n_features=10, n_members=2, n_stages=1, grid=mesh, channels=Channels())
    model = Marching(step, choose=False).fit(flow[:30, :1], flow[:30, 1:])
    assert np.allclose(model.predict(flow[30:, :1], steps=1)[:, 0], model.model_.predict(flow[30:, 0]), rtol=1e-12)
    assert_file_agrees(model, {"inputs": flow[30:, :1]})
