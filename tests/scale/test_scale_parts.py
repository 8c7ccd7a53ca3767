import dask.array as da
import numpy as np
import pytest
import xarray as xr
from lazy_data import apart, lazily

from pcarann import Fields, PCARaNN
from pcarann.mesh import Mesh
from pcarann.scale import limited
from pcarann.scale.parts import Fold
from pcarann.scale.writing import write_predictions

RNG = np.random.default_rng(0)
N, M, TRAINED = 260, 24, 200
MODES = np.cos(np.pi * np.arange(6)[:, None] * np.linspace(0, 1, M))
K = (RNG.normal(size=(N, 6)) / (1 + np.arange(6)) ** 1.5) @ MODES
ANGLE, TABLE = RNG.uniform(0, 1, N), RNG.normal(size=(N, 3))
INPUTS = {"k": K, "angle": ANGLE, "table": TABLE}
U = np.stack([np.tanh(K) + ANGLE[:, None], 1e-3 * K[:, ::-1] * TABLE[:, :1]], axis=1)
OUTPUTS = {"u": U, "T": 300 + 40 * K.mean(axis=1) * ANGLE}
OPTIONS = dict(n_components=(10, 12), widths=(40, 30), n_members=2, ridge=1e-6, scales="energy")
CHUNKS = {"k": (70, 10), "angle": (33,), "table": (260, 1), "u": (40, 1), "T": (111,)}


def some(parts, rows):
    return {name: array[rows] for name, array in parts.items()}


def lazy(parts):
    return {name: lazily(array, *CHUNKS[name]) for name, array in parts.items()}


TRAINING, REST = slice(0, TRAINED), slice(TRAINED, N)


@pytest.fixture(scope="module")
def known():
    return PCARaNN(**OPTIONS).fit(some(INPUTS, TRAINING), some(OUTPUTS, TRAINING))


@pytest.fixture(scope="module")
def found():
    with limited("4MB"):
        return PCARaNN(**OPTIONS).fit(lazy(some(INPUTS, TRAINING)), lazy(some(OUTPUTS, TRAINING)))


def test_values_fold_into_parts_and_back():
    fold = Fold(((2, 3), (), (4,)), ("a", "b", "c"))
    raw = RNG.normal(size=(5, fold.values))
    folded = fold.folded(raw)
    assert {name: one.shape for name, one in folded.items()} == {"a": (5, 2, 3), "b": (5,), "c": (5, 4)}
    assert (fold.flat(folded) == raw).all()
    lazy_ones = fold.unjoined(lazily(raw, 2))
    assert all((one.compute() == folded[name]).all() for one, name in zip(lazy_ones, fold.names, strict=True))
    assert (fold.joined(lazy_ones).compute() == raw).all()


def test_a_fit_to_lazy_parts_is_that_in_memory(known, found):
    for name, field in found.predict(INPUTS).items():
        assert apart(field, known.predict(INPUTS)[name]) < 1e-8
    assert found.fit_report_.parts.keys() == {"u", "T"}
    for name, judged in found.fit_report_.parts.items():
        assert judged == pytest.approx(known.fit_report_.parts[name], rel=1e-6)
    assert [side.name for side in found.scale_report_.sides] == ["y"]


def test_lazy_parts_are_predicted_lazily_as_what_they_came_as(found, tmp_path):
    wanted, std = found.predict(INPUTS, return_std=True)
    fields, spread = found.predict(lazy(INPUTS), return_std=True)
    assert all(isinstance(one, da.Array) for one in fields.values())
    for name in OUTPUTS:
        assert apart(fields[name].compute(), wanted[name]) < 1e-9
        assert apart(spread[name].compute(), std[name]) < 1e-6
    write_predictions(found, lazy(INPUTS), tmp_path / "p.zarr", {"model": "this"}, how={"std": True})
    with xr.open_zarr(tmp_path / "p.zarr", consolidated=False) as store:
        assert store["u.mean"].dims == ("sample", "u.axis_1", "u.axis_2")
        assert apart(store["u.mean"].values, wanted["u"]) < 1e-9
        assert apart(store["T.std"].values, std["T"]) < 1e-6


