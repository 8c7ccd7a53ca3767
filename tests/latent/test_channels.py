"""Channels: a PCA for each, weights that find the one that matters, and what the user is shown of it."""

import numpy as np
import pytest

from pcarann import Fields, PCARaNN, Symmetry, load
from pcarann.features.relevance import channel_weights
from pcarann.latent.channels import channel_sizes, fit_channels
from pcarann.latent.pca import fit_pca
from pcarann.metrics import relative_l2

POINTS = np.linspace(0, 1, 24)
FEW = dict(n_components=(4, 6), widths=(80, 40), n_members=2)


def waves(n, seed):
    return np.random.default_rng(seed).normal(size=(n, 4)) @ np.sin(np.pi * np.outer(np.arange(1, 5), POINTS))


@pytest.fixture(scope="module")
def three():
    """Inputs of three channels of very different size, of which the second alone says anything."""
    inputs = np.stack([100 * waves(160, 0), waves(160, 1), 0.01 * waves(160, 2)], axis=1)
    return inputs, np.tanh(inputs[:, 1])


def test_each_channel_has_the_modes_of_a_pca_of_its_own(three):
    flat = three[0].reshape(160, -1)
    pca, latents = fit_channels(3, flat, 4, grid=(3, 24))
    for c in range(3):
        alone, codes = fit_pca(three[0][:, c], 4)
        assert np.allclose(pca.modes[4 * c : 4 * c + 4, 24 * c : 24 * c + 24], alone.modes, rtol=0, atol=1e-12)
        assert np.allclose(latents[:, 4 * c : 4 * c + 4], codes, rtol=1e-10, atol=1e-12)
    assert np.allclose(pca.encode(flat), latents, rtol=1e-10, atol=1e-10)
    assert np.allclose(pca.modes @ pca.modes.T, np.eye(12), rtol=0, atol=1e-12)
    assert pca.energy == pytest.approx(((flat - flat.mean(axis=0)) ** 2).sum())
    assert channel_sizes(pca) == [4, 4, 4]


def test_quadrature_weights_reach_every_channel(three):
    flat, weights = three[0].reshape(160, -1), np.linspace(1, 2, 72)
    pca, latents = fit_channels(3, flat, 2, grid=(3, 24), weights=weights)
    assert np.allclose(pca.encode(flat), latents, rtol=1e-9, atol=1e-9)
    assert np.allclose((pca.modes * weights) @ pca.modes.T, np.eye(6), rtol=0, atol=1e-12)


def test_the_channel_that_matters_is_found_whatever_the_units(three):
    inputs, outputs = three
    _, x = fit_channels(3, inputs.reshape(160, -1), 4, grid=(3, 24))
    _, y = fit_pca(outputs, 6)
    weights = channel_weights(x, y, sizes=[4, 4, 4]) * x.std(axis=0)
    shares = [(weights[4 * c : 4 * c + 4] ** 2).sum() for c in range(3)]
    assert shares[1] > 20 * max(shares[0], shares[2])


def test_channels_that_all_matter_are_all_kept():
    inputs = np.stack([waves(160, 0), waves(160, 1)], axis=1)
    options = {**FEW, "n_components": 4, "fields": Fields(channels=True), "relevance": "channels"}
    model = PCARaNN(**options).fit(inputs, inputs[:, 0] + inputs[:, 1])
    assert model.sensitivity_.channels.min() > 0.3


def test_weights_of_channels_lower_the_error(three):
    inputs, outputs = three
    errors = [
        relative_l2(
            PCARaNN(**FEW, fields=Fields(channels=True), relevance=relevance)
            .fit(inputs[:120], outputs[:120])
            .predict(inputs[120:]),
            outputs[120:],
        )
        for relevance in (0.0, "channels")
    ]
    assert errors[1] < 0.3 * errors[0]


