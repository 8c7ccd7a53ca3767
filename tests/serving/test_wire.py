import json
import tracemalloc

import numpy as np
import pytest

from pcarann.serving.limits import Refused
from pcarann.serving.wire import DATATYPES, Asked, drafted, parsed, read_request, written

MOST = 1 << 20


def read(document, follow=b""):
    text = json.dumps(document).encode()
    return read_request(text + follow, len(text) if follow else None, MOST)


def one(**parts):
    whole = {"name": "k", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3, 4]} | parts
    return {"inputs": [{key: value for key, value in whole.items() if value is not None}]}


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]], [1.0, 2, 3, 4.0]])
def test_json_is_read_flat_or_nested(data):
    found = read(one(data=data))
    assert found.inputs["k"].dtype == np.float64
    assert found.inputs["k"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("datatype", DATATYPES)
def test_bytes_of_every_datatype_are_read_as_numbers(datatype):
    values = np.array([[1, 2], [3, 4]], dtype=DATATYPES[datatype])
    more = one(datatype=datatype, data=None, parameters={"binary_data_size": values.nbytes})
    assert read(more, values.tobytes()).inputs["k"].tolist() == [[1, 2], [3, 4]]


def test_tensors_follow_in_their_order_and_json_between_them():
    first, second = np.arange(3.0), np.arange(4, dtype=np.float32)
    inputs = [
        {"name": "a", "shape": [3], "datatype": "FP64", "parameters": {"binary_data_size": 24}},
        {"name": "b", "shape": [1], "datatype": "INT8", "data": [7]},
        {"name": "c", "shape": [4], "datatype": "FP32", "parameters": {"binary_data_size": 16}},
    ]
    found = read({"inputs": inputs, "id": "x"}, first.tobytes() + second.tobytes())
    assert {name: values.tolist() for name, values in found.inputs.items()} == {
        "a": [0, 1, 2],
        "b": [7],
        "c": [0, 1, 2, 3],
    }
    assert found.id == "x"


def test_missing_values_are_null():
    assert np.isnan(read(one(data=[1, None, 3, 4])).inputs["k"][0, 1])


def test_single_precision_is_rounded_as_its_bytes_would_be():
    assert read(one(datatype="FP32", data=[0.1, 2, 3, 4])).inputs["k"][0, 0] == np.float32(0.1)


REFUSED = {
    "no inputs": ({}, "inputs must be a list"),
    "inputs that are no objects": ({"inputs": [1]}, "inputs must be a list"),
    "no name": (one(name=None), "An input has no name"),
    "another datatype": (one(datatype="BYTES"), "The datatype of k must be one of FP64"),
    "a datatype that cannot be looked up": (one(datatype=["FP64"]), "The datatype of k must be"),
    "no shape": (one(shape=None), "The shape of k must be a list"),
    "true as a size": (one(shape=[True, 4]), "The shape of k must be a list"),
    "a negative size": (one(shape=[-1, 4]), "nothing in it"),
    "too few values": (one(data=[1, 2, 3]), r"shape \[2, 2\], but its data are of shape \[3\]"),
    "another nesting": (one(shape=[4, 1]) | {}, None),
    "too many values": (one(data=[1, 2, 3, 4, 5]), r"shape \[2, 2\], but its data are 5 numbers"),
    "ragged": (one(data=[[1, 2], [3]]), "different lengths"),
    "texts": (one(data=["1", "2", "3", "4"]), "must be numbers"),
    "truths": (one(data=[True, False, True, True]), "must be numbers"),
    "objects": (one(data=[{}, 2, 3, 4]), "must be numbers"),
    "no data": (one(data=None), "neither data"),
    "a size that does not fit": (one(data=None, parameters={"binary_data_size": 31}), "has 32 bytes, found 31"),
    "a body that ends": (one(data=None, parameters={"binary_data_size": 32}), "ends before the 32 bytes"),
    "parameters that are none": (one(parameters=[]), "not a JSON object"),
    "one output without a name": (one() | {"outputs": [{}]}, "An output has no name"),
    "binary_data of another kind": (one() | {"outputs": [{"name": "u", "parameters": {"binary_data": 1}}]}, "true or"),
    "an id that is no text": (one() | {"id": 3}, "id must be a text"),
    "an input twice": ({"inputs": one()["inputs"] * 2}, "sent twice"),
    "a number that is too large": (one(datatype="INT8", data=[1, 300, 3, 4]), "numbers that are none of INT8"),
    "a number below 0": (one(datatype="UINT8", data=[1, -1, 3, 4]), "none of UINT8"),
    "a part of a number": (one(datatype="INT64", data=[1, 1.5, 3, 4]), "none of INT64"),
    "a missing whole number": (one(datatype="INT8", data=[1, None, 3, 4]), "none of INT8"),
    "a number beyond single precision": (one(datatype="FP32", data=[1, 1e300, 3, 4]), "none of FP32"),
    "a number beyond all": (one(data=[1, 10**400, 3, 4]), "too large"),
    "a shape that no body fills": (one(shape=[10**30, 4]), "data are fewer"),
    "bytes that no body has": (one(shape=[10**30], data=None, parameters={"binary_data_size": 8}), "found 8"),
    "many tensors": ({"inputs": one()["inputs"] * 300}, "300 tensors"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(case):
    document, why = case
    if why is None:
        assert read(document).inputs["k"].shape == (4, 1)
        return
    with pytest.raises(Refused, match=why) as found:
        read(document)
    assert found.value.status == 400


def test_a_long_text_among_short_ones_takes_no_memory():
    document = one(shape=[2000, 1], data=["x" * 20_000, *["x"] * 1999])
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="must be numbers"):
            read(document)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # as long as the longest, they would take 160 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"inputs": [{"a": ' + b"9" * 10_000 + b"}]}", "whole number of too many digits"),
        (b"[]", "JSON object"),
        (b'{"inputs": NaN}', "NaN is no number"),
    ],
)
def test_bytes_that_are_no_request_are_refused(body, why):
    with pytest.raises(Refused, match=why):
        read_request(body, None, MOST)


