"""Surrogates for parametric PDEs that train in seconds, know their own uncertainty, and adapt online.

    fields a ──F──▶ latents x ──h──▶ features ──V──▶ latents y ──G──▶ fields u
             PCA            random, fixed     least squares      PCA

>>> import numpy as np
>>> from pcarann import PCARaNN
>>> from pcarann.metrics import relative_l2
>>> grid, phase = np.linspace(0, 1, 50), np.random.default_rng(0).uniform(0, 6, (400, 1))
>>> inputs, outputs = np.sin(6 * grid + phase), np.tanh(3 * np.sin(6 * grid + phase + 1))   # (samples, *grid)
>>> model = PCARaNN(n_components=0.999999, widths=(200, 100), n_members=5).fit(inputs[:200], outputs[:200])
>>> relative_l2(model.predict(inputs[300:]), outputs[300:]) < 1e-2
True
>>> band = model.calibrate(inputs[200:300], outputs[200:300]).predict_interval(inputs[300:], alpha=0.1)
>>> band.lower.shape
(100, 50)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcarann.automatic import auto
    from pcarann.loading import load
    from pcarann.marching.estimator import Marching
    from pcarann.mesh.mesh import Mesh
    from pcarann.operator import PCARaNN
    from pcarann.options import Adapt, Fields, Grid, Kernel, Refine
    from pcarann.spatial.channels import Channels
    from pcarann.staged import Staged
    from pcarann.storage.container import ModelFileError
    from pcarann.symmetry.generators import Symmetry
    from pcarann.uncertainty.bands import Band

__version__ = "0.1.0"
__all__ = [
    "Adapt",
    "Band",
    "Channels",
    "Fields",
    "Grid",
    "Kernel",
    "Marching",
    "Mesh",
    "ModelFileError",
    "PCARaNN",
    "Refine",
    "Staged",
    "Symmetry",
    "auto",
    "load",
]

_HOME = {
    "Adapt": "options",
    "Band": "uncertainty.bands",
    "Channels": "spatial.channels",
    "Fields": "options",
    "Grid": "options",
    "Kernel": "options",
    "Marching": "marching.estimator",
    "Mesh": "mesh.mesh",
    "ModelFileError": "storage.container",
    "PCARaNN": "operator",
    "Refine": "options",
    "Staged": "staged",
    "Symmetry": "symmetry.generators",
    "auto": "automatic",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    """Import a public name at first use: scikit-learn alone takes a second, which `import pcarann` need not."""
    if name not in _HOME:
        raise AttributeError(f"module 'pcarann' has no attribute {name!r}")
    return getattr(import_module(f"pcarann.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
