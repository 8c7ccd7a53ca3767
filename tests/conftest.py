"""Data that several tests share: smooth random fields and a nonlinear operator on them."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass

# Before NumPy comes, and for processes that tests start: workers of pytest-xdist are as many as the cores, and threads
# beyond those wait for each other. Tests about two threads ask for two: `blas_threads`.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from browsers import chromium

# The same examples each time, however slow the machine is.
settings.register_profile("seeded", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("seeded")


@pytest.fixture(scope="module", autouse=True)
def swept():
    """Leave collected tests and imported packages out of every later search for garbage: each would take 0.9 s."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Pairs:
    inputs: np.ndarray
    outputs: np.ndarray

    def __getitem__(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return self.inputs[rows], self.outputs[rows]


def smooth_pairs(n: int, seed: int = 0, points: int = 40) -> Pairs:
    """Six random Fourier modes in, a nonlinear response of them out on a (2, points) grid."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, points)
    waves = np.concatenate([[np.sin(k * np.pi * x), np.cos(k * np.pi * x)] for k in (1, 2, 3)])
    a = (rng.normal(size=(n, 6)) * 0.7 ** np.arange(6)) @ waves
    u = np.stack([np.tanh(a), 0.3 * np.cumsum(a**2, axis=1) / points + a[:, ::-1]], axis=1)
    return Pairs(a, u)


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    # A seed whose later samples lie where the earlier ones do; with 0, sample 264 is far outside the first 200.
    return smooth_pairs(400, seed=2)


def periodic_pairs(n: int, seed: int = 0, points: int = 10) -> Pairs:
    """Five Fourier modes of a circle in, a local nonlinear response out: every move of the circle is a symmetry."""
    rng = np.random.default_rng(seed)
    x = 2 * np.pi * np.arange(points) / points
    waves = np.array([np.ones(points), np.cos(x), np.sin(x), np.cos(2 * x), np.sin(2 * x)])
    a = (rng.normal(size=(n, 5)) * [0.5, 1.0, 1.0, 0.5, 0.5]) @ waves
    u = np.stack([a**2, np.tanh(np.roll(a, 1, axis=1) + np.roll(a, -1, axis=1))], axis=1)
    return Pairs(a, u)


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window, closed before another module opens one: two cannot be driven at a time."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def cluster():
    """Two worker processes of Dask, which are started again when they die, from one that has imported all they need."""
    distributed = pytest.importorskip("distributed")
    from dask import config
    from distributed.utils import get_mp_context

    options = dict(n_workers=2, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0")
    needed = ["distributed", "dask.array", "pcarann.operator", "pcarann.scale.samples"]
    patience = {"distributed.comm.timeouts.connect": "15s"}  # with who was killed just now; 30 s otherwise
    with config.set({"distributed.worker.multiprocessing-method": "forkserver", **patience}):
        get_mp_context().set_forkserver_preload(needed)
        with distributed.LocalCluster(**options, silence_logs=50) as found:
            yield found


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def own_cache(cache_folder):
    """A cache of generated data, which modules of tests that ask for it share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCARANN_CACHE", str(cache_folder))
        yield


def rewritten(path, change):
    """Change the document and the tensors of a model file, and seal it again."""
    from safetensors.numpy import load_file
    from safetensors.numpy import save as serialise

    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document, tensors = json.loads(header["__metadata__"]["pcarann"]), load_file(path)
    change(document, tensors)
    blank = serialise(tensors, {"pcarann": json.dumps(document), "sha256": "0" * 64})
    path.write_bytes(blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1))


@contextmanager
def blas_threads(count):
    """The linear algebra of NumPy on so many threads, whichever thread set a limit long ago."""
    from threadpoolctl import threadpool_info, threadpool_limits

    from pcarann.backend.concurrency import _take_over

    _take_over()
    with threadpool_limits(count, user_api="blas"):
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {count}
        yield
        _take_over()


@pytest.fixture
def torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the CPU are computed by torch itself, as they are on a GPU, and not by NumPy in their memory."""
    monkeypatch.setattr("pcarann.backend.arrays.Place.computing", property(lambda self: self))


@pytest.fixture(params=["numpy", "torch", "strict"])
def backend(request: pytest.FixtureRequest, torch_computes: None):
    """A function that puts a NumPy array into one of the libraries, which then computes with it."""
    if request.param == "numpy":
        return np.asarray
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        return lambda a: torch.asarray(np.asarray(a))
    strict = pytest.importorskip("array_api_strict")
    return lambda a: strict.asarray(np.asarray(a))


def table(n, seed=0):
    """Three numbers in, a smooth nonlinear response of all of them out."""
    p = np.random.default_rng(seed).uniform(-1, 1, size=(n, 3))
    x = np.linspace(0, 1, 12)
    return p, 1 + np.sin(2 * p[:, :1] * x) + (p[:, 1:2] * x) ** 2 + np.cos(p[:, 2:] + x)
