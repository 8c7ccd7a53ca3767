"""Stages come back from a file bit for bit; a document that describes none is refused."""

import math
import subprocess
import sys

import numpy as np
import pytest

from conftest import rewritten
from pcarann import Grid, ModelFileError, PCARaNN, Staged, load
from pcarann.spatial.channels import Channels
from pcarann.storage.container import read
from pcarann.symmetry.generators import Symmetry
from random_fields_in_space import held, local, planes, waves

pytestmark = pytest.mark.filterwarnings("ignore:.*outside the (range of the )?training data")
A = waves(80, 16)
U = local(A)
LINE = np.concatenate([A, A[:, :1] + 3], axis=1)
PLANE = planes(40, (9, 9))
QUICK = dict(n_stages=2, n_features=10, n_members=2, channels=Channels(singles=8))
BASE = PCARaNN(n_components=4, widths=(8, 6), n_members=2, scales=("gain", 0.5, 0.5))


def steep(a, u):
    return np.tanh(3 * a) + u


def quick(**changes):
    return Staged(**{**QUICK, **changes})


def pair(name):
    return {"zero": (LINE, held(LINE)), "free": (LINE, np.tanh(LINE)), "square": (PLANE, np.tanh(PLANE))}.get(
        name, (A, U)
    )


KINDS = {
    "mean": dict(model="mean"),
    "input": dict(model="input"),
    "model": dict(model=BASE),
    "settled": dict(model=None, channels=None, n_members=1),
    "zero": dict(grid=Grid("zero")),
    "free": dict(grid=Grid("free", axes=(-1,)), channels=Channels(smoothed=math.inf, reach=2, singles=8)),
    "square": dict(symmetry=Symmetry.dihedral(), channels=Channels(singles=2, smoothed=0.1)),
    "part of a symmetry": dict(symmetry=Symmetry.shifts(-1).using(fit=3, predict=2)),
    "adaptable": dict(adaptable=True, model="mean"),
    "components": dict(model="mean", grid=Grid(("periodic",), axes=(-1,))),
}
every_kind = pytest.mark.parametrize("name", list(KINDS))


@pytest.fixture(scope="module")
def fitted():
    """Models of all kinds, made when they are first asked for."""
    made = {}

    def of(name):
        if name not in made:
            a, u = pair(name)
            made[name] = quick(**KINDS[name]).fit(a[:30], u[:30]).calibrate(a[30:], u[30:])
        return made[name]

    return of


