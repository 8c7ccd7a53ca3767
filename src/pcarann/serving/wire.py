"""Requests and answers of the Open Inference Protocol as bytes: JSON, and tensors as they lie in memory.

    {"inputs": [{"name": "inputs", "shape": [1, 3], "datatype": "FP64", "data": [0.1, 0.2, 0.3]}]}

A tensor with `"parameters": {"binary_data_size": n}` has no data in the JSON: its n bytes, little-endian, row after
row, follow the JSON, whose own length then stands in the header Inference-Header-Content-Length. Nothing of a
request is executed or unpickled, and what does not fit is refused by name.

A request is read in two steps, since a tensor may take many times the bytes that were sent: the `Draft` knows shapes
and sizes, and is filled when these were admitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcarann.serving.limits import Refused
from pcarann.validation import unstopped

__all__ = ["DATATYPES", "Asked", "Draft", "Request", "drafted", "listed", "parsed", "read_request", "written"]

Values = np.ndarray[Any, np.dtype[Any]]

DATATYPES = {
    "FP64": "<f8",
    "FP32": "<f4",
    "FP16": "<f2",
    "INT64": "<i8",
    "INT32": "<i4",
    "INT16": "<i2",
    "INT8": "<i1",
    "UINT64": "<u8",
    "UINT32": "<u4",
    "UINT16": "<u2",
    "UINT8": "<u1",
}
"""Of inputs; outputs are FP64 or FP32"""
_MOST_TENSORS, _MOST_AXES = 256, 32
_LEAVES = {int, float, bool, type(None)}  # what may stand in lists of JSON data
_AT_ONCE = 4096  # numbers that are written as text before other threads have a turn


@dataclass(frozen=True)
class Asked:
    """An output that is asked for."""

    name: str
    binary: bool | None = None
    """Whether as bytes; None where the request does not say"""


@dataclass(frozen=True, eq=False)
class Request:
    """What was sent."""

    inputs: Mapping[str, Values]
    """By name, in float64"""
    outputs: tuple[Asked, ...] = ()
    """None: the predicted fields"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, eq=False)
class Draft:
    """What was sent, its tensors not yet read."""

    tensors: Mapping[str, Callable[[], Values]]
    shapes: Mapping[str, tuple[int, ...]]
    outputs: tuple[Asked, ...]
    parameters: Mapping[str, Any]
    id: str | None

    @property
    def size(self) -> int:
        """Bytes that the tensors will take"""
        return 8 * sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def outline(self) -> dict[str, Values]:
        """Tensors of these shapes, which take no memory"""
        return {name: np.broadcast_to(0.0, shape) for name, shape in self.shapes.items()}

    def request(self) -> Request:
        """All of it, or a refusal."""
        return Request({name: read() for name, read in self.tensors.items()}, self.outputs, self.parameters, self.id)


def read_request(body: bytes, json_bytes: int | None, most_json: int) -> Request:
    """The request of a body, of which so many bytes are JSON, all of them for None; or a refusal."""
    return drafted(body, json_bytes, most_json).request()


