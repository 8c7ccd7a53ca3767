"""The floor: floating-point operations of a stage's matrix products, divided by the rate of matrix products.

It is the floor of this algorithm: exact PCA through the smaller Gram matrix, normal equations in the smaller form, as
many values of J as the search asked for. A randomised PCA, or a shorter search, would need fewer.

With N samples, M values a field, d latents in, e latents out, widths n₁ and n₂, p = n₁ + n₂, q = min(N, p),
each product of an (a × b) and a (b × c) matrix counts 2abc, a symmetric product half of that, a Cholesky
factorisation n³/3, a triangular solve with c columns n²c.

    PCA          Gram  N²M, modes  2NMd where N ≤ M (latents are read off);  Gram  NM², projection  2NMd beyond
    member       W⁽¹⁾x  2N n₁ d     W⁽²⁾h⁽¹⁾  2N n₁ n₂     Gram  q²·max(N, p)     Cholesky  q³/3
                 two triangular solves  2q²e     HᵀB or HᵀY  2Npe

Not counted, although the algorithm must do them: eigenvectors of the Gram matrix, sorting for quantiles, tanh, random
numbers, centring, checks, projections on modes too weak to be read off the Gram matrix, iterative refinement of the
readout.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pcarann.backend.arrays import Place, product_into

__all__ = [
    "Products",
    "Sizes",
    "adaptation",
    "calibration",
    "em_fit",
    "loss",
    "member",
    "pca",
    "prediction",
    "refined_fit",
    "total",
]

Terms = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """What the counts depend on."""

    samples: int
    input_values: int
    output_values: int
    inputs: int
    """d, input latents"""
    outputs: int
    """e, output latents"""
    widths: tuple[int, int]
    members: int

    def as_record(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return asdict(self)


def total(terms: Mapping[str, float]) -> float:
    """Sum of all terms."""
    return float(sum(terms.values()))


def times(factor: float, terms: Mapping[str, float]) -> Terms:
    """Each term so many times."""
    return {name: factor * count for name, count in terms.items()}


def pca(samples: int, values: int, components: int) -> Terms:
    """Modes and latents of (samples, values) fields."""
    product = 2.0 * samples * values * components
    wide = samples <= values
    gram = float(samples**2 * values if wide else samples * values**2)
    return {"gram": gram, "modes" if wide else "projection": product}


def features(samples: int, sizes: Sizes) -> Terms:
    """h of so many samples."""
    n1, n2 = sizes.widths
    return {"W1x": 2.0 * samples * n1 * sizes.inputs, "W2h": 2.0 * samples * n1 * n2}


def solve(samples: int, width: int, outputs: int) -> Terms:
    """Ridge or least squares through the smaller normal matrix."""
    small, large = min(samples, width), max(samples, width)
    return {
        "gram": float(small**2 * large),
        "cholesky": small**3 / 3,
        "solves": 2.0 * small**2 * outputs,
        "HB": 2.0 * samples * width * outputs,
    }


def member(sizes: Sizes) -> Terms:
    """Features and readout of one member."""
    return features(sizes.samples, sizes) | solve(sizes.samples, sum(sizes.widths), sizes.outputs)


def em_fit(sizes: Sizes) -> Terms:
    """Two PCAs and all members."""
    return {
        "input PCA": total(pca(sizes.samples, sizes.input_values, sizes.inputs)),
        "output PCA": total(pca(sizes.samples, sizes.output_values, sizes.outputs)),
        **{f"members {name}": count for name, count in times(sizes.members, member(sizes)).items()},
    }


def loss(sizes: Sizes, inner: int) -> Terms:
    """One value of J: the projections on W⁽¹⁾ are shared by all values."""
    p = sum(sizes.widths)
    held = sizes.samples - inner
    # Validation rows through HHᵀ or through A, whichever is cheaper; A = HᵀB is then not needed.
    through_gram = 2.0 * held * inner * p + 2.0 * held * inner * sizes.outputs
    through_readout = 2.0 * inner * p * sizes.outputs + 2.0 * held * p * sizes.outputs
    solved = {name: count for name, count in solve(inner, p, sizes.outputs).items() if name != "HB"}
    return {
        "W2h": features(sizes.samples, sizes)["W2h"],
        **solved,
        "validation": min(through_gram, through_readout),
    }


def gradient(sizes: Sizes, inner: int) -> Terms:
    """What ∂J/∂η adds to a value: G = H_valᵀE, HZ, two outer products, and one product with W⁽²⁾ on the way back."""
    p, e = sum(sizes.widths), sizes.outputs
    held = sizes.samples - inner
    return {
        "G": 2.0 * held * p * e,
        "HZ": 2.0 * inner * p * e + 2.0 * min(inner, p) ** 2 * e,
        "outer": 2.0 * (2 * inner + held) * p * e,
        "back": features(sizes.samples, sizes)["W2h"],
    }


def refined_fit(sizes: Sizes, *, scanned: int, descended: int) -> Terms:
    """PCAs of the inner 80 %, the rest encoded, so many values of J and so many with gradient, all members."""
    inner = round(0.8 * sizes.samples)
    held = sizes.samples - inner
    value = loss(sizes, inner)
    values = times(scanned, {name: count for name, count in value.items() if name != "W2h"})
    columns = -(-scanned // 4)  # W⁽²⁾h⁽¹⁾ does not depend on η₂, of which the scan has four
    return {
        "input PCA": total(pca(inner, sizes.input_values, sizes.inputs)),
        "output PCA": total(pca(inner, sizes.output_values, sizes.outputs)),
        "encode": 2.0 * held * (sizes.input_values * sizes.inputs + sizes.output_values * sizes.outputs),
        "scan": total(values) + columns * value["W2h"],
        "descent": descended * (total(value) + total(gradient(sizes, inner))),
        "members": sizes.members * total(member(sizes)),
    }


def prediction(samples: int, sizes: Sizes) -> Terms:
    """Mean fields: one encoding, K members, one decoding."""
    readout = 2.0 * samples * sum(sizes.widths) * sizes.outputs
    return {
        "encode": 2.0 * samples * sizes.input_values * sizes.inputs,
        "members": sizes.members * (total(features(samples, sizes)) + readout),
        "decode": 2.0 * samples * sizes.output_values * sizes.outputs,
    }


def calibration(samples: int, sizes: Sizes) -> Terms:
    """Mean and spread: K decodings more; the sorting of the scores is not counted."""
    mean = prediction(samples, sizes)
    return mean | {"spread": sizes.members * mean["decode"]}


def adaptation(new: int, sizes: Sizes) -> Terms:
    """One member takes in so many rows, its factor (dual) or its sums (primal) being there."""
    N, p, e = sizes.samples, sum(sizes.widths), sizes.outputs
    residual = {"residual": 2.0 * new * p * e}
    if N + new > p:
        normal = {"gram": float(new * p**2), "HB": 2.0 * new * p * e, "cholesky": p**3 / 3, "solves": 2.0 * p**2 * e}
        return features(new, sizes) | residual | normal
    extension = {
        "cross": 2.0 * new * N * p + float(N**2 * new),
        "corner": float(new**2 * p + new**2 * N) + new**3 / 3,
        "solves": 2.0 * (N + new) ** 2 * e,
        "HB": 2.0 * (N + new) * p * e,
    }
    return features(new, sizes) | residual | extension


class Products:
    """A float64 matrix product that tells how fast it ran, on all threads; its memory is taken once."""

    def __init__(self, place: Place, size: int = 3000):
        self.place, self.size = place, size
        self.left, self.right = place.zeros(size, size) + 1.0 / 3.0, place.zeros(size, size) + 1.0 / 7.0
        self.out = place.zeros(size, size)
        self.rate(1)  # the first is the warm-up

    def rate(self, repeats: int = 5) -> float:
        """Floating-point operations per second, the median of several products."""
        seconds = []
        for _ in range(repeats):
            self.place.wait()
            start = time.perf_counter()
            product_into(self.out, self.left, self.right)
            self.place.wait()
            seconds.append(time.perf_counter() - start)
        return 2.0 * self.size**3 / statistics.median(seconds)
