import dask.array as da
import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged
from pcarann.scale import limited

ANGLE = np.random.default_rng(0).uniform(0, 6, (40, 1)) + 0.5 * np.arange(8)
WAVE = np.cos(ANGLE[:, :, None] + np.linspace(0, 6, 72)).reshape(40, 8, 8, 9)
STEP = PCARaNN(n_components=2, widths=(20, 10), n_members=2, ridge=1e-8, scales="energy")


def lazily(array, samples, space=8):
    return da.from_array(array, chunks=(samples, 3, space, 9))


@pytest.mark.parametrize(("model", "within"), [(STEP, 1e-7), (Staged(n_features=4, n_stages=1, n_members=1), 1e-9)])
def test_a_flow_of_lazy_trajectories_is_that_in_memory(model, within):
    known = Marching(model).fit(WAVE[:, :4], WAVE[:, 4:])
    with limited("40MB"):
        found = Marching(model).fit(lazily(WAVE[:, :4], 7), lazily(WAVE[:, 4:], 12, 3))
    assert np.abs(found.predict(WAVE[:, :4]) - known.predict(WAVE[:, :4])).max() < within
    assert found.rollout_report_.chosen == known.rollout_report_.chosen
    assert found.rollout_report_.error == pytest.approx(known.rollout_report_.error, abs=1e-6)
    reached, wanted = found.marched_.reach, known.marched_.reach
    assert (reached.largest, reached.norm) == pytest.approx((wanted.largest, wanted.norm), rel=1e-12)


def test_lazy_trajectories_that_cannot_be_learned_are_refused():
    X, y = lazily(WAVE[:, :4], 7), lazily(WAVE[:, 4:], 7)
    with pytest.raises(ValueError, match="without controls"):
        Marching(STEP).fit(X, y, controls=np.ones((40, 7, 1)))
    with pytest.raises(ValueError, match=r"of shape \(samples, times, \*grid\), found \(40, 4\)"):
        Marching(STEP).fit(X[:, :, 0, 0], y)
    with pytest.raises(ValueError, match="on the same grid"):
        Marching(STEP).fit(X, y[:, :, :3])
