import numpy as np
import pytest

from conftest import periodic_pairs, table
from pcarann import Symmetry
from pcarann.recipe import choice as choice_module
from pcarann.recipe.choice import DEFAULT, ENERGY, Choice, chosen_parameters

P, U = table(160)
TRAIN, TEST = (P[:60], U[:60]), (P[60:], U[60:])


@pytest.mark.parametrize(("unit", "expected"), [(False, np.ones(3)), (True, 1 / TRAIN[0].std(axis=0) ** 2)])
def test_ridge_and_quadrature_of_a_table_are_always_said(unit, expected):
    made = chosen_parameters(Choice(own_units=unit), *TRAIN, (3,))
    assert np.allclose(made["fields"].quadrature[0], expected)
    assert made["ridge"] == 1e-10


def test_fields_on_a_plane_have_no_quadrature_of_their_own():
    assert "quadrature" not in chosen_parameters(Choice(), TRAIN[0], TRAIN[1], (3, 1))


@pytest.mark.parametrize(("choice", "made"), [(DEFAULT, {}), (ENERGY, {"scales": "energy"})])
def test_the_plain_choices_set_nothing_else(choice, made):
    assert chosen_parameters(choice, *TRAIN, (3,)) == made


def test_a_metric_is_learned_where_it_was_judged_not_where_the_ridge_ended():
    judged = Choice(steps=1, regressor="kernel", length=4.0, ridge=1e-8, learned_at=(4.0, 1e-8))
    tuned = Choice(steps=1, regressor="kernel", length=64.0, ridge=1e-2, learned_at=(4.0, 1e-8))
    one, two = (chosen_parameters(choice, *TRAIN, (3,))["relevance"] for choice in (judged, tuned))
    assert np.array_equal(one, two)


CIRCLE = periodic_pairs(80)


def flat(pair):
    return [part.reshape(len(part), -1) for part in pair]


def test_a_learned_metric_beside_a_symmetry_is_learned_by_the_fit():
    shifts = Symmetry.shifts(-1)
    beside = Choice(steps=3, diagonal=True, power=0.5).with_symmetry()
    made = chosen_parameters(beside, *flat(CIRCLE[:24]), (10,), shifts)
    assert (made["relevance"], made["symmetry"]) == ("learned", shifts)


def test_a_symmetry_takes_the_place_of_smoothing():
    assert (
        chosen_parameters(Choice(smoothing=0.1).with_symmetry(), *flat(CIRCLE[:24]), (10,))["fields"].smoothing == 0.0
    )


@pytest.mark.parametrize(
    ("offered", "used"),
    [
        (Symmetry.shifts(-1), Symmetry.shifts(-1).using(fit=4, predict=4)),
        (Symmetry.shifts(-1).using(fit=8, predict=2), Symmetry.shifts(-1).using(fit=4, predict=2)),
    ],
)
def test_a_symmetry_can_be_used_in_part(offered, used):
    choice = Choice(plain="refined", symmetry=True, copies=4)
    assert repr(chosen_parameters(choice, *CIRCLE[:24], (10,), offered)["symmetry"]) == repr(used)


def test_a_metric_is_learned_alike_from_ordered_and_from_shuffled_samples(monkeypatch):
    monkeypatch.setattr(choice_module, "METRIC_ROWS", 80)
    p = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    u = np.where(p[:, :1] < 0, p[:, :1], p[:, :1] + 3 * np.sin(3 * p[:, 1:])) * np.linspace(1, 2, 6)
    ordered = np.argsort(p[:, 0])
    found = [chosen_parameters(Choice(steps=1), p[rows], u[rows], (2,))["relevance"] for rows in (ordered, slice(None))]
    slopes = [np.linalg.eigvalsh(metric)[0] / np.linalg.eigvalsh(metric)[1] for metric in found]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.5)
