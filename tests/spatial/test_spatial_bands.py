"""Ridge regressions by bands, against sums and solves written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.backend.arrays import place_of, to_host
from pcarann.spatial import bands as module
from pcarann.spatial.axis import Axis
from pcarann.spatial.bands import Bands, Sums
from pcarann.spatial.domain import Domain
from random_fields_in_space import numpy_and_torch

RNG = np.random.default_rng(0)
TORUS = Domain((Axis(12, "periodic"), Axis(10, "periodic")))
BANDS = Bands.of(TORUS, 2)
alike = module._alike


def rows(samples, columns, is_complex=True):
    shape = (samples, len(BANDS.labels), columns)
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape) if is_complex else RNG.normal(size=shape)


def gathered(harmonics, chosen):
    return np.take_along_axis(harmonics, chosen[:, :, None], axis=1)


def summed(H, r, taken, samples=None):
    samples = len(H) if samples is None else samples
    chosen = BANDS.chosen(np.arange(samples), taken)
    sums = Sums.none(BANDS.count, H.shape[2], r.shape[2], place_of(H), np.iscomplexobj(H))
    sums.add([(gathered(H, chosen), gathered(r, chosen))], taken, [len(one) for one in BANDS.modes])
    return sums


def test_modes_of_bands_are_a_partition():
    assert sorted(np.concatenate(BANDS.modes)) == list(range(len(BANDS.labels)))
    assert all((BANDS.labels[modes] == band).all() for band, modes in enumerate(BANDS.modes))


@given(st.integers(1, 50), st.integers(1, 2000))
@settings(max_examples=50, deadline=None)
def test_samples_give_as_many_modes_as_wanted_and_no_more(samples, most):
    for modes, n in zip(BANDS.modes, BANDS.taken(samples, most), strict=True):
        assert n == len(modes) or most <= n * samples < most + samples


@given(st.integers(1, 40), st.integers(1, 300))
@settings(max_examples=50, deadline=None)
def test_modes_of_a_band_are_taken_in_turn(samples, most):
    taken = BANDS.taken(samples, most)
    chosen = BANDS.chosen(np.arange(samples), taken)
    assert chosen.shape == (samples, sum(taken))
    ends = np.cumsum([0, *taken])
    for band, (modes, n) in enumerate(zip(BANDS.modes, taken, strict=True)):
        part = chosen[:, ends[band] : ends[band + 1]]
        counts = np.bincount(part.reshape(-1), minlength=len(BANDS.labels))[modes]
        assert counts.sum() == samples * n
        assert np.ptp(counts) <= 1
        assert all(len(np.unique(row)) == n for row in part)


def test_blocks_of_samples_give_what_all_together_give():
    taken = BANDS.taken(20, 60)
    parts = [BANDS.chosen(np.arange(start, start + 5), taken) for start in range(0, 20, 5)]
    assert np.array_equal(np.concatenate(parts), BANDS.chosen(np.arange(20), taken))


@pytest.mark.parametrize("is_complex", [True, False])
def test_sums_of_all_modes_are_products_over_all_rows(is_complex):
    H, r = rows(6, 4, is_complex), rows(6, 2, is_complex)
    sums = summed(H, r, [len(one) for one in BANDS.modes])
    for band in range(BANDS.count):
        here, left = (part[:, BANDS.labels == band].reshape(-1, part.shape[2]) for part in (H, r))
        assert np.allclose(sums.gram[band], here.conj().T @ here, rtol=1e-12)
        assert np.allclose(sums.moment[band], here.conj().T @ left, rtol=1e-12)


def test_sums_of_some_modes_count_for_all_of_them():
    H, r = rows(400, 3), rows(400, 1)
    whole = summed(H, r, [len(one) for one in BANDS.modes])
    taken = BANDS.taken(400, 800)
    assert min(n / len(modes) for n, modes in zip(taken, BANDS.modes, strict=True)) <= 0.5
    thin = summed(H, r, taken)
    # A sum over 800 rows of independent numbers strays by 1/√800 of the diagonal; six of these.
    size = np.abs(np.einsum("bii->bi", whole.gram)).max(axis=1)[:, None, None]
    assert (np.abs(thin.gram - whole.gram) < 6 / np.sqrt(800) * size).all()
    assert (np.abs(thin.moment - whole.moment) < 6 / np.sqrt(800) * size).all()


@pytest.mark.parametrize("is_complex", [True, False])
@pytest.mark.parametrize("ridge", [1e-8, 0.1])
def test_readouts_solve_ridge_problems_with_one_weight_for_all_bands(is_complex, ridge):
    H, r = rows(8, 5, is_complex), rows(8, 2, is_complex)
    sums = summed(H, r, [len(one) for one in BANDS.modes])
    weight = ridge * np.mean([np.linalg.norm(H[:, BANDS.labels == b]) ** 2 / 5 for b in range(BANDS.count)])
    found = sums.readout(ridge)
    for band in range(BANDS.count):
        here, left = (part[:, BANDS.labels == band].reshape(-1, part.shape[2]) for part in (H, r))
        # The ridge problem as a least squares problem with more rows.
        wide = np.concatenate([here, np.sqrt(weight) * np.eye(5)]), np.concatenate([left, np.zeros((5, 2))])
        assert np.allclose(found[band], np.linalg.lstsq(*wide, rcond=None)[0], rtol=0, atol=1e-10)


def test_sums_are_merged_and_forgotten():
    H, r = rows(9, 3), rows(9, 1)
    modes = [len(one) for one in BANDS.modes]
    first, last, whole = (summed(H[part], r[part], modes) for part in (slice(4), slice(4, 9), slice(9)))
    both = first.merged(last)
    assert np.allclose(both.gram, whole.gram)
    assert np.allclose(both.moment, whole.moment)
    faded = first.merged(last, 0.5)
    assert np.allclose(faded.gram, whole.gram - first.gram / 2)


def test_a_band_that_cannot_be_solved_is_not_a_number():
    sums = Sums(np.zeros((2, 3, 3)), np.ones((2, 3, 1)))
    assert np.isnan(sums.readout(0.0)).all()
    assert np.isfinite(sums.readout(1e-3)).all()


def test_products_take_the_weights_of_their_band():
    H, V = rows(3, 4), RNG.normal(size=(BANDS.count, 4, 2)) + 0j
    assert np.allclose(BANDS.products(H, V), np.einsum("skj,kjc->skc", H, V[BANDS.labels]))


@numpy_and_torch()
@pytest.mark.parametrize("is_complex", [True, False])
def test_libraries_agree(library, is_complex):
    H, r = rows(8, 5, is_complex), rows(8, 2, is_complex)
    taken, modes = BANDS.taken(8, 100), [len(one) for one in BANDS.modes]
    chosen = BANDS.chosen(np.arange(8), taken)
    there = Sums.none(BANDS.count, 5, 2, place_of(library(np.zeros(1))), is_complex)
    there.add([(library(gathered(H, chosen)), library(gathered(r, chosen)))], taken, modes)
    here = summed(H, r, taken)
    assert np.allclose(to_host(there.gram), here.gram, rtol=0, atol=1e-10)
    readout = here.readout(1e-3)
    assert np.allclose(to_host(there.readout(1e-3)), readout, rtol=0, atol=1e-10)
    assert np.allclose(to_host(BANDS.products(library(H), library(readout))), BANDS.products(H, readout), atol=1e-10)


@numpy_and_torch()
def test_a_band_that_is_indefinite_by_rounding_has_its_ridge_raised(library):
    """One band far above the mean, of two columns that are all but equal: its λ alone is raised, until it is solved."""
    place = place_of(library(np.zeros(1)))
    sums = Sums.none(60, 2, 1, place, False)
    gram, moment = np.tile(np.eye(2), (60, 1, 1)), np.ones((60, 2, 1))
    gram[0] = 1e9 * np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]])
    sums.gram[...], sums.moment[...] = library(gram), library(moment)
    found = to_host(sums.readout(1e-20))
    assert np.isfinite(found).all()
    assert np.allclose(found[1:], 1.0, rtol=1e-9)
    assert found[0].sum() == pytest.approx(1e-9, rel=1e-3)


def test_bands_that_are_summed_together_have_the_sums_of_each_alone(monkeypatch):
    H, r = rows(9, 4), rows(9, 2)
    taken = BANDS.taken(9, 40)
    assert len(set(taken)) > 1
    alone = summed(H, r, taken)
    monkeypatch.setattr(module, "_alike", lambda taken, _: alike(taken, True))
    assert np.allclose(summed(H, r, taken).gram, alone.gram, rtol=0, atol=1e-12)
    assert np.allclose(summed(H, r, taken).moment, alone.moment, rtol=0, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 3, 8, 20])
def test_products_agree_however_many_columns_there_are(columns):
    H, V = rows(5, 4), RNG.normal(size=(BANDS.count, 4, columns)) + 1j * RNG.normal(size=(BANDS.count, 4, columns))
    assert np.allclose(BANDS.products(H, V), np.einsum("skj,kjc->skc", H, V[BANDS.labels]))


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("is_complex", [True, False])
@numpy_and_torch()
def test_products_have_their_adjoint(columns, is_complex, library):
    H, c = rows(3, 4, is_complex), rows(3, columns, is_complex)
    V = RNG.normal(size=(BANDS.count, 4, columns)) + (1j * RNG.normal(size=(BANDS.count, 4, columns))) * is_complex
    V = V if is_complex else V.real
    ahead = to_host(BANDS.products(library(H), library(V)))
    back = to_host(BANDS.products_adjoint(library(c), library(V)))
    assert np.sum((ahead.conj() * c).real) == pytest.approx(np.sum((H.conj() * back).real), abs=1e-9)
