import warnings

import numpy as np
import pytest
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import Fields, PCARaNN, auto
from pcarann.scale import ScaleReport, SideReport, limited

A, U = fields(420)
REFINED = OPTIONS | {"scales": "refined"}  # PCAs of the inner samples alone


@pytest.fixture(scope="module")
def known():
    return PCARaNN(**REFINED).fit(A, U)


@pytest.mark.parametrize("chunks", [(100,), (37,), (420, 6)])
def test_a_lazy_fit_is_the_fit_in_memory_whatever_the_chunks(known, chunks):
    with limited("16MB"):
        model = PCARaNN(**REFINED).fit(lazily(A, *chunks), lazily(U, chunks[0]))
    assert apart(model.predict(A), known.predict(A)) < 1e-8
    for statistic in ("residual", "distance"):
        assert apart(getattr(model.novelty(A), statistic), getattr(known.novelty(A), statistic)) < 1e-8
    assert model.fit_report_.r2 == pytest.approx(known.fit_report_.r2, abs=1e-10)
    assert isinstance(model.scale_report_, ScaleReport)


def test_the_report_says_how_the_pca_was_found(known):
    with limited("12MB"):
        model = PCARaNN(**REFINED).fit(lazily(A, 420, 3), lazily(U, 60))
    inputs, outputs = model.scale_report_.sides
    assert (inputs.method, outputs.method) == ("Gram matrix", "covariance")
    assert inputs.passes == outputs.passes == 2
    assert inputs.blocks > 1
    assert "Gram matrix" in str(model.scale_report_)
    assert known.scale_report_ is None


@pytest.mark.parametrize(
    ("method", "accuracy", "said"),
    [
        ("covariance in stages", 1.02, "the last mode is no more than rounding: the data have lower rank"),
        ("covariance", 3e-10, "the last mode is accurate to 3e-10"),
        ("subspace iteration", 0.2, "singular values moved by 0.2 in the last pass"),
    ],
)
def test_the_report_says_in_words_how_good_the_modes_are(method, accuracy, said):
    report = ScaleReport((SideReport("X", method, accuracy, 3, 1, 1e9),), 10**9, 2)
    assert str(report).endswith(f"\nX: PCA by {method}, {said}; 3 passes over 1 blocks, 1 GB read")


@pytest.mark.filterwarnings("ignore:n_components=12 is more than there are", "ignore:.*no better than the mean")
def test_the_report_of_fields_that_are_all_alike_says_so():
    model = PCARaNN(**OPTIONS).fit(lazily(np.ones((60, 2, 20)), 30), U[:60])
    assert "no more than rounding: the data have lower rank" in str(model.scale_report_)


def test_the_first_look_at_lazy_fields_counts_among_the_seconds_of_a_fit(known):
    model = PCARaNN(**OPTIONS).fit(lazily(A, 60), lazily(U, 60))
    seconds = model.fit_seconds_
    assert seconds["first_look"] > 0
    assert seconds["total"] >= seconds["first_look"] + seconds["inputs_pca"]
    assert "first_look" not in known.fit_seconds_


def test_modes_deeper_than_a_gram_matrix_resolves_come_in_stages():
    a, u = fields(420, decay=-0.6)
    with limited("16MB"):
        model = PCARaNN(**OPTIONS).fit(lazily(a, 60), lazily(u, 60))
    known = PCARaNN(**OPTIONS).fit(a, u)
    assert "in stages" in model.scale_report_.sides[0].method
    assert apart(model.predict(a), known.predict(a)) < 1e-8


def test_channels_smoothing_and_weights_are_as_in_memory():
    options = OPTIONS | {"n_components": (3, 5)}
    a, u = A[:120, :3], U[:120]
    weights = np.linspace(1, 2, 60).reshape(3, 20), None
    for how in (Fields(channels=True), Fields(smoothing=0.1), Fields(quadrature=weights)):
        known = PCARaNN(fields=how, **options).fit(a, u)
        model = PCARaNN(fields=how, **options).fit(lazily(a, 50), lazily(u, 50))
        assert apart(model.predict(a), known.predict(a)) < 1e-8


