"""Derivatives of stages, whatever they see and wherever they stand: adjoint, and what differences come to."""

import warnings

import numpy as np
import pytest

from differences import check, flat
from meshes import triangles
from pcarann import Channels, Grid, PCARaNN, Staged, Symmetry
from pcarann.spatial import fitted as fitted_stages
from pcarann.spatial import stage as stages
from random_fields_in_space import held, local, planes, waves

SMALL = {"n_stages": 2, "n_features": 8}
LATENT = PCARaNN(n_components=(5, 6), widths=(20, 10), n_members=2, scales=("gain", 1.0, 1.0), ridge=1e-8)
N, P = 24, 16


def fitted(a, u, channels=None, rows=3, **options):
    model = Staged(**SMALL | {"channels": channels or Channels()} | options).fit(a, u)
    assert model.fitted_.chains[0].stages
    return model, a[:rows]


def closed(fields):
    for axis in range(1, fields.ndim):
        fields = np.concatenate([fields, np.take(fields, [0], axis=axis)], axis=axis)
    return fields


def on_a_line(ends, channels, **options):
    a = waves(N, P, modes=3)
    u = 50 * held(a) if ends == "zero" else local(a)
    return fitted(a, u, channels, grid=Grid(boundary=ends), **options)


def on_a_plane(ends, channels, **options):
    a = planes(N, (10, 10))
    return fitted(a, local(a), channels, grid=Grid(boundary=ends), **options)


def on_a_closed_plane(**options):
    a = planes(N, (8, 8))
    return fitted(closed(a), closed(local(a)), Channels(smoothed=np.inf), grid=Grid(boundary="periodic"), **options)


def on_a_closed_line_with_shifts():
    a = waves(N, 8, modes=3)
    return fitted(closed(a), closed(local(a)), symmetry=Symmetry.shifts(-1), grid=Grid(boundary="periodic"))


def on_a_mesh(channels):
    mesh, a = triangles(6), planes(N, (6, 6)).reshape(N, -1)
    return fitted(a, np.tanh(a) * mesh.points[:, 0], channels, grid=mesh)


def of_components():
    a = np.stack([planes(N, (8, 8), seed) for seed in range(3)], axis=1)
    u = np.concatenate([np.tanh(a), a[:, :1] * a[:, 1:2]], axis=1)
    return fitted(a, u, Channels(singles=1), n_stages=1)


