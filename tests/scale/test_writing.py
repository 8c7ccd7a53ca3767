import json

import numpy as np
import pytest
from click.testing import CliRunner
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN, load
from pcarann.cli import main
from pcarann.scale import limited
from pcarann.scale.writing import write_predictions

zarr = pytest.importorskip("zarr")
A, U = fields(300)


def test_predictions_are_written_by_blocks_and_gone_on_with(tmp_path):
    model, path = PCARaNN(**OPTIONS).fit(A[:150], U[:150]), tmp_path / "out.zarr"
    with limited("4MB"):
        found = write_predictions(model, lazily(A, 20), path, "this", how={"std": True})
        assert found["blocks"] > 2
        assert found["resumed"] == 0
        store = zarr.open_group(path, mode="r+")
        store["done"][1] = 0
        store["mean"][:] = 0.0
    with limited("9MB"):  # blocks would be others now, but those of the store are gone on with
        again = write_predictions(model, lazily(A, 20), path, "this", how={"std": True})
    assert again == {"blocks": found["blocks"], "resumed": found["blocks"] - 1}
    length = store["mean"].chunks[0]
    mean = store["mean"][:]
    assert apart(mean[length : 2 * length], model.predict(A[length : 2 * length])) < 1e-10
    assert not mean[:length].any()
    assert apart(store["std"][:], model.predict(A, return_std=True)[1]) < 1e-9
    with pytest.raises(ValueError, match="something else"):
        write_predictions(model, lazily(A, 20), path, "other", how={"std": True})


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
    refused = runner.invoke(main, ["fit", str(data), "-o", str(model), "--scheduler", "tcp://127.0.0.1:1", *options])
    assert refused.exit_code == 1
    assert "no Dask scheduler at tcp://127.0.0.1:1" in refused.output
    assert np.isfinite(known).all()
