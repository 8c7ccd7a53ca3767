"""Between what users hand over and the record of a surrogate: true outputs in, predicted ones out, and their units."""

from __future__ import annotations

from typing import Any

from pcarann.backend.arrays import Array, place_of
from pcarann.containers.state import State
from pcarann.uncertainty.fingerprints import too_narrow
from pcarann.validation import check_fields, check_pair_lengths, required

__all__ = ["checked_outputs", "handed_out", "marks_of", "refuse_unaligned", "said_of_learned", "said_of_repeats"]


def checked_outputs(y: Any, fitted: State) -> Array:
    """True outputs of a user in the units inside, (samples, values), or a refusal."""
    grid = fitted.output_grid
    y = required(y) if fitted.packing is None else fitted.packing.truth(y, fitted.place)
    return fitted.outputs(check_fields(y, "y", fitted.place, grid=grid, scalar=not grid, owner="the model")[0])


def refuse_unaligned(X: Any, y: Any, fitted: State) -> None:
    """Raise ValueError where samples of inputs and outputs, or times of trajectories, do not go together."""
    fitted.refuse_unaligned(X, y)


def handed_out(X: Array, fitted: State, fields: Array) -> Array:
    """(samples, values) outputs on their grid and in their unit, as the kind of array that the user handed in."""
    place = place_of(X)
    fields = place.put(fitted.handed(fields))
    return place.xp.reshape(fields, (fields.shape[0], *fitted.output_grid))


def marks_of(X: Array, truth: Array | None, fitted: State) -> Any:
    """What samples leave to be recognised by: inputs as the model knows them, outputs in the units inside, if known."""
    inputs = check_fields(X, "X", fitted.place)[0]
    if truth is None:
        return fitted.marks(inputs, None)
    check_pair_lengths(int(inputs.shape[0]), int(truth.shape[0]))
    return fitted.marks(inputs, fitted.handed(truth))


def said_of_learned(fitted: State, marks: Any) -> list[str]:
    """What to say of samples that intervals are calibrated on, where the model was trained on some of them."""
    return too_narrow(fitted.recognised(marks), f"calibration {_called(fitted)}")


def said_of_repeats(fitted: State, labels: Any) -> list[str]:
    """A warning where calibration samples of the same label, which are repeats, count once."""
    distinct = len(set(labels.tolist()))
    if distinct == len(labels):
        return []
    return [
        f"Distinct calibration {_called(fitted)}: {distinct} among {len(labels)}. Repeats and near-repeats count once."
    ]


def _called(fitted: State) -> str:
    return "trajectories" if fitted.how else "samples"
