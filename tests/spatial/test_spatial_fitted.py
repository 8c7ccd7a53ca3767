"""The record of a fit: predictions by blocks, what is said of inputs outside, adaptation."""

from dataclasses import replace

import numpy as np
import pytest

from pcarann import Grid, Staged
from pcarann.spatial import fitted as module
from pcarann.spatial.channels import Channels
from pcarann.spatial.stage import Triple, summed
from random_fields_in_space import local, waves

A = 3.0 * waves(120, 16)
U = 5.0 * local(A / 3)
SMALL = dict(model="mean", n_stages=2, n_features=10, channels=Channels(singles=8), grid=Grid("periodic"))


@pytest.fixture(scope="module")
def fitted():
    return Staged(**SMALL, n_members=3, adaptable=True).fit(A[:60], U[:60]).fitted_


def test_units_are_powers_of_two_that_leave_sizes_of_about_1(fitted):
    for unit, fields in ((fitted.units.inputs, A[:60]), (fitted.units.outputs, U[:60])):
        assert np.log2(unit) % 1 == 0
        assert 1 <= np.sqrt(np.mean(fields**2)) / unit < 2
    assert fitted.output_size == pytest.approx(np.sqrt(np.mean(U[:60] ** 2)) / fitted.units.outputs)
    assert np.array_equal(fitted.handed(fitted.outputs(U)), U)
    assert np.allclose(np.multiply(fitted.value_range, fitted.units.inputs), [[A[:60].min()], [A[:60].max()]])


def test_mean_and_deviation_are_those_of_the_members(fitted):
    members = np.stack([fitted.member_step(m, A) for m in range(3)])
    (_, mean, std, beyond) = next(iter(fitted.blocks(A)))
    assert np.allclose(fitted.handed(mean), members.mean(axis=0), rtol=0, atol=1e-12)
    variance = members.var(axis=0, ddof=1)
    drawn = np.sqrt((2 * variance + 2 * variance.mean(axis=1, keepdims=True)) / 4)  # towards the mean of a field
    assert np.allclose(fitted.handed(std), drawn, rtol=0, atol=1e-12)
    assert beyond is None
    alone = next(iter(replace(fitted, chains=fitted.chains[:1]).blocks(A)))
    assert not alone[2].any()


def test_blocks_cover_all_samples(fitted, monkeypatch):
    whole = next(iter(fitted.blocks(A)))[1]
    monkeypatch.setattr(module, "_AT_A_TIME", 7 * 16 * 3)
    parts = list(fitted.blocks(A))
    assert [part[0].stop - part[0].start for part in parts] == [7] * 17 + [1]
    assert np.allclose(np.concatenate([part[1] for part in parts]), whole, rtol=0, atol=1e-12)


def test_inputs_outside_the_range_are_counted(fitted):
    low, high = A[:60].min(), A[:60].max()
    inside = np.clip(A, low, high)
    assert fitted.warning(inside) is None
    outside = inside[:10].copy()
    outside[3, 5], outside[4, 0], outside[4, 1] = high + 0.11 * (high - low), low - 0.11 * (high - low), 1e9
    assert fitted.warning(outside).startswith("2 of 10 inputs have values outside the range of the training data, ")
    alone = fitted.warning(outside[3:4])
    assert alone.startswith("This input has values outside the range of the training data, ")
    assert alone.endswith(": do not trust its prediction.")
    outside[3, 5], outside[4, :2] = high + 0.09 * (high - low), low
    assert fitted.warning(outside) is None


def test_every_component_has_a_range_of_its_own():
    inputs = np.stack([A[:60], 1e6 + 100 * A[:60]], axis=1)
    fitted = Staged(**SMALL, n_members=1).fit(inputs, U[:60]).fitted_
    assert fitted.warning(inputs.reshape(60, -1)) is None
    outside = inputs[:5].copy()
    outside[2, 1] -= 5000  # far inside what the two components span together
    assert fitted.warning(outside.reshape(5, -1)).startswith("1 of 5 inputs have values outside the range of the train")
    assert " of component 1, 9" in fitted.warning(outside.reshape(5, -1))


def test_a_record_without_stages_predicts_its_start(fitted):
    none = replace(fitted, chains=(replace(fitted.chains[0], stages=()),))
    assert none.place == fitted.place
    assert np.allclose(none.member_step(0, A[:3]), U[:60].mean(axis=0))


# Adaptation