def from_a_surrogate():
    a = waves(N, P, modes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small models are no good
        return fitted(a, local(a), model=LATENT)


def repeated():
    a = waves(N, 12, modes=3)
    return fitted(a, np.tanh(a[:, None, :] * np.linspace(0, 1, 10)[:, None]))


def moved(ends, points):
    a = waves(N, P, modes=3)
    u = 50 * held(a) if ends == "zero" else local(a)
    model, _ = fitted(a, u, Channels(reach=2, smoothed=0.1), grid=Grid(boundary=ends))
    return model.on(points), waves(2, points, modes=3)


def of_parts():
    a, angle = waves(N, P, modes=3), np.random.default_rng(1).uniform(1, 2, N)
    parts = {"k": a, "angle": angle}
    model = Staged(**SMALL, channels=Channels()).fit(parts, {"u": 300 * local(a), "v": angle[:, None] * a})
    return model, {name: part[:3] for name, part in parts.items()}


def on_torch():
    torch = pytest.importorskip("torch")
    model, X = on_a_plane(("periodic", "free"), Channels(reach=2, smoothed=0.2))
    return model, torch.asarray(X)


MODELS = {
    "a circle": lambda: on_a_line("periodic", Channels(reach=2, smoothed=0.1)),
    "a circle, one band": lambda: on_a_line("periodic", Channels(reach=0, singles=0, gain=1.0)),
    "zero ends": lambda: on_a_line("zero", Channels(reach=2, smoothed=np.inf)),
    "free ends": lambda: on_a_line("free", Channels(reach=2, smoothed=0.1)),
    "no products": lambda: on_a_line("free", Channels(products=False)),
    "a free plane": lambda: on_a_plane("free", Channels(reach=2, smoothed=0.1)),
    "a cylinder": lambda: on_a_plane(("periodic", "free"), Channels(smoothed=0.1)),
    "a torus": lambda: on_a_plane("periodic", Channels()),
    "a closed grid": on_a_closed_plane,
    "a closed grid with shifts": on_a_closed_line_with_shifts,
    "a symmetry": lambda: on_a_plane("periodic", Channels(), symmetry=Symmetry.dihedral()),
    "a mesh": lambda: on_a_mesh(Channels(smoothed=0.1)),
    "means on a mesh": lambda: on_a_mesh(Channels(reach=2)),
    "components": of_components,
    "from a surrogate": from_a_surrogate,
    "from the input": lambda: on_a_line("periodic", Channels(smoothed=0.1), model="input"),
    "from the mean": lambda: on_a_line("periodic", Channels(), model="mean"),
    "repeated inputs": repeated,
    "another grid, free": lambda: moved("free", 31),
    "another grid, zero": lambda: moved("zero", 31),
    "another grid, periodic": lambda: moved("periodic", 48),
    "parts by name": of_parts,
    "torch": on_torch,
}


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_are_adjoint_and_the_limit_of_differences(name):
    check(*MODELS[name]())


def test_tiny_units_change_nothing():
    a = 1e-200 * waves(N, P, modes=3)
    check(*fitted(a, 1e200 * local(1e200 * a), grid=Grid(boundary="periodic")))


def test_slopes_of_single_precision_are_multiplied_in_double():
    model, X = on_a_line("periodic", Channels(single=True))
    pushed, _ = check(model, X, differences=False)
    assert model.fitted_.chains[0].stages[0].features.sight.families.single
    assert np.any(pushed != pushed.astype(np.float32))
    check(model, X, step=0.03, difference=3e-3)


def test_channels_that_are_clipped_do_not_change():
    model, X = on_a_line("periodic", Channels(reach=0))
    features, stage = [], stages.Features.linearized

    def seen(self, inputs, fields):
        value = (self.sight.channels(inputs, fields) - self.shift) * self.scale
        features.append(np.mean(np.abs(value) >= self.limit))
        return stage(self, inputs, fields)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(stages.Features, "linearized", seen)
        check(model, 4 * X, step=1e-6)
    assert max(features) > 0.05


def test_many_samples_come_by_blocks(monkeypatch):
    model, X = on_a_line("free", Channels())
    weights = np.random.default_rng(0).normal(size=X.shape)
    whole = model.vjp(X, weights), model.jvp(X, weights)
    monkeypatch.setattr(fitted_stages, "_AT_A_TIME", 1)
    parts = model.vjp(X, weights), model.jvp(X, weights)
    assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(parts, whole, strict=True))


def test_the_jacobian_and_autograd_say_the_same():
    torch = pytest.importorskip("torch")
    model, X = on_a_line("periodic", Channels(), rows=2)
    weights = np.random.default_rng(0).normal(size=P)
    gradient = model.vjp(X, np.broadcast_to(weights, X.shape))
    assert np.allclose(model.jacobian(X, of=weights), gradient)
    assert np.allclose(np.einsum("p,npq->nq", weights, model.jacobian(X)), gradient)
    x = torch.tensor(X, requires_grad=True)
    (model.as_torch()(x) @ torch.tensor(weights)).sum().backward()
    assert np.allclose(x.grad, gradient)


def test_terms_have_no_derivative():
    model, X = on_a_line("periodic", Channels(), terms=[lambda a, u: a * u])
    with pytest.raises(ValueError, match="terms have no derivative"):
        model.vjp(X, X)


def test_a_start_without_derivative_is_named():
    from sklearn.linear_model import Ridge

    model, X = on_a_line("periodic", Channels(), model=Ridge())
    with pytest.raises(ValueError, match="start from a Ridge have no derivative"):
        model.jvp(X, X)


def test_inputs_outside_the_data_are_told():
    model, X = on_a_line("periodic", Channels())
    with pytest.warns(UserWarning, match="outside the range"):
        found = model.jvp(100 * X, X)
    assert np.isfinite(flat(found)).all()
