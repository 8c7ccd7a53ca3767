import numpy as np
import pytest
from served import X_fixture, flow_fixture, model_fixture  # noqa: F401

from pcarann import PCARaNN
from pcarann.serving.answers import Catalogue, answered
from pcarann.serving.limits import Refused


def ask(catalogue, arrays, *wanted, **parameters):
    return answered(catalogue, [catalogue.question(arrays, wanted, parameters)])[0].arrays


def test_prediction_spread_and_interval_are_those_of_the_model(model, X):
    names = ("outputs", "outputs.std", "outputs.lower", "outputs.upper")
    found = ask(Catalogue.of(model), {"inputs": X}, *names, alpha=0.2, method="simultaneous")
    band = model.predict_interval(X, 0.2, "simultaneous")
    for name, part in zip(names, (band.mean, band.std, band.lower, band.upper), strict=True):
        assert np.array_equal(found[name], part)


def test_one_output_alone_is_that_one(model, X):
    catalogue = Catalogue.of(model)
    assert np.array_equal(ask(catalogue, {"inputs": X})["outputs"], model.predict(X))
    found = ask(catalogue, {"inputs": X}, "outputs.std")
    assert list(found) == ["outputs.std"]
    assert np.array_equal(found["outputs.std"], model.predict(X, return_std=True)[1])


def test_novelty_is_the_p_value(model, X):
    found = ask(Catalogue.of(model), {"inputs": X}, "novelty")["novelty"]
    assert np.array_equal(found, model.novelty(X).p_value)


def test_derivatives_are_those_of_the_model_and_adjoint_to_each_other(model, X):
    rng = np.random.default_rng(0)
    dX, dY = rng.normal(size=X.shape), rng.normal(size=(len(X), 2, 12))
    sent = {"inputs": X, "inputs.tangent": dX, "outputs.cotangent": dY}
    found = ask(Catalogue.of(model), sent, "outputs.jvp", "inputs.vjp")
    assert np.array_equal(found["outputs.jvp"], model.jvp(X, dX))
    assert np.sum(found["outputs.jvp"] * dY) == pytest.approx(np.sum(found["inputs.vjp"] * dX), rel=1e-10)


def test_parts_have_names_and_a_tangent_that_is_missing_is_none():
    rng = np.random.default_rng(0)
    X = {"k": rng.normal(size=(20, 6)), "u": rng.normal(size=20)}
    y = {"u": rng.normal(size=(20, 5)), "v": rng.normal(size=(20, 4))}
    model = PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(X, y)
    catalogue, sent = Catalogue.of(model), {"k": X["k"], "u.input": X["u"]}
    assert np.array_equal(ask(catalogue, sent)["v"], model.predict(X)["v"])
    found = ask(catalogue, sent | {"k.tangent": X["k"], "v.cotangent": y["v"]}, "u.jvp", "k.vjp", "u.input.vjp")
    assert np.array_equal(found["u.jvp"], model.jvp(X, {"k": X["k"], "u": 0 * X["u"]})["u"])
    assert np.array_equal(found["u.input.vjp"], model.vjp(X, {"u": 0 * y["u"], "v": y["v"]})["u"])
    with pytest.raises(Refused, match=r"u\.lower, since the model is not calibrated: u, v, u\.std"):
        catalogue.question(sent, ["u.lower"], {})


