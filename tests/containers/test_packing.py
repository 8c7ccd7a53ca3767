import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pcarann
from pcarann import Fields, Marching, Mesh, PCARaNN, Staged, Symmetry, load
from pcarann.containers.packing import packed
from pcarann.metrics import relative_l2

RNG = np.random.default_rng(0)
N, P = 150, 32
x = np.linspace(0, 1, P)
FIELD = sum(RNG.standard_normal((N, 1)) * np.cos(np.pi * k * x) / (1 + k) for k in range(5))
ANGLE, HEAT = RNG.uniform(0, 90, N), RNG.uniform(300, 400, N)
U = np.tanh(FIELD) * np.cos(np.deg2rad(ANGLE))[:, None] + (HEAT[:, None] - 350) / 50 * x**2
V = 1e5 * (1 + ANGLE / 90)[:, None] * np.arange(1.0, 6)
INPUTS, OUTPUTS = {"field": FIELD, "angle": ANGLE, "heat": HEAT}, {"u": U, "v": V}
SMALL = {"n_components": (0.99999, 0.99999), "regressor": "kernel", "n_members": 3}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*outside the training data"),
    pytest.mark.filterwarnings(
        "ignore:n_components=.* is more than there are"
    ),  # where auto leaves a model as it comes
]


def rows(things, start, stop):
    return {name: part[start:stop] for name, part in things.items()}


TRAIN, TEST = (rows(INPUTS, 0, 100), rows(OUTPUTS, 0, 100)), (rows(INPUTS, 130, N), rows(OUTPUTS, 130, N))
CALIBRATION = rows(INPUTS, 100, 130), rows(OUTPUTS, 100, 130)


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**SMALL).fit(*TRAIN).calibrate(*CALIBRATION)


def test_plain_arrays_go_by_untouched():
    pair = packed(FIELD, U)
    assert pair.packing is None
    assert pair.X is FIELD
    assert packed(FIELD.tolist(), U).packing is None
    assert packed(pd.DataFrame(FIELD), U).packing is None


def test_parts_in_parts_out(model):
    found, std = model.predict(TEST[0], return_std=True)
    assert {name: part.shape for name, part in found.items()} == {"u": (20, P), "v": (20, 5)}
    assert set(std) == {"u", "v"}
    errors = {name: relative_l2(found[name], TEST[1][name]) for name in found}
    assert errors["u"] < 0.2
    assert errors["v"] < 0.02
    assert model.score(*TEST) > 0.95
    band = model.predict_interval(TEST[0], 0.1)
    for name, truth in TEST[1].items():
        inside = (band.lower[name] <= truth) & (truth <= band.upper[name])
        assert inside.mean() > 0.7
    assert set(model.predict_parts(TEST[0]).members) == {"u", "v"}
    assert len(model.novelty(TEST[0]).p_value) == 20


