import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcarann.latent.rows import Order, TrainingRows


def rows(order, copies=1):
    """Rows that name their sample and their copy: x = (sample, copy), y = −x."""
    x = np.array([[sample, copy] for copy in range(copies) for sample in order.samples], dtype=float)
    return TrainingRows(x, -x, order)


@given(n=st.integers(2, 60), together=st.integers(1, 7), seed=st.integers(0, 5))
def test_every_sample_stands_in_one_row_and_kin_on_one_side(n, together, seed):
    n *= together
    kin = together if n >= 2 * together else 1
    order = Order.split(n, seed, together)
    assert sorted(order.samples) == list(range(n))
    assert 0 < order.inner < n
    inner, held = ({sample // kin for sample in part} for part in order.parts)
    assert not inner & held


def test_four_fifths_are_inner_samples():
    assert Order.split(100, 0).inner == 80


def test_without_a_split_every_sample_is_an_inner_one():
    order = Order.whole(5)
    assert (order.inner, order.parts, order.owners) == (5, [None], [0, 1, 2, 3, 4])


def test_owners_are_those_of_the_inner_samples():
    order = Order.split(30, 1, together=3)
    assert order.owners == [sample // 3 for sample in order.samples[: order.inner]]


def test_rows_know_their_copies_and_inner_samples():
    found = rows(Order.split(10, 0), copies=3)
    x, y = found.inner
    assert (found.samples, found.copies, len(x)) == (10, 3, 8)
    assert np.array_equal(y, -x)
    assert (x[:, 1] == 0).all()


@pytest.mark.parametrize(("most", "copies"), [(8, 1), (16, 2), (100, 3)])
def test_validated_rows_are_inner_ones_with_copies_then_the_others_as_they_are(most, copies):
    order = Order.split(10, 0)
    x, y, n_inner = rows(order, copies=3).validated(most)
    assert n_inner == 8 * copies
    assert np.array_equal(x[:n_inner, 0], np.tile(order.samples[:8], copies))
    assert np.array_equal(x[n_inner:], np.array([[sample, 0] for sample in order.samples[8:]]))
    assert np.array_equal(y, -x)


def test_some_inner_rows_are_spread_over_samples_and_copies():
    x, y = rows(Order.split(100, 0), copies=4).some_inner(160)
    assert len(x) == 160
    assert len({tuple(row) for row in x}) == 160
    assert set(x[:, 1]) == {0.0, 1.0, 2.0, 3.0}
    assert np.array_equal(y, -x)


def test_every_sample_is_judged_with_all_its_copies():
    found = rows(Order.split(50, 0), copies=2)
    judged = found.judged(None)
    assert sorted(group.rows[0] for group in judged) == list(range(50))
    for group in judged:
        assert group.own == 1
        assert {found.x[row, 0] for row in group.rows} == {found.x[group.rows[0], 0]}
        assert {found.x[row, 1] for row in group.rows} == {0.0, 1.0}


def test_what_belongs_together_is_judged_together():
    found = rows(Order.split(30, 0, together=3))
    for group in found.judged(9):
        assert {found.x[row, 0] // 3 for row in group.rows} == {found.x[group.rows[0], 0] // 3}
        assert len(group.rows) == group.own == 3


@given(groups=st.lists(st.integers(0, 12), min_size=2, max_size=60), seed=st.integers(0, 5))
def test_samples_of_one_group_are_on_one_side_and_are_judged_together(groups, seed):
    order = Order.split(len(groups), seed, groups=groups)
    assert sorted(order.samples) == list(range(len(groups)))
    assert 0 < order.inner < len(groups)
    found = rows(order)
    if len(set(groups)) > 1:
        inner, held = ({groups[sample] for sample in part} for part in order.parts)
        assert not inner & held
        judged = [{groups[order.samples[row]] for row in group.rows} for group in found.judged(None)]
        assert sorted(label for labels in judged for label in labels) == sorted(set(groups))
    assert len({groups[order.samples[row]] for row in found.firsts}) == len(found.firsts) == len(set(groups))


def test_of_very_many_samples_some_are_taken_from_all_over(monkeypatch):
    monkeypatch.setattr("pcarann.latent.rows.MOST", 8)
    order = Order.split(50, 0)
    x, y = rows(order).inner
    assert len(x) == 8
    assert set(x[:, 0]) <= set(order.samples[:40])
    assert np.array_equal(y, -x)
    x, y, inner = rows(order).validated(1000)
    assert (len(x), inner) == (10, 8)
    assert set(x[:inner, 0]) <= set(order.samples[:40])
    assert set(x[inner:, 0]) <= set(order.samples[40:])
    assert np.array_equal(y, -x)
