"""A small fitted surrogate of every kind, and its file with something else in it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from conftest import periodic_pairs
from pcarann import Fields, Marching, Mesh, PCARaNN, Staged
from pcarann.spatial.channels import Channels
from pcarann.storage.container import read, write
from pcarann.symmetry.generators import Symmetry
from random_fields_in_space import local, waves

PAIRS = periodic_pairs(80, points=8)
A = waves(80, 16)
U = local(A)
_QUICK = dict(n_stages=1, n_features=8, n_members=1, channels=Channels(singles=4))


def _latent(**changes):
    return PCARaNN(**{"n_components": 4, "widths": (8, 6), "n_members": 2, "scales": (0.3, 0.3)} | changes)


def _flow(labelled=False):
    states = np.stack([A[:40] * 0.9**t for t in range(4)], axis=1)
    if labelled:
        coords = {"t": 0.5 * np.arange(4), "x": np.linspace(0, 1, 16)}
        states = pytest.importorskip("xarray").DataArray(states, dims=("run", "t", "x"), coords=coords)
    flow = Marching(_latent(widths=(16, 8)), step=1).fit(states[:30, :1], states[:30, 1:])
    return flow.calibrate(states[30:, :1], states[30:, 1:])


def _mesh():
    return Mesh(np.random.default_rng(0).uniform(size=(16, 2)))


MAKERS = {
    "latent": lambda: _latent().fit(*PAIRS[:40]).calibrate(*PAIRS[40:60]).observe(*PAIRS[60:]),
    "smoothed": lambda: _latent(fields=Fields(smoothing=0.1)).fit(*PAIRS[:40]),
    "adapted": lambda: _latent(relevance="learned", linear=True).fit(*PAIRS[:40]).partial_fit(*PAIRS[40:]),
    "symmetric": lambda: _latent(symmetry=Symmetry.shifts(-1)).fit(*PAIRS[:40]),
    "kernel": lambda: _latent(regressor="kernel").fit(*PAIRS[:40]),
    "parts": lambda: _latent().fit({"a": PAIRS.inputs[:40], "n": A[:40, 0]}, PAIRS.outputs[:40]),
    "input": lambda: Staged("input", **_QUICK).fit(A[:40], U[:40]),
    "mean": lambda: Staged("mean", adaptable=True, **_QUICK).fit(A[:40], U[:40]).calibrate(A[40:], U[40:]),
    "stages": lambda: Staged(_latent(), **_QUICK).fit(A[:40], U[:40]),
    "mesh": lambda: Staged("mean", grid=_mesh(), **_QUICK).fit(A[:40], A[:40]),
    "marching": _flow,
    "labelled flow": lambda: _flow(labelled=True),
}


def saved(folder, name):
    """The file of a model, made when it is first asked for."""
    path = folder / name
    if not path.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MAKERS[name]().save(path)
    return path


def attacked(source, target, change):
    """A file with something else in it, sealed as an attacker would seal it."""
    document, tensors = read(source)
    change(document, tensors)
    write(target, document, tensors)
    return target
