import os
from pathlib import Path

import numpy as np
import pytest
from served import X_fixture, fitted, model_fixture, path_fixture  # noqa: F401

from pcarann.serving.limits import Refused
from pcarann.serving.shelf import Shelf, named


def test_models_go_by_the_names_of_their_files():
    assert named([Path("a/heat.pcarann"), Path("b/waves")]) == {
        "heat": Path("a/heat.pcarann"),
        "waves": Path("b/waves"),
    }


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["a/heat.pcarann", "b/heat.model"], "both be served as heat"),
        (["two words.pcarann"], "rename the file"),
        (["."], r"\. is a folder, no model file"),
        ([], "no model"),
    ],
)
def test_names_that_clash_or_are_none_are_refused(paths, why):
    with pytest.raises(ValueError, match=why):
        named([Path(one) for one in paths])


def test_a_file_that_changes_is_read_again_and_others_stay(path, model, X):
    fitted(1).save(path.with_name("other.pcarann"))
    told = []
    shelf = Shelf(named([path, path.with_name("other.pcarann")]), told=lambda *what: told.append(what))
    before = shelf.entry("waves")
    shelf.look()
    assert shelf.entry("waves") is before
    fitted(3).save(path)
    shelf.look()
    after = shelf.entry("waves")
    assert (after.version, shelf.entry("other").version, told) == (2, 1, [("waves", True)])
    assert np.array_equal(after.model.predict(X), fitted(3).predict(X))
    assert np.array_equal(before.model.predict(X), model.predict(X))


@pytest.mark.parametrize("how", ["broken", "gone"])
def test_a_file_that_cannot_be_read_leaves_the_model_and_is_said_once(path, how, caplog):
    told = []
    shelf = Shelf(named([path]), told=lambda *what: told.append(what))
    whole = path.read_bytes()
    os.remove(path) if how == "gone" else path.write_bytes(whole[:-40])
    for _ in range(3):
        shelf.look()
    entry = shelf.entry("waves")
    assert (entry.version, told) == (1, [("waves", False)])
    assert str(path) in entry.trouble
    assert len([one for one in caplog.records if "stays at version 1" in one.getMessage()]) == 1
    path.write_bytes(whole)
    shelf.look()
    assert (shelf.entry("waves").version, shelf.entry("waves").trouble, told[1:]) == (2, "", [("waves", True)])


def test_a_file_that_is_no_model_is_refused_at_the_start(tmp_path):
    (tmp_path / "a").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="a"):
        Shelf(named([tmp_path / "a"]))


def test_a_mark_is_that_of_the_file_and_stands_for_the_version(path):
    shelf = Shelf(named([path]))
    mark = shelf.entry("waves").mark
    assert Shelf(named([path])).entry("waves", mark).version == 1
    path.write_bytes(b"broken")
    shelf.look()
    assert shelf.entry("waves", mark).trouble  # the old model is still that of the old file
    fitted(3).save(path)
    for looked in (shelf, Shelf(named([path]))):
        looked.look()
        with pytest.raises(Refused, match="no version"):
            looked.entry("waves", mark)


def test_names_and_versions_that_are_not_there_are_refused(path):
    shelf = Shelf(named([path]))
    for name, version, why in (
        ("x", None, "no model x: waves"),
        ("waves", "2", "no version 2"),
        ("../waves", None, "no model"),
    ):
        with pytest.raises(Refused, match=why) as found:
            shelf.entry(name, version)
        assert found.value.status == 404
