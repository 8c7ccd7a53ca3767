import warnings

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.arrays import to_host
from pcarann.novelty import Reach
from pcarann.pca import fit_pca


@pytest.fixture(scope="module")
def fitted(pairs):
    return PCARaNN(n_components=0.9999, widths=(40, 30), n_members=3, scales="energy").fit(*pairs[:200])


def measured(fields, components, wrap=np.asarray):
    """A PCA with the latents and the reach of its own training fields."""
    pca, x = fit_pca(wrap(fields), components)
    return pca, x, Reach.of(pca, wrap(fields), x, range(len(fields)))


def rough_fields(samples=50, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, 8)) * 0.5 ** np.arange(8)


def test_inputs_far_from_the_training_data_are_reported(fitted, pairs):
    inside, outside = pairs.inputs[200:205], 50 * pairs.inputs[200:205]
    rough = pairs.inputs[200:205] + 5 * (-1.0) ** np.arange(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(inside)
    for far in (outside, rough):
        with pytest.warns(UserWarning, match="5 of 5 inputs lie more than 3 times as far"):
            fitted.predict(far)
    assert fitted.novelty(inside).distance.max() < 1.5
    assert fitted.novelty(outside).distance.min() > 3
    assert fitted.novelty(rough).residual.min() > 3


def test_the_farthest_training_sample_is_the_unit_of_both_distances(backend):
    fields = rough_fields()
    pca, x, reach = measured(fields, 3, backend)
    found = reach.novelty(pca, x, backend(fields), x)
    assert to_host(found.residual).max() == pytest.approx(1.0)
    assert to_host(found.distance).max() == pytest.approx(1.0)


def test_distances_are_those_written_out(backend):
    fields, new = rough_fields(), rough_fields(9, seed=1)
    pca, x, reach = measured(fields, 3, backend)
    codes = pca.encode(backend(new))
    found = reach.novelty(pca, x, backend(new), codes)
    modes, mean = to_host(pca.modes), to_host(pca.mean)

    def missed(rows):
        return np.linalg.norm(rows - mean - (rows - mean) @ modes.T @ modes, axis=1)

    def apart(rows):
        return np.sqrt((((rows - mean) @ modes.T) ** 2 / (((fields - mean) @ modes.T) ** 2).mean(axis=0)).mean(axis=1))

    assert np.allclose(to_host(found.residual), missed(new) / missed(fields).max(), rtol=1e-9)
    assert np.allclose(to_host(found.distance), apart(new) / apart(fields).max(), rtol=1e-9)


def test_reach_in_any_order_of_the_samples_is_the_same():
    fields = rough_fields(300)  # three blocks of rows
    pca, x, reach = measured(fields, 3)
    order = np.random.default_rng(0).permutation(300)
    other = Reach.of(pca, fields, x[order], list(order))
    assert other.residual == pytest.approx(reach.residual, rel=1e-12)
    assert other.distance == pytest.approx(reach.distance, rel=1e-12)


def test_novelty_of_many_inputs_is_that_of_each_alone(fitted, pairs):
    together, alone = fitted.novelty(pairs.inputs[:300]), [fitted.novelty(pairs.inputs[i : i + 1]) for i in (0, 299)]
    assert together.residual[[0, 299]] == pytest.approx([float(one.residual[0]) for one in alone], rel=1e-9)
    assert together.distance[[0, 299]] == pytest.approx([float(one.distance[0]) for one in alone], rel=1e-9)


def test_fields_that_the_modes_hold_entirely_are_not_far_by_rounding():
    fields = rough_fields() @ np.diag([1.0, 1, 1, 0, 0, 0, 0, 0])
    pca, x, reach = measured(fields, 3)
    new = rough_fields(9, seed=1) @ np.diag([1.0, 1, 1, 0, 0, 0, 0, 0])
    assert reach.novelty(pca, x, new, pca.encode(new)).residual.max() < 1e-4  # √eps over the 1e-3 that counts


def test_copies_under_a_symmetry_do_not_widen_what_counts_as_training_data(pairs):
    from pcarann.symmetry import Symmetry

    model = PCARaNN(n_components=4, widths=(10, 8), n_members=1, scales="energy", symmetry=Symmetry.reflection(-1))
    model.fit(*pairs[:60])
    assert model._fitted.training_x.shape == (60, 4)
    assert model.novelty(pairs.inputs[:60]).distance.max() == pytest.approx(1.0)


def test_novelty_comes_back_as_the_kind_of_array_handed_in(fitted, pairs):
    torch = pytest.importorskip("torch")
    found = fitted.novelty(torch.asarray(pairs.inputs[:3]))
    assert isinstance(found.residual, torch.Tensor)
    assert isinstance(found.distance, torch.Tensor)
