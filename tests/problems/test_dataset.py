"""What OperatorData promises: checked pairs, disjoint parts, files that give back what they were given."""

import json
import subprocess
import sys

import numpy as np
import pytest

from pcarann.problems import DataFileError, OperatorData, backward_heat, burgers, darcy, navier_stokes
from pcarann.problems.dataset import Simulation


@pytest.fixture
def data():
    numbers = np.arange(20.0)
    inputs = numbers[:, None] + np.zeros((20, 5))
    outputs = (numbers[:, None, None] * np.ones((20, 3, 4))).astype(np.float32)
    coordinates = {"x": np.linspace(0, 1, 5), "t": np.arange(3)}
    return OperatorData(inputs, outputs, coordinates, "ramps", {"slope": 1.5, "sides": (1, 2), "seed": 7})


def samples(part):
    return part.inputs[:, 0].astype(int).tolist()


def test_counts_split_in_order(data):
    assert [samples(part) for part in data.split(3, 2)] == [[0, 1, 2], [3, 4]]


def test_parts_in_order_share_the_memory_of_the_whole(data):
    assert np.shares_memory(data.split(3)[0].inputs, data.inputs)


def test_shares_that_sum_to_one_leave_nothing_over(data):
    parts = data.split(0.7, 0.2, 0.1)
    assert [len(part) for part in parts] == [14, 4, 2]


def test_uneven_shares_cover_every_sample_once(data):
    parts = data.split(1 / 3, 1 / 3, 1 / 3)
    assert [i for part in parts for i in samples(part)] == list(range(20))


def test_counts_and_shares_can_be_mixed(data):
    assert [len(part) for part in data.split(0.125, 9)] == [3, 9]


def test_a_shuffled_split_is_disjoint_and_complete(data):
    parts = data.split(12, 8, seed=3)
    assert sorted(samples(parts[0]) + samples(parts[1])) == list(range(20))


def test_a_shuffled_split_depends_on_the_seed_alone(data):
    assert samples(data.split(12, seed=3)[0]) == samples(data.split(12, seed=3)[0])
    assert samples(data.split(12, seed=3)[0]) != samples(data.split(12, seed=4)[0])


def test_a_split_keeps_inputs_and_outputs_together(data):
    for part in data.split(7, 6, seed=0):
        assert np.array_equal(part.outputs[:, 0, 0], part.inputs[:, 0])


def test_a_split_keeps_coordinates_name_and_parameters(data):
    part = data.split(4)[0]
    assert (part.name, part.parameters, list(part.coordinates)) == (data.name, data.parameters, ["x", "t"])


@pytest.mark.parametrize("sizes", [(21,), (15, 6), (0.8, 0.3), (0.5, 11)])
def test_more_samples_than_there_are_is_refused_with_both_numbers(data, sizes):
    with pytest.raises(ValueError, match=r"split asks for .* but there are 20"):
        data.split(*sizes)


@pytest.mark.parametrize("size", [0, -3, 1.5, 0.0, -0.1, float("nan"), True, "3", None])
def test_a_size_that_is_no_count_or_share_is_refused(data, size):
    with pytest.raises(ValueError, match="sizes must be"):
        data.split(size)


def test_a_share_of_less_than_one_sample_is_refused(data):
    with pytest.raises(ValueError, match="less than one sample"):
        data.split(0.01)


def test_a_slice_is_data_again(data):
    assert samples(data[2:9:3]) == [2, 5, 8]


def test_an_integer_index_is_refused_with_the_way_out(data):
    with pytest.raises(TypeError, match=r"data\[3:4\]"):
        data[3]


def test_an_empty_slice_is_refused(data):
    with pytest.raises(ValueError, match="at least 1 sample"):
        data[5:5]


def test_save_and_load_give_back_everything(data, tmp_path):
    data.save(tmp_path / "ramps.npz")
    again = OperatorData.load(tmp_path / "ramps.npz")
    assert np.array_equal(again.inputs, data.inputs)
    assert np.array_equal(again.outputs, data.outputs)
    assert again.outputs.dtype == np.float32
    assert {name: axis.tolist() for name, axis in again.coordinates.items()} == {
        name: axis.tolist() for name, axis in data.coordinates.items()
    }
    assert (again.name, again.parameters) == (data.name, data.parameters)


def test_a_saved_file_opens_without_pickle(data, tmp_path):
    data.save(tmp_path / "ramps.npz")
    with np.load(tmp_path / "ramps.npz", allow_pickle=False) as stored:
        assert json.loads(str(stored["about"]))["name"] == "ramps"


