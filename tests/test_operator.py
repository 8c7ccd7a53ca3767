import pickle
import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from conftest import periodic_pairs, smooth_pairs
from pcarann import Adapt, Fields, Kernel, PCARaNN, Refine
from pcarann.backend.arrays import to_host
from pcarann.metrics import coverage, relative_l2
from pcarann.symmetry.generators import Symmetry

SMALL = dict(n_components=0.9999, widths=(40, 30), n_members=3)


def small(**changes):
    return PCARaNN(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def fitted(pairs):
    return small().fit(*pairs[:200])


# scikit-learn


@pytest.mark.parametrize("scales", ["refined", "energy"])
@pytest.mark.filterwarnings("ignore")
def test_it_is_a_scikit_learn_estimator_with_no_expected_failures(scales):
    results = check_estimator(PCARaNN(widths=(30, 20), n_members=2, scales=scales))
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.parametrize("option", [dict(regressor="kernel"), dict(linear=True, relevance="learned", ridge="gcv")])
@pytest.mark.filterwarnings("ignore")
def test_the_options_past_the_paper_pass_the_checks_too(option):
    results = check_estimator(PCARaNN(widths=(20, 10), n_members=2, scales="energy", **option))
    assert {result["status"] for result in results} <= {"passed", "skipped"}


@pytest.mark.filterwarnings("ignore")
def test_the_default_widths_pass_the_checks_too():
    results = check_estimator(PCARaNN(n_members=2))
    assert {result["status"] for result in results} <= {"passed", "skipped"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_finds_the_better_width(pairs, n_jobs):
    grid = {"widths": [(2, 2), (60, 40)], "ridge": [1e-8]}
    search = GridSearchCV(small(scales="energy"), grid, cv=KFold(3), n_jobs=n_jobs).fit(*pairs[:150])
    assert search.best_params_["widths"] == (60, 40)
    assert search.best_score_ > 0.8


def test_it_works_behind_a_scaler_in_a_pipeline(pairs):
    a, u = pairs[:200]
    model = make_pipeline(StandardScaler(), small()).fit(a, u)
    assert relative_l2(model.predict(pairs.inputs[200:]), pairs.outputs[200:]) < 0.1


def test_a_clone_fits_to_the_same_model(fitted, pairs):
    again = clone(fitted).fit(*pairs[:200])
    assert np.array_equal(again.predict(pairs.inputs[200:]), fitted.predict(pairs.inputs[200:]))


def test_pickling_keeps_every_prediction(fitted, pairs):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(pairs.inputs), fitted.predict(pairs.inputs))


def test_score_is_the_variance_weighted_r2(fitted, pairs):
    a, u = pairs[200:]
    missed = ((fitted.predict(a) - u) ** 2).sum()
    assert fitted.score(a, u) == pytest.approx(1 - missed / ((u - u.mean(axis=0)) ** 2).sum())


# the contract


def test_it_learns_a_nonlinear_operator_and_refinement_helps(pairs):
    a, u = pairs[200:]
    energy, refined = (small(scales=s).fit(*pairs[:200]).predict(a) for s in ("energy", "refined"))
    assert relative_l2(refined, u) < 0.05
    assert relative_l2(refined, u) <= relative_l2(energy, u)


def test_fitted_attributes_are_those_of_the_contract(fitted):
    assert fitted.scales_ == pytest.approx(np.multiply(fitted.energy_scales_, np.exp(fitted.log_offsets_)))
    assert fitted.refinement_.loss <= fitted.refinement_.start_loss
    assert fitted.refinement_.log_offsets == pytest.approx(fitted.log_offsets_)
    assert fitted.n_features_in_ == 40
    assert (fitted.input_pca_.grid, fitted.output_pca_.grid) == ((40,), (2, 40))
    assert len(fitted.ensemble_.members) == 3
    seconds = fitted.fit_seconds_
    assert seconds["total"] == pytest.approx(sum(v for k, v in seconds.items() if k != "total"))


def test_explicit_scales_are_used_as_given(pairs):
    model = small(scales=(0.3, 0.2)).fit(*pairs[:100])
    assert model.scales_ == (0.3, 0.2)
    assert model.refinement_ is None


def test_in_the_refined_variant_the_pca_comes_from_the_inner_samples(pairs):
    a, u = pairs[:100]
    model = small(n_components=3).fit(a, u)
    assert not np.allclose(model.input_pca_.mean, a.mean(axis=0), atol=1e-6)
    energy = small(n_components=3, scales="energy").fit(a, u)
    assert np.allclose(energy.input_pca_.mean, a.mean(axis=0), atol=1e-12)


def test_the_final_readout_is_fitted_to_all_samples(pairs):
    a, u = pairs[:100]
    model = small(n_components=3, widths=(8, 6)).fit(a, u)
    x, y = (pca.encode(v.reshape(100, -1)) for pca, v in ((model.input_pca_, a), (model.output_pca_, u)))
    member = model.ensemble_.members[1]
    assert np.allclose(member.readout, np.linalg.lstsq(member.features(x), y, rcond=None)[0], atol=1e-8)


def test_ridge_reaches_the_readout(pairs):
    plain, damped = (small(scales=(0.3, 0.2), ridge=r).fit(*pairs[:100]).ensemble_.members[0] for r in (0, 10))
    assert np.linalg.norm(damped.readout) < np.linalg.norm(plain.readout)


def test_arrays_of_parameters_are_copied(pairs):
    weights, relevance = np.ones(40), np.ones(3)
    model = small(n_components=3, fields=Fields(quadrature=(weights, None)), relevance=relevance).fit(*pairs[:60])
    before = model.predict(pairs.inputs[60:])
    weights *= 2
    relevance *= 2
    assert np.array_equal(model.predict(pairs.inputs[60:]), before)


def test_quadrature_reaches_both_pcas(pairs):
    a, u = pairs[:100]
    weights = (np.linspace(1, 2, 40), np.linspace(1, 3, 80).reshape(2, 40))
    model = small(fields=Fields(quadrature=weights)).fit(a, u)
    assert np.array_equal(model.input_pca_.weights, weights[0])
    assert np.array_equal(model.output_pca_.weights, weights[1].reshape(-1))
    assert relative_l2(model.predict(pairs.inputs[200:]), pairs.outputs[200:]) < 0.2


@pytest.mark.parametrize(("start", "scans"), [("scan", True), ("energy", False)])
def test_refine_start_chooses_whether_to_scan(pairs, start, scans):
    model = small(scales=Refine(start=start)).fit(*pairs[:100])
    assert (model.refinement_.evaluations > 24) == scans


def test_refine_ridge_reaches_the_loss(pairs):
    little, much = (small(scales=Refine(r, "energy")).fit(*pairs[:100]).refinement_.start_loss for r in (1e-4, 1.0))
    assert little != pytest.approx(much, rel=1e-3)


@pytest.mark.parametrize("output", [(), (1,), (3, 5)], ids=["scalar", "column", "grid"])
def test_outputs_keep_their_grid(pairs, output):
    a = pairs.inputs[:60]
    u = np.broadcast_to(a[:, :1].reshape(60, *[1] * len(output)), (60, *output)) if output else a[:, 0]
    model = small(n_components=0.999).fit(a, u)
    assert model.predict(a[:7]).shape == (7, *output)


def test_intervals_cover_and_any_level_can_be_asked_after_one_calibration(fitted, pairs):
    model = pickle.loads(pickle.dumps(fitted)).calibrate(*pairs[200:300])
    a, u = pairs[300:]
    for alpha in (0.05, 0.2, 0.5):
        band = model.predict_interval(a, alpha=alpha)
        assert coverage(band.lower, band.upper, u) == pytest.approx(1 - alpha, abs=0.06)
        assert np.allclose((band.lower + band.upper) / 2, band.mean)
    whole = model.predict_interval(a, alpha=0.2, method="simultaneous")
    inside = np.all((whole.lower <= u) & (u <= whole.upper), axis=(1, 2))
    assert inside.mean() >= 0.7


def test_partial_fit_moves_towards_new_data_and_recursion_equals_the_batch(pairs):
    a, u = pairs[:200]
    shifted = smooth_pairs(80, seed=9)
    new_a, new_u = shifted.inputs, 1.5 * shifted.outputs
    model = small(adapt=Adapt(start="ridge")).fit(a, u)
    before = relative_l2(model.predict(new_a[60:]), new_u[60:])
    batch = clone(model).fit(a, u).refit_readout(new_a[:60], new_u[:60], ridge=Adapt().ridge)
    model.partial_fit(new_a[:25], new_u[:25]).partial_fit(new_a[25:60], new_u[25:60])
    assert relative_l2(model.predict(new_a[60:]), new_u[60:]) < before
    assert np.allclose(model.predict(a), batch.predict(a), atol=1e-9)


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
def test_adapt_start_chooses_the_departure(pairs, start):
    model = small(adapt=Adapt(start=start)).fit(*pairs[:100])
    readout = model.ensemble_.members[0].readout
    model.partial_fit(*pairs[100:101])
    prior = model._fitted.adaptation.learners[0].prior
    assert (prior is None) if start == "ridge" else np.array_equal(prior, readout)


def test_forgetting_follows_a_change_faster(pairs):
    a, u = pairs[:100]
    errors = {}
    for forgetting in (1.0, 0.9):
        model = (
            small(adapt=Adapt(forgetting=forgetting))
            .fit(a, u)
            .partial_fit(pairs.inputs[100:200], -pairs.outputs[100:200])
        )
        errors[forgetting] = relative_l2(model.predict(pairs.inputs[200:]), -pairs.outputs[200:])
    assert errors[0.9] < errors[1.0]


def test_verbose_shows_progress_on_standard_error_only(pairs, capsys):
    small(verbose=True).fit(*pairs[:50])
    small(verbose=False).fit(*pairs[:50])
    captured = capsys.readouterr()
    assert captured.out == ""


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(pairs):
    first, second, third = (small(random_state=seed).fit(*pairs[:100]).predict(pairs.inputs) for seed in (1, 1, 2))
    assert first.tobytes() == second.tobytes()
    assert not np.allclose(first, third)


@pytest.mark.parametrize("state", [None, np.random.RandomState(0), np.random.default_rng(0)])
def test_random_state_may_be_a_generator_or_none(pairs, state):
    assert np.isfinite(small(random_state=state, scales="energy").fit(*pairs[:50]).predict(pairs.inputs[:2])).all()


# backends


def test_torch_equals_numpy_in_scales_readout_predictions_intervals_and_updates(pairs, torch_computes):
    torch = pytest.importorskip("torch")
    models = []
    for wrap in (np.asarray, torch.asarray):
        data = [tuple(map(wrap, pairs[cut])) for cut in (slice(0, 200), slice(200, 300), slice(300, 400))]
        model = small(n_components=(6, 8)).fit(*data[0]).calibrate(*data[1])
        band = model.predict_interval(data[2][0], alpha=0.1)
        assert isinstance(band.mean, type(data[2][0]))
        model.partial_fit(*data[1])
        models.append((model, band, model.predict(data[2][0])))
    (one, one_band, one_after), (two, two_band, two_after) = models
    assert one.scales_ == pytest.approx(two.scales_, rel=1e-8)
    for mine, other in zip(one.ensemble_.members, two.ensemble_.members, strict=True):
        assert np.allclose(mine.readout, to_host(other.readout), rtol=0, atol=1e-8 * np.abs(mine.readout).max())
    for name in ("mean", "std", "lower", "upper"):
        assert np.allclose(getattr(one_band, name), to_host(getattr(two_band, name)), rtol=0, atol=1e-8)
    assert np.allclose(one_after, to_host(two_after), rtol=0, atol=1e-8)


def test_torch_tensors_on_a_cpu_are_computed_by_numpy_and_come_back_as_tensors(pairs):
    torch = pytest.importorskip("torch")
    one, two = (
        small().fit(*map(wrap, pairs[:200])).calibrate(*map(wrap, pairs[200:300]))
        for wrap in (np.asarray, torch.asarray)
    )
    assert isinstance(two.input_pca_.modes, np.ndarray)
    expected, found = (
        vars(model.predict_interval(wrap(pairs.inputs[300:]), alpha=0.1))
        for model, wrap in ((one, np.asarray), (two, torch.asarray))
    )
    for name, part in found.items():
        assert isinstance(part, torch.Tensor)
        assert np.array_equal(part.numpy(), expected[name])


def test_the_core_runs_under_array_api_strict(pairs):
    strict = pytest.importorskip("array_api_strict")
    a, u, b, v = (strict.asarray(x) for x in (*pairs[:100], *pairs[100:150]))
    model = small().fit(a, u).calibrate(b, v)
    reference = small().fit(*pairs[:100])
    assert np.allclose(to_host(model.predict(b)), reference.predict(pairs.inputs[100:150]), atol=1e-8)
    model.predict_interval(b, alpha=0.1)
    assert isinstance(model.partial_fit(b, v).predict(b), type(b))


def test_predictions_come_back_as_the_kind_of_array_handed_in(fitted, pairs):
    torch = pytest.importorskip("torch")
    found = fitted.predict(torch.asarray(pairs.inputs[:3]))
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), fitted.predict(pairs.inputs[:3]))


