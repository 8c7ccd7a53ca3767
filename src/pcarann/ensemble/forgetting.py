"""Forgetting chosen from the stream: several factors β learn side by side, and the one that predicts best is used.

    βᵗ is the weight of a sample of age t;   loss(β) ← 0.98 loss(β) + ‖y − ŷ_β(x)‖ / mean of these over β

where ŷ_β has not yet learned (x, y). One member learns with each β, which is enough to compare them. All members use
the chosen one: when the choice changes, their readouts are solved for again from all samples that were learned, with
its weights, so that nothing is lost for good and an old regime that comes back is remembered. Errors count by their
ratio, so that the large ones after a jump do not hide for long which β is better. Another β is chosen where its loss is
smaller by 4: errors are a third of the mean for six samples, or 8 % smaller for many.
"""

from __future__ import annotations

from dataclasses import replace

from pcarann.backend.arrays import Array, cuts, place_of
from pcarann.ensemble.adaptation import Adaptation, Choice
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.readout.recursive import RecursiveLeastSquares

__all__ = ["FACTORS", "chosen_factor", "taken_in"]

FACTORS = (1.0, 0.995, 0.98, 0.95, 0.9, 0.8)
"""β"""
_DISCOUNT, _MARGIN = 0.98, 4.0  # of losses for each sample, and by what another factor must be better
_LEAST = 1e-300  # an error that others are compared with
_AT_ONCE = 8  # samples that are predicted before they are learned


def taken_in(
    adaptation: Adaptation, ensemble: Ensemble, pairs: tuple[Array, Array], forgetting: float | str, copies: int
) -> Adaptation:
    """Take in new latent pairs, so many `copies` of each sample in a row; a factor of forgetting, or "auto".

    Copies under a symmetry are no later than their sample: all of them together age the past by one step.
    """
    if isinstance(forgetting, str):
        return _following(adaptation, ensemble, *pairs, copies)
    return replace(adaptation, choice=None).update(ensemble, *pairs, forgetting=forgetting ** (1 / copies))


def chosen_factor(adaptation: Adaptation | None) -> float:
    """The factor in use where it is chosen."""
    return FACTORS[0 if adaptation is None or adaptation.choice is None else adaptation.choice.chosen]


def _following(adaptation: Adaptation, ensemble: Ensemble, x: Array, y: Array, copies: int) -> Adaptation:
    """Take in new latent pairs with the factor that predicts them best."""
    choice = adaptation.choice or Choice((0.0,) * len(FACTORS), 0)
    alone = replace(ensemble, members=ensemble.members[:1])
    rates = [factor ** (1 / copies) for factor in FACTORS]
    learners = choice.learners or tuple(_begun(adaptation, alone, rate) for rate in rates)
    features = alone.members[0].features
    place = place_of(x)
    losses = place.put(choice.losses)
    for rows in cuts(int(x.shape[0]), _AT_ONCE * copies):
        H, truth = features(x[rows, :]), y[rows, :]
        missed = place.xp.stack([H @ one.readout - truth for one in learners])
        losses = _discounted(losses, missed, copies)
        learners = tuple(one.update(H, truth, forgetting=rate) for one, rate in zip(learners, rates, strict=True))
    found = [float(loss) for loss in losses]
    best = found.index(min(found))
    chosen = best if found[best] < found[choice.chosen] - _MARGIN else choice.chosen
    if chosen != choice.chosen or adaptation.choice is None:
        adaptation = _weighted(adaptation, rates[chosen])
    return replace(
        adaptation.update(ensemble, x, y, forgetting=rates[chosen]), choice=Choice(tuple(found), chosen, learners)
    )


def _begun(adaptation: Adaptation, alone: Ensemble, rate: float) -> RecursiveLeastSquares:
    """The one member's learner with all rows so far, had it forgotten at this rate."""
    one = replace(_weighted(adaptation, rate), priors=adaptation.priors[:1], learners=None).ready(alone)
    assert one.learners is not None
    return one.learners[0]


def _weighted(adaptation: Adaptation, rate: float) -> Adaptation:
    """The same rows, had they been forgotten at this rate from the start."""
    rows = adaptation.rows.aged(adaptation.trained, rate)
    return adaptation if rows is adaptation.rows else replace(adaptation, rows=rows, learners=None)


def _discounted(losses: Array, missed: Array, copies: int) -> Array:
    """Losses (factors,) after the errors of a block, (factors, rows, latent), the last of the rows the newest."""
    place, count = place_of(missed), int(missed.shape[1])
    errors = place.xp.linalg.vector_norm(missed, axis=2)
    shares = errors / place.xp.clip(place.xp.mean(errors, axis=0), min=_LEAST)
    ages = place.put([_DISCOUNT ** ((count - 1 - i) // copies) / copies for i in range(count)])
    return _DISCOUNT ** (count // copies) * losses + place.xp.sum(shares * ages, axis=1)
