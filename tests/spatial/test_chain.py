"""Stages one after another, and who chooses their ridges."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.spatial.bands import Bands
from pcarann.spatial.chain import Chain, HeldOut, Judged, Known, Plan, grown, relative_error
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.features import Features
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene, Stage, Triple, summed
from random_fields_in_space import local, numpy_and_torch, waves

LAYOUT = Layout.of((16,), (16,)).ending(("periodic",), (False,))
SCENE = Scene(LAYOUT)
SIGHT = Sight(LAYOUT.domain, Channels(singles=8), False)
PLAN = Plan(12, seed=0)
A = waves(80, 16)
U = local(A)
MEAN = np.broadcast_to(U[:60].mean(axis=0), U.shape)
WHOLE = Triple(A, MEAN, U)
TRAIN, HELD = (Triple(*(part[rows] for part in WHOLE)) for rows in (slice(60), slice(60, 80)))
RIDGES = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)


def errors(fields, outputs):
    return np.mean(np.linalg.norm(fields - outputs, axis=1) / np.linalg.norm(outputs, axis=1))


def test_a_chain_applies_its_stages_in_turn():
    chain = grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([1e-3, 1e-5])), most=5)[0]
    assert [stage.ridge for stage in chain.stages] == [1e-3, 1e-5]
    middle = chain.stages[0].applied(SCENE, HELD.inputs, HELD.fields)
    expected = chain.stages[1].applied(SCENE, HELD.inputs, middle)
    assert np.array_equal(chain(HELD.inputs, HELD.fields), expected)
    assert np.array_equal(Chain(SCENE, ())(HELD.inputs, HELD.fields), HELD.fields)


def test_every_stage_sees_what_those_before_it_made():
    chain, _, sums = grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([1e-3, 1e-5])), most=2)
    before = chain.stages[0].applied(SCENE, TRAIN.inputs, TRAIN.fields)
    features = Features.drawn(SIGHT, A[:60, :, None], before[..., None], count=12, terms=6.0, seed=0, number=1)
    assert np.allclose(features.mixing, chain.stages[1].features.mixing)
    again = summed(SCENE, features, Bands.of(LAYOUT.domain, 8), TRAIN._replace(fields=before))
    assert np.allclose(sums.gram, again.gram)
    assert np.allclose(chain.stages[1].readout, again.readout(1e-5))


def test_members_have_weights_of_their_own():
    one, two = (grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([1e-3])), most=1, member=m)[0] for m in (0, 1))
    assert not np.isclose(one.stages[0].features.biases, two.stages[0].features.biases).any()


def test_the_ridge_that_does_best_on_samples_held_out_is_taken():
    chain, steps, _ = grown(SCENE, SIGHT, PLAN, TRAIN, HeldOut(HELD, RIDGES, 0.01), most=1)
    found = []
    for ridge in RIDGES:
        alone = grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([ridge])), most=1)[0]
        found.append(errors(alone(HELD.inputs, HELD.fields), HELD.outputs))
    assert chain.stages[0].ridge == RIDGES[int(np.argmin(found))] == steps[0].ridge
    assert steps[0].error == pytest.approx(min(found), rel=1e-10)
    assert min(found) < 0.9 * max(found)


def test_errors_of_steps_are_those_of_the_chain_so_far():
    chain, steps, _ = grown(SCENE, SIGHT, PLAN, TRAIN, HeldOut(HELD, RIDGES, 0.01), most=3)
    for number, step in enumerate(steps, start=1):
        part = replace(chain, stages=chain.stages[:number])
        assert step.error == pytest.approx(errors(part(HELD.inputs, HELD.fields), HELD.outputs), rel=1e-9)
        assert step.seconds > 0
    assert len(steps) == len(chain.stages) > 1


def test_a_chain_ends_where_nothing_is_gained():
    exact = Triple(A[:60], U[:60], U[:60])
    held = Triple(A[60:], U[60:], U[60:])
    chain, steps, sums = grown(SCENE, SIGHT, PLAN, exact, HeldOut(held, RIDGES, 0.01), most=3)
    assert (chain.stages, steps, sums) == ((), [], None)
    short = grown(SCENE, SIGHT, PLAN, TRAIN, HeldOut(HELD, RIDGES, 0.9), most=8)[0]
    long = grown(SCENE, SIGHT, PLAN, TRAIN, HeldOut(HELD, RIDGES, 0.0), most=8)[0]
    assert len(short.stages) < len(long.stages) <= 8


def test_known_ridges_run_out():
    assert len(grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([1e-3])), most=4)[0].stages) == 1


# Judges


def judged(liked, most=1, gain=0.01):
    """A chain whose judge likes one ridge best, and how often it was asked."""
    asked = []

    def judge(chain):
        asked.append(chain.stages[-1].ridge)
        return abs(math.log10(chain.stages[-1].ridge / liked)) + 1

    return grown(SCENE, SIGHT, PLAN, TRAIN, Judged(judge, RIDGES, gain), most=most), asked


@pytest.mark.parametrize("liked", RIDGES)
def test_a_judge_chooses_and_is_asked_about_no_ridge_twice(liked):
    (chain, steps, _), asked = judged(liked)
    assert chain.stages[0].ridge == liked
    assert steps[0].error == 1.0
    assert len(asked) == len(set(asked))


def test_a_first_stage_is_taken_whatever_the_judge_says_and_no_further_without_gain():
    (chain, _, _), _ = judged(1e-3, most=4)
    assert len(chain.stages) == 1
    everything = Judged(lambda chain: math.inf, RIDGES, 0.01)
    assert len(grown(SCENE, SIGHT, PLAN, TRAIN, everything, most=3)[0].stages) == 1
    better = Judged(lambda chain: 1 / len(chain.stages), RIDGES, 0.01)
    assert len(grown(SCENE, SIGHT, PLAN, TRAIN, better, most=3)[0].stages) == 3


# Errors


def test_relative_errors_by_hand():
    truth = np.array([[3.0, 4.0], [0.0, 2.0]])
    found = truth + np.array([[0.0, 5.0], [1.0, 0.0]])
    assert relative_error(found, truth) == pytest.approx((1.0 + 0.5) / 2)
    assert relative_error(truth, truth) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_error_that_is_no_number_is_infinite(bad):
    assert relative_error(np.array([[bad, 1.0]]), np.array([[1.0, 1.0]])) == math.inf


def test_no_chain_takes_a_readout_that_is_not_finite():
    def spoiled(chain, features, bands, sums):
        chooser = HeldOut(HELD, (1e-3,), 0.01)
        return chooser(chain, features, bands, replace(sums, moment=sums.moment * np.nan))

    assert grown(SCENE, SIGHT, PLAN, TRAIN, spoiled, most=2)[0].stages == ()


@numpy_and_torch()
def test_libraries_agree(library):
    there = Triple(*(library(np.array(part)) for part in TRAIN))
    chain = grown(SCENE, SIGHT, PLAN, there, Known(iter([1e-3, 1e-4])), most=2)[0]
    expected = grown(SCENE, SIGHT, PLAN, TRAIN, Known(iter([1e-3, 1e-4])), most=2)[0](*TRAIN[:2])
    assert isinstance(chain.stages[0], Stage)
    assert np.allclose(to_host(chain(*there[:2])), expected, rtol=0, atol=1e-8)
