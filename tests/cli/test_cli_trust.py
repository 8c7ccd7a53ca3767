import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged
from pcarann.cli.targets import Target
from pcarann.cli.trust import Evaluated, draw_trusts

SMALL = dict(n_components=3, widths=(10, 6), n_members=3, scales="energy")


def case(kind, method="sample"):
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, size=(90, 3))
    u = np.sin(a @ rng.normal(size=(3, 12)))
    model, X, y = PCARaNN(**SMALL), a, u
    if kind == "parts":
        X, y = {"a": a}, {"u": u, "t": u[:, 0]}
    elif kind == "stages":
        model, X = Staged(n_stages=1, n_features=6, n_members=2), np.arcsin(u)
    elif kind == "flow":
        model = Marching(PCARaNN(**SMALL), choose=False)
        y = np.stack([u * 0.9**t for t in range(1, 4)], axis=1)
        X = u[:, None]

    def some(value, rows):
        return {name: part[rows] for name, part in value.items()} if isinstance(value, dict) else value[rows]

    train, held, test = slice(0, 40), slice(40, 70), slice(70, 90)
    model.fit(some(X, train), some(y, train)).calibrate(some(X, held), some(y, held))
    found = vars(model.predict_interval(some(X, test), 0.1, method))
    return Evaluated(model, some(X, test), some(y, test), found, 0.1, method)


@pytest.mark.parametrize("kind", ["table", "parts", "stages", "flow"])
def test_every_surrogate_is_drawn_each_output_on_its_own(kind, tmp_path):
    files = draw_trusts(Target(tmp_path / "trust.png", "--plots", force=False), case(kind))
    names = ["trust_u.png", "trust_t.png"] if kind == "parts" else ["trust.png"]
    assert [path.rpartition("/")[2] for path in files] == names
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)


def test_shares_are_those_of_the_intervals_and_levels_without_samples_are_left_out():
    found = case("table", "simultaneous")
    bands = found.bands()
    assert max(bands) == 0.95  # 30 calibration samples are too few for 99 %
    band = found.model.predict_interval(found.inputs, 0.1, "simultaneous")
    whole = ((band.lower <= found.truth) & (found.truth <= band.upper)).all(axis=1)
    assert found.share(bands[0.9], "", found.truth) == whole.mean()
    assert found.p_values().shape == (20,)


def test_a_model_that_is_not_calibrated_has_no_intervals():
    found = case("table")
    bare = Evaluated(found.model, found.inputs, found.truth, {"mean": found.found["mean"]}, 0.1, "sample")
    assert bare.bands() == {}
