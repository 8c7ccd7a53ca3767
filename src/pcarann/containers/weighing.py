"""Weights on outputs as users hand them over: one array, or arrays by name, of one functional or a stack of them.

Labelled weights are laid out as the outputs are: w(x, y) on u(y, x) is transposed, other coordinates are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcarann.containers.labels import is_labelled, is_labelled_set
from pcarann.containers.parts import Part

__all__ = ["by_name", "laid_out"]


def by_name(given: Any, outputs: Sequence[Part], what: str) -> dict[str, Any]:
    """What was given for each output; that of one array, which has no name here, may go by the name that it had."""
    if not (isinstance(given, Mapping) or is_labelled_set(given)):
        return {outputs[0].name: given}
    found = {str(name): given[name] for name in given}
    if [part.name for part in outputs] != [""] or list(found) == [""]:
        return found
    own = None if outputs[0].label is None else outputs[0].label.name
    if list(found) != [own]:
        output = "which has no name" if own is None else f"which is called {own}"
        raise ValueError(
            f"{what} must be one array on the one output, {output}, found the names {', '.join(found) or '(none)'}."
        )
    return {"": found[str(own)]}


def laid_out(weights: Any, part: Part, said: str) -> Any:
    """Weights, or a stack of them, on an output as an array with its axes; as they are where there are no labels."""
    if part.label is None or not is_labelled(weights):
        return weights
    return part.label.laid_out(weights, said)
