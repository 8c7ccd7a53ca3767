"""Routes of the Open Inference Protocol, version 2 (KServe, Triton), and /metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pcarann import __version__
from pcarann.export.signature import NOVELTY, Tensor
from pcarann.serving import wire
from pcarann.serving.answers import Answer, Catalogue
from pcarann.serving.bodies import Pieces, body_of
from pcarann.serving.guards import as_json
from pcarann.serving.limits import Refused, Ticket
from pcarann.serving.service import Service
from pcarann.serving.shelf import Entry
from pcarann.uncertainty.conformal import ALPHA

__all__ = ["Inference", "metadata"]

_HEADER = "inference-header-content-length"
_PARAMETERS = ("alpha", "method", "steps", "timeout", "datatype", "binary_data_output")


class Inference:
    """The protocol on a service."""

    def __init__(self, service: Service):
        self.service = service

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        model = "/v2/models/{name}"
        found: list[BaseRoute] = [
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.able),
            Route("/v2/models", self.models),
            Route("/v2/repository/index", self.index, methods=["POST"]),
            Route("/metrics", self.metrics),
        ]
        for path in (model, model + "/versions/{version}"):
            found += [
                Route(path, self.about),
                Route(path + "/ready", self.ready),
                Route(path + "/infer", self.infer, methods=["POST"]),
            ]
        return found

    async def server(self, request: Request) -> Response:
        """What this server is."""
        request.scope["pcarann.counted"] = ("metadata", "")
        return as_json({"name": "pcarann", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def live(self, request: Request) -> Response:
        """Whether it answers."""
        request.scope["pcarann.counted"] = ("health", "")
        return as_json({"live": True})

    async def able(self, request: Request) -> Response:
        """Whether it has models, which are read before it begins, and can ask them."""
        request.scope["pcarann.counted"] = ("health", "")
        if (stuck := self.service.batcher.stuck) > self.service.limits.seconds:
            raise Refused(503, f"No worker has been free for {stuck:.0f} s: try again.", {"Retry-After": "1"})
        return as_json({"ready": True})

    async def models(self, request: Request) -> Response:
        """Names of all models."""
        request.scope["pcarann.counted"] = ("metadata", "")
        return as_json({"models": [one.name for one in self.service.shelf.entries]})

    async def index(self, request: Request) -> Response:
        """All models, as clients of Triton ask for them."""
        await body_of(request, self.service.limits)
        entries = self.service.shelf.entries
        known = [{"name": one.name, "version": str(one.version), "state": "READY", "reason": ""} for one in entries]
        return as_json(known)

    async def metrics(self, request: Request) -> Response:
        """What was counted."""
        request.scope["pcarann.counted"] = ("metrics", "")
        return Response(self.service.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def about(self, request: Request) -> Response:
        """The tensors of a model."""
        return as_json(metadata(self._entry(request, "metadata")))

    async def ready(self, request: Request) -> Response:
        """Whether a model answers; and why its file as it is now does not."""
        entry = self._entry(request, "health")
        return as_json({"name": entry.name, "ready": True} | ({"stale": entry.trouble} if entry.trouble else {}))

    async def infer(self, request: Request) -> Response:
        """Answer a question to a model."""
        service, entry = self.service, self._entry(request, "infer")
        length, body = _json_length(request), await body_of(request, service.limits)
        ticket: Ticket | None = request.scope.get("pcarann.ticket")
        asked = await self._read(entry, body, length, ticket)
        binary = _binary(asked)
        answer = await service.ask(
            entry, asked.inputs, [one.name for one in asked.outputs], asked.parameters, ticket, lambda x: not binary(x)
        )
        size = sum(one.nbytes for one in answer.arrays.values())
        text, follow = await service.aside(lambda: _written(entry, asked, answer), size)
        headers = {_HEADER: str(sum(map(len, text)))} if follow else {}
        kind = "application/octet-stream" if follow else "application/json"
        return Pieces([*text, *follow], service.limits, headers, kind)

    async def _read(self, entry: Entry, body: bytes, length: int | None, ticket: Ticket | None) -> wire.Request:
        """What was sent: first what it says of itself, and its tensors when their memory was admitted."""
        service = self.service
        if ticket is not None:
            ticket.take_parsed(len(body) if length is None else min(length, len(body)))
        draft = await service.aside(lambda: wire.drafted(body, length, service.limits.json), len(body))
        check_parameters(draft.parameters)
        wanted = [one.name for one in draft.outputs]
        service.catalogue(entry, draft.parameters.get("steps")).question(draft.outline, wanted, draft.parameters)
        if ticket is not None:
            ticket.take(draft.size)
        return await service.aside(draft.request, len(body))

    def _entry(self, request: Request, route: str) -> Entry:
        entry = self.service.shelf.entry(request.path_params["name"], request.path_params.get("version"))
        request.scope["pcarann.counted"] = (route, entry.name)
        return entry


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of a request that would do nothing, or mean nothing."""
    if unknown := [name for name in parameters if name not in _PARAMETERS]:
        raise Refused(400, f"There is no parameter {unknown[0][:100]}: {', '.join(_PARAMETERS)}.")
    if parameters.get("datatype", "FP64") not in ["FP64", "FP32"]:
        raise Refused(400, "datatype, that of the outputs, must be FP64 or FP32.")
    timeout = parameters.get("timeout", 1)
    if type(timeout) is not int or timeout < 1:
        raise Refused(400, "timeout must be a whole number of microseconds.")
    if type(parameters.get("binary_data_output", False)) is not bool:
        raise Refused(400, "binary_data_output must be true or false.")


