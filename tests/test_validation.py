"""What users hand over that is no array of numbers is refused in one sentence, and nothing is dropped silently."""

import subprocess
import sys

import numpy as np
import pytest

from pcarann import Mesh, ModelFileError, PCARaNN, Staged, load
from pcarann.backend.arrays import place_of
from pcarann.storage.container import read, write
from pcarann.validation import check_fields, check_numeric, refuse_cut_map, unstopped

P = np.random.default_rng(0).uniform(-1, 1, (40, 3))
U = np.sin(P @ np.random.default_rng(1).normal(size=(3, 12))).reshape(40, 3, 4)


@pytest.fixture(scope="module")
def model():
    return PCARaNN(n_components=3, widths=(10, 8), n_members=2, scales=(0.3, 0.3)).fit(P, U)


OBJECTS = {
    "letters": ([["a", "b", "c"]], "must hold real numbers, found 'a' at sample 0, column 0"),
    "numbers in letters": ([[1.0, "2", 3.0]], "must hold real numbers, found '2' at sample 0, column 1"),
    "bytes": ([[b"1", 2, 3]], "found b'1' at sample 0"),
    "complex": ([[1j, 2, 3]], "found 1j at sample 0"),
    "nothing": ([[1.0, None, 2.0]], "contains NaN or infinity"),
    "lists": ([[[], 2, 3]], "must hold real numbers"),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_that_are_no_numbers_are_named_with_their_place(model, kind):
    rows, says = OBJECTS[kind]
    found = np.empty((1, 3), dtype=object)
    found[0] = rows[0]
    with pytest.raises(TypeError if kind == "lists" else ValueError, match=says):
        model.predict(found)


def test_objects_that_are_numbers_are_taken_as_such(model):
    assert np.array_equal(model.predict(P[:5].astype(object)), model.predict(P[:5]))


@pytest.mark.parametrize("wrap", [list, tuple, lambda rows: [rows, rows]], ids=["list", "tuple", "nested"])
def test_masked_rows_in_a_list_do_not_lose_their_masks(model, wrap):
    rows = [np.ma.masked_array(row, mask=[False, True, False]) for row in P[:5]]
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(wrap(rows))


@pytest.mark.parametrize("wrap", [lambda rows: rows, list], ids=["array", "list"])
def test_a_masked_array_without_masked_values_is_taken_as_a_plain_one(model, wrap):
    for mask in (np.ma.nomask, False):
        rows = np.ma.masked_array(P[:5], mask=mask)
        found = model.predict(wrap(rows))
        assert type(found) is np.ndarray
        assert np.array_equal(found, model.predict(P[:5]))


def test_a_mask_far_down_a_long_list_is_seen(model):
    rows = [*np.zeros((2000, 3)), np.ma.masked_array(P[0], mask=[False, True, False])]
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(rows)


def test_rows_of_different_length_are_said_to_be(model):
    with pytest.raises(ValueError, match="X must be one array: its rows have different lengths"):
        model.predict([[1.0, 2.0], [1.0]])


def test_a_generator_is_no_array(model):
    with pytest.raises(ValueError, match="X must be an array, found list_iterator"):
        model.predict(iter([[1.0, 2.0, 3.0]]))


# Tables


def test_a_missing_value_of_pandas_is_named_with_its_place():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(P, columns=list("abc")).astype("Float64")
    table.iloc[2, 1] = pandas.NA
    with pytest.raises(ValueError, match=r"X has a missing value \(NA\) at sample 2, column 1"):
        PCARaNN(n_components=3).fit(table, U)


def test_columns_in_another_order_are_refused_and_their_names_are_known():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(P, columns=list("abc"))
    model = PCARaNN(n_components=3, widths=(10, 8), n_members=1, scales=(0.3, 0.3)).fit(table, U)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="expected a, b, c, found c, a, b"):
        model.predict(table[["c", "a", "b"]])


def test_a_fit_to_columns_without_names_knows_none(model):
    assert not hasattr(model, "feature_names_in_")


# Tensors


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_and_other_tensors_without_numbers_are_refused(model):
    torch = pytest.importorskip("torch")
    for tensor in (torch.ones(2, 3).to_sparse(), torch.ones(2, 3).to_sparse_csr()):
        with pytest.raises(TypeError, match=r"X is sparse, but a dense tensor is required: use X\.to_dense\(\)"):
            model.predict(tensor)
    with pytest.raises(TypeError, match="X is a meta tensor"):
        model.predict(torch.ones(2, 3, device="meta"))


