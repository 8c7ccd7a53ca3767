import numpy as np
import pytest

from pcarann import Adapt, PCARaNN

SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 2, "scales": "energy"}


@pytest.fixture
def adapting(pairs):
    return PCARaNN(**SMALL).fit(*pairs[:90])


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
def test_a_refit_keeps_what_partial_fit_learned(pairs, start):
    one, whole = (PCARaNN(**SMALL, adapt=Adapt(start=start)).fit(*pairs[:90]) for _ in range(2))
    one.partial_fit(*pairs[90:120]).refit_readout(*pairs[120:150], ridge=1e-3)
    whole.refit_readout(*pairs[90:150], ridge=1e-3)
    found, wanted = (model.predict(pairs.inputs[200:]) for model in (one, whole))
    assert np.abs(found - wanted).max() <= 1e-8 * np.abs(wanted).max()  # rounding, times a condition number of 1e6


@pytest.mark.parametrize(
    ("generator", "state"),
    [
        (np.random.RandomState, lambda one: [*one.get_state()[1].tolist(), one.get_state()[2]]),
        (np.random.default_rng, lambda one: one.bit_generator.state),
    ],
    ids=["RandomState", "Generator"],
)
def test_partial_fit_draws_nothing_from_the_random_state(pairs, generator, state):
    source = generator(0)
    model = PCARaNN(**SMALL, random_state=source).fit(*pairs[:90])
    before = state(source)
    model.partial_fit(*pairs[90:95])
    assert state(source) == before


def test_a_refit_drops_the_report_of_an_earlier_search(pairs):
    model = PCARaNN(**SMALL)
    model.auto_report_ = "of another fit"
    assert not hasattr(model.fit(*pairs[:90]), "auto_report_")


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
@pytest.mark.parametrize("samples", [90, 40], ids=["primal", "dual"])
def test_another_adapt_ridge_counts_for_all_samples_taken_in(pairs, start, samples):
    changed = PCARaNN(**SMALL, adapt=Adapt(start=start)).fit(*pairs[:samples]).partial_fit(*pairs[90:100])
    changed.set_params(adapt__ridge=1.0).partial_fit(*pairs[100:110])
    always = PCARaNN(**SMALL, adapt=Adapt(1.0, start)).fit(*pairs[:samples])
    always.partial_fit(*pairs[90:100]).partial_fit(*pairs[100:110])
    found, wanted = (model.predict(pairs.inputs[200:]) for model in (changed, always))
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()  # rounding: the ridge bounds the condition


def test_another_start_is_refused_after_adaptation_began(adapting, pairs):
    adapting.partial_fit(*pairs[90:95]).set_params(adapt__start="ridge")
    before = adapting.predict(pairs.inputs[:3])
    with pytest.raises(
        ValueError, match=r"adapt\.start is 'ridge', but this model began to adapt with 'least-squares'"
    ):
        adapting.partial_fit(*pairs[95:100])
    assert np.array_equal(adapting.predict(pairs.inputs[:3]), before)


def test_samples_learned_by_fit_partial_fit_and_a_refit_are_recognised(adapting, pairs):
    adapting.partial_fit(*pairs[90:120]).refit_readout(*pairs[120:150])
    adapting.partial_fit(*pairs[150:160])
    assert adapting.trained_on(*pairs[80:200]).tolist() == [True] * 80 + [False] * 40


def test_a_model_on_another_grid_remembers_no_samples(adapting, pairs):
    moved = adapting.on(tuple(2 * n for n in pairs.outputs.shape[1:]))
    assert not moved.trained_on(pairs.inputs[:50], moved.predict(pairs.inputs[:50])).any()
