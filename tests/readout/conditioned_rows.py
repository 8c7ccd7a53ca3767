"""Matrices of a known condition, and what they should give."""

import numpy as np


def conditioned(samples, features, condition, seed=0, rank=None):
    """A matrix with singular values from 1 down to 1/condition, and the given rank."""
    rng = np.random.default_rng(seed)
    size = min(samples, features)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in (samples, features))
    singular = np.geomspace(1, 1 / condition, rank or size)
    return (left[:, : len(singular)] * singular) @ right[:, : len(singular)].T


def svd_ridge(H, Y, ridge):
    left, s, right = np.linalg.svd(H, full_matrices=False)
    keep = s > max(H.shape) * np.finfo(float).eps * s[0]
    gain = s[keep] / (s[keep] ** 2 + ridge)
    return right[keep].T @ (gain[:, None] * (left[:, keep].T @ Y))
