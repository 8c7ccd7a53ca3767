"""What the ONNX file of a surrogate gives beside what the surrogate itself predicts."""

import numpy as np
from runtime import assert_same, evaluated, rounded

from pcarann.export.onnx_file import onnx_bytes
from pcarann.export.signature import Signature
from pcarann.uncertainty.conformal import ALPHA

SMALL = {"n_stages": 2, "n_features": 10, "n_members": 2}


def waves(*shape, count=36, closed=False, seed=0):
    """Some random waves along each axis, of a few wavenumbers each."""
    rng, found = np.random.default_rng(seed), 0.0
    for i, n in enumerate(shape):
        x = np.linspace(0, 2 * np.pi, n, endpoint=closed)
        line = sum(rng.normal(size=(count, 1)) * np.cos(k * x + rng.uniform(0, 6, (count, 1))) / k for k in (1, 2, 3))
        found = found + line.reshape(count, *(n if j == i else 1 for j in range(len(shape))))
    return found


def predicted(model, arrays, steps=None, alpha=ALPHA):
    """Outputs by name of a surrogate for inputs by name; with intervals where it is calibrated."""
    signature = Signature.of(model, steps)
    X, how = signature.opened(arrays)
    if model.fitted_.calibration is None:
        found = dict(zip(("", ".std"), model.predict(X, return_std=True, **how), strict=True))
    else:
        band = model.predict_interval(X, alpha, **how)
        found = {"": band.mean, ".std": band.std, ".lower": band.lower, ".upper": band.upper}
    return {key: value for suffix, one in found.items() for key, value in signature.by_name(one, suffix).items()}


def from_file(model, arrays, steps=None, single=False):
    """The same from its file."""
    kind = np.float32 if single else np.float64
    return evaluated(onnx_bytes(model, single=single, steps=steps), {k: np.asarray(v, kind) for k, v in arrays.items()})


def assert_file_agrees(model, arrays, steps=None, tolerance=1e-12, single_tolerance=1e-5):
    """In double precision, and in single for inputs that are such numbers."""
    for single in (False, True):
        given = rounded(arrays) if single else arrays
        found = from_file(model, given, steps, single)
        found.pop("novelty", None)
        wanted = predicted(model, given, steps)
        assert_same({name: found[name] for name in wanted}, wanted, single_tolerance if single else tolerance)
