import numpy as np
import pytest

from pcarann import Marching, PCARaNN
from pcarann.export.signature import NOVELTY, OF_INPUTS, OF_OUTPUTS, Signature, Tensor


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def small(X, y):
    return PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(X, y)


def test_one_array_without_a_name(rng):
    model = small(rng.normal(size=(12, 3, 4)), rng.normal(size=(12, 5)))
    found = Signature.of(model)
    assert [(one.name, one.shape) for one in found.inputs + found.outputs] == [("inputs", (3, 4)), ("outputs", (5,))]
    X = rng.normal(size=(2, 3, 4))
    assert found.opened({"inputs": X})[0] is X
    assert found.by_name(X, ".std") == {"outputs.std": X}


def test_parts_keep_their_names_and_an_input_gives_way_to_an_output(rng):
    X = {"k": rng.normal(size=(12, 6)), "u": rng.normal(size=12)}
    model = small(X, {"u": rng.normal(size=(12, 5)), "v": rng.normal(size=(12, 4))})
    found = Signature.of(model)
    assert [(one.name, one.shape) for one in found.inputs] == [("k", (6,)), ("u.input", ())]
    assert [one.name for one in found.outputs] == ["u", "v"]
    opened, how = found.opened({"k": X["k"], "u.input": X["u"]})
    assert (set(opened), how) == ({"k", "u"}, {})
    predicted = model.predict(opened)
    assert {name: part.shape for name, part in found.by_name(predicted).items()} == {"u": (12, 5), "v": (12, 4)}


TAKEN = {
    "of an output": (["p"], ["u", "u.std"], ["p"], ["u", "u.std.output"]),
    "of a later output": (["p"], ["u.std", "u"], ["p"], ["u.std", "u.output"]),
    "an input of an output": (["p", "u.std", "u.jvp"], ["u"], ["p", "u.std.input", "u.jvp.input"], ["u"]),
    "of an input": (["p", "p.tangent"], ["u"], ["p", "p.tangent.input"], ["u"]),
    "of the model": (["novelty"], ["u"], ["novelty.input"], ["u"]),
    "a name that another would get": (["u", "u.input"], ["u"], ["u.input.input", "u.input"], ["u"]),
    "twice": (["u.input.input", "u", "u.input"], ["u"], ["u.input.input", "u.input.input.input", "u.input"], ["u"]),
}


@pytest.mark.parametrize(("inputs", "outputs", "inputs_then", "outputs_then"), TAKEN.values(), ids=TAKEN)
def test_no_name_is_there_twice(rng, inputs, outputs, inputs_then, outputs_then):
    X, y = ({name: rng.normal(size=(12, 3)) for name in names} for names in (inputs, outputs))
    found = Signature.of(small(X, y))
    assert [one.name for one in found.inputs] == inputs_then
    assert [one.name for one in found.outputs] == outputs_then
    sides = ((found.inputs, OF_INPUTS), (found.outputs, OF_OUTPUTS))
    names = [NOVELTY, *(one.name + end for tensors, ends in sides for one in tensors for end in ends)]
    assert len(set(names)) == len(names)
    assert found.opened({one.name: X[one.part] for one in found.inputs})[0] == X
    assert {one.name: one.known.get("part", one.name) for one in found.inputs} == dict(
        zip(inputs_then, inputs, strict=True)
    )


def test_a_size_is_counted_without_end():
    assert Tensor("u", (2**40, 2**40)).size == 2**80


def test_other_inputs_are_refused_by_name(rng):
    found = Signature.of(small(rng.normal(size=(12, 3)), rng.normal(size=(12, 5))))
    with pytest.raises(ValueError, match="inputs missing"):
        found.opened({"a": np.zeros((1, 3))})
    with pytest.raises(ValueError, match=r"inputs has shape \(1, 4\), expected"):
        found.opened({"inputs": np.zeros((1, 4))})


def test_labels_tell_coordinates_and_units(rng):
    xarray = pytest.importorskip("xarray")
    x = np.linspace(0, 1, 5)
    y = xarray.DataArray(rng.normal(size=(12, 5)), dims=("sample", "x"), coords={"x": x}, attrs={"units": "K"})
    model = small(rng.normal(size=(12, 3)), y)
    (found,) = Signature.of(model).outputs
    assert (found.dims, found.attrs) == (("x",), {"units": "K"})
    assert np.array_equal(found.coords["x"], x)


def flow(rng, controls=None):
    waves = np.cos(rng.uniform(0, 6, (20, 1, 1)) + 0.3 * np.arange(6)[:, None] + np.linspace(0, 6, 8))
    step = PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy")
    return Marching(step, step=2, choose=False).fit(waves[:, :3], waves[:, 3:], controls), waves


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_flow_takes_snapshots_and_controls_by_name_and_predicts_so_many_steps(rng):
    controls = rng.normal(size=(20, 2))
    model, waves = flow(rng, controls)
    found = Signature.of(model, steps=4)
    assert [(one.name, one.shape) for one in found.inputs] == [("inputs", (2, 8)), ("controls", (4, 2))]
    assert [(one.name, one.shape) for one in found.outputs] == [("outputs", (4, 8))]
    along = np.repeat(controls[:, None, :], 4, axis=1)
    X, how = found.opened({"inputs": waves[:, :3], "controls": along})
    wanted = model.predict(waves[:, :3], steps=4, controls=controls)
    assert np.array_equal(model.predict(X, **how), wanted)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_flow_without_controls_predicts_its_window_and_refuses_other_shapes(rng):
    found = Signature.of(flow(rng)[0])
    assert (found.steps, [one.name for one in found.inputs]) == (3, ["inputs"])
    for shape in ((20, 1, 8), (20, 2, 9), (20,)):
        with pytest.raises(ValueError, match=r"inputs has shape .* or more snapshots before"):
            found.opened({"inputs": np.zeros(shape)})


def test_steps_of_what_is_no_flow_are_refused(rng):
    with pytest.raises(ValueError, match="the model is a PCARaNN"):
        Signature.of(small(rng.normal(size=(12, 3)), rng.normal(size=(12, 5))), steps=3)
