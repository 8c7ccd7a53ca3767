"""Members on a sheet: layers and kernels, near landmarks and far from them."""

import numpy as np
import pytest
from runtime import run

from pcarann.ensemble.members import Member
from pcarann.export.graph import Sheet
from pcarann.export.members import Members
from pcarann.features.kernel import landmark_features
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.latent.weighting import Weighting
from pcarann.readout.direct import solve_readout

x = np.random.default_rng(0).normal(size=(30, 3))
y = np.tanh(x @ np.random.default_rng(1).normal(size=(3, 4)))


def member(kind, k, weighting):
    if kind == "layers":
        features, H = anchor_features(HiddenLayers(0, k, (3, 7, 5)), x, (0.5, 0.8), weighting)
    else:
        features = landmark_features(x, {"short": 0.3, "long": 20.0}[kind], member=k, seed=0, weighting=weighting)
        H = features(x)
    found = solve_readout(H, y, 1e-6)
    return Member.of(features, found.readout, found.report)


@pytest.mark.parametrize("kind", ["layers", "short", "long"])
@pytest.mark.parametrize("weighting", [Weighting(), Weighting(np.array([1.0, 0.5, 2.0]), np.array([0.1, 0.2, 0.3]))])
def test_every_member_is_what_it_is_with_arrays(kind, weighting):
    members = [member(kind, k, weighting) for k in range(2)]
    sheet = Sheet()
    found = Members(sheet, members)(sheet.input("x", (3,)))
    rows = np.concatenate([x[:3], 30 * x[:3], np.zeros((1, 3))])  # k is g and a polynomial near, and itself far away
    (values,) = run(sheet.graph({"y": (found, (7, 4))}), x=rows).values()
    wanted = np.stack([one(rows) for one in members])
    assert np.abs(values - wanted).max() < 1e-11 * np.abs(wanted).max()


@pytest.mark.parametrize(("ridge", "rough"), [(1e-3, True), (0.0, False)])
def test_hidden_weights_may_be_rounded_where_readouts_do_not_amplify_it(ridge, rough):
    features, H = anchor_features(HiddenLayers(0, 0, (3, 40, 30)), x, (0.05, 0.05))
    found = solve_readout(H, y, ridge)
    sheet = Sheet()
    value = Members(sheet, [Member.of(features, found.readout, found.report)], x)(sheet.input("x", (3,)))
    assert len(sheet.graph({"y": (value, (1, 4))}).rough) == (2 if rough else 0)