def test_models_of_parts_are_judged_calibrated_and_adapted_lazily(known):
    X, y = some(INPUTS, REST), some(OUTPUTS, REST)
    twins = [PCARaNN(**OPTIONS).fit(some(INPUTS, TRAINING), some(OUTPUTS, TRAINING)) for _ in range(2)]
    assert twins[0].score(lazy(X), lazy(y)) == pytest.approx(known.score(X, y), abs=1e-9)
    assert apart(known.novelty(lazy(X)).p_value, known.novelty(X).p_value) < 1e-6
    with limited("6MB"):
        twins[0].calibrate(lazy(X), lazy(y))
    twins[1].calibrate(X, y)
    bands = [twins[0].predict_interval(lazy(X), 0.2), twins[1].predict_interval(X, 0.2)]
    for name in OUTPUTS:
        assert apart(bands[0].upper[name].compute(), bands[1].upper[name]) < 1e-6
    twins[0].partial_fit(lazy(X), lazy(y)).refit_readout(lazy(X), lazy(y))
    twins[1].partial_fit(X, y).refit_readout(X, y)
    for name in OUTPUTS:
        assert apart(twins[0].predict(INPUTS)[name], twins[1].predict(INPUTS)[name]) < 1e-6


def test_a_lazy_dataset_gives_a_lazy_dataset():
    x = np.linspace(0, 1, M) ** 1.5  # uneven, so that there are weights
    shared = {"run": np.arange(N) + 7, "x": x}
    X = xr.Dataset({"k": (("run", "x"), K), "angle": ("run", ANGLE)}, coords=shared)
    y = xr.Dataset({"u": (("run", "x"), U[:, 0]), "T": ("run", OUTPUTS["T"])}, coords=shared)
    known = PCARaNN(**OPTIONS).fit(X, y)
    found = PCARaNN(**OPTIONS).fit(X.chunk(run=50), y.chunk(run=60, x=11))
    wanted, fields = known.predict(X), found.predict(X.chunk(run=33))
    assert fields["u"].chunks is not None
    assert fields["u"].dims == ("run", "x")
    assert (fields["run"] == X["run"]).all()
    for name in ("u", "T"):
        assert apart(fields[name].values, wanted[name].values) < 1e-8
    with pytest.warns(UserWarning, match="trained on 260 of the 260"):
        found.calibrate(X.chunk(run=70), y.chunk(run=70))
    band = found.predict_interval(X.chunk(run=33), 0.1)
    assert apart(band["T"]["upper"].values, found.predict_interval(X, 0.1)["T"]["upper"].values) < 1e-8


def test_one_lazy_field_beside_one_that_is_coded():
    options = OPTIONS | {"n_components": (6, 12)}
    known, found = PCARaNN(**options).fit(K, OUTPUTS), PCARaNN(**options).fit(lazily(K, 50), lazy(OUTPUTS))
    assert apart(found.predict(K)["u"], known.predict(K)["u"]) < 1e-8
    known, found = PCARaNN(**OPTIONS).fit(INPUTS, U), PCARaNN(**OPTIONS).fit(lazy(INPUTS), U)
    assert apart(found.predict(lazy(INPUTS)).compute(), known.predict(INPUTS)) < 1e-8


@pytest.mark.filterwarnings("ignore:.* is read in .* blocks of values")
@pytest.mark.parametrize("uneven", [False, True])
def test_large_fields_in_little_memory_have_all_their_modes(uneven):
    rng, t = np.random.default_rng(1), np.linspace(0, 1, 900)
    c = rng.normal(size=(320, 16)) / (1 + np.arange(16)) ** 0.5
    k, b = c @ np.cos(np.pi * np.arange(16)[:, None] * t) + 5, rng.uniform(size=320)
    u = 0.2 * k[:, ::10] + b[:, None]
    X = xr.Dataset({"k": (("run", "t"), k), "b": ("run", b)}, coords={"t": t ** (1.5 if uneven else 1.0)})
    options = OPTIONS | {"n_components": (17, 16)}
    known = PCARaNN(**options).fit(X, u)
    with limited("10MB"):
        found = PCARaNN(**options).fit(X.chunk(run=40), lazily(u, 40))
    assert [len(code.factor) for code in found.fitted_.packing.input_code.codes] == [16, 1]
    codes = [one.fitted_.packing.input_code.codes[0] for one in (found, known)]
    assert codes[0].unit * codes[0].far == pytest.approx(codes[1].unit * codes[1].far, rel=0.3 if uneven else 0.05)
    if uneven:  # in memory, modes of the nodes as they are may be taken in place of those of the quadrature
        errors = [np.abs(one.predict(X) - u).mean() for one in (found, known)]
        assert errors[0] < 1.3 * errors[1]
    else:
        assert apart(found.predict(X), known.predict(X)) < 1e-8
    with limited("2MB"), pytest.raises(ValueError, match=r"Parts by name of \d+ values need .* GB: allow"):
        PCARaNN(**options).fit(X.chunk(run=40), lazily(np.repeat(u, 9, axis=1), 40))


