import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pcarann import ModelFileError, PCARaNN, load
from pcarann.storage import FORMAT_VERSION, atomic_writer

SMALL = dict(n_components=(5, 6), widths=(12, 9), n_members=2)


@pytest.fixture(scope="module")
def model(pairs):
    return PCARaNN(**SMALL).fit(*pairs[:60]).calibrate(*pairs[60:90])


@pytest.fixture
def path(model, tmp_path):
    where = tmp_path / "model.pcarann"
    model.save(where)
    return where


def in_fresh_process(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("widths", [(12, 9), (60, 50)], ids=["primal", "dual"])
def test_a_fresh_process_predicts_the_same_bits(pairs, tmp_path, order, widths):
    a, u = (np.array(array, order=order) for array in pairs[:60])
    model = PCARaNN(**{**SMALL, "widths": widths}).fit(a, u)
    model.save(tmp_path / "m")
    np.save(tmp_path / "a.npy", pairs.inputs[60:])
    in_fresh_process(
        "import sys, numpy as np, pcarann\n"
        "model = pcarann.load(sys.argv[1])\n"
        "np.save(sys.argv[3], model.predict(np.load(sys.argv[2])))",
        *(tmp_path / "m", tmp_path / "a.npy", tmp_path / "u.npy"),
    )
    assert np.load(tmp_path / "u.npy").tobytes() == model.predict(pairs.inputs[60:]).tobytes()


def test_everything_that_was_fitted_comes_back(model, path, pairs):
    again = load(path)
    assert again.get_params() == model.get_params()
    for name in ("scales_", "energy_scales_", "log_offsets_", "refinement_", "fit_seconds_", "n_features_in_"):
        assert getattr(again, name) == getattr(model, name)
    assert again.ensemble_.members[1].report == model.ensemble_.members[1].report
    one, two = (m.predict_interval(pairs.inputs[90:], alpha=0.1) for m in (model, again))
    assert np.array_equal(one.lower, two.lower)


@pytest.mark.parametrize("start", ["least-squares", "ridge"])
@pytest.mark.parametrize("widths", [(12, 9), (60, 50)], ids=["primal", "dual"])
def test_adaptation_goes_on_after_loading(pairs, tmp_path, start, widths):
    model = PCARaNN(**{**SMALL, "widths": widths, "adapt_start": start, "forgetting": 0.99}).fit(*pairs[:60])
    model.partial_fit(*pairs[60:70]).save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict(pairs.inputs), model.predict(pairs.inputs))
    one, two = (m.partial_fit(*pairs[70:80]).predict(pairs.inputs) for m in (model, again))
    assert np.allclose(one, two, rtol=0, atol=1e-9)


def test_quadrature_weights_and_scalar_outputs_come_back(pairs, tmp_path):
    weights = (np.linspace(1, 2, 40), None)
    model = PCARaNN(**{**SMALL, "n_components": 0.99}, quadrature=weights).fit(pairs.inputs[:60], pairs.inputs[:60, 0])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.quadrature[0], weights[0])
    assert again.quadrature[1] is None
    assert np.array_equal(again.predict(pairs.inputs), model.predict(pairs.inputs))


def test_hidden_weights_are_not_stored(pairs, tmp_path):
    model = PCARaNN(n_components=0.99, widths=(400, 400), n_members=3, scales="energy").fit(*pairs[:60])
    model.save(tmp_path / "m")
    d = model.output_pca_.n_components
    assert os.path.getsize(tmp_path / "m") < 3 * 800 * d * 8 + 100_000 < 3 * 400 * 400 * 8


def test_a_torch_model_loads_as_numpy(pairs, tmp_path):
    torch = pytest.importorskip("torch")
    model = PCARaNN(**SMALL).fit(*map(torch.asarray, pairs[:60]))
    model.save(tmp_path / "m")
    found = load(tmp_path / "m").predict(pairs.inputs)
    assert isinstance(found, np.ndarray)
    assert np.allclose(found, model.predict(pairs.inputs), atol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_file_cut_short_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError):
        load(path)


def test_any_flipped_byte_is_refused(path):
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    rng = np.random.default_rng(0)
    places = {*range(40), *rng.integers(0, header, 150), *rng.integers(header, len(content), 60), len(content) - 1}
    for place in places:
        for bit in (1, 128):
            damaged = bytearray(content)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError):
                load(path)


@pytest.mark.parametrize(
    "content",
    [b"<!DOCTYPE html><html><body>404</body></html>", b"", b"\x00" * 100, b"\xff" * 100],
    ids=["html", "empty", "zeros", "ones"],
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_a_renamed_pickle_is_refused_and_never_run(path):
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        load(path)


def sealed(header: dict, data: bytes = b"") -> bytes:
    """A file with a sound checksum and any header."""
    import hashlib

    header = {"__metadata__": {"sha256": "0" * 64, **header.pop("__metadata__", {})}, **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    blank = len(text).to_bytes(8, "little") + text + data
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


@pytest.mark.parametrize(
    "content",
    [
        sealed({}),
        sealed({"__metadata__": {"pcarann": "[" * 100_000}}),
        sealed({"__metadata__": {"pcarann": "{}"}}),
        sealed({"__metadata__": {"pcarann": json.dumps({"format": 1})}}),
        sealed({"x": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}, b"12345678"),
        (1 << 62).to_bytes(8, "little") + b"{}" * 100,
    ],
    ids=["nothing in it", "deep JSON", "no format", "no parts", "giant shape", "giant header"],
)
def test_malicious_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


def test_a_newer_format_asks_for_an_upgrade(path):
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps({"format": FORMAT_VERSION + 1})}}))
    with pytest.raises(ModelFileError, match="upgrade"):
        load(path)


def test_a_missing_file_and_a_folder_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        load(tmp_path / "nothing-here")
    with pytest.raises(ModelFileError, match="not a file"):
        load(tmp_path)


def test_saving_over_a_link_keeps_the_link(model, tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real").n_members == 2


@pytest.mark.parametrize(("where", "says"), [("", "folder"), ("none/model", "no folder")])
def test_saving_where_nothing_can_be_written_says_so(model, tmp_path, where, says):
    with pytest.raises(OSError, match=says):
        model.save(tmp_path / where)


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(path):
    before = path.read_bytes()

    def fail_half_way():
        with atomic_writer(path) as file:
            file.write(b"half of it")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        fail_half_way()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_kill_9_while_saving_keeps_the_old_file_and_leaves_nothing_beside_it(path):
    before = path.read_bytes()
    code = (
        "import sys, time\n"
        "from pcarann.storage import atomic_writer\n"
        "with atomic_writer(sys.argv[1]) as file:\n"
        "    file.write(b'x' * 100000); file.flush(); print('writing', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.05)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
