"""Quantities of interest: the values are those of predicted fields, and spread, intervals and refusals their own."""

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pcarann import Marching, PCARaNN, Staged, Symmetry
from pcarann.ensemble.functionals import Functionals

RNG = np.random.default_rng(0)
POINTS = np.linspace(0, 2 * np.pi, 24, endpoint=False)
COEFFICIENTS = RNG.normal(size=(120, 3))
INPUTS = sum(COEFFICIENTS[:, [i]] * np.cos((i + 1) * POINTS + i) for i in range(3))
OUTPUTS = np.tanh(INPUTS)
NUMBER = RNG.uniform(0.5, 2, 120)
HOLED = np.where(np.arange(24) % 5 == 2, np.nan, NUMBER[:, None] * OUTPUTS)
SMALL = dict(n_components=(3, 6), widths=(30, 20), n_members=3, scales="energy")


def parts(rows):
    return {"a": INPUTS[rows], "s": NUMBER[rows]}


def waves(rows):
    times = 0.4 * np.arange(6)[:, None]
    return np.cos(COEFFICIENTS[rows, :1, None] + times + POINTS) * (1 + 0.2 * np.tanh(COEFFICIENTS[rows, 1:2, None]))


def fitted(kind):
    """A small model with inputs and true outputs of samples that it has not seen."""
    seen, new = slice(80), slice(80, 120)
    if kind == "marching":
        flow = Marching(PCARaNN(**SMALL | {"n_components": 2}), choose=False)
        return flow.fit(waves(seen)[:, :2], waves(seen)[:, 2:]), waves(new)[:, :2], waves(new)[:, 2:]
    if kind == "staged":
        stages = Staged(n_features=20, n_members=3, n_stages=1)
        return stages.fit(INPUTS[seen], OUTPUTS[seen]), INPUTS[new], OUTPUTS[new]
    if kind == "parts":
        outputs = {"u": HOLED, "n": 3e5 * NUMBER * INPUTS[:, 2]}
        model = PCARaNN(regressor="kernel", n_members=2).fit(parts(seen), {k: v[seen] for k, v in outputs.items()})
        return model, parts(new), {name: values[new] for name, values in outputs.items()}
    options = {
        "random": {},
        "kernel": {"regressor": "kernel"},
        "symmetric": {"symmetry": Symmetry.shifts(-1)},
        "signed": {"symmetry": Symmetry.of(np.negative, np.negative)},
        "elsewhere": {},
    }[kind]
    scale = 2.0**600 if kind == "random" else 1.0  # fields in a unit in which they cannot be squared
    model = PCARaNN(**SMALL | options).fit(INPUTS[seen], scale * OUTPUTS[seen])
    return (model.on((47,)) if kind == "elsewhere" else model), INPUTS[new], scale * OUTPUTS[new]


LATENT = ("random", "kernel", "symmetric", "signed", "elsewhere", "parts")
KINDS = (*LATENT, "marching", "staged")


@pytest.fixture(scope="module")
def models():
    return {kind: fitted(kind) for kind in KINDS}


def weights_on(fields, count):
    """Random weights on an array of fields, or on those by name, zero where these have no values."""
    if isinstance(fields, dict):
        return {name: weights_on(field, count) for name, field in fields.items()}
    rng = np.random.default_rng(5)
    found = rng.normal(size=(count, *fields.shape[1:]))
    return np.where(np.isnan(fields[0]), 0.0, found)


