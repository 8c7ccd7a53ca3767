"""A model as others call it: its tensors by name, its arithmetic as a graph, and the files made of that."""

from pcarann.export.onnx_file import to_onnx

__all__ = ["to_onnx"]
