"""benchmarks/ is a folder of scripts, not a package: importing this makes its modules importable.

A second conftest.py would hide the first from the tests that import it by name.
"""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