@pytest.mark.parametrize("unit", [1e-165, 1.0, 1e200])
def test_outputs_of_any_unit_are_scaled_as_in_memory(unit):
    outputs = {"u": U, "T": unit * (1 + 1e-3 * ANGLE)}
    known, found = PCARaNN(**OPTIONS).fit(INPUTS, outputs), PCARaNN(**OPTIONS).fit(lazy(INPUTS), lazy(outputs))
    assert found.fitted_.packing.output_code.scales == known.fitted_.packing.output_code.scales


def test_one_lazy_number_a_sample_is_coded():
    X = xr.DataArray(ANGLE, dims="run")
    known, found = PCARaNN(**OPTIONS).fit(X, U), PCARaNN(**OPTIONS).fit(X.chunk(run=90), lazily(U, 90))
    assert apart(found.predict(X.chunk(run=50)).compute(), known.predict(X)) < 1e-8


def test_codes_of_many_samples_come_from_some(known, monkeypatch):
    monkeypatch.setattr("pcarann.scale.parts._MOST_CODED", 150)
    model = PCARaNN(**OPTIONS).fit(lazy(some(INPUTS, TRAINING)), lazy(some(OUTPUTS, TRAINING)))
    found, fields, truth = model.predict(some(INPUTS, REST)), known.predict(some(INPUTS, REST)), some(OUTPUTS, REST)
    for name in OUTPUTS:
        assert np.abs(found[name] - truth[name]).mean() < 1.5 * np.abs(fields[name] - truth[name]).mean()
    assert model.fitted_.samples == TRAINED


def test_lazy_fields_on_a_mesh_have_its_weights():
    points = RNG.uniform(size=(40, 2)) ** 2
    from scipy.spatial import Delaunay

    mesh = Mesh(points, Delaunay(points).simplices)
    a = RNG.normal(size=(80, 4)) @ np.cos(np.pi * np.arange(1, 5)[:, None] * points.sum(axis=1))
    u, options = np.tanh(a), OPTIONS | {"n_components": (4, 8), "fields": Fields(mesh=mesh)}
    known, found = PCARaNN(**options).fit(a, u), PCARaNN(**options).fit(lazily(a, 30), lazily(u, 30))
    assert apart(found.predict(lazily(a, 30)).compute(), known.predict(a)) < 1e-8
    assert found.mesh_ is mesh


def test_bad_parts_are_named():
    bad = K.copy()
    bad[123, 4] = np.nan
    with pytest.raises(ValueError, match=r"X\['k'\] contains NaN or infinity.*(sample |\()123"):
        PCARaNN(**OPTIONS).fit(lazy(INPUTS | {"k": bad}), lazy(OUTPUTS))
    with pytest.raises(ValueError, match=r"y\['T'\] contains NaN or infinity: 1 value\(s\) in \d+ of \d+ samples \(7"):
        PCARaNN(**OPTIONS).fit(lazy(INPUTS), lazy(OUTPUTS | {"T": np.where(np.arange(N) == 7, np.nan, OUTPUTS["T"])}))
    with pytest.raises(ValueError, match=r"y contains NaN or infinity: 1 value\(s\) in 1 of \d+ samples \(123"):
        PCARaNN(**OPTIONS).fit(lazy(INPUTS), lazily(bad, 50))
    with pytest.raises(ValueError, match="chunks of unknown size"):
        PCARaNN(**OPTIONS).fit({"k": lazily(K, 70)[lazily(ANGLE, 70) > 0.5], "angle": ANGLE}, U)
    unknown = lazily(K, 70)[lazily(ANGLE, 70) > 0.5]
    with pytest.raises(ValueError, match="y has chunks of unknown size"):
        PCARaNN(**OPTIONS).fit(INPUTS, unknown)
    with pytest.raises(ValueError, match=r"X\['k'\] has chunks of unknown size"):
        PCARaNN(**OPTIONS).fit(INPUTS, U).predict(INPUTS | {"k": unknown})
    with pytest.raises(ValueError, match="samples"):
        PCARaNN(**OPTIONS).fit({"k": lazily(K, 70), "angle": ANGLE[:-1]}, U)
