import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged
from pcarann.cli.targets import Target
from pcarann.cli.trust import Evaluated, Lowest, draw_trusts

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
    files, lowest = draw_trusts(Target(tmp_path / "trust.png", "--plots", force=False), case(kind))
    names = ["trust_u.png", "trust_t.png"] if kind == "parts" else ["trust.png"]
    assert [path.rpartition("/")[2] for path in files] == names
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    assert all(set(one.coverage) == {"sample", "local"} for one in lowest.values())
    assert list(lowest) == (["u", "t"] if kind == "parts" else [""])


def test_the_region_that_is_covered_least_is_found_with_its_coverage_by_every_method():
    shares = np.full((3, 64), 0.9)
    shares[1, 40:48] = 0.5
    found = Lowest.of({"sample": shares, "local": np.full((3, 64), 0.8)})
    assert found.where == "value 1 of axis 0, points 40 to 47 of axis 1"
    assert found.coverage == pytest.approx({"sample": 0.5, "local": 0.8})


def test_the_region_of_a_mesh_is_a_box_of_its_nodes():
    points = np.random.default_rng(0).uniform(size=(400, 2))
    corner = (points < 0.25).all(axis=1)
    found = Lowest.of({"sample": np.where(corner, 0.4, 0.9)}, points)
    assert found.where.startswith("[0.0")
    assert 0.4 <= found.coverage["sample"] < 0.5


def test_a_rim_that_is_covered_too_little_is_reported_and_local_intervals_cover_it():
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 64)
    z = rng.uniform(-1, 1, (600, 3))
    u = np.tanh(z @ np.sin(np.pi * np.outer((1, 2, 3), x))) + np.sign(np.sin(8 * z[:, :1])) * np.exp(-x / 0.03)
    model = PCARaNN(n_components=(3, 30), widths=(60, 30), n_members=8, ridge="gcv").fit(z[:200], u[:200])
    model.calibrate(z[200:300], u[200:300])
    found = Evaluated(model, z[300:], u[300:], vars(model.predict_interval(z[300:], 0.1, "sample")), 0.1, "sample")
    lowest = Lowest.of(found.shares("", u[300:]))
    assert lowest.where == "points 0 to 7 of axis 0"
    chance = 3 * (0.9 * 0.1 * (1 / 100 + 1 / 300)) ** 0.5  # of 100 calibration and 300 test samples, at one point
    assert lowest.coverage["sample"] < 0.9 - chance < lowest.coverage["local"]


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
