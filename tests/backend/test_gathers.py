"""The adjoint of a gather is the transpose of its matrix, on every library."""

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.backend.gathers import gather_adjoint


@pytest.mark.parametrize("index", [[2, 0, 1], [0, 3, 3, 0, 3, 1], [1]], ids=["moved", "read often", "one of many"])
def test_it_is_the_transpose_of_the_gather(backend, index):
    index, count = np.array(index), 4
    rows = np.random.default_rng(0).normal(size=(5, len(index)))
    found = to_host(gather_adjoint(backend(rows), index, count))
    np.testing.assert_allclose(found, rows @ np.eye(count)[index], atol=1e-15)
