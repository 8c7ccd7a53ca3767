"""Derivatives of roll-outs: adjoint, what differences come to, and those of a linear flow, which are known."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from flows import LinearStep, steered, waves

from differences import check
from pcarann import Channels, Marching, PCARaNN, Staged
from pcarann.marching import derivative
from pcarann.marching import flow as flows

LATENT = PCARaNN(n_components=(4, 4), widths=(20, 10), n_members=2, scales=("gain", 1.0, 1.0), ridge=1e-6)
STAGED = Staged(n_stages=1, n_features=8, channels=Channels(singles=2))


class Under:
    """A flow with what its predictions and derivatives are told beside X."""

    def __init__(self, model, **told):
        self.model, self.told = model, told

    def predict(self, X):
        return self.model.predict(X, **self.told)

    def jvp(self, X, dX):
        return self.model.jvp(X, dX, **self.told)

    def vjp(self, X, dY):
        return self.model.vjp(X, dY, **self.told)


def marched(model, u, controls=None, given=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small models are no good
        return Marching(model, choose=False, **options).fit(u[:, :given], u[:, given:], controls)


def quiet(model, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # members may leave the data
        return check(model, X, **options)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("model", [LATENT, STAGED], ids=["latent", "staged"])
def test_derivatives_are_adjoint_and_the_limit_of_differences(model, step):
    u = waves(20, times=8)
    pushed, pulled = quiet(marched(model, u, step=step), u[:3, :3])
    assert pushed.shape == (3, 5, 16)
    assert not pulled[:, : 3 - step].any()
    assert pulled[:, 3 - step :].all()


@pytest.mark.parametrize("model", [LATENT, STAGED], ids=["latent", "staged"])
@pytest.mark.parametrize("steady", [True, False], ids=["steady", "each step"])
def test_controls_stay_as_they_are(model, steady):
    u, moves = steered(20, steady=steady)
    flow = marched(model, u, moves[:, 0] if steady else moves)
    told = moves[:3, 0] if steady else moves[:3, :5]
    quiet(Under(flow, controls=told, steps=3), u[:3, :3])


def test_each_member_has_its_own_trajectory():
    u = waves(20, times=8)
    flow = marched(LATENT, u)
    X, dX = u[:3, :3], np.random.default_rng(0).normal(size=(3, 3, 16))
    alone = []
    for member in range(2):
        record = flow.model_.fitted_
        one = replace(record, ensemble=replace(record.ensemble, members=record.ensemble.members[member : member + 1]))
        single = marched(LATENT, u)
        single.model_.fitted_ = one
        alone.append(single.jvp(X, dX))
    assert np.allclose(flow.jvp(X, dX), np.mean(alone, axis=0))
    assert not np.allclose(alone[0], alone[1], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_value_that_is_held_does_not_change(monkeypatch):
    u = waves(20, times=8)
    flow = marched(LATENT, u)
    flow.marched_ = replace(flow.marched_, reach=replace(flow.marched_.reach, largest=10.0))
    monkeypatch.setattr(flows, "HELD", 0.05)
    free = np.abs(flow.predict(u[:3, :3])) < 0.4999
    assert 0.1 < free.mean() < 0.9
    pushed, _ = quiet(flow, u[:3, :3], step=1e-6)
    assert not pushed[np.isclose(np.abs(flow.predict(u[:3, :3])), 0.5, rtol=0, atol=1e-12)].any()
    assert pushed[free].all()


def test_many_samples_come_by_blocks(monkeypatch):
    u = waves(20, times=6)
    flow = marched(LATENT, u)
    weights = np.random.default_rng(0).normal(size=(5, 3, 16))
    whole = flow.vjp(u[:5, :3], weights), flow.jvp(u[:5, :3], weights)
    monkeypatch.setattr(derivative, "_KEPT_BYTES", 1)
    parts = flow.vjp(u[:5, :3], weights), flow.jvp(u[:5, :3], weights)
    assert all(np.allclose(a, b, rtol=1e-10) for a, b in zip(parts, whole, strict=True))


def test_the_jacobian_under_controls_is_that_of_all_products():
    u, moves = steered(20, times=6)
    flow = marched(LATENT, u, moves)
    told = {"controls": moves[:2, :4], "steps": 2}
    X = u[:2, :3]
    whole = flow.jacobian(X, **told)
    assert whole.shape == (2, 2, 16, 3, 16)
    dX = np.random.default_rng(0).normal(size=X.shape)
    assert np.allclose(np.einsum("ntpsq,nsq->ntp", whole, dX), flow.jvp(X, dX, **told))


def test_autograd_goes_through_a_roll_out():
    torch = pytest.importorskip("torch")
    u = waves(20, times=6)
    flow = marched(LATENT, u)
    x = torch.tensor(u[:2, :3], requires_grad=True)
    flow.as_torch(steps=4)(x).square().sum().backward()
    assert np.allclose(x.grad, 2 * flow.vjp(u[:2, :3], flow.predict(u[:2, :3], steps=4), steps=4))


def test_roll_outs_that_leave_the_data_are_told():
    u = waves(20, times=8)
    flow = marched(LATENT, u)
    with pytest.warns(UserWarning, match="At step 1 of 5 of the roll-out"):
        flow.vjp(20 * u[:3, :3], u[:3, 3:])


def test_a_step_without_derivative_is_refused():
    u = waves(20, times=8)
    flow = marched(LinearStep(), u)
    with pytest.raises(ValueError, match="no derivative"):
        flow.jvp(u[:3, :3], u[:3, :3])
