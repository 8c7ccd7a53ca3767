"""The estimator's parameters, checked: each that does not fit is refused in one sentence before any work begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcarann.readout.recursive import Start
from pcarann.symmetry.generators import Symmetry
from pcarann.validation import check_choice, check_components, check_count, check_number, check_seed

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters, checked."""

    components: tuple[int | float, int | float]
    widths: tuple[int, int]
    n_members: int
    scales: Literal["refined", "energy", "gain"] | tuple[float, float]
    gains: tuple[float, float] | None
    """(g₁, g₂) where the scales are given as gains"""
    ridge: float | Literal["gcv", "refined"]
    regressor: Literal["random", "kernel"]
    length: float | None
    linear: bool
    channels: bool
    relevance: float | Literal["learned", "channels"] | Any
    """A power, "learned", "channels", or an array: weights of the latents or a metric on them"""
    smoothing: float
    symmetry: Symmetry | None
    refine_ridge: float
    refine_start: Literal["scan", "energy"]
    adapt_ridge: float
    adapt_start: Start
    forgetting: float
    quadrature: tuple[Any, Any]
    seed: int

    @classmethod
    def of(cls, model: Any, seed: int | None = None) -> Settings:
        """Check every parameter, or refuse in one sentence; a seed that is known is not drawn again."""
        widths, scales, quadrature = model.widths, model.scales, model.quadrature
        if not isinstance(widths, tuple | list | np.ndarray) or len(widths) != 2:
            raise ValueError(f"widths must be a pair (n₁, n₂), got {widths!r}.")
        scales, gains = _check_scales(scales)
        if quadrature is not None and (not isinstance(quadrature, tuple | list) or len(quadrature) != 2):
            raise ValueError("quadrature must be None or a pair (input weights, output weights).")
        symmetry = model.symmetry
        if symmetry is not None and not isinstance(symmetry, Symmetry):
            raise ValueError(f"symmetry must be None or a pcarann.Symmetry, got {symmetry!r}.")
        if isinstance(model.ridge, str) and model.ridge == "refined" and (gains or scales != "refined"):
            raise ValueError("ridge='refined' is chosen together with the scales: it needs scales='refined'.")
        if isinstance(model.ridge, str) and model.ridge == "refined" and model.regressor == "kernel":
            raise ValueError("ridge='refined' belongs to random layers: with regressor='kernel' use 'gcv'.")
        channels = _check_flag(model.channels, "channels")
        if isinstance(model.relevance, str) and model.relevance == "channels" and not channels:
            raise ValueError("relevance='channels' weighs the channels of the inputs: it needs channels=True.")
        if model.smoothing and symmetry is not None:
            raise ValueError("smoothing would break the symmetry at the ends of the grid: use one of the two.")
        return cls(
            components=check_components(model.n_components),
            widths=(check_count(widths[0], "widths"), check_count(widths[1], "widths")),
            n_members=check_count(model.n_members, "n_members"),
            scales=scales,
            gains=gains,
            ridge=_check_ridge(model.ridge, model.regressor),
            regressor=check_choice(model.regressor, "regressor", ("random", "kernel")),
            length=None if model.length is None else check_number(model.length, "length", above=0.0),
            linear=_check_flag(model.linear, "linear"),
            channels=channels,
            relevance=_check_relevance(model.relevance),
            smoothing=check_number(model.smoothing, "smoothing", least=0.0, most=1.0),
            symmetry=symmetry,
            refine_ridge=check_number(model.refine_ridge, "refine_ridge", above=0.0),
            refine_start=check_choice(model.refine_start, "refine_start", ("scan", "energy")),
            adapt_ridge=check_number(model.adapt_ridge, "adapt_ridge", above=0.0),
            adapt_start=check_choice(model.adapt_start, "adapt_start", ("least-squares", "ridge")),
            forgetting=check_number(model.forgetting, "forgetting", above=0.0, most=1.0),
            quadrature=(None, None) if quadrature is None else (quadrature[0], quadrature[1]),
            seed=check_seed(model.random_state) if seed is None else seed,
        )


def _check_scales(value: Any) -> tuple[Any, tuple[float, float] | None]:
    """Return "refined", "energy", a pair of scales, or "gain" with its gains."""
    if isinstance(value, str) and value in ("refined", "energy"):
        return value, None
    if isinstance(value, tuple | list | np.ndarray) and len(value) in (2, 3):
        pair = (check_number(value[-2], "scales", above=0), check_number(value[-1], "scales", above=0))
        if len(value) == 2:
            return pair, None
        if value[0] == "gain":
            return "gain", pair
    raise ValueError(f"scales must be 'refined', 'energy', a pair (r₁, r₂) or ('gain', g₁, g₂), got {value!r}.")


def _check_ridge(value: Any, regressor: str) -> Any:
    if value is None:
        return "gcv" if regressor == "kernel" else 0.0
    if isinstance(value, str):
        if value in ("gcv", "refined"):
            return value
        raise ValueError(f"ridge must be None, a number of at least 0, 'gcv' or 'refined', got {value!r}.")
    return check_number(value, "ridge", least=0.0)


def _check_relevance(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("learned", "channels"):
            raise ValueError(f"relevance must be a power, 'learned', 'channels' or an array of weights, got {value!r}.")
        return value
    if np.ndim(value) == 0:
        return check_number(value, "relevance", least=-3.0, most=3.0)
    array = np.asarray(value)
    if array.ndim > 2 or array.dtype.kind not in "fi" or not np.isfinite(array).all() or not array.any():
        raise ValueError(
            f"relevance must hold finite weights of the latents, not all 0, in one axis or two, found {array.dtype} "
            f"of shape {array.shape}."
        )
    return array


def _check_flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)
