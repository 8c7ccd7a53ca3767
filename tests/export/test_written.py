"""Intervals on a sheet, worked out by hand."""

import numpy as np
from runtime import run

from pcarann.export.graph import Sheet
from pcarann.export.written import Written


def test_the_interval_counts_floor_factor_and_what_lies_beyond():
    sheet = Sheet()
    sigma, delta = sheet.input("sigma", (2,)), sheet.input("delta", (2,))
    with_delta, without = Written(sigma, sigma, delta), Written(sigma, sigma)
    outputs = {
        "std": with_delta.std,
        "half": with_delta.half_width(np.asarray([2.0, 3.0]), 0.5),
        "plain": without.half_width(2.0, 0.5),
        "members": without.std,
    }
    graph = sheet.graph({name: (value, (2,)) for name, value in outputs.items()})
    found = run(graph, sigma=np.array([[3.0, 0.0]]), delta=np.array([[4.0, 2.0]]))
    assert np.allclose(found["std"], [[5.0, 2.0]])
    assert np.allclose(found["half"], [[np.hypot(6, 4), np.hypot(1.5, 2)]])
    assert np.allclose(found["plain"], [[6.0, 1.0]])
    assert np.array_equal(found["members"], [[3.0, 0.0]])
