"""The stages of pcarann, each with its floor in floating-point operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import floor
import numpy as np
from cases import ADAPTED, Case, fit, sizes_of
from measure import Record, available_bytes, measured

from pcarann.backend.arrays import to_host
from pcarann.benchmark.paper.configurations import Variant
from pcarann.ensemble.adaptation import Adaptation
from pcarann.features.refine import SCAN
from pcarann.operator import PCARaNN
from pcarann.options import Adapt
from pcarann.readout.direct import fit_readout

__all__ = ["TASKS"]

_MANY, _BATCH = 10_000, 1000
_SCANNED = len(SCAN[0]) * len(SCAN[1])


def _timed_fit(case: Case, variant: Variant, members: int | None = None, **changed: Any) -> tuple[PCARaNN, Record]:
    """Fit with the whole call under the clock, checks included."""
    inputs, outputs = case.training_pair()
    model, record = measured(
        lambda: fit(case.model(variant, members, **changed), inputs, outputs),
        place=case.place,
        repeats=case.repeats,
        warm_up=not case.place.on_host,
        beside=case.products.rate,
    )
    record["stages"] = model.fit_seconds_
    record["sizes"] = sizes_of(case, model).as_record()
    record["solver"] = vars(model.ensemble_.members[0].report)
    record["error"] = case.error(model.predict(case.test.inputs))
    return model, record


def em(case: Case) -> Record:
    """Energy-matched ensemble."""
    model, record = _timed_fit(case, "energy")
    return record | {"flops": floor.em_fit(sizes_of(case, model))}


def single(case: Case) -> Record:
    """One energy-matched member."""
    model, record = _timed_fit(case, "energy", 1)
    return record | {"flops": floor.em_fit(sizes_of(case, model))}


def bfgs(case: Case) -> Record:
    """Refined ensemble."""
    return _refined(case, "scan", _SCANNED)


def bfgs_from_zero(case: Case) -> Record:
    """Refined ensemble, started where the paper starts."""
    return _refined(case, "energy", 1)


def _refined(case: Case, start: str, scanned: int) -> Record:
    model, record = _timed_fit(case, "refined", scales__start=start)
    found = model.refinement_
    assert found is not None
    record["refinement"] = vars(found)
    counts = {"scanned": scanned, "descended": found.evaluations - scanned}
    return record | {"flops": floor.refined_fit(sizes_of(case, model), **counts)}


def predict(case: Case) -> Record:
    """Mean fields of the test inputs, and with their spread."""
    model = case.fitted("energy")
    inputs = case.place.put(case.test.inputs)
    n = len(case.test)
    _, record = measured(
        lambda: model.predict(inputs),
        place=case.place,
        repeats=case.repeats,
        warm_up=True,
        beside=case.products.rate,
    )
    _, spread = measured(lambda: model.predict(inputs, return_std=True), place=case.place, repeats=case.repeats)
    record |= {"samples": n, "samples_per_second": n / record["seconds"]}
    record["with_std"] = spread | {"samples_per_second": n / spread["seconds"]}
    return record | {"flops": floor.prediction(n, sizes_of(case, model))}


def predict_many(case: Case) -> Record:
    """10 000 samples by repetition: as a stream of batches, and in one call where memory allows that."""
    model = case.fitted("energy")
    place, many, batch = case.place, 100 if case.quick else _MANY, 20 if case.quick else _BATCH
    case = _test_alone(case)
    few = case.test.inputs
    inputs = place.put(np.take(few, np.arange(batch) % len(few), axis=0))

    def stream() -> None:
        for _ in range(many // batch):
            model.predict(inputs)

    _, record = measured(stream, place=place)
    record |= {"samples": many, "batch": batch, "samples_per_second": many / record["seconds"]}
    record["total_bytes"] = record["baseline_bytes"] + record["peak_bytes"]
    return record | {"one_call": _one_call(case, model, many)}


def _test_alone(case: Case) -> Case:
    """The case without training fields, which are no part of a prediction: the parts are views of one array."""
    test = replace(case.test, inputs=case.test.inputs.copy(), outputs=case.test.outputs.copy())
    return replace(case, train=test, calibration=test, test=test)


def _one_call(case: Case, model: PCARaNN, many: int) -> Record:
    few = case.test.inputs
    in_bytes, out_bytes = (8 * many * fields[0].size for fields in (few, case.test.outputs))
    if case.place.on_host and available_bytes() < 4 * in_bytes + 2 * out_bytes:
        return {"failed": f"not tried: {available_bytes()} bytes free, fields alone take {in_bytes + out_bytes}"}
    inputs = case.place.put(np.take(few, np.arange(many) % len(few), axis=0))
    _, record = measured(lambda: model.predict(inputs), place=case.place)
    sizes = {"input_bytes": in_bytes, "output_bytes": out_bytes, "working_bytes": record["peak_bytes"] - out_bytes}
    return record | sizes | {"samples_per_second": many / record["seconds"]}


def calibrate(case: Case) -> Record:
    """Scores of the calibration set."""
    model = case.fitted("energy")
    pair = [case.place.put(part) for part in (case.calibration.inputs, case.calibration.outputs)]
    _, record = measured(
        lambda: model.calibrate(*pair), place=case.place, repeats=case.repeats, beside=case.products.rate
    )
    return record | {"flops": floor.calibration(len(case.calibration), sizes_of(case, model))}


def adapt(case: Case) -> Record:
    """200 new samples, by recursion and by a batch refit that has the old features; both with the same ridge."""
    model = case.fitted("energy")
    ensemble, fitted = model.ensemble_, model.fitted_
    new = case.calibration[:ADAPTED]
    x, y = (
        pca.encode(case.place.put(fields.reshape(len(new), -1)))
        for pca, fields in ((ensemble.input_pca, new.inputs), (ensemble.output_pca, new.outputs))
    )
    begun, starting = measured(
        lambda: Adaptation.start(ensemble, fitted.rows, ridge=Adapt().ridge, start="ridge"), place=case.place
    )
    readouts, record = measured(
        lambda: begun.update(ensemble, x, y, forgetting=1.0).readouts(ensemble),
        place=case.place,
        repeats=case.repeats,
        warm_up=True,
        beside=case.products.rate,
    )
    members = len(ensemble.members)
    record |= {"start": starting, "samples": len(new), "per_member": record["seconds"] / members}
    record |= _batch_refit(case, model, x, y, readouts)
    return record | {"flops": floor.times(members, floor.adaptation(len(new), sizes_of(case, model)))}


def _batch_refit(case: Case, model: PCARaNN, x: Any, y: Any, adapted: list[Any]) -> Record:
    """Refit to old and new rows, with the same ridge and by least squares; how far the recursion is from the former."""
    ensemble, fitted = model.ensemble_, model.fitted_
    concat = case.place.xp.concat
    both = concat([fitted.y, y], axis=0)
    old = [member.features(fitted.x) for member in ensemble.members]

    def refit(member: Any, ridge: float) -> Any:
        return fit_readout(concat([old[member.features.member], member.features(x)], axis=0), both, ridge)[0]

    def batch(ridge: float) -> list[Any]:
        return list(ensemble.over_members(lambda member: refit(member, ridge), both.shape[0]))

    readouts, record = measured(lambda: batch(Adapt().ridge), place=case.place, repeats=case.repeats, warm_up=True)
    pairs = zip(ensemble.members, adapted, readouts, strict=True)
    return {
        "batch": record,
        "batch_least_squares": measured(lambda: batch(0.0), place=case.place)[1],
        "difference": max(_difference(member.features(x), V, W) for member, V, W in pairs),
    }


def _difference(H: Any, first: Any, second: Any) -> float:
    """Largest difference of two readouts' predictions, relative to the largest prediction."""
    one, other = to_host(H @ first), to_host(H @ second)
    return float(np.abs(one - other).max() / np.abs(other).max())


TASKS = {
    f"ours.{function.__name__}": function
    for function in (em, single, bfgs, bfgs_from_zero, predict, predict_many, calibrate, adapt)
}
