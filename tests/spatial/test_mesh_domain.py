"""A mesh as the space of stages: identities of T, bands, and fits that are far better than latents alone."""

import numpy as np
import pytest

import pcarann.mesh.mesh
from meshes import cloud, disc, line, reactions, sphere, tetrahedra, triangles
from pcarann import Channels, Grid, Mesh, PCARaNN, Staged, Symmetry
from pcarann.backend.arrays import to_host
from pcarann.metrics import relative_l2
from pcarann.spatial.mesh_domain import MeshDomain
from random_fields_in_space import numpy_and_torch

SPACES = {
    "triangles": lambda: MeshDomain.of(triangles(), 30),
    "all harmonics": lambda: MeshDomain.of(triangles(6)),
    "line": lambda: MeshDomain.of(line(60), 9),
    "tetrahedra": lambda: MeshDomain.of(tetrahedra(), 20),
    "sphere": lambda: MeshDomain.of(sphere(120), 40),
    "cloud": lambda: MeshDomain.of(cloud(100), 30),
}
SPACE = pytest.mark.parametrize("made", SPACES.values(), ids=SPACES)


def fields(domain, seed=0):
    return np.random.default_rng(seed).normal(size=(2, domain.points, 3))


@SPACE
@numpy_and_torch()
def test_backward_undoes_forward_which_keeps_norms(made, library):
    domain = made()
    u = fields(domain)
    harmonics = domain.forward(library(u))
    assert tuple(harmonics.shape) == (2, *domain.modes, 3)
    assert np.allclose(to_host(domain.backward(harmonics)), u, rtol=0, atol=1e-12)
    weights = domain.mesh.weights / domain.mesh.weights.mean()
    assert (to_host(harmonics) ** 2).sum() == pytest.approx((weights[None, :, None] * u**2).sum(), rel=1e-9)


def test_the_rest_is_there_where_harmonics_are_not_all():
    assert SPACES["triangles"]().modes == (30 + 81,)
    assert SPACES["all harmonics"]().modes == (36,)
    assert MeshDomain.of(disc(400)).modes == (256 + 400,)


@SPACE
def test_single_precision_stays_single(made):
    domain = made()
    u = fields(domain).astype(np.float32)
    found = [domain.forward(u), domain.backward(domain.forward(u)), domain.smoothed(u, 0.1), *domain.slopes(u)]
    assert {one.dtype for one in [*found, domain.blurred(u, 1.5)]} == {np.dtype(np.float32)}


@SPACE
@numpy_and_torch()
def test_a_harmonic_is_smoothed_by_its_eigenvalue(made, library):
    domain = made()
    u = np.moveaxis(domain.functions[[1, 4]], 0, -1)[None]
    ratios = []
    for length in (np.inf, 0.2):
        found = to_host(domain.smoothed(library(u), length))
        factors = (found * u).sum(axis=1) / (u * u).sum(axis=1)
        assert np.allclose(found, factors[:, None, :] * u, rtol=0, atol=1e-10)
        ratios.append(factors[0, 0] / factors[0, 1])
    assert ratios[0] == pytest.approx(domain.values[4] / domain.values[1], rel=1e-8)
    assert 1 < ratios[1] < ratios[0]
    constant = domain.smoothed(np.ones((1, domain.points, 1)), np.inf)
    assert np.allclose(constant, 0, atol=1e-8)


@SPACE
@numpy_and_torch()
def test_slopes_are_those_of_the_mesh_in_units_of_a_distance(made, library):
    domain = made()
    u = fields(domain)
    distance = domain.mesh.weights.mean() ** (1 / domain.dimension)
    found = domain.slopes(library(u))
    assert len(found) == domain.directions
    for one, slope in zip(found, domain.mesh.slopes, strict=True):
        assert np.allclose(to_host(one), distance * slope(u, 1), rtol=1e-10, atol=1e-10)


@SPACE
def test_wider_means_are_smoother_and_keep_constants(made):
    domain = made()
    u = fields(domain)
    spreads = [domain.blurred(u, width).std() for width in (1.0, 1.5, 3.0)]
    assert u.std() > spreads[0] > spreads[1] > spreads[2]
    assert np.allclose(domain.blurred(np.ones((1, domain.points, 1)), 3.0), 1)


def test_bands_begin_with_single_harmonics_and_end_with_the_rest():
    domain = MeshDomain.of(disc(400), 100)
    for singles in (0, 1, 3, 16):
        labels = domain.bands(singles)
        assert labels.shape == domain.modes
        assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))
        assert (np.diff(labels) >= 0).all()
        alone = min(singles**2, 100)
        assert labels[:alone].tolist() == list(range(alone))
        if singles:
            assert (labels[100:] == labels[99] + 1).all()
    assert domain.bands(0).max() == 0


def test_coordinates_lie_between_minus_one_and_one():
    domain = MeshDomain.of(disc(100), 10)
    found = domain.coordinates
    assert found.shape == (1, 100, 4)
    assert np.allclose([found[..., [0, 2]].min(), found[..., [0, 2]].max()], [-1, 1])
    assert np.allclose(found[..., 1], found[..., 0] ** 2)


# Fits


MESH = disc(400)
A, U = reactions(MESH, 140)
TRAIN, TEST = (A[:100], U[:100]), (A[100:], U[100:])
QUICK = dict(grid=MESH, n_stages=2, n_features=30, n_members=1, channels=Channels(), random_state=0)


