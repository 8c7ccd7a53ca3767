import sys

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.backend.arrays import place_of, product_into, row_quantiles, tanh_inplace, to_host

RNG = np.random.default_rng(0)


def test_row_quantiles_are_numpys(backend):
    data, levels = RNG.normal(size=(6, 31)), RNG.uniform(0, 1, 6)
    expected = [np.quantile(row, level) for row, level in zip(data, levels, strict=True)]
    assert np.allclose(to_host(row_quantiles(backend(data), backend(levels))), expected, rtol=1e-14)


def test_quantile_at_level_one_is_the_maximum(backend):
    data = RNG.normal(size=(2, 9))
    assert np.allclose(to_host(row_quantiles(backend(data), backend(np.ones(2)))), data.max(axis=1))


def test_a_product_is_written_where_it_is_wanted(backend):
    memory, left, right = backend(np.zeros((3, 2))), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    product_into(memory, backend(left), backend(right))
    assert np.allclose(to_host(memory), left @ right)


def test_tanh_inplace_is_tanh(backend):
    data = RNG.normal(size=(3, 4))
    assert np.allclose(to_host(tanh_inplace(backend(data.copy()))), np.tanh(data), rtol=1e-14)


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


def test_without_torch_a_gpu_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"device='cuda' needs PyTorch: install it with pip .*'pcarann\[torch\]'"):
        place_of(np.ones(1), "cuda")
