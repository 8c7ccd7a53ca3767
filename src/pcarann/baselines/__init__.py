"""What PCA–RaNN is compared with: PCA–NN, DeepONet, FNO, kernel ridge on PCA latents, function-valued random features.

>>> from pcarann.baselines import baseline
>>> model = baseline("darcy", "fno")          # the paper's architecture, trained as well as we can
>>> error = model.fit(inputs, outputs, budget=180).predict(new_inputs)     # doctest: +SKIP

Paper: its Supplementary Table lists the architectures, which these are. The training is another, since the paper's
rows are well above what the same networks reach: relative L² loss, AdamW, one-cycle rate, the weights of least
validation error. The networks need PyTorch: pip install 'pcarann[baselines]'.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pcarann.validation import check_choice

__all__ = ["ARCHITECTURES", "METHODS", "ON_CPU", "PROBLEMS", "baseline"]

_LATENTS = {"burgers": 100, "darcy": 150, "navier_stokes": 150, "backward_heat": 100}
_HOME = {
    "pca_nn": ("pca_nn", "PCANN"),
    "deeponet": ("deeponet", "DeepONet"),
    "fno": ("fno", "FNO"),
    "kernel": ("kernel_ridge", "KernelOperator"),
    "random_features": ("random_features", "RandomFeatures"),
}
PROBLEMS, METHODS = tuple(_LATENTS), tuple(_HOME)
ON_CPU = ("kernel", "random_features")
"""Methods that run on the CPU whatever the device, and are not trained by iteration"""

# PCA–NN: rate, decay and whitening were compared one at a time, in short runs of small networks on Burgers, Darcy and
# backward heat; Navier–Stokes takes Darcy's. DeepONet: the rate on Burgers and Darcy. FNO: the usual rate, lower for
# width 64; not tuned.
_CLOSED = {"axes": ("interval", "closed")}
_PERIODIC = ("periodic", "periodic")
_POINTWISE = {"normalisation": ("channel", "pointwise")}
_CNN = {"branch": "cnn", "channels": (64, 128, 128, 128), "trunk": (128, 128), "basis": 64}
_FULL: dict[tuple[str, str], dict[str, Any]] = {
    ("darcy", "pca_nn"): {"whitening": 0.3},
    ("navier_stokes", "pca_nn"): {"whitening": 0.3},
    ("backward_heat", "pca_nn"): {"whitening": 0.8},
    ("burgers", "deeponet"): _CLOSED | {"harmonics": 4, "normalisation": ("channel", "channel"), "epochs": 4000},
    ("darcy", "deeponet"): {"branch": "cnn", "widths": (128,), "trunk": (128, 128, 128), "epochs": 2000},
    ("navier_stokes", "deeponet"): _CNN
    | {"widths": (256,), "axes": ("interval", *_PERIODIC), "harmonics": 2, "epochs": 2000},
    ("backward_heat", "deeponet"): _CNN | {"widths": (128,), "epochs": 1500},
    ("burgers", "fno"): _CLOSED | {"modes": (24, 32), "width": 64, "epochs": 200, "rate": 1e-3},
    ("darcy", "fno"): _POINTWISE | {"modes": (12, 12), "width": 32, "epochs": 300},
    ("navier_stokes", "fno"): {"axes": _PERIODIC, "modes": (12, 12), "width": 32, "epochs": 300},
    ("backward_heat", "fno"): _POINTWISE
    | {"modes": (16, 16), "width": 64, "projection": 256, "epochs": 250, "rate": 1e-3},
    ("burgers", "random_features"): {"closed": True},
    ("darcy", "random_features"): {"features": "predictor_corrector"},
    ("navier_stokes", "random_features"): {"n_features": 512},
}
"""What differs from the defaults of a method, beside the number of latents"""

_QUICK: dict[str, dict[str, Any]] = {
    "pca_nn": {"n_components": 0.999, "widths": (32, 32), "epochs": 30, "rate": 5e-3},
    "deeponet": {"channels": (4, 8), "widths": (16,), "trunk": (16, 16), "basis": 8, "epochs": 20, "rate": 5e-3},
    "fno": {"modes": (3, 3), "width": 6, "layers": 2, "projection": 8, "epochs": 3, "rate": 5e-3},
    "kernel": {"n_components": 0.999, "lengths": (1.0, 8.0), "ridges": (1e-9, 1e-5), "whitenings": (0.0, 1.0)},
    "random_features": {"n_features": 20, "cutoffs": (0.02, 0.08), "features": "fourier"},
}

ARCHITECTURES: dict[tuple[str, str], str] = {
    ("burgers", "deeponet"): "branch MLP 128 (3 layers); trunk 128 (2 layers), periodic in x; p = 128",
    ("burgers", "fno"): "2-D FNO on (t, x): modes (24, 32), width 64, FC 128, 4 Fourier layers",
    ("darcy", "deeponet"): "branch Conv(64)–Conv(128)–FC(128)–FC(p); trunk 128 (3 layers); p = 128",
    ("darcy", "fno"): "2-D FNO: modes (12, 12), width 32, FC 128, 4 Fourier layers",
    ("navier_stokes", "deeponet"): "branch CNN(64, 128, 128, 128)–FC(256); periodic trunk 128 (2 layers); p = 64",
    ("navier_stokes", "fno"): "2-D multi-output FNO: modes (12, 12), width 32, FC 128, 4 Fourier layers",
    ("backward_heat", "deeponet"): "branch CNN(64, 128, 128, 128)–FC(128); trunk 128 (2 layers); p = 64",
    ("backward_heat", "fno"): "2-D multi-output FNO: modes (16, 16), width 64, FC 256, 4 Fourier layers",
    **{(name, "pca_nn"): f"PCA + MLP {n}→500→1000→2000→1000→500→{n}" for name, n in _LATENTS.items()},
    **{(name, "kernel"): f"PCA + Matérn-5/2 kernel ridge, {n}→{n} latents" for name, n in _LATENTS.items()},
    **{
        (name, "random_features"): "1024 random Fourier maps, ELU, a weight for each and each time" for name in _LATENTS
    },
    ("darcy", "random_features"): "1024 random maps by prediction and correction, a weight for each",
    ("navier_stokes", "random_features"): "512 random Fourier maps, ELU, a weight for each and each time",
}
"""One line for each problem and method, after the paper's Supplementary Table"""


def baseline(problem: str, method: str, *, seed: int = 0, device: str | None = None, quick: bool = False) -> Any:
    """Return the model for a problem, with the paper's architecture; `quick` makes it tiny, for tests.

    Those `ON_CPU` run there whatever the device.
    """
    check_choice(problem, "problem", PROBLEMS)
    check_choice(method, "method", METHODS)
    module, name = _HOME[method]
    latents = {"n_components": (_LATENTS[problem],) * 2} if method in ("pca_nn", "kernel") else {}
    own = {"seed": seed} if method in ON_CPU else {"seed": seed, "device": device}
    settings = latents | _FULL.get((problem, method), {}) | (_QUICK[method] if quick else {}) | own
    try:
        model = getattr(import_module(f"pcarann.baselines.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"{name} needs PyTorch: install it with pip install 'pcarann[baselines]'.") from None
    return model(**settings)