# faults, by row


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["fit", "calibrate", "partial_fit"])
@pytest.mark.parametrize("which", ["X", "y"])
def test_nonfinite_values_are_refused_with_array_count_and_sample(pairs, bad, method, which):
    model = small(scales="energy").fit(*pairs[:50])
    before = model.predict(pairs.inputs[:5])
    a, u = (array.copy() for array in pairs[:60])
    (a if which == "X" else u)[7:9, ..., 3:] = bad
    with pytest.raises(ValueError, match=rf"^{which} contains NaN.* in \d+ of \d+ samples \(7"):
        getattr(model, method)(a, u)
    assert np.array_equal(model.predict(pairs.inputs[:5]), before)


def test_nonfinite_inputs_to_predict_are_refused(fitted, pairs):
    a = pairs.inputs[:5].copy()
    a[4, 0] = np.nan
    with pytest.raises(ValueError, match=r"samples \(4\)"):
        fitted.predict(a)


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("predict", lambda a, u: (a[:, :9],), "X has 9 features, but PCARaNN is expecting 40"),
        ("predict", lambda a, u: (u,), r"fields of shape \(2, 40\), but PCARaNN is expecting \(40,\)"),
        ("predict", lambda a, u: (a[0],), "Expected 2D array, got 1D"),
        ("calibrate", lambda a, u: (u, a), "swapped"),
        ("calibrate", lambda a, u: (a, u[:5]), "same number of samples, found 50 and 5"),
        ("partial_fit", lambda a, u: (a, u[:, :, :7]), r"\(2, 7\)"),
        ("fit", lambda a, u: (a, u[:5]), "found 50 and 5"),
        ("fit", lambda a, u: (a, None), "y is None"),
        ("fit", lambda a, u: (a[:0], u[:0]), r"0 sample\(s\)"),
        ("fit", lambda a, u: (a[:1], u[:1]), r"1 sample\(s\).*minimum of 2"),
    ],
)
def test_wrong_shapes_are_refused_with_found_and_wanted(pairs, method, arguments, says):
    a, u = pairs[:50]
    model = small(scales="energy").fit(a, u)
    before = model.predict(a[:5])
    with pytest.raises(ValueError, match=says):
        getattr(model, method)(*arguments(a, u))
    assert np.array_equal(model.predict(a[:5]), before)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("samples", [2, 3, 5, 8])
