"""A small file cannot ask for large memory: sizes that it says are counted before anything is made of them."""

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from pcarann import ModelFileError, load
from pcarann.storage.limits import Allowance, shape_of
from small_models import MAKERS, PAIRS, attacked, saved

pytestmark = pytest.mark.filterwarnings("ignore:.*outside the (range of the )?training data")
DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def one_member(document, tensors):
    document["reports"] = document["reports"][:1]
    for name in ("anchors1", "anchors2", "coefficients"):
        tensors[name] = tensors[name][:1]


def wide(first, second, document, tensors):
    one_member(document, tensors)
    document["map"]["sizes"][1:] = first, second
    tensors |= {"anchors1": np.zeros((1, first)), "anchors2": np.zeros((1, second))}
    terms = first + second + tensors.get("latent.linear", np.zeros(0)).size
    tensors["coefficients"] = np.zeros((1, terms, tensors["coefficients"].shape[2]))


def wide_layers(document, tensors):
    wide(20_000, 20_000, document, tensors)


def many_kept(document, tensors):
    """Sixty members of 2 MB each are no more than 64 kB in the file."""
    wide(500, 600, document, tensors)
    document["reports"] *= 200
    for name in ("anchors1", "anchors2", "coefficients"):
        tensors[name] = np.repeat(tensors[name], 200, axis=0)


def long_smoothing(document, tensors):
    n = 40_000
    document["pcas"]["input"]["grid"] = [n]
    tensors |= {"input.mean": np.zeros(n), "input.modes": np.zeros((len(tensors["input.modes"]), n))}
    document["smoothing"] = [0.1, [False]]
    document["view"] = document["edge"] = None


def many_rows(document, tensors):
    wide(30_000, 4, document, tensors)
    rows = 30_000
    tensors["adaptation.own"] = np.zeros(rows)
    for part in ("x", "y"):
        tensors[f"adaptation.{part}"] = np.zeros((rows - len(tensors[part]), tensors[part].shape[1]))
    tensors["adaptation.priors"] = tensors["coefficients"]


def old_kernel(document, tensors):
    rows, members = 3400, 40
    document["samples"] = rows
    document["reports"] = document["reports"][:1] * members
    for part in ("x", "y"):
        tensors[part] = np.random.default_rng(0).standard_normal((rows, tensors[part].shape[1]))
    terms = 3000 + (tensors["x"].shape[1] if "latent.linear" in tensors else 0)
    tensors["readouts"] = np.zeros((members, terms, tensors["y"].shape[1]))


def large_grid(document, tensors):
    for side in ("input", "output"):
        document["layout"][f"{side}_grid"] = [10**9]


def many_points(document, tensors):
    """A grid that the file holds, times features that it holds."""
    n, features = 60_000, 20_000
    for side in ("input", "output"):
        document["layout"][f"{side}_grid"] = [n]
    tensors["start.mean"] = np.zeros(n)
    mixing, readout = tensors["stage.0.0.mixing"], tensors["stage.0.0.readout"]
    tensors["stage.0.0.mixing"] = np.zeros((len(mixing), features))
    tensors["stage.0.0.biases"] = np.zeros(features)
    more = features + len(tensors["stage.0.0.shift"]) + 1
    tensors["stage.0.0.readout"] = np.zeros((1, more, *readout.shape[2:]))
    document["channels"]["singles"] = 0


def many_components(document, tensors):
    for side in ("input", "output"):
        document["layout"][f"{side}_grid"] = [20_000, 16]
    tensors["start.mean"] = np.zeros(20_000 * 16)


def many_chains(document, tensors):
    document["ridges"] = [[] for _ in range(200_000)]
    document["evolving"] = False


