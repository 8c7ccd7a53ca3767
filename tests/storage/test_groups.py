"""The group of a file is that of its tables, on its grids, and no larger than its file allows."""

import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.storage.arrays import Arrays
from pcarann.storage.groups import rebuilt_group
from pcarann.storage.limits import Allowance

CIRCLE = np.roll(np.arange(1, 9, dtype=np.int32), 1)[None]
USED = {"copied": [0, 1], "averaged": [0, 2]}


def arrays(tables=CIRCLE, allowed=10**6):
    return Arrays({"symmetry.input": tables, "symmetry.output": tables}, place_of(None), Allowance(allowed))


def test_the_group_comes_back_with_the_elements_in_use():
    group, copied, averaged = rebuilt_group(USED, arrays(), (8, 8))
    assert group.order == 8
    assert (copied, averaged) == ((0, 1), (0, 2))


def test_a_group_whose_tables_are_too_large_is_refused():
    with pytest.raises(ValueError, match="tables of the symmetry hold more than 100 numbers"):
        rebuilt_group(USED, arrays(allowed=400), (8, 8))
    long = np.roll(np.arange(1, 4001, dtype=np.int32), 1)[None]
    with pytest.raises(ValueError, match="hold more than"):
        rebuilt_group(USED, arrays(long, 10**6), (4000, 4000))


def test_other_grids_are_refused():
    with pytest.raises(ValueError, match="does not fit its grids"):
        rebuilt_group(USED, arrays(), (8, 9))


@pytest.mark.parametrize("elements", [[], [1], [0, 8], [0, -1], [0, 1, 1], [0] * 1000])
def test_elements_are_those_of_the_group_each_once(elements):
    with pytest.raises(ValueError, match="elements that the group has not"):
        rebuilt_group(USED | {"averaged": elements}, arrays(), (8, 8))
