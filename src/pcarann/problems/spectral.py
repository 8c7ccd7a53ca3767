"""Pieces that spectral solvers share: wavenumbers, transforms, and integrators of stiff systems.

The integrators advance v' = Lv + N(v) by a step h, for a real diagonal L that is integrated exactly.

Exponential time differencing (Cox & Matthews 2002), of fourth order:

    a = e^{hL/2} v + Q N(v),   b = e^{hL/2} v + Q N(a),   c = e^{hL/2} a + Q (2N(b) − N(v)),
    v ← e^{hL} v + f₁ N(v) + 2 f₂ (N(a) + N(b)) + f₃ N(c),

with, at z = hL,   Q = h (e^{z/2} − 1)/z,          f₁ = h (−4 − z + eᶻ(4 − 3z + z²))/z³,
                   f₂ = h (2 + z + eᶻ(z − 2))/z³,   f₃ = h (−4 − 3z − z² + eᶻ(4 − z))/z³.

These cancel badly near z = 0; their mean over a circle around z does not (Kassam & Trefethen 2005).

Integrating factor: the classical Runge–Kutta method, of fourth order, for e^{−tL} v. With E = e^{hL/2},

    k₁ = N(v),   k₂ = N(E(v + ½h k₁)),   k₃ = N(Ev + ½h k₂),   k₄ = N(E²v + hE k₃),
    v ← E²v + h/6 (E²k₁ + 2E(k₂ + k₃) + k₄).

The sine transform S_ij = √(2/(n+1)) sin(πij/(n+1)) is its own inverse, S² = I, and diagonalises the second
difference of n points between zero ends: S tridiag(−1, 2, −1) S = diag(4 sin²(πj/2(n+1))).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pcarann.backend.arrays import Array, Place

__all__ = [
    "alias_free",
    "etdrk4",
    "integrating_factor_rk4",
    "second_difference_eigenvalues",
    "sine_matrix",
    "wavenumbers",
]

Map = Callable[[Array], Array]

_CONTOUR_POINTS = 32  # on the upper half of the circle of radius 1: exact to rounding (Kassam & Trefethen)


def wavenumbers(n: int, *, half: bool = False) -> Array:
    """Integer wavenumbers of n points on the host, in the order of the FFT, or of the real FFT where `half`.

    >>> [int(k) for k in wavenumbers(4)], [int(k) for k in wavenumbers(4, half=True)]
    ([0, 1, -2, -1], [0, 1, 2])
    """
    return np.fft.rfftfreq(n, 1 / n) if half else np.fft.fftfreq(n, 1 / n)


def alias_free(k: Array, n: int) -> Array:
    """Mask of the wavenumbers |k| < n/3: on n points a product of two such waves is exact at them."""
    return 3 * abs(k) < n


def etdrk4(linear: Array, nonlinear: Map, step: float, place: Place) -> Map:
    """Return the map v ↦ v(t + step) of exponential time differencing; `linear` is L, on the host."""
    z = step * np.asarray(linear)
    half, full = place.put(np.exp(z / 2)), place.put(np.exp(z))
    Q, f1, f2, f3 = (place.put(step * weight) for weight in _etdrk4_weights(z))

    def advance(v: Array) -> Array:
        nv = nonlinear(v)
        decayed = half * v
        a = decayed + Q * nv
        na = nonlinear(a)
        nb = nonlinear(decayed + Q * na)
        nc = nonlinear(half * a + Q * (2 * nb - nv))
        return full * v + f1 * nv + (2 * f2) * (na + nb) + f3 * nc

    return advance


def integrating_factor_rk4(linear: Array, nonlinear: Map, step: float, place: Place) -> Map:
    """Return the map v ↦ v(t + step) of Runge–Kutta with an integrating factor; `linear` is L, on the host."""
    half = place.put(np.exp(step / 2 * np.asarray(linear)))
    first, second, third = step / 2 * half, step / 3 * half, step * half  # ½hE, hE/3, hE
    last = step / 6 * half * half  # hE²/6

    def advance(v: Array) -> Array:
        decayed = half * v
        k1 = nonlinear(v)
        k2 = nonlinear(decayed + first * k1)
        k3 = nonlinear(decayed + (step / 2) * k2)
        k2 += k3
        k3 *= third
        decayed *= half  # E²v
        k3 += decayed
        k4 = nonlinear(k3)
        k1 *= last
        k2 *= second
        k4 *= step / 6
        for part in (k1, k2, k4):
            decayed += part
        return decayed

    return advance


def sine_matrix(n: int) -> Array:
    """S, (n, n), on the host: orthogonal, symmetric, its own inverse."""
    index = np.arange(1, n + 1)
    return math.sqrt(2 / (n + 1)) * np.sin(math.pi * np.outer(index, index) / (n + 1))


def second_difference_eigenvalues(n: int) -> Array:
    """4 sin²(πj/2(n+1)), j = 1, …, n: the eigenvalues of tridiag(−1, 2, −1), on the host."""
    return 4 * np.sin(math.pi * np.arange(1, n + 1) / (2 * (n + 1))) ** 2


def _etdrk4_weights(z: Array) -> tuple[Array, Array, Array, Array]:
    """Q/h, f₁/h, f₂/h, f₃/h at real z, by their mean over the circle of radius 1 around it."""
    angles = math.pi * (np.arange(_CONTOUR_POINTS) + 0.5) / _CONTOUR_POINTS
    c = z[..., None] + np.exp(1j * angles)
    e = np.exp(c)
    weights = (
        (np.exp(c / 2) - 1) / c,
        (-4 - c + e * (4 - 3 * c + c**2)) / c**3,
        (2 + c + e * (c - 2)) / c**3,
        (-4 - 3 * c - c**2 + e * (4 - c)) / c**3,
    )
    Q, f1, f2, f3 = (weight.real.mean(axis=-1) for weight in weights)
    return Q, f1, f2, f3
