"""Models, small and of every kind, and what onnxruntime makes of their files beside what they predict themselves."""

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.export.onnx_file import graph_bytes, onnx_bytes
from pcarann.export.signature import Signature
from pcarann.uncertainty.conformal import ALPHA

SMALL = {"n_components": 6, "widths": (24, 12), "n_members": 3, "scales": ("gain", 0.7, 0.7)}


def pairs(count=90, inputs=(24,), outputs=(18,), seed=0):
    """Five latents in, a smooth function of them out, with a little noise, so that all modes are there."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    z = rng.normal(size=(count, 5)) * 0.7 ** np.arange(5)
    found = []
    for latents, grid in ((z, inputs), (np.tanh(z) + 0.2 * z[:, ::-1] ** 2, outputs)):
        fields = latents @ fixed.normal(size=(5, int(np.prod(grid))))
        found.append((fields + 0.01 * rng.normal(size=fields.shape)).reshape(count, *grid))
    return found


def calibrated(options, X, y, **more):
    """A model of all samples but 30, on which it is calibrated; each side one array or several by name."""
    model = PCARaNN(**SMALL | options, **more).fit(part(X, slice(30, None)), part(y, slice(30, None)))
    return model.calibrate(part(X, slice(0, 30)), part(y, slice(0, 30)))


def part(side, rows):
    return {name: one[rows] for name, one in side.items()} if isinstance(side, dict) else side[rows]


def moved(X, rows=7):
    """Some samples, of which the second lies outside the training data a little, and the third far."""
    if isinstance(X, dict):
        return {name: moved(one, rows) for name, one in X.items()}
    found = np.array(X[:rows], dtype=float)
    found[1:2] *= 1.8
    found[2:3] *= 6.0
    return found


def evaluated(file, arrays):
    """All outputs of a file by name."""
    runtime = pytest.importorskip("onnxruntime", reason="files are evaluated by onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, arrays), strict=True))


def run(graph, single=False, **arrays):
    """All outputs of a graph by name."""
    return evaluated(graph_bytes(graph, {}, single=single), arrays)


def by_file(model, X, single=False, **options):
    """Outputs of a model's ONNX file for inputs as the model takes them."""
    kind, signature = np.float32 if single else np.float64, Signature.of(model)
    file = onnx_bytes(model, single=single, **options)
    arrays = {one.name: np.asarray(X[one.part] if one.part else X, dtype=kind) for one in signature.inputs}
    return evaluated(file, arrays)


def by_model(model, X, alpha=ALPHA, method="sample"):
    """The same outputs as the model itself gives them."""
    found, signature = {}, Signature.of(model)
    band = model.predict_interval(X, alpha, method)
    for name, suffix in (("mean", ""), ("std", ".std"), ("lower", ".lower"), ("upper", ".upper")):
        found |= signature.by_name(getattr(band, name), suffix)
    if model.fitted_.novelty_test is not None:
        found["novelty"] = model.novelty(X).p_value
    return {name: np.asarray(one) for name, one in found.items()}


def rounded(X):
    """Inputs as single precision has them."""
    if isinstance(X, dict):
        return {name: rounded(one) for name, one in X.items()}
    return np.asarray(X, dtype=np.float32).astype(np.float64)


def assert_same(found, wanted, tolerance):
    """Sample by sample; what is small beside the field it belongs to is compared with that, a p-value with 1.

    Ends of intervals are that many times the spread away, and have its rounding that many times. How far a spread is
    widened outside the training data depends on a p-value, and so on the root of a difference of squares.
    """
    assert list(found) == list(wanted)
    for name, one in wanted.items():
        assert found[name].shape == one.shape, name
        whole = np.ones_like(one) if name == "novelty" else wanted[name.rpartition(".")[0] or name]
        for i in range(len(one)):
            there = np.isfinite(one[i])
            assert (np.isfinite(found[name][i]) == there).all(), name
            size = max(np.linalg.norm(one[i][there]), np.linalg.norm(whole[i][there]))
            error = np.linalg.norm(found[name][i][there] - one[i][there])
            rounded_often = (".lower", ".upper", ".std") if tolerance < 1e-9 else (".lower", ".upper")
            allowed = 20 * tolerance if name.endswith(rounded_often) else tolerance
            assert error <= allowed * size, f"{name}, sample {i}: {error / size:.1e}"
