import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.backend.arrays import to_host
from pcarann.latent.pca import fit_pca


def decaying_fields(samples, values, rate=0.8, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    rank = min(samples, values)
    left, right = (np.linalg.qr(rng.normal(size=(n, rank)))[0] for n in (samples, values))
    return offset + (left * rate ** np.arange(rank)) @ right.T


def svd_oracle(fields, count):
    mean = fields.mean(axis=0)
    _, singular, modes = np.linalg.svd(fields - mean, full_matrices=False)
    return mean, singular[:count], modes[:count]


@pytest.mark.parametrize("shape", [(30, 80), (80, 30), (20, 20)], ids=["wide", "tall", "square"])
def test_modes_are_those_of_the_singular_value_decomposition(backend, shape):
    fields = decaying_fields(*shape)
    pca, latents = fit_pca(backend(fields), 8)
    _, singular, modes = svd_oracle(fields, 8)
    overlap = np.abs(np.sum(to_host(pca.modes) * modes, axis=1))
    assert np.allclose(to_host(pca.singular_values), singular, rtol=1e-12)
    assert np.allclose(overlap, 1.0, atol=1e-12)
    assert np.allclose(to_host(pca.encode(backend(fields))), to_host(latents), atol=1e-13)


@pytest.mark.parametrize("shape", [(60, 200), (200, 60)], ids=["wide", "tall"])
def test_modes_far_below_the_gram_matrix_precision_are_found(shape):
    fields = decaying_fields(*shape, rate=0.45, offset=0.0)  # singular values down to 1e-13 of the first
    pca, latents = fit_pca(fields, 38)
    _, singular, _ = svd_oracle(fields, 38)
    # An orthogonal decomposition finds a singular value to eps of the first, 1e-3 of the smallest here.
    assert np.allclose(to_host(pca.singular_values), singular, rtol=1e-2)
    assert np.allclose(pca.modes @ pca.modes.T, np.eye(38), atol=1e-14)
    assert np.allclose(pca.decode(latents), fields, atol=1e-13)


def smoothed_fields(samples, values, decay, seed=0):
    # Cosines cos(πkx) whose coefficients fall like a heat kernel's, summed in extended precision and rounded once.
    rng = np.random.default_rng(seed)
    k = np.arange(1, 25, dtype=np.longdouble)
    x = (np.arange(values, dtype=np.longdouble) + 0.5) / values
    coefficients = rng.normal(size=(samples, k.size)).astype(np.longdouble) * np.exp(-decay * k)
    waves = np.cos(np.pi * k[:, None] * x)
    return np.asarray(coefficients @ waves, dtype=np.float64), np.asarray(waves, dtype=np.float64)


@pytest.mark.parametrize("shape", [(400, 900), (900, 400)], ids=["wide", "tall"])
def test_modes_below_eps_are_found_down_to_the_rounding_of_the_entries(backend, shape):
    # s_k falls by e^-1.7 a mode: s₂₂/s₁ = 6e-17 stands above the rounding, ‖E‖/s₁ ≈ 1e-17 of the entries and 3e-17
    # with that of the subtraction; s₂₃/s₁ = 1e-17 does not. The edge of the noise may add a mode or two.
    fields, waves = smoothed_fields(*shape, decay=1.7)
    with pytest.warns(UserWarning, match="using 2[2-5] modes"):
        pca, latents = fit_pca(backend(fields), 60)
    modes, singular = to_host(pca.modes), to_host(pca.singular_values)
    assert np.allclose(modes @ modes.T, np.eye(pca.n_components), atol=1e-14)
    # A remainder that kept s₁ u₁ δᵀ, δ ≈ eps the rounding of the first mode, would add a mode near s₂₁.
    assert np.allclose(singular[1:22] / singular[:21], np.exp(-1.7), rtol=0.3)
    # The cosines are the planted answer. Noise of 0.1 s₂₁ turns the 21st by 0.1, which shortens it by 0.1²/2.
    assert np.allclose(np.linalg.norm(waves[:21] @ modes.T, axis=1) / np.linalg.norm(waves[:21], axis=1), 1, atol=0.02)
    assert np.array_equal(to_host(latents), to_host(pca.encode(backend(fields))))


def test_the_error_of_the_mean_is_no_mode():
    # Rank two on a large offset: the offset's rounding is the same in every field, a mode if it were left in.
    rng = np.random.default_rng(0)
    fields = 1e6 / 3 + rng.normal(size=(300, 2)) @ rng.normal(size=(2, 200))
    with pytest.warns(UserWarning, match="rank 2: using 2"):
        pca, _ = fit_pca(fields, 20)
    assert np.allclose(pca.mean, fields.mean(axis=0), rtol=1e-15)


@pytest.mark.parametrize("noise", [1e-16, 1e-15])
def test_the_floor_follows_the_noise_that_the_fields_carry(noise):
    # Noise of deviation σ has singular values up to σ (√N + √values) = `noise` of the first; modes fall by e^1.7.
    fields, _ = smoothed_fields(400, 900, decay=1.7)
    sigma = noise * np.linalg.norm(fields, 2) / (20 + 30)
    with pytest.warns(UserWarning, match="n_components=60 is more than there are, as the 400 fields have rank"):
        pca, _ = fit_pca(fields + sigma * np.random.default_rng(1).normal(size=fields.shape), 60)
    assert noise < pca.singular_values[-1] / pca.singular_values[0] < 2 * np.exp(1.7) * noise


def test_both_paths_agree_where_both_resolve_the_modes():
    fields = decaying_fields(60, 200, rate=0.5, offset=0.0)
    few, _ = fit_pca(fields, 12)  # s₁₂/s₁ = 5e-4: the Gram matrix
    many, _ = fit_pca(fields, 40)  # s₄₀/s₁ = 2e-12: stages
    assert np.allclose(few.singular_values, many.singular_values[:12], rtol=1e-12)
    assert np.allclose(few.modes, many.modes[:12], atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(samples=st.integers(3, 25), values=st.integers(1, 25), seed=st.integers(0, 10**6))
def test_projection_is_idempotent_and_modes_orthonormal(samples, values, seed):
    fields = np.random.default_rng(seed).normal(size=(samples, values))
    pca, latents = fit_pca(fields, min(values, samples - 1, 5))
    once = pca.decode(pca.encode(fields))
    assert np.allclose(pca.modes @ pca.modes.T, np.eye(pca.n_components), atol=1e-12)
    assert np.allclose(pca.decode(pca.encode(once)), once, atol=1e-12)
    assert np.allclose(pca.encode(pca.decode(latents)), latents, atol=1e-12)


def test_an_energy_fraction_takes_the_fewest_modes_that_hold_it():
    fields = decaying_fields(40, 60)
    _, singular, _ = svd_oracle(fields, 40)
    held = np.cumsum(singular**2) / np.sum(singular**2)
    for fraction in (0.5, 0.9, 0.999):
        pca, _ = fit_pca(fields, fraction)
        assert pca.n_components == int(np.searchsorted(held, fraction)) + 1
        assert pca.explained_energy >= fraction


def test_quadrature_weights_make_modes_independent_of_mesh_density():
    # The same fields on a mesh whose left half is stored twice, each copy with half the weight.
    fields = decaying_fields(30, 20)
    doubled = np.concatenate([fields[:, :10], fields], axis=1)
    weights = np.ones(30)
    weights[:20] = 0.5
    plain, expected = fit_pca(fields, 6)
    weighted, latents = fit_pca(doubled[:, np.r_[0:10, 10:20, 20:30]], 6, weights=weights)
    assert np.allclose(weighted.singular_values, plain.singular_values, rtol=1e-12)
    assert np.allclose(np.abs(latents), np.abs(expected), atol=1e-12)
    gram = (weighted.modes * weights) @ weighted.modes.T
    assert np.allclose(gram, np.eye(6), atol=1e-12)
    assert np.allclose(weighted.decode(latents)[:, 10:], plain.decode(expected), atol=1e-12)
    assert np.allclose(weighted.encode(doubled), latents, atol=1e-12)


def test_a_rank_below_the_number_asked_for_warns_once_and_clips():
    low = np.outer(np.arange(10.0), np.ones(20)) + np.outer(np.ones(10), np.arange(20.0))
    with pytest.warns(UserWarning, match="rank 1: using 1") as caught:
        pca, _ = fit_pca(low, 5)
    assert pca.n_components == 1
    assert len(caught) == 1


def test_more_modes_than_values_means_all_of_them_silently():
    pca, _ = fit_pca(np.random.default_rng(0).normal(size=(50, 3)), 100)
    assert pca.n_components == 3


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30, -1e-30])
def test_constant_fields_give_one_mode_and_no_energy(backend, value):
    pca, latents = fit_pca(backend(np.full((7, 4), value)), 0.99)
    assert pca.n_components == 1
    assert np.allclose(to_host(latents), 0, atol=1e-15 * abs(value))
    assert np.allclose(to_host(pca.decode(latents)), value)