def test_parts_are_better_than_one_array_side_by_side(model):
    joined = np.concatenate([FIELD, ANGLE[:, None], HEAT[:, None]], axis=1)
    alone = PCARaNN(**SMALL).fit(TRAIN[0], TRAIN[1]["u"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = PCARaNN(**SMALL).fit(joined[:100], U[:100])
        found = relative_l2(other.predict(joined[130:]), U[130:])
    assert relative_l2(alone.predict(TEST[0]), TEST[1]["u"]) < 0.7 * found


def test_what_counts_is_said_by_name():
    noise = RNG.standard_normal((N, 1)) * x + RNG.standard_normal((N, 1)) * x**2
    fitted = PCARaNN(**SMALL).fit({**rows(INPUTS, 0, 100), "noise": noise[:100]}, U[:100])
    parts = fitted.sensitivity_.parts
    assert min(parts, key=parts.get) == "noise"
    assert parts["noise"] < 0.01
    assert "noise" in str(fitted.sensitivity_)


def test_a_number_outside_its_range_is_named_in_its_unit(model):
    with pytest.warns(UserWarning, match=r"angle is 500(\.0)?, training range"):
        model.predict({**TEST[0], "angle": np.full(20, 500.0)})
    with pytest.warns(UserWarning, match=r"20 of 20 samples of X\['field'\] are unlike those of the training"):
        model.predict({**TEST[0], "field": TEST[0]["field"] + np.sin(60 * x)})


def test_partial_fit_and_refit_take_parts(model):
    again = PCARaNN(**SMALL).fit(*TRAIN)
    again.partial_fit(*CALIBRATION)
    again.refit_readout(*CALIBRATION)
    assert set(again.predict(TEST[0])) == {"u", "v"}


def test_a_file_holds_parts_labels_and_holes(model, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for name, part in model.predict(TEST[0]).items():
        assert np.array_equal(again.predict(TEST[0])[name], part)
    given = xr.Dataset(
        {"f": (("run", "x"), FIELD), "a": (("run",), ANGLE)}, coords={"x": x**2, "kind": ("x", ["s"] * P)}
    )
    truth = xr.DataArray(U, dims=("run", "x"), coords={"x": x**2}, name="u", attrs={"units": "m"}).where(x != x[7])
    labelled = PCARaNN(**SMALL).fit(given[{"run": slice(100)}], truth[:100])
    labelled.save(tmp_path / "labelled")
    xr.testing.assert_identical(load(tmp_path / "labelled").predict(given), labelled.predict(given))
    assert np.isnan(labelled.predict(given).values[:, 7]).all()


def test_labels_survive(model):
    given = xr.DataArray(FIELD, dims=("run", "x"), coords={"x": x, "run": np.arange(N)})
    truth = xr.DataArray(U, dims=("run", "x"), coords={"x": x}, name="u", attrs={"units": "m"})
    fitted = PCARaNN(**SMALL).fit(given[:100], truth[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.calibrate(given[100:130], truth[100:130])
    found = fitted.predict(given[130:].T)
    assert (found.name, found.dims, found.attrs) == ("u", ("run", "x"), {"units": "m"})
    assert found.run.values.tolist() == list(range(130, N))
    assert isinstance(fitted.predict(FIELD[130:]), np.ndarray)
    assert np.array_equal(fitted.predict(FIELD[130:]), found.values)
    band = fitted.predict_interval(given[130:])
    assert list(band.data_vars) == ["mean", "std", "lower", "upper"]
    assert band["lower"].attrs == {"units": "m"}
    both = PCARaNN(**SMALL).fit(given[:100], xr.Dataset({"u": truth[:100], "w": truth[:100] * 2}))
    assert list(both.predict(given).data_vars) == ["u", "w"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both.calibrate(given[100:], xr.Dataset({"u": truth[100:], "w": truth[100:] * 2}))
    bands = both.predict_interval(given[:100])
    assert list(bands["w"].data_vars) == ["mean", "std", "lower", "upper"]


def test_the_same_numbers_in_every_container():
    table = pd.DataFrame({"angle": ANGLE, "heat": HEAT})
    mapping = PCARaNN(**SMALL).fit(rows({"f": FIELD, "p": np.stack([ANGLE, HEAT], 1)}, 0, 100), U[:100])
    frame = PCARaNN(**SMALL).fit({"f": FIELD[:100], "p": table[:100]}, U[:100])
    given = xr.Dataset({"f": (("run", "x"), FIELD), "p": (("run", "c"), np.stack([ANGLE, HEAT], 1))})
    dataset = PCARaNN(**SMALL).fit(given[{"run": slice(100)}], U[:100])
    wanted = mapping.predict({"f": FIELD, "p": np.stack([ANGLE, HEAT], 1)})
    assert np.array_equal(frame.predict({"f": FIELD, "p": table}), wanted)
    assert np.array_equal(dataset.predict(given), wanted)


def test_points_without_values_come_back_as_such():
    holed = U.copy()
    holed[:, 5:8] = np.nan
    found = PCARaNN(**SMALL).fit(FIELD[:100], holed[:100]).predict(FIELD[100:])
    whole = PCARaNN(**SMALL).fit(FIELD[:100], np.delete(U, [5, 6, 7], axis=1)[:100]).predict(FIELD[100:])
    assert np.isnan(found[:, 5:8]).all()
    assert np.allclose(np.delete(found, [5, 6, 7], axis=1), whole, rtol=0, atol=1e-9)
    broken = U.copy()
    broken[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"y contains NaN or infinity: 1 value\(s\) in \d+ of \d+ samples \(3"):
        PCARaNN(**SMALL).fit(FIELD, broken)


def test_quadrature_of_a_mesh_makes_modes_those_of_the_domain():
    fine = np.concatenate([np.linspace(0, 0.2, 24, endpoint=False), np.linspace(0.2, 1, 8)])
    mesh = Mesh(fine[:, None], {"line": np.stack([np.arange(31), np.arange(1, 32)], 1)})
    fitted = PCARaNN(**SMALL, fields=Fields(mesh=mesh)).fit(FIELD, U)
    modes, weights = fitted.output_pca_.modes, mesh.weights / mesh.weights.mean()
    assert np.allclose((modes * weights) @ modes.T, np.eye(len(modes)), atol=1e-9)
    assert fitted.mesh_ is mesh
    with pytest.raises(ValueError, match="31"):
        PCARaNN(**SMALL, fields=Fields(mesh=mesh)).fit(FIELD[:, :31], U[:, :31])


def test_stages_take_parts(tmp_path):
    outputs = {"u": U, "w": 1e4 * U**2}
    for start in (None, PCARaNN(**SMALL)):
        stages = Staged(start, n_features=20, n_members=2, n_stages=2).fit(rows(INPUTS, 0, 100), rows(outputs, 0, 100))
        found = stages.predict(TEST[0])
        assert relative_l2(found["u"], U[130:]) < 0.5
        stages.save(tmp_path / "stages")
        again = load(tmp_path / "stages").predict(TEST[0])
        assert all(np.array_equal(again[name], part) for name, part in found.items())
        assert len(stages.after_each(TEST[0])) == len(stages.stages_.steps) + 1


def test_auto_takes_parts():
    found = pcarann.auto(*TRAIN, budget=2)
    assert relative_l2(found.predict(TEST[0])["u"], TEST[1]["u"]) < 0.25
    other = PCARaNN.auto(*TRAIN, budget=1)
    assert set(other.predict(TEST[0])) == {"u", "v"}


def test_what_does_not_go_with_parts_is_refused():
    with pytest.raises(ValueError, match="symmetry belongs to one input field"):
        PCARaNN(symmetry=Symmetry.reflection(-1)).fit(*TRAIN)
    with pytest.raises(ValueError, match=r"fields\.smoothing belongs to one input field"):
        PCARaNN(fields=Fields(smoothing=0.1)).fit(*TRAIN)
    with pytest.raises(ValueError, match="X and y must have the same number of samples, found 100 and 30"):
        PCARaNN().fit(TRAIN[0], CALIBRATION[1])
    with pytest.raises(ValueError, match="trajectories are one array"):
        Marching(PCARaNN()).fit({"a": U[:, None]}, U[:, None])


def test_numbers_beside_a_field_get_a_hint():
    wide = np.linspace(0, 1, 100)
    field = sum(RNG.standard_normal((60, 1)) * np.cos(np.pi * k * wide) / (1 + k) for k in range(5))
    joined = np.concatenate([field, RNG.standard_normal((60, 2))], axis=1)
    with pytest.warns(
        UserWarning, match="The last 2 of the 102 columns of X have nothing to do with those beside them"
    ):
        PCARaNN(3, n_members=1).fit(joined, field)


def test_torch_arrays_give_torch_arrays():
    torch = pytest.importorskip("torch")
    given = {name: torch.as_tensor(part) for name, part in TRAIN[0].items()}
    fitted = PCARaNN(**SMALL).fit(given, {name: torch.as_tensor(part) for name, part in TRAIN[1].items()})
    found = fitted.predict({name: torch.as_tensor(part) for name, part in TEST[0].items()})
    assert isinstance(found["u"], torch.Tensor)
    wanted = PCARaNN(**SMALL).fit(*TRAIN).predict(TEST[0])
    assert np.allclose(found["u"].numpy(), wanted["u"], rtol=0, atol=1e-6)


def test_a_graded_mesh_and_a_uniform_one_give_the_same_errors_of_the_domain():
    weights = RNG.standard_normal((200, 4, 4)) / (1 + np.arange(4)[:, None] + np.arange(4))

    def errors(line, quadrature):
        points = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
        corners = np.arange(16 * 16).reshape(16, 16)
        cells = np.stack([corners[:-1, :-1], corners[1:, :-1], corners[1:, 1:], corners[:-1, 1:]], -1).reshape(-1, 4)
        mesh = Mesh(points, cells)
        waves = [np.cos(np.pi * np.outer(np.arange(4), part)) for part in points.T]
        a = np.einsum("nij,ip,jp->np", weights, *waves)
        u = np.tanh(2 * a) + np.sin(3 * points[:, 0]) * a
        fields = Fields(mesh=mesh) if quadrature else None
        found = PCARaNN(6, regressor="kernel", n_members=1, fields=fields).fit(a[:150], u[:150]).predict(a[150:])
        size = np.sqrt(((u[150:] ** 2) * mesh.weights).sum(axis=1))
        return np.mean(np.sqrt(((found - u[150:]) ** 2 * mesh.weights).sum(axis=1)) / size)

    even, graded = np.linspace(0, 1, 16), np.linspace(0, 1, 16) ** 2.5
    assert errors(graded, True) == pytest.approx(errors(even, True), rel=0.05)
    assert errors(graded, False) > 1.07 * errors(even, False)


def test_a_number_beside_a_large_field_does_not_drown():
    wide = np.linspace(0, 1, 2000)
    field = sum(RNG.standard_normal((150, 1)) * np.cos(np.pi * k * wide) for k in range(20))
    number = RNG.uniform(-1, 1, 150)
    fitted = PCARaNN(0.9999, regressor="kernel", n_members=1).fit(
        {"f": field[:100], "p": number[:100]}, {"u": field[:100], "q": np.sin(2 * number[:100])}
    )
    found = fitted.predict({"f": field[100:], "p": number[100:]})["q"]
    assert np.linalg.norm(found - np.sin(2 * number[100:])) < 0.1 * np.linalg.norm(np.sin(2 * number[100:]))


def test_columns_that_go_together_keep_their_units():
    z = RNG.standard_normal((150, 2))
    table = np.stack([1e6 * (1 + 0.1 * z[:, 0]), 0.8 * z[:, 0] + 0.6 * z[:, 1]], axis=1)
    truth = np.stack([np.sin(table[:, 1]), np.cos(table[:, 1])], axis=1)
    fitted = PCARaNN(regressor="kernel", n_members=1).fit({"p": table[:100], "k": HEAT[:100]}, truth[:100])
    assert relative_l2(fitted.predict({"p": table[100:], "k": HEAT[100:]}), truth[100:]) < 0.05


def test_components_are_no_space():
    a = RNG.standard_normal((60, 3, 1)) * np.cos(np.linspace(0, 3, 32)) + RNG.standard_normal((60, 3, 1))
    u = np.stack([a[:, 1], a[:, 1] ** 2], axis=1)
    given = {"a": a, "p": ANGLE[:60]}
    stages = Staged(n_features=20, n_members=1, n_stages=2).fit(rows(given, 0, 50), {"u": u[:50]})
    assert relative_l2(stages.predict(rows(given, 50, 60))["u"], u[50:]) < 0.1


def test_labels_that_clash_are_refused():
    coords = {"x": x, "run": np.arange(N)}
    given = xr.DataArray(FIELD, dims=("run", "x"), coords=coords)
    truth = given.copy(data=U)
    fit = PCARaNN(**SMALL).fit
    for outputs, said in [
        ({"u": truth, "w": truth.assign_coords(x=2 * x)}, "Outputs have different coordinates along 'x'"),
        ({"u": truth, "x": xr.DataArray(V, dims=("run", "c"))}, "The output 'x' is called as a dimension"),
        (truth[::-1], "The samples of y have other coordinates"),
    ]:
        with pytest.raises(ValueError, match=said):
            fit(given, outputs)
    fitted = fit(given, truth)
    for call in (fitted.calibrate, fitted.partial_fit, fitted.score):
        with pytest.raises(ValueError, match="The samples of y have other coordinates"):
            call(given, truth[::-1])
    square = xr.DataArray(RNG.standard_normal((40, 9, 9)), dims=("run", "a", "b"), coords={"a": np.arange(9.0)})
    stages = Staged(n_features=5, n_members=1, n_stages=1)
    with pytest.raises(ValueError, match="Stages need dimensions in one order"):
        stages.fit(square.transpose("run", "b", "a"), square)
    with pytest.raises(ValueError, match="Coordinates along 'a' rise on one side and fall on the other"):
        stages.fit(square[:, ::-1], square)


def test_what_is_no_array_is_refused_by_name():
    plain = PCARaNN(**SMALL).fit(FIELD, U)
    with pytest.raises(ValueError, match="X must be one array, as in fit, found dict"):
        plain.predict({"k": FIELD})
    with pytest.raises(ValueError, match="y must be one array, as in fit, found dict"):
        plain.score(FIELD, {"u": U})
    with pytest.raises(ValueError, match=r"X\['q'\] must be an array, a labelled array or a table, found NoneType"):
        PCARaNN(**SMALL).fit({"k": FIELD, "q": None}, U)
    with pytest.raises(ValueError, match=r"X\['q'\] must hold real numbers"):
        PCARaNN(**SMALL).fit({"k": FIELD, "q": pd.DataFrame({"s": ["a"] * N})}, U)
    with pytest.raises(ValueError, match=r"X\['q'\] is a masked array"):
        PCARaNN(**SMALL).fit({"k": FIELD, "q": np.ma.masked_less(FIELD, 0)}, U)


def test_outputs_that_are_not_finite_are_said_before_inputs_are_coded_by_them():
    bad = U.copy()
    bad[77, 3] = np.nan
    with pytest.raises(ValueError, match=r"y contains NaN or infinity: 1 value\(s\) in \d+ of \d+ samples \(77"):
        PCARaNN(**SMALL).fit(INPUTS, bad)


def test_a_model_of_auto_can_be_fitted_again():
    from sklearn.base import clone

    found = PCARaNN.auto(*TRAIN, budget=3)
    again = clone(found).fit(rows(INPUTS, 0, 60), rows(OUTPUTS, 0, 60))
    assert set(again.predict(TEST[0])) == {"u", "v"}


def test_a_report_speaks_of_each_output():
    noise = RNG.standard_normal((N, 3))
    with pytest.warns(UserWarning, match="^w: no better than the mean field, although other outputs are"):
        fitted = PCARaNN(**SMALL).fit(INPUTS, {"v": V, "w": noise})
    parts = fitted.fit_report_.parts
    assert parts["v"][1] > 0.9 > 0.05 > parts["w"][1]
    assert "(v " in str(fitted.fit_report_)
    assert PCARaNN(**SMALL).fit(FIELD, U).fit_report_.parts is None


def test_intervals_hold_for_a_number_beside_a_field(tmp_path):
    rng = np.random.default_rng(5)
    wide, count = np.linspace(0, 1, 400), 400
    field = sum(rng.standard_normal((count, 1)) * np.cos(np.pi * k * wide) / (1 + k) for k in range(6))
    number = rng.uniform(-1, 1, count)
    given = {"f": field, "p": number}
    truth = {"u": np.tanh(field), "q": np.sin(3 * number) + 0.3 * rng.standard_normal(count)}
    model = PCARaNN(**SMALL).fit(rows(given, 0, 150), rows(truth, 0, 150))
    model.calibrate(rows(given, 150, 250), rows(truth, 150, 250))
    band = model.predict_interval(rows(given, 250, 400), 0.1)
    for name in ("u", "q"):
        inside = (band.lower[name] <= truth[name][250:]) & (truth[name][250:] <= band.upper[name])
        assert 0.8 < inside.mean() <= 1
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").predict_interval(rows(given, 250, 400), 0.1)
    assert np.array_equal(again.upper["q"], band.upper["q"])
