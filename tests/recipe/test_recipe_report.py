import pytest

from pcarann.recipe.choice import DEFAULT, ENERGY, Choice
from pcarann.recipe.report import AutoReport, Trial


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(length=8.0, ridge=1e-6), ["kernel of length 8 medians, ridge 1e-06", "all modes, latents as they are"]),
        (Choice(regressor="random", widths=(30, 20)), ["random layers of 30 and 20 neurons"]),
        (Choice(modes=12, power=-0.5), ["12 modes, relevance=-0.5: weights s^(0.5)"]),
        (Choice(power=0.5), ["all modes, relevance=0.5: weights s^(−0.5)"]),
        (DEFAULT, ["the estimator as it comes, PCARaNN()"]),
        (ENERGY, ["the estimator as it comes, PCARaNN(scales='energy')"]),
        (Choice(members=5), ["members    5"]),
        (Choice(steps=2), ["a metric learned in 2 step(s)"]),
        (Choice(steps=1, diagonal=True), ["weights learned in 1 step(s)"]),
        (Choice(own_units=True), ["units      each input value in units of its own spread"]),
        (Choice(smoothing=0.03), ["smoothing  of the inputs by 0.03 of their axes"]),
        (Choice(linear=True), ["linear     with a linear term"]),
    ],
)
def test_the_report_says_in_words_what_was_chosen(choice, words):
    text = str(AutoReport([Trial("kernel", 0.5, 1.0)], choice=choice, error=0.5, seconds=1.25))
    assert text.startswith("1 settings tried in 1.2 s; validation error 0.5 with\n")
    for part in words:
        assert part in text
    assert ("smoothing" in text, "units" in text) == (bool(choice.smoothing), choice.own_units)
    assert "symmetry" not in text
    assert "budget" not in text
