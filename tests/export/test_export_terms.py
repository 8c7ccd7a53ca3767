"""Terms that users wrote for arrays, in a file."""

import numpy as np
import pytest
from files_beside import SMALL, assert_file_agrees, waves

from pcarann import Staged
from pcarann.export.graphs import graph_of
from pcarann.options import Grid
from pcarann.spatial.channels import Channels

A = 3 * waves(14)
U = 0.1 * np.tanh(A)


def with_terms(*terms, a=A):
    grid = Grid("periodic", axes=(-1,))
    return Staged("mean", **SMALL, grid=grid, channels=Channels(), terms=list(terms)).fit(a[:28], U[:28])


def residual(a, u):
    second = np.roll(u, -1, axis=-1) - 2 * u + np.roll(u, 1, axis=-1)
    return np.tanh(a) - u + second / 25 + np.sqrt(1 + a**2) * np.exp(-abs(u))


def bounded(a, u):
    return np.maximum(np.minimum(a, 1.0), -u) + np.sin(a) * np.cos(u) + np.log(2 + np.square(u))


def test_terms_are_what_they_are_for_arrays():
    assert_file_agrees(with_terms(residual, bounded, np.multiply), {"inputs": A[28:]})


def test_terms_of_components():
    a = np.stack([A, A**2], axis=1)
    assert_file_agrees(with_terms(lambda a, u: a[..., 1] * u, lambda a, u: 2 * a, a=a), {"inputs": a[28:]})


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (lambda a, u: np.gradient(u, axis=-1), "numpy.gradient"),
        (lambda a, u: np.arctan(u), "arctan"),
        (lambda a, u: u if a.max() > 0 else a, "max"),
        (lambda a, u: np.roll(u, 1), "one axis of space"),
        (lambda a, u: u[:, ::-1], "only components"),
        (lambda a, u: np.add(a, u, dtype=np.float32), "add"),
        (lambda a, u: np.ones((len(u.shape) and 36, 14))[: u.shape[0]], "no use of its fields"),
    ],
)
def test_what_cannot_be_written_down_is_refused(term, reason):
    model = with_terms(residual)
    stage = model.fitted_.chains[0].stages[0]
    object.__setattr__(stage.features.sight.terms, "functions", (term,))
    with pytest.raises(ValueError, match=f"cannot be written as a graph: .*{reason}"):
        graph_of(model)