@pytest.mark.parametrize("scales", ["energy", "refined"])
def test_fewer_samples_than_modes_and_widths_still_interpolate(samples, scales):
    data = smooth_pairs(samples, seed=3)
    model = PCARaNN(n_components=100, widths=(50, 20), n_members=2, scales=scales).fit(data.inputs, data.outputs)
    found = model.predict(data.inputs)
    assert np.isfinite(found).all()
    if scales == "energy":
        assert np.allclose(found, data.outputs, atol=1e-6)


def test_clipped_ranks_and_skipped_refinement_warn_once_each():
    data = smooth_pairs(4)
    with pytest.warns(UserWarning, match="too few|rank 3") as caught:
        small(n_components=10).fit(data.inputs, data.outputs)
    messages = [str(w.message) for w in caught]
    assert sum("too few to refine" in m for m in messages) == 1
    assert sum("4 inputs have rank 3" in m for m in messages) == 1
    assert sum("4 outputs have rank 3" in m for m in messages) == 1
    assert all(w.filename == __file__ for w in caught)


def test_one_feature_and_one_output_work():
    x = np.linspace(-1, 1, 60)[:, None]
    model = PCARaNN(widths=(30, 10), n_members=2).fit(x, np.sin(3 * x))
    assert np.allclose(model.predict(x), np.sin(3 * x), atol=1e-2)


