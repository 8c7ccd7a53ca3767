"""The estimator's parameters, checked: each that does not fit is refused in one sentence before any work begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pcarann.backend.memory import refuse_beyond
from pcarann.containers.packing import Packed
from pcarann.mesh.mesh import Mesh
from pcarann.options import Adapt, Fields, Kernel, Refine, resolved
from pcarann.symmetry.generators import Symmetry
from pcarann.validation import check_choice, check_components, check_count, check_number, check_seed

__all__ = ["USUAL_COMPONENTS", "Settings", "packed_options", "settled_fields"]

USUAL_COMPONENTS = (100, 100)
"""Modes of inputs and outputs, at most, unless set"""


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters, checked."""

    components: tuple[int | float, int | float]
    widths: tuple[int, int]
    n_members: int
    scales: Literal["refined", "energy", "gain"] | tuple[float, float]
    gains: tuple[float, float] | None
    """(g₁, g₂) where the scales are given as gains"""
    refine: Refine
    """Of effect where the scales are refined"""
    ridge: float | Literal["gcv", "refined"]
    kernel: Kernel | None
    """None for random layers"""
    linear: bool
    relevance: float | Literal["learned", "channels"] | Any
    """A power, "learned", "channels", or an array: weights of the latents or a metric on them"""
    symmetry: Symmetry | None
    fields: Fields
    adapt: Adapt
    seed: int

    @classmethod
    def of(cls, model: Any, seed: int | None = None) -> Settings:
        """Check every parameter, or refuse in one sentence; a seed that is known is not drawn again."""
        widths = model.widths
        if not isinstance(widths, tuple | list | np.ndarray) or len(widths) != 2:
            raise ValueError(f"widths must be a pair (n₁, n₂), got {widths!r}.")
        scales, gains, refine = _check_scales(model.scales)
        kernel = _check_regressor(model.regressor)
        settings = cls(
            components=check_components(model.n_components),
            widths=(check_count(widths[0], "widths"), check_count(widths[1], "widths")),
            n_members=check_count(model.n_members, "n_members"),
            scales=scales,
            gains=gains,
            refine=refine,
            ridge=_check_ridge(model.ridge, kernel),
            kernel=kernel,
            linear=_check_flag(model.linear, "linear"),
            relevance=_check_relevance(model.relevance),
            symmetry=model.symmetry,
            fields=_check_fields(model.fields),
            adapt=_check_adapt(model.adapt),
            seed=seed or 0,
        )
        return settings if seed is not None else replace(settings, seed=check_seed(model.random_state))

    def with_packed(self, pair: Packed) -> Settings:
        """The settings for arrays that were made of what a user holds, or a refusal of what does not go with it."""
        if pair.packing is None:
            return self
        if pair.packing.mesh is not None and (self.symmetry is not None or self.fields.smoothing):
            raise ValueError("symmetry and fields.smoothing act along the axes of a grid: a mesh has none.")
        if pair.packing.input_code is not None:
            for name, wanted in (("symmetry", self.symmetry), ("fields.channels", self.fields.channels)):
                if wanted:
                    raise ValueError(
                        f"{name} belongs to one input field, but X has several parts, or points without values."
                    )
            if self.fields.smoothing:
                raise ValueError("fields.smoothing belongs to one input field, but X has several parts.")
        return self.weighted(pair.quadrature)

    def weighted(self, quadrature: tuple[Any, Any]) -> Settings:
        """The settings with these weights of values where none were given."""
        pairs = zip(self.fields.quadrature, quadrature, strict=True)
        found = tuple(mine if mine is not None else weights for mine, weights in pairs)
        return replace(self, fields=replace(self.fields, quadrature=found))

    @property
    def refines(self) -> bool:
        """Whether scales are to be refined"""
        return self.scales == "refined" and self.kernel is None

    def __post_init__(self) -> None:
        """Refuse parameters that are sound alone, but not beside each other."""
        if self.symmetry is not None and not isinstance(self.symmetry, Symmetry):
            raise ValueError(f"symmetry must be None or a pcarann.Symmetry, got {self.symmetry!r}.")
        if isinstance(self.ridge, str) and self.ridge == "refined" and self.scales != "refined":
            raise ValueError("ridge='refined' is chosen together with the scales: it needs scales='refined'.")
        if isinstance(self.ridge, str) and self.ridge == "refined" and self.kernel is not None:
            raise ValueError("ridge='refined' belongs to random layers: with regressor='kernel' use 'gcv'.")
        if isinstance(self.relevance, str) and self.relevance == "channels" and not self.fields.channels:
            raise ValueError(
                "relevance='channels' weighs the channels of the inputs: it needs fields=Fields(channels=True)."
            )
        if self.kernel is None:
            self.refuse_too_wide()
        if self.fields.smoothing and self.symmetry is not None:
            raise ValueError("smoothing would break the symmetry at the ends of the grid: use one of the two.")

    def refuse_too_wide(self, latents: tuple[int, int] = (0, 0), samples: int = 0) -> None:
        """Refuse layers that are more than the machine can hold, as far as is known of latents and samples.

        One member's hidden weights, anchors and readouts of all, and of its features the smaller of rows and sums.
        """
        (first, second), members = self.widths, self.n_members
        width = first + second
        numbers = first * (latents[0] + second) + members * width * (1 + latents[1]) + min(samples, width) * width
        refuse_beyond(
            8 * numbers, f"widths=({first}, {second}) of n_members={members}", "narrower layers, or fewer members"
        )


