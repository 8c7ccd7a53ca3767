import numpy as np
import pytest

from pcarann.latent.crossfit import Fold, folds_of, left_out
from pcarann.latent.pca import fit_pca

SHAPES = {"few samples": (60, 90), "few values": (120, 30)}
ALL_SHAPES = pytest.mark.parametrize(("samples", "values"), SHAPES.values(), ids=SHAPES)


def fields_of(samples, values, decay=0.7, seed=0):
    rng = np.random.default_rng(seed)
    return 2 + rng.normal(size=(samples, values)) * np.maximum(decay ** np.arange(values), 1e-2)


def without(fields, rows, components, weights=None, looked=None):
    """What is left out, the PCA of the others fitted afresh, the latents of all, and the others."""
    seen = []
    _, x = fit_pca(fields, components, weights=weights, watch=lambda *parts: seen.append(parts))
    others = np.setdiff1d(np.arange(len(fields)), rows)
    return (
        left_out(*seen[0], Fold(rows, looked or rows)),
        fit_pca(fields[others], components, weights=weights)[0],
        x,
        others,
    )


@ALL_SHAPES
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_latents_and_residuals_are_those_of_a_pca_of_the_others(samples, values, weighted):
    fields, rows = fields_of(samples, values), [3, 10, 11, 40]
    weights = np.linspace(0.5, 2, values) if weighted else None
    found, pca, _, _ = without(fields, rows, 5, weights)
    x = pca.encode(fields[rows])
    # A Gram matrix has half the digits of its fields, and modes those digits over the gaps between them.
    assert np.allclose(np.abs(found.x), np.abs(x), rtol=0, atol=1e-6 * np.abs(x).max())
    assert found.residual == pytest.approx(pca.residual(fields[rows], x), rel=1e-6)


@ALL_SHAPES
def test_spreads_are_those_of_the_others(samples, values):
    found, pca, _, others = without(fields_of(samples, values), [3, 10, 11, 40], 5)
    assert found.spread == pytest.approx(pca.singular_values / len(others) ** 0.5, rel=1e-6)


@ALL_SHAPES
def test_aligned_latents_have_the_signs_of_the_pca_of_all(samples, values):
    # One sample of many changes the modes little: those of the leading latents are told by their sign.
    fields = fields_of(samples, values, decay=0.5)
    found, _, x, _ = without(fields, [7], 3)
    assert np.sign(found.aligned(x)[0]).tolist() == np.sign(x[7]).tolist()


def test_modes_of_many_samples_are_close_to_those_of_a_pca_of_the_others():
    fields, rows = fields_of(400, 500), list(range(0, 400, 8))
    found, pca, _, _ = without(fields, rows, 8)
    wanted = pca.residual(fields[rows], pca.encode(fields[rows]))
    assert found.residual == pytest.approx(wanted, rel=0.05)  # two steps of iteration from the modes of all samples


def test_residuals_of_samples_left_out_exceed_those_that_were_fitted():
    fields = fields_of(60, 90, decay=1.0)
    found, _, _, _ = without(fields, [3, 10, 11, 40], 40)
    pca, x = fit_pca(fields, 40)
    assert np.all(found.residual > 1.2 * pca.residual(fields, x)[[3, 10, 11, 40]])


@ALL_SHAPES
def test_of_samples_left_out_together_some_are_looked_at(samples, values):
    fields = fields_of(samples, values)
    found, pca, _, _ = without(fields, [3, 10, 11, 40], 5, looked=[10, 40])
    assert found.residual == pytest.approx(pca.residual(fields[[10, 40]], pca.encode(fields[[10, 40]])), rel=1e-6)


@pytest.mark.parametrize("samples", [2, 5, 20, 500])
def test_folds_of_few_samples_hold_each_once(samples):
    assert sorted(row for fold in folds_of(range(samples)) for row in fold.left) == list(range(samples))


def test_of_many_samples_one_fold_is_left_out():
    assert [len(set(fold.left)) for fold in folds_of(range(1000))] == [128]


OWNERS = [row % 7 for row in range(35)]


def test_samples_of_one_owner_are_left_out_together():
    folds = [{OWNERS[row] for row in fold.left} for fold in folds_of(OWNERS)]
    assert sorted(owner for fold in folds for owner in fold) == list(range(7))


def test_one_sample_of_each_owner_is_looked_at():
    assert sorted(OWNERS[row] for fold in folds_of(OWNERS) for row in fold.looked) == list(range(7))
