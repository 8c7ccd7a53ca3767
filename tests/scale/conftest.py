import pytest


@pytest.fixture(scope="session")
def cluster():
    """Two worker processes, which are started again when they die."""
    distributed = pytest.importorskip("distributed")
    options = dict(n_workers=2, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0")
    with distributed.LocalCluster(**options, silence_logs=50) as found:
        yield found
