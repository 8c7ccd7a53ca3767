"""PCA–NN: whitening, and how many modes."""

import numpy as np
import pytest
import torch

from pcarann.baselines.fields import latent_scales
from pcarann.baselines.pca_nn import PCANN
from pcarann.metrics import relative_l2


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny networks lose more to waiting than they gain; the number of threads of others is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(**settings):
    defaults = {"n_components": 0.9999, "widths": (64, 64), "rate": 5e-3, "batch": 20, "epochs": 60}
    return PCANN(**{**defaults, "device": "cpu", **settings})


@pytest.mark.parametrize("whitening", [0.0, 0.5, 1.0])
def test_every_whitening_learns_a_smooth_operator(whitening, pairs):
    model = small(whitening=whitening, epochs=80).fit(*pairs[:200])
    a, u = pairs[300:]
    # Six latents of equal weight are harder to fill with 180 samples: whitening 1 ends at 0.11, the others below.
    assert relative_l2(model.predict(a), u) < 0.15 < 0.75 < relative_l2(np.broadcast_to(u.mean(axis=0), u.shape), u)


def test_scales_go_from_one_number_to_the_deviation_of_each_latent():
    latents = np.random.default_rng(0).normal(size=(500, 3)) * [4.0, 1.0, 0.25]
    np.testing.assert_allclose(latent_scales(latents, 0.0), latents.std(axis=0)[0])
    np.testing.assert_allclose(latent_scales(latents, 1.0), latents.std(axis=0))
    np.testing.assert_allclose(latent_scales(latents, 0.5) ** 2, latents.std(axis=0) * latents.std(axis=0)[0])


def test_a_whitening_above_one_is_refused(pairs):
    with pytest.raises(ValueError, match="whitening must be a number"):
        small(whitening=1.5).fit(*pairs[:20])


def test_predictions_lie_in_the_span_of_the_output_modes(pairs):
    predicted = small(n_components=(4, 3), epochs=2).fit(*pairs[:100]).predict(pairs.inputs)
    centred = predicted.reshape(len(predicted), -1)
    centred = centred - centred.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    assert singular[3] < 1e-10 * singular[0]
