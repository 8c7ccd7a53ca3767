import numpy as np

from pcarann.recipe.choice import DEFAULT, ENERGY, Choice
from pcarann.recipe.finals import Race
from pcarann.recipe.report import AutoReport


def raced(**errors):
    """A race of these choices with these errors on one fold."""
    race = Race(None, [], AutoReport(), lambda name: None)
    choices = {"default": DEFAULT, "energy": ENERGY, "kernel": Choice(), "moved": Choice(symmetry=True)}
    race.errors = {choices[name]: [np.asarray(values)] for name, values in errors.items()}
    race.running = list(race.errors)
    return race


def test_level_finalists_are_decided_for_the_simpler():
    # log(4.5/3.5) = 0.25; differences (3, −1, 3, −1)/4.5 have the standard error 2/4.5/√3 = 0.26.
    assert raced(default=[5, 4, 5, 4], kernel=[2, 5, 2, 5])._winner() == DEFAULT
    assert raced(default=[5, 4, 5, 4], kernel=[2, 4, 2, 4])._winner() == Choice()


def test_of_the_plain_ones_the_better_is_taken_however_little_better():
    assert raced(default=[5.0, 4.0], energy=[4.9, 4.05])._winner() == ENERGY


def test_a_symmetry_must_beat_what_the_search_found():
    assert raced(default=[9, 9, 9], kernel=[3, 2, 3], moved=[1, 1, 1])._winner() == Choice(symmetry=True)
    assert raced(default=[9, 9, 9], kernel=[1, 2, 1], moved=[2, 1, 1])._winner() == Choice()


def test_who_is_behind_by_more_than_chance_drops_out():
    rng = np.random.default_rng(0)
    base = rng.uniform(1, 2, 80)
    race = raced(default=base, energy=base + rng.normal(0, 0.1, 80) + 1e-3, kernel=base + rng.normal(1, 0.1, 80))
    race._drop_the_worse()
    assert set(race.running) == {DEFAULT, ENERGY}