def metadata(entry: Entry) -> dict[str, Any]:
    """What a caller has to know of a model; what is known beyond names and shapes stands in parameters."""
    catalogue = entry.catalogue
    fitted = entry.model.fitted_
    about: dict[str, Any] = {"kind": type(entry.model).__name__, "calibrated": catalogue.calibrated, "mark": entry.mark}
    if catalogue.calibrated:
        about |= {"level": 1 - ALPHA, "calibration_samples": fitted.calibration.n_samples}
    if catalogue.signature.steps is not None:
        about["steps"] = catalogue.signature.steps
    return {
        "name": entry.name,
        "versions": [str(entry.version)],
        "platform": "pcarann",
        "inputs": [_worded(one, one.name) for one in catalogue.signature.inputs],
        "outputs": [_output(catalogue, name) for name in catalogue.kinds],
        "parameters": about,
    }


def _output(catalogue: Catalogue, name: str) -> dict[str, Any]:
    kind, owner = catalogue.kinds[name]
    signature = catalogue.signature
    if kind == NOVELTY:
        return _worded(Tensor(name, catalogue.shape(name)), name, asked=True)
    side = signature.inputs if kind == ".vjp" else signature.outputs
    tensor = next(one for one in side if one.name == owner)
    needs = {".jvp": (catalogue.movable, ".tangent"), ".vjp": (signature.outputs, ".cotangent")}.get(kind)
    more = {} if needs is None else {"made_of": [one.name + needs[1] for one in needs[0]]}
    return _worded(tensor, name, asked=kind != "", **more)


def _worded(tensor: Tensor, name: str, asked: bool = False, **more: Any) -> dict[str, Any]:
    known = tensor.known | ({"on_request": True} if asked else {}) | more
    return {"name": name, "datatype": "FP64", "shape": [-1, *tensor.shape]} | ({"parameters": known} if known else {})


def _json_length(request: Request) -> int | None:
    text = request.headers.get(_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Refused(400, "Inference-Header-Content-Length must be a whole number.")
    return int(text)


def _binary(asked: wire.Request) -> Callable[[str], bool]:
    """Whether an output is sent as bytes."""
    default = bool(asked.parameters.get("binary_data_output", False))
    said = {one.name: one.binary for one in asked.outputs if one.binary is not None}
    return lambda name: said.get(name, default)


def _written(entry: Entry, asked: wire.Request, answer: Answer) -> tuple[list[bytes], list[memoryview]]:
    about: dict[str, Any] = {"model_name": entry.name, "model_version": str(entry.version)}
    about |= {} if asked.id is None else {"id": asked.id}
    about |= {"parameters": {"warning": " ".join(answer.said)}} if answer.said else {}
    is_binary = _binary(asked)
    binary = {name: is_binary(name) for name in answer.arrays}
    return wire.written(about, answer.arrays, binary, asked.parameters.get("datatype", "FP64"))