def test_signs_do_not_depend_on_rounding():
    # Antisymmetric modes: the largest entry is a tie between +m and −m.
    x = np.linspace(-1, 1, 41)
    fields = np.random.default_rng(0).normal(size=(30, 1)) * np.sin(np.pi * x)
    first, _ = fit_pca(fields, 0.9)
    second, _ = fit_pca(fields * (1 + 1e-15 * np.random.default_rng(1).normal(size=fields.shape)), 0.9)
    assert np.allclose(first.modes, second.modes, atol=1e-12)


def test_residual_is_the_norm_of_what_the_modes_miss():
    fields = decaying_fields(30, 50)
    pca, _ = fit_pca(fields, 4)
    missed = np.linalg.norm(fields - pca.decode(pca.encode(fields)), axis=1)
    assert np.allclose(pca.residual(fields, pca.encode(fields)), missed, rtol=1e-9)


@pytest.mark.parametrize("shape", [(40, 300), (300, 40)], ids=["wide", "tall"])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_and_a_choice_of_samples_change_nothing(backend, monkeypatch, shape, weighted):
    """Few numbers at a time, so that there are many blocks."""
    fields = 3.0 + np.random.default_rng(0).normal(size=shape) @ np.diag(np.linspace(2, 1, shape[1]))
    weights = np.linspace(1, 2, shape[1]) if weighted else None
    among = np.random.default_rng(1).permutation(shape[0])[: shape[0] - 7]
    expected, latents = fit_pca(fields[among], 6, weights=weights)
    monkeypatch.setattr("pcarann.latent.pca._BLOCK", 500)
    monkeypatch.setattr("pcarann.latent.pca._CUT", 7)
    put = None if weights is None else backend(weights)
    pca, found = fit_pca(backend(fields), 6, among=backend(among), weights=put)
    assert np.allclose(to_host(pca.mean), expected.mean, rtol=0, atol=1e-13)
    assert np.allclose(to_host(pca.modes), expected.modes, rtol=0, atol=1e-10)
    assert np.allclose(to_host(found), latents, rtol=0, atol=1e-10)
    assert pca.energy == pytest.approx(expected.energy)
    assert np.allclose(to_host(pca.encode(backend(fields))), expected.encode(fields), rtol=0, atol=1e-10)
    assert np.allclose(to_host(pca.decode(found)), expected.decode(latents), rtol=0, atol=1e-10)
    residual = pca.residual(backend(fields[among]), found)
    assert np.allclose(to_host(residual), expected.residual(fields[among], latents), rtol=0, atol=1e-9)
