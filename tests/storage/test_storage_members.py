"""Members of a file are those that were fitted, or the file is refused."""

import numpy as np
import pytest

from pcarann import ModelFileError, load
from small_models import attacked, saved


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
    "giant outputs": ("outputs", lambda d, t: d["calibration"].update(sizes=[16, 10**9]), "calibration does not fit"),
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


def test_several_outputs_on_another_grid_come_back(files, tmp_path):
    moved = load(saved(files, "outputs")).on((31,))
    moved.save(tmp_path / "moved")
    assert load(tmp_path / "moved").fitted_.calibration.sizes == moved.fitted_.calibration.sizes == (31, 31)
