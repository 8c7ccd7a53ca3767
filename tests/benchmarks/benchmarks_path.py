"""benchmarks/ is a folder of scripts, not a package: importing this makes its modules importable.

A second conftest.py would hide the first from the tests that import it by name.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))


def benchmark_of(name):
    """A script of benchmarks/ under a name of its own: examples/ or the package may have the same."""
    spec = spec_from_file_location(f"{name}_benchmark", BENCHMARKS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
