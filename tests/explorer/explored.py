"""Small models of every kind, and a server that shows them."""

import contextlib
import threading
import time
from functools import cache

import numpy as np
import pytest

from meshes import triangles
from pcarann import Fields, Marching, PCARaNN, Staged
from pcarann.explorer.site import explorer
from pcarann.serving.app import application
from pcarann.serving.limits import Limits
from pcarann.serving.running import address, bound, configured

SMALL = dict(n_components=(4, 6), widths=(12, 8), n_members=3, scales="energy")


@cache
def grid():
    """Fields on a plane, calibrated."""
    rng = np.random.default_rng(0)
    waves = np.stack([np.cos(k * np.linspace(0, 3, 12))[:, None] * np.sin(k * np.linspace(0, 2, 9)) for k in (1, 2, 3)])
    a = np.tensordot(rng.normal(size=(120, 3)), waves, axes=1)
    u = np.tanh(a)[:, ::-1, :]
    return PCARaNN(**SMALL | {"n_components": (3, 6)}).fit(a[:80], u[:80]).calibrate(a[80:], u[80:])


@cache
def table():
    """Columns with names to labelled curves."""
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    rng = np.random.default_rng(1)
    columns = pandas.DataFrame({"speed": rng.uniform(1, 3, 100), "depth <b>": rng.uniform(-1, 1, 100)})
    t = np.linspace(0, 1, 25)
    values = np.sin(columns["speed"].to_numpy()[:, None] * t) + columns["depth <b>"].to_numpy()[:, None] * t**2
    u = xarray.DataArray(values, dims=("sample", "t"), coords={"t": t}, name="height", attrs={"units": "m"})
    return PCARaNN(**SMALL | {"n_components": (2, 5)}).fit(columns[:70], u[:70]).calibrate(columns[70:], u[70:])


@cache
def parts():
    """A field and a number on a mesh, to a vector, a scalar and two numbers."""
    mesh = triangles(7)
    x, y = mesh.points.T
    rng = np.random.default_rng(2)
    c, k = rng.normal(size=(90, 2)), rng.uniform(1, 2, 90)
    a = c[:, :1] * x + c[:, 1:] * y
    outputs = {"u": np.stack([np.sin(a), k[:, None] * a], axis=-1), "T": a * k[:, None] + 1, "loads": c * k[:, None]}
    model = PCARaNN(n_components=(3, 10), regressor="kernel", n_members=2, fields=Fields(mesh=mesh))
    return model.fit({"a": a, "k": k}, outputs)


@cache
def flow():
    """A flow with a control, that was never calibrated."""
    rng = np.random.default_rng(0)
    waves = np.cos(rng.uniform(0, 6, (30, 1, 1)) + 0.3 * np.arange(6)[:, None] + np.linspace(0, 6, 10))
    step = PCARaNN(n_components=3, widths=(6, 4), n_members=2, scales="energy")
    return Marching(step, choose=False).fit(waves[:, :1], waves[:, 1:], rng.uniform(2, 3, size=(30, 1)))


@cache
def stages():
    """Stages, which keep no modes of their inputs."""
    rng, x = np.random.default_rng(0), np.linspace(0, 2 * np.pi, 32, endpoint=False)
    a = sum(np.cos(k * x + rng.uniform(0, 6, (60, 1))) for k in range(1, 4))
    return Staged(n_features=10, n_members=2, n_stages=1).fit(a, np.tanh(a))


MODELS = {"grid": grid, "table": table, "parts": parts, "flow": flow, "stages": stages}


@contextlib.contextmanager
def running(paths, port=0, **options):
    """A server in a thread; its address."""
    import uvicorn

    listener, limits = bound("127.0.0.1", port), Limits()
    server = uvicorn.Server(configured(application(paths, additions=[explorer()], limits=limits, **options), limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield address(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module", name="served")
def served_fixture(tmp_path_factory):
    """The address of a server with all models, and the folder of their files.

    It ends with its module: as long as it runs, the linear algebra of this process stays on one thread.
    """
    folder = tmp_path_factory.mktemp("models")
    for name, make in MODELS.items():
        make().save(folder / f"{name}.pcarann")
    with running([folder / f"{name}.pcarann" for name in MODELS]) as found:
        yield found, folder
