"""Harmonics of several axes: identities, inverse Laplacians of eigenfunctions, bands."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.backend.arrays import to_host
from pcarann.spatial.axis import Axis
from pcarann.spatial.domain import Domain
from random_fields_in_space import BOUNDARIES, numpy_and_torch

axes = st.builds(Axis, st.integers(4, 15), st.sampled_from(BOUNDARIES))
domains = st.lists(axes, min_size=1, max_size=3).map(lambda some: Domain(tuple(some)))


def fields(domain, seed=0, samples=2, columns=2):
    """Random fields, zero at the ends where they must be."""
    found = np.random.default_rng(seed).normal(size=(samples, *domain.shape, columns))
    for at, axis in enumerate(domain.axes, start=1):
        if axis.boundary == "zero":
            np.moveaxis(found, at, 0)[[0, -1]] = 0
    return found


@given(domains, st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_backward_undoes_forward(domain, seed):
    u = fields(domain, seed)
    harmonics = domain.forward(u)
    assert harmonics.shape == (2, np.prod(domain.modes), 2)
    assert np.iscomplexobj(harmonics) == domain.is_complex
    assert np.allclose(domain.backward(harmonics), u, rtol=0, atol=1e-12)


@given(domains, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_transforms_keep_norms(domain, seed):
    """Parseval: of a period that is halved, wavenumbers with a conjugate partner count twice."""
    u = fields(domain, seed)
    harmonics = domain.forward(u).reshape(2, *domain.modes, 2)
    periodic = [i for i, axis in enumerate(domain.axes) if axis.boundary == "periodic"]
    counts = np.ones(domain.modes)
    if periodic:
        n = domain.shape[periodic[-1]]
        twice = np.where(np.arange(n // 2 + 1) % (n / 2) == 0, 1, 2)
        counts = counts * np.moveaxis(twice.reshape(-1, *[1] * (len(domain.axes) - 1)), 0, periodic[-1])
    assert np.allclose((counts[None, ..., None] * np.abs(harmonics) ** 2).sum(), (u**2).sum(), rtol=1e-12)


def test_a_shift_is_a_factor():
    domain = Domain((Axis(12, "periodic"), Axis(8, "free")))
    u = fields(domain)
    factors = np.exp(2j * np.pi * np.arange(7) / 12)[:, None]
    found = domain.forward(np.roll(u, -1, axis=1)).reshape(2, 7, 8, 2)
    assert np.allclose(found, domain.forward(u).reshape(2, 7, 8, 2) * factors[None, ..., None], atol=1e-12)


@pytest.mark.parametrize("boundaries", list(itertools.product(BOUNDARIES, repeat=2)))
def test_the_inverse_laplacian_divides_eigenfunctions_by_their_eigenvalue(boundaries):
    shape, numbers = (12, 16), (2, 3)
    domain = Domain(tuple(map(Axis, shape, boundaries)))
    u, eigenvalue = np.ones(shape), 0.0
    for at, (n, k, boundary) in enumerate(zip(shape, numbers, boundaries, strict=True)):
        j = np.arange(n)
        wave, q = {
            "periodic": (np.cos(2 * np.pi * k * j / n + 0.3), 2 * np.pi * k / n),
            "zero": (np.sin(np.pi * k * j / (n - 1)), np.pi * k / (n - 1)),
            "free": (np.cos(np.pi * k * (j + 0.5) / n), np.pi * k / n),
        }[boundary]
        u = u * wave.reshape([-1, 1] if at == 0 else [1, -1])
        eigenvalue += q**2
    u = u[None, ..., None]
    assert np.allclose(domain.smoothed(u, np.inf), u / eigenvalue, rtol=0, atol=1e-11 / eigenvalue)
    assert np.allclose(domain.smoothed(u, 0.25), u / (eigenvalue + 1 / 9), rtol=0, atol=1e-11)  # ℓ = 0.25 · 12 points


def test_the_inverse_laplacian_has_no_mean():
    domain = Domain((Axis(8, "periodic"), Axis(9, "free")))
    u = fields(domain) + 5
    assert np.allclose(domain.smoothed(u, np.inf).mean(axis=(1, 2)), 0, atol=1e-12)
    assert np.allclose(domain.smoothed(np.ones((1, 8, 9, 1)), 0.5), 16.0)  # 1/ℓ² alone is left of a constant


def test_slopes_are_those_of_every_axis():
    domain = Domain((Axis(6, "free"), Axis(8, "zero")))
    x, y = np.meshgrid(np.arange(6.0), np.arange(8.0), indexing="ij")
    found = domain.slopes((2 * x - 3 * y)[None, ..., None])
    assert [np.unique(part).tolist() for part in found] == [[2.0], [-3.0]]


@given(domains, st.integers(2, 6))
@settings(max_examples=80, deadline=None)
def test_bands_are_a_partition_with_single_wavenumbers_alone(domain, singles):
    found = domain.bands(singles)
    assert found.shape == (np.prod(domain.modes),)
    assert np.array_equal(np.unique(found), np.arange(found.max() + 1))
    if np.prod(domain.modes) <= 400:  # more bands than that are made fewer
        numbers = np.stack(np.meshgrid(*_numbers(domain), indexing="ij"), axis=-1).reshape(-1, len(domain.axes))
        alone = (np.abs(numbers) < singles).all(axis=1)
        counts = np.bincount(found)
        assert (counts[found[alone]] == 1).all()


@given(domains, st.integers(2, 6))
@settings(max_examples=80, deadline=None)
def test_bands_hold_wavenumbers_of_one_sign_that_are_neighbours(domain, singles):
    numbers = np.stack(np.meshgrid(*_numbers(domain), indexing="ij"), axis=-1).reshape(-1, len(domain.axes))
    labels = domain.bands(singles)
    for band in range(labels.max() + 1):
        some = numbers[labels == band]
        assert ((some >= 0).all(axis=0) | (some < 0).all(axis=0)).all()
        assert len(some) == np.prod([len(np.unique(column)) for column in some.T])
        assert all(np.ptp(column) == len(np.unique(column)) - 1 for column in some.T)


def _numbers(domain):
    """Wavenumbers as harmonics come: all of a period but for the last one, whose negative ones are left out."""
    periodic = [i for i, axis in enumerate(domain.axes) if axis.boundary == "periodic"]
    return [
        np.fft.fftfreq(axis.points, 1 / axis.points) if i in periodic[:-1] else np.arange(domain.modes[i])
        for i, axis in enumerate(domain.axes)
    ]


@pytest.mark.parametrize("shape", [(64, 64), (32, 32, 32), (512, 512)])
def test_bands_stay_few(shape):
    labels = Domain(tuple(Axis(n, "periodic") for n in shape)).bands(16)
    assert labels.max() < 400


@numpy_and_torch()
@given(domain=domains)
@settings(max_examples=15, deadline=None)
def test_libraries_agree(library, domain):
    u = fields(domain)
    there, harmonics = library(u), domain.forward(u)
    assert np.allclose(to_host(domain.forward(there)), harmonics, rtol=0, atol=1e-12)
    assert np.allclose(to_host(domain.backward(domain.forward(there))), u, rtol=0, atol=1e-12)
    assert np.allclose(to_host(domain.smoothed(there, 0.3)), domain.smoothed(u, 0.3), rtol=0, atol=1e-11)
    assert np.allclose(to_host(domain.blurred(there, 1.5)), domain.blurred(u, 1.5), rtol=0, atol=1e-13)


TWICE = [(Axis(n, "periodic"), np.where((np.arange(n // 2 + 1) * 2) % n, 2.0, 1.0)) for n in (8, 9)]


@pytest.mark.parametrize(("axis", "counted"), TWICE)
def test_adjoints_of_transforms_count_harmonics_that_stand_for_two_twice(axis, counted):
    domain = Domain((axis, Axis(7, "free", 2)))
    u, rng = np.random.default_rng(1).normal(size=(2, *domain.shape, 2)), np.random.default_rng(2)
    c = rng.normal(size=(2, np.prod(domain.modes), 2)) + 1j * rng.normal(size=(2, np.prod(domain.modes), 2))
    weights = np.repeat(counted, domain.modes[1])[None, :, None]
    ahead, back = np.sum(weights * (domain.forward(u).conj() * c).real), np.sum(u * domain.forward_adjoint(c))
    assert ahead == pytest.approx(back, abs=1e-11)
    ahead, back = np.sum(domain.backward(c) * u), np.sum(weights * (c.conj() * domain.backward_adjoint(u)).real)
    assert ahead == pytest.approx(back, abs=1e-11)


@given(domains, st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_local_operators_have_their_adjoints(domain, seed):
    u, c = (np.random.default_rng(seed + i).normal(size=(2, *domain.shape, 2)) for i in (0, 9))
    steep = [c + i for i in range(len(domain.axes))]
    ahead = sum(np.sum(one * other) for one, other in zip(domain.slopes(u), steep, strict=True))
    assert ahead == pytest.approx(np.sum(u * domain.slopes_adjoint(steep)), abs=1e-10)
    assert np.sum(domain.blurred(u, 1.5) * c) == pytest.approx(np.sum(u * domain.blurred_adjoint(c, 1.5)), abs=1e-10)
    ahead, back = np.sum(domain.smoothed(u, 0.5) * c), np.sum(u * domain.smoothed_adjoint(c, 0.5))
    assert ahead == pytest.approx(back, rel=1e-10, abs=1e-9)
