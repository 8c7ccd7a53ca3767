import json
import os
import shutil

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN, load
from pcarann.cli import main
from pcarann.problems import read
from pcarann.scale import limited, writing
from pcarann.scale.engine import Reading, over_blocks
from pcarann.scale.writing import write_predictions

zarr = pytest.importorskip("zarr")
A, U = fields(300)
MODEL = PCARaNN(**OPTIONS).fit(A[:150], U[:150])


def test_predictions_are_written_by_blocks_and_gone_on_with(tmp_path):
    model, path = PCARaNN(**OPTIONS).fit(A[:150], U[:150]), tmp_path / "out.zarr"
    with limited("4MB"):
        found = write_predictions(model, lazily(A, 20), path, {"model": "this"}, how={"std": True})
        assert found["blocks"] > 2
        assert found["resumed"] == 0
        store = zarr.open_group(path, mode="r+")
        store["done"][1] = 0
        store["mean"][:] = 0.0
    with limited("9MB"):  # blocks would be others now, but those of the store are gone on with
        again = write_predictions(model, lazily(A, 20), path, {"model": "this"}, how={"std": True})
    assert again == {"blocks": found["blocks"], "resumed": found["blocks"] - 1}
    length = store["mean"].chunks[0]
    mean = store["mean"][:]
    assert apart(mean[length : 2 * length], model.predict(A[length : 2 * length])) < 1e-10
    assert not mean[:length].any()
    assert apart(store["std"][:], model.predict(A, return_std=True)[1]) < 1e-9
    for other, said in (
        ({"model": "other", "files": "x"}, "with other model"),
        ({"files": "x", "model": "this"}, "changed since"),
    ):
        with pytest.raises(ValueError, match=rf"out.zarr holds predictions .*{said}: remove it, or give another path"):
            write_predictions(model, lazily(A, 20), path, other, how={"std": True})


