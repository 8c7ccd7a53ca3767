"""Callers of a server: many at a time on loopback, each with one connection, in a process of their own.

Every answer is timed, and looked at: its status, and its numbers against those of the models that may have answered.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from pcarann import load

__all__ = ["Reply", "asked_for", "bytes_of", "load_of", "replies", "talk"]

Record = dict[str, Any]
Reply = tuple[int, bytes]
"""Status and body; status 0 where the connection was closed"""


def bytes_of(X: Any, name: str, *outputs: str) -> bytes:
    """A request with one binary tensor, answered in binary, head and all."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    tensor = {
        "name": "inputs",
        "shape": list(X.shape),
        "datatype": "FP64",
        "parameters": {"binary_data_size": X.nbytes},
    }
    asked: Record = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    asked |= {"outputs": [{"name": one} for one in outputs]} if outputs else {}
    return asked_for(name, json.dumps(asked).encode(), X.tobytes())


def asked_for(name: str, text: bytes, follow: bytes = b"") -> bytes:
    """A request with this JSON and these bytes behind it."""
    head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text) + len(follow)}\r\n"
    head += f"Inference-Header-Content-Length: {len(text)}\r\n" if follow else ""
    return head.encode() + b"\r\n" + text + follow


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Reply:
    """Send a request, and read its answer."""
    writer.write(request)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, b""
    fields = {key.lower(): value for key, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])}
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(fields.get(b"content-length", 0)))


async def replies(url: str, requests: Sequence[bytes]) -> list[Reply]:
    """Each request on a connection of its own, one after another."""
    found = []
    for request in requests:
        reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        found.append(await talk(reader, writer, request))
        writer.close()
    return found


def load_of(asked: Record) -> Record:
    """So many clients for so many seconds, who ask for one sample again and again; what they met."""
    X = np.load(asked["inputs"])
    models = [load(Path(path)) for path in asked["models"]]
    wanted = [np.concatenate([model.predict(X[i : i + 1]) for i in range(len(X))]) for model in models]
    return asyncio.run(_load(asked, X, wanted))


async def _load(asked: Record, X: Any, wanted: list[Any]) -> Record:
    seconds: list[float] = []
    met: Counter[str] = Counter()
    until = time.perf_counter() + asked["seconds"]
    clients = [_client(asked, i, X, wanted, until, seconds, met) for i in range(asked["clients"])]
    began = time.perf_counter()
    await asyncio.gather(*clients)
    took = time.perf_counter() - began
    cuts = statistics.quantiles(seconds, n=1000) if len(seconds) > 1 else seconds * 999
    return {
        "clients": asked["clients"],
        "seconds": took,
        "answers": len(seconds),
        "per_second": len(seconds) / took,
        "p50_ms": 1e3 * cuts[499],
        "p99_ms": 1e3 * cuts[989],
        "largest_ms": 1e3 * max(seconds),
        "met": dict(met),
    }


async def _client(
    asked: Record, i: int, X: Any, wanted: list[Any], until: float, seconds: list[float], met: Counter[str]
) -> None:
    row = i % len(X)
    request = bytes_of(X[row : row + 1], asked["name"])
    reader, writer = await asyncio.open_connection(urlsplit(asked["url"]).hostname, urlsplit(asked["url"]).port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        status, body = await talk(reader, writer, request)
        seconds.append(time.perf_counter() - began)
        met[_judged(status, body, [one[row] for one in wanted])] += 1
        if status == 0:
            reader, writer = await asyncio.open_connection(urlsplit(asked["url"]).hostname, urlsplit(asked["url"]).port)
    writer.close()


def _judged(status: int, body: bytes, wanted: list[Any]) -> str:
    """Which model gave an answer, by its numbers, or what it is instead."""
    if status != 200:
        return f"status {status}"
    values = np.frombuffer(body[len(body) - wanted[0].nbytes :]).reshape(wanted[0].shape)
    size = float(np.abs(wanted[0]).max())
    for k, one in enumerate(wanted):
        if np.abs(values - one).max() <= 1e-8 * size:
            return f"model {k}"
    return "other numbers"