def test_outputs_of_names_that_others_could_have_are_told_apart():
    rng = np.random.default_rng(0)
    X = {"p": rng.normal(size=(20, 6)), "p.tangent": rng.normal(size=(20, 2)), "u": rng.normal(size=20)}
    X["u.input"] = rng.normal(size=(20, 3))
    y = {"u": rng.normal(size=(20, 5)), "u.std": rng.normal(size=(20, 4)), "novelty": rng.normal(size=20)}
    model = PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(X, y)
    catalogue = Catalogue.of(model)
    sent = {one.name: X[one.part] for one in catalogue.signature.inputs}
    found, (mean, std) = ask(catalogue, sent), model.predict(X, return_std=True)
    assert list(found) == ["u", "u.std.output", "novelty.output"]
    for name, part in zip(found, y, strict=True):
        assert np.array_equal(found[name], mean[part])
    assert np.array_equal(ask(catalogue, sent, "u.std")["u.std"], std["u"])
    assert np.array_equal(ask(catalogue, sent, "novelty")["novelty"], model.novelty(X).p_value)
    moved = ask(catalogue, sent | {"p.tangent": X["p"]}, "u.jvp")["u.jvp"]
    assert np.array_equal(moved, model.jvp(X, {**{name: 0 * one for name, one in X.items()}, "p": X["p"]})["u"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_flow_takes_steps_and_controls(flow):
    model, waves = flow
    catalogue = Catalogue.of(model, 5)
    controls = np.random.default_rng(1).normal(size=(3, 5, 2))
    sent = {"inputs": waves[:3, 1:2], "controls": controls}
    found = ask(catalogue, sent | {"inputs.tangent": waves[:3, :1]}, "outputs", "outputs.jvp", "novelty")
    how = {"steps": 5, "controls": controls}
    assert np.array_equal(found["outputs"], model.predict(waves[:3, 1:2], **how))
    assert np.array_equal(found["outputs.jvp"], model.jvp(waves[:3, 1:2], waves[:3, :1], **how))
    assert found["novelty"].shape == (3, *catalogue.shape("novelty")) == (3, 5)
    assert catalogue.question(sent, [], {}).together is None


def test_shapes_that_are_told_are_those_that_come(model, X):
    catalogue = Catalogue.of(model)
    sent = {"inputs": X, "inputs.tangent": X, "outputs.cotangent": np.zeros((len(X), 2, 12))}
    for name, array in ask(catalogue, sent, *catalogue.kinds).items():
        assert array.shape == (len(X), *catalogue.shape(name))
    assert catalogue.size(["outputs", "novelty"]) == 25


REFUSED = {
    "an unknown output": ({}, ["v"], {}, "There is no output v"),
    "an output twice": ({}, ["outputs", "outputs"], {}, "asked for twice"),
    "another shape": ({"inputs": np.zeros((2, 5))}, [], {}, r"inputs has shape \(2, 5\), expected \(samples, 12\)"),
    "an unknown input": ({"a": np.zeros((2, 5))}, [], {}, "The inputs are inputs: a unknown"),
    "an input that is called otherwise": (None, [], {}, "The inputs are inputs: inputs missing, a unknown"),
    "other samples": ({"inputs.tangent": np.zeros((2, 12))}, ["outputs.jvp"], {}, "same number of samples"),
    "a tangent of another shape": (
        {"inputs.tangent": np.zeros((30, 5))},
        ["outputs.jvp"],
        {},
        r"expected \(samples, 12\)",
    ),
    "no tangent": ({}, ["outputs.jvp"], {}, "none was sent"),
    "a tangent for nothing": ({"inputs.tangent": np.zeros((30, 12))}, [], {}, "none is asked for"),
    "a level of nothing": ({}, ["outputs.lower"], {"alpha": 2.0}, "alpha must be a number strictly between"),
    "a level beyond numbers": ({}, ["outputs.lower"], {"alpha": 10**400}, "alpha must be a number strictly between"),
    "a level that is a text": ({}, ["outputs.lower"], {"alpha": "0.1"}, "alpha must be a number"),
    "a level without an interval": ({}, ["outputs.std"], {"alpha": 0.1}, "alpha belongs to outputs ending in .lower"),
    "a method without an interval": ({}, [], {"method": "sample"}, "method belongs to outputs ending in .lower"),
    "an unknown method": ({}, ["outputs.lower"], {"method": "best"}, "method must be one of sample"),
    "a method that is a list": ({}, ["outputs.lower"], {"method": ["sample"]}, "method must be one of sample"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused(model, X, case):
    sent, wanted, parameters, why = case
    arrays = {"a": X} if sent is None else {"inputs": X} | sent
    with pytest.raises(Refused, match=why):
        Catalogue.of(model).question(arrays, wanted, parameters)


def test_questions_go_together_where_all_but_the_samples_is_alike(model, X):
    catalogue = Catalogue.of(model)

    def together(X, *wanted, **parameters):
        return catalogue.question({"inputs": X}, wanted, parameters).together

    assert together(X[:1]) == together(X[1:4])
    assert together(X, "outputs", "outputs.std") == together(X, "outputs.std", "outputs")
    assert len({together(X), together(X, "outputs.lower"), together(X, "outputs.lower", alpha=0.1)}) == 3
    assert together(np.where(X > 0, X, np.nan)) is None


def test_answers_together_are_those_of_each_alone(model, X):
    catalogue = Catalogue.of(model)
    wanted = ("outputs", "outputs.upper", "novelty")
    questions = [catalogue.question({"inputs": part}, wanted, {}) for part in (X[:1], X[1:4], X[4:20])]
    for found, question in zip(answered(catalogue, questions), questions, strict=True):
        alone = answered(catalogue, [question])[0]
        for name in wanted:
            np.testing.assert_allclose(found.arrays[name], alone.arrays[name], rtol=1e-9, atol=1e-12)
