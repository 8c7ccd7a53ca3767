"""Feature maps and the members of an ensemble from a file, every part checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, taken
from pcarann.ensemble.maps import Features, KernelMap, RandomMap
from pcarann.ensemble.members import Member, keeps_weights
from pcarann.features.kernel import MOST_LANDMARKS, KernelFeatures, median_distance
from pcarann.features.random_layers import HiddenLayers, RandomFeatures
from pcarann.latent.weighting import Weighting
from pcarann.readout.direct import ReadoutReport
from pcarann.storage.arrays import Arrays
from pcarann.storage.formats import Document
from pcarann.storage.limits import shape_of
from pcarann.storage.typed import checked, record

__all__ = ["rebuilt_features", "rebuilt_map", "rebuilt_members"]

_COPIES = 3  # of the matrix of a kernel while it is factored
_SEED_BITS = 1024


def rebuilt_map(described: dict[str, Any], size: int, arrays: Arrays) -> RandomMap | KernelMap:
    """How members on so many latents are made."""
    relevance, linear = (arrays(n) if n in arrays else None for n in ("latent.relevance", "latent.linear"))
    shapes = [((size,), (size, size)), ((size,),)]
    if any(w is not None and w.shape not in known for w, known in zip((relevance, linear), shapes, strict=True)):
        raise ValueError("its relevance does not fit its PCA")
    weighting = Weighting(relevance, linear)
    if described["regressor"] == "kernel":
        length = checked(described["length"], float, "the length of its kernel")
        if not 0 < length < np.inf:
            raise ValueError("its kernel has no length")
        return KernelMap(_seed(described["seed"]), length, weighting)
    sizes = shape_of(described["sizes"], "sizes of its layers")
    if len(sizes) != 3 or sizes[0] != size:
        raise ValueError("its layers do not fit its PCA")
    first, second = checked(described["scales"], tuple[float, float], "its scales")
    if not (math.isfinite(first) and math.isfinite(second)):
        raise ValueError("its scales are not finite")
    seed = _seed(described["seed"])
    return RandomMap(HiddenLayers(seed, 0, (size, sizes[1], sizes[2])), (first, second), weighting)


def _seed(said: Any) -> int:
    if not isinstance(said, int) or isinstance(said, bool) or said.bit_length() > _SEED_BITS:
        raise ValueError("its seed must be a whole number")
    return said


def rebuilt_features(
    document: Document, feature_map: RandomMap | KernelMap, x: Array, arrays: Arrays
) -> list[Features]:
    """The features of every member, those of a kernel at its landmarks among the rows x."""
    count = len(document["reports"])
    if isinstance(feature_map, KernelMap):
        return _kernels(document, feature_map, x, arrays)
    size, n1, n2 = feature_map.layers.sizes
    anchors = (arrays("anchors1", count, n1), arrays("anchors2", count, n2))
    kept = keeps_weights(feature_map.layers, count)  # whatever the machine kept that wrote the file
    arrays.allowance.check(8 * n1 * (size + n2) * (count if kept else 1), "its hidden weights")
    features: list[Features] = []
    for k in range(count):
        layers, mine = replace(feature_map.layers, member=k), (anchors[0][k, :], anchors[1][k, :])
        one = RandomFeatures(layers, feature_map.scales, mine, None, feature_map.weighting)
        features.append(replace(one, weights=one.hidden_weights()) if kept else one)
    return features


def _kernels(document: Document, feature_map: KernelMap, x: Array, arrays: Arrays) -> list[Features]:
    count, weighted = len(document["reports"]), feature_map.weighting.weighted(x)
    if (
        "landmarks" not in arrays and "coefficients" not in arrays
    ):  # before format 4 the median distance was that of the first samples
        landmarks = min(int(x.shape[0]), MOST_LANDMARKS)
        arrays.allowance.check(8 * (count + _COPIES) * landmarks**2, "the factors of its kernel")
        length = feature_map.length * median_distance(weighted[:500, :])
        return [replace(feature_map.map_of(k, x), length=length) for k in range(count)]
    rows = arrays.found["landmarks"]
    shaped = rows.ndim == 2 and rows.shape[0] == count and rows.shape[1] and rows.dtype.kind == "i"
    if not shaped or not ((rows >= 0) & (rows < x.shape[0])).all() or not (np.diff(rows, axis=1) > 0).all():
        raise ValueError("its landmarks are not among its samples")
    arrays.allowance.check(8 * count * rows.shape[1] * (int(x.shape[1]) + 4), "its landmarks")
    listed = [[int(i) for i in one] for one in rows]
    lengths = checked(document["map"]["lengths"], list[float], "the lengths of its kernel")
    if not all(0 < length < np.inf for length in lengths):
        raise ValueError("its kernel has no length")
    return [
        KernelFeatures(k, tuple(one), taken(weighted, one), length, feature_map.weighting)
        for k, (one, length) in enumerate(zip(listed, lengths, strict=True))
    ]


def rebuilt_members(
    reports: list[dict[str, Any]], features: list[Features], outputs: int, arrays: Arrays
) -> tuple[Member, ...]:
    """The members of these features, for so many output latents."""
    old = "coefficients" not in arrays  # before format 4: readouts, a kernel's for a factor that is made anew
    terms = features[0].count if old else features[0].terms
    stored = arrays("readouts" if old else "coefficients", len(features), terms, outputs)
    return tuple(
        (Member.of if old else Member)(made, stored[k, :, :], record(ReadoutReport, report, "the report of a readout"))
        for k, (made, report) in enumerate(zip(features, reports, strict=True))
    )