def fitted_saying(model, a, u, says):
    """Fit, and expect one warning, or none."""
    if says is None:
        return model.fit(a, u)
    with pytest.warns(UserWarning, match=says) as caught:
        model.fit(a, u)
    assert len(caught) == 1
    return model


@pytest.mark.parametrize("which", ["inputs", "outputs", "both"])
@pytest.mark.parametrize("scales", ["energy", "refined"])
def test_constant_fields_predict_the_constant_and_warn_only_where_inputs_say_nothing(pairs, which, scales):
    a, u = (array.copy() for array in pairs[:100])
    if which in ("inputs", "both"):
        a[:] = 2.5
    if which in ("outputs", "both"):
        u[:] = -0.3
    said = "(no|hardly) better than the mean field" if which == "inputs" else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted_saying(small(scales=scales), a[:50], u[:50], said)
        found = model.predict(a[:4])
    expected = model.output_pca_.mean.reshape(2, 40)
    assert np.allclose(found, np.broadcast_to(expected, found.shape), atol=1e-12)
    model.calibrate(a[50:], u[50:])
    assert np.isfinite(model.predict_interval(a[:4]).lower).all()


def test_a_share_of_the_variance_at_rounding_is_no_share():
    from pcarann.uncertainty.fit_report import FitReport

    assert FitReport(1.0, 3e-16, 10, "svd", None, 0.0).useless


def test_duplicated_samples_and_rank_deficient_fields_equal_an_svd_oracle(backend):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 15))
    u = np.tanh(a @ rng.normal(size=(15, 3))) @ rng.normal(size=(3, 12))
    a, u = np.vstack([a, a]), np.vstack([u, u])
    model = PCARaNN(n_components=3, widths=(10, 5), n_members=1, scales=(0.5, 0.5)).fit(backend(a), backend(u))
    member = model.ensemble_.members[0]
    mean_a, mean_u = a.mean(axis=0), u.mean(axis=0)
    modes = np.linalg.svd(u - mean_u)[2][:3]
    H = to_host(member.features(model.input_pca_.encode(backend(a))))
    V = np.linalg.lstsq(H, (u - mean_u) @ modes.T, rcond=None)[0]
    span = np.linalg.svd(a - mean_a)[2][:3]
    overlap = np.abs(np.linalg.det(to_host(model.input_pca_.modes) @ span.T))
    assert overlap == pytest.approx(1.0, abs=1e-8)
    assert np.allclose(to_host(model.predict(backend(a))), mean_u + H @ V @ modes, atol=1e-8)


