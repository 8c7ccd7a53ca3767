import numpy as np
import pytest

from conftest import periodic_pairs
from pcarann import PCARaNN
from pcarann.backend.arrays import to_host
from pcarann.metrics import relative_l2
from pcarann.readout.direct import fit_readout
from pcarann.readout.ridge import choose_ridge, spectrum_of_rows
from pcarann.symmetry.generators import Symmetry


@pytest.fixture(scope="module")
def fitted(pairs):
    a, u = pairs[:200]
    return PCARaNN(n_components=0.9999, widths=(60, 40), n_members=4, scales="energy").fit(a, u)


def test_members_differ(fitted, pairs):
    x = fitted.ensemble_.encode(pairs.inputs[:5])
    assert np.std([member(x) for member in fitted.ensemble_.members], axis=0).max() > 0


def test_more_members_begin_with_the_fewer(fitted, pairs):
    a, u = pairs[:200]
    fewer = PCARaNN(n_components=0.9999, widths=(60, 40), n_members=2, scales="energy").fit(a, u)
    for one, other in zip(fewer.ensemble_.members, fitted.ensemble_.members, strict=False):
        assert np.allclose(one.readout, other.readout, rtol=1e-9, atol=1e-12)


def test_hidden_weights_that_are_not_kept_change_nothing(fitted, pairs, monkeypatch):
    a, u = pairs[:200]
    monkeypatch.setattr("pcarann.ensemble.members._KEPT_WEIGHT_BYTES", 0)
    lean = PCARaNN(n_components=0.9999, widths=(60, 40), n_members=4, scales="energy").fit(a, u)
    assert lean.ensemble_.members[0].features.weights is None
    assert np.array_equal(lean.predict(a), fitted.predict(a))


# Symmetry

CIRCLE = Symmetry.shifts(-1) * Symmetry.reflection(-1, periodic=True)
FEW = dict(n_components=(5, 0.9999), widths=(30, 20), n_members=2, scales=(0.3, 0.3), ridge=1e-3)
MAPS = pytest.mark.parametrize("regressor", ["random", "kernel"])


@pytest.fixture(scope="module")
def circular():
    return periodic_pairs(140)


def symmetric(circular, samples=40, **changes):
    # Each copy is a landmark of a kernel: a few of them will do, and are faster.
    symmetry = CIRCLE.using(fit=4) if changes.get("regressor") == "kernel" else CIRCLE
    return PCARaNN(**{**FEW, "symmetry": symmetry, **changes}).fit(*circular[:samples])


def moved(fields, element):
    """Shift by a few points, after a flip for odd elements, written out."""
    flipped = np.roll(np.flip(fields, -1), 1, -1) if element % 2 else fields
    return np.roll(flipped, element, -1)


@MAPS
@pytest.mark.parametrize("element", [1, 2, 5])
def test_a_prediction_moves_exactly_as_its_input_does(circular, regressor, element):
    model = symmetric(circular, regressor=regressor)
    inputs = circular.inputs[40:60]
    mean, std = model.predict(inputs, return_std=True)
    moved_mean, moved_std = model.predict(moved(inputs, element), return_std=True)
    assert np.allclose(model.predict(moved(inputs, element)), moved(model.predict(inputs), element), rtol=0, atol=1e-12)
    assert np.allclose(moved_mean, moved(mean, element), rtol=0, atol=1e-12)
    assert np.allclose(moved_std, moved(std, element), rtol=0, atol=1e-12)


def test_an_average_over_a_part_of_the_group_is_not_exactly_equivariant(circular):
    model = symmetric(circular, symmetry=CIRCLE.using(predict=1))
    inputs = circular.inputs[40:60]
    assert np.abs(model.predict(moved(inputs, 3)) - moved(model.predict(inputs), 3)).max() > 1e-6


@MAPS
def test_a_symmetry_of_the_data_helps_and_a_wrong_one_harms(circular, regressor):
    a, u = circular[40:]
    errors = {
        name: relative_l2(symmetric(circular, regressor=regressor, symmetry=symmetry).predict(a), u)
        for name, symmetry in {
            "right": CIRCLE.using(fit=6),
            "none": None,
            "wrong": Symmetry.reflection(sign=-1),
        }.items()
    }
    assert errors["right"] < 0.8 * errors["none"]
    assert errors["wrong"] > errors["none"]