def settled_fields(fields: Any, pair: Packed) -> Any:
    """The parameter `fields` of a model that was chosen for packed arrays, so that a fit to them weighs as was judged.

    A search takes inputs unweighted unless it says otherwise; weights of coded inputs are those of every fit to parts.
    """
    if pair.packing is None:
        return fields
    found = resolved("fields", fields)
    given = found.quadrature or (None, None)
    inputs = given[0]
    if pair.packing.input_code is not None:
        inputs = None if inputs is None or bool(np.all(np.asarray(inputs) == 1)) else inputs
    elif inputs is None and pair.quadrature[0] is not None:
        inputs = np.ones_like(pair.quadrature[0])
    return replace(found, quadrature=None if inputs is None else (inputs, None), mesh=pair.packing.mesh)


def packed_options(pair: Packed) -> dict[str, Any]:
    """Parameters of a model of arrays that were made of what a user holds, which are no choice."""
    return {} if pair.packing is None else {"fields": Fields(quadrature=pair.quadrature)}


def _check_scales(value: Any) -> tuple[Any, tuple[float, float] | None, Refine]:
    """Return "refined", "energy", a pair of scales, or "gain" with its gains; and how they are refined."""
    value = resolved("scales", value)
    if isinstance(value, Refine):
        ridge = check_number(value.ridge, "scales.ridge", above=0.0)
        return "refined", None, Refine(ridge, check_choice(value.start, "scales.start", ("scan", "energy")))
    if isinstance(value, str) and value == "energy":
        return value, None, Refine()
    if isinstance(value, tuple | list | np.ndarray) and len(value) in (2, 3):
        pair = (check_number(value[-2], "scales", above=0), check_number(value[-1], "scales", above=0))
        if len(value) == 2:
            return pair, None, Refine()
        if value[0] == "gain":
            return "gain", pair, Refine()
    raise ValueError(
        f"scales must be 'refined', a Refine, 'energy', a pair (r₁, r₂) or ('gain', g₁, g₂), got {value!r}."
    )


def _check_regressor(value: Any) -> Kernel | None:
    value = resolved("regressor", value)
    if isinstance(value, Kernel):
        return Kernel(None if value.length is None else check_number(value.length, "regressor.length", above=0.0))
    if not isinstance(value, str) or value != "random":
        raise ValueError(f"regressor must be 'random', 'kernel' or a Kernel, got {value!r}.")
    return None


def _check_adapt(value: Any) -> Adapt:
    value = resolved("adapt", value)
    if not isinstance(value, Adapt):
        raise ValueError(f"adapt must be None or an Adapt, got {value!r}.")
    return Adapt(
        check_number(value.ridge, "adapt.ridge", above=0.0),
        check_choice(value.start, "adapt.start", ("least-squares", "ridge")),
        _check_forgetting(value.forgetting),
        check_choice(value.outliers, "adapt.outliers", ("skip", "learn")),
    )


def _check_forgetting(value: Any) -> Any:
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"adapt.forgetting must be a number above 0 and at most 1, or 'auto', got {value!r}.")
        return value
    return check_number(value, "adapt.forgetting", above=0.0, most=1.0)


def _check_fields(value: Any) -> Fields:
    value = resolved("fields", value)
    if not isinstance(value, Fields):
        raise ValueError(f"fields must be None or a Fields, got {value!r}.")
    quadrature = (None, None) if value.quadrature is None else value.quadrature
    if not isinstance(quadrature, tuple | list) or len(quadrature) != 2:
        raise ValueError("fields.quadrature must be None or a pair (input weights, output weights).")
    smoothing = check_number(value.smoothing, "fields.smoothing", least=0.0, most=1.0)
    mesh = None if value.mesh is None else Mesh.of(value.mesh)
    return Fields(_check_flag(value.channels, "fields.channels"), smoothing, tuple(quadrature), mesh)


def _check_ridge(value: Any, kernel: Kernel | None) -> Any:
    if value is None:
        return 0.0 if kernel is None else "gcv"
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