def applied(weights, fields):
    if isinstance(fields, dict):
        return sum(applied(weights[name], field) for name, field in fields.items())
    flat = np.nan_to_num(fields).reshape(len(fields), -1)
    return flat @ weights.reshape(len(weights), -1).T


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("kernel", "parts")])
def test_values_and_spread_are_those_of_fields(models, kind, count):
    model, X, _ = models[kind]
    mean = model.predict(X)
    weights = weights_on(mean, count)
    quantity = model.quantity(weights)
    values, wanted = quantity(X), applied(weights, mean)
    assert np.abs(values - wanted).max() <= 1e-10 * np.abs(wanted).max()
    found = quantity._spread(X, {})[0]  # without what is added outside the data
    members = [[applied(weights, one) for one in fields[1:]] for _, fields in model.predict_blocks(X, members=True)]
    assert np.allclose(found.mean, values, rtol=1e-12)
    size = np.abs(wanted).max()
    spread = np.std(np.concatenate(members, axis=1) / size, axis=0, ddof=1)
    assert np.allclose(found.members / size, spread, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("kind", ["kernel", "parts"])
def test_the_spread_of_a_kernel_is_the_second_moment_of_its_residuals(models, kind, count):
    model, X, _ = models[kind]
    mean = model.predict(X)
    weights = weights_on(mean, count)
    found = model.quantity(weights)._spread(X, {})[0]
    assert np.allclose(found.mean, applied(weights, mean), rtol=1e-9)
    # By blocks of fields moved in the leading directions of the residuals: nearly all of their energy.
    plain = model.quantity(lambda fields: applied(weights, fields))._spread(X, {})[0]
    assert np.allclose(found.members, plain.members, rtol=0.2)


@pytest.mark.parametrize("kind", LATENT)
def test_a_latent_model_makes_no_field_for_a_linear_quantity(models, kind):
    model, X, _ = models[kind]
    quantity = model.quantity(weights_on(model.predict(X), 1))
    values = [pca.mean.shape[0] for pca in quantity._model.fitted_.ensemble.moved]
    assert isinstance(quantity._model.fitted_.ensemble, Functionals)
    assert set(values) == {1}


@pytest.mark.parametrize("kind", ["random", "kernel", "symmetric", "signed"])
def test_a_sensor_has_the_deviation_of_the_field_there_outside_the_data_too(models, kind):
    model, X, _ = models[kind]
    with pytest.warns(UserWarning, match="outside the training data"):
        _, field = model.predict(4 * X, return_std=True)
    with pytest.warns(UserWarning, match="outside the training data"):
        _, std = model.quantity(np.eye(24)[3]).predict(4 * X, return_std=True)
    assert model.fitted_.edge is not None
    assert np.allclose(std, field[:, 3], rtol=1e-9)


@pytest.mark.parametrize("kind", ["kernel", "marching", "staged"])
def test_functions_of_fields_are_evaluated_on_blocks(models, kind):
    model, X, _ = models[kind]
    largest = model.quantity(lambda fields: np.abs(fields).reshape(len(fields), -1).max(axis=1))
    assert np.allclose(largest(X), np.abs(model.predict(X)).reshape(len(X), -1).max(axis=1), rtol=1e-12)
    values, std = largest.predict(X, return_std=True)
    assert values.shape == std.shape == (40,)
    assert (std > 0).all()


def test_functions_of_several_outputs_take_them_by_name(models):
    model, X, _ = models["parts"]
    values = model.quantity(lambda fields: np.nanmax(fields["u"], axis=1) + fields["n"])(X)
    found = model.predict(X)
    assert np.allclose(values, np.nanmax(found["u"], axis=1) + found["n"])


def test_blocks_are_the_prediction_cut_into_pieces(models, monkeypatch):
    model, X, _ = models["kernel"]
    monkeypatch.setattr("pcarann.ensemble.mean_and_spread._FIELD_BYTES", 1)
    many = np.concatenate([X, X, X])
    found = list(model.predict_blocks(many, members=True))
    assert [rows.stop - rows.start for rows, _ in found] == [64, 56]
    assert len(found[0][1]) == 1 + 3
    assert np.allclose(np.concatenate([fields[0] for _, fields in found]), model.predict(many), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["kernel", "parts", "staged"])
def test_each_quantity_has_its_own_quantile(models, kind):
    model, X, truth = models[kind]
    weights = weights_on(truth, 3)
    quantity = model.quantity(weights)
    band = quantity.calibrate(X, truth).predict_interval(X, alpha=0.2)
    values = applied(weights, truth)
    half = (band.upper - band.lower) / 2 * (1 + 1e-9)  # that of rank 33 is on the rim but for rounding
    inside = np.abs(values - band.mean) <= half
    # Of the 40 calibration samples themselves rank ⌈41 · 0.8⌉ = 33 is the least score that is held.
    assert (inside.sum(axis=0) == 33).all()
    by_values = model.quantity(weights).calibrate(X, values=values).predict_interval(X, alpha=0.2)
    assert np.allclose(by_values.upper, band.upper, rtol=1e-12)


def test_too_few_samples_for_a_level_give_infinite_intervals(models):
    model, X, truth = models["kernel"]
    quantity = model.quantity(np.ones(24)).calibrate(X[:5], truth[:5])
    with pytest.warns(UserWarning, match="5 calibration samples are too few for alpha=0.1: 9 are needed"):
        band = quantity.predict_interval(X, alpha=0.1)
    assert np.isinf(band.upper).all()


def moved(X, direction, step):
    return {k: X[k] + step * direction[k] for k in X} if isinstance(X, dict) else X + step * direction


def along(gradient, direction):
    """Products of (samples, k, *grid) gradients with directions (samples, *grid): (samples, k)."""
    if isinstance(gradient, dict):
        return sum(along(gradient[name], direction[name]) for name in gradient)
    flat = gradient.reshape(*gradient.shape[:2], -1)
    return np.einsum("nki,ni->nk", flat, direction.reshape(len(flat), -1))


def square(fields):
    return fields**2 @ np.eye(24)[:2].T


def square_slope(fields):
    return 2 * fields[:, None, :] * np.eye(24)[:2]


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data", "ignore:.* are unlike those of the training")
@pytest.mark.parametrize("of", ["linear", "function"])
@pytest.mark.parametrize("kind", ["random", "kernel", "symmetric", "parts", "marching"])
def test_gradients_are_those_of_central_differences(models, kind, of):
    model, X, truth = models[kind]
    if of == "function" and kind in ("random", "marching"):
        pytest.skip("squares of such values are not finite; a window of roll-outs has another shape")
    if kind == "parts" and of == "function":
        function = lambda fields: fields["n"][:, None] ** 2 * [1.0, 2.0]  # noqa: E731
        zeros = np.zeros((40, 2, 24))
        slope = lambda fields: {"n": 2 * fields["n"][:, None] * [1.0, 2.0], "u": zeros}  # noqa: E731
        quantity = model.quantity(function, slope)
    else:
        quantity = model.quantity(weights_on(truth, 2)) if of == "linear" else model.quantity(square, square_slope)
    rng = np.random.default_rng(1)
    direction = {k: rng.normal(size=v.shape) for k, v in X.items()} if kind == "parts" else rng.normal(size=X.shape)
    step = 1e-5
    difference = (quantity(moved(X, direction, step)) - quantity(moved(X, direction, -step))) / (2 * step)
    found = along(quantity.gradient(X), direction)
    assert np.abs(found - difference).max() <= 1e-6 * np.abs(difference).max()


def test_one_quantity_has_a_gradient_of_the_shape_of_the_inputs(models):
    model, X, _ = models["kernel"]
    assert model.quantity(np.ones(24)).gradient(X).shape == X.shape
    total = model.quantity(lambda fields: fields.sum(axis=1), np.ones_like)
    assert np.allclose(total.gradient(X), model.quantity(np.ones(24)).gradient(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["kernel", "staged", "parts"])
def test_the_jacobian_of_a_quantity_is_its_gradient(models, kind):
    model, X, truth = models[kind]
    quantity = model.quantity(weights_on(truth, 2))
    found, wanted = quantity.gradient(X), model.jacobian(X, of=quantity)
    for part, other in zip(found.values(), wanted.values(), strict=True) if kind == "parts" else [(found, wanted)]:
        assert np.allclose(part, other, rtol=0, atol=1e-9 * np.abs(other).max())


def test_the_gradient_of_a_function_needs_its_derivative(models):
    model, X, _ = models["kernel"]
    with pytest.raises(ValueError, match="needs its derivative"):
        model.quantity(square).gradient(X)


def test_tensors_give_tensors(models):
    torch = pytest.importorskip("torch")
    model, X, _ = models["kernel"]
    for of in (torch.ones(24), lambda fields: fields.sum(dim=1)):
        values = model.quantity(of)(torch.as_tensor(X))
        assert isinstance(values, torch.Tensor)
        assert np.allclose(values.numpy(), model.predict(X).sum(axis=1))


def test_a_quantity_stays_with_the_state_in_which_it_was_asked_for():
    model, X, truth = fitted("kernel")
    linear, function = model.quantity(np.ones(24)), model.quantity(lambda fields: fields.sum(axis=1))
    before = model.predict(X).sum(axis=1)
    model.partial_fit(X, 1.5 * truth)  # what the output modes can hold
    assert not np.allclose(model.quantity(np.ones(24))(X), before)
    assert np.allclose(linear(X), before)
    assert np.allclose(function(X), before)


REFUSED = {
    "other shape": ("kernel", np.ones(23), "must have the shape"),
    "no numbers": ("kernel", "mean", "must be an array of numbers, found str"),
    "not finite": ("kernel", np.full(24, np.inf), "must be finite"),
    "no names": ("parts", np.ones(24), "go by name"),
    "unknown name": ("parts", {"w": np.ones(24)}, "no output 'w'"),
    "none": ("parts", {}, "found none"),
    "in a hole": ("parts", {"u": np.ones(24)}, "0 or NaN where the output has no values"),
    "other counts": ("parts", {"u": np.zeros((2, 24)), "n": np.ones(3)}, "stacks of as many"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_weights_that_do_not_fit_are_refused(models, case):
    kind, weights, said = REFUSED[case]
    with pytest.raises(ValueError, match=said):
        models[kind][0].quantity(weights)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (np.max, r"of 40 samples it gave shape \(\)"),
        (lambda fields: fields.max(axis=0), r"of 40 samples it gave shape \(24,\)"),
        (lambda fields: fields[:, None, :], r"of 40 samples it gave shape \(40, 1, 24\)"),
        (lambda fields: list(fields[:, 0]), "of 40 samples it gave list"),
    ],
)
def test_functions_that_give_no_values_for_each_sample_are_refused(models, function, found):
    model, X, truth = models["kernel"]
    quantity = model.quantity(function)
    for call in (quantity, partial(quantity.predict, return_std=True), partial(quantity.calibrate, y=truth)):
        with pytest.raises(ValueError, match=rf"must give an array of shape \(samples,\) or \(samples, k\): {found}"):
            call(X)


def test_true_values_in_the_place_of_fields_are_told_their_name(models):
    model, X, _ = models["parts"]
    with pytest.raises(ValueError, match=r"y must be the parts u, n, .*: true values of the quantity go as values=\."):
        model.quantity(lambda fields: fields["n"]).calibrate(X, np.ones(40))


def test_a_quantity_says_what_it_is(models):
    model, _, _ = models["kernel"]
    assert repr(model.quantity(np.ones(24))) == "<Quantity: 1 linear functional of the fields of PCARaNN>"
    assert repr(model.quantity(np.ones((2, 24)))) == "<Quantity: 2 linear functionals of the fields of PCARaNN>"
    assert repr(model.quantity(square)) == "<Quantity: function of the fields of PCARaNN>"


def test_a_function_has_no_weights_and_weights_no_derivative(models):
    model, X, _ = models["kernel"]
    with pytest.raises(ValueError, match="a quantity of a function, which has no weights"):
        model.jacobian(X, of=model.quantity(square))
    with pytest.raises(ValueError, match="derivative is that of a function of fields"):
        model.quantity(np.ones(24), square_slope)


@pytest.mark.parametrize("kind", ["kernel", "staged", "marching"])
def test_options_that_a_model_does_not_have_are_refused(models, kind):
    model, X, truth = models[kind]
    name = type(model).__name__
    for quantity in (model.quantity(weights_on(truth, 1)), model.quantity(square, square_slope)):
        for call in (quantity, quantity.predict, quantity.gradient, partial(quantity.calibrate, y=truth)):
            with pytest.raises(ValueError, match=f"{name} has no option speed"):
                call(X, speed=3)


def test_a_roll_out_goes_as_many_steps_as_asked_for(models):
    model, X, truth = models["marching"]
    last = model.quantity(lambda fields: fields[:, -1, 0])
    assert np.allclose(last.predict(X, steps=3), model.predict(X, steps=3)[:, -1, 0], rtol=0, atol=1e-12)
    band = last.calibrate(X, truth[:, :3], steps=3).predict_interval(X, 0.2, steps=3)
    assert ((band.lower <= truth[:, 2, 0]) & (truth[:, 2, 0] <= band.upper)).sum() == 33
    with pytest.raises(ValueError, match=r"fields of shape \(3, 24\), but weights on \(4, 24\)"):
        model.quantity(np.ones((4, 24))).predict(X, steps=3)


@pytest.mark.parametrize("grid", [(), (3,), (30,)])
def test_a_gradient_is_no_whole_jacobian_that_may_not_fit(models, monkeypatch, grid):
    model, X, _ = models["kernel"]
    weights = np.random.default_rng(2).normal(size=(*grid, 24))
    wanted = np.einsum("...j,nji->n...i", weights, model.jacobian(X))
    monkeypatch.setattr("pcarann.derivatives.jacobian.MOST_BYTES", 1)
    assert np.allclose(model.quantity(weights).gradient(X), wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["kernel", "staged", "marching"])
def test_blocks_of_inputs_that_do_not_fit_are_refused_at_the_call(models, kind):
    model, X, _ = models[kind]
    with pytest.raises(ValueError, match=r"X has"):
        model.predict_blocks(X[..., :5])


def test_true_fields_are_checked_as_a_model_checks_them(models):
    model, X, truth = models["kernel"]
    bad = np.where(np.arange(40)[:, None] == 7, np.nan, truth)
    for of in (np.ones(24), lambda fields: fields.sum(axis=1)):
        quantity = model.quantity(of)
        wanted = quantity.calibrate(X, truth).predict_interval(X, 0.2).upper
        assert np.allclose(quantity.calibrate(X, truth.tolist()).predict_interval(X, 0.2).upper, wanted, rtol=1e-12)
        with pytest.raises(ValueError, match=r"values contains NaN.* in 1 of \d+ samples \(7"):
            quantity.calibrate(X, values=bad.sum(axis=1))
        with pytest.raises(ValueError, match="y contains NaN or infinity"):
            quantity.calibrate(X, bad)
        with pytest.raises(ValueError, match="fields of shape \\(23,\\)"):
            quantity.calibrate(X, truth[:, 1:])
    with pytest.raises(ValueError, match="the quantity of y contains NaN"):
        model.quantity(lambda fields: np.where(np.arange(len(fields)) == 3, np.nan, fields[:, 0])).calibrate(X, truth)


def test_true_fields_of_other_samples_are_refused():
    xarray = pytest.importorskip("xarray")
    X, y = (xarray.DataArray(part, dims=("run", "x"), coords={"run": np.arange(120)}) for part in (INPUTS, OUTPUTS))
    quantity = PCARaNN(**SMALL).fit(X[:80], y[:80]).quantity(np.ones(24))
    quantity.calibrate(X[80:], y[80:])
    with pytest.raises(ValueError, match="The samples of y have other coordinates"):
        quantity.calibrate(X[80:], y[80:][::-1])


def test_a_calibration_needs_fields_or_values(models):
    model, X, truth = models["kernel"]
    quantity = model.quantity(np.ones(24))
    with pytest.raises(NotFittedError, match="has no calibration"):
        quantity.predict_interval(X)
    with pytest.raises(ValueError, match="either true fields y or true values"):
        quantity.calibrate(X)
    with pytest.raises(ValueError, match="shape \\(40,\\) of the quantity, found \\(40, 2\\)"):
        quantity.calibrate(X, values=np.ones((40, 2)))
    with pytest.raises(ValueError, match="fields of shape \\(23,\\)"):
        quantity.calibrate(X, truth[:, 1:])
    with pytest.raises(NotFittedError):
        PCARaNN().quantity(np.ones(3))
