"""What a user would pick instead, from the same input latents to the same output fields.

    ezyrb_rbf, ezyrb_gpr, ezyrb_ann   EZyRB's ReducedOrderModel: its own POD of the outputs, then the regressor
    sklearn_mlp, sklearn_kernel_ridge scikit-learn on the latents of both PCAs
    kernel                            pcarann.baselines.kernel_ridge, from fields to fields

Each is set up as its documentation advises: latents scaled where the method needs it, kernel widths from the median
distance, ridges by cross-validation. The PCAs that a peer needs count as its time. None is tuned on test data.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from cases import Case, Fields, flat
from measure import SLOW, Record, measured

from pcarann.latent.pca import PCA, fit_pca

__all__ = ["PEERS", "TASKS"]

Predict = Callable[[Fields], Fields]
"""From latents, (samples, latent), to fields, (samples, values)"""

_HIDDEN = (256, 256)
_MOST_SAMPLES = {"ezyrb_gpr": 4000, "ezyrb_rbf": 10_000, "sklearn_kernel_ridge": 10_000, "kernel": 10_000}
"""Beyond, N × N matrices of the peer would fill memory"""


@dataclass(frozen=True)
class Training:
    """What a peer is given."""

    x: Fields
    """Input latents"""
    outputs: Fields
    """Output fields, (samples, values)"""
    components: int
    """Modes of the outputs"""
    quick: bool

    @property
    def distance(self) -> float:
        """Median distance between input latents."""
        from scipy.spatial.distance import pdist

        return float(np.median(pdist(self.x))) or 1.0


def _reduced_order_model(training: Training, approximation: Any, scale: float = 1.0) -> Predict:
    """EZyRB's pipeline; fields divided by `scale` on the way in."""
    from ezyrb import POD, Database, ReducedOrderModel

    database = Database(training.x, training.outputs / scale)
    model = ReducedOrderModel(database, POD("svd", rank=training.components), approximation)
    with contextlib.redirect_stdout(io.StringIO()):  # the network prints its loss
        model.fit()
    return lambda x: scale * np.asarray(model.predict(x))


def ezyrb_rbf(training: Training) -> Predict:
    """Thin-plate splines, the default."""
    from ezyrb import RBF

    return _reduced_order_model(training, RBF())


def ezyrb_gpr(training: Training) -> Predict:
    """Gaussian process, Matérn 5/2, hyperparameters by marginal likelihood from the median distance."""
    from ezyrb import GPR
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    scaled = Training(training.x / training.distance, training.outputs, training.components, training.quick)
    kernel = ConstantKernel() * Matern(1.0, nu=2.5) + WhiteKernel(1e-4, (1e-10, 1.0))
    predict = _reduced_order_model(scaled, GPR(kern=kernel, normalizer=True, optimization_restart=0))
    return lambda x: predict(x / training.distance)


def ezyrb_ann(training: Training) -> Predict:
    """Two hidden tanh layers, Adam on all samples at once."""
    import torch
    from ezyrb import ANN

    torch.manual_seed(0)
    size = float(training.x.std())
    scaled = Training(training.x / size, training.outputs, training.components, training.quick)
    spread = float(np.linalg.norm(training.outputs, axis=1).mean()) / np.sqrt(training.components)
    network = ANN(list(_HIDDEN), torch.nn.Tanh(), [5 if training.quick else 5000, 1e-7])
    predict = _reduced_order_model(scaled, network, spread)
    return lambda x: predict(x / size)


def sklearn_mlp(training: Training) -> Predict:
    """Two hidden layers, early stopping, latents scaled as a whole so that small modes stay small."""
    from sklearn.neural_network import MLPRegressor

    pca, y = _output_latents(training)
    sizes = float(training.x.std()), float(y.std())
    network = MLPRegressor(
        hidden_layer_sizes=_HIDDEN,
        early_stopping=True,
        n_iter_no_change=50,
        max_iter=5 if training.quick else 2000,
        random_state=0,
    )
    network.fit(training.x / sizes[0], y / sizes[1])
    return lambda x: np.asarray(pca.decode(sizes[1] * network.predict(x / sizes[0])))


def sklearn_kernel_ridge(training: Training) -> Predict:
    """Gaussian kernel; width and ridge by threefold cross-validation around the median distance."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    pca, y = _output_latents(training)
    gammas = [factor / training.distance**2 for factor in (0.01, 0.1, 0.5, 2.0)]
    grid = {"gamma": gammas, "alpha": [1e-10, 1e-7, 1e-4, 1e-2]}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3, scoring="neg_mean_squared_error")
    search.fit(training.x, y)
    return lambda x: np.asarray(pca.decode(search.predict(x)))


def _output_latents(training: Training) -> tuple[PCA, Fields]:
    pca, y = fit_pca(training.outputs, training.components, name="outputs")
    return pca, np.asarray(y)


PEERS: dict[str, Callable[[Training], Predict]] = {
    function.__name__: function for function in (ezyrb_rbf, ezyrb_gpr, ezyrb_ann, sklearn_mlp, sklearn_kernel_ridge)
}


def run_peer(case: Case, name: str) -> Record:
    """Fit a peer under the clock, the PCA of the inputs included, and test it."""
    if len(case.train) > _MOST_SAMPLES.get(name, len(case.train)):
        return {"failed": f"not tried: {len(case.train)} samples, at most {_MOST_SAMPLES[name]}"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries: convergence, matrices near singular, deprecations
        try:
            _load_libraries(name)
            (predict, test), record = measured(
                lambda: _fit(case, name), place=case.place, repeats=case.repeats, slow=SLOW
            )
            start = time.perf_counter()
            found = predict(test)
        except (ImportError, np.linalg.LinAlgError, ValueError, TypeError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}
        record["predict_seconds"] = time.perf_counter() - start
    return record | {"error": case.error(np.asarray(found))}


def _load_libraries(name: str) -> None:
    """Import what the peer needs before the clock starts."""
    libraries = {
        "ezyrb": ("ezyrb", "sklearn.gaussian_process"),
        "sklearn": ("sklearn.neural_network", "sklearn.kernel_ridge", "sklearn.model_selection"),
        "kernel": ("pcarann.baselines.kernel_ridge",),
    }
    for module in (*libraries[name.partition("_")[0]], "scipy.spatial.distance"):
        import_module(module)


def _fit(case: Case, name: str) -> tuple[Predict, Fields]:
    """Return the fitted peer and what it predicts the test outputs from."""
    if name == "kernel":
        from pcarann.baselines.kernel_ridge import KernelOperator

        operator = KernelOperator(n_components=case.problem.n_components)
        operator.fit(case.train.inputs, case.train.outputs)
        return operator.predict, case.test.inputs
    pca, x = fit_pca(flat(case.train.inputs), case.problem.n_components[0], name="inputs")
    training = Training(np.asarray(x), flat(case.train.outputs), case.problem.n_components[1], case.quick)
    return PEERS[name](training), np.asarray(pca.encode(flat(case.test.inputs)))


TASKS: dict[str, Callable[[Case], Record]] = {
    f"peer.{name}": partial(run_peer, name=name) for name in (*PEERS, "kernel")
}