def test_json_has_a_largest_size():
    assert parsed(b'{"a": 1}', 8) == {"a": 1}
    with pytest.raises(Refused, match="8 bytes, more than 7") as found:
        parsed(b'{"a": 1}', 7)
    assert found.value.status == 413


def test_what_tensors_will_take_is_known_before_they_are_read():
    text = json.dumps(one(shape=[500, 2], datatype="INT8", data=None, parameters={"binary_data_size": 1000})).encode()
    draft = drafted(text + bytes(1000), len(text), MOST)
    assert (draft.size, draft.outline["k"].shape) == (8000, (500, 2))
    assert draft.request().inputs["k"].nbytes == 8000


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 10_000])
def test_long_lists_are_written_in_pieces(count):
    values = np.random.default_rng(0).normal(size=(count, 1))
    text, _ = written({"id": "x"}, {"u": values}, {"u": False}, "FP64")
    assert json.loads(b"".join(text))["outputs"][0]["data"] == values[:, 0].tolist()
    assert max(map(len, text)) < 26 * 4096


def test_lengths_that_do_not_fit_the_body_are_refused():
    text = json.dumps(one()).encode()
    with pytest.raises(Refused, match="Content-Length is 999"):
        read_request(text, 999, MOST)
    with pytest.raises(Refused, match="3 bytes follow"):
        read_request(text + b"abc", len(text), MOST)
    with pytest.raises(Refused) as found:
        read_request(text, None, 10)
    assert found.value.status == 413


@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
def test_an_answer_is_read_back(datatype):
    u, v = np.array([[0.1, 2.0]]), np.array([1.0, np.inf])
    text, follow = written({"id": "x"}, {"u": u, "v": v}, {"u": True, "v": False}, datatype)
    assert json.loads(b"".join(text))["id"] == "x"
    first, second = json.loads(b"".join(text))["outputs"]
    assert first["parameters"]["binary_data_size"] == len(follow[0])
    assert np.array_equal(np.frombuffer(follow[0], DATATYPES[datatype]), u[0].astype(DATATYPES[datatype]))
    assert second["data"] == [1.0, None]


def test_what_is_asked_for_is_read():
    outputs = [{"name": "u"}, {"name": "v", "parameters": {"binary_data": True}}]
    assert read(one() | {"outputs": outputs}).outputs == (Asked("u"), Asked("v", True))


def test_a_whole_number_of_many_digits_is_called_so():
    text = b'{"inputs":[{"name":"a","shape":[1,1],"datatype":"FP64","data":[1' + b"0" * 4000 + b"]}]}"
    with pytest.raises(Refused, match="too large"):
        read_request(text, None, 1 << 20)