def test_constant_channels_and_tables_are_looked_at_by_name():
    numbers = np.random.default_rng(1).uniform(1, 2, (120, 1, 1))
    a = np.concatenate([A[:120, :2], np.broadcast_to(numbers, (120, 1, 20))], axis=1)
    few = OPTIONS | {"n_components": (5, 8)}
    known, model = PCARaNN(**few).fit(a, U[:120]), PCARaNN(**few).fit(lazily(a, 50), lazily(U[:120], 50))
    assert known.fitted_.view.constant == (2,)
    assert model.fitted_.view == known.fitted_.view
    table = np.random.default_rng(2).uniform(0, 1, (120, 3)) * [1, 10, 100]
    known, model = (PCARaNN(**few | {"n_components": 3}).fit(x, U[:120]) for x in (table, lazily(table, 50)))
    assert apart(model.predict(table), known.predict(table)) < 1e-12


def test_fields_in_unsquarable_units_are_fitted():
    model = PCARaNN(**OPTIONS).fit(lazily(A[:120] * 2.0**600, 50), lazily(U[:120], 50))
    known = PCARaNN(**OPTIONS).fit(A[:120] * 2.0**600, U[:120])
    assert model.fitted_.units == known.fitted_.units
    assert apart(model.predict(A[:9] * 2.0**600), known.predict(A[:9] * 2.0**600)) < 1e-8


def test_one_side_may_be_in_memory_and_dtypes_may_differ():
    model = PCARaNN(**OPTIONS).fit(A.astype(np.float32)[:120], lazily(U[:120], 50))
    known = PCARaNN(**OPTIONS).fit(A.astype(np.float32)[:120], U[:120])
    assert apart(model.predict(A[:9]), known.predict(A[:9])) < 1e-8
    whole = np.round(100 * A[:120]).astype(np.int16)
    found = PCARaNN(**OPTIONS).fit(lazily(whole, 50), lazily(U[:120], 50)).predict(whole)
    assert apart(found, PCARaNN(**OPTIONS).fit(whole, U[:120]).predict(whole)) < 1e-8


def test_an_interrupted_fit_leaves_the_old_model(known):
    model = PCARaNN(**OPTIONS).fit(A, U)
    before = model.fitted_
    broken = lazily(A, 60).map_blocks(lambda block, block_info=None: _interrupted(block, block_info), dtype=float)
    with pytest.raises(KeyboardInterrupt):
        model.fit(broken, lazily(U, 60))
    assert model.fitted_ is before


def _interrupted(block, info):
    if info and info[0]["chunk-location"][0] == 3:
        raise KeyboardInterrupt
    return block


def test_who_works_in_memory_says_so():
    with pytest.raises(ValueError, match="works in memory"):
        auto(lazily(A, 60), lazily(U, 60))


def test_a_table_of_parameters_goes_with_lazy_fields():
    rng = np.random.default_rng(3)
    table = rng.uniform(-1, 1, (300, 3)) * [1.0, 10.0, 100.0]
    u = np.sin(table @ np.diag([1.0, 0.1, 0.01]) @ rng.normal(size=(3, 40)))
    known = PCARaNN(**OPTIONS).fit(table, u)
    for X in (table, lazily(table, 50)):
        assert apart(PCARaNN(**OPTIONS).fit(X, lazily(u, 70)).predict(table), known.predict(table)) < 1e-8


@pytest.mark.parametrize("points", [40, 500], ids=["tall", "wide"])
@pytest.mark.parametrize("side", [0, 1])
def test_lazy_fields_that_are_all_alike_are_predicted_as_such(points, side):
    pair = [np.random.default_rng(4).normal(size=(100, 2, points)) for _ in (0, 1)]
    pair[side] = np.ones_like(pair[side])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranks, and a model that is no better than the mean
        known, model = (PCARaNN(**OPTIONS).fit(*given) for given in (pair, [lazily(one, 30) for one in pair]))
        found, wanted = model.predict(pair[0]), known.predict(pair[0])
    assert np.isfinite(found).all()
    assert apart(found, wanted) < 1e-6
