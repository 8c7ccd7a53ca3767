"""Workers that are killed in each stage cost nothing but their tasks."""

from copy import deepcopy

import numpy as np
import pytest
from killing import killed_in
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN
from pcarann.scale import limited, reading
from pcarann.scale.writing import write_predictions

SMALL = dict(n_components=(8, 8), widths=(40, 30), n_members=2)
MANY = tuple(one[:, :6, :5] for one in fields(5000))
FEW = fields(60, decay=-0.6)
A, U = fields(300)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"ridge": 1e-9, "scales": "energy"}, ["tall_look", "tall_stage", "member_normal", "member_missed"]),
        ({"ridge": 0.0, "scales": (0.05, 0.05)}, ["member_triangle"]),
    ],
)
def test_a_fit_by_samples_and_its_members_survive(cluster, tmp_path, options, tasks):
    a, u = MANY
    known = PCARaNN(**SMALL, **options).fit(a, u)
    with limited("2MB"), killed_in(cluster, tasks, tmp_path / "killed"):
        model = PCARaNN(**SMALL, **options).fit(lazily(a, 1000), lazily(u, 1000))
    assert min(side.blocks for side in model.scale_report_.sides) > 1
    assert apart(model.predict(a[:200]), known.predict(a[:200])) < 1e-8


def test_a_fit_by_values_with_deep_modes_survives(cluster, tmp_path):
    a, u = FEW[0], FEW[1][:, 0, 0]
    known = PCARaNN(**OPTIONS | {"n_components": (14, 1)}).fit(a, u)
    with limited("200kB"), killed_in(cluster, ["wide_look", "wide_stage", "wide_encode"], tmp_path / "killed"):
        model = PCARaNN(**OPTIONS | {"n_components": (14, 1)}).fit(lazily(a, 60, 3), u)
    assert model.scale_report_.sides[0].blocks > 4
    assert model.scale_report_.sides[0].method == "Gram matrix in stages"
    assert apart(model.predict(a), known.predict(a)) < 1e-8


def test_modes_by_iteration_survive(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_SHORT", 10)
    a, u = A[:60], U[:60, :2]
    with limited("200kB"):
        known = PCARaNN(**OPTIONS).fit(lazily(a, 60, 1), lazily(u, 10))
        with killed_in(cluster, ["wide_iterate", "tall_iterate"], tmp_path / "killed"):
            model = PCARaNN(**OPTIONS).fit(lazily(a, 60, 1), lazily(u, 10))
    assert {side.method for side in model.scale_report_.sides} == {"subspace iteration"}
    assert apart(model.predict(a), known.predict(a)) < 1e-9


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**OPTIONS).fit(A[:160], U[:160])


def test_a_calibration_survives(cluster, tmp_path, model):
    known, lazy = deepcopy(model).calibrate(A[160:], U[160:]), deepcopy(model)
    with limited("2MB"), killed_in(cluster, ["_scored_block"], tmp_path / "killed"):
        lazy.calibrate(lazily(A[160:], 20), lazily(U[160:], 20))
    assert apart(lazy.predict_interval(A[:5]).upper, known.predict_interval(A[:5]).upper) < 1e-9


def test_a_store_of_predictions_is_whole(cluster, tmp_path, model):
    zarr = pytest.importorskip("zarr")
    with limited("2MB"), killed_in(cluster, ["_written"], tmp_path / "killed"):
        found = write_predictions(model, lazily(A, 20), tmp_path / "out.zarr", {}, how={"std": True})
    store = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert store["done"][:].all()
    assert found["blocks"] == store["done"].shape[0] > 2
    for name, known in zip(("mean", "std"), model.predict(A, return_std=True), strict=True):
        assert apart(store[name][:], known) < 1e-10
    assert np.isfinite(store["mean"][:]).all()
