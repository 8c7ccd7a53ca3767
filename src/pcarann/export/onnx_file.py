"""An ONNX file of a surrogate, which any runtime of that format evaluates: no Python, no `pcarann`.

    to_onnx(model, "model.onnx")                      float64
    to_onnx(model, "model.onnx", single=True)         float32 in and out

The first axis of all tensors counts samples, as many as are asked for. Names are those of `Signature`. Metadata tell
in JSON what tensors are: `pcarann.inputs` and `pcarann.outputs` their names, shapes, columns, coordinates and units,
`pcarann.level` and `pcarann.method` of what level intervals are and what they guarantee. A file does not warn: stages
tell by `pcarann.range` between which values the components of their training inputs lay, [least, largest], beyond which
predictions are not to be trusted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from pcarann import __version__
from pcarann.export.graph import DOUBLE, Graph, Port
from pcarann.export.graphs import graph_of, level_of
from pcarann.export.precision import SINGLE, in_single
from pcarann.export.signature import Signature
from pcarann.export.sizes import check_single
from pcarann.files import atomic_writer, check_target
from pcarann.spatial.fitted import FittedStages
from pcarann.uncertainty.conformal import Method

__all__ = ["OPSET", "graph_bytes", "metadata_of", "onnx_bytes", "ports_of", "to_onnx"]

OPSET = 18
"""Of the operators, those of December 2022"""
_IR_VERSION = 8  # of that opset
_MOST_BYTES = 2**31 - 2**20  # of numbers, that the format can hold in one file beside their names


def to_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    alpha: float | None = None,
    method: Method = "sample",
    single: bool = False,
    steps: int | None = None,
    mean_only: bool = False,
) -> None:
    """Write a fitted surrogate as an ONNX file, atomically.

    Outputs are mean and standard deviation, intervals of level 1 − alpha where the surrogate is calibrated (None is
    0.05 then), and the p-value of each input among those of the training; or the mean alone, which costs less. A flow
    is rolled out over so many steps, those of its fit unless told.
    """
    check_target(path)
    found = onnx_bytes(model, alpha=alpha, method=method, single=single, steps=steps, mean_only=mean_only)
    with atomic_writer(path) as file:
        file.write(found)


def onnx_bytes(
    model: Any,
    *,
    alpha: float | None = None,
    method: Method = "sample",
    single: bool = False,
    steps: int | None = None,
    mean_only: bool = False,
) -> bytes:
    """The ONNX file of a fitted surrogate."""
    if single:
        check_single(model.asked())
    graph = graph_of(model, alpha, method, steps=steps, mean_only=mean_only)
    level = level_of(model, alpha, method, steps=steps, mean_only=mean_only)
    about = metadata_of(model, level, method, single, steps)
    names = [", ".join(one.name for one in ports) for ports in (graph.inputs, graph.outputs)]
    said = (
        f"A surrogate made by pcarann {__version__}: {type(model).__name__}, inputs {names[0]}, outputs {names[1]}. "
        "The first axis counts samples. Metadata pcarann.* are JSON."
    )
    return graph_bytes(graph, about, said, single)


def graph_bytes(graph: Graph, about: Mapping[str, str], said: str = "", single: bool = False) -> bytes:
    """The ONNX file of a graph, with metadata."""
    onnx = _onnx()
    graph = in_single(graph) if single else graph
    size = sum(values.nbytes for values in graph.constants.values())
    if size > _MOST_BYTES:
        raise ValueError(f"The model has {size / 1e9:.1f} GB of numbers, but an ONNX file holds 2 GB at most.")
    proto = onnx.helper.make_model(
        _graph_proto(onnx, graph, SINGLE if single else DOUBLE),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="pcarann",
        producer_version=__version__,
        doc_string=said,
    )
    onnx.helper.set_model_props(proto, dict(about))
    found: bytes = proto.SerializeToString()
    return found


def metadata_of(
    model: Any,
    alpha: float | None = None,
    method: Method = "sample",
    single: bool = False,
    steps: int | None = None,
) -> dict[str, str]:
    """What a file tells of a surrogate, as JSON by name; alpha is None where it has no intervals."""
    signature = Signature.of(model, steps)
    about: dict[str, Any] = {
        "kind": type(model).__name__,
        "version": __version__,
        "precision": "float32" if single else "float64",
        "inputs": [{"name": one.name, "shape": one.shape} | one.known for one in signature.inputs],
        "outputs": [{"name": one.name, "shape": one.shape} | one.known for one in signature.outputs],
        "level": None if alpha is None else 1 - alpha,
        "method": None if alpha is None else method,
    }
    step = getattr(model.asked(), "model", model.asked())  # of a flow
    if isinstance(step, FittedStages):
        about["range"] = [[end * step.units.inputs for end in ends] for ends in step.value_range]
    mesh = getattr(model, "mesh_", None)
    if mesh is not None:
        about["mesh"] = {"points": mesh.points.tolist(), "cells": {name: c.tolist() for name, c in mesh.cells.items()}}
    return {f"pcarann.{name}": json.dumps(value, ensure_ascii=False) for name, value in about.items()}


def ports_of(file: bytes) -> tuple[list[str], list[str]]:
    """Names of the inputs and outputs of an ONNX file with their shapes, as one reads them."""
    graph = _onnx().load_from_string(file).graph
    names = []
    for ports in (graph.input, graph.output):
        shapes = [[dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in ports]
        pairs = zip(ports, shapes, strict=True)
        names.append([f"{one.name} ({', '.join(map(str, shape))})" for one, shape in pairs])
    return names[0], names[1]


def _graph_proto(onnx: Any, graph: Graph, real: int) -> Any:
    """The graph in the words of ONNX; ports are of this kind of numbers."""
    make = onnx.helper

    def port(one: Port) -> Any:
        return make.make_tensor_value_info(one.name, real, ["samples", *one.shape])

    nodes = [make.make_node(node.operator, node.inputs, [node.output], **node.attributes) for node in graph.nodes]
    constants = [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    return make.make_graph(
        nodes, "pcarann", [port(one) for one in graph.inputs], [port(one) for one in graph.outputs], constants
    )


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX files need onnx: install it with pip install 'pcarann[onnx]'.") from None
    import onnx.helper
    import onnx.numpy_helper

    return onnx
