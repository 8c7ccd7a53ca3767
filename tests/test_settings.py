import numpy as np
import pytest

from pcarann import Kernel, PCARaNN
from pcarann.backend.memory import machine_bytes
from pcarann.settings import Settings
from pcarann.symmetry.generators import Symmetry

TURNS = Symmetry.dihedral()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (dict(regressor="forest"), "regressor must be 'random', 'kernel' or a Kernel, got 'forest'."),
        (dict(regressor=None), "regressor must be 'random', 'kernel' or a Kernel, got None."),
        (dict(regressor=Kernel(0)), "regressor.length must be a number above 0, got 0."),
        (dict(regressor=Kernel(-1.5)), "regressor.length must be a number above 0, got -1.5."),
        (dict(regressor=Kernel("long")), "regressor.length must be a number above 0, got 'long'."),
        (dict(regressor=Kernel(float("inf"))), "regressor.length must be a number above 0, got inf."),
        (dict(linear=1), "linear must be True or False, got 1."),
        (dict(linear="yes"), "linear must be True or False, got 'yes'."),
        (dict(linear=None), "linear must be True or False, got None."),
        (
            dict(relevance="known"),
            "relevance must be a power, 'learned', 'channels' or an array of weights, got 'known'.",
        ),
        (dict(relevance=3.5), "relevance must be a number at least -3 and at most 3, got 3.5."),
        (dict(relevance=None), "relevance must be a number at least -3 and at most 3, got None."),
        (dict(relevance=True), "relevance must be a number at least -3 and at most 3, got True."),
        (dict(relevance=[0.0, 0.0]), "found float64 of shape (2,)."),
        (dict(relevance=[1.0, np.nan]), "found float64 of shape (2,)."),
        (dict(relevance=["a", "b"]), "found <U1 of shape (2,)."),
        (dict(relevance=np.ones((2, 2, 2))), "found float64 of shape (2, 2, 2)."),
        (dict(symmetry="dihedral"), "symmetry must be None or a pcarann.Symmetry, got 'dihedral'."),
        (dict(symmetry=8), "symmetry must be None or a pcarann.Symmetry, got 8."),
        (dict(ridge="aic"), "ridge must be None, a number of at least 0, 'gcv' or 'refined', got 'aic'."),
        (dict(ridge=-1e-9), "ridge must be a number at least 0, got -1e-09."),
        (dict(ridge=np.ones(2)), "ridge must be a number at least 0, got array([1., 1.])."),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_in_one_sentence(parameters, says):
    with pytest.raises(ValueError) as caught:
        Settings.of(PCARaNN(**parameters))
    message = str(caught.value)
    assert message.startswith(next(iter(parameters)))
    assert message.endswith(says)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (dict(linear=np.True_), True),
        (dict(relevance=0), 0.0),
        (dict(relevance=-1.5), -1.5),
        (dict(relevance="learned"), "learned"),
        (dict(symmetry=TURNS), TURNS),
        (dict(ridge=1), 1.0),
        (dict(ridge=None), 0.0),
        (dict(ridge=None, regressor="kernel"), "gcv"),
        (dict(ridge="gcv"), "gcv"),
    ],
)
def test_a_parameter_that_fits_is_taken_as_it_is_meant(parameters, expected):
    found = getattr(Settings.of(PCARaNN(**parameters)), next(iter(parameters)))
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "expected"), [("random", None), ("kernel", Kernel()), (Kernel(), Kernel()), (Kernel(2), Kernel(2.0))]
)
def test_a_kernel_is_a_word_or_an_object(given, expected):
    assert Settings.of(PCARaNN(regressor=given)).kernel == expected


@pytest.mark.parametrize("given", [[1, 2], np.ones(2, dtype="f4"), np.eye(3)], ids=["list", "vector", "matrix"])
def test_relevance_may_be_an_array_of_one_axis_or_two(given):
    assert np.array_equal(Settings.of(PCARaNN(relevance=given)).relevance, np.asarray(given))


def test_generalised_cross_validation_goes_with_a_symmetry():
    assert Settings.of(PCARaNN(ridge="gcv", symmetry=TURNS)).ridge == "gcv"


def test_checking_changes_no_parameter():
    model = PCARaNN(relevance=[1, 2], ridge="gcv", regressor=Kernel(2), symmetry=TURNS)
    before = model.get_params()
    Settings.of(model)
    assert model.get_params() == before


@pytest.mark.parametrize("shape", [(3,), (3, 3), (4, 3)])
def test_relevance_of_another_number_of_latents_is_refused_with_both(pairs, shape):
    model = PCARaNN(n_components=4, widths=(10, 8), n_members=1, scales="energy", relevance=np.ones(shape))
    with pytest.raises(ValueError, match=r"relevance has shape .* but the inputs have 4 latents") as caught:
        model.fit(*pairs[:30])
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("wide", [{"widths": (10**9, 10**9)}, {"widths": (10**13, 1)}, {"n_members": 10**12}])
def test_layers_larger_than_the_machine_are_refused_with_the_memory_they_would_take(wide):
    with pytest.raises(ValueError, match=r"widths=\(.*\) of n_members=\d+ would take [\d,]+ GB of memory, but"):
        Settings.of(PCARaNN(**wide))
    Settings.of(PCARaNN(regressor="kernel", widths=(10**9, 10**9)))  # which has none


def test_layers_that_are_too_wide_for_these_samples_are_refused_in_the_same_words(pairs):
    """Anchors and weights between the layers alone would fit."""
    widest = machine_bytes() // 80
    with pytest.raises(ValueError, match=r"widths=\(\d+, 1\) of n_members=1 would take [\d,]+ GB of memory, but"):
        PCARaNN(n_components=4, widths=(widest, 1), n_members=1, scales="energy").fit(*pairs[:30])
