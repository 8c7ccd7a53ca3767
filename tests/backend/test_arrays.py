import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.backend.arrays import (
    cholesky,
    concurrently,
    place_of,
    product_into,
    row_quantiles,
    single_threaded,
    solve_cholesky,
    solve_lower,
    tanh_inplace,
    to_host,
    triangle,
)

RNG = np.random.default_rng(0)
SPD = np.cov(RNG.normal(size=(5, 50)))


def test_row_quantiles_are_numpys(backend):
    data, levels = RNG.normal(size=(6, 31)), RNG.uniform(0, 1, 6)
    expected = [np.quantile(row, level) for row, level in zip(data, levels, strict=True)]
    assert np.allclose(to_host(row_quantiles(backend(data), backend(levels))), expected, rtol=1e-14)


def test_quantile_at_level_one_is_the_maximum(backend):
    data = RNG.normal(size=(2, 9))
    assert np.allclose(to_host(row_quantiles(backend(data), backend(np.ones(2)))), data.max(axis=1))


def test_cholesky_factors_and_solves(backend):
    lower, rhs = cholesky(backend(SPD)), RNG.normal(size=(5, 2))
    assert np.allclose(to_host(lower @ lower.T), SPD)
    assert np.allclose(SPD @ to_host(solve_cholesky(lower, backend(rhs))), rhs)
    assert np.allclose(to_host(lower @ solve_lower(lower, backend(rhs))), rhs)
    assert np.allclose(to_host(lower.T @ solve_lower(lower, backend(rhs), transposed=True)), rhs)


@pytest.mark.parametrize("n", [1, 64, 65, 300])
@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems_of_any_size_are_solved(backend, n, transposed):
    lower = np.tril(RNG.normal(size=(n, n))) / np.sqrt(n) + 2 * np.eye(n)
    wanted = RNG.normal(size=(n, 3))
    rhs = (lower.T if transposed else lower) @ wanted
    found = to_host(solve_lower(backend(lower), backend(rhs), transposed=transposed))
    assert np.allclose(found, wanted, rtol=0, atol=1e-12)


def test_triangle_is_that_of_a_qr_factorisation(backend):
    matrix = RNG.normal(size=(9, 4))
    R = to_host(triangle(backend(matrix)))
    assert R.shape == (4, 4)
    assert not np.tril(R, -1).any()
    assert np.allclose(R.T @ R, matrix.T @ matrix)


def test_a_product_is_written_where_it_is_wanted(backend):
    memory, left, right = backend(np.zeros((3, 2))), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    product_into(memory, backend(left), backend(right))
    assert np.allclose(to_host(memory), left @ right)


def test_cholesky_of_an_indefinite_matrix_is_none(backend):
    assert cholesky(backend(np.diag([1.0, -1.0]))) is None


def test_tanh_inplace_is_tanh(backend):
    data = RNG.normal(size=(3, 4))
    assert np.allclose(to_host(tanh_inplace(backend(data.copy()))), np.tanh(data), rtol=1e-14)


@pytest.mark.parametrize("bytes_each", [1, 2 << 30], ids=["threads", "one at a time"])
def test_concurrent_results_come_in_order(bytes_each):
    found = concurrently(lambda n: n * n, range(20), place=place_of(None), bytes_each=bytes_each)
    assert list(found) == [n * n for n in range(20)]


def test_put_leaves_a_float64_array_where_it_is(backend):
    array = backend(np.ones((2, 2)))
    assert place_of(array).put(array) is array or np.shares_memory(to_host(place_of(array).put(array)), to_host(array))


@pytest.mark.parametrize("dtype", [">f8", ">i4", "f2", "f4", "i8", "u1"])
def test_put_converts_any_real_type_to_float64(backend, dtype):
    numbers = np.arange(6).reshape(2, 3).astype(dtype)
    found = place_of(backend(np.zeros(1))).put(numbers)
    assert to_host(found).dtype == np.float64
    assert np.array_equal(to_host(found), np.arange(6.0).reshape(2, 3))


def test_put_takes_negative_strides_and_read_only_memory(backend):
    numbers = np.arange(6.0)
    numbers.setflags(write=False)
    assert np.array_equal(to_host(place_of(backend(np.zeros(1))).put(numbers[::-1])), np.arange(6.0)[::-1])


def test_device_cpu_keeps_torch_arrays_in_torch():
    torch = pytest.importorskip("torch")
    assert place_of(torch.zeros(1), "cpu").device == torch.device("cpu")


@pytest.mark.parametrize(("device", "says"), [("tpu", "got 'tpu'"), (3, "got 3"), ("cuda", "cuda")])
def test_a_device_that_is_not_there_is_refused(device, says):
    torch = pytest.importorskip("torch")
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=says):
        place_of(None, device)


def test_overlapping_limits_on_linear_algebra_are_lifted_by_the_last():
    from threadpoolctl import threadpool_info

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    first, second = single_threaded(place_of(None)), single_threaded(place_of(None))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before


# Torch on a CPU


SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 2, "scales": "energy"}


def test_numpy_computes_for_torch_tensors_on_a_cpu(pairs):
    torch = pytest.importorskip("torch")
    place = PCARaNN(**SMALL).fit(*(torch.asarray(part) for part in pairs[:90])).ensemble_.place
    assert isinstance(place.zeros(1), np.ndarray)


def test_torch_tensors_on_a_cpu_give_numpys_predictions_as_tensors(pairs):
    torch = pytest.importorskip("torch")
    model = PCARaNN(**SMALL).fit(*(torch.asarray(part) for part in pairs[:90]))
    found = model.predict(torch.asarray(pairs.inputs[90:]))
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), PCARaNN(**SMALL).fit(*pairs[:90]).predict(pairs.inputs[90:]))