def test_a_folder_of_the_users_beside_a_store_stays(tmp_path):
    (tmp_path / "out.zarr.part").mkdir()
    (tmp_path / "out.zarr.part" / "thesis.txt").write_text("years")
    write_predictions(MODEL, lazily(A[:40], 20), tmp_path / "out.zarr", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zarr", "out.zarr.part"]
    assert (tmp_path / "out.zarr.part" / "thesis.txt").read_text() == "years"


def test_a_store_that_another_makes_meanwhile_stays_and_is_said(tmp_path, monkeypatch):
    def late(aside, path):
        (tmp_path / "out.zarr").mkdir()
        (tmp_path / "out.zarr" / "theirs").touch()
        return rename(aside, path)

    rename = os.rename
    monkeypatch.setattr(writing.os, "rename", late)
    with pytest.raises(ValueError, match=r"out.zarr was made by another meanwhile"):
        write_predictions(MODEL, lazily(A[:40], 20), tmp_path / "out.zarr", {})
    assert [path.name for path in tmp_path.rglob("*")] == ["out.zarr", "theirs"]


def _without(name):
    return lambda path: shutil.rmtree(path / name)


def _attribute(value):
    return lambda path: zarr.open_group(path, mode="r+").attrs.update(pcarann=value)


ODD = {
    "no marks": _without("done"),
    "no array": _without("mean"),
    "no length": _attribute({"block": None}),
    "no words": _attribute(7),
    "file": lambda path: (shutil.rmtree(path), path.write_text("a file")),
    "link": lambda path: (shutil.rmtree(path), path.symlink_to(path.parent / "nowhere")),
    "empty": lambda path: (shutil.rmtree(path), path.mkdir()),
}


@pytest.mark.parametrize("spoil", ODD.values(), ids=ODD)
def test_what_is_no_store_of_predictions_is_refused_in_one_sentence(tmp_path, spoil):
    path = tmp_path / "out.zarr"
    write_predictions(MODEL, lazily(A[:40], 20), path, {})
    spoil(path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"out.zarr is no zarr store of predictions: give another path\.$"):
        write_predictions(MODEL, lazily(A[:40], 20), path, {})
    assert sorted(tmp_path.rglob("*")) == before


def test_names_that_a_store_cannot_show_are_refused_before_anything_is_written(tmp_path):
    model = PCARaNN(**OPTIONS).fit(A, {"flux/x": U, "T": U})
    with pytest.raises(ValueError, match=r"zarr store cannot be called 'flux/x.mean'"):
        write_predictions(model, lazily(A, 20), tmp_path / "out.zarr", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("labelled", [False, True])
def test_a_store_is_opened_by_xarray_and_read_again(tmp_path, labelled):
    xarray, path = pytest.importorskip("xarray"), tmp_path / "out.zarr"
    x, y = A, U
    if labelled:
        x, y = (xarray.DataArray(one, dims=("run", "block", name)) for one, name in ((A, "j"), (U, "p")))
    model = PCARaNN(**OPTIONS).fit(x[:150], y[:150])
    write_predictions(model, x.chunk({"run": 70}) if labelled else lazily(A, 70), path, {})
    known = np.asarray(model.predict(x))
    with xarray.open_zarr(path, consolidated=False) as found:
        assert found["mean"].dims == (("run", "block", "p") if labelled else ("sample", "axis_1", "axis_2"))
        assert apart(found["mean"].values, known) < 1e-10
        assert found["done"].values.all()
    assert apart(read(path, "mean", None)[0], known) < 1e-10


@pytest.mark.parametrize(("chunks", "alone"), [(20, True), ((14, *[13] * 22), False)])
def test_blocks_are_read_by_the_tasks_that_predict_them_unless_they_share_chunks(tmp_path, monkeypatch, chunks, alone):
    model, seen, path = PCARaNN(**OPTIONS).fit(A[:150], U[:150]), [], tmp_path / "a.zarr"
    lazily(A, 10).to_zarr(str(path))
    array = da.from_zarr(str(path)).rechunk({0: chunks})
    monkeypatch.setattr(
        writing, "over_blocks", lambda task, blocks, *more: seen.extend(blocks) or over_blocks(task, blocks, *more)
    )
    with limited("4MB"):
        write_predictions(model, array, tmp_path / "out.zarr", {})
    assert len(seen) > 2
    assert {isinstance(block, Reading) for block in seen} == {alone}
    assert np.allclose(zarr.open_group(tmp_path / "out.zarr", mode="r")["mean"][:], model.predict(A), rtol=1e-10)


@pytest.mark.parametrize("ending", [".zarr", ".npy"])
def test_a_store_is_not_gone_on_with_after_the_data_have_changed(tmp_path, ending):
    data, model, out = tmp_path / f"data{ending}", tmp_path / "model.pcarann", tmp_path / "out.zarr"
    PCARaNN(**OPTIONS).fit(A[:150], U[:150]).save(model)
    if ending == ".npy":
        np.save(data, A)
    else:
        group = zarr.open_group(data, mode="w")
        group.create_array("inputs", shape=A.shape, chunks=(30, 18, 20), dtype="float64")[:] = A
    command = ["predict", str(model), str(data), "-o", str(out), "--memory", "40MB"]
    assert CliRunner().invoke(main, command).exit_code == 0
    if ending == ".zarr":  # what is not read may change
        group.create_array("outputs", shape=U.shape, chunks=(30, 9, 20), dtype="float64")[:] = U
    assert CliRunner().invoke(main, command).exit_code == 0
    if ending == ".npy":
        np.save(data, -A)
    else:
        group["inputs"][70] = 0.0
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 1
    assert f"{out} holds predictions of data that have changed since: remove it, or" in " ".join(found.output.split())


def test_data_that_change_while_they_are_read_are_said(tmp_path, monkeypatch):
    data, model, out = tmp_path / "data.npy", tmp_path / "model.pcarann", tmp_path / "out.zarr"
    PCARaNN(**OPTIONS).fit(A[:150], U[:150]).save(model)
    np.save(data, A)
    monkeypatch.setattr(writing, "over_blocks", lambda *_: np.save(data, -A))
    found = CliRunner().invoke(main, ["predict", str(model), str(data), "-o", str(out)])
    assert found.exit_code == 1
    assert f"{data} has changed while it was read: remove {out}" in " ".join(found.output.split())


def test_the_command_line_fits_and_predicts_by_blocks(tmp_path):
    data, model, out = tmp_path / "data.zarr", tmp_path / "model.pcarann", tmp_path / "out.zarr"
    group = zarr.open_group(data, mode="w")
    for name, array in (("inputs", A), ("outputs", U)):
        group.create_array(name, shape=array.shape, chunks=(30, *array.shape[1:]), dtype="float64")[:] = array
    options = ["--components", "12,14", "--widths", "40,30", "--members", "2", "--ridge", "1e-8"]
    runner = CliRunner()
    for command in (
        ["fit", str(data), "-o", str(model), "--memory", "40MB", *options],
        ["predict", str(model), str(data), "-o", str(out), "--memory", "40MB", "--json"],
    ):
        found = runner.invoke(main, command)
        assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["resumed"] == 0
    known = PCARaNN(**OPTIONS | {"scales": "refined"}).fit(A, U).predict(A)
    assert apart(zarr.open_group(out, mode="r")["mean"][:], known) < 1e-8
    assert apart(load(model).predict(A), known) < 1e-8
