"""One stage, against a transform by dense matrices and least squares written out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.backend.arrays import to_host
from pcarann.spatial import stage as module
from pcarann.spatial.bands import Bands
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.features import Features
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene, Stage, Triple, corrections, sample_weights, summed
from pcarann.symmetry.generators import Symmetry
from random_fields_in_space import held, local, numpy_and_torch, planes, waves

POINTS = 16


def line(boundary, samples=12):
    """A scene of one axis, and samples on it."""
    layout = Layout.of((POINTS,), (POINTS,)).ending((boundary,), (False,))
    a = waves(samples, POINTS)
    u = held(a) * 50 if boundary == "zero" else local(a)
    return Scene(layout), Triple(a, np.broadcast_to(u.mean(axis=0), u.shape), u)


def drawn(scene, samples, singles=4, count=6):
    sight = Sight(scene.layout.domain, Channels(singles=singles), False)
    looked_at = scene.layout.inputs(samples.inputs), scene.layout.outputs(samples.fields)
    features = Features.drawn(sight, *looked_at, count=count, terms=6.0, seed=0, number=0)
    return features, Bands.of(scene.layout.domain, singles)


def matrix(boundary):
    """T of one axis, (modes, points), from its definition."""
    j = np.arange(POINTS)
    if boundary == "periodic":
        return np.exp(-2j * np.pi * np.outer(np.arange(POINTS // 2 + 1), j) / POINTS) / np.sqrt(POINTS)
    if boundary == "zero":
        return np.sin(np.pi * np.outer(j[1:-1], j) / (POINTS - 1)) * np.sqrt(2 / (POINTS - 1))
    T = np.cos(np.pi * np.outer(j, j + 0.5) / POINTS) * np.sqrt(2 / POINTS)
    T[0] /= np.sqrt(2)
    return T


every_boundary = pytest.mark.parametrize("boundary", ["periodic", "zero", "free"])


@every_boundary
def test_sums_are_those_of_weighted_rows_of_all_samples_and_modes(boundary):
    scene, samples = line(boundary)
    features, bands = drawn(scene, samples)
    T = matrix(boundary)
    H = features(samples.inputs[..., None], samples.fields[..., None])
    gram = np.zeros((bands.count, features.count, features.count), dtype=T.dtype)
    moment = np.zeros((bands.count, features.count, 1), dtype=T.dtype)
    for s in range(12):
        weight = 1 / np.sqrt(np.mean(samples.outputs[s] ** 2))
        harmonics, left = T @ H[s], T @ (samples.outputs[s] - samples.fields[s])
        for k, band in enumerate(bands.labels):
            gram[band] += weight**2 * np.outer(harmonics[k].conj(), harmonics[k])
            moment[band, :, 0] += weight**2 * harmonics[k].conj() * left[k]
    sums = summed(scene, features, bands, samples)
    assert np.allclose(sums.gram, gram, rtol=0, atol=1e-10)
    assert np.allclose(sums.moment, moment, rtol=0, atol=1e-10)


@every_boundary
def test_a_stage_adds_the_back_transform_of_weighted_harmonics(boundary):
    scene, samples = line(boundary)
    features, bands = drawn(scene, samples)
    V = summed(scene, features, bands, samples).readout(1e-4)
    T = matrix(boundary)
    H = features(samples.inputs[..., None], samples.fields[..., None])
    spectrum = np.einsum("kp,spj,kj->sk", T, H, V[bands.labels, :, 0])
    inverse = T.conj().T.copy()
    if boundary == "periodic":
        inverse[:, 1:-1] *= 2  # and the conjugate wavenumbers, which are left out
    expected = samples.fields + (spectrum @ inverse.T).real
    found = Stage(features, bands, V, 1e-4).applied(scene, samples.inputs, samples.fields)
    assert np.allclose(found, expected, rtol=0, atol=1e-10)


@every_boundary
def test_a_stage_lowers_the_error_of_its_samples(boundary):
    scene, samples = line(boundary, 60)
    features, bands = drawn(scene, samples, singles=8, count=30)
    V = summed(scene, features, bands, samples).readout(1e-8)
    found = Stage(features, bands, V, 1e-8).applied(scene, samples.inputs, samples.fields)
    before, after = (np.linalg.norm(part - samples.outputs) for part in (samples.fields, found))
    assert after < before / 3


def test_thinned_sums_agree_with_whole_ones(monkeypatch):
    layout = Layout.of((24, 24), (24, 24)).ending(("periodic", "periodic"), (False, False))
    a = planes(120, (24, 24))
    a = a + 0.3 * np.random.default_rng(0).normal(size=a.shape)  # so that all wavenumbers are there
    u = np.tanh(a) + np.roll(a, 1, axis=1)
    samples = Triple(*(part.reshape(120, -1) for part in (a, 0 * u, u)))
    scene = Scene(layout)
    features, bands = drawn(scene, samples, singles=2, count=4)
    thin = summed(scene, features, bands, samples)
    monkeypatch.setattr(module, "_ROWS", 10**9)
    whole = summed(scene, features, bands, samples)
    large = [b for b, modes in enumerate(bands.modes) if 120 * len(modes) > 24 * features.count]
    assert len(large) > 3
    assert not np.array_equal(thin.gram[large], whole.gram[large])
    assert np.allclose(thin.gram[[0, 1]], whole.gram[[0, 1]])
    size = np.sqrt(np.einsum("bii->bi", whole.gram).real)
    apart = np.abs(thin.gram - whole.gram) / (size[:, :, None] * size[:, None, :] + 1e-300)
    # 24 rows a feature, 17 features: sums of about 400 rows with a few times the spread of normal ones.
    assert apart[large].max() < 10 * 3 / np.sqrt(400)
    assert apart[large].mean() < 3 / np.sqrt(400)


def test_blocks_of_samples_do_not_matter(monkeypatch):
    scene, samples = line("free", 50)
    features, bands = drawn(scene, samples)
    once = summed(scene, features, bands, samples)
    V = once.readout(1e-4)
    fields = corrections(scene, features, bands, samples[:2], [V])[0]
    monkeypatch.setattr(module, "_BLOCK", 3 * 8 * POINTS * features.count)
    monkeypatch.setattr(module, "_GATHERED", 1)
    again = summed(scene, features, bands, samples)
    assert np.allclose(again.gram, once.gram, rtol=0, atol=1e-11)
    assert np.allclose(corrections(scene, features, bands, samples[:2], [V])[0], fields, rtol=0, atol=1e-12)


def test_several_readouts_at_once_are_each_alone():
    scene, samples = line("periodic")
    features, bands = drawn(scene, samples)
    sums = summed(scene, features, bands, samples)
    readouts = [sums.readout(ridge) for ridge in (1e-2, 1e-4)]
    both = corrections(scene, features, bands, samples[:2], readouts)
    for V, found in zip(readouts, both, strict=True):
        alone = corrections(scene, features, bands, samples[:2], [V])[0]
        assert np.allclose(found, alone, rtol=0, atol=1e-12)


def test_a_planted_convolution_is_recovered():
    """With a weight for every wavenumber the channel a alone gives any convolution of it."""
    layout = Layout.of((POINTS,), (POINTS,)).ending(("periodic",), (False,))
    a = np.random.default_rng(1).normal(size=(60, POINTS))
    kernel = np.random.default_rng(2).normal(size=POINTS)
    u = np.fft.ifft(np.fft.fft(a) * np.fft.fft(kernel)).real
    scene, samples = Scene(layout), Triple(a, 0 * u, u)
    features, bands = drawn(scene, samples, singles=POINTS, count=2)
    stage = Stage(features, bands, summed(scene, features, bands, samples).readout(1e-14), 1e-14)
    new = np.random.default_rng(3).normal(size=(10, POINTS))
    found = stage.applied(scene, new, np.zeros((10, POINTS)))
    assert np.allclose(found, np.fft.ifft(np.fft.fft(new) * np.fft.fft(kernel)).real, rtol=0, atol=1e-8)


# Symmetry

SYMMETRY = Symmetry.dihedral()


def square(n=10, seed=0):
    layout = Layout.of((9, 9), (9, 9))
    a = planes(n, (9, 9), seed)
    u = np.tanh(a) + 0.1 * np.cumsum(a, axis=1)
    group = SYMMETRY.bind((9, 9), (9, 9))
    every = tuple(range(8))
    return Scene(layout, group, every, every), Triple(*(part.reshape(n, -1) for part in (a, 0 * u, u)))


def test_copies_are_fitted_as_further_samples_are(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 10**6)
    scene, samples = square()
    features, bands = drawn(scene, samples)
    found = summed(scene, features, bands, samples)
    moved = Triple(
        *(
            np.concatenate([move(part, g) for g in range(8)])
            for move, part in zip((scene.moved_inputs, scene.moved_outputs, scene.moved_outputs), samples, strict=True)
        )
    )
    alone = summed(Scene(scene.layout), features, bands, moved)
    assert np.allclose(8 * found.gram, alone.gram, rtol=0, atol=1e-9)
    # A ridge of 1e-6 leaves a condition of some 1e6 to the rounding of sums, 1e-14 of them.
    assert np.allclose(found.readout(1e-6), alone.readout(1e-6), rtol=0, atol=1e-7)


def test_a_sample_counts_once_however_many_copies_of_it_are_fitted():
    """Where samples are many, fewer of their copies are fitted: sums of both kinds are of one size."""
    scene, samples = square()
    features, bands = drawn(scene, samples)
    one, all_of_them = (summed(replace(scene, fitted=some), features, bands, samples) for some in ((0,), range(8)))
    traces = [np.einsum("bii->", sums.gram) for sums in (one, all_of_them)]
    assert traces[0] == pytest.approx(traces[1], rel=0.2)


@given(st.integers(1, 60), st.integers(1, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_copies_are_shared_out_over_samples_and_elements(samples, elements, data):
    copies = data.draw(st.integers(1, elements))
    shares = module._shares(samples, elements, copies)
    counts = np.bincount(np.concatenate(shares), minlength=samples)
    assert (counts == copies).all()
    assert np.ptp([len(share) for share in shares]) <= copies
    assert all(len(np.unique(share)) == len(share) for share in shares)


def test_a_stage_moves_with_its_fields():
    scene, samples = square()
    features, bands = drawn(scene, samples)
    V = summed(scene, features, bands, samples).readout(1e-6)
    stage = Stage(features, bands, V, 1e-6)
    fields = np.random.default_rng(0).normal(size=samples.fields.shape)
    found = stage.applied(scene, samples.inputs, fields)
    for g in range(8):
        there = stage.applied(scene, scene.moved_inputs(samples.inputs, g), scene.moved_outputs(fields, g))
        assert np.allclose(there, scene.moved_outputs(found, g), rtol=0, atol=1e-11)
        assert np.array_equal(scene.moved_back(scene.moved_outputs(fields, g), g), fields)
    alone = stage.applied(replace(scene, averaged=(0,)), scene.moved_inputs(samples.inputs, 1), fields)
    assert not np.allclose(alone, stage.applied(replace(scene, averaged=(0,)), samples.inputs, fields))


# Weights


def test_weights_are_1_over_the_norm_by_hand():
    outputs = np.array([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
    norms = np.array([np.sqrt(12.5), 0.0, 2 * np.sqrt(12.5)])
    least = 0.05 * norms.mean()
    assert np.allclose(sample_weights(outputs), 1 / np.array([norms[0], least, norms[2]]))


def test_outputs_of_zeros_weigh_1():
    assert sample_weights(np.zeros((3, 4))).tolist() == [1.0, 1.0, 1.0]


@numpy_and_torch()
@every_boundary
def test_libraries_agree(library, boundary):
    scene, samples = line(boundary)
    features, bands = drawn(scene, samples)
    there = Triple(*(library(np.array(part)) for part in samples))
    moved, _ = drawn(scene, there)
    here, found = summed(scene, features, bands, samples), summed(scene, moved, bands, there)
    assert np.allclose(to_host(found.gram), here.gram, rtol=0, atol=1e-10)
    V = here.readout(1e-4)
    expected = Stage(features, bands, V, 1e-4).applied(scene, *samples[:2])
    there_applied = Stage(moved, bands, library(V), 1e-4).applied(scene, *there[:2])
    assert np.allclose(to_host(there_applied), expected, rtol=0, atol=1e-10)


@every_boundary
def test_a_stage_in_single_precision_corrects_as_well(boundary):
    """Sums in double precision of features that are rounded: readouts may differ, what they correct does not."""
    scene, samples = line(boundary, 60)
    features, bands = drawn(scene, samples, singles=8, count=30)
    rounded = replace(features, sight=replace(features.sight, families=Channels(singles=8, single=True)))
    errors = []
    for one in (features, rounded):
        sums = summed(scene, one, bands, samples)
        assert sums.gram.dtype == (np.complex128 if boundary == "periodic" else np.float64)
        found = Stage(one, bands, sums.readout(1e-8), 1e-8).applied(scene, samples.inputs, samples.fields)
        assert found.dtype == np.float64
        errors.append(np.linalg.norm(found - samples.outputs))
    assert errors[1] == pytest.approx(errors[0], rel=0.01)


@every_boundary
@numpy_and_torch()
def test_a_stage_is_pushed_and_pulled_through_in_any_library(boundary, library):
    scene, samples = line(boundary)
    features, bands = drawn(scene, samples)
    stage = Stage(features, bands, summed(scene, features, bands, samples).readout(1e-4), 1e-4)
    rng = np.random.default_rng(0)
    da, du, c = rng.normal(size=(3, 12, POINTS))
    a, u = np.asarray(samples.inputs), np.asarray(samples.fields)
    pushed = stage.pushed(scene, (a, u), (da, du))
    after = [stage.applied(scene, a + h * da, u + h * du) for h in (1e-5, -1e-5)]
    assert np.allclose(pushed, (after[0] - after[1]) / 2e-5, rtol=0, atol=1e-7 * np.abs(pushed).max())
    there = Triple(*(library(np.array(part)) for part in samples))
    features, bands = drawn(scene, there)
    moved = Stage(features, bands, library(stage.readout), 1e-4)
    again = moved.pushed(scene, there[:2], (library(da), library(du)))
    back = moved.pulled(scene, there[:2], library(c))
    assert np.allclose(to_host(again), pushed, rtol=0, atol=1e-10 * np.abs(pushed).max())
    assert np.sum(pushed * c) == pytest.approx(np.sum(to_host(back[0]) * da) + np.sum(to_host(back[1]) * du), rel=1e-10)