@pytest.mark.filterwarnings("ignore:.*outside the training data")
def test_tensors_of_sixteen_bits_are_numbers_as_they_are(model):
    torch = pytest.importorskip("torch")
    for kind in (torch.bfloat16, torch.float16):
        rounded = torch.asarray(P[:4]).to(kind)
        assert np.allclose(
            model.predict(rounded), model.predict(rounded.to(torch.float64).numpy()), rtol=1e-2, atol=1e-2
        )


def test_tensors_that_require_gradients_are_said_to_be_detached(model):
    torch = pytest.importorskip("torch")
    with pytest.warns(UserWarning, match=r"X requires gradients, which end here: it is detached\. `as_torch"):
        found = model.predict(torch.tensor(P[:3], requires_grad=True))
    assert not found.requires_grad


# Levels and grids


@pytest.mark.parametrize("alpha", ["0.1", None, True, [0.1], np.array([0.1, 0.2]), 1j, 7, 0, float("nan")], ids=repr)
def test_an_alpha_that_is_no_level_is_refused(model, alpha):
    with pytest.raises(ValueError, match="alpha must be a number strictly between 0 and 1"):
        model.predict_interval(P, alpha)


def test_a_score_on_another_grid_of_as_many_points_is_refused(model):
    with pytest.raises(ValueError, match=r"y has fields of shape \(4, 3\), but the model is expecting \(3, 4\)"):
        model.score(P, U.reshape(40, 4, 3))


# Memory maps

CUT = (
    "import sys, numpy as np\n"
    "from pcarann.validation import check_numeric\n"
    "mapped = np.load(sys.argv[1], mmap_mode='r')\n"
    "open(sys.argv[1], 'r+b').truncate(5000)\n"
    "for array in (mapped, mapped[3:], np.asarray(mapped)[::2]):\n"
    "    try:\n"
    "        check_numeric(array, 'X').sum()\n"
    "    except ValueError as error:\n"
    "        print(error)\n"
)


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut there")
def test_a_mapped_file_that_was_cut_short_is_an_error_and_no_signal(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2000, 10)))
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(tmp_path / "x.npy")], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("which was cut short: it has 5000 bytes, and 160128 are wanted") == 3


def test_a_mapped_file_that_is_whole_is_let_through(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2000, 10)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    refuse_cut_map(mapped[5:], "X")
    assert check_numeric(mapped, "X") is mapped
    late = np.memmap(tmp_path / "x.npy", dtype="f8", mode="r", offset=80128, shape=(10, 10))
    refuse_cut_map(late, "X")


def test_values_that_are_not_finite_are_told_with_the_samples_that_have_them():
    y = np.zeros((40, 3, 2))
    y[7:10] = np.nan
    y[20, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"19 value\(s\) in 4 of 40 samples \(7-9, 20\)") as refused:
        check_fields(y, "y", place_of(None))
    code = str(refused.value).split("keep = ")[1].split(", then")[0]
    keep = eval(code, {"np": np, "y": y, "len": len})  # what the message says, run
    assert np.flatnonzero(~keep).tolist() == [7, 8, 9, 20]


def test_messages_show_the_beginning_of_a_value_and_one_full_stop():
    meshes = [Mesh(np.random.default_rng(k).uniform(size=(9, 2))) for k in range(200)]
    for refused in (lambda: Mesh.of(meshes), lambda: Staged(grid=meshes).fit(np.zeros((9, 9)), np.zeros((9, 9)))):
        with pytest.raises(ValueError) as error:
            refused()
        assert len(str(error.value)) < 400
    assert unstopped("It is so.") == unstopped("It is so") == "It is so"


def test_a_model_file_is_refused_with_one_full_stop(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3))
    PCARaNN(n_components=2, widths=(6, 4), n_members=1).fit(x, x).save(tmp_path / "model")
    document, tensors = read(tmp_path / "model")
    document["parameters"]["n_members"] = -1
    write(tmp_path / "model", document, tensors)
    with pytest.raises(ModelFileError) as error:
        load(tmp_path / "model")
    assert str(error.value).endswith(".")
    assert not str(error.value).endswith("..")
