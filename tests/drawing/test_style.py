"""Drawing leaves the settings of others alone, and the same picture has the same bytes."""

import sys

import pytest

from pcarann.drawing import blank, save, style

matplotlib = pytest.importorskip("matplotlib")


def test_the_style_is_put_back_and_no_window_is_opened():
    before = dict(matplotlib.rcParams)
    with style():
        blank(1, 1)
        assert matplotlib.rcParams["svg.hashsalt"] == "pcarann"
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_picture_has_the_same_bytes(ending, tmp_path):
    for name in "ab":
        with style():
            figure = blank(2, 1)
            figure.subplots().plot([0, 1])
            save(figure, tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_without_matplotlib_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"Pictures need matplotlib: pip install 'pcarann\[figures\]'"), style():
        pass
