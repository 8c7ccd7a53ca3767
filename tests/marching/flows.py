"""Flows that several tests march, and a step model of another kind than PCARaNN."""

import numpy as np
from sklearn.base import BaseEstimator

from pcarann.backend.arrays import place_of

POINTS = np.linspace(0, 6, 16)


def waves(n, *, seed=0, speed=0.3, times=10, points=POINTS):
    """A flow of two numbers, seen as fields: waves that travel by one angle a snapshot, (samples, times, points)."""
    rng = np.random.default_rng(seed)
    angle, size = rng.uniform(0, 6, (n, 1)), rng.uniform(0.5, 1.5, (n, 1, 1))
    return size * np.cos((angle + speed * np.arange(times))[:, :, None] + points)


def steered(n, *, seed=0, times=8, steady=False):
    """Waves whose angle moves by what a control says: fields, and controls of every step."""
    rng = np.random.default_rng(seed)
    moves = rng.uniform(0.1, 0.6, (n, 1 if steady else times - 1))
    moves = np.broadcast_to(moves, (n, times - 1))
    angle = rng.uniform(0, 6, (n, 1)) + np.concatenate([np.zeros((n, 1)), moves.cumsum(axis=1)], axis=1)
    return np.cos(angle[:, :, None] + POINTS), moves[:, :, None]


def bistable(n, *, seed=0, times=11, points=32):
    """FitzHugh–Nagumo, uₜ = u_xx / 2 + u − u³/3 − v, vₜ = 0.08 (u + 0.7 − 0.8 v), on a circle: (n, times, 2, x)."""
    rng = np.random.default_rng(seed)
    x, k = 20 * np.arange(points) / points, np.arange(1, 5)
    waves = np.concatenate([np.cos(2 * np.pi * np.outer(k, x) / 20), np.sin(2 * np.pi * np.outer(k, x) / 20)])
    u, v = rng.normal(size=(n, 8)) @ waves / 2, rng.normal(size=(n, 8)) @ waves / 5
    decay = np.exp(-0.01 * (2 * np.pi * np.fft.rfftfreq(points, 20 / points)) ** 2)
    snapshots = [np.stack([u, v], axis=1)]
    for _ in range(times - 1):
        for _ in range(50):
            u, v = u + 0.02 * (u - u**3 / 3 - v), v + 0.0016 * (u + 0.7 - 0.8 * v)
            u = np.fft.irfft(np.fft.rfft(u) * decay, points)
        snapshots.append(np.stack([u, v], axis=1))
    return np.stack(snapshots, axis=1)


class LinearState:
    """A state of `LinearStep`: what marching needs, and no look at inputs."""

    calibration, output_size, state = None, 1.0, 0

    def __init__(self, matrices, grid):
        self.matrices, self.output_grid = matrices, grid
        self.place = place_of(np.empty(0))

    @property
    def members(self):
        return len(self.matrices)

    def member_step(self, member, fields):
        return fields @ self.matrices[member]

    def outputs(self, fields):
        return fields

    def handed(self, fields):
        return fields


class LinearStep(BaseEstimator):
    """Least squares from start to end, times a factor: by a judge, where one is handed over, the best of `factors`."""

    def __init__(self, factors=(1.0,), n_members=1):
        self.factors = factors
        self.n_members = n_members

    def fit(self, X, y, *, together=1, judge=None):
        starts, ends = X.reshape(len(X), -1), y.reshape(len(y), -1)
        matrix = np.linalg.lstsq(starts, ends, rcond=1e-10)[0]
        self.seen_, self.together_, self.judged_ = len(X), together, []
        grid = y.shape[1:]

        def step(factor):
            return lambda fields: (fields.reshape(len(fields), -1) @ (factor * matrix)).reshape(-1, *grid)

        best = self.factors[0]
        if judge is not None:
            self.judged_ = [judge(step(factor)) for factor in self.factors]
            best = self.factors[int(np.argmin(self.judged_))]
        self.fitted_ = LinearState([best * matrix] * self.n_members, grid)
        return self

    def predict(self, X):
        return self.fitted_.member_step(0, X.reshape(len(X), -1)).reshape(len(X), *self.fitted_.output_grid)
