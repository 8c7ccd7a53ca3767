"""Stencils against the matrices that they stand for, on both libraries."""

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.mesh.stencil import Stencil, applied


def matrix(rows, columns, seed):
    return sparse.random(rows, columns, density=0.3, random_state=seed, format="csr")


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 5), st.integers(-3, 2))
@settings(max_examples=40, deadline=None)
def test_a_stencil_is_its_matrix_along_any_axis(rows, columns, seed, axis):
    sparse_one = matrix(rows, columns, seed)
    shape = [2, 3, 4]
    shape[axis] = columns
    fields = np.random.default_rng(seed).normal(size=shape)
    wanted = np.moveaxis(np.tensordot(sparse_one.toarray(), fields, (1, axis)), 0, axis)
    stencil = Stencil.of_matrix(sparse_one)
    assert np.allclose(stencil(fields, axis), wanted, rtol=0, atol=1e-13)
    assert np.allclose(stencil(torch.as_tensor(fields), axis).numpy(), wanted, rtol=0, atol=1e-13)


def test_stencils_that_share_their_nodes_are_applied_together():
    matrices = [matrix(6, 5, seed) for seed in (0, 1)]
    stencils = Stencil.of_matrices(matrices)
    fields = np.random.default_rng(0).normal(size=(2, 5, 3))
    assert stencils[0].shares(stencils[1])
    assert (stencils[0] * 2.0).shares(stencils[1])
    apart = [Stencil.of_matrix(one) for one in matrices]
    assert not apart[0].shares(apart[1])
    for some in (stencils, apart):
        for found, one in zip(applied(some, fields, 1), matrices, strict=True):
            assert np.allclose(found, np.einsum("ij,sjc->sic", one.toarray(), fields), atol=1e-14)
    assert np.allclose((stencils[0] * 2.0)(fields, 1), 2 * stencils[0](fields, 1))


def test_precision_is_that_of_the_fields_which_stay_as_they_are():
    stencil = Stencil([[0, 1], [2, 0]], [[1.0, 2.0], [0.5, 0.0]])
    fields = np.arange(3, dtype=np.float32)
    assert stencil(fields).dtype == np.float32
    assert fields.tolist() == [0, 1, 2]
    assert stencil(fields).tolist() == [2, 1]
    assert repr(stencil) == "Stencil(2 rows of 2 nodes)"


def test_shapes_must_match():
    with pytest.raises(ValueError, match=r"two \(n, k\) arrays, found \(1, 2\) and \(1, 1\)"):
        Stencil([[0, 1]], [[1.0]])


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_the_transposed_is_that_of_the_matrix(rows, columns, seed):
    sparse_one = matrix(rows, columns, seed)
    fields = np.random.default_rng(seed).normal(size=(2, rows))
    found = Stencil.of_matrix(sparse_one).transposed(columns)(fields, 1)
    assert np.allclose(found, fields @ sparse_one.toarray(), rtol=0, atol=1e-13)
