"""Seconds and memory of a call: a known allocation is found, whatever the process did before."""

import json
import subprocess
import sys

import pytest
from benchmarks_path import BENCHMARKS

MEBIBYTE = 1 << 20

SCRIPT = """
import json, sys
sys.path.insert(0, {folder!r})
import numpy as np
from measure import measured
from pcarann.backend.arrays import place_of
held = np.ones({before} << 17)        # MiB that the process held once, above what the call takes
del held
_, record = measured(lambda: np.ones(64 << 17).sum(), place=place_of(None))
print(json.dumps(record))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the high-water mark can be reset on Linux alone")
@pytest.mark.parametrize("before", [1, 256])
def test_the_peak_is_what_the_call_allocates(before):
    ballast = bytearray(300 * MEBIBYTE)  # a child does not inherit its parent's mark
    script = SCRIPT.format(folder=str(BENCHMARKS), before=before)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert len(ballast) == 300 * MEBIBYTE
    assert 60 * MEBIBYTE <= record["peak_bytes"] <= 72 * MEBIBYTE
    assert record["seconds"] > 0
