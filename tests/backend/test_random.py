import numpy as np
import pytest
from scipy import stats

from pcarann.backend.arrays import place_of, to_host
from pcarann.backend.random import normal, permutation, uniform

HOST = place_of(None)


def splitmix64(key: int, count: int) -> list[float]:
    """The published generator, in Python integers."""
    word, numbers = (1 << 64) - 1, []
    for _ in range(count):
        key = (key + 0x9E3779B97F4A7C15) & word
        z = key
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        z ^= z >> 31
        numbers.append((z >> 11) * 2.0**-53)
    return numbers


def test_uniform_is_the_published_splitmix64():
    from pcarann.backend.random import key_of

    found = uniform((5,), seed=3, stream=(1, 2), place=HOST)
    assert found.tolist() == splitmix64(key_of(3, (1, 2)), 5)


def test_every_backend_draws_the_same_bits(backend):
    place = place_of(backend(np.zeros(1)))
    found = to_host(uniform((70_000,), seed=7, stream=(0, 1), place=place, low=-1.0))
    assert np.array_equal(found, uniform((70_000,), seed=7, stream=(0, 1), place=HOST, low=-1.0))


def test_a_longer_stream_begins_with_the_shorter_one():
    long = uniform((100_000,), seed=1, stream=(4,), place=HOST)
    assert np.array_equal(long[:40_000], uniform((40_000,), seed=1, stream=(4,), place=HOST))


@pytest.mark.parametrize(("seed", "stream"), [(2, (0, 1)), (1, (1, 1)), (1, (0, 2))])
def test_other_seeds_and_streams_are_uncorrelated(seed, stream):
    first = uniform((20_000,), seed=1, stream=(0, 1), place=HOST)
    second = uniform((20_000,), seed=seed, stream=stream, place=HOST)
    # The correlation of independent samples has standard deviation n^-1/2; five of those are one in a million.
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(20_000)


def test_uniform_numbers_pass_a_kolmogorov_smirnov_test():
    assert stats.kstest(uniform((50_000,), seed=0, stream=(1,), place=HOST), "uniform").pvalue > 1e-3


def test_normal_numbers_pass_a_kolmogorov_smirnov_test():
    assert stats.kstest(normal((50_000,), seed=0, stream=(1,), place=HOST), "norm").pvalue > 1e-3


def test_permutation_holds_every_index_once_and_depends_on_the_seed():
    first, second = (permutation(100, seed=s, stream=(0,)) for s in (0, 1))
    assert sorted(first) == list(range(100)) == sorted(second)
    assert first != second
