"""One cluster for all tests of the room: processes take seconds to start."""

import pytest
from distributed import LocalCluster


@pytest.fixture(scope="session")
def cluster():
    """Two worker processes, which are started again when they die."""
    options = dict(n_workers=2, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0")
    with LocalCluster(**options, silence_logs=50) as found:
        yield found