@MAPS
def test_copies_in_a_stream_give_the_readout_of_all_rows_at_once(circular, monkeypatch, regressor):
    monkeypatch.setattr("pcarann.ensemble.members.ROWS", 64)
    fitted = symmetric(circular, regressor=regressor)._fitted
    assert fitted.x.shape[0] == 40 * len(fitted.copied) > 64
    for member in fitted.ensemble.members:
        expected, _ = fit_readout(member.features(fitted.x), fitted.y, 1e-3)
        assert np.allclose(member.readout, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_rows_after_the_samples_are_the_latents_of_their_copies(circular):
    fitted = symmetric(circular)._fitted
    a, u = (fields.reshape(40, -1) for fields in circular[:40])
    group = fitted.ensemble.group
    for g in range(group.order):
        rows = slice(40 * g, 40 * g + 40)
        assert np.allclose(fitted.x[rows], fitted.ensemble.input_pca.encode(group.move_inputs(a, g)), atol=1e-12)
        assert np.allclose(fitted.y[rows], fitted.ensemble.output_pca.encode(group.move_outputs(u, g)), atol=1e-12)


def test_landmarks_are_among_the_samples_and_their_copies(circular):
    fitted = symmetric(circular, regressor="kernel")._fitted
    rows = {row.tobytes() for row in fitted.x}
    assert {row.tobytes() for row in fitted.ensemble.members[0].features.landmarks} <= rows


def test_anchors_come_from_the_samples_and_not_from_their_copies(circular):
    fitted = symmetric(circular)._fitted
    features, _ = fitted.feature_map.features(0, fitted.x[:40], list(range(40)))
    for one, other in zip(features.anchors, fitted.ensemble.members[0].features.anchors, strict=True):
        assert np.array_equal(one, other)


def test_the_ridge_of_streamed_copies_is_that_of_all_rows(circular):
    noisy = circular.outputs[:40] + 0.5 * np.random.default_rng(0).normal(size=(40, 2, 10))
    model = PCARaNN(**{**FEW, "symmetry": CIRCLE, "ridge": "gcv"}).fit(circular.inputs[:40], noisy)
    fitted = model._fitted
    H = fitted.ensemble.members[0].features(fitted.x)
    assert model.ridge_ == pytest.approx(choose_ridge(spectrum_of_rows(H, fitted.y)), rel=1e-9)


def test_spread_in_small_blocks_of_fields_equals_spread_at_once_with_a_symmetry(circular, monkeypatch):
    model = symmetric(circular)
    whole = model.predict(circular.inputs, return_std=True)
    monkeypatch.setattr("pcarann.ensemble.mean_and_spread._FIELD_BYTES", 5000)
    for one, other in zip(whole, model.predict(circular.inputs, return_std=True), strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{"n_members": 1}, {"regressor": "kernel"}], ids=str)
def test_a_spread_from_left_out_residuals_moves_as_inputs_do(circular, options):
    model = symmetric(circular, **options)
    moved = np.roll(circular.inputs[:5], 3, axis=-1)
    std, wanted = (model.predict_parts(X).members for X in (moved, circular.inputs[:5]))
    assert wanted.min() > 0
    assert np.allclose(std, np.roll(wanted, 3, axis=-1), rtol=1e-6)


def test_the_symmetry_that_does_nothing_changes_nothing(circular):
    one, other = (symmetric(circular, symmetry=s) for s in (None, CIRCLE.using(fit=1, predict=1)))
    assert np.allclose(one.predict(circular.inputs), other.predict(circular.inputs), rtol=0, atol=1e-12)


def test_the_numbers_of_copies_and_averaged_elements_are_those_asked_for(circular):
    fitted = symmetric(circular, symmetry=CIRCLE.using(fit=4, predict=3))._fitted
    assert (len(fitted.copied), len(fitted.ensemble.averaged)) == (4, 3)
    assert fitted.x.shape[0] == 4 * 40


def test_refined_scales_and_a_symmetry_go_together(circular):
    model = symmetric(circular, scales="refined")
    inputs = circular.inputs[40:50]
    assert model.refinement_.loss < model.refinement_.start_loss
    assert np.allclose(model.predict(moved(inputs, 3)), moved(model.predict(inputs), 3), rtol=0, atol=1e-12)


def test_a_symmetric_model_is_the_same_on_every_backend(backend, circular):
    a, u = (backend(fields) for fields in circular[:40])
    mean, std = PCARaNN(**{**FEW, "symmetry": CIRCLE}).fit(a, u).predict(a, return_std=True)
    expected = symmetric(circular).predict(circular.inputs[:40], return_std=True)
    assert isinstance(mean, type(a))
    assert np.allclose(to_host(mean), expected[0], rtol=0, atol=1e-8)
    assert np.allclose(to_host(std), expected[1], rtol=0, atol=1e-8)


def test_fewer_samples_than_elements_of_the_group_are_enough():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((8, 12))
    model = PCARaNN(n_components=3, widths=(10, 5), n_members=1, scales="energy", symmetry=Symmetry.shifts(-1))
    assert np.isfinite(model.fit(a, a**2).predict(a)).all()