def drafted(body: bytes, json_bytes: int | None, most_json: int) -> Draft:
    """The same, its tensors not yet read."""
    length = len(body) if json_bytes is None else json_bytes
    if not 0 <= length <= len(body):
        raise Refused(400, f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes.")
    document = parsed(body[:length], most_json)
    tensors: dict[str, Callable[[], Values]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    at = length
    for one in _objects(document, "inputs", required=True):
        name = _text(one, "name", "An input")
        if name in tensors:
            raise Refused(400, f"The input {_shown(name)} was sent twice.")
        tensors[name], shapes[name], at = _tensor(name, one, body, at)
    if at != len(body):
        raise Refused(400, f"{len(body) - at} bytes follow the tensors of the body: nothing says what they are.")
    outputs = tuple(_asked(one) for one in _objects(document, "outputs"))
    found = document.get("id")
    if found is not None and not isinstance(found, str):
        raise Refused(400, "id must be a text.")
    return Draft(tensors, shapes, outputs, _object(document, "parameters", "The request"), found)


def written(
    about: Mapping[str, Any], arrays: Mapping[str, Values], binary: Mapping[str, bool], datatype: str
) -> tuple[list[bytes], list[memoryview]]:
    """The JSON of an answer, in pieces, and the bytes of tensors that follow it."""
    text, follow = [_compact(about)[:-1] + b',"outputs":['], []
    for n, (name, array) in enumerate(arrays.items()):
        values = np.ascontiguousarray(array, dtype=DATATYPES[datatype])
        one: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        text.append(b"," * bool(n))
        if binary[name]:
            follow.append(values.reshape(-1).view(np.uint8).data)
            text.append(_compact({**one, "parameters": {"binary_data_size": values.nbytes}}))
        else:
            text += [_compact(one)[:-1], b',"data":', *listed(values), b"}"]
    return [*text, b"]}"], follow


def listed(values: Values) -> list[bytes]:
    """All values as a list in JSON, in pieces; it has no word for what is no finite number, so that this is null."""
    flat, found = values.reshape(-1), [b"["]
    for at in range(0, len(flat), _AT_ONCE):
        some = flat[at : at + _AT_ONCE]
        numbers: list[Any] = some.tolist()
        if not np.isfinite(some).all():
            numbers = [value if math.isfinite(value) else None for value in numbers]
        found.append(b"," * bool(at) + _compact(numbers)[1:-1])
    return [*found, b"]"]


def _compact(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def parsed(text: bytes, most: int) -> dict[str, Any]:
    """The JSON object in a text of so many bytes at most, or a refusal."""
    if len(text) > most:
        raise Refused(413, f"The JSON has {len(text)} bytes, more than {most}: send less, or tensors as binary data.")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise Refused(400, "The JSON of the request is nested too deeply.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"The request is not JSON: {unstopped(error)}.") from None
    except ValueError:
        raise Refused(400, "The request has a whole number of too many digits.") from None
    if not isinstance(document, dict):
        raise Refused(400, "The request must be a JSON object.")
    return document


def _no_constant(name: str) -> Any:
    raise Refused(400, f"The request is not JSON: {name} is no number there.")


def _objects(document: Mapping[str, Any], key: str, required: bool = False) -> Sequence[dict[str, Any]]:
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found) or (required and not found):
        raise Refused(400, f"{key} must be a list of tensors, each a JSON object.")
    if len(found) > _MOST_TENSORS:
        raise Refused(400, f"{key} has {len(found)} tensors, more than {_MOST_TENSORS}.")
    return found


def _object(document: Mapping[str, Any], key: str, owner: str) -> dict[str, Any]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise Refused(400, f"{owner} has {key} that are not a JSON object.")
    return found


def _text(document: Mapping[str, Any], key: str, owner: str) -> str:
    found = document.get(key)
    if not isinstance(found, str):
        raise Refused(400, f"{owner} has no {key}.")
    return found


def _asked(document: dict[str, Any]) -> Asked:
    name = _text(document, "name", "An output")
    binary = _object(document, "parameters", f"The output {name}").get("binary_data")
    if binary is not None and not isinstance(binary, bool):
        raise Refused(400, f"binary_data of the output {name} must be true or false.")
    return Asked(name, binary)


def _tensor(
    name: str, document: dict[str, Any], body: bytes, at: int
) -> tuple[Callable[[], Values], tuple[int, ...], int]:
    """How a tensor is read, its shape, and where the next one begins among those that follow the JSON."""
    datatype, shape = document.get("datatype"), document.get("shape")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise Refused(400, f"The datatype of {name} must be one of {', '.join(DATATYPES)}, found {_shown(datatype)}.")
    if not isinstance(shape, list) or not 0 < len(shape) <= _MOST_AXES or not all(type(n) is int for n in shape):
        raise Refused(400, f"The shape of {name} must be a list of whole numbers, the number of samples first.")
    if min(shape) < 1:
        raise Refused(400, f"The shape of {name} is {shape}: there is nothing in it.")
    size = _object(document, "parameters", f"The input {name}").get("binary_data_size")
    if size is None:
        data = document.get("data")
        if not isinstance(data, list):
            raise Refused(400, f"{name} has neither data, a list of numbers, nor a binary_data_size.")
        if math.prod(shape) > len(body):  # a number takes a byte at least
            raise Refused(400, f"The shape of {name} is {_shown(shape)}, but its data are fewer.")
        return (lambda: _from_json(name, data, shape, datatype)), tuple(shape), at
    wanted = math.prod(shape) * np.dtype(DATATYPES[datatype]).itemsize
    if type(size) is not int or size != wanted:
        found = f"{name} of shape {_shown(shape)} and datatype {datatype}"
        raise Refused(400, f"{found} has {_shown(wanted)} bytes, found {_shown(size)}.")
    if at + size > len(body):
        raise Refused(400, f"The body ends before the {size} bytes of {name}.")
    count = math.prod(shape)
    return (
        lambda: np.frombuffer(body, DATATYPES[datatype], count, at).reshape(shape).astype(np.float64),
        tuple(shape),
        at + size,
    )


def _from_json(name: str, data: list[Any], shape: list[int], datatype: str) -> Values:
    """Numbers in a list, or in lists of lists; null is a value that is missing."""
    _refuse_others(name, data, shape)
    try:
        found = np.asarray(data)
        if found.dtype == object and all(one is None or type(one) in (int, float) for one in found.flat):
            found = found.astype(np.float64)
    except OverflowError:
        raise Refused(400, f"The data of {name} have a whole number that is too large for a float.") from None
    except (ValueError, RecursionError):
        raise Refused(400, f"The data of {name} are lists of different lengths, or no numbers.") from None
    if found.dtype.kind not in "fiu":
        raise Refused(400, f"The data of {name} must be numbers.")
    if found.size != math.prod(shape) or (found.ndim > 1 and list(found.shape) != shape):
        raise Refused(400, f"{name} has the shape {shape}, but its data are of shape {list(found.shape)}.")
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = found.astype(DATATYPES[datatype])
        missing = np.isnan(found) if found.dtype.kind == "f" and rounded.dtype.kind == "f" else np.zeros((), bool)
        fits = np.isfinite(rounded) if rounded.dtype.kind == "f" else rounded == found
    if not (fits | missing).all():
        raise Refused(400, f"The data of {name} have numbers that are none of {datatype}.")
    return rounded.astype(np.float64).reshape(shape)


def _refuse_others(name: str, data: list[Any], shape: list[int]) -> None:
    """Refuse what is no number, and more than a shape has: NumPy would make every text as long as the longest."""
    count, lists = 0, [data]
    while lists:
        within = lists.pop()
        kinds = set(map(type, within))
        if not kinds <= _LEAVES | {list}:
            raise Refused(400, f"The data of {name} must be numbers.")
        deeper = [one for one in within if type(one) is list] if list in kinds else []
        count += len(within) - len(deeper)
        lists += deeper
    if count > math.prod(shape):
        raise Refused(400, f"{name} has the shape {shape}, but its data are {count} numbers.")


def _shown(value: Any) -> str:
    """As it is said in a refusal, shortened."""
    return repr(value)[:40]
