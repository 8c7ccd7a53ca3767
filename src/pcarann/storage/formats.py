"""Formats of model files, and the way from each to the next.

    1   random layers alone
    2   kernels, symmetries, smoothing
    3   channels, marched models
    4   coefficients of the readouts, what tells inputs outside the data, scores of a calibration by rank
    5   options of the estimator in objects

A document of an older format goes up step by step, as far as it can: what an old file did not keep stays unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.validation import warn_user

__all__ = ["FACTS", "FORMAT_VERSION", "Document", "Tensors", "upgraded"]

Document = dict[str, Any]
Tensors = dict[str, np.ndarray[Any, Any]]

FACTS: dict[str, Any] = {
    **dict.fromkeys(("samples", "pca_samples", "n_adapted", "state", "calibrated"), int),
    **dict.fromkeys(("channels", "own_units"), bool),
    "ridge": float,
}
"""The parts of a record that are plain values, and of which type"""


def upgraded(document: Document, tensors: Tensors) -> Document:
    """Return a document of any format as one of the newest; arrays that are kept in another way now are replaced."""
    version = document["format"]
    if version < 1:
        raise ValueError(f"format {version} does not exist")
    for step in _STEPS[version - 1 :]:
        document = step(document, tensors)
    if version < 4:
        warn_user(
            f"This model is of format {version}, which did not keep what tells inputs outside the training data: "
            "predictions there will not be reported. Fit again to have that."
        )
    return document


def _to_2(document: Document, tensors: Tensors) -> Document:
    return document | {
        "map": {"regressor": "random", "scales": document["scales"], **document["layers"]}
        | {"kept_weights": document["kept_weights"]},
        "symmetry": None,
        "samples": tensors["x"].shape[0],
        "ridge": document["parameters"]["ridge"],
        "smoothing": (0.0, ()),
    }


def _to_3(document: Document, _: Tensors) -> Document:
    return document | {"channels": False, "marching": None}


def _to_4(document: Document, tensors: Tensors) -> Document:
    state = int(document["n_adapted"] > 0)
    reports = [{**one, "rank": one["rank"] if one["solver"] == "svd" else None} for one in document["reports"]]
    calibration, marching = document["calibration"], document.get("marching")
    if calibration is not None:
        calibration = _scores_by_rank(calibration["floor"], "calibration", tensors)
    if marching is not None:
        floor = marching["floor"]
        scores = None if floor is None else _scores_by_rank(floor, "marching", tensors)
        marching = {**marching, "calibration": scores, "calibrated": state}
    return document | {
        "calibration": calibration,
        "calibrated": state - bool(document["stale"]),
        "state": state,
        "reports": reports,
        "marching": marching,
        "adaptation": None,  # of sums that were made in another way: partial_fit begins anew from the readout
        "pca_samples": document["samples"],
        "units": {"inputs": 1.0, "outputs": 1.0},
        "own_units": False,
        **dict.fromkeys(("view", "reach", "edge", "report")),
    }


def _scores_by_rank(floor: float, name: str, tensors: Tensors) -> dict[str, Any]:
    """Give all scores of a calibration their ranks."""
    scores, largest = tensors.pop(f"{name}.pooled"), tensors[f"{name}.largest"]
    tensors |= {f"{name}.scores": scores, f"{name}.ranks": np.arange(1, scores.size + 1)}
    return {"floor": floor, "points": scores.size // max(largest.size, 1)}


def _to_5(document: Document, _: Tensors) -> Document:
    old = document["parameters"]
    names = ("n_components", "widths", "n_members", "scales", "ridge", "regressor", "linear", "relevance")
    kept = {name: old[name] for name in (*names, "symmetry", "random_state", "device", "verbose") if name in old}
    gone = {"adapt_modes": 0, "refine_members": 1}
    lost = [f"{name}={old[name]}" for name, nothing in gone.items() if old.get(name, nothing) != nothing]
    if kept["ridge"] == "loo":
        kept["ridge"] = "gcv"
        lost.append("ridge='loo' (now 'gcv')")
    if lost:
        warn_user(
            f"This model was made with {', '.join(lost)}, which is gone: it predicts as it did, and adapts without."
        )
    if kept["scales"] == "refined":
        kept["scales"] = {"options": "Refine"} | _renamed(old, {"ridge": "refine_ridge", "start": "refine_start"})
    if kept.get("regressor") == "kernel":
        kept["regressor"] = {"options": "Kernel"} | _renamed(old, {"length": "length"})
    kept["fields"] = {"options": "Fields"} | _renamed(old, {"channels": "channels", "smoothing": "smoothing"})
    adapt = {"ridge": "adapt_ridge", "start": "adapt_start", "forgetting": "forgetting"}
    return document | {"parameters": kept | {"adapt": {"options": "Adapt"} | _renamed(old, adapt)}}


def _renamed(old: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """What was known by other names, as far as it was known."""
    return {new: old[name] for new, name in names.items() if name in old}


_STEPS = (_to_2, _to_3, _to_4, _to_5)
FORMAT_VERSION = 1 + len(_STEPS)
"""Of files that are written now"""
