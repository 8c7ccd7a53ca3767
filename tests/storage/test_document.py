import hashlib
import json
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open

from conftest import smooth_pairs
from pcarann import PCARaNN, load
from pcarann.backend.arrays import place_of
from pcarann.backend.random import uniform
from small_models import PAIRS, saved

HOST = place_of(None)
SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 2, "scales": "energy"}


@pytest.mark.parametrize(
    "options", [{"random_state": 10**64}, {"n_components": Fraction(9, 10)}], ids=["many zeros", "fraction"]
)
def test_numbers_of_any_kind_come_back_from_a_file(pairs, tmp_path, options):
    model = PCARaNN(**SMALL | options).fit(*pairs[:90])
    wanted = model.predict(pairs.inputs[90:])
    for _ in range(10):  # the order in which a file names what it holds is chance
        model.save(tmp_path / "model.pcarann")
        assert np.array_equal(load(tmp_path / "model.pcarann").predict(pairs.inputs[90:]), wanted)


MEMBERS, WIDTHS = 4, (90, 30)


@pytest.fixture(scope="module")
def ten_lines(tmp_path_factory):
    """The README's model, smaller: fitted, calibrated, adapted and saved; with its data, and its calibration before."""
    pairs = smooth_pairs(720, points=150)
    model = PCARaNN(n_components=(6, 20), widths=WIDTHS, n_members=MEMBERS).fit(*pairs[:400])
    model.calibrate(*pairs[400:700])
    model.partial_fit(*pairs[400:700])
    path = tmp_path_factory.mktemp("files") / "model.pcarann"
    model.save(path)
    return model, path, pairs


def test_a_file_holds_no_matrices_of_features_by_features(ten_lines):
    features = sum(WIDTHS)
    with safe_open(ten_lines[1], framework="np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert [name for name, shape in shapes.items() if shape.count(features) > 1] == []


def test_a_file_is_little_larger_than_what_it_must_hold(ten_lines):
    model, path, _ = ten_lines
    features, values = sum(WIDTHS), 2 * 150
    weighting = model.input_pca_.n_components + model.output_pca_.n_components
    rows = (400 + 700) * weighting  # training rows, and all rows that were learned from
    members = 2 * MEMBERS * features * model.output_pca_.n_components  # readouts, and those that adaptation began with
    modes, scores = (weighting + 4) * values, 2 * 20_000  # modes and means; scores and their ranks
    assert path.stat().st_size <= 1.1 * 8 * (rows + members + modes + scores) + 50_000  # anchors, text: small


def test_calibration_scores_in_a_file_are_few(ten_lines):
    with safe_open(ten_lines[1], framework="np") as file:
        sizes = [np.prod(file.get_slice(name).get_shape()) for name in file.keys() if "calibration" in name]  # noqa: SIM118
    assert 0 < max(sizes) <= 20_000  # of 90 000


def test_adaptation_goes_on_from_a_small_file(ten_lines):
    model, path, pairs = ten_lines
    loaded = load(path).partial_fit(*pairs[700:710])
    loaded.save(path.with_name("again.pcarann"))
    found = load(path.with_name("again.pcarann")).partial_fit(*pairs[710:720]).predict(pairs.inputs[:50])
    model.partial_fit(*pairs[700:710]).partial_fit(*pairs[710:720])
    wanted = model.predict(pairs.inputs[:50])
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()  # sums made again, in another order


def read_by_the_page(path, a):
    """The mean of a latent model, read and computed as docs/model_file.md says, but for the generator."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header, where = json.loads(raw[8:start]), raw.index(b'"sha256":"') + 10
    blank = raw[:where] + b"0" * 64 + raw[where + 64 :]
    assert hashlib.sha256(blank).hexdigest().encode() == raw[where : where + 64]
    document = json.loads(header.pop("__metadata__")["pcarann"])
    t = {}
    for name, said in header.items():
        begin, end = said["data_offsets"]
        kind = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}[said["dtype"]]
        t[name] = np.frombuffer(raw[start + begin : start + end], kind).reshape(said["shape"])
    x = (a / document["units"]["inputs"] - t["input.mean"]) * t.get("input.weights", 1.0) @ t["input.modes"].T
    z = x @ t["latent.relevance"] if "latent.relevance" in t else x
    (d, n1, n2), seed, (r1, r2) = (document["map"][name] for name in ("sizes", "seed", "scales"))
    y = []
    for k, V in enumerate(t["coefficients"]):
        shapes = ((n1, d), (n2, n1))
        W1, W2 = (uniform(shapes[i], seed=seed, stream=(k, i + 1), place=HOST, low=-1.0, high=1.0) for i in (0, 1))
        h1 = np.tanh(r1 * (z @ W1.T - t["anchors1"][k]))
        h2 = np.tanh(r2 * (h1 @ W2.T - t["anchors2"][k]))
        y.append(np.concatenate([h1, h2] + ([x * t["latent.linear"]] if "latent.linear" in t else []), axis=1) @ V)
    return document["units"]["outputs"] * (t["output.mean"] + np.mean(y, axis=0) @ t["output.modes"])


@pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")
@pytest.mark.parametrize("name", ["latent", "adapted"])
def test_a_file_is_read_as_its_page_says(tmp_path, name):
    path = saved(tmp_path, name)
    found = load(path).predict(PAIRS.inputs).reshape(len(PAIRS.inputs), -1)
    assert np.allclose(read_by_the_page(path, PAIRS.inputs), found, rtol=0, atol=1e-9)