def test_a_fresh_process_predicts_the_same_bits(fitted, tmp_path):
    for name in KINDS:
        fitted(name).save(tmp_path / f"{name}.model")
        np.save(tmp_path / f"{name}.in.npy", pair(name)[0][30:])
    code = (
        "import pathlib, sys, warnings, numpy as np, pcarann\n"
        "warnings.simplefilter('ignore')\n"
        "for path in pathlib.Path(sys.argv[1]).glob('*.model'):\n"
        "    model, a = pcarann.load(path), np.load(path.with_suffix('.in.npy'))\n"
        "    band = model.predict_interval(a, 0.2)\n"
        "    np.save(path.with_suffix('.npy'), np.stack([band.mean, band.std, band.lower, band.upper]))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True)
    for name in KINDS:
        band = fitted(name).predict_interval(pair(name)[0][30:], 0.2)
        expected = np.stack([band.mean, band.std, band.lower, band.upper])
        assert np.load(tmp_path / f"{name}.npy").tobytes() == expected.tobytes(), name


@every_kind
def test_parameters_and_the_report_come_back(fitted, tmp_path, name):
    model = fitted(name)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    one, two = model.get_params(deep=False), again.get_params(deep=False)
    assert repr(one.pop("symmetry")) == repr(two.pop("symmetry"))
    start = one.pop("model")
    settled = {"mean field": "mean", "input": "input"}.get(model.stages_.start)  # of a start that was left open
    assert repr(two.pop("model")) == repr(settled if start is None else start)
    assert one == two
    assert str(again.stages_) == str(model.stages_)
    assert again.stages_ == model.stages_
    assert again.fit_seconds_ == model.fit_seconds_
    for part in ("samples", "state", "calibrated", "units", "value_range", "output_size"):
        assert getattr(again.fitted_, part) == getattr(model.fitted_, part)


@every_kind
def test_a_loaded_model_fits_to_the_same_model_and_saves_to_the_same_file(fitted, tmp_path, name):
    model = fitted(name)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    again.save(tmp_path / "n")
    one, two = (read(tmp_path / file) for file in ("m", "n"))
    assert one[0] == two[0]
    assert one[1].keys() == two[1].keys()
    assert all(np.array_equal(part, two[1][key]) for key, part in one[1].items())
    a, u = pair(name)
    assert np.allclose(again.fit(a[:30], u[:30]).predict(a[30:]), model.predict(a[30:]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("boundary", ["periodic", "free"])
def test_adaptation_goes_on_after_loading(tmp_path, boundary):
    model = quick(adaptable=True, model="mean", grid=Grid(boundary)).fit(A[:30], U[:30]).partial_fit(A[30:40], U[30:40])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    one, two = (some.partial_fit(A[40:60], U[40:60], forgetting=0.9).predict(A) for some in (model, again))
    assert np.array_equal(one, two)


def test_sums_are_stored_only_where_they_were_kept(fitted, tmp_path):
    sizes = []
    for name in ("mean", "adaptable"):
        fitted(name).save(tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] > 1.5 * sizes[0]
    with pytest.raises(ValueError, match="adaptable=True"):
        load(tmp_path / "mean").partial_fit(A, U)


def test_terms_are_handed_to_load_again(tmp_path):
    model = quick(terms=[steep, np.multiply]).fit(A[:30], U[:30])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", terms=[steep, np.multiply])
    assert np.array_equal(again.predict(A), model.predict(A))
    assert list(again.terms) == [steep, np.multiply]
    for wrong in ((), [steep]):
        with pytest.raises(ValueError, match=r"fitted with terms steep, multiply: hand them to load\(path") as refused:
            load(tmp_path / "m", terms=wrong)
        assert not isinstance(refused.value, ModelFileError)


def test_terms_for_a_model_without_any_are_refused(fitted, tmp_path):
    fitted("mean").save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"m: it was fitted without terms"):
        load(tmp_path / "m", terms=[steep])


def test_a_model_without_stages_comes_back(tmp_path):
    model = quick().fit(A[:30], np.ones((30, 16)) * np.arange(16.0))
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(A), model.predict(A))


def test_a_model_on_torch_loads_as_numpy(tmp_path, torch_computes):
    torch = pytest.importorskip("torch")
    model = quick(model="mean").fit(torch.asarray(A[:30]), torch.asarray(U[:30]))
    model.save(tmp_path / "m")
    found = load(tmp_path / "m").predict(A)
    assert isinstance(found, np.ndarray)
    assert np.allclose(found, model.predict(A), rtol=0, atol=1e-10)


@pytest.mark.parametrize("state", [None, np.random.default_rng(0), np.random.RandomState(0)])
def test_any_random_state_can_be_saved(tmp_path, state):
    model = quick(random_state=state).fit(A[:30], U[:30])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict(A), model.predict(A))
    assert again.random_state is None or isinstance(again.random_state, int)


def test_a_start_that_no_file_holds_is_refused(tmp_path):
    from sklearn.neighbors import KNeighborsRegressor

    model = quick(model=KNeighborsRegressor(2)).fit(A[:30], U[:30])
    with pytest.raises(ValueError, match=r"^Stages that start from a KNeighborsRegressor cannot be saved: "):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


# Damage that no checksum tells


def of(name, change):
    return lambda document, tensors: tensors.update({name: change(tensors[name])})


def without(*names):
    return lambda document, tensors: [tensors.pop(name) for name in names]


def saying(**parts):
    return lambda document, tensors: document.update(parts)


def in_part(part, **changes):
    return lambda document, tensors: document[part].update(changes)


