"""Smooth random fields on lines and planes, local operators on them, and the libraries that compute with them."""

import numpy as np
import pytest

BOUNDARIES = ("periodic", "zero", "free")


def waves(n, points=32, seed=0, modes=6):
    """Random Fourier series on a circle, (n, points)."""
    rng = np.random.default_rng(seed)
    x = 2 * np.pi * np.arange(points) / points
    k = np.arange(1, modes + 1)
    phases, sizes = rng.uniform(0, 2 * np.pi, (n, modes, 1)), rng.normal(size=(n, modes, 1)) / np.sqrt(k)[:, None]
    return (sizes * np.cos(k[:, None] * x + phases)).sum(axis=1)


def planes(n, shape=(12, 12), seed=0):
    """Random fields on a torus of two or more axes, (n, *shape)."""
    rng = np.random.default_rng(seed)
    found = np.zeros((n, *shape))
    grids = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in shape), indexing="ij")
    for k in np.ndindex(*(3,) * len(shape)):
        phase = sum(number * grid for number, grid in zip(k, grids, strict=True))
        turned = phase + rng.uniform(0, 2 * np.pi, (n, *(1,) * len(shape)))
        found += rng.normal(size=(n, *(1,) * len(shape))) * np.cos(turned) / (1 + sum(k))
    return found


def local(a):
    """A nonlinear response to a point and its surroundings on a circle."""
    return np.tanh(a - np.roll(a, 2, axis=-1)) + 0.3 * a**2


def held(a):
    """−u″ = a, u = 0 at both ends of a line: an integral of everything, which sees the ends."""
    points = a.shape[-1]
    inner = points - 2
    laplacian = (2 * np.eye(inner) - np.eye(inner, k=1) - np.eye(inner, k=-1)) * (points - 1) ** 2
    u = np.zeros_like(a)
    u[..., 1:-1] = np.linalg.solve(laplacian, a[..., 1:-1].T).T
    return u


def numpy_and_torch():
    """Marks a test of one argument `library`, which puts a NumPy array into a library."""

    def tensor(array):
        return pytest.importorskip("torch").asarray(np.asarray(array))

    return pytest.mark.parametrize("library", [np.asarray, tensor], ids=["numpy", "torch"])