def last_stage_refitted(fitted, rows, ridge_of, weights=None):
    """The last stage's readouts from rows of all samples, written anew: V = (Σ HᴴH + λ t I)⁻¹ Σ Hᴴ r."""
    found = []
    weights = np.ones(len(rows)) if weights is None else weights
    a, u = A[rows] / fitted.units.inputs, U[rows] / fitted.units.outputs
    for chain in fitted.chains:
        *earlier, last = chain.stages
        before = fitted.start(A[rows]) / fitted.units.outputs
        for stage in earlier:
            before = stage.applied(chain.scene, a, before)
        H = np.fft.rfft(last.features(a[..., None], before[..., None]), axis=1, norm="ortho")
        r = np.fft.rfft(u - before, axis=1, norm="ortho")
        scale = np.sqrt(weights / np.mean(u**2, axis=1))
        H, r = H * scale[:, None, None], r * scale[:, None]
        labels = last.bands.labels
        parts = [
            (H[:, labels == b].reshape(-1, H.shape[2]), r[:, labels == b].reshape(-1)) for b in range(labels.max() + 1)
        ]
        t = np.mean([np.linalg.norm(h) ** 2 / h.shape[1] for h, _ in parts])
        solved = [
            np.linalg.solve(h.conj().T @ h + ridge_of(last) * t * np.eye(h.shape[1]), h.conj().T @ y) for h, y in parts
        ]
        found.append(np.stack(solved)[..., None])
    return found


def same_predictions(one, two, atol=1e-9):
    for m in range(one.members):
        assert np.allclose(one.member_step(m, A), two.member_step(m, A), rtol=0, atol=atol)


def test_adapting_equals_a_fit_of_the_last_stage_to_all_samples(fitted):
    found = fitted.adapted(A[60:100], U[60:100], 1.0)
    expected = last_stage_refitted(fitted, np.arange(100), lambda stage: stage.ridge)
    chains = tuple(
        replace(chain, stages=(*chain.stages[:-1], replace(chain.stages[-1], readout=readout)))
        for chain, readout in zip(fitted.chains, expected, strict=True)
    )
    same_predictions(found, replace(fitted, chains=chains), 1e-7)
    assert not np.allclose(found.member_step(0, A), fitted.member_step(0, A), rtol=0, atol=1e-4)


def test_blocks_and_their_order_do_not_matter(fitted):
    once = fitted.adapted(A[60:100], U[60:100], 1.0)
    blocks = [slice(60, 61), slice(61, 75), slice(75, 100)]
    for order in (blocks, blocks[::-1]):
        found = fitted
        for rows in order:
            found = found.adapted(A[rows], U[rows], 1.0)
        same_predictions(found, once)
        assert found.state == 3
    turned = fitted.adapted(A[60:100][::-1], U[60:100][::-1], 1.0)
    same_predictions(turned, once)


def test_forgetting_discounts_what_came_before(fitted):
    found = fitted.adapted(A[60:80], U[60:80], 0.9).adapted(A[80:100], U[80:100], 0.9)
    weights = np.concatenate([np.full(60, 0.9**40), np.full(20, 0.9**20), np.ones(20)])
    expected = last_stage_refitted(fitted, np.arange(100), lambda stage: stage.ridge, weights)
    for chain, readout in zip(found.chains, expected, strict=True):
        changed = replace(chain.stages[-1], readout=readout)
        alone = replace(chain, stages=(*chain.stages[:-1], changed))
        given = A / fitted.units.inputs, fitted.start(A) / fitted.units.outputs
        assert np.allclose(chain(*given), alone(*given), rtol=0, atol=1e-7)


def test_earlier_stages_and_the_old_record_stay(fitted):
    before = fitted.member_step(0, A)
    found = fitted.adapted(A[60:], U[60:], 1.0)
    assert np.array_equal(fitted.member_step(0, A), before)
    assert found.chains[0].stages[0] is fitted.chains[0].stages[0]
    assert found.state == fitted.state + 1


def test_kept_sums_are_those_of_the_last_stage(fitted):
    chain, sums = fitted.chains[1], fitted.sums[1]
    a, u = A[:60] / fitted.units.inputs, U[:60] / fitted.units.outputs
    before = chain.stages[0].applied(chain.scene, a, fitted.start(A[:60]) / fitted.units.outputs)
    again = summed(chain.scene, chain.stages[1].features, chain.stages[1].bands, Triple(a, before, u))
    assert np.allclose(sums.gram, again.gram)
