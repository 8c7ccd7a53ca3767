"""Derivatives of every option: forward and back are adjoint, and both are what differences come to."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.exceptions import NotFittedError

from conftest import periodic_pairs, smooth_pairs, table
from differences import check, flat, like
from meshes import triangles
from pcarann import Fields, Kernel, PCARaNN, Symmetry, load

SMALL = {"n_components": (5, 6), "widths": (30, 20), "n_members": 2, "scales": ("gain", 1.0, 1.0), "ridge": 1e-8}
N, P = 60, 12
RNG = np.random.default_rng(3)
LINE = np.linspace(0, 1, P)
FIELD = RNG.normal(size=(N, 4)) @ np.cos(np.outer(np.arange(4), np.pi * LINE))
NUMBER, TABLE = RNG.uniform(300, 400, N), RNG.uniform(-1, 1, (N, 3)) * [1.0, 1e3, 1e-3]
HOLES = np.zeros(P, dtype=bool)
HOLES[4:6] = True


def fitted(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small models are no good
        return PCARaNN(**SMALL | options).fit(X, y)


def on_fields(rows=3, **options):
    data = smooth_pairs(N, seed=2, points=P)
    return fitted(data.inputs, data.outputs, **options), data.inputs[:rows]


def in_channels(**options):
    a = np.stack([FIELD, 10 * FIELD[::-1] ** 2], axis=1)
    return fitted(a, np.tanh(a[:, 0]) + 0.01 * a[:, 1], fields=Fields(channels=True), **options), a[:3]


def of_planes(**options):
    a = np.einsum("ni,ij,ik->njk", RNG.normal(size=(N, 3)), *(np.cos(np.outer(range(3), np.pi * LINE[:6])),) * 2)
    return fitted(a, np.tanh(a), **options), a[:3]


def on_a_circle(symmetry, closed=False, **options):
    data = periodic_pairs(N, points=8)
    if closed:
        a, u = (np.concatenate([one, one[..., :1]], axis=-1) for one in (data.inputs, data.outputs))
        return fitted(a, u, symmetry=symmetry, **options), a[:3]
    return fitted(data.inputs, data.outputs, symmetry=symmetry, **options), data.inputs[:3]


def of_parts(holes=False, **options):
    k = np.where(HOLES, np.nan, FIELD) if holes else FIELD
    parts = {"k": k, "heat": NUMBER, "load": TABLE}
    u = np.tanh(FIELD) * NUMBER[:, None] + TABLE[:, :1]
    outputs = {"u": np.where(HOLES, np.nan, u) if holes else u, "lift": 1e5 * TABLE[:, 0] * FIELD[:, 0]}
    return fitted(parts, outputs, **options), {name: part[:3] for name, part in parts.items()}


def with_labels(**options):
    uneven = LINE**2
    a = xr.DataArray(FIELD, dims=("sample", "x"), coords={"x": uneven, "sample": np.arange(N)}, name="a")
    u = xr.DataArray(np.tanh(FIELD)[:, None, :] * [[1.0], [2.0]], dims=("sample", "c", "x"), coords={"x": uneven})
    return fitted(a, u, **options), a[:3]


def on_a_mesh(elsewhere=False):
    mesh = triangles(5)
    a = RNG.normal(size=(N, 3)) @ np.cos(np.outer(range(3), mesh.points[:, 0] + mesh.points[:, 1]))
    model = fitted(a, {"u": np.tanh(a), "top": a.max(axis=1)}, fields=Fields(mesh=mesh))
    return model.on(np.array([[0.3, 0.4], [0.5, 0.1]])) if elsewhere else model, a[:3]


def elsewhere(target, inputs=None, **options):
    model, X = on_fields(**options)
    given = X if inputs is None else np.stack([np.interp(np.linspace(0, 1, inputs), LINE, one) for one in X])
    return model.on(target, inputs=inputs and (inputs,)), given


def of_size(inputs, outputs):
    data = smooth_pairs(N, seed=2, points=P)
    return fitted(inputs * data.inputs, outputs * data.outputs), inputs * data.inputs[:3]


def of_a_table(frame=False, **options):
    p, u = table(N)
    p = p * [1.0, 100.0, 0.01]
    p = pd.DataFrame(p, columns=["a", "b", "c"]) if frame else p
    return fitted(p, u, **options), p[:3]


def adapted():
    model, X = on_fields()
    data = smooth_pairs(N, seed=2, points=P)
    return model.partial_fit(data.inputs[:10], data.outputs[:10]), X


def one_number_out():
    data = smooth_pairs(N, seed=2, points=P)
    return fitted(data.inputs, data.outputs[:, 0, 0]), data.inputs[:3]


SHIFTS, CLOSED = Symmetry.shifts(-1), Symmetry.shifts(-1, closed=True)
MODELS = {
    "random layers": on_fields,
    "one sample": lambda: on_fields(rows=1),
    "kernel": lambda: on_fields(regressor="kernel"),
    "kernel, short": lambda: on_fields(regressor=Kernel(length=0.2), ridge=1e-3),
    "kernel, long": lambda: on_fields(regressor=Kernel(length=30.0), ridge=1e-10),
    "kernel of a table": lambda: of_a_table(regressor="kernel", linear=True),
    "linear term": lambda: on_fields(linear=True),
    "linear term of a kernel": lambda: on_fields(linear=True, regressor="kernel"),
    "relevance by a power": lambda: on_fields(relevance=0.5, regressor="kernel"),
    "relevance learned": lambda: on_fields(relevance="learned"),
    "relevance learned, kernel": lambda: on_fields(relevance="learned", regressor="kernel"),
    "relevance of channels": lambda: in_channels(relevance="channels"),
    "relevance as a metric": lambda: on_fields(relevance=np.triu(np.ones((5, 5)))),
    "smoothing of a line": lambda: on_fields(fields=Fields(smoothing=0.1)),
    "smoothing of a plane": lambda: of_planes(fields=Fields(smoothing=0.2)),
    "quadrature": lambda: on_fields(fields=Fields(quadrature=(1 + LINE, np.ones((2, P)) * (2 - LINE)))),
    "table": of_a_table,
    "data frame": lambda: of_a_table(frame=True),
    "shifts": lambda: on_a_circle(SHIFTS),
    "some of the shifts": lambda: on_a_circle(SHIFTS.using(fit=2, predict=3)),
    "shifts of a closed grid": lambda: on_a_circle(CLOSED, closed=True),
    "closed and reflected": lambda: on_a_circle(CLOSED * Symmetry.reflection(-1), closed=True),
    "signed reflection": lambda: on_a_circle(Symmetry.reflection(-1, sign=-1)),
    "dihedral": lambda: of_planes(symmetry=Symmetry.dihedral()),
    "named parts": of_parts,
    "named parts, kernel": lambda: of_parts(regressor="kernel", linear=True),
    "holes": lambda: of_parts(holes=True),
    "labels": with_labels,
    "mesh": on_a_mesh,
    "at points of a mesh": lambda: on_a_mesh(elsewhere=True),
    "on another grid": lambda: elsewhere((17,)),
    "from and on another grid": lambda: elsewhere((9,), inputs=19),
    "at points": lambda: elsewhere(np.array([[0.1], [0.55]])),
    "huge": lambda: of_size(1e200, 1e250),
    "tiny": lambda: of_size(1e-200, 1e-180),
    "adapted": adapted,
    "one number out": one_number_out,
}


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*outside the training data"),  # random directions leave them
    pytest.mark.filterwarnings("ignore:.*are unlike those of the training"),
]


@pytest.mark.parametrize("name", MODELS)
def test_forward_and_back_agree_with_each_other_and_with_differences(name):
    model, X = MODELS[name]()
    check(model, X)


@pytest.mark.parametrize("name", ["random layers", "linear term of a kernel", "shifts of a closed grid", "holes"])
def test_every_library_has_the_derivatives_of_numpy(name, backend, monkeypatch):
    (model, X), fit = MODELS[name](), PCARaNN.fit
    expected = check(model, X, differences=False)
    put = partial(like, function=np.asarray, kind=backend)
    monkeypatch.setattr(PCARaNN, "fit", lambda self, X, y: fit(self, put(X), put(y)))
    model = MODELS[name]()[0]
    for found, known in zip(check(model, put(X)), expected, strict=True):
        arrays = found.values() if isinstance(found, dict) else [found]
        assert {type(array) for array in arrays} == {type(backend(0.0))}
        np.testing.assert_allclose(flat(found), flat(known), rtol=1e-6, atol=1e-8 * np.abs(flat(known)).max())


def test_derivatives_come_in_the_form_of_predictions_and_inputs():
    model, X = with_labels()
    pushed, pulled = check(model, X)
    assert (pushed.dims, pulled.dims) == (("sample", "c", "x"), ("sample", "x"))
    xr.testing.assert_equal(pulled.coords["x"], X.coords["x"])
    model, X = of_parts()
    pushed, pulled = check(model, X)
    assert (list(pushed), list(pulled)) == (["u", "lift"], ["k", "heat", "load"])


def test_points_without_values_have_no_part_in_derivatives():
    model, X = of_parts(holes=True)
    pushed, pulled = check(model, X)
    assert np.isnan(pushed["u"][:, HOLES]).all()
    assert np.array_equal(pulled["k"][:, HOLES], np.zeros((3, 2)))


def test_a_derivative_warns_where_a_prediction_does():
    model, X = on_fields()
    with pytest.warns(UserWarning, match="outside the training data"):
        model.vjp(100 * X, model.predict(X))


def test_changes_of_another_shape_are_refused():
    model, X = on_fields()
    with pytest.raises(ValueError, match=r"dX must have the shape of X, \(3, 12\), found \(2, 12\)\."):
        model.jvp(X, X[:2])
    with pytest.raises(ValueError, match=r"dY must have the shape of a prediction, \(3, 2, 12\), found \(3, 12\)\."):
        model.vjp(X, X)
    with pytest.raises(ValueError, match="dX contains NaN"):
        model.jvp(X, X * np.nan)
    named, X = of_parts()
    with pytest.raises(ValueError, match="dX must have the parts k, heat, load, found heat, load missing"):
        named.jvp(X, {"k": X["k"]})
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PCARaNN().vjp(FIELD, FIELD)


@pytest.mark.parametrize("fitted_to_table", [True, False])
def test_changes_of_other_columns_are_refused(fitted_to_table):
    X = pd.DataFrame(TABLE, columns=["a", "b", "c"])
    model = fitted(X if fitted_to_table else TABLE, FIELD)
    dX = X[:3] * 0.1
    np.testing.assert_array_equal(model.jvp(X[:3], dX), model.jvp(X[:3], dX.to_numpy()))
    for here in (X[:3], TABLE[:3]) if fitted_to_table else (X[:3],):
        with pytest.raises(ValueError, match=r"columns of dX should be those of X, .* expected a, b, c, found c, a, b"):
            model.jvp(here, dX[["c", "a", "b"]])


def test_a_loaded_model_has_the_same_derivative(tmp_path):
    model, X = of_parts()
    model.save(tmp_path / "model.pcarann")
    for one, other in zip(check(model, X), check(load(tmp_path / "model.pcarann"), X), strict=True):
        np.testing.assert_allclose(flat(one), flat(other), rtol=1e-9)
