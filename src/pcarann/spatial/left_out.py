"""The error of stages on samples that were left out of their fit.

    little work   cross-validation: each of five folds is predicted by stages fitted to the other four, whose start and
                  readouts are their own; ridges, number of stages and channels are those of the fit
    much work     the fifth that was held out to choose ridges, predicted by stages fitted to the others

Repeats and near-repeats are in one fold. Ridges are chosen on one fifth, so that only the error on that one is
flattered by the choice: by little where it has many samples, and among five folds by a fifth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import permutation
from pcarann.spatial.bands import Bands
from pcarann.spatial.fitting import Grown, Wanted, held_fields, with_ridges
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene, Triple
from pcarann.spatial.start import FOLDS, Start, mean_field
from pcarann.uncertainty.fit_report import FitReport

__all__ = ["left_out_report"]

_LITTLE = 4e10  # operations: about a second
_FIELDS, _SEEN = 60, 300  # features that cost as much as the fields; operations for a feature at a point
_STREAM = (-28,)


def left_out_report(
    samples: Triple,
    grown: Grown,
    scene: Callable[[Layout], Scene],
    wanted: Wanted,
    held: int,
    groups: Sequence[int],
    start: Start,
) -> FitReport:
    """Report the error of a fit that held out its last `held` samples; `groups` has a label for each sample."""
    if _work(samples, grown, wanted) <= _LITTLE:
        found, means = _cross_validated(samples, grown, scene, wanted, groups, start)
        return _report(found, samples.outputs, means, groups)
    found = held_fields(samples, grown, scene, wanted, held)
    mean = place_of(found).xp.mean(samples.outputs[:-held, :], axis=0)
    return _report(found, samples.outputs[-held:, :], mean, groups[-held:])


def _work(samples: Triple, grown: Grown, wanted: Wanted) -> float:
    """Operations of the cross-validation, about: features and sums at all points, solving for each band."""
    domain, members = grown.settled.layout.domain, len(grown.chains)
    rows, F = int(samples.outputs.shape[0]) * domain.points, float(wanted.n_features)
    bands = Bands.of(domain, grown.settled.channels.singles).count
    stage = rows * (_FIELDS + F) * (_SEEN + F) + bands * F**3 * 4 / 3
    return (FOLDS - 1) * members * len(grown.steps) * len(grown.chains[0].scene.fitted) * stage


def _report(found: Array, truth: Array, mean: Array, groups: Sequence[int]) -> FitReport:
    xp = place_of(truth).xp
    parts = (to_host(xp.sum(part**2, axis=1)) for part in (found - truth, truth, truth - mean))
    return FitReport.of_errors(*parts, groups=list(groups))


def _cross_validated(
    samples: Triple,
    grown: Grown,
    scene: Callable[[Layout], Scene],
    wanted: Wanted,
    groups: Sequence[int],
    start: Start,
) -> tuple[Array, Array]:
    """Fields of all samples, each predicted without its fold, and the mean fields of the samples that did it."""
    place = place_of(samples.outputs)
    xp = place.xp
    labels, ridges = sorted(set(groups)), [step.ridge for step in grown.steps]
    order = permutation(len(labels), seed=wanted.seed, stream=_STREAM)
    found, means = place.empty(*samples.outputs.shape), place.empty(*samples.outputs.shape)
    folds = min(FOLDS, len(labels))
    for fold in range(folds):
        out = {labels[i] for i in order[fold::folds]}
        left, kept = ([i for i, label in enumerate(groups) if (label in out) == inside] for inside in (True, False))
        training, test = (Triple(*(taken(part, some) for part in samples)) for some in (kept, left))
        if start.mean is not None:
            begun = Start(mean=mean_field(training.outputs)).symmetric(scene(grown.settled.layout))
            training, test = (part._replace(fields=begun(part.inputs)) for part in (training, test))
        chains = with_ridges(training, grown.settled, scene, wanted, ridges)
        fields = [chain(test.inputs, test.fields) for chain in chains]
        rows = xp.asarray(left, device=place.device)
        found[rows, :] = sum(fields[1:], start=fields[0]) / len(fields)
        means[rows, :] = xp.mean(training.outputs, axis=0)
    return found, means
