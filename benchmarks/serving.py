"""What a server of models carries, and what it survives.

    python benchmarks/serving.py [--quick] [--seconds 60] [-o results/serving.json]

`pcarann serve` runs in a process of its own, its callers in another, on loopback. First 1 and 64 callers who ask for
one sample each, as fast as they are answered; then clients who die, a body of 1 GB, readers who do not read, malformed
tensors, 1000 requests that were damaged, and a model file that is replaced while it is asked. Beside the answers stand
the memory of the server, and whether it still gives the right numbers in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from callers import Reply, asked_for, bytes_of, load_of, replies
from latency import fitted
from measure import Record, answer, in_fresh_process

from pcarann import load
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["main"]

_TIMEOUT = 5.0  # seconds of a request, in which slow readers are left too
_PREPARED = "1GB"


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, write one record, and return its path."""
    options = _options(arguments)
    record: Record = {"kind": "serving", "quick": options.quick, "machine": machine_facts(None)}
    record |= {"load_of_the_machine": os.getloadavg()[0], "throughput": [], "faults": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in options.cases:
            inputs = _models(case, folder, options.quick)
            with _served(folder / "served" / f"{case}.pcarann") as (process, url):
                for clients in (1, 64):
                    sys.stderr.write(f"{case}, {clients} clients\n")
                    found = _called(url, case, inputs, [folder / f"{case}-0"], clients, options.seconds)
                    record["throughput"].append({"case": case, **found, "memory": _memory(process.pid)})
                if case == options.cases[-1]:
                    record["faults"] = _faults(url, process, case, folder, options)
    with atomic_writer(options.output) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())
    return Path(options.output)


def _models(case: str, folder: Path, quick: bool) -> Path:
    """Two models of a case, the first of which is served, and inputs of both; the path of these."""
    (folder / "served").mkdir(exist_ok=True)
    one = fitted(case, folder / f"{case}-0", quick=quick)
    model = load(folder / f"{case}-0")
    X = np.concatenate([one * (1 - 0.01 * k) for k in range(16)])
    y = model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is to give other numbers
        model.partial_fit(X, 1.5 * y).save(folder / f"{case}-1")
    shutil.copy(folder / f"{case}-0", folder / "served" / f"{case}.pcarann")
    np.save(folder / f"{case}.npy", X)
    return folder / f"{case}.npy"