def star(document, tensors):
    """A node in every cell has all others beside it."""
    nodes = 20_000
    angles = np.linspace(0, 2 * np.pi, nodes - 1, endpoint=False)
    ring = np.arange(1, nodes)
    document["layout"] |= {"input_grid": [nodes], "output_grid": [nodes]}
    document["layout"]["mesh"]["cells"] = ["triangle"]
    tensors["mesh.points"] = np.concatenate([[[0.0, 0.0]], np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    tensors["mesh.cells.triangle"] = np.stack([0 * ring, ring, np.roll(ring, -1)], axis=1)
    tensors |= {"mesh.values": np.zeros(1), "mesh.functions": np.ones((1, nodes)) / np.sqrt(np.pi)}


def long_window(document, tensors):
    document["marching"]["window"] = 10**8


def long_words(document, tensors):
    """One long word among many short ones makes all of them as long."""
    coords = {"c": {"dims": ["x"], "kind": "U", "dtype": "<U1", "values": ["y" * 100_000] + ["x"] * 50_000}}
    coords["c"]["shape"] = [50_001]
    part = {"name": "a", "grid": [8], "columns": [], "label": {"name": None, "dims": ["x"], "coords": coords}}
    side = {"parts": [part], "single": True, "samples": "sample"}
    document["packing"] = {"inputs": side, "outputs": side, "mesh": None, "coded": None, "scales": None}


ATTACKS = {
    "hidden weights": ("latent", wide_layers, "hidden weights"),
    "hidden weights of many members": ("latent", many_kept, "hidden weights"),
    "smoothing": ("smoothed", long_smoothing, "smoothing"),
    "adaptation": ("adapted", many_rows, "adaptation"),
    "kernel of old": (DATA / "format2-kernel.model", old_kernel, "factors of its kernel"),
    "grid": ("input", large_grid, "one sample on its grid"),
    "features": ("mean", many_points, "features of one sample"),
    "components": ("mean", many_components, "products of its channels"),
    "chains": ("mean", many_chains, "200000 members"),
    "mesh": ("mesh", star, "stencils of its mesh"),
    "window": ("marching", long_window, "roll-out over its window"),
    "words": ("latent", long_words, "coordinates"),
}


@pytest.mark.filterwarnings("ignore:This model")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_small_file_that_asks_for_large_memory_is_refused_at_once(files, tmp_path, attack):
    source, change, says = ATTACKS[attack]
    path = attacked(source if isinstance(source, Path) else saved(files, source), tmp_path / "attack", change)
    tracemalloc.start()
    began = time.monotonic()
    try:
        with pytest.raises(ModelFileError, match=says):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * path.stat().st_size + 64e6
    assert time.monotonic() - began < 20  # hundreds where it is made before it is counted; a slow machine takes two


def test_a_larger_limit_lets_a_large_model_in(files, tmp_path):
    path = attacked(saved(files, "latent"), tmp_path / "large", lambda d, t: wide(3000, 3000, d, t))
    with pytest.raises(
        ModelFileError,
        match=r"would take 73 MB, but a file .* may take \d MB: if you trust it, load it with limit='73MB'",
    ):
        load(path, limit=0)
    assert load(path, limit="80MB").predict(PAIRS.inputs).shape == PAIRS.outputs.shape


@pytest.mark.parametrize("limit", [-1, "much", None, True])
def test_a_limit_that_is_none_is_refused(files, limit):
    with pytest.raises(ValueError, match="memory must be a number of bytes"):
        load(saved(files, "latent"), limit=limit)


@pytest.mark.parametrize("name", MAKERS)
def test_every_kind_of_model_loads_within_the_limit(files, name):
    load(saved(files, name), limit="1MB")


def test_what_is_made_later_may_take_four_times_as_much():
    Allowance(100).check(400, "its sums", later=True)
    with pytest.raises(ValueError, match="its sums would take 1 MB"):
        Allowance(100).check(401, "its sums", later=True)
    with pytest.raises(ValueError, match="its weights"):
        Allowance(100).check(101, "its weights")


@pytest.mark.parametrize(("later", "limit"), [(False, "4001MB"), (True, "1001MB")])
def test_the_limit_that_is_named_suffices(later, limit):
    needed = 4_000_000_001
    with pytest.raises(ValueError, match=f"would take 4001 MB, .* load it with limit='{limit}'"):
        Allowance(100).check(needed, "it", later=later)
    Allowance.of({}, limit).check(needed, "it", later=later)


@pytest.mark.parametrize("said", [[-2, -3], [0], [2.0], [True], "ab", None, 5, [10**30], [[1]]])
def test_a_shape_is_whole_numbers_of_at_least_one(said):
    with pytest.raises(ValueError, match="its grid is no shape"):
        shape_of(said, "its grid")


def test_the_shape_of_a_number_is_empty():
    assert shape_of([], "its grid") == ()
    assert shape_of([3, 4], "its grid") == (3, 4)


def test_the_boundaries_of_axes_are_those_that_are_known(files, tmp_path):
    path = attacked(saved(files, "mean"), tmp_path / "m", lambda d, t: d["layout"].update(boundaries=["odd"]))
    with pytest.raises(ModelFileError, match="grids are none"):
        load(path)


def test_the_longest_axis_is_just_below_two_to_the_forty():
    assert shape_of([2**40 - 1], "it") == (2**40 - 1,)
    with pytest.raises(ValueError, match="it is no shape"):
        shape_of([2**40], "it")


def test_a_model_may_take_four_times_its_arrays_and_the_limit():
    assert Allowance.of({"a": np.zeros(1000), "b": np.zeros(10)}, "1MB").bytes == 4 * 8080 + 10**6