@pytest.mark.parametrize("c", [1e30, 1e-30, 1e3])
def test_rescaled_data_give_the_rescaled_answer(pairs, c):
    # Energy matching looks at the unit of the outputs by the paper's rule, so the scales are given here.
    a, u = pairs[:150]
    plain = small(scales=(0.3, 0.2)).fit(a, u)
    scaled = small(scales=(0.3 / c, 0.2)).fit(c * a, c * u)
    assert np.allclose(scaled.predict(c * pairs.inputs) / c, plain.predict(pairs.inputs), rtol=0, atol=1e-8)


@pytest.mark.parametrize("c", [1e30, 1e-30])
@pytest.mark.parametrize("scales", ["energy", "refined"])
def test_the_unit_of_the_inputs_never_matters(pairs, c, scales):
    a, u = pairs[:150]
    plain, scaled = small(scales=scales).fit(a, u), small(scales=scales).fit(c * a, u)
    # Rescaling moves the last bit of every latent; the refinement stops at a gradient of 1e-3, which moves with it.
    assert np.allclose(scaled.predict(c * pairs.inputs), plain.predict(pairs.inputs), atol=1e-4)


@pytest.mark.parametrize("c", [1e30, 1e-30])
def test_huge_and_tiny_outputs_are_learned(pairs, c):
    a, u = pairs[:200]
    model = small().fit(a[:150], c * u[:150]).calibrate(a[150:], c * u[150:])
    assert relative_l2(model.predict(pairs.inputs[200:]), c * pairs.outputs[200:]) < 0.1
    assert np.isfinite(model.predict_interval(a[:3]).upper).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4", ">f8", ">f4", "u1"])
def test_any_real_type_is_converted_and_not_modified(dtype):
    rng = np.random.default_rng(0)
    a, u = rng.integers(0, 9, (30, 4)).astype(dtype), rng.integers(0, 9, (30, 3)).astype(dtype)
    kept = a.copy(), u.copy()
    found = PCARaNN(widths=(10, 5), n_members=2).fit(a, u).predict(a)
    expected = PCARaNN(widths=(10, 5), n_members=2).fit(a.astype(float), u.astype(float)).predict(a.astype(float))
    assert found.dtype == np.float64
    assert np.array_equal(found, expected)
    assert np.array_equal(a, kept[0])
    assert np.array_equal(u, kept[1])


@pytest.mark.parametrize("layout", ["fortran", "reversed", "read-only", "memory-mapped"])
def test_any_memory_layout_gives_the_identical_model(pairs, layout, tmp_path):
    a, u = pairs[:100]
    expected = small().fit(a, u).predict(pairs.inputs)

    def relaid(array):
        if layout == "fortran":
            return np.asfortranarray(array)
        if layout == "reversed":
            return array[::-1, ::-1].copy()[::-1, ::-1]
        if layout == "read-only":
            array = array.copy()
            array.setflags(write=False)
            return array
        path = tmp_path / f"{array.ndim}.npy"
        np.save(path, array)
        return np.load(path, mmap_mode="r")

    assert np.array_equal(small().fit(relaid(a), relaid(u)).predict(pairs.inputs), expected)


@pytest.mark.parametrize(
    "bad",
    [
        lambda a: a + 0j,
        lambda a: a.astype(str),
        lambda a: np.ma.masked_greater(a, 1),
        lambda a: a.reshape(50, 8, 5).astype(object),
        lambda a: np.full(a.shape, np.datetime64("2020-01-01")),
    ],
    ids=["complex", "string", "masked", "object", "date"],
)
def test_arrays_that_hold_no_real_numbers_are_refused(pairs, bad):
    a, u = pairs[:50]
    with pytest.raises(ValueError, match="X"):
        small().fit(bad(a), u)


def test_complex_torch_arrays_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="Complex"):
        small().fit(torch.ones(5, 3, dtype=torch.complex128), torch.ones(5, 3))


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_levels_outside_zero_and_one_are_refused(fitted, pairs, alpha):
    model = pickle.loads(pickle.dumps(fitted)).calibrate(*pairs[200:300])
    with pytest.raises(ValueError, match="alpha"):
        model.predict_interval(pairs.inputs[:2], alpha=alpha)


def test_an_unknown_interval_method_is_refused(fitted, pairs):
    with pytest.raises(ValueError, match="sample, pooled, simultaneous"):
        fitted.predict_interval(pairs.inputs[:2], method="magic")


def test_too_few_calibration_samples_warn_with_the_number_needed(fitted, pairs):
    model = pickle.loads(pickle.dumps(fitted)).calibrate(*pairs[200:210])
    with pytest.warns(UserWarning, match=r"10 calibration samples are too few .* 19 are needed"):
        band = model.predict_interval(pairs.inputs[:2], alpha=0.05)
    assert np.all(band.upper == np.inf)
    assert np.all(band.lower == -np.inf)
    assert np.isfinite(band.mean).all()


def test_intervals_of_one_member_are_finite_and_valid(pairs):
    model = small(n_members=1).fit(*pairs[:150]).calibrate(*pairs[150:250])
    a, u = pairs[250:]
    band = model.predict_interval(a, alpha=0.1)
    assert np.isfinite(band.upper).all()
    assert coverage(band.lower, band.upper, u) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("c", [1e-12, 1e12])
