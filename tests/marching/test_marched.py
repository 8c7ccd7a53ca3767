"""The record of a flow: its roll-out, and the way to a file and back."""

from flows import LinearStep, waves

from pcarann import Marching
from pcarann.marching.marched import Marched
from pcarann.marching.watch import Reach


def record():
    u = waves(20, times=8)
    return Marching(LinearStep(), step=2, choose=False).fit(u[:, :3], u[:, 3:])


def test_its_roll_out_is_that_of_the_step_over_the_window():
    marched = record().marched_
    flow = marched.flow()
    assert (flow.step, flow.window, flow.model) == (2, 5, marched.model.fitted_)


def test_what_is_described_is_rebuilt():
    model = record()
    marched = model.marched_
    rebuilt = Marched.rebuilt(marched.described(model, {}), marched.model, None)
    assert rebuilt == marched


def test_what_older_files_lack_stays_unknown():
    model = record()
    told = model.marched_.described(model, {})
    old = {name: told[name] for name in ("step", "window", "calibrated")}
    rebuilt = Marched.rebuilt(old, model.model_, None)
    assert (rebuilt.reach, rebuilt.report, rebuilt.n_controls, rebuilt.seconds) == (None, None, 0, {})
    assert isinstance(model.marched_.reach, Reach)
