"""Data: four problems that are generated from a seed, and files of input and output fields."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcarann.problems.dataset import OperatorData
    from pcarann.problems.meshes import read_mesh, write_mesh_fields, write_mesh_samples
    from pcarann.problems.readers import describe, read
    from pcarann.problems.selection import DataFileError

__all__ = [
    "DataFileError",
    "OperatorData",
    "describe",
    "read",
    "read_mesh",
    "write_mesh_fields",
    "write_mesh_samples",
]

_HOME = {"DataFileError": "selection", "OperatorData": "dataset", "describe": "readers", "read": "readers"}
_HOME |= dict.fromkeys(("read_mesh", "write_mesh_fields", "write_mesh_samples"), "meshes")
_PROBLEMS = ("backward_heat", "burgers", "darcy", "navier_stokes")


def __getattr__(name: str) -> Any:
    """Import a public name, or one of the problems, at first use."""
    if name in _PROBLEMS:
        return import_module(f"pcarann.problems.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pcarann.problems' has no attribute {name!r}")
    return getattr(import_module(f"pcarann.problems.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_PROBLEMS])