def test_the_floor_of_the_spread_follows_the_unit_of_the_outputs(pairs, c):
    widths = []
    for unit in (1.0, c):
        model = small(n_members=1, scales=(0.3, 0.2)).fit(pairs.inputs[:150], unit * pairs.outputs[:150])
        model.calibrate(pairs.inputs[150:250], unit * pairs.outputs[150:250])
        band = model.predict_interval(pairs.inputs[250:], alpha=0.1)
        widths.append((band.upper - band.lower).mean() / unit)
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)


def test_intervals_before_calibration_and_after_a_refit_are_refused(fitted, pairs):
    model = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(NotFittedError, match="no calibration"):
        model.predict_interval(pairs.inputs[:2])
    model.calibrate(*pairs[200:300]).refit_readout(*pairs[300:310])
    with pytest.raises(NotFittedError, match="stale"):
        model.predict_interval(pairs.inputs[:2])
    with pytest.raises(NotFittedError, match="stale"):  # samples cannot be scored by a calibration of another model
        model.partial_fit(*pairs[310:315]).predict_interval(pairs.inputs[:2])
    model.calibrate(*pairs[200:300]).predict_interval(pairs.inputs[:2])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (dict(n_components=0), "n_components"),
        (dict(n_components=1.5), "n_components"),
        (dict(n_components=(1, 2, 3)), "pair"),
        (dict(widths=100), "widths"),
        (dict(widths=(0, 5)), "widths"),
        (dict(n_members=0), "n_members"),
        (dict(scales="best"), "scales"),
        (dict(scales=(1.0, -1.0)), "scales"),
        (dict(ridge=-1), "ridge"),
        (dict(ridge=float("nan")), "ridge"),
        (dict(scales=Refine(ridge=0)), "scales.ridge"),
        (dict(scales=Refine(start="middle")), "scales.start"),
        (dict(adapt=Adapt(ridge=0)), "adapt.ridge"),
        (dict(adapt=Adapt(start="none")), "adapt.start"),
        (dict(adapt=Adapt(forgetting=0)), "adapt.forgetting"),
        (dict(adapt=Adapt(forgetting=1.1)), "adapt.forgetting"),
        (dict(fields=Fields(quadrature=np.ones(40))), "fields.quadrature"),
        (
            dict(fields=Fields(quadrature=(np.ones(3), None))),
            r"quadrature\[0\] must have the shape of one field, \(40,\)",
        ),
        (dict(fields=Fields(quadrature=(-np.ones(40), None))), "positive"),
        (dict(random_state="seed"), "random_state"),
        (dict(device="abacus"), "device"),
    ],
)
def test_bad_parameters_are_refused_by_name(pairs, parameters, says):
    with pytest.raises(ValueError, match=says):
        small(**parameters).fit(*pairs[:50])


def test_an_unfitted_model_says_so(pairs):
    for call in (lambda m: m.predict(pairs.inputs), lambda m: m.calibrate(*pairs[:5]), lambda m: m.save("x")):
        with pytest.raises(NotFittedError, match="fit"):
            call(small())
    with pytest.raises(AttributeError, match="after fit only"):
        _ = small().scales_


def test_an_interrupted_fit_leaves_the_old_model(fitted, pairs, monkeypatch):
    model = pickle.loads(pickle.dumps(fitted))
    before = model.predict(pairs.inputs[:5])

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pcarann.fitting.fit_members", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*pairs[100:200])
    assert np.array_equal(model.predict(pairs.inputs[:5]), before)


def test_predictions_during_adaptation_equal_some_published_state(pairs):
    model = small(scales="energy").fit(*pairs[:100])
    probe = pairs.inputs[300:310]
    states, seen, stop = [model.predict(probe)], [], threading.Event()

    def watch():
        while not stop.is_set():
            seen.append(model.predict(probe))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for i in range(20):
        model.partial_fit(*pairs[100 + i : 101 + i])
        states.append(model.predict(probe))
    stop.set()
    watcher.join()
    assert seen
    assert all(any(np.allclose(found, state, rtol=0, atol=1e-13) for state in states) for found in seen)


# options that go past the paper, each with every method

CIRCLE = Symmetry.shifts(-1) * Symmetry.reflection(-1, periodic=True)
FEW = dict(n_components=(5, 8), widths=(20, 15), n_members=3, scales=(0.3, 0.3), ridge=1e-4)
OPTIONS = {
    "kernel": dict(regressor=Kernel(2.0)),
    "linear": dict(linear=True),
    "kernel with a linear term": dict(regressor=Kernel(2.0), linear=True),
    "power": dict(relevance=0.5),
    "weights": dict(relevance=[1.0, 0.8, 0.6, 0.5, 0.4]),
    "metric": dict(relevance=np.eye(5) + 0.1),
    "learned": dict(relevance="learned"),
    "symmetry": dict(symmetry=CIRCLE),
    "kernel with a symmetry": dict(regressor=Kernel(2.0), symmetry=CIRCLE.using(fit=2)),
    "all": dict(regressor=Kernel(2.0), linear=True, relevance="learned", symmetry=CIRCLE.using(fit=2, predict=3)),
}
every_option = pytest.mark.parametrize("option", list(OPTIONS.values()), ids=list(OPTIONS))