@contextlib.contextmanager
def _served(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", "from pcarann.cli import main; main()", "serve", str(path), "--port", "0"]
    command += ["--timeout", f"{_TIMEOUT:g}s", "--prepare", _PREPARED]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
            if found is None:
                log.seek(0)
                raise RuntimeError(f"The server did not begin: {log.read()[-500:]}")
            yield process, found.group()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _called(url: str, case: str, inputs: Path, models: list[Path], clients: int, seconds: float) -> Record:
    asked = {"url": url, "name": case, "inputs": str(inputs), "models": [str(one) for one in models]}
    return in_fresh_process(Path(__file__), asked | {"clients": clients, "seconds": seconds}, limit=seconds + 120)


def _memory(pid: int) -> Record:
    """Bytes that a process occupies, and the most so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return {"now": found["VmRSS"], "most": found["VmHWM"]}


def _faults(url: str, process: Any, case: str, folder: Path, options: Any) -> Record:
    """Each fault, the memory after it, and whether a request is answered rightly then."""
    X = np.load(folder / f"{case}.npy")[:1]
    wanted = load(folder / f"{case}-0").predict(X)
    some = 10 if options.quick else 200
    gigabyte = 10**8 if options.quick else 10**9
    calls = {
        "clients that die": lambda: asyncio.run(_dying(url, bytes_of(X, case), some)),
        "a body of 1 GB": lambda: asyncio.run(_large(url, case, gigabyte)),
        "readers who do not read": lambda: asyncio.run(_unread(url, case, X, wanted)),
        "malformed tensors": lambda: _statuses(asyncio.run(replies(url, _malformed(case, X)))),
        "damaged requests": lambda: _statuses(asyncio.run(replies(url, _damaged(case, X, 5 * some)))),
    }
    found: Record = {"before": _memory(process.pid)}
    for name, call in calls.items():
        sys.stderr.write(f"{name}\n")
        found[name] = {"found": call(), "memory": _memory(process.pid), "right_after": _is_right(url, case, X, wanted)}
    found["a model that is replaced"] = _replaced(url, case, folder, options) | {"memory": _memory(process.pid)}
    return found


def _is_right(url: str, case: str, X: Any, wanted: Any) -> bool:
    ((status, body),) = asyncio.run(replies(url, [bytes_of(X, case)]))
    return status == 200 and bool(np.allclose(np.frombuffer(body[len(body) - wanted.nbytes :]), wanted.ravel()))


def _statuses(found: Sequence[Reply]) -> Record:
    """How often each status came, and whether each refusal was one sentence of JSON."""
    clear = 0
    for status, body in found:
        with contextlib.suppress(ValueError):
            clear += status >= 400 and list(json.loads(body)) == ["error"]
    counts = Counter(str(status) for status, _ in found)
    refused = sum(count for status, count in counts.items() if status != "200")
    return {"requests": len(found), "statuses": dict(counts), "refusals": refused, "refusals_in_a_sentence": clear}


async def _open(url: str, **how: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = () if "sock" in how else (urlsplit(url).hostname, urlsplit(url).port)
    return await asyncio.open_connection(*place, **how)


def _narrow(url: str) -> socket.socket:
    """A connection that takes little before it is read."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    found.connect((urlsplit(url).hostname, urlsplit(url).port))
    found.setblocking(False)
    return found


async def _dying(url: str, request: bytes, clients: int) -> Record:
    """Half of them die in the midst of their request, half before they have read the answer."""
    for i in range(clients):
        _, writer = await _open(url)
        writer.write(request if i % 2 else request[: len(request) // 2])
        await writer.drain()
        writer.transport.abort()
    return {"clients": clients}


async def _large(url: str, case: str, size: int) -> Record:
    """A body that says its size, and one that does not, sent until somebody objects."""
    found = {}
    for name, field in (("told", f"Content-Length: {size}"), ("chunked", "Transfer-Encoding: chunked")):
        reader, writer = await _open(url)
        head = f"POST /v2/models/{case}/infer HTTP/1.1\r\nHost: localhost\r\n{field}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        sent, piece = 0, b" " * (1 << 20)
        with contextlib.suppress(ConnectionError):
            while sent < size and not writer.is_closing():
                writer.write(piece if name == "told" else b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                sent += len(piece)
        with contextlib.suppress(ConnectionError):
            writer.write(b"" if name == "told" else b"0\r\n\r\n")
            said = await reader.read(1000)
            found[name] = {"sent": sent, "answer": said.partition(b"\r\n")[0].decode()}
        found.setdefault(name, {"sent": sent, "answer": "closed"})
        writer.close()
    return found


async def _unread(url: str, case: str, X: Any, wanted: Any) -> Record:
    """Clients who ask for much and read nothing, and what others meet meanwhile; the server is to leave them."""
    rows = max(1, int(8e6 // wanted.nbytes))
    readers = [await _open(url, limit=1 << 12, sock=_narrow(url)) for _ in range(8)]
    for _, writer in readers:
        writer.write(bytes_of(np.repeat(X, rows, axis=0), case))
    await asyncio.sleep(0.5)
    began = time.perf_counter()
    ((status, _),) = await replies(url, [bytes_of(X, case)])
    met = time.perf_counter() - began
    await asyncio.sleep(3 * _TIMEOUT)
    left = 0
    for reader, writer in readers:
        try:
            read = len(await asyncio.wait_for(reader.read(-1), 5))
            left += read < rows * wanted.nbytes
        except (ConnectionError, TimeoutError):
            left += 1
        writer.transport.abort()
    return {"readers": len(readers), "left": left, "another_client": {"status": status, "seconds": met}}


def _malformed(case: str, X: Any) -> list[bytes]:
    """One fault each."""
    good: Record = {"name": "inputs", "shape": list(X.shape), "datatype": "FP64", "data": X.ravel().tolist()}
    changes: list[Record] = [
        {"name": "other"},
        {"name": None},
        {"shape": [1]},
        {"shape": [0, X.shape[1]]},
        {"shape": [10**12, X.shape[1]]},
        {"shape": "all"},
        {"shape": [-1, 2**70]},
        {"datatype": "BYTES"},
        {"datatype": None},
        {"data": None},
        {"data": [["a"]]},
        {"data": [1e999] * X.size},
        {"data": [None] * X.size},
        {"data": good["data"][:-1]},
        {"data": None, "parameters": {"binary_data_size": 8}},
        {"data": None, "parameters": {"binary_data_size": -8}},
    ]
    texts = [json.dumps({"inputs": [good | change]}).encode() for change in changes]
    texts += [b"", b"{", b"[" * 100_000, b"null", b'{"inputs": {}}', b'{"inputs": [' + b"[" * 500 + b"]" * 500 + b"]}"]
    return [asked_for(case, text) for text in texts]


def _damaged(case: str, X: Any, count: int) -> list[bytes]:
    """A good request with bytes of its JSON changed, taken out or doubled."""
    rng = np.random.default_rng(0)
    good = json.dumps({"inputs": [{"name": "inputs", "shape": list(X.shape), "datatype": "FP64", "data": X.tolist()}]})
    found = []
    for _ in range(count):
        text = bytearray(good.encode())
        for _ in range(int(rng.integers(1, 4))):
            at, kind = int(rng.integers(len(text))), int(rng.integers(3))
            text[at : at + 1] = (bytes([int(rng.integers(256))]), b"", bytes([text[at]]) * 2)[kind]
        found.append(asked_for(case, bytes(text)))
    return found


def _replaced(url: str, case: str, folder: Path, options: Any) -> Record:
    """The file is exchanged for that of another model and back while 16 clients ask."""
    target, seconds = folder / "served" / f"{case}.pcarann", options.exchange
    asked = {"url": url, "name": case, "inputs": str(folder / f"{case}.npy"), "clients": 16, "seconds": seconds}
    asked["models"] = [str(folder / f"{case}-{k}") for k in (0, 1)]
    command = [sys.executable, str(Path(__file__)), json.dumps(asked)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    exchanges = 0
    while process.poll() is None:
        time.sleep(1.5)
        exchanges += 1
        shutil.copy(folder / f"{case}-{exchanges % 2}", target.with_suffix(".new"))
        os.replace(target.with_suffix(".new"), target)
    lines = process.communicate()[0].splitlines()
    found: Record = json.loads(next(line for line in lines if line.startswith("RESULT "))[7:])
    return found | {"exchanges": exchanges}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a server of models carries, and what it survives.")
    parser.add_argument("--quick", action="store_true", help="tiny models; the numbers mean nothing")
    parser.add_argument("--cases", nargs="+", choices=("sensors", "burgers"), default=["sensors", "burgers"])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--exchange", type=float, default=30.0, help="seconds in which a model is replaced")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/serving.json"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer(load_of(json.loads(sys.argv[1])))
    else:
        main()
