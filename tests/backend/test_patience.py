import threading
from collections import deque

import pytest

from pcarann.backend.arrays import cuts, place_of
from pcarann.backend.concurrency import concurrently
from pcarann.backend.patience import GivenUp, as_long_as, look_up


def test_blocks_are_cut_as_long_as_somebody_wants_them():
    answers, seen = iter([True, True, False]), []
    with pytest.raises(GivenUp), as_long_as(lambda: next(answers)):
        deque(map(seen.append, cuts(100, 10)))
    assert seen == [slice(0, 10), slice(10, 20)]
    look_up()
    assert len(list(cuts(100, 10))) == 10


def test_the_threads_of_a_call_are_asked_and_others_are_not():
    def looked(_):
        look_up()

    with as_long_as(lambda: False):
        with pytest.raises(GivenUp):
            list(concurrently(looked, range(4), place=place_of(None), bytes_each=1))
        found = []
        alone = threading.Thread(target=lambda: found.append(looked(0)))
        alone.start()
        alone.join()
    assert found == [None]
