import pytest


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCARANN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