DAMAGE = {
    "readout of another shape": ("mean", of("stage.0.0.readout", lambda t: t[:, :-1])),
    "readout of another type": ("mean", of("stage.0.0.readout", lambda t: t.astype(np.float32))),
    "readout that is not complex": ("mean", of("stage.0.0.readout", lambda t: t[..., 0])),
    "readout of no numbers": ("mean", of("stage.1.1.readout", lambda t: t * np.nan)),
    "no readout": ("mean", without("stage.0.1.readout")),
    "no mixing": ("mean", without("stage.0.0.mixing")),
    "shift and scale apart": ("mean", of("stage.0.0.shift", lambda t: t[:-1])),
    "fewer channels": ("mean", lambda document, tensors: fewer_channels(tensors)),
    "fewer fields": ("mean", of("stage.0.0.mixing", lambda t: t[:-1])),
    "mixing of no numbers": ("mean", of("stage.0.0.mixing", lambda t: t * np.nan)),
    "scale of no numbers": ("mean", of("stage.0.0.scale", lambda t: t * np.inf)),
    "mean of another size": ("mean", of("start.mean", lambda t: t[:-1])),
    "mean of no numbers": ("mean", of("start.mean", lambda t: t * np.nan)),
    "no mean": ("mean", without("start.mean")),
    "no chains": ("mean", saying(ridges=[])),
    "more stages": ("mean", saying(ridges=[[1e-3] * 3] * 2)),
    "ridges that are words": ("mean", saying(ridges=[["a", "b"]] * 2)),
    "an unknown start": ("mean", saying(start="PCARaNN")),
    "no layout": ("mean", saying(layout=None)),
    "another space": ("mean", in_part("layout", space=[-2])),
    "no space": ("mean", in_part("layout", space=[], boundaries=[], closed=[])),
    "unknown ends": ("mean", in_part("layout", boundaries=["round"])),
    "more ends": ("mean", in_part("layout", boundaries=["free", "free"])),
    "another grid": ("mean", in_part("layout", output_grid=[17])),
    "a grid below nothing": ("mean", in_part("layout", output_grid=[-16], input_grid=[-16])),
    "a giant grid": ("input", in_part("layout", output_grid=[10**9], input_grid=[10**9])),
    "another input grid": ("mean", in_part("layout", input_grid=[3, 5])),
    "more layout": ("mean", in_part("layout", more=[1])),
    "units of nothing": ("mean", in_part("units", inputs=0.0)),
    "units of no number": ("mean", in_part("units", outputs=float("nan"))),
    "no range": ("mean", saying(value_range=[])),
    "a size of no number": ("mean", saying(output_size=float("inf"))),
    "unknown channels": ("mean", in_part("channels", reach="far")),
    "more of channels": ("mean", in_part("channels", more=1)),
    "sums of one member": ("adaptable", saying(sums=1)),
    "sums that are missing": ("adaptable", without("sums.0.gram")),
    "sums of another shape": ("adaptable", of("sums.0.gram", lambda t: t[:, :-1])),
    "moments of another shape": ("adaptable", of("sums.1.moment", lambda t: t[:-1])),
    "fixed fields of another shape": ("input", of("fixed", lambda t: t[:, :-1])),
    "no fixed fields": ("input", without("fixed")),
    "no inner model": ("model", lambda document, tensors: document.pop("model")),
    "a broken inner model": ("model", lambda document, tensors: document["model"].pop("map")),
    "no inner readout": ("model", without("model/coefficients")),
    "no element": ("square", in_part("symmetry", averaged=[])),
    "an element too many": ("square", in_part("symmetry", copied=[0, 9])),
    "tables of another grid": ("square", of("symmetry.input", lambda t: np.array(len(t) * [[1, 2, 3]], dtype=t.dtype))),
    "no tables": ("square", without("symmetry.output")),
    "another calibration": ("mean", in_part("calibration", points=15)),
    "no report": ("mean", saying(report={})),
    "no parameters": ("mean", saying(parameters={})),
    "unknown parameters": ("mean", in_part("parameters", colour="red")),
    "parameters that are none": ("mean", saying(parameters=[1])),
}  # fmt: skip


def fewer_channels(tensors):
    """All parts of a stage agree with each other, but not with what stages see."""
    for m, s in ((0, 0), (0, 1), (1, 0), (1, 1)):
        name, features = f"stage.{m}.{s}", 10
        if f"{name}.shift" in tensors:
            channels = len(tensors[f"{name}.shift"]) - 1
            tensors[f"{name}.shift"], tensors[f"{name}.scale"] = np.zeros(channels), np.ones(channels)
            tensors[f"{name}.mixing"] = tensors[f"{name}.mixing"][: 2 * channels].copy()
            tensors[f"{name}.readout"] = tensors[f"{name}.readout"][:, : features + channels + 1].copy()


@pytest.mark.parametrize(("name", "change"), list(DAMAGE.values()), ids=list(DAMAGE))
def test_a_damaged_document_is_refused(fitted, tmp_path, name, change):
    fitted(name).save(tmp_path / "m")
    rewritten(tmp_path / "m", change)
    with pytest.raises(ModelFileError, match="does not describe a model"):
        load(tmp_path / "m")


def test_rewriting_without_a_change_is_no_damage(fitted, tmp_path):
    fitted("mean").save(tmp_path / "m")
    rewritten(tmp_path / "m", lambda document, tensors: None)
    assert np.array_equal(load(tmp_path / "m").predict(A), fitted("mean").predict(A))


def test_a_file_cut_short_or_changed_is_refused(fitted, tmp_path):
    fitted("mean").save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    for damaged in (content[: len(content) // 2], content[:-1], content[:-9] + b"\x01" + content[-8:]):
        (tmp_path / "m").write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load(tmp_path / "m")
