"""What can be asked of a model by the names of tensors, and the answers.

    u, u.std, u.lower, u.upper     prediction, spread, interval (parameters alpha and method)
    u.jvp                          its change by changes of the inputs, k.tangent of an input k
    k.vjp                          the gradient of Σ u.cotangent · u by the input k
    novelty                        p-value of each sample: small where it is unlike the training data

Tangents and cotangents are sent as further inputs; those that are missing are 0. A flow takes `steps` as a parameter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast, get_args

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.export.signature import NOVELTY, OF_OUTPUTS, Signature, Tensor, in_words
from pcarann.fitted import Fitted
from pcarann.marching.flow import Flow
from pcarann.serving.heard import Sighting, entered, hearing, joined, sighted
from pcarann.serving.limits import Refused
from pcarann.uncertainty.conformal import ALPHA, Method
from pcarann.validation import nonfinite

__all__ = ["Answer", "Catalogue", "Question", "answered", "joined_answers"]

Values = np.ndarray[Any, np.dtype[Any]]

_OF_FIELDS = tuple(end for end in OF_OUTPUTS if end != ".cotangent")  # which is sent


@dataclass(frozen=True, eq=False)
class Question:
    """Inputs of some samples, and the outputs that are wanted of them, all checked by name and shape."""

    arrays: Mapping[str, Values]
    """Inputs, and tangents and cotangents"""
    wanted: tuple[str, ...]
    alpha: float = ALPHA
    method: Method = "sample"
    steps: int | None = None

    @property
    def samples(self) -> int:
        """How many"""
        return len(next(iter(self.arrays.values())))

    def part(self, rows: slice) -> Question:
        """The same for some of the samples."""
        return replace(self, arrays={name: one[rows] for name, one in self.arrays.items()})

    @property
    def together(self) -> Any:
        """Equal for questions that can be answered together; None where it must be answered alone."""
        if self.steps is not None or not all(np.isfinite(one).all() for one in self.arrays.values()):
            return None
        shapes = tuple(sorted((name, one.shape[1:]) for name, one in self.arrays.items()))
        return frozenset(self.wanted), self.alpha, self.method, shapes


@dataclass(frozen=True, eq=False)
class Answer:
    """To one question."""

    arrays: Mapping[str, Values]
    said: tuple[str, ...] = ()
    """Warnings of the model"""
    outside: int = 0
    """Samples outside the training data"""
    seen: Sighting | None = None
    """Inputs beside the training data, where the question was answered alone"""
    others: tuple[str, ...] = ()
    """Warnings that are not about inputs outside the training data"""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """All that one state of a model can be asked, by name."""

    model: Any
    signature: Signature
    calibrated: bool
    novelty: bool
    kinds: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For each output the kind of it, and the tensor that it belongs to"""

    @classmethod
    def of(cls, model: Any, steps: int | None = None) -> Catalogue:
        """Of a fitted surrogate; of a flow over so many steps."""
        signature, fitted = Signature.of(model, steps), model.fitted_
        calibrated = fitted.calibration is not None and not fitted.stale
        if calibrated and signature.steps is not None:
            calibrated = signature.steps <= _calibrated_steps(fitted)
        found = cls(model, signature, calibrated, _has_novelty(model))
        return replace(found, kinds=found._kinds())

    def _kinds(self) -> dict[str, tuple[str, str]]:
        suffixes = [one for one in _OF_FIELDS if self.calibrated or one not in (".lower", ".upper")]
        kinds = {one.name + suffix: (suffix, one.name) for suffix in suffixes for one in self.signature.outputs}
        kinds |= {f"{one.name}.vjp": (".vjp", one.name) for one in self.movable}
        return kinds | ({NOVELTY: (NOVELTY, "")} if self.novelty else {})

    @cached_property
    def movable(self) -> tuple[Tensor, ...]:
        """Inputs that have derivatives: all but the controls of a flow."""
        return self.signature.inputs[:1] if self.signature.steps is not None else self.signature.inputs

    @cached_property
    def further(self) -> dict[str, Tensor]:
        """Tangents and cotangents by name."""
        tangents = {f"{one.name}.tangent": one for one in self.movable}
        return tangents | {f"{one.name}.cotangent": one for one in self.signature.outputs}

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one sample of an output."""
        kind, tensor = self.kinds[name]
        if kind == NOVELTY:
            return (self.signature.steps,) if self.signature.steps else ()
        side = self.signature.inputs if kind == ".vjp" else self.signature.outputs
        return next(one.shape for one in side if one.name == tensor)

    def size(self, names: Iterable[str]) -> int:
        """Values of these outputs for one sample."""
        return sum(math.prod(self.shape(name)) for name in names)

    def question(self, arrays: Mapping[str, Values], wanted: Sequence[str], parameters: Mapping[str, Any]) -> Question:
        """A question that was checked, or a refusal."""
        wanted = tuple(wanted) or tuple(one.name for one in self.signature.outputs)
        for name in wanted:
            if name not in self.kinds:
                raise Refused(400, f"There is no output {name[:100]}{self._why_not(name)}: {', '.join(self.kinds)}.")
        if len(set(wanted)) < len(wanted):
            raise Refused(400, "An output was asked for twice.")
        kinds = {self.kinds[name][0] for name in wanted}
        self._check_arrays(arrays, kinds)
        alpha, method = _level(parameters, kinds)
        return Question(arrays, wanted, alpha, method, self.signature.steps)

    @cached_property
    def size_inside(self) -> int:
        """Values that are made for one sample, whatever is wanted of them: a roll-out makes all of its snapshots."""
        return 0 if self.signature.steps is None else sum(one.size for one in self.signature.outputs)

    def _why_not(self, name: str) -> str:
        if name.endswith((".lower", ".upper")) and not self.calibrated:
            most = _calibrated_steps(self.model.fitted_)
            return f", since the model is not calibrated{f' beyond {most} steps' if most else ''}"
        return ", since the model cannot compare inputs with its training data" * (name == NOVELTY)

    def _check_arrays(self, arrays: Mapping[str, Values], kinds: set[str]) -> None:
        inputs = {name: one for name, one in arrays.items() if name not in self.further}
        try:
            self.signature.opened(inputs)
        except ValueError as error:
            raise Refused(400, str(error)) from None
        if len({len(one) for one in arrays.values()}) > 1:
            found = ", ".join(f"{name} {len(one)}" for name, one in arrays.items())
            raise Refused(400, f"All inputs must have the same number of samples: {found}.")
        for name in set(arrays) - set(inputs):
            tensor, shape = self.further[name], tuple(arrays[name].shape)
            if shape[1:] != tensor.shape:
                raise Refused(400, f"{name} has shape {shape}, expected {in_words(tensor.shape)}.")
        for kind, ending in ((".jvp", ".tangent"), (".vjp", ".cotangent")):
            sent = any(name.endswith(ending) for name in set(arrays) - set(inputs))
            if sent != (kind in kinds):
                names = ", ".join(name for name in self.further if name.endswith(ending))
                raise Refused(
                    400,
                    f"Outputs ending in {kind} are made of inputs ending in {ending} ({names}): "
                    f"{'none is asked for' if sent else 'none was sent'}.",
                )


def answered(catalogue: Catalogue, questions: Sequence[Question]) -> list[Answer]:
    """Answer questions that go together in one prediction."""
    first, model = questions[0], catalogue.model
    arrays = first.arrays if len(questions) == 1 else _joined(questions)
    X, how = catalogue.signature.opened({one.name: arrays[one.name] for one in catalogue.signature.inputs})
    with hearing() as heard:
        inside = _entered(catalogue, arrays, X, how)
        found = _fields(catalogue, first, X, how) | _derivatives(catalogue, first, arrays, X, how)
        seen = sighted(model, inside)
        if any(catalogue.kinds[name][0] == NOVELTY for name in first.wanted):
            p = model.novelty(X, **how).p_value if seen is None or seen.p is None else seen.p
            found[NOVELTY] = to_host(p)
    ends = np.cumsum([0, *(one.samples for one in questions)])
    parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    whole = None if seen is None else seen.said(slice(0, int(ends[-1])))
    answers = []
    for question, rows in zip(questions, parts, strict=True):
        own = None if seen is None else seen.said(rows)
        others = [one for one in heard if one != whole]
        outside = (question.samples if others else 0) if seen is None else seen.outside(rows)
        said = ([own] if own else []) + others
        arrays_of = {name: found[name][rows] for name in question.wanted}
        answers.append(Answer(arrays_of, tuple(said), outside, seen if len(questions) == 1 else None, tuple(others)))
    return answers


def joined_answers(answers: Sequence[Answer]) -> Answer:
    """Answers to blocks of one question, in their order, as one."""
    names = answers[0].arrays
    arrays = {name: np.concatenate([one.arrays[name] for one in answers]) for name in names}
    others = tuple(dict.fromkeys(said for one in answers for said in one.others))
    seen = [one.seen for one in answers if one.seen is not None]
    own = joined(seen).said(slice(0, len(next(iter(arrays.values()))))) if seen else None
    return Answer(arrays, ((own,) if own else ()) + others, sum(one.outside for one in answers))


def _level(parameters: Mapping[str, Any], kinds: set[str]) -> tuple[float, Method]:
    """alpha and method, where an interval is wanted, or a refusal."""
    given = [name for name in ("alpha", "method") if name in parameters]
    if given and not kinds & {".lower", ".upper"}:
        raise Refused(400, f"{given[0]} belongs to outputs ending in .lower and .upper: none is asked for.")
    alpha, method = parameters.get("alpha", ALPHA), parameters.get("method", "sample")
    if type(alpha) not in (int, float) or not 0 < alpha < 1:
        raise Refused(400, "alpha must be a number strictly between 0 and 1.")
    if not isinstance(method, str) or method not in get_args(Method):
        raise Refused(400, f"method must be one of {', '.join(get_args(Method))}.")
    return float(alpha), cast(Method, method)


def _entered(catalogue: Catalogue, arrays: Mapping[str, Values], X: Any, how: Mapping[str, Any]) -> Any:
    """Inputs as the model knows them inside, or a refusal by name: what fails after that is no fault of the caller."""
    packing = catalogue.model.fitted_.packing
    parts = () if packing is None else (*packing.inputs.parts, *packing.outputs.parts)
    holed = {part.name for part in parts if part.holes is not None}
    tensors = {**{one.name: one for one in catalogue.signature.inputs}, **catalogue.further}
    for name, one in arrays.items():
        if tensors[name].part not in holed and not (finite := np.isfinite(one)).all():
            rows = np.flatnonzero(~finite.reshape(len(one), -1).all(axis=1))
            said = nonfinite(name, int(finite.size - finite.sum()), rows, len(one))
            raise Refused(400, said.partition(" To drop")[0])
    try:
        return entered(catalogue.model, X, how)
    except ValueError as error:
        raise Refused(400, " ".join(str(error).split())) from None


def _calibrated_steps(fitted: Any) -> int:
    """Over which the intervals of a flow reach, 0 where there are none."""
    if fitted.calibration is None or fitted.stale or not isinstance(fitted, Flow):
        return 0
    return int(fitted.calibration.points) // math.prod(fitted.model.output_grid)


def _joined(questions: Sequence[Question]) -> dict[str, Values]:
    return {name: np.concatenate([one.arrays[name] for one in questions]) for name in questions[0].arrays}


def _fields(catalogue: Catalogue, question: Question, X: Any, how: Mapping[str, Any]) -> dict[str, Values]:
    """Prediction, spread and interval, as far as they are wanted."""
    kinds = {catalogue.kinds[name][0] for name in question.wanted}
    model, found = catalogue.model, {}
    if kinds & {".lower", ".upper"}:
        band = model.predict_interval(X, question.alpha, question.method, **how)
        found = {"": band.mean, ".std": band.std, ".lower": band.lower, ".upper": band.upper}
    elif ".std" in kinds:
        found = dict(zip(("", ".std"), model.predict(X, return_std=True, **how), strict=True))
    elif "" in kinds:
        found = {"": model.predict(X, **how)}
    by_name: dict[str, Values] = {}
    for suffix, fields in found.items():
        by_name |= {name: to_host(one) for name, one in catalogue.signature.by_name(fields, suffix).items()}
    return by_name


def _derivatives(
    catalogue: Catalogue, question: Question, arrays: Mapping[str, Values], X: Any, how: Mapping[str, Any]
) -> dict[str, Values]:
    kinds = {catalogue.kinds[name][0] for name in question.wanted}
    signature = catalogue.signature
    found: dict[str, Any] = {}
    if ".jvp" in kinds:
        tangents = _container(catalogue.movable, arrays, ".tangent")
        found |= signature.by_name(catalogue.model.jvp(X, tangents, **how), ".jvp")
    if ".vjp" in kinds:
        pulled = catalogue.model.vjp(X, _container(signature.outputs, arrays, ".cotangent"), **how)
        single = _is_single(catalogue.movable)
        found |= {f"{one.name}.vjp": pulled if single else pulled[one.part] for one in catalogue.movable}
    return {name: to_host(one) for name, one in found.items()}


def _container(tensors: Sequence[Tensor], arrays: Mapping[str, Values], ending: str) -> Any:
    """Tensors that were sent, 0 for others, as the model takes them."""
    samples = len(next(iter(arrays.values())))
    parts = {one.part: arrays.get(one.name + ending, np.zeros((samples, *one.shape))) for one in tensors}
    return parts[""] if _is_single(tensors) else parts


def _is_single(tensors: Sequence[Tensor]) -> bool:
    return len(tensors) == 1 and not tensors[0].part


def _has_novelty(model: Any) -> bool:
    fitted = model.fitted_
    record = fitted if isinstance(fitted, Fitted) else getattr(fitted, "model", None)
    return isinstance(record, Fitted) and record.novelty_test is not None