@pytest.mark.filterwarnings("ignore:.*outside the (range of the )?training data")
def test_stages_on_a_mesh_are_far_better_than_latents_and_the_mean():
    model = Staged(**QUICK).fit(*TRAIN)
    error = relative_l2(model.predict(TEST[0]), TEST[1])
    mean = relative_l2(np.broadcast_to(TRAIN[1].mean(axis=0), TEST[1].shape), TEST[1])
    latent = PCARaNN(n_components=40, widths=(100, 50), n_members=2).fit(*TRAIN)
    assert error < 0.2 * mean
    assert error < 0.5 * relative_l2(latent.predict(TEST[0]), TEST[1])
    assert "space: Mesh(400 nodes in 2 dimensions" in str(model.stages_)


@pytest.mark.filterwarnings("ignore:.*outside the (range of the )?training data")
def test_numpy_and_torch_agree(torch_computes):
    torch = pytest.importorskip("torch")
    mesh = disc(100)
    a, u = reactions(mesh, 40)
    settings = {**QUICK, "grid": mesh, "n_features": 10, "channels": Channels(reach=2, smoothed=0.1, singles=2)}
    found = [
        to_host(Staged(**settings).fit(make(a), make(u)).predict(make(a))) for make in (np.asarray, torch.as_tensor)
    ]
    assert np.allclose(*found, rtol=0, atol=1e-8 * np.abs(u).max())


def test_harmonics_are_found_once_for_all_trials_and_fits(monkeypatch):
    calls = []
    solved = pcarann.mesh.mesh.solved
    monkeypatch.setattr(pcarann.mesh.mesh, "solved", lambda *given: calls.append(1) or solved(*given))
    mesh = disc(60)
    a = np.random.default_rng(0).normal(size=(30, 60))
    model = Staged(grid=mesh, n_stages=2, n_features=8).fit(a, np.tanh(a))
    assert len(model.stages_.settled.trials) > 3
    model.fit(a, np.tanh(2 * a))
    assert len(calls) == 1


def test_components_stand_before_the_nodes():
    a = np.stack([A[:40], np.roll(A[:40], 1, axis=0)], axis=1)
    model = Staged(**QUICK).fit(a, np.stack([U[:40], A[:40]], axis=1))
    assert model.predict(a).shape == (40, 2, 400)
    assert model.predict(a)[:, 1] == pytest.approx(A[:40], abs=0.1)


def test_components_may_stand_last():
    model = Staged(**QUICK).fit(A[:40], np.stack([U[:40], A[:40]], axis=2))
    assert model.predict(A[:3]).shape == (3, 400, 2)
    first = Staged(**QUICK).fit(A[:40], np.stack([U[:40], A[:40]], axis=1)).predict(A[:3])
    assert model.predict(A[:3]) == pytest.approx(np.moveaxis(first, 1, 2), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "a", "u", "sentence"),
    [
        ({}, A, U[:, :399], r"Fields of shape \(399,\) have no axis of 400 values"),
        ({"symmetry": Symmetry.shifts(-1)}, A, U, "symmetry needs a grid.*it must be None on a mesh"),
        ({"grid": MESH.points}, A, U, "grid must be None, a Grid or a Mesh"),
    ],
)
def test_what_does_not_lie_on_the_mesh_is_refused(changes, a, u, sentence):
    with pytest.raises(ValueError, match=sentence):
        Staged(**{**QUICK, **changes}).fit(a[:20], u[:20])


def test_a_grid_is_a_mesh_of_squares_in_disguise():
    """What stages find on a line of equal cells is near what they find on the same line as a grid."""
    x = np.linspace(0, 1, 33)
    a = np.random.default_rng(0).normal(size=(80, 6)) @ np.cos(np.pi * np.outer(np.arange(6), x)) * 0.4
    u = np.tanh(a) + 0.1 * np.gradient(a, axis=1)
    mesh = Mesh(x, np.stack([np.arange(32), np.arange(1, 33)], axis=1))
    errors = [
        relative_l2(Staged(**{**QUICK, "grid": grid}).fit(a[:50], u[:50]).predict(a[50:]), u[50:])
        for grid in (mesh, Grid("free"))
    ]
    assert max(errors) < 0.1
    assert max(errors) < 1.2 * min(errors)


@SPACE
@numpy_and_torch()
def test_all_operators_have_their_adjoints(made, library):
    domain = made()
    u, c = fields(domain), fields(domain, 1)
    harmonics = np.random.default_rng(2).normal(size=(2, *domain.modes, 3))

    def same(ahead, back):
        products = [float(np.sum(to_host(one) * other)) for one, other in (ahead, back)]
        assert products[0] == pytest.approx(products[1], rel=1e-9, abs=1e-9)

    given = library(u)
    same((domain.forward(given), harmonics), (domain.forward_adjoint(library(harmonics)), u))
    same((domain.backward(library(harmonics)), u), (domain.backward_adjoint(given), harmonics))
    same((domain.blurred(given, 1.5), c), (domain.blurred_adjoint(library(c), 1.5), u))
    same((domain.smoothed(given, 0.3), c), (domain.smoothed_adjoint(library(c), 0.3), u))
    ahead = sum(np.sum(to_host(one) * c) for one in domain.slopes(given))
    back = domain.slopes_adjoint([library(c)] * domain.directions)
    assert ahead == pytest.approx(np.sum(to_host(back) * u), rel=1e-9, abs=1e-9)
