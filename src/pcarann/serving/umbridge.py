"""UM-Bridge, the protocol of uncertainty quantification, version 1.0: https://um-bridge-benchmarks.readthedocs.io.

    (y₁, …, yₙ) = F(x₁, …, xₘ)        Evaluate
    (∂yₒ/∂xᵢ)ᵀ s                      Gradient
    (∂yₒ/∂xᵢ) v                       ApplyJacobian

How a model is such a map stands in `pcarann.serving.vectors`. The outputs are the mean; with {"output": "std"} as
`config` they are its standard deviation, with {"output": "lower", "alpha": 0.1} or "upper" the ends of intervals of
level 1 − alpha, by a `method`, all without derivatives. A flow takes `steps`. Second derivatives there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pcarann.serving.answers import Answer
from pcarann.serving.app import Addition
from pcarann.serving.bodies import Pieces, body_of
from pcarann.serving.guards import as_json
from pcarann.serving.limits import Refused
from pcarann.serving.service import Service
from pcarann.serving.shelf import Entry
from pcarann.serving.vectors import Values, Vector, VectorMap
from pcarann.serving.wire import listed, parsed

__all__ = ["UMBRIDGE", "Bridge", "Unsupported", "as_protocol_error"]

_VERSION = 1.0
_SUPPORT = {"Evaluate": True, "Gradient": True, "ApplyJacobian": True, "ApplyHessian": False}
_SUFFIXES = {"mean": "", "std": ".std", "lower": ".lower", "upper": ".upper"}
_OF_INTERVALS = ("alpha", "method")
_CONFIG = ("output", *_OF_INTERVALS, "steps")
_KINDS = {404: "ModelNotFound", 500: "InvalidOutput"}


class Unsupported(Refused):
    """What a model cannot do."""

    def __init__(self, why: str):
        super().__init__(400, why)


def as_protocol_error(refused: Refused) -> Response:
    """A refusal as the protocol words it."""
    kind = "UnsupportedFeature" if isinstance(refused, Unsupported) else _KINDS.get(refused.status, "InvalidInput")
    status = 400 if refused.status == 404 else refused.status
    return as_json({"error": {"type": kind, "message": refused.why}}, status, refused.headers)


@dataclass(frozen=True, eq=False)
class _Call:
    """A question to a model, in the words of its tensors."""

    entry: Entry
    vectors: VectorMap
    parameters: Mapping[str, Any]
    suffix: str
    """Of the tensors that are wanted"""
    arrays: Mapping[str, Values] = field(default_factory=dict)
    wanted: tuple[Vector, ...] = ()
    alone: bool = False
    """Whether one vector is sent, in place of a list of them"""


Read = Callable[[Mapping[str, Any]], _Call]


class Bridge:
    """The protocol on a service."""

    def __init__(self, service: Service):
        self.service = service

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        posted: dict[str, Any] = {
            "/ModelInfo": self.model_info,
            "/InputSizes": self.input_sizes,
            "/OutputSizes": self.output_sizes,
            "/Evaluate": self.evaluate,
            "/Gradient": self.gradient,
            "/ApplyJacobian": self.apply_jacobian,
            "/ApplyHessian": self.apply_hessian,
        }
        both = Route("/Info", self.info, methods=["GET", "POST"])
        return [both, *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posted.items())]

    async def info(self, request: Request) -> Response:
        """Names of all models."""
        request.scope["pcarann.counted"] = ("metadata", "")
        return as_json({"protocolVersion": _VERSION, "models": [one.name for one in self.service.shelf.entries]})

    async def model_info(self, request: Request) -> Response:
        """What can be asked of a model."""
        await self._call(request, self._asked, "metadata")
        return as_json({"support": _SUPPORT})

    async def input_sizes(self, request: Request) -> Response:
        """Lengths of the vectors that go in."""
        call = await self._call(request, self._asked, "metadata")
        return as_json({"inputSizes": [one.size for one in call.vectors.inputs]})

    async def output_sizes(self, request: Request) -> Response:
        """Lengths of the vectors that come out."""
        call = await self._call(request, self._asked, "metadata")
        return as_json({"outputSizes": [one.size for one in call.vectors.outputs]})

    async def evaluate(self, request: Request) -> Response:
        """F(x₁, …, xₘ)."""
        return await self._answer(request, self._evaluated)

    async def gradient(self, request: Request) -> Response:
        """(∂yₒ/∂xᵢ)ᵀ s."""

        def read(asked: Mapping[str, Any]) -> _Call:
            call, output, source = self._differentiated(asked)
            weights = {f"{output.name}.cotangent": output.field(_numbers(asked.get("sens"), output.size, "sens"))}
            return replace(call, suffix=".vjp", arrays={**call.arrays, **weights}, wanted=(source,), alone=True)

        return await self._answer(request, read)

    async def apply_jacobian(self, request: Request) -> Response:
        """(∂yₒ/∂xᵢ) v."""

        def read(asked: Mapping[str, Any]) -> _Call:
            call, output, source = self._differentiated(asked)
            change = {f"{source.name}.tangent": source.field(_numbers(asked.get("vec"), source.size, "vec"))}
            return replace(call, suffix=".jvp", arrays={**call.arrays, **change}, wanted=(output,), alone=True)

        return await self._answer(request, read)

    async def apply_hessian(self, request: Request) -> Response:
        """Refused."""
        await self._call(request, self._asked)
        raise Unsupported("ApplyHessian is not supported: models have first derivatives.")

    async def _call(self, request: Request, read: Read, route: str = "infer") -> _Call:
        """What is made of the body."""
        body = await body_of(request, self.service.limits)
        if (ticket := request.scope.get("pcarann.ticket")) is not None:
            ticket.take_parsed(len(body))
        call = await self.service.aside(lambda: read(parsed(body, self.service.limits.json)), len(body))
        request.scope["pcarann.counted"] = (route, call.entry.name)
        return call

    async def _answer(self, request: Request, read: Read) -> Response:
        call, ticket = await self._call(request, read), request.scope.get("pcarann.ticket")
        names = [one.name + call.suffix for one in call.wanted]
        answer = await self.service.ask(call.entry, call.arrays, names, call.parameters, ticket, lambda name: True)

        def written() -> list[bytes]:
            found = [b'{"output":' if call.alone else b'{"output":[']
            for n, (vector, name) in enumerate(zip(call.wanted, names, strict=True)):
                found += [b"," * bool(n), *listed(_sent(vector, answer, name))]
            return [*found, b"}" if call.alone else b"]}"]

        size = sum(one.nbytes for one in answer.arrays.values())
        return Pieces(await self.service.aside(written, size), self.service.limits, {}, "application/json")

    def _asked(self, asked: Mapping[str, Any]) -> _Call:
        """The model, and what `config` asks for."""
        entry, config = self.service.shelf.entry(str(asked.get("name"))), asked.get("config")
        config = {} if config is None else config
        if not isinstance(config, dict):
            raise Refused(400, f"config must be an object, found {type(config).__name__}.")
        if unknown := [name for name in config if name not in _CONFIG]:
            raise Refused(400, f"config has no entry {unknown[0][:100]}: {', '.join(_CONFIG)}.")
        output = config.get("output", "mean")
        if not isinstance(output, str) or output not in _SUFFIXES:
            raise Refused(400, f"output must be one of {', '.join(_SUFFIXES)}, found {str(output)[:100]}.")
        if output in ("mean", "std") and any(name in config for name in _OF_INTERVALS):
            raise Refused(400, f"{' and '.join(_OF_INTERVALS)} belong to lower and upper, but the output is {output}.")
        parameters = {name: value for name, value in config.items() if name != "output"}
        steps = self.service.catalogue(entry, config.get("steps")).signature.steps
        return _Call(entry, VectorMap.of(entry.model, steps), parameters, _SUFFIXES[output])

    def _evaluated(self, asked: Mapping[str, Any]) -> _Call:
        """The same with all inputs."""
        call = self._asked(asked)
        given, vectors = asked.get("input"), call.vectors.inputs
        if not isinstance(given, list) or len(given) != len(vectors):
            found = len(given) if isinstance(given, list) else "none"
            raise Refused(400, f"input must be a list of {len(vectors)} vectors, found {found}.")
        pairs = enumerate(zip(vectors, given, strict=True))
        arrays = {vector.name: vector.field(_numbers(one, vector.size, f"input[{k}]")) for k, (vector, one) in pairs}
        return replace(call, arrays=arrays, wanted=call.vectors.outputs)

    def _differentiated(self, asked: Mapping[str, Any]) -> tuple[_Call, Vector, Vector]:
        """The same, with the output that is to be differentiated and the input by which."""
        call = self._evaluated(asked)
        if call.suffix:
            raise Unsupported(f"{call.suffix[1:]} has no derivatives, only the mean has.")
        output = _chosen(asked, "outWrt", call.vectors.outputs)
        source = _chosen(asked, "inWrt", call.vectors.inputs)
        if source.name not in [one.name for one in call.entry.catalogue.movable]:
            raise Unsupported(f"There are no derivatives by {source.name}.")
        return call, output, source


UMBRIDGE = Addition(
    lambda service: Bridge(service).routes(),
    worded=dict.fromkeys(
        ("/Info", "/ModelInfo", "/InputSizes", "/OutputSizes", *(f"/{name}" for name in _SUPPORT)), as_protocol_error
    ),
)
"""What `application` takes to speak it"""


def _chosen(asked: Mapping[str, Any], key: str, vectors: tuple[Vector, ...]) -> Vector:
    index = asked.get(key)
    if type(index) is not int or not 0 <= index < len(vectors):
        found = str(index)[:100]
        raise Refused(400, f"{key} must be a whole number from 0 to {len(vectors) - 1}, found {found}.")
    return vectors[index]


def _numbers(given: Any, size: int, what: str) -> Values:
    if not isinstance(given, list):
        raise Refused(400, f"{what} must be a list of {size} numbers, found {type(given).__name__}.")
    if len(given) != size:
        raise Refused(400, f"{what} must have {size} numbers, found {len(given)}.")
    if not all(type(one) in (int, float) for one in given):
        raise Refused(400, f"{what} must be numbers alone.")
    try:
        return np.asarray(given, dtype=np.float64)
    except OverflowError:
        raise Refused(400, f"{what} has a number that is too large.") from None


def _sent(vector: Vector, answer: Answer, name: str) -> Values:
    values = vector.values(answer.arrays[name])
    if not np.isfinite(values).all():
        few = next((one for one in answer.said if "calibration samples are too few" in one), None)
        raise Refused(500, f"{vector.name} came out with NaN or infinity.") if few is None else Refused(400, few)
    return values
