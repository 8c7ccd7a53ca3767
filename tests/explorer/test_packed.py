import numpy as np
import pytest

from browsers import node
from pcarann import PCARaNN
from pcarann.backend.arrays import place_of
from pcarann.explorer.packed import Draw, draws_in, packed
from pcarann.explorer.rounding import rounded
from pcarann.export.graph import Graph, Sheet


def unpacked(constants):
    """Packed constants as a page has them: the bits of their numbers."""
    code = """
        import { unpacked } from "./unpacked.js";
        const found = Object.entries(unpacked(given)).map(([name, one]) => {
          const bits = [...new BigUint64Array(one.data.buffer)].map(String);
          return [name, { ...one, data: bits }];
        });
        console.log(JSON.stringify(Object.fromEntries(found)));
    """
    return {
        name: np.array([int(x) for x in one["data"]], dtype=np.uint64).view(np.float64).reshape(one["shape"])
        for name, one in node(code, constants).items()
    }


def constants_only(**constants):
    return Graph((), (), (), constants)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    return PCARaNN(n_components=5, widths=(30, 20), n_members=3, scales="energy", random_state=2**40 + 7).fit(
        rng.normal(size=(40, 6)), rng.normal(size=(40, 8))
    )


def test_random_weights_are_drawn_again_bit_by_bit(model):
    place = place_of(None)
    layers = [member.features.layers for member in model.ensemble_.members]
    stack = np.stack([np.asarray(one.weights(1, place)).T for one in layers])
    graph = constants_only(W=np.asarray(layers[1].weights(2, place)), stack=stack)
    told = packed(graph, draws_in(model.fitted_))["constants"]
    assert [set(one) for one in told.values()] == [{"kind", "shape", "draws"}] * 2
    for name, values in unpacked(told).items():
        assert np.array_equal(values, graph.constants[name]), name


def test_numbers_are_stored_as_they_are_or_rounded_where_that_is_asked_for():
    rng = np.random.default_rng(1)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e300])
    graph = constants_only(
        odd=odd,
        short=rng.normal(size=(3, 100)),
        middle=np.concatenate([rng.normal(size=40), odd]),
        scalar=np.float64(0.1),
        empty=np.zeros((0, 2)),
        whole=np.array([-3, 7], dtype=np.int64),
        end=np.array(np.iinfo(np.int64).max),
        truth=np.array([[True], [False]]),
    )
    found = unpacked(packed(graph, kinds={"short": "float32", "middle": "float48"})["constants"])
    assert np.array_equal(found["odd"].view(np.uint64), odd.view(np.uint64))
    assert np.array_equal(found["short"], graph.constants["short"].astype(np.float32))
    assert np.array_equal(found["middle"], rounded(graph.constants["middle"], "float48"), equal_nan=True)
    assert np.allclose(found["middle"][:40], graph.constants["middle"][:40], rtol=1e-11, atol=0)
    assert found["scalar"].shape == ()
    assert found["scalar"] == 0.1
    assert found["empty"].shape == (0, 2)
    assert found["whole"].tolist() == [-3, 7]
    assert found["end"] == 2**31 - 1
    assert found["truth"].tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("change", [lambda W: 2 * W, lambda W: W[::-1], lambda W: W[:, :-1]])
def test_what_is_no_draw_is_stored(change):
    draw = Draw(3, (0, 1), (12, 9), -1.0, 1.0)
    values = np.ascontiguousarray(change(draw.values()))
    told = packed(constants_only(W=values), [draw])["constants"]["W"]
    assert told["stored"] == "float64"


def test_a_document_names_ports_and_nodes():
    sheet = Sheet()
    x = sheet.input("inputs", (3,))
    told = packed(sheet.graph({"u": (sheet.transposed(x, (1, 0)), (3,))}))
    assert told["inputs"] == [{"name": "inputs", "shape": (3,)}]
    assert [one["operator"] for one in told["nodes"]] == ["Transpose", "Identity"]
    assert told["nodes"][0]["attributes"] == {"perm": [1, 0]}
