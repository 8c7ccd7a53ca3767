"""The scripts of examples/, as modules: some have the names of benchmarks."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

__all__ = ["example"]

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> Any:
    """A script, under a name of its own."""
    spec = spec_from_file_location(f"example_{name}", _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
