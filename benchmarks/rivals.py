"""The same stages by the literal algorithm.

Members cost the same each, so that two are timed and scaled to K: `scaled` in a record says so.
"""

from __future__ import annotations

from dataclasses import replace

import literal
import numpy as np
from cases import ADAPTED, Case, Fields, flat
from measure import SLOW, Record, available_bytes, measured

from pcarann.benchmark.paper.runs import MODEL_SEED
from pcarann.features.random_layers import HiddenLayers
from pcarann.options import Adapt
from pcarann.uncertainty.conformal import RELATIVE_FLOOR

__all__ = ["TASKS"]

_MEMBERS = 2


def em(case: Case) -> Record:
    """PCA by SVD and members by SVD, the latter scaled to K."""
    inputs, outputs = flat(case.train.inputs), flat(case.train.outputs)

    def prepare() -> tuple[literal.Modes, literal.Modes, Fields, Fields]:
        wanted = case.problem.n_components
        first, second = literal.fit_modes(inputs, wanted[0]), literal.fit_modes(outputs, wanted[1])
        return first, second, first.encode(inputs), second.encode(outputs)

    (first, second, x, y), preparing = measured(prepare, **_timing(case))
    layers = HiddenLayers(MODEL_SEED, 0, (x.shape[1], *case.problem.widths))
    scales, scaling = measured(lambda: literal.energy_scales(layers, x, y), **_timing(case))
    return _with_members(case, layers, (first, second, x, y), scales, {"pca": preparing, "energy_matching": scaling})


def bfgs(case: Case) -> Record:
    """Inner PCA, energy matching, BFGS on J with finite differences, members scaled to K."""
    return _refined(case, as_ours=False)


def bfgs_from_zero(case: Case) -> Record:
    """The same with our objective and tolerance, so that both searches go equally far."""
    return _refined(case, as_ours=True)


def _refined(case: Case, *, as_ours: bool) -> Record:
    inputs, outputs = flat(case.train.inputs), flat(case.train.outputs)
    parts, preparing = measured(
        lambda: literal.inner_latents(inputs, outputs, case.problem.n_components, MODEL_SEED), place=case.place
    )
    first, second, x, y, inner = parts
    layers = HiddenLayers(MODEL_SEED, 0, (x.shape[1], *case.problem.widths))
    scales, scaling = measured(lambda: literal.energy_scales(layers, x[:inner], y[:inner]), **_timing(case))
    ridge = case.problem.refine_ridge
    found, refining = measured(
        lambda: literal.refine(layers, x, y, inner, scales, ridge, as_ours=as_ours), **_timing(case)
    )
    stages = {"pca": preparing, "energy_matching": scaling, "refinement": refining}
    record = _with_members(case, layers, (first, second, x, y), found.scales, stages)
    return record | {"refinement": vars(found)}


def _with_members(
    case: Case,
    layers: HiddenLayers,
    parts: tuple[literal.Modes, literal.Modes, Fields, Fields],
    scales: literal.Scales,
    stages: dict[str, Record],
) -> Record:
    """Add the members to the stages; total seconds for K of them and for one, and the largest peak of all stages."""
    first, second, x, y = parts
    wanted = case.problem.n_members
    timed = min(_MEMBERS, wanted)
    members, fitting = measured(
        lambda: [literal.fit_member(replace(layers, member=k), x, y, scales) for k in range(timed)], place=case.place
    )
    before = sum(stage["seconds"] for stage in stages.values())
    each = fitting["seconds"] / timed
    ensemble = literal.Ensemble(first, second, members)
    return {
        "seconds": before + wanted * each,
        "single_seconds": before + each,
        "scaled": {"members_timed": timed, "members": wanted},
        "stages": {name: stage["seconds"] for name, stage in stages.items()} | {"member": each},
        "peak_bytes": max(stage["peak_bytes"] for stage in [*stages.values(), fitting]),
        "error": case.error(ensemble.predict(flat(case.test.inputs))),
        "error_members": timed,
    }


def predict(case: Case) -> Record:
    """Mean fields with one decoding per member."""
    ensemble, inputs = literal.same_model(case.fitted("energy")), flat(case.test.inputs)
    if refused := _too_large(case, len(inputs)):
        return refused
    _, record = measured(lambda: ensemble.predict(inputs), **_timing(case))
    return record | {"samples": len(inputs), "samples_per_second": len(inputs) / record["seconds"]}


def calibrate(case: Case) -> Record:
    """All members' fields at once, then all scores sorted."""
    ensemble = literal.same_model(case.fitted("energy"))
    inputs, truth = flat(case.calibration.inputs), flat(case.calibration.outputs)
    if refused := _too_large(case, len(inputs)):
        return refused
    floor = RELATIVE_FLOOR * float(np.sqrt((truth**2).mean()))
    return measured(lambda: ensemble.sorted_scores(inputs, truth, floor), **_timing(case))[1]


def adapt(case: Case) -> Record:
    """200 rank-one updates of a full P, and a batch ridge refit, of one member, scaled to K; the first P is apart."""
    model = case.fitted("energy", 1)
    ensemble, fitted = literal.same_model(model), model.fitted_
    member, new = ensemble.members[0], case.calibration[:ADAPTED]
    x, y = ensemble.inputs.encode(flat(new.inputs)), ensemble.outputs.encode(flat(new.outputs))
    old = member.features(fitted.x)
    P, starting = measured(lambda: literal.start_recursion(old, Adapt().ridge), **_timing(case))
    _, record = measured(
        lambda: literal.recursive_least_squares(P, member.readout, member.features(x), y), place=case.place
    )
    both = np.concatenate([fitted.y, y])
    _, batch = measured(lambda: literal.batch_refit(old, member.features(x), both, Adapt().ridge), place=case.place)
    per_member, wanted = record["seconds"], case.problem.n_members
    scaled = {"seconds": wanted * per_member, "per_member": per_member, "start": starting, "samples": len(new)}
    scaled["batch"] = batch | {"seconds": wanted * batch["seconds"], "per_member": batch["seconds"]}
    return record | scaled | {"scaled": {"members_timed": 1, "members": wanted}}


def _timing(case: Case) -> Record:
    """Repeated like ours, but for calls that are slow."""
    return {"place": case.place, "repeats": case.repeats, "slow": SLOW}


def _too_large(case: Case, samples: int) -> Record | None:
    """Refuse where K whole fields, their deviations and their mean do not fit into memory."""
    needed = 8 * (2 * case.problem.n_members + 2) * samples * case.test.outputs[0].size
    if needed <= available_bytes() or not available_bytes():
        return None
    return {"failed": f"needs {needed} bytes of memory, {available_bytes()} are free"}


TASKS = {f"literal.{function.__name__}": function for function in (em, bfgs, bfgs_from_zero, predict, calibrate, adapt)}
