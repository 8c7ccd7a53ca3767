"""The chain rule of records: products, sums and multiples of maps, forward and back."""

import numpy as np

from pcarann.backend.linearized import Linearized, in_blocks

rng = np.random.default_rng(0)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
x = rng.normal(size=(5, 3))


def sine(rows):
    return Linearized(np.sin(rows), lambda t: np.cos(rows) * t, lambda c: np.cos(rows) * c)


def linear(rows, matrix):
    return Linearized(rows @ matrix, lambda t: t @ matrix, lambda c: c @ matrix.T)


def chain(rows):
    first = linear(rows, A)
    second = first.then(sine(first.value))
    return second.then(linear(second.value, B)).scaled(3.0).plus(linear(rows, A @ B))


def test_the_chain_rule_is_that_of_differences():
    step, h = rng.normal(size=x.shape), 1e-6
    slope = (chain(x + h * step).value - chain(x - h * step).value) / (2 * h)
    np.testing.assert_allclose(chain(x).push(step), slope, rtol=1e-8, atol=1e-9)


def test_back_is_the_adjoint_of_forward():
    here, there = rng.normal(size=x.shape), rng.normal(size=(5, 2))
    at = chain(x)
    np.testing.assert_allclose(np.sum(at.push(here) * there), np.sum(here * at.pull(there)), rtol=1e-13)


def test_many_samples_by_blocks_are_the_same_as_all_at_once():
    asked = []

    def linearize(rows):
        asked.append(rows)
        return chain(x[rows])

    whole, parts = chain(x), in_blocks(linearize, 5, 2)
    here, there = rng.normal(size=x.shape), rng.normal(size=(5, 2))
    assert asked == [slice(0, 2), slice(2, 4), slice(4, 5)]
    np.testing.assert_allclose(parts.value, whole.value)
    np.testing.assert_allclose(parts.push(here), whole.push(here))
    np.testing.assert_allclose(parts.pull(there), whole.pull(there))


def test_one_block_is_linearised_once():
    asked = []
    one = in_blocks(lambda rows: asked.append(rows) or chain(x[rows]), 5, 5)
    one.pull(one.value)
    assert asked == [slice(0, 5)]
