"""What a fit says of itself."""

import math

from pcarann.spatial.chain import Step
from pcarann.spatial.channels import Channels
from pcarann.spatial.choice import Settled, Trial
from pcarann.spatial.layout import Layout
from pcarann.spatial.report import StagesReport

LAYOUT = Layout.of((16,), (10, 16)).ending(("free", "periodic"), (False, False))
SETTLED = Settled(LAYOUT, Channels(smoothed=math.inf), (Trial("as usual", 0.5), Trial("smoothed", 0.25)))


def test_a_report_tells_what_was_settled_and_gained():
    steps = (Step(1e-3, 0.1, 0.5), Step(1e-6, 0.05, 0.25))
    assert str(StagesReport("mean field", 0.4, SETTLED, steps, 20)).splitlines() == [
        "axes of space: -2 free, -1 periodic",
        "channels: products True, smoothed inf, reach 1, singles 4, gain 0.3, single False",
        "  tried as usual: 0.5",
        "  tried smoothed: 0.25",
        "start: mean field, error 0.4 on 20 samples held out",
        "stage 1: error 0.1, 4 times less, ridge 1e-03, 0.50 s",
        "stage 2: error 0.05, 2 times less, ridge 1e-06, 0.25 s",
    ]


def test_a_report_says_that_no_stage_helped():
    assert str(StagesReport("input", 0.0, SETTLED, (), 20)).splitlines()[-1] == "no stage lowered it"


def test_an_error_of_nothing_is_no_gain():
    last = str(StagesReport("input", 0.0, SETTLED, (Step(1e-3, 0.0), Step(1e-3, math.inf)), 20)).splitlines()[-2:]
    assert last == ["stage 1: error 0, ridge 1e-03, 0.00 s", "stage 2: error inf, ridge 1e-03, 0.00 s"]
