import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from conftest import rewritten
from pcarann import Adapt, Fields, Kernel, Marching, ModelFileError, PCARaNN, Refine, Symmetry, load
from pcarann.options import resolved, with_option

SMALL = dict(n_components=3, widths=(20, 10), n_members=1)


@pytest.mark.parametrize(
    ("name", "word", "meant"),
    [("scales", "refined", Refine()), ("regressor", "kernel", Kernel()), ("adapt", None, Adapt())],
)
def test_a_word_or_none_stands_for_the_object_with_its_defaults(name, word, meant):
    assert resolved(name, word) == meant


@pytest.mark.parametrize(("name", "value"), [("scales", "energy"), ("scales", (1.0, 2.0)), ("ridge", None)])
def test_what_stands_for_no_object_stays_as_it_is(name, value):
    assert resolved(name, value) is value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (dict(adapt__ridge=0.5), dict(adapt=Adapt(ridge=0.5))),
        (dict(adapt__ridge=0.5, adapt__forgetting=0.9), dict(adapt=Adapt(ridge=0.5, forgetting=0.9))),
        (dict(adapt__ridge=0.5, adapt=Adapt(start="ridge")), dict(adapt=Adapt(0.5, "ridge"))),
        (dict(scales__start="energy"), dict(scales=Refine(start="energy"))),
        (dict(regressor__length=3.0, regressor="kernel"), dict(regressor=Kernel(3.0))),
        (dict(widths=(3, 4)), dict(widths=(3, 4))),
    ],
)
def test_one_option_is_set_through_its_object(given, expected):
    assert PCARaNN().set_params(**given).get_params(deep=False) == PCARaNN(**expected).get_params(deep=False)


def test_an_option_is_set_through_a_marched_model_too():
    assert Marching(PCARaNN()).set_params(model__adapt__ridge=0.5).model.adapt == Adapt(0.5)
    assert Marching().set_params(model=PCARaNN(), model__ridge=1.0).model.ridge == 1.0


def test_a_refused_option_of_a_marched_model_changes_nothing():
    model = Marching(PCARaNN())
    with pytest.raises(ValueError, match="Invalid parameter adapt__bogus"):
        model.set_params(step=3, model__adapt__bogus=1)
    assert model.step == 1


def test_the_numbers_of_a_symmetry_are_checked():
    model = PCARaNN(symmetry=Symmetry.shifts(-1))
    assert model.set_params(symmetry__n_fit=4).symmetry.n_fit == 4
    with pytest.raises(ValueError, match="n_fit must be"):
        model.set_params(symmetry__n_fit="a")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            dict(scales__ridge=1.0),
            "Invalid parameter scales__ridge: scales='energy' has no options; scales='refined' has.",
        ),
        (dict(adapt__length=1.0), "Invalid parameter adapt__length: Adapt has ridge, start, forgetting, outliers."),
        (dict(nothing=1.0), "Invalid parameter 'nothing'"),
        (dict(nothing__=1.0), "Invalid parameter 'nothing'"),
        (dict(adapt__=1.0), "Invalid parameter adapt__: Adapt has ridge, start, forgetting, outliers."),
        (dict(n_members__=1.0), "Invalid parameter n_members__: n_members=20 has no options."),
        (dict(nothing__ridge=1.0), "Invalid parameter 'nothing'"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_in_one_sentence(given, says):
    with pytest.raises(ValueError, match="Invalid parameter") as caught:
        PCARaNN(scales="energy").set_params(**given)
    assert says in str(caught.value)


def test_a_refused_option_changes_nothing():
    model = PCARaNN()
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(adapt__ridge=0.5, adapt__length=1.0)
    assert model.adapt is None


def test_an_estimator_is_made_anew_from_its_parameters():
    model = PCARaNN(scales=Refine(1e-6), fields=Fields(smoothing=0.1), adapt=Adapt(0.5), regressor=Kernel(2.0))
    assert PCARaNN(**model.get_params()).get_params() == model.get_params()


def test_a_clone_keeps_the_options():
    weights = np.arange(1.0, 4.0)
    model = clone(PCARaNN(fields=Fields(quadrature=(weights, None)), adapt=Adapt(0.5), regressor=Kernel(2.0)))
    assert (model.adapt, model.regressor) == (Adapt(0.5), Kernel(2.0))
    weights *= 2
    assert np.array_equal(model.fields.quadrature[0], weights / 2)


@pytest.mark.parametrize("wrong", [dict(adapt={"ridge": 0.1}), dict(fields="nonsense"), dict(fields=Adapt())], ids=str)
def test_a_model_whose_parameters_no_file_could_hold_is_not_saved(pairs, tmp_path, wrong):
    model = PCARaNN(**SMALL).fit(*pairs[:30]).set_params(**wrong)
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be None or"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_subclass_of_an_object_is_saved_as_the_object(pairs, tmp_path):
    class Mine(Adapt):
        pass

    PCARaNN(**SMALL, adapt=Mine(0.5)).fit(*pairs[:30]).save(tmp_path / "m")
    assert load(tmp_path / "m").adapt == Adapt(0.5)


def test_a_file_with_parameters_of_another_kind_is_refused(pairs, tmp_path):
    PCARaNN(**SMALL).fit(*pairs[:30]).save(tmp_path / "m")
    rewritten(tmp_path / "m", lambda document, _: document["parameters"].update(adapt={"options": "Fields"}))
    with pytest.raises(ModelFileError, match="adapt must be None or an Adapt"):
        load(tmp_path / "m")


def test_a_grid_search_reaches_the_options(pairs):
    search = GridSearchCV(PCARaNN(**SMALL), {"scales__ridge": [1e-6, 1e3]}, cv=2, error_score="raise")
    search.fit(*pairs[:60])
    assert search.best_estimator_.scales == Refine(search.best_params_["scales__ridge"])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(adapt=0.5), "adapt must be None or an Adapt, got 0.5."),
        (dict(fields="channels"), "fields must be None or a Fields, got 'channels'."),
        (dict(fields=Adapt()), "fields must be None or a Fields, got Adapt("),
        (dict(regressor=Kernel), "regressor must be 'random', 'kernel' or a Kernel"),
        (dict(scales=Adapt()), "scales must be 'refined', a Refine"),
    ],
)
def test_an_object_of_another_kind_is_refused(pairs, wrong, says):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}") as caught:
        PCARaNN(**SMALL, **wrong).fit(*pairs[:20])
    assert says in str(caught.value)


def test_with_option_leaves_the_object_it_was_given():
    before = Adapt()
    assert with_option("adapt", before, "ridge", 0.5) == Adapt(0.5)
    assert before == Adapt()
