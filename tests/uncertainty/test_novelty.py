import warnings

import numpy as np
import pytest

from conftest import smooth_pairs
from pcarann import Fields, PCARaNN
from pcarann.backend.arrays import to_host
from pcarann.symmetry.generators import Symmetry

SMALL = dict(n_components=3, widths=(8, 5), n_members=2, scales="energy")


@pytest.fixture(scope="module")
def fitted(pairs):
    return PCARaNN(n_components=0.9999, widths=(40, 30), n_members=3, scales="energy").fit(*pairs[:200])


def rough_fields(samples=50, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, 8)) * 0.5 ** np.arange(8)


def of_rough_fields(fields, wrap=np.asarray, **changes):
    """A small model of these inputs, in whose inner product every value weighs the same."""
    options = {**SMALL, "fields": Fields(quadrature=(np.ones(fields.shape[1]), None)), **changes}
    return PCARaNN(**options).fit(wrap(fields), wrap(np.tanh(fields[:, :4])))


def warning_of(call, *arguments):
    """What a call says of inputs outside the training data; None where it says nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    said = [one for one in caught if "outside the training data" in str(one.message)]
    assert len(said) <= 1
    assert all(one.filename == __file__ for one in said)
    return str(said[0].message) if said else None


# What is reported


def test_inputs_far_from_the_training_data_are_reported(fitted, pairs):
    inside, outside = pairs.inputs[200:205], 50 * pairs.inputs[200:205]
    rough = pairs.inputs[200:205] + 5 * (-1.0) ** np.arange(40)
    assert warning_of(fitted.predict, inside) is None
    for far in (outside, rough):
        assert warning_of(fitted.predict, far).startswith("5 of 5 inputs lie outside the training data (p ≤ 0.01).")
        assert fitted.novelty(far).p_value.max() < 1e-3
    assert fitted.novelty(inside).p_value.min() > 0.01
    assert fitted.novelty(outside).distance.min() > 3
    assert fitted.novelty(rough).residual.min() > 3


def test_the_warning_names_the_farthest_input_its_column_and_the_training_range():
    fields = rough_fields(200)
    model = of_rough_fields(fields)
    new = rough_fields(5, seed=1)
    new[3, 7] = 0.5
    low, high = fields[:, 7].min(), fields[:, 7].max()
    said = warning_of(model.predict, new)
    assert said.startswith("1 of 5 inputs lie outside the training data (p ≤ 0.01). The farthest is input 3, p = ")
    assert f"column 7 is 0.5, training range {low:.4g} to {high:.4g}." in said
    assert f"column 7 is 0.5, training range {low:.4g} to {high:.4g}" in model.novelty(new).reasons[3]
    alone = warning_of(model.predict, new[3:4])
    assert alone.startswith("This input lies outside the training data, p = ")
    assert f"column 7 is 0.5, training range {low:.4g} to {high:.4g}. Its prediction is" in alone


@pytest.mark.parametrize("side", [1, -1])
def test_an_input_new_in_one_column_alone_is_new(side):
    model = of_rough_fields(rough_fields(200))
    new = np.zeros((8, 8))
    np.fill_diagonal(new, side * 10 * 0.5 ** np.arange(8))
    assert model.novelty(new).p_value.max() < 1e-2
    assert model.novelty(np.zeros((1, 8))).p_value.min() > 0.05


def test_a_column_that_never_changed_and_changes_now_is_reported():
    fields = rough_fields(200)
    fields[:, 7] = 2.0
    model = of_rough_fields(fields)
    new = fields[:3].copy()
    assert warning_of(model.predict, new) is None
    new[1, 7] = 2.2
    assert "The farthest is input 1, p = " in warning_of(model.predict, new)


@pytest.mark.parametrize("call", ["predict", "calibrate", "partial_fit", "refit_readout", "predict_interval"])
def test_every_call_that_takes_new_inputs_reports_them(pairs, call):
    model = PCARaNN(**SMALL).fit(*pairs[:100]).calibrate(*pairs[100:150])
    outputs = () if call.startswith("predict") else (pairs.outputs[:30],)
    assert warning_of(getattr(model, call), 50 * pairs.inputs[:30], *outputs).startswith("30 of 30 inputs lie outside")


def test_training_inputs_are_not_reported(fitted, pairs):
    assert warning_of(fitted.predict, pairs.inputs[:200]) is None


# The numbers


def test_the_farthest_training_sample_is_the_unit_of_both_distances(backend):
    fields = rough_fields()
    found = of_rough_fields(fields, backend).novelty(backend(fields))
    assert to_host(found.residual).max() == pytest.approx(1.0)
    assert to_host(found.distance).max() == pytest.approx(1.0)


def test_distances_are_those_written_out(backend):
    fields, new = rough_fields(), rough_fields(9, seed=1)
    found = of_rough_fields(fields, backend).novelty(backend(new))
    mean = fields.mean(axis=0)
    modes = np.linalg.svd(fields - mean)[2][:3]

    def missed(rows):
        return np.linalg.norm(rows - mean - (rows - mean) @ modes.T @ modes, axis=1)

    def apart(rows):
        return np.sqrt((((rows - mean) @ modes.T) ** 2 / (((fields - mean) @ modes.T) ** 2).mean(axis=0)).sum(axis=1))

    assert np.allclose(to_host(found.residual), missed(new) / missed(fields).max(), rtol=1e-9)
    assert np.allclose(to_host(found.distance), apart(new) / apart(fields).max(), rtol=1e-9)


def test_distances_do_not_depend_on_the_order_of_the_samples():
    fields, new = rough_fields(300), rough_fields(9, seed=1)
    order = np.random.default_rng(0).permutation(300)
    one, other = (of_rough_fields(rows).novelty(new) for rows in (fields, fields[order]))
    assert other.residual == pytest.approx(one.residual, rel=1e-9)
    assert other.distance == pytest.approx(one.distance, rel=1e-9)


def test_novelty_of_many_inputs_is_that_of_each_alone(fitted, pairs):
    together, alone = fitted.novelty(pairs.inputs[:300]), [fitted.novelty(pairs.inputs[i : i + 1]) for i in (0, 299)]
    for name in ("residual", "distance", "p_value"):
        expected = [float(getattr(one, name)[0]) for one in alone]
        # The modes hold these fields: what they miss is the rounding of a product, √eps over the 1e-3 that counts.
        rounding = 1e-4 if name == "residual" else 0.0
        assert getattr(together, name)[[0, 299]] == pytest.approx(expected, rel=1e-9, abs=rounding)
    assert [together.reasons[i] for i in (0, 299)] == [one.reasons[0] for one in alone]


def test_fields_that_the_modes_hold_entirely_are_not_far_by_rounding():
    flat = np.diag([1.0, 1, 1, 0, 0, 0, 0, 0])
    fields, new = rough_fields() @ flat, rough_fields(9, seed=1) @ flat
    found = of_rough_fields(fields).novelty(new)
    assert found.residual.max() < 1e-4  # √eps over the 1e-3 that counts
    assert not any("the input modes miss" in reason for reason in found.reasons)


def test_copies_under_a_symmetry_do_not_widen_what_counts_as_training_data(pairs):
    model = PCARaNN(n_components=4, widths=(10, 8), n_members=1, scales="energy", symmetry=Symmetry.reflection(-1))
    model.fit(*pairs[:60])
    assert model._fitted.training_x.shape == (60, 4)
    assert model.novelty(pairs.inputs[:60]).distance.max() == pytest.approx(1.0)


def test_novelty_comes_back_as_the_kind_of_array_handed_in(fitted, pairs):
    torch = pytest.importorskip("torch")
    found = fitted.novelty(torch.asarray(pairs.inputs[:3]))
    for name in ("residual", "distance", "p_value"):
        assert isinstance(getattr(found, name), torch.Tensor)
    assert len(found.reasons) == 3


@pytest.mark.parametrize("c", [1e6, 1e-6])
def test_the_unit_of_the_inputs_does_not_matter_to_a_p_value(c):
    fields, new = rough_fields(100), 2 * rough_fields(9, seed=1)
    one, other = (of_rough_fields(unit * fields).novelty(unit * new).p_value for unit in (1.0, c))
    assert np.allclose(one, other, rtol=1e-6)


# Inputs like the training samples


def exchangeable(samples, fits, new=200):
    """Models of few samples of smooth fields, each with new inputs of the same law."""
    for seed in range(fits):
        data = smooth_pairs(samples + new, seed=1000 + seed, points=20)
        model = PCARaNN(n_components=0.9999, widths=(6, 4), n_members=1, scales=(0.3, 0.3)).fit(*data[:samples])
        yield model, data.inputs[samples:]


@pytest.mark.parametrize("samples", [30, 200])
def test_p_values_of_inputs_like_the_training_samples_are_uniform_in_their_tail(samples):
    found = [model.novelty(new).p_value for model, new in exchangeable(samples, 40)]
    for level in (0.01, 0.1):
        rates = np.array([(p <= level).mean() for p in found])
        slack = 4 * rates.std() / np.sqrt(len(rates))  # the fits are independent, the inputs of one fit are not
        # Not above the level; below it by no more than half, since there are 1/(n + 1) steps and tails are guessed.
        assert 0.5 * level - slack <= rates.mean() <= level + slack


def share_of_calls_that_warn(samples, inputs, fits=60):
    calls = [
        warning_of(model.predict, new[start : start + inputs]) is not None
        for model, new in exchangeable(samples, fits)
        for start in range(0, 200, max(inputs, 20))
    ]
    return np.reshape(calls, (fits, -1)).mean(axis=1)


@pytest.mark.parametrize("inputs", [1, 10, 100])
@pytest.mark.parametrize("samples", [30, 200])
def test_about_one_call_in_a_hundred_warns_of_inputs_like_the_training_samples(samples, inputs):
    shares = share_of_calls_that_warn(samples, inputs)
    assert shares.mean() <= 0.01 + 3 * shares.std() / np.sqrt(len(shares))


# What it means for predictions


def test_the_spread_outside_the_data_is_more_than_that_of_the_members(fitted, pairs):
    inside, outside = pairs.inputs[200:205], 50 * pairs.inputs[200:205]
    ensemble = fitted.ensemble_

    def members(inputs):
        x = ensemble.input_pca.encode(inputs)
        return np.stack([ensemble.output_pca.decode(member(x)) for member in ensemble.members]).std(axis=0, ddof=1)

    assert np.allclose(fitted.predict(inside, return_std=True)[1].reshape(5, -1), members(inside), rtol=0, atol=1e-12)
    with pytest.warns(UserWarning, match="lies? outside the training data"):
        std = fitted.predict(outside, return_std=True)[1].reshape(5, -1)
    assert (std > members(outside)).all()
