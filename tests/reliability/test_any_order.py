"""Fit, calibrate, partial_fit, observe, save, load and predict in any order, of every kind of surrogate.

Beside the model goes what is known of it: which samples it has learned since its fit, and what it was calibrated with.
Whatever came in between, it must predict as one that was fitted and then learned all of these samples in one block.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.exceptions import NotFittedError

from conftest import periodic_pairs
from pcarann import Marching, PCARaNN, Staged, load
from pcarann.spatial.channels import Channels
from random_fields_in_space import local, waves

LATENT = dict(n_components=4, widths=(8, 6), n_members=2, scales=(0.3, 0.3))
A = waves(80, 16)
STATES = np.stack([A * 0.9**time for time in range(3)], axis=1)
KINDS = {
    "latent": (lambda: PCARaNN(**LATENT), periodic_pairs(80, points=8)[:]),
    "stages": (
        lambda: Staged("mean", adaptable=True, n_stages=1, n_features=8, n_members=2, channels=Channels(singles=4)),
        (A, local(A)),
    ),
    "flow": (lambda: Marching(PCARaNN(**LATENT), choose=False), (STATES[:, :1], STATES[:, 1:])),
}
blocks = st.integers(40, 64).flatmap(lambda start: st.integers(1, 5).map(lambda count: slice(start, start + count)))
trained = st.sampled_from([slice(0, 30), slice(5, 40)])


@dataclass(frozen=True)
class Known:
    """What a model has been told."""

    trained: slice | None = None
    learned: tuple[slice, ...] = ()
    calibrated: bool = False
    met: int = 0
    """Samples that came since the calibration"""


class AnyOrder(RuleBasedStateMachine):
    """Calls of one model, in an order that hypothesis chooses."""

    kind = ""

    def __init__(self):
        super().__init__()
        warnings.simplefilter("ignore")  # of samples outside the data, known ones and drifts: other tests read these
        self.make, (self.inputs, self.outputs) = KINDS[self.kind]
        self.model, self.known, self.kept = self.make(), Known(), None
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "m.pcarann"

    def teardown(self):
        self.folder.cleanup()

    def call(self, name, rows):
        return getattr(self.model, name)(self.inputs[rows], self.outputs[rows])

    @initialize(rows=trained)
    def begin(self, rows):
        """Of a model that is not fitted, `partial_fit` is `fit`, and all else is refused."""
        for name in ("calibrate", "observe", "score", "predict_interval"):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                self.call(name, rows)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            self.model.save(self.path)
        assert self.call("partial_fit", rows) is self.model
        self.known = Known(rows)

    @rule(rows=trained)
    def fit(self, rows):
        self.call("fit", rows)
        self.known = Known(rows)

    @rule(start=st.integers(40, 50))
    def calibrate(self, start):
        self.call("calibrate", slice(start, start + 20))
        self.known = replace(self.known, calibrated=True, met=0)

    @rule(rows=blocks)
    def observe(self, rows):
        self.call("observe", rows)
        self.known = replace(self.known, met=self.known.met + rows.stop - rows.start)

    @rule(rows=blocks)
    def partial_fit(self, rows):
        self.call("partial_fit", rows)
        met = self.known.met + rows.stop - rows.start
        self.known = replace(self.known, learned=(*self.known.learned, rows), met=met)

    @rule(name=st.sampled_from(["fit", "calibrate", "partial_fit", "observe"]))
    def refused(self, name):
        """Samples that are no numbers change nothing, whichever call gets them: the invariants look."""
        with pytest.raises(ValueError, match="NaN"):
            getattr(self.model, name)(self.inputs[40:45], np.full_like(self.outputs[40:45], np.nan))

    @rule()
    def save(self):
        self.model.save(self.path)
        self.kept = self.known

    @rule()
    @precondition(lambda self: self.kept)
    def load(self):
        """Back to what was saved, which may be long ago."""
        self.model, self.known = load(self.path), self.kept

    @invariant()
    def all_calls_answer_as_they_should(self):
        if self.known.trained is None:  # hypothesis looks before the first call
            return
        rows = self.inputs[70:]
        found, wanted = self.model.predict(rows), expected(self.kind, self.known)
        assert np.allclose(found, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
        if not self.known.calibrated:
            with pytest.raises(ValueError, match="calibrate"):
                self.model.predict_interval(rows)
            return
        assert self.model.monitor.observed == self.known.met  # each sample that came was met once
        narrow, wide = (self.model.predict_interval(rows, alpha=alpha) for alpha in (0.5, 0.2))
        assert np.array_equal(narrow.mean, found)
        assert (narrow.upper <= wide.upper).all()
        assert (wide.lower <= narrow.lower).all()
        assert np.isfinite(wide.upper - wide.lower).all()


_expected = {}


def expected(kind, known):
    """Predictions after one fit and one block of all that was learned."""
    key = (kind, known.trained.start, *((rows.start, rows.stop) for rows in known.learned))
    if key not in _expected:
        make, (inputs, outputs) = KINDS[kind]
        twin = make().fit(inputs[known.trained], outputs[known.trained])
        rows = [row for one in known.learned for row in range(one.start, one.stop)]
        if rows:
            twin.partial_fit(inputs[rows], outputs[rows])
        _expected[key] = twin.predict(inputs[70:])
    return _expected[key]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_in_any_order_leave_what_they_should(kind):
    machine = type(kind, (AnyOrder,), {"kind": kind})
    with warnings.catch_warnings():
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=8, stateful_step_count=14, deadline=None, derandomize=True, database=None),
        )
