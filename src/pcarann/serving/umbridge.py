"""UM-Bridge, the protocol of uncertainty quantification, version 1.0: https://um-bridge-benchmarks.readthedocs.io.

    (y₁, …, yₙ) = F(x₁, …, xₘ)        Evaluate
    (∂yₒ/∂xᵢ)ᵀ s                      Gradient
    (∂yₒ/∂xᵢ) v                       ApplyJacobian

How a model is such a map stands in `pcarann.serving.vectors`. The outputs are the mean; with {"output": "std"} as
`config` they are its standard deviation, with {"output": "lower", "alpha": 0.1} or "upper" the ends of intervals of
level 1 − alpha, all without derivatives. Second derivatives are answered by the error of the protocol that says so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pcarann.serving.vectors import VectorMap, VectorSide

__all__ = ["PROTOCOL_VERSION", "Refusal", "answer", "umbridge_routes"]

PROTOCOL_VERSION = 1.0
_SUPPORT = {"Evaluate": True, "Gradient": True, "ApplyJacobian": True, "ApplyHessian": False}
_OUTPUTS = ("mean", "std", "lower", "upper")

Values = np.ndarray[Any, np.dtype[Any]]
Answer = dict[str, Any]
Lookup = Callable[[str], Any]
"""The model of a name as it is now; a KeyError where there is none"""
Run = Callable[..., Awaitable[Answer]]
"""How a server does work that takes time: `await run(function, *arguments)`"""


class Refusal(ValueError):
    """An error of the protocol."""

    def __init__(self, kind: str, message: str, status: int = 400):
        super().__init__(message)
        self.kind, self.status = kind, status

    @property
    def body(self) -> Answer:
        """What is sent"""
        return {"error": {"type": self.kind, "message": str(self)}}


def umbridge_routes(names: Callable[[], Sequence[str]], model: Lookup, run: Run = run_in_threadpool) -> list[Route]:
    """All routes of the protocol, over models by name."""

    async def info(request: Request) -> Response:
        return JSONResponse({"protocolVersion": PROTOCOL_VERSION, "models": list(names())})

    def route(what: str) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                asked = _document(await request.body())
                return JSONResponse(await run(answer, what, _found(asked.get("name"), names, model), asked))
            except Refusal as refused:
                return JSONResponse(refused.body, refused.status)

        return Route(f"/{what}", endpoint, methods=["POST"])

    return [Route("/Info", info, methods=["GET", "POST"]), *map(route, _ANSWERS)]


def answer(what: str, model: Any, asked: Mapping[str, Any]) -> Answer:
    """The answer of a model to a request of this kind, such as "Evaluate"; or a Refusal."""
    config = asked.get("config") or {}
    if not isinstance(config, Mapping):
        raise Refusal("InvalidInput", f"config must be an object, found {type(config).__name__}.")
    try:
        return _ANSWERS[what](VectorMap.of(model), asked, config)
    except Refusal:
        raise
    except ValueError as refused:  # by the model
        raise Refusal("InvalidInput", str(refused)) from refused


def _model_info(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    return {"support": _SUPPORT}


def _input_sizes(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    return {"inputSizes": vectors.inputs.sizes}


def _output_sizes(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    return {"outputSizes": vectors.outputs.sizes}


def _evaluate(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    (output, alpha), inputs = _wanted(config), _inputs(vectors, asked)
    if output in ("lower", "upper"):
        found = vectors.bound(inputs, output, alpha)
    else:
        found = vectors.std(inputs) if output == "std" else vectors.mean(inputs)
    return {"output": [_sent(one) for one in found]}


def _gradient(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    output, source, inputs = _differentiated("Gradient", vectors, asked, config)
    weights = _vector(asked.get("sens"), vectors.outputs.sizes[output], "sens")
    return {"output": _sent(vectors.pulled(inputs, output, weights)[source])}


def _apply_jacobian(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    output, source, inputs = _differentiated("ApplyJacobian", vectors, asked, config)
    change = _vector(asked.get("vec"), vectors.inputs.sizes[source], "vec")
    return {"output": _sent(vectors.pushed(inputs, source, change)[output])}


def _apply_hessian(vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]) -> Answer:
    raise Refusal("UnsupportedFeature", "ApplyHessian is not supported: models have first derivatives.")


_ANSWERS = {
    "ModelInfo": _model_info,
    "InputSizes": _input_sizes,
    "OutputSizes": _output_sizes,
    "Evaluate": _evaluate,
    "Gradient": _gradient,
    "ApplyJacobian": _apply_jacobian,
    "ApplyHessian": _apply_hessian,
}


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("InvalidInput", f"The body is no JSON: {error}.") from error
    if not isinstance(asked, Mapping):
        raise Refusal("InvalidInput", f"The body must be an object, found {type(asked).__name__}.")
    return asked


def _found(name: Any, names: Callable[[], Sequence[str]], model: Lookup) -> Any:
    try:
        return model(str(name))
    except KeyError:
        known = ", ".join(names())
        raise Refusal("ModelNotFound", f"There is no model {str(name)!r}; there are: {known}.") from None


def _wanted(config: Mapping[str, Any]) -> tuple[str, float]:
    """What the outputs are to be, and 1 − the level of intervals."""
    if unknown := sorted(set(config) - {"output", "alpha"}):
        raise Refusal("InvalidInput", f"config has output and alpha: {', '.join(map(str, unknown))} unknown.")
    output, alpha = config.get("output", "mean"), config.get("alpha", 0.05)
    if output not in _OUTPUTS:
        raise Refusal("InvalidInput", f"output must be one of {', '.join(_OUTPUTS)}, found {output!r}.")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        raise Refusal("InvalidInput", f"alpha must be a number, found {alpha!r}.")
    if "alpha" in config and output in ("mean", "std"):
        raise Refusal("InvalidInput", f"alpha belongs to lower and upper, but the output is {output}.")
    return output, float(alpha)


def _differentiated(
    what: str, vectors: VectorMap, asked: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[int, int, list[Values]]:
    """Which output by which input, and where."""
    if (wanted := _wanted(config)[0]) != "mean":
        raise Refusal("UnsupportedFeature", f"{what} is not supported for {wanted}, but for the mean.")
    output, source = _index(asked, "outWrt", vectors.outputs), _index(asked, "inWrt", vectors.inputs)
    return output, source, _inputs(vectors, asked)


def _index(asked: Mapping[str, Any], key: str, side: VectorSide) -> int:
    found, count = asked.get(key), len(side.slots)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < count:
        raise Refusal("InvalidInput", f"{key} must be a whole number from 0 to {count - 1}, found {found!r}.")
    return found


def _inputs(vectors: VectorMap, asked: Mapping[str, Any]) -> list[Values]:
    found, sizes = asked.get("input"), vectors.inputs.sizes
    if not isinstance(found, list) or len(found) != len(sizes):
        count = len(found) if isinstance(found, list) else "none"
        raise Refusal("InvalidInput", f"input must be a list of {len(sizes)} vectors, found {count}.")
    return [_vector(one, size, f"input[{k}]") for k, (one, size) in enumerate(zip(found, sizes, strict=True))]


def _vector(given: Any, size: int, what: str) -> Values:
    if not isinstance(given, list):
        raise Refusal("InvalidInput", f"{what} must be a list of {size} numbers, found {type(given).__name__}.")
    if len(given) != size:
        raise Refusal("InvalidInput", f"{what} must have {size} numbers, found {len(given)}.")
    if not all(type(one) in (int, float) for one in given):
        raise Refusal("InvalidInput", f"{what} must be numbers alone.")
    try:
        return np.asarray(given, dtype=np.float64)
    except OverflowError:
        raise Refusal("InvalidInput", f"{what} has a number that is too large.") from None


def _sent(vector: Values) -> list[float]:
    if not np.all(np.isfinite(vector)):
        raise Refusal("InvalidOutput", "The model answers with NaN or infinity here.", 500)
    found: list[float] = vector.tolist()
    return found
