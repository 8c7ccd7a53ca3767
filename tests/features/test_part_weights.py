import numpy as np
import pytest
from scipy.optimize import check_grad

from pcarann.backend.arrays import place_of
from pcarann.features import part_weights as module
from pcarann.features.part_weights import part_weights

RNG = np.random.default_rng(0)
A, B, C = (RNG.standard_normal((120, n)) for n in (3, 2, 1))
X = np.concatenate([A, 1e6 * B, 1e-6 * C], axis=1)
Y = np.stack([np.sin(A[:, 0]) + 0.3 * C[:, 0] ** 2, np.cos(A[:, 1])], axis=1)


def test_what_says_nothing_fades_and_units_do_not_count():
    weights, _ = part_weights(X, Y, sizes=(3, 2, 1))
    seen = X * weights
    sizes = [np.sqrt((seen[:, a:b] ** 2).mean(axis=0).sum()) for a, b in ((0, 3), (3, 5), (5, 6))]
    assert sizes[1] < 0.05 * min(sizes[0], sizes[2])
    assert max(sizes) == pytest.approx(1, rel=0.3)


def test_the_gradient_is_that_of_the_likelihood():
    squared = np.stack([module._squared_distances(part) for part in (A, B)])
    y = Y - Y.mean(axis=0)

    def value(point):
        return module._unlikelihood(point, squared, y)[0]

    def gradient(point):
        return module._unlikelihood(point, squared, y)[1]

    for point in ([-1.0, -0.3, -5.0], [0.5, -3.0, -2.0]):
        error = check_grad(value, gradient, point)
        assert error < 1e-5


def test_weights_are_quarters_of_octaves_so_that_rounding_does_not_show():
    weights, _ = module._likeliest([A, B, C], Y)
    assert weights.max() == 1
    steps = 4 * np.log2(weights[weights > module._LEAST])
    assert np.allclose(steps, np.round(steps))
    assert np.array_equal(weights, module._likeliest([A * (1 + 1e-12), B, C], Y)[0])


def test_one_block_has_its_spread_as_unit_and_few_samples_are_no_error():
    assert np.allclose(part_weights(A, Y, sizes=(3,))[0], 1 / np.sqrt((A**2).mean(axis=0).sum()))
    assert np.isfinite(part_weights(X[:3], Y[:3], sizes=(3, 2, 1))[0]).all()
    assert np.isfinite(part_weights(np.zeros((5, 2)), Y[:5], sizes=(1, 1))[0]).all()
    assert np.isfinite(part_weights(A, 0 * Y, sizes=(2, 1))[0]).all()


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    found, _ = part_weights(torch.as_tensor(X), torch.as_tensor(Y), sizes=(3, 2, 1))
    assert place_of(found).xp.__name__.endswith("torch")
    assert np.allclose(found.numpy(), part_weights(X, Y, sizes=(3, 2, 1))[0], rtol=1e-12)
