"""Every option of a latent model: its ONNX file gives what the model predicts, inside the training data and outside."""

import numpy as np
import pytest
from runtime import assert_same, by_file, by_model, calibrated, moved, pairs, rounded

from conftest import smooth_pairs
from meshes import triangles
from pcarann import Fields, Kernel, PCARaNN
from pcarann.symmetry.generators import Symmetry

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* lies? outside the training data"),
    pytest.mark.filterwarnings("ignore:.* are unlike those of the training"),
]
DOUBLE, SINGLE = 1e-12, 1e-5
METRIC = np.random.default_rng(3).normal(size=(6, 6)) / 3

OPTIONS = {
    "two random layers": {},
    "one member": {"n_members": 1},
    "a linear term": {"linear": True},
    "weights of latents": {"relevance": 0.5},
    "a metric": {"relevance": METRIC, "linear": True},
    "a kernel": {"regressor": "kernel", "linear": True},
    "a short kernel": {"regressor": Kernel(length=0.5), "ridge": 1e-6},
    "a long kernel": {"regressor": Kernel(length=8.0), "ridge": 1e-4, "relevance": 0.5},
    "smoothed inputs": {"fields": Fields(smoothing=0.05)},
    "a quadrature": {"fields": Fields(quadrature=(np.linspace(0.5, 1.5, 24), np.linspace(1.5, 0.5, 18)))},
    "a reflection with a sign": {"symmetry": Symmetry.reflection(-1, sign=(1, -1))},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_file_of_a_model_with_an_option_gives_what_it_predicts(options):
    X, y = pairs()
    model = calibrated(options, X, y)
    asked = moved(X)
    # The posterior variance of a kernel is a difference that loses some digits.
    tolerance = 10 * DOUBLE if "regressor" in options else DOUBLE
    assert_same(by_file(model, asked), by_model(model, asked), tolerance)
    assert_same(by_file(model, asked, single=True), by_model(model, rounded(asked)), SINGLE)


GRIDS = {
    "channels": ((3, 12), (18,), {"fields": Fields(channels=True), "relevance": "channels", "n_components": 4}),
    "a square and its symmetries": ((5, 5), (2, 5, 5), {"symmetry": Symmetry.dihedral()}),
    "shifts, some of them": ((12,), (2, 12), {"symmetry": Symmetry.shifts(-1, stride=3).using(predict=3)}),
    "a period that repeats its first point": ((13,), (13,), {"symmetry": Symmetry.shifts(-1, closed=True, stride=4)}),
    "a smoothed square": ((6, 5), (4, 4), {"fields": Fields(smoothing=0.1)}),
    "a table": ((4,), (18,), {}),
    "one output": ((24,), (1,), {}),
}


@pytest.mark.parametrize(("inputs", "outputs", "options"), GRIDS.values(), ids=GRIDS)
def test_the_file_of_a_model_of_other_grids_gives_what_it_predicts(inputs, outputs, options):
    X, y = pairs(inputs=inputs, outputs=outputs)
    options = {"n_components": (min(6, int(np.prod(inputs))), min(6, int(np.prod(outputs)))), **options}
    model = calibrated(options, X, y)
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), DOUBLE)
    assert_same(by_file(model, asked, single=True), by_model(model, rounded(asked)), SINGLE)


def test_fields_of_any_size_keep_their_units():
    X, y = pairs()
    model = calibrated({}, X * 1e180, y * 1e-170)
    asked = moved(X) * 1e180
    found, wanted = by_file(model, asked), by_model(model, asked)
    assert model.fitted_.units.inputs > 1
    assert found.pop("novelty") == pytest.approx(wanted.pop("novelty"))
    assert_same({n: a * 1e170 for n, a in found.items()}, {n: a * 1e170 for n, a in wanted.items()}, DOUBLE)


def test_what_was_learned_since_the_fit_is_in_the_file():
    X, y = pairs(120)
    model = calibrated({}, X[:90], y[:90])
    model.partial_fit(X[90:], 1.1 * y[90:])  # which moves the intervals too
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), DOUBLE)


ELSEWHERE = {"a grid": (31,), "points": [[0.1], [0.77]]}


@pytest.mark.parametrize("target", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_model_on_another_grid_is_written_as_it_is_there(target):
    X, y = pairs()
    model = calibrated({}, X, y).on(target)
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), DOUBLE)


def test_a_square_with_other_inputs_keeps_its_novelty():
    X, y = pairs(inputs=(6, 5))
    model = calibrated({}, X, y).on((9,), (8, 7))
    asked = moved(pairs(inputs=(8, 7))[0])
    found = by_file(model, asked)
    assert "novelty" in found
    assert_same(found, by_model(model, asked), DOUBLE)


def test_a_line_with_other_inputs_has_no_novelty():
    X, y = smooth_pairs(90)[:]
    model = calibrated({}, X, y).on((20,), (31,))
    asked = moved(smooth_pairs(7, points=31).inputs)
    found = by_file(model, asked)
    assert "novelty" not in found
    assert_same(found, by_model(model, asked), DOUBLE)


def test_fields_on_a_mesh_have_its_quadrature():
    mesh = triangles(5)
    X, y = pairs(inputs=(mesh.nodes,), outputs=(mesh.nodes,))
    model = calibrated({"fields": Fields(mesh=mesh)}, X, y)
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), DOUBLE)


def test_a_model_of_torch_is_written_from_where_it_is():
    torch = pytest.importorskip("torch")
    X, y = pairs()
    model = PCARaNN(n_components=6, widths=(24, 12), n_members=2, scales="energy")
    model.fit(torch.asarray(X[30:]), torch.asarray(y[30:])).calibrate(torch.asarray(X[:30]), torch.asarray(y[:30]))
    asked = moved(X)
    assert_same(by_file(model, asked), by_model(model, asked), DOUBLE)