def test_channels_go_with_a_symmetry(three):
    inputs, outputs = three
    mirror = Symmetry.reflection(-1)
    model = PCARaNN(**FEW, fields=Fields(channels=True), relevance="channels", symmetry=mirror).fit(
        inputs[:120], outputs[:120]
    )
    mirrored = model.predict(np.flip(inputs[120:], -1))
    assert np.allclose(mirrored, np.flip(model.predict(inputs[120:]), -1), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            dict(fields=Fields(channels=True)),
            "channels=True needs inputs of shape (samples, channels, *grid), found (samples, 24)",
        ),
        (dict(relevance="channels"), "relevance='channels' weighs the channels of the inputs: it needs fields=Fields"),
        (dict(fields=Fields(channels=1)), "fields.channels must be True or False"),
    ],
)
def test_options_of_channels_are_refused_where_there_are_none(three, options, says):
    with pytest.raises(ValueError) as refusal:
        PCARaNN(**FEW, **options).fit(three[0][:, 0], three[1])
    assert says in str(refusal.value)


# What the user is shown


def test_sensitivity_says_in_numbers_what_counts(three, tmp_path):
    model = PCARaNN(**FEW, fields=Fields(channels=True), relevance="channels").fit(*three)
    shown = model.sensitivity_
    assert shown.channels.sum() == pytest.approx(1.0)
    assert shown.channels.argmax() == 1
    assert shown.map.shape == (3, 24)
    assert shown.map[1].max() == 1.0
    assert shown.map[[0, 2]].max() < 0.2
    assert set(np.argsort(-shown.weights)[:4]) == {4, 5, 6, 7}
    assert "1 (9" in str(shown) or "1 (100 %)" in str(shown)
    model.save(tmp_path / "m")
    assert np.allclose(load(tmp_path / "m").sensitivity_.map, shown.map, rtol=0, atol=1e-12)


def test_sensitivity_of_a_learned_metric_is_where_the_output_looks():
    inputs = np.random.default_rng(0).normal(size=(200, 6))
    model = PCARaNN(n_components=6, widths=(40, 20), n_members=2, relevance="learned")
    shown = model.fit(inputs, np.sin(inputs[:, :1] + inputs[:, 3:4])).sensitivity_
    assert shown.channels is None
    assert set(np.argsort(-shown.map)[:2]) == {0, 3}


@pytest.mark.parametrize("shape", [(12,), (3, 8), (3, 4, 5)])
def test_sensitivity_is_drawn_for_every_kind_of_grid(tmp_path, shape):
    inputs = np.random.default_rng(0).normal(size=(30, *shape))
    model = PCARaNN(
        n_components=3, widths=(10, 5), n_members=2, fields=Fields(channels=len(shape) > 1), scales="energy"
    )
    model.fit(inputs, inputs.reshape(30, -1)[:, :2])
    model.sensitivity_.draw(tmp_path / "shown.png")
    assert (tmp_path / "shown.png").read_bytes()[:4] == b"\x89PNG"


def test_a_constant_channel_does_no_harm(three):
    inputs = three[0].copy()
    inputs[:, 0] = 5.0
    options = {**FEW, "n_components": (3, 6), "fields": Fields(channels=True), "relevance": "channels"}
    with pytest.warns(UserWarning, match="rank 1"):
        model = PCARaNN(**options).fit(inputs, three[1])
    assert np.isfinite(model.sensitivity_.weights).all()
    assert model.sensitivity_.channels.argmax() == 1


def test_channels_are_not_smoothed_into_each_other(three):
    with pytest.raises(ValueError, match="one of which counts channels here"):
        PCARaNN(**FEW, fields=Fields(channels=True, smoothing=0.05)).fit(*three)


def test_channels_belong_to_the_fit_and_not_to_the_parameter(three):
    model = PCARaNN(**FEW).fit(*three).set_params(fields__channels=True)
    assert model.sensitivity_.channels is None


def test_a_number_in_the_form_of_a_field_is_expected_to_have_one_mode():
    rng = np.random.default_rng(0)
    fields = np.stack([rng.normal(size=(30, 8)), np.repeat(rng.normal(size=(30, 1)), 8, axis=1)], axis=1)
    told = []
    pca, _ = fit_channels(2, fields.reshape(30, 16), 5, grid=(2, 8), name="inputs", complain=told.append)
    assert (channel_sizes(pca), told) == ([5, 1], [])
    rough = fields.reshape(30, 16).copy()
    rough[:, 12:] *= 2  # of rank 1 as well, but a field
    fit_channels(2, rough, 5, grid=(2, 8), name="inputs", complain=told.append)
    assert len(told) == 1