@pytest.fixture(scope="module")
def circular():
    return periodic_pairs(200, points=8)


def with_option(circular, option, **changes):
    return PCARaNN(**{**FEW, **option, **changes}).fit(*circular[:60])


@every_option
def test_mean_alone_equals_mean_with_spread_for_every_option(circular, option):
    model = with_option(circular, option)
    mean, std = model.predict(circular.inputs[60:], return_std=True)
    assert np.allclose(mean, model.predict(circular.inputs[60:]), rtol=0, atol=1e-12)
    assert (std > 0).all()


@every_option
def test_intervals_cover_for_every_option(circular, option):
    model = with_option(circular, option).calibrate(*circular[60:130])
    band = model.predict_interval(circular.inputs[130:], alpha=0.2)
    # 70 samples on either side: the coverage of one draw has a standard deviation of about 0.04.
    assert coverage(band.lower, band.upper, circular.outputs[130:]) == pytest.approx(0.8, abs=0.12)


@every_option
def test_recursion_from_the_ridge_equals_a_batch_refit_for_every_option(circular, option):
    model = with_option(circular, option, adapt=Adapt(start="ridge"))
    batch = with_option(circular, option).refit_readout(*circular[60:90], ridge=Adapt().ridge)
    model.partial_fit(*circular[60:75]).partial_fit(*circular[75:90])
    assert np.allclose(model.predict(circular.inputs), batch.predict(circular.inputs), rtol=0, atol=1e-7)


@every_option
def test_adaptation_follows_new_data_for_every_option(circular, option):
    model = with_option(circular, option)
    before = relative_l2(model.predict(circular.inputs[140:]), 1.5 * circular.outputs[140:])
    model.partial_fit(circular.inputs[60:140], 1.5 * circular.outputs[60:140])
    assert relative_l2(model.predict(circular.inputs[140:]), 1.5 * circular.outputs[140:]) < before


@every_option
def test_intervals_follow_adaptation_for_every_option(circular, option):
    model = with_option(circular, option).calibrate(*circular[60:130]).partial_fit(*circular[130:140])
    band = model.predict_interval(circular.inputs[140:], alpha=0.1)
    assert coverage(band.lower, band.upper, circular.outputs[140:]) > 0.7


@every_option
def test_a_refit_without_a_ridge_uses_that_of_the_fit_for_every_option(circular, option):
    model = with_option(circular, option).refit_readout(*circular[60:90])
    again = with_option(circular, option).refit_readout(*circular[60:90], ridge=1e-4)
    assert model.ridge_ == 1e-4
    assert np.array_equal(model.predict(circular.inputs), again.predict(circular.inputs))


@every_option
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_every_option_is_the_same_on_every_backend(circular, option, library, torch_computes):
    xp = pytest.importorskip(library)
    noise = 0.1 * np.random.default_rng(0).normal(size=circular.outputs.shape)
    found = []
    for wrap in (np.asarray, xp.asarray):
        cuts = (slice(0, 60), slice(60, 130), slice(130, 160))
        data = [(wrap(circular.inputs[cut]), wrap((circular.outputs + noise)[cut])) for cut in cuts]
        model = PCARaNN(**{**FEW, "ridge": 1e-2, **option}).fit(*data[0]).calibrate(*data[1])
        band = model.predict_interval(data[2][0], alpha=0.2)
        assert isinstance(band.upper, type(data[2][0]))
        found.append([band.mean, band.std, model.partial_fit(*data[2]).predict(data[2][0])])
    # A metric is learned from a fit with a ridge down to 1e-13, which enlarges the rounding of its kernel matrix.
    rounding = 1e-6 if isinstance(option.get("relevance"), str) else 1e-8
    for one, other in zip(*found, strict=True):
        assert np.allclose(one, to_host(other), rtol=0, atol=rounding)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_blocks_and_single_samples_adapt_a_symmetric_model_alike(circular, forgetting):
    whole, single = (with_option(circular, OPTIONS["symmetry"], adapt=Adapt(forgetting=forgetting)) for _ in range(2))
    whole.partial_fit(*circular[60:70])
    for i in range(60, 70):
        single.partial_fit(*circular[i : i + 1])
    assert np.allclose(whole.predict(circular.inputs), single.predict(circular.inputs), rtol=0, atol=1e-9)


def test_adaptation_keeps_a_model_equivariant(circular):
    model = with_option(circular, OPTIONS["symmetry"]).partial_fit(*circular[60:70])
    inputs = circular.inputs[70:80]
    shifted = np.roll(model.predict(inputs), 3, axis=-1)
    assert np.allclose(model.predict(np.roll(inputs, 3, axis=-1)), shifted, rtol=0, atol=1e-12)


