"""Model files with something changed in them, loaded and asked for predictions.

Bytes are changed without the digest being computed again: such a file must be refused. Documents, headers and arrays
are changed as an attacker would, who seals the file again: such a file must be refused, or be a model that predicts
finite numbers, refuses to predict, or is the one that it was.
"""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from nasty import BYTES, changed_bytes, changed_document, changed_tensors, deep
from workers import memory_beyond, ran_out_of_memory

from pcarann import Marching, ModelFileError, PCARaNN, Staged, load
from small_models import MAKERS, PAIRS, A, saved

__all__ = ["STRUCTURE", "ModelFiles", "sealed"]

TOLERANCE = 1e-9  # of predictions, relative to the largest: what files promise
_MARK, _BLANK = b'"sha256":"', b"0" * 64
_NAMES = {"float": "F", "int": "I", "uint": "U"}


@dataclass(frozen=True)
class _Source:
    """A sound file, taken apart, and what its model predicts."""

    content: bytes
    text: str
    tensors: dict[str, np.ndarray]
    asked: Any
    answer: np.ndarray


@dataclass(frozen=True)
class ModelFiles:
    """Cases of model files of every kind."""

    sources: dict[str, _Source]
    seed: int = 0

    @classmethod
    def made(cls, folder: Path, seed: int = 0) -> ModelFiles:
        """From a small model of every kind."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls({name: _source(saved(folder, name)) for name in MAKERS}, seed)

    def plan(self, index: int) -> tuple[str, str]:
        """The kind of model, and the way in which its file is changed."""
        draw = random.Random(f"{self.seed} {index}")
        ways = BYTES if draw.random() < 0.3 else STRUCTURE
        return draw.choice(sorted(self.sources)), draw.choice(list(ways))

    def content(self, index: int) -> bytes:
        """The file of a case."""
        subject, way = self.plan(index)
        draw, source = random.Random(f"{self.seed} {index} content"), self.sources[subject]
        if way in BYTES:
            return changed_bytes(source.content, way, draw, self.sources[draw.choice(sorted(self.sources))].content)
        return STRUCTURE[way](source, draw)

    def run(self, index: int, folder: Path) -> tuple[str, str]:
        """Load the file of a case, predict, and compare."""
        (subject, way), content, path = self.plan(index), self.content(index), folder / "case"
        source, changed = self.sources[subject], way in BYTES
        path.write_bytes(content)
        allowed = 4 * len(content) + 256_000_000
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with memory_beyond(allowed):
                    model = load(path)
            except ModelFileError as error:
                return ("beyond memory" if ran_out_of_memory(error) else "refused"), str(error)
            except Exception as error:
                if isinstance(error, ValueError) and "hand them to load" in str(error):  # a file may want functions
                    return "refused", str(error)
                return _other(error, "load")
            if changed and content != source.content:
                return "damage not noticed", ""
            # What stages make while they predict may be four times as much: SECURITY.md.
            try:
                with memory_beyond(4 * allowed):
                    answer = _joined(model.predict(source.asked))
            except ValueError as error:
                wrong = ran_out_of_memory(error) or changed
                return ("sound model does not predict" if wrong else "refused by predict"), str(error)
            except Exception as error:
                return _other(error, "predict")
        return _compared(answer, source.answer, changed), ""


def _joined(answer: Any) -> np.ndarray:
    """What was predicted as one array: a file may name parts."""
    parts = answer.values() if isinstance(answer, dict) else [answer]
    return np.concatenate([np.asarray(part).reshape(-1) for part in parts])


def _other(error: Exception, where: str) -> tuple[str, str]:
    outcome = "beyond memory" if ran_out_of_memory(error) else f"{type(error).__name__} in {where}"
    return outcome, f"{type(error).__name__}: {error}"


def _compared(answer: np.ndarray, expected: np.ndarray, stale: bool) -> str:
    if not np.isfinite(answer).all():
        return "prediction not finite"
    same = answer.shape == expected.shape and np.abs(answer - expected).max() <= TOLERANCE * np.abs(expected).max()
    return "unchanged" if same else "wrong prediction" if stale else "another model"


def _source(path: Path) -> _Source:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = header.pop("__metadata__")["pcarann"]
    tensors = {}
    for name, said in header.items():
        begin, end = said["data_offsets"]
        dtype = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "BOOL": "?"}[said["dtype"]]
        tensors[name] = np.frombuffer(content[8 + length + begin : 8 + length + end], dtype).reshape(said["shape"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load(path)
        asked = _asked(path.name, model)
        return _Source(content, text, tensors, asked, _joined(model.predict(asked)))


def _asked(name: str, model: PCARaNN | Staged | Marching) -> Any:
    """Inputs of two samples."""
    if name == "parts":
        return {"a": PAIRS.inputs[:2], "n": A[:2, 0]}
    if isinstance(model, Marching):
        return A[:2, None]
    return A[:2] if isinstance(model, Staged) else PAIRS.inputs[:2]


# Files as attackers write them


def _header(tensors: dict[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    entries, data = {}, b""
    for name, array in tensors.items():
        kind = array.dtype.name.rstrip("0123456789")
        dtype = "BOOL" if kind == "bool" else f"{_NAMES[kind]}{8 * array.dtype.itemsize}"
        raw = np.ascontiguousarray(array).tobytes()
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return entries, data


def _text(entries: dict[str, Any], document: str) -> bytes:
    metadata = {"sha256": _BLANK.decode(), "pcarann": document}
    return json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()


def sealed(text: bytes, data: bytes, length: int | None = None) -> bytes:
    """A file with a sound digest, whatever its header and its data are."""
    blank = (len(text) if length is None else length).to_bytes(8, "little") + text + data
    at = blank.find(_MARK) + len(_MARK)
    digest = hashlib.sha256(blank[:at] + _BLANK + blank[at + 64 :]).hexdigest().encode()
    return blank[:at] + digest + blank[at + 64 :] if at >= len(_MARK) else blank


def _document(source: _Source, draw: random.Random) -> bytes:
    document = json.loads(source.text)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        document = changed_document(document, draw)
    entries, data = _header(source.tensors)
    return sealed(_text(entries, _dumped(document)), data)


def _arrays(source: _Source, draw: random.Random) -> bytes:
    tensors = dict(source.tensors)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if tensors:
            changed_tensors(tensors, draw)
    entries, data = _header(tensors)
    return sealed(_text(entries, source.text), data)


def _both(source: _Source, draw: random.Random) -> bytes:
    tensors, document = dict(source.tensors), changed_document(json.loads(source.text), draw)
    changed_tensors(tensors, draw)
    entries, data = _header(tensors)
    return sealed(_text(entries, _dumped(document)), data)


def _entries(source: _Source, draw: random.Random) -> bytes:
    """What the header says of arrays."""
    entries, data = _header(source.tensors)
    for _ in range(draw.choice((1, 1, 2))):
        entries = changed_document(entries, draw)
    entries = entries if isinstance(entries, dict) else {}
    return sealed(_encoded(entries, source.text), data)


def _encoded(entries: dict[str, Any], document: str) -> bytes:
    try:
        return _text(entries, document)
    except (ValueError, RecursionError):  # of what JSON has no word for
        return _text({}, document)


def _twice(source: _Source, draw: random.Random) -> bytes:
    """Keys that stand there twice, in the header or in the document."""
    entries, data = _header(source.tensors)
    name = draw.choice(sorted(entries))
    other = json.dumps(entries[draw.choice(sorted(entries))])
    document = json.loads(source.text)
    key = draw.choice(sorted(document))
    again = f',"{key}":{_dumped(draw.choice(list(document.values())))}}}'
    text = _text(entries, source.text[:-1] + again if draw.random() < 0.5 else source.text)
    extra = draw.choice(
        (f'"{name}":{other}', f'"__metadata__":{{"pcarann":{json.dumps(source.text)}}}', '"sha256":"0"')
    )
    return sealed(text[:-1] + b"," + extra.encode() + b"}", data)


def _nested(source: _Source, draw: random.Random) -> bytes:
    """Brackets in brackets, in the header or in the document."""
    entries, data = _header(source.tensors)
    levels = draw.choice((10, 900, 5000, 100_000))
    brackets = draw.choice(("[", '{"a":')) * levels
    document = draw.choice((brackets, source.text[:-1] + ',"odd":' + brackets, json.dumps(deep(300)), source.text))
    text = _text(entries, document)
    return sealed(text if document != source.text else text[:-1] + b',"odd":' + brackets.encode(), data)


def _lengths(source: _Source, draw: random.Random) -> bytes:
    """Headers that are longer or shorter than they say, and data that are not as long as they should be."""
    entries, data = _header(source.tensors)
    text = _text(entries, source.text)
    length = draw.choice((0, 1, 2, len(text) - 1, len(text) + 1, len(text) + len(data), 2**23 + 1, 2**62, 2**64 - 1))
    if draw.random() < 0.5:
        length, data = len(text), draw.choice((b"", data[:-1], data + b"\0", data * 2, data[: len(data) // 2]))
    return sealed(text + b" " * draw.choice((0, 0, 7, 1000)), data, length)


def _metadata(source: _Source, draw: random.Random) -> bytes:
    """Anything in the place of the metadata."""
    entries, data = _header(source.tensors)
    header = changed_document({"__metadata__": {"sha256": _BLANK.decode(), "pcarann": source.text}}, draw)
    header = {**(header if isinstance(header, dict) else {}), **entries}
    try:
        text = json.dumps(header, separators=(",", ":")).encode()
    except ValueError:
        text = b"{}"
    return sealed(text, data)


def _sealed_bytes(source: _Source, draw: random.Random) -> bytes:
    """Bytes behind the header changed, and the file sealed again."""
    length = int.from_bytes(source.content[:8], "little")
    way = draw.choice(list(BYTES))
    return sealed(source.content[8 : 8 + length], changed_bytes(source.content[8 + length :], way, draw, b"other"))


def _sealed_header(source: _Source, draw: random.Random) -> bytes:
    """Bytes of the header changed, and the file sealed again."""
    length = int.from_bytes(source.content[:8], "little")
    text = changed_bytes(source.content[8 : 8 + length], draw.choice(list(BYTES)), draw, b"{}")
    return sealed(text, source.content[8 + length :])


def _dumped(document: Any) -> str:
    try:
        return json.dumps(document)
    except (ValueError, RecursionError):  # a circle
        return "{}"


STRUCTURE: dict[str, Callable[[_Source, random.Random], bytes]] = {
    "document": _document,
    "arrays": _arrays,
    "document and arrays": _both,
    "entries of the header": _entries,
    "keys that are there twice": _twice,
    "nesting": _nested,
    "lengths": _lengths,
    "metadata": _metadata,
    "bytes of arrays, sealed": _sealed_bytes,
    "bytes of the header, sealed": _sealed_header,
}
"""Changes by an attacker, who seals the file again"""
