"""Members of a file are those that were fitted, or the file is refused."""

import numpy as np
import pytest

from pcarann import ModelFileError, PCARaNN, load
from small_models import PAIRS, attacked, saved


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


BROKEN = {
    "no sizes": ("latent", lambda d, t: d["map"].update(sizes=[4, -8, -6]), "sizes of its layers"),
    "other sizes": ("latent", lambda d, t: d["map"].update(sizes=[5, 8, 6]), "layers do not fit"),
    "scales": ("latent", lambda d, t: d["map"].update(scales=[float("nan"), 1.0]), "scales are not finite"),
    "no members": ("latent", lambda d, t: d.update(reports=[]), "do not fit together"),
    "report": ("latent", lambda d, t: d["reports"][0].update(more=1), "more"),
    "landmarks": ("kernel", lambda d, t: t.update(landmarks=t["landmarks"][:, :0]), "landmarks"),
    "unordered": ("kernel", lambda d, t: t.update(landmarks=t["landmarks"][:, ::-1]), "landmarks"),
    "trained": ("adapted", lambda d, t: d["adaptation"].update(trained=-1), "adaptation"),
    "faded": ("adapted", lambda d, t: d["adaptation"].update(faded=float("inf")), "adaptation"),
    "ridge": ("adapted", lambda d, t: d["adaptation"].update(ridge=-1.0), "adaptation"),
    "negative scores": ("latent", lambda d, t: t.update({"calibration.largest": -t["calibration.largest"]}), "scores"),
    "negative grid": ("latent", lambda d, t: d["pcas"]["output"].update(grid=[-2, -8]), "grid of its outputs"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_members_that_do_not_fit_together_are_refused(files, tmp_path, fault):
    name, change, says = BROKEN[fault]
    with pytest.raises(ModelFileError, match=says):
        load(attacked(saved(files, name), tmp_path / "m", change))


def test_a_kernel_has_its_landmarks_again(files):
    model = load(saved(files, "kernel"))
    members = model.fitted_.ensemble.members
    assert all(np.array_equal(one.features.landmarks.shape, (len(one.features.rows), 4)) for one in members)


@pytest.fixture(scope="module")
def several():
    """A calibrated model of two outputs."""
    outputs = {"u": PAIRS.outputs, "v": PAIRS.outputs[:, 0]}
    first, rest = ({name: part[rows] for name, part in outputs.items()} for rows in (slice(40), slice(40, None)))
    model = PCARaNN(n_components=4, widths=(8, 6), n_members=2, scales=(0.3, 0.3))
    return model.fit(PAIRS.inputs[:40], first).calibrate(PAIRS.inputs[40:], rest)


def test_outputs_that_have_more_values_than_their_grid_are_refused(several, tmp_path):
    several.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="calibration does not fit"):
        load(attacked(tmp_path / "m", tmp_path / "n", lambda d, t: d["calibration"].update(sizes=[8, 10**9])))


def test_several_outputs_on_another_grid_come_back(several, tmp_path):
    moved = several.on((15,))
    moved.save(tmp_path / "moved")
    assert load(tmp_path / "moved").fitted_.calibration.sizes == moved.fitted_.calibration.sizes == (30, 15)
