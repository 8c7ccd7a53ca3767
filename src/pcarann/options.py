"""Options that belong together, as small frozen objects: what few users set stays out of the way of what most do.

    PCARaNN(scales=Refine(ridge=1e-6), fields=Fields(channels=True), adapt=Adapt(ridge=0.1, forgetting=0.99))

Words and None stand for the objects with their defaults: scales="refined" is Refine(), regressor="kernel" is Kernel(),
fields=None is Fields() and adapt=None is Adapt(). `set_params(adapt__ridge=1e-3)` replaces one option of an object, so
that a search over a grid of parameters reaches each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

from pcarann.ensemble.adaptation import Start

__all__ = ["Adapt", "Fields", "Grid", "Kernel", "Options", "Refine", "resolved", "whole_options", "with_option"]


class Options:
    """A frozen object that holds options."""


@dataclass(frozen=True)
class Refine(Options):
    """How the scales of the random layers are refined on a validation loss.

    ridge : float
        λ inside the validation loss.
    start : "scan" or "energy"
        The best point of a coarse scan; or the energy-matched scales as in the paper, which depend on the unit of the
        outputs, and from which the refinement may not leave a poor basin.
    """

    ridge: float = 1e-4
    start: Literal["scan", "energy"] = "scan"


@dataclass(frozen=True)
class Kernel(Options):
    """A Matérn kernel on the latents in the place of random layers: the limit of many features.

    length : None or float
        In medians of the distance between training latents; None chooses it together with the ridge.
    """

    length: float | None = None


@dataclass(frozen=True)
class Adapt(Options):
    """How `partial_fit` takes new samples in; of no effect on `fit`.

    ridge : float
        λ of the recursion. Another one than before is used for all samples, those taken in earlier too.
    start : "least-squares" or "ridge"
        What it departs from: the fitted readout (the paper's), or the ridge solution of the training data, with which
        it equals a ridge refit on all data.
    forgetting : float or "auto"
        Factor in (0, 1] by which all earlier samples are discounted for each new one; 1 forgets nothing. "auto" chooses
        it from the stream (`pcarann.ensemble.forgetting`), for all samples taken in so far.
    outliers : "skip" or "learn"
        Whether samples with outputs and errors far outside of all that was seen are left out, with a warning, unless
        several in a row agree (`pcarann.uncertainty.outliers`), or learned as any other.
    """

    ridge: float = 1e-2
    start: Start = "least-squares"
    forgetting: float | Literal["auto"] = 1.0
    outliers: Literal["skip", "learn"] = "skip"


@dataclass(frozen=True, eq=False)
class Fields(Options):
    """How fields are read.

    channels : bool
        Whether the first axis of an input counts channels, such as snapshots or coefficient fields: each then has a PCA
        of its own, with `n_components` modes.
    smoothing : float
        Width of a Gaussian by which rough inputs are smoothed along the last two axes of their grid, as a share of the
        axis; 0 leaves them as they are. A table of parameters is never smoothed.
    quadrature : None or pair (input, output) of arrays or None
        Weights of the grid values in the inner product, so that modes do not depend on where a mesh is fine. None for
        the inputs gives the columns of a table of parameters units of their own (`pcarann.features.column_units`), and
        fields weights of 1.
    mesh : None or Mesh
        Where the values of fields lie. The lumped masses of the nodes are their quadrature where none is given; the
        inputs by name keep it only where that makes the outputs no less likely.
    """

    channels: bool = False
    smoothing: float = 0.0
    quadrature: Any = None
    mesh: Any = None


@dataclass(frozen=True)
class Grid(Options):
    """How fields lie in space, for stages.

    boundary : None, "periodic", "zero", "free" or one of them for each axis of space
        How axes end: a period, with or without its first point repeated; fields of outputs that vanish; anything. None
        finds out from the data, and judges on samples held out where they leave a choice.
    axes : None or sequence of int
        Which axes of an output are space, best counted from the last (−1); the others count components. None takes all
        of 8 points or more that inputs share, or lack.
    """

    boundary: Any = None
    axes: Any = None


_MEANT: dict[str, dict[Any, type[Options]]] = {
    "scales": {"refined": Refine},
    "regressor": {"kernel": Kernel},
    "fields": {None: Fields},
    "adapt": {None: Adapt},
    "grid": {None: Grid},
}


def resolved(name: str, value: Any) -> Any:
    """Return the object that a word or None stands for, any other value as it is.

    >>> resolved("regressor", "kernel")
    Kernel(length=None)
    """
    known = _MEANT.get(name, {})
    return known[value]() if (value is None or isinstance(value, str)) and value in known else value


def with_option(name: str, value: Any, option: str, wanted: Any) -> Any:
    """Return a parameter's object with one option replaced, or refuse.

    >>> with_option("adapt", None, "ridge", 0.5)
    Adapt(ridge=0.5, start='least-squares', forgetting=1.0, outliers='skip')
    """
    known = resolved(name, value)
    if not is_dataclass(known) or isinstance(known, type):
        words = [word for word in _MEANT.get(name, {}) if word is not None]
        hint = f"; {name}={words[0]!r} has" if words else ""
        raise ValueError(f"Invalid parameter {name}__{option}: {name}={value!r} has no options{hint}.")
    names = [field.name for field in fields(known)]
    if option not in names:
        raise ValueError(f"Invalid parameter {name}__{option}: {type(known).__name__} has {', '.join(names)}.")
    return replace(known, **{option: wanted})


def whole_options(before: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters to be set, options of an object by two underscores as that object with them in it, or a refusal.

    >>> whole_options({"adapt": None}, {"adapt__ridge": 0.5})
    {'adapt': Adapt(ridge=0.5, start='least-squares', forgetting=1.0, outliers='skip')}
    """
    whole = {name: value for name, value in params.items() if "__" not in name}
    for name, value in params.items():
        group, nested, option = name.partition("__")
        held = whole.get(group, before.get(group))
        if nested and group in before and not hasattr(held, "set_params"):
            whole[group] = with_option(group, held, option, value)
        elif nested:
            whole[name] = value
    return whole
