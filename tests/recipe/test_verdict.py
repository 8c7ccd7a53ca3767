import pytest

from pcarann.recipe.report import AutoReport, Trial
from pcarann.recipe.verdict import AutoVerdict


@pytest.mark.parametrize(("winner", "words"), [("latent", "A latent model: "), ("stages", "Stages: ")])
def test_the_winner_comes_first_with_the_reason(winner, words):
    verdict = AutoVerdict(AutoReport(error=0.2), winner=winner, reason="error 0.1 against 0.2", seconds=3.0, budget=60)
    assert str(verdict).startswith(f"{words}error 0.1 against 0.2; 3.0 s of 60 s.\nLatent models:\n  0 settings tried")


def test_both_sides_are_told():
    trials = [Trial("six stages", 0.125, 2.5)]
    verdict = AutoVerdict(AutoReport(), trials, left_out=[("symmetry", "no time")], chosen="start: input\nstage 1")
    lines = str(verdict).splitlines()
    assert lines[1:3] == ["  start: input", "  stage 1"]
    assert "  1.250e-01    2.50 s  six stages" in lines
    assert "  symmetry: no time" in lines


def test_it_was_stopped_where_either_side_was():
    assert not AutoVerdict(AutoReport()).stopped
    assert AutoVerdict(AutoReport(), left_out=[("symmetry", "no time")]).stopped
    assert AutoVerdict(AutoReport(left_out=[("kernel", "no time")])).stopped