def test_save_leaves_the_old_file_where_it_fails(data, tmp_path, monkeypatch):
    data.save(tmp_path / "ramps.npz")
    before = (tmp_path / "ramps.npz").read_bytes()
    monkeypatch.setattr(np, "savez", lambda file, **_: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        data[:3].save(tmp_path / "ramps.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["ramps.npz"]
    assert (tmp_path / "ramps.npz").read_bytes() == before


def test_save_wants_the_ending_npz(data, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        data.save(tmp_path / "ramps.dat")


def test_any_flipped_byte_of_the_arrays_is_noticed(data, tmp_path):
    path = tmp_path / "ramps.npz"
    data.save(path)
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataFileError):
        OperatorData.load(path)


def test_a_file_of_other_origin_is_refused_with_the_keys_it_has(tmp_path):
    np.savez(tmp_path / "other.npz", inputs=np.ones((2, 3)), outputs=np.ones((2, 3)))
    with pytest.raises(DataFileError, match="no array 'about': it holds inputs, outputs"):
        OperatorData.load(tmp_path / "other.npz")


def test_a_newer_format_is_refused(data, tmp_path):
    about = np.array(json.dumps({"format": 99, "name": "x", "parameters": {}}))
    np.savez(tmp_path / "new.npz", inputs=data.inputs, outputs=data.outputs, about=about)
    with pytest.raises(DataFileError, match="format 99"):
        OperatorData.load(tmp_path / "new.npz")


def test_different_lengths_are_refused_with_both():
    with pytest.raises(ValueError, match="found 3 and 4"):
        OperatorData(np.ones((3, 2)), np.ones((4, 2)))


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="at least 1 sample"):
        OperatorData(np.ones((0, 2)), np.ones((0, 2)))


def test_nan_is_refused_with_count_and_first_sample():
    outputs = np.ones((4, 2, 2))
    outputs[2, 0, 1] = np.nan
    outputs[3] = np.inf
    with pytest.raises(ValueError, match="outputs: 5 values are NaN or infinite, the first in sample 2"):
        OperatorData(np.ones((4, 2)), outputs)


@pytest.mark.parametrize("bad", [np.array([["a"]]), np.array([[1j]]), np.array([[object()]])])
def test_anything_but_real_numbers_is_refused(bad):
    with pytest.raises(ValueError, match="inputs must hold real numbers"):
        OperatorData(bad, np.ones((1, 1)))


def test_masked_values_are_refused_and_a_masked_array_without_any_is_a_plain_one():
    with pytest.raises(ValueError, match="masked"):
        OperatorData(np.ma.masked_less(np.ones((1, 1)), 2), np.ones((1, 1)))
    assert type(OperatorData(np.ma.masked_less(np.ones((1, 1)), 0), np.ones((1, 1))).inputs) is np.ndarray


def test_coordinates_have_one_axis():
    with pytest.raises(ValueError, match=r"coordinates\['x'\] must have one axis"):
        OperatorData(np.ones((2, 3)), np.ones((2, 3)), {"x": np.ones((3, 1))})


def test_parameters_that_no_file_can_hold_are_refused():
    with pytest.raises(ValueError, match="parameters must be"):
        OperatorData(np.ones((2, 3)), np.ones((2, 3)), parameters={"solver": object()})


def test_numpy_numbers_among_the_parameters_become_plain():
    data = OperatorData(np.ones((2, 3)), np.ones((2, 3)), parameters={"n": np.int64(3), "v": np.float64(0.5)})
    assert json.dumps(data.parameters) == '{"n": 3, "v": 0.5}'


def test_data_cannot_be_replaced_in_place(data):
    with pytest.raises(AttributeError):
        data.inputs = np.ones((20, 5))


def test_torch_tensors_come_to_the_host():
    torch = pytest.importorskip("torch")
    data = OperatorData(torch.ones(2, 3), torch.ones(2, 3))
    assert isinstance(data.inputs, np.ndarray)


def test_repr_tells_sizes_ranges_axes_and_parameters(data):
    assert repr(data).splitlines() == [
        "OperatorData 'ramps', 20 samples",
        "  inputs      20 × 5 float64, from 0 to 19",
        "  outputs     20 × 3 × 4 float32, from 0 to 19",
        "  coordinates x: 5 from 0 to 1, t: 3 from 0 to 2",
        "  parameters  slope=1.5, sides=[1, 2], seed=7",
    ]


def built(n, block, **changes):
    def simulate(samples, place, *, seed, k):
        rows = place.put(np.array(samples, dtype=float))[:, None] + place.zeros(len(samples), 4)
        return rows, 2 * rows

    doubles = Simulation("doubles", simulate, {"k": 2}, {"x": np.arange(4.0)}, (block, block))
    return doubles.generate(n, **{"seed": 1, "cache": False, **changes})


@pytest.mark.parametrize("block", [1, 7, 50, 1000])
def test_any_batch_size_builds_the_same_data(block):
    assert np.array_equal(built(120, block).outputs, built(120, 33).outputs)


def test_built_data_say_what_made_them():
    data = built(3, 2)
    assert (data.name, data.parameters, list(data.coordinates)) == ("doubles", {"k": 2, "seed": 1}, ["x"])


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_number_of_samples_that_is_no_count_is_refused(n):
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        built(n, 5)


def test_a_simulation_that_fails_names_the_sample():
    def simulate(samples, place, *, seed):
        rows = np.ones((len(samples), 2))
        return rows, np.where(np.array(samples)[:, None] == 8, np.nan, rows)

    with pytest.raises(ValueError, match=r"NaN or infinite, the first in sample 8 \(outputs\)"):
        Simulation("broken", simulate, {}, {}, (3, 3)).generate(12, cache=False)


def test_a_simulation_of_the_wrong_length_is_refused():
    short = Simulation("short", lambda samples, place, seed: (np.ones((2, 2)), np.ones((2, 2))), {}, {}, (3, 3))
    with pytest.raises(ValueError, match=r"Samples 0 to 2: inputs \(2, 2\) instead of \(3, 2\)"):
        short.generate(3, cache=False)


@pytest.mark.parametrize("problem", [backward_heat, burgers, darcy, navier_stokes])
def test_a_parameter_that_a_problem_does_not_have_is_refused(problem):
    with pytest.raises(TypeError, match="viscosty"):
        problem.generate(1, cache=False, viscosty=0.1)


def test_progress_goes_to_standard_error_alone(capsys):
    built(5, 2, verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "doubles" in err
    assert "5/5" in err


def test_nothing_is_shown_unless_asked_for(capsys):
    built(5, 2)
    assert capsys.readouterr() == ("", "")


def test_importing_the_data_half_pulls_in_no_heavy_library():
    script = "import sys, pcarann.problems.dataset, pcarann.problems.readers; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sklearn", "torch", "h5py", "xarray", "scipy", "rich"} & set(modules)
