"""The examples of the gallery, in a quick form: each does what its page says, and draws its picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts import example

pytestmark = pytest.mark.filterwarnings("ignore:.* lies? outside the training data")


def drawn(path):
    """Whether a file is a PNG."""
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def sobol():
    pytest.importorskip("SALib", reason="Sobol indices are SALib's")
    return example("sobol")


def test_a_fin_without_source_and_film_conducts_in_a_straight_line(sobol, monkeypatch):
    monkeypatch.setattr(sobol, "SOURCE", 0.0)
    x, u = np.linspace(0, 1, sobol.POINTS), sobol.solve(np.array([[2.0, 0.0, 0.0, 100.0, 3.0]]))[0]
    # k T′ = −b T(1), so that T(1) = T(0) / (1 + b/k)
    assert np.allclose(u, 100 * (1 - x * (1 - 1 / 2.5)), rtol=0, atol=1e-9)


def test_indices_of_the_surrogate_are_those_of_the_solver(sobol, tmp_path):
    found = sobol.main(tmp_path, train=120, base=128, openturns=False)
    errors = {name: np.abs(np.subtract(found[name], found["solver"])).max() for name in ("surrogate", "solver, few")}
    assert errors["surrogate"] < 0.03 < 0.1 < errors["solver, few"]
    assert drawn(tmp_path / "sobol.png")


def test_openturns_and_salib_find_the_same_indices(sobol):
    pytest.importorskip("openturns", reason="one of two libraries of Sobol indices")
    points = sobol.design.sample(sobol.PROBLEM, 1024, calc_second_order=False, seed=0)

    def linear(X):
        return X[:, 2] + 0.1 * X[:, 3]

    variances = np.array([19.0, 5.0]) ** 2 / 12
    first, total = sobol.by_openturns(linear, 1024)
    for found in (first, total, *sobol.by_salib(linear(points))):
        assert found[[2, 3]] == pytest.approx(variances / variances.sum(), abs=0.03)
        assert np.abs(found[[0, 1, 4]]).max() < 0.03


def test_a_ridge_by_cross_validation_pays_with_noise(tmp_path):
    errors = example("noisy").main(tmp_path, train=200, noises=(0.0, 0.3))
    assert errors['ridge="gcv"'][1] < 0.5 * errors["least squares"][1]
    assert errors['ridge="gcv"'][1] < 0.3  # less than the noise
    assert drawn(tmp_path / "noisy.png")


def test_stages_beat_a_latent_model_on_rough_inputs(tmp_path):
    errors = example("rough").main(tmp_path, train=50, points=17, features=12)
    assert errors["stages"] < 0.7 * errors["latent"]
    assert drawn(tmp_path / "rough.png")


def test_exchanged_rods_have_exchanged_solutions():
    rods = example("own_symmetry")
    a, u = rods.sample(3, 0)
    assert np.allclose(rods.solve(a[0, ::-1]), u[0, ::-1], rtol=0, atol=1e-12)
    assert np.array_equal(rods.exchanged(a)[:, 0], a[:, 1])


def test_rods_of_the_same_conductivity_have_parabolas():
    rods = example("own_symmetry")
    x = np.linspace(0, 1, rods.POINTS)
    assert np.allclose(rods.solve(np.zeros((2, rods.POINTS))), x * (1 - x) / 2, rtol=0, atol=1e-12)


def test_a_symmetry_of_ones_own_pays(tmp_path):
    errors = example("own_symmetry").main(tmp_path, counts=(40, 80))
    assert all(ours < 0.7 * plain for plain, ours in zip(*errors.values(), strict=True))
    assert drawn(tmp_path / "own_symmetry.png")


def test_a_store_is_learned_and_predicted_by_blocks(tmp_path):
    pytest.importorskip("zarr", reason="the store is one of zarr")
    script = example("larger_than_memory")
    few, found = (script.main(tmp_path, blocks=blocks, block=200, points=512, widths=(100, 50)) for blocks in (2, 5))
    assert found["errors"][-1] < 0.9 * found["errors"][0]
    assert found["same"]
    assert found["peak_mb"] < 1.1 * few["peak_mb"]  # as much as one block takes, however many there are
    assert drawn(tmp_path / "larger_than_memory.png")
    assert not (tmp_path / "larger_than_memory.zarr").exists()


def test_a_client_without_pcarann_predicts_with_error_bars(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    from pcarann import PCARaNN
    from pcarann.export import to_onnx

    X = np.random.default_rng(0).normal(size=(90, 3))
    y = np.tanh(X @ np.random.default_rng(1).normal(size=(3, 20)))
    model = PCARaNN(n_components=3, widths=(20, 10), n_members=3, scales="energy").fit({"a": X[:60]}, {"u": y[:60]})
    model.calibrate({"a": X[60:]}, {"u": y[60:]})
    to_onnx(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", a=X[:2])
    client = example("onnx_client")
    found = client.main(tmp_path / "model.onnx", tmp_path / "inputs.npz", tmp_path)
    band = model.predict_interval({"a": X[:2]})
    assert np.allclose(client.half_width(found, "u"), (band.upper["u"] - band.lower["u"]) / 2, rtol=1e-9)
    assert np.allclose(found["u"], band.mean["u"], rtol=1e-9)
    assert "±" in capsys.readouterr().out
    text = Path(client.__file__).read_text(encoding="utf-8")
    assert not any(f"{word} pcarann" in text for word in ("import", "from"))
    assert drawn(tmp_path / "onnx_client.png")
    np.savez(tmp_path / "inputs.npz", b=X[:2])
    with pytest.raises(SystemExit, match=r"inputs\.npz has no array a: b\."):
        client.main(tmp_path / "model.onnx", tmp_path / "inputs.npz")