def test_a_linear_term_makes_a_linear_operator_exact():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(80, 5))
    u = a @ rng.normal(size=(5, 7))
    options = dict(n_components=5, widths=(6, 4), n_members=2, scales=(0.5, 0.5))
    errors = [relative_l2(PCARaNN(**options, linear=linear).fit(a[:40], u[:40]).predict(a[40:]), u[40:])
              for linear in (False, True)]  # fmt: skip
    assert errors[1] < 1e-9 < 1e-2 < errors[0]


def test_a_learned_metric_helps_where_one_direction_moves_the_output():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(300, 12))
    u = np.sin(a @ np.full((12, 1), 0.5))
    options = dict(n_components=(12, 1), regressor="kernel", n_members=2, ridge="gcv")
    plain, learned = (
        relative_l2(PCARaNN(**options, relevance=r).fit(a[:150], u[:150]).predict(a[150:]), u[150:])
        for r in (0.0, "learned")
    )
    assert learned < 0.5 * plain


def test_the_length_of_the_kernel_is_the_one_given_or_one_chosen(circular):
    given, chosen = (with_option(circular, dict(regressor=Kernel(length))) for length in (3.0, None))
    assert given.length_ == 3.0
    assert chosen.length_ > 0
    assert "kernel_length" in chosen.fit_seconds_


@pytest.mark.parametrize("name", ["scales_", "energy_scales_", "log_offsets_"])
def test_a_kernel_has_no_scales_and_says_what_it_has(circular, name):
    model = with_option(circular, OPTIONS["kernel"])
    with pytest.raises(AttributeError, match=r"belongs to regressor='random'; a kernel has length_\."):
        getattr(model, name)
    assert model.refinement_ is None


def test_random_layers_have_no_length_and_say_what_they_have(fitted):
    with pytest.raises(AttributeError, match=r"length_ belongs to regressor='kernel'; random layers have scales_\."):
        _ = fitted.length_


@pytest.mark.parametrize("name", ["ridge_", "length_", "scales_", "energy_scales_", "log_offsets_"])
def test_attributes_of_a_fit_say_that_there_was_none(name):
    with pytest.raises(AttributeError, match="exists after fit only"):
        getattr(small(), name)


@pytest.mark.parametrize("ridge", [0, 1e-3])
def test_a_ridge_that_is_given_is_reported_as_given(pairs, ridge):
    assert small(scales="energy", ridge=ridge).fit(*pairs[:50]).ridge_ == ridge


def test_a_symmetry_that_does_not_fit_the_grids_is_refused_and_the_old_model_stays(circular):
    model = with_option(circular, OPTIONS["symmetry"])
    before = model.predict(circular.inputs[:5])
    model.set_params(symmetry=Symmetry.dihedral())
    with pytest.raises(ValueError, match="does not fit the grid"):
        model.fit(*circular[:60])
    assert np.array_equal(model.predict(circular.inputs[:5]), before)


@pytest.mark.parametrize("which", ["inputs", "outputs", "both"])
@pytest.mark.parametrize(
    "option", [*list(OPTIONS.values())[:4], OPTIONS["learned"]], ids=[*list(OPTIONS)[:4], "learned"]
)
def test_constant_fields_predict_the_constant_with_every_option(pairs, which, option):
    a, u = (array.copy() for array in pairs[:30])
    if which in ("inputs", "both"):
        a[:] = 2.5
    if which in ("outputs", "both"):
        u[:] = -0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted_saying(
            small(**option), a, u, "(no|hardly) better than the mean field" if which == "inputs" else None
        )
    expected = model.output_pca_.mean.reshape(2, 40)
    assert np.allclose(model.predict(a[:4]), np.broadcast_to(expected, (4, 2, 40)), atol=1e-12)


@pytest.mark.parametrize(
    "option", [*list(OPTIONS.values())[:4], OPTIONS["symmetry"]], ids=[*list(OPTIONS)[:4], "symmetry"]
)
def test_a_clone_and_a_pickle_predict_the_same_with_every_option(circular, option):
    model = with_option(circular, option)
    expected = model.predict(circular.inputs)
    assert np.array_equal(clone(model).fit(*circular[:60]).predict(circular.inputs), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(circular.inputs), expected)


def test_only_a_number_of_modes_that_was_set_is_said_to_be_too_large():
    rng = np.random.default_rng(0)
    amplitudes = rng.uniform(-1, 1, (30, 3))
    fields = amplitudes @ rng.normal(size=(3, 120))
    PCARaNN(widths=(20, 10), n_members=1).fit(fields, np.sin(amplitudes) @ rng.normal(size=(3, 120)))
    with pytest.warns(UserWarning, match="n_components=50 is more than there are"):
        PCARaNN(50, widths=(20, 10), n_members=1).fit(fields, 2 * fields)
