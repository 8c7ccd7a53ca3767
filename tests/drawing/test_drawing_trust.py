import numpy as np

from pcarann.drawing import draw_trust

ERRORS = np.linspace(0.01, 0.2, 12)


def titles(figure):
    return [axis.get_title(loc="left") for axis in figure.axes]


def test_all_panels_and_the_worst_point(tmp_path):
    shares = {"sample": np.ones(30), "local": np.full(30, 0.9)}
    shares["sample"][4] = 0.25
    p = np.full(12, 0.5)
    p[0] = 1e-9
    path = tmp_path / "trust.png"
    figure = draw_trust(
        path, errors=ERRORS, coverage=((0.5, 0.9), (0.6, 0.91)), shares=shares, level=0.9, p_values=p, title="u"
    )
    assert titles(figure) == ["coverage", '"sample", each point', '"local", each point', "errors beside novelty"]
    assert "worst 25 %" in [text.get_text() for text in figure.axes[1].texts]
    near, far = figure.axes[3].collections
    assert (len(near.get_offsets()), len(far.get_offsets())) == (11, 1)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_intervals_and_novelty_errors_are_left():
    figure = draw_trust(None, errors=ERRORS)
    assert titles(figure) == ["errors"]
    assert np.allclose(figure.axes[0].lines[0].get_ydata(), 100 * ERRORS)
