"""Ensembles of chains: what is held out, what members share, what judges see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.latent.units import Units
from pcarann.spatial.channels import Channels
from pcarann.spatial.fitting import Wanted, fit_stages, held_out, judge_of_chains
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene, Triple
from pcarann.spatial.start import Start
from random_fields_in_space import local, waves

LAYOUT = Layout.of((16,), (16,)).ending(("periodic",), (False,))
A = waves(60, 16)
SAMPLES = Triple(A, np.zeros_like(A), local(A))
HELD = 12


def wanted(**changes):
    return Wanted(
        **{**dict(n_stages=2, n_features=10, n_members=2, channels=Channels(), seed=0, evolving=False), **changes}
    )


def fitted(judge=None, layouts=(LAYOUT,), **changes):
    return fit_stages(SAMPLES, layouts, Scene, wanted(**changes), HELD, judge)


@given(st.integers(2, 60), st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_fifth_of_the_groups_is_held_out_whole(groups, together, seed):
    order, held = held_out([i // together for i in range(groups * together)], seed)
    assert sorted(order) == list(range(groups * together))
    assert held == together * min(max(1, round(0.2 * groups)), groups - 1)
    for rows in (order[:-held], order[-held:]):
        assert rows == sorted(rows)
        firsts = range(0, groups * together, together)
        assert all(len(set(rows) & set(range(first, first + together))) in (0, together) for first in firsts)


def test_other_seeds_hold_others_out():
    assert held_out(range(60), 0) == held_out(range(60), 0) != held_out(range(60), 1)


def test_members_share_ridges_and_differ_in_weights():
    found = fitted(n_members=3)
    assert len(found.chains) == 3
    ridges = [[stage.ridge for stage in chain.stages] for chain in found.chains]
    assert ridges[0] == ridges[1] == ridges[2] == [step.ridge for step in found.steps]
    one, two = (chain.stages[0].features.biases for chain in found.chains[:2])
    assert not np.isclose(one, two).any()


def test_members_are_fitted_to_all_samples():
    whole = fitted(n_stages=1, n_members=1).chains[0].stages[0]
    part = Triple(*(side[:-HELD] for side in SAMPLES))
    some = fit_stages(part, [LAYOUT], Scene, wanted(n_stages=1, n_members=1), 10).chains[0].stages[0]
    assert whole.readout.shape == some.readout.shape
    assert not np.allclose(whole.readout, some.readout)


def test_the_last_samples_are_those_held_out():
    spoiled = Triple(A, SAMPLES.fields, np.concatenate([SAMPLES.outputs[:-HELD], 1e3 * SAMPLES.outputs[-HELD:]]))
    found = fit_stages(spoiled, [LAYOUT], Scene, wanted(n_members=1), HELD)
    assert found.steps == () or found.steps[0].error > 0.9  # what was fitted says nothing of them


def test_sums_are_kept_where_they_are_wanted():
    assert fitted().sums == ()
    kept = fitted(keep_sums=True)
    assert len(kept.sums) == 2
    for sums, chain in zip(kept.sums, kept.chains, strict=True):
        assert np.allclose(sums.readout(chain.stages[-1].ridge), chain.stages[-1].readout)


def test_without_gain_one_member_without_stages_is_left():
    exact = Triple(A, SAMPLES.outputs, SAMPLES.outputs)
    found = fit_stages(exact, [LAYOUT], Scene, wanted(keep_sums=True), HELD)
    assert [chain.stages for chain in found.chains] == [()]
    assert found.sums == ()


def test_channels_and_ends_are_settled_by_trials():
    free = LAYOUT.ending(("free",), (False,))
    found = fitted(channels=None, layouts=(LAYOUT, free))
    names = [trial.name for trial in found.settled.trials]
    assert names[:3] == ["as usual", "single precision", "ends free"]
    assert found.settled.layout == LAYOUT == found.chains[0].scene.layout
    report = str(found.report("mean field", 1.0, 12))
    assert "-1 periodic" in report
    assert "tried ends free" in report


def test_an_evolution_sees_its_mean_change():
    found = fitted(evolving=True, n_members=1)
    sight = found.chains[0].stages[0].features.sight
    assert sight.evolving
    assert np.allclose(sight.fixed[0, :, 0], (SAMPLES.outputs - SAMPLES.fields).mean(axis=0))
    assert fitted().chains[0].stages[0].features.sight.fixed is None


def test_a_judge_chooses_for_every_member_alone():
    asked = []

    def judge(chain):
        asked.append(chain)
        return abs(np.log10(chain.stages[-1].ridge) + 6) + 1 / len(chain.stages)

    found = fitted(judge)
    assert [[stage.ridge for stage in chain.stages] for chain in found.chains] == [[1e-6, 1e-6]] * 2
    assert found.steps[-1].error == pytest.approx(0.5)
    assert len(asked) >= 2 * 2 * 6


def test_a_judge_of_steps_sees_states_in_the_users_units():
    chain = fitted(n_members=1).chains[0]
    start, units = Start(mean=np.full(16, 3.0)), Units(2.0, 4.0)
    states = 2.0 * A[:5]
    seen = []

    def judge(step):
        seen.append(step(states))
        return 0.25

    assert judge_of_chains(judge, start, units, LAYOUT)(chain) == 0.25
    assert np.allclose(seen[0], 4.0 * chain(A[:5], np.full((5, 16), 0.75)))
