"""Stages on another grid: stencils, bands, interpolation, and models that carry over."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from sklearn.linear_model import LinearRegression

from pcarann import Channels, Grid, PCARaNN, Staged, Symmetry, load
from pcarann.metrics import relative_l2
from pcarann.spatial.axis import Axis
from pcarann.spatial.bands import Bands
from pcarann.spatial.channels import Sight
from pcarann.spatial.domain import Domain
from pcarann.spatial.features import Features
from pcarann.spatial.layout import Layout
from pcarann.spatial.resolution import bands_on
from random_fields_in_space import BOUNDARIES, held, numpy_and_torch, waves

SHAPES = {"periodic": (12, 24, 36), "zero": (9, 17, 25), "free": (9, 17, 25)}
"""Of a grid, and of two that hold all of its points"""


def smooth(n, points, boundary, seed=0, modes=4):
    """Random fields of few harmonics on any number of points of one domain, (n, points)."""
    rng = np.random.default_rng(seed)
    k = np.arange(1, modes + 1)[:, None]
    sizes, phases = rng.normal(size=(n, modes, 1)), rng.uniform(0, 6, (n, modes, 1))
    if boundary == "periodic":
        return (sizes * np.cos(2 * np.pi * k * np.arange(points) / points + phases)).sum(axis=1)
    x = np.linspace(0, 1, points)
    return (sizes * (np.sin if boundary == "zero" else np.cos)(np.pi * k * x)).sum(axis=1)


def layout_of(boundary, old, new):
    layout = Layout.of((old,), (old,)).ending([boundary], [False])
    return layout.on([new])


# Operators


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_stretch_of_one_leaves_every_operator_bit_equal(boundary):
    fields = np.random.default_rng(0).normal(size=(3, 12, 2))
    plain, stretched = Domain((Axis(12, boundary),)), layout_of(boundary, 12, 12).domain
    assert stretched == plain
    assert stretched.axes[0].trained == 12
    assert np.array_equal(plain.slopes(fields)[0], stretched.slopes(fields)[0])
    assert np.array_equal(plain.blurred(fields, 1.5), stretched.blurred(fields, 1.5))
    squares = (np.pi * (np.arange(plain.modes[0]) + (boundary == "zero")) / plain.axes[0].length) ** 2
    factors = 1.0 / ((0.3 * 12) ** -2.0 + squares)
    by_hand = plain.backward(plain.forward(fields) * factors[None, :, None])
    assert np.array_equal(plain.smoothed(fields, 0.3), by_hand)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@numpy_and_torch()
def test_operators_are_the_same_at_points_that_both_grids_have(library, boundary):
    old, *finer = SHAPES[boundary]
    for new in finer:
        step = new // old if boundary == "periodic" else (new - 1) // (old - 1)
        fields = np.random.default_rng(0).normal(size=(3, new, 2))
        coarse, fine = Axis(old, boundary), layout_of(boundary, old, new).domain.axes[0]
        assert fine.stretch == step
        restricted, whole = library(fields[:, ::step].copy()), library(fields)
        assert np.array_equal(coarse.slope(restricted, 1), fine.slope(whole, 1)[:, ::step])
        for width in (1.5, 3.0):
            assert np.array_equal(coarse.blurred(restricted, 1, width), fine.blurred(whole, 1, width)[:, ::step])


@pytest.mark.parametrize("boundary", ["zero", "free"])
def test_slopes_of_a_line_are_its_slope_up_to_the_ends(boundary):
    axis = layout_of(boundary, 16, 46).domain.axes[0]
    assert axis.stretch == 3
    assert np.allclose(axis.slope(np.arange(46.0)[None, :, None], 1), 3.0, rtol=1e-12)


@pytest.mark.parametrize(("boundary", "new", "nested"), [("zero", 20, 31), ("periodic", 40, 48), ("free", 8, 16)])
def test_a_grid_without_the_points_of_the_training_is_refused(boundary, new, nested):
    with pytest.raises(ValueError, match=f"axis of {new} points does not hold the 16 .* one of {nested} does"):
        _ = layout_of(boundary, 16, new).domain


@pytest.mark.parametrize("boundary", ["periodic", "zero"])
def test_smoothing_of_few_harmonics_does_not_depend_on_the_grid(boundary):
    old, new = SHAPES[boundary][:2]
    coarse, fine = (layout_of(boundary, old, n).domain for n in (old, new))
    for length in (0.2, np.inf):
        before, after = (
            domain.smoothed(smooth(3, n, boundary, modes=3)[..., None], length)
            for domain, n in ((coarse, old), (fine, new))
        )
        assert np.allclose(before, after[:, ::2], atol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("reach", [1, 2])
def test_features_are_the_same_at_points_that_both_grids_have(boundary, reach):
    old, new = SHAPES[boundary][:2]
    layouts = [layout_of(boundary, old, n) for n in (old, new)]
    a, u = (np.random.default_rng(seed).normal(size=(4, new, 1)) for seed in (1, 2))
    sight = Sight(layouts[0].domain, Channels(reach=reach), evolving=False)
    options = {"count": 7, "terms": 4.0, "seed": 0, "number": 0}
    features = Features.drawn(sight, a[:, ::2], u[:, ::2], **options)
    finer = replace(features, sight=replace(sight, domain=layouts[1].domain))
    assert np.allclose(features(a[:, ::2], u[:, ::2]), finer(a, u)[:, ::2], rtol=0, atol=1e-12)


# Bands


def test_wavenumbers_keep_their_band_and_higher_ones_have_none():
    layout = layout_of("periodic", 10, 20)
    bands, rows = bands_on(layout, 3)
    known = Bands.of(layout.at_training.domain, 3)
    assert rows.tolist() == [*range(known.count), known.count]
    assert bands.labels.tolist() == [*known.labels, *[known.count] * 5]


@pytest.mark.parametrize("boundary", ["zero", "free"])
def test_axes_with_ends_have_the_wavenumbers_of_the_training(boundary):
    layout = layout_of(boundary, 10, 19)
    assert np.array_equal(bands_on(layout, 3)[0].labels, Bands.of(layout.at_training.domain, 3).labels)


def test_signs_of_wavenumbers_stay_apart():
    layout = Layout.of((8, 8), (8, 8)).ending(["periodic"] * 2, [False] * 2).on((16, 24))
    bands, rows = bands_on(layout, 2)
    old, new = layout.at_training.domain, layout.domain
    known = Bands.of(old, 2).labels.reshape(old.modes)
    found = rows[bands.labels].reshape(new.modes)
    assert np.array_equal(found[:4, :5], known[:4, :5])
    assert np.array_equal(found[-4:, :5], known[-4:, :5])
    assert (found[4:-4] == known.max() + 1).all()
    assert (found[:, 5:] == known.max() + 1).all()


# Models


def test_a_convolution_that_was_learned_at_one_resolution_is_exact_at_another():
    def kernel(a):
        k = np.arange(a.shape[-1] // 2 + 1)
        return np.fft.irfft(np.fft.rfft(a) * np.exp(0.3j * k) / (1 + k**2), n=a.shape[-1])

    coarse, fine, finest = (smooth(60, n, "periodic", modes=6) for n in (24, 48, 120))
    seen = Channels(products=False, reach=0, singles=16, gain=1e-4)
    model = Staged("mean", 2, 1, 1, grid=Grid("periodic"), channels=seen).fit(coarse[:50], kernel(coarse[:50]))
    assert relative_l2(model.predict(coarse[50:]), kernel(coarse[50:])) < 1e-7
    for a in (fine, finest):
        assert relative_l2(model.on(a.shape[1]).predict(a[50:]), kernel(a[50:])) < 1e-6


@pytest.mark.parametrize("boundary", ["zero", "free"])
def test_sines_and_cosines_carry_over_as_well(boundary):
    def pair(points):
        """Few harmonics of the training's 17 points, and each of them divided by 1 + k²."""
        x, k = np.linspace(0, 16, points), np.arange(1, 5)[:, None]
        wave = np.sin(np.pi * k * x / 16) if boundary == "zero" else np.cos(np.pi * k * (x + 0.5) / 17)
        sizes = np.random.default_rng(0).uniform(-1, 1, (80, 4))
        return sizes @ wave, (sizes / (1 + k.T**2)) @ wave

    seen = Channels(products=False, reach=0, singles=16, gain=1e-4)
    (coarse, u), (fine, v) = pair(17), pair(33)
    model = Staged("mean", 2, 1, 1, grid=Grid(boundary), channels=seen).fit(coarse[:60], u[:60])
    assert relative_l2(model.predict(coarse[60:]), u[60:]) < 1e-7
    assert relative_l2(model.on(33).predict(fine[60:]), v[60:]) < 1e-3  # the mean field is a spline


@pytest.mark.parametrize("boundary", ["zero", "free"])
@pytest.mark.parametrize("points", [57, 85])
def test_harmonics_on_another_grid_are_those_of_the_training(boundary, points):
    known, axis = Axis(29, boundary), layout_of(boundary, 29, points).domain.axes[0]
    assert axis.modes == known.modes
    low = np.zeros((6, axis.modes, 1))
    low[range(6), range(6), 0] = 1.0
    assert np.allclose(axis.forward(axis.backward(low, 1), 1), low, atol=1e-3)
    fields = np.random.default_rng(0).normal(size=(2, 29, 1))
    if boundary == "zero":
        fields[:, [0, -1]] = 0
    assert np.allclose(axis.backward(known.forward(fields, 1), 1)[:, :: points // 28], fields)


@pytest.mark.parametrize("boundary", ["zero", "free"])
def test_near_the_ends_only_points_of_the_training_count(boundary):
    """Features of one-sided stencils are of another kind between them."""
    axis = layout_of(boundary, 29, 57).domain.axes[0]
    fields = np.zeros((1, 57, 1))
    fields[0, 1:6:2] = fields[0, -6:-1:2] = 1.0
    assert not axis.forward(fields, 1).any()
    lines = [np.linspace(-1, 2, n)[None, :, None] for n in (29, 57)]
    assert np.allclose(axis.forward(lines[1], 1), Axis(29, boundary).forward(lines[0], 1), atol=2e-2)


@pytest.fixture(scope="module")
def periodic():
    """A nonlinear response on a circle whose first point is repeated, at two resolutions."""

    def closed(points):
        a = waves(150, points, modes=4)
        k = np.arange(points // 2 + 1)
        u = np.fft.irfft(np.fft.rfft(np.tanh(a)) / (1 + k**2 / 4), n=points)
        return tuple(np.concatenate([side, side[:, :1]], axis=1) for side in (a, u))

    a, u = closed(32)
    model = Staged(n_features=30, n_stages=3, random_state=0).fit(a[:100], u[:100])
    return model, (a, u), closed(64)


def test_a_repeated_last_point_is_kept_and_the_error_hardly_grows(periodic):
    model, (a, u), (fine_a, fine_u) = periodic
    assert model.fitted_.layout.closed == (True,)
    there = model.on(65)
    found = there.predict(fine_a[100:])
    assert found.shape == (50, 65)
    assert np.array_equal(found[:, 0], found[:, -1])
    assert relative_l2(found, fine_u[100:]) < 1.5 * relative_l2(model.predict(a[100:]), u[100:]) + 1e-3


def test_the_model_itself_is_left_alone(periodic):
    model, (a, _), _ = periodic
    before = model.predict(a[100:])
    there = model.on((65,))
    assert type(there) is Staged
    assert there.fitted_.layout.trained == (33,)
    assert np.array_equal(model.predict(a[100:]), before)
    assert np.array_equal(model.on((33,)).predict(a[100:]), before)


def test_it_is_saved_and_loaded(periodic, tmp_path):
    model, _, (a, u) = periodic
    there = model.on((65,))
    there.calibrate(a[100:125], u[100:125])
    there.save(tmp_path / "there.model")
    again = load(tmp_path / "there.model")
    assert np.array_equal(again.predict(a[100:]), there.predict(a[100:]))
    assert np.array_equal(again.predict_interval(a[100:], 0.2).upper, there.predict_interval(a[100:], 0.2).upper)


def test_intervals_of_shares_stay_and_those_of_whole_fields_are_asked_for_again(periodic, tmp_path):
    model, (a, u), (fine_a, fine_u) = periodic
    model.calibrate(a[100:130], u[100:130])
    there = model.on(65)
    band = there.predict_interval(fine_a[130:], 0.2)
    covered = ((band.lower <= fine_u[130:]) & (fine_u[130:] <= band.upper)).mean()
    assert covered > 0.6
    with pytest.raises(ValueError, match=r"calibrated for 33 values, but 65.*calibrate again"):
        there.predict_interval(fine_a[130:], 0.2, method="simultaneous")
    there.save(tmp_path / "there.model")
    assert np.array_equal(load(tmp_path / "there.model").predict_interval(fine_a[130:], 0.2).upper, band.upper)
    there.calibrate(fine_a[100:130], fine_u[100:130])
    assert np.isfinite(there.predict_interval(fine_a[130:], 0.2, method="simultaneous").upper).all()


def test_what_cannot_go_elsewhere_is_refused(periodic):
    model, _, (a, u) = periodic
    with pytest.raises(ValueError, match=r"shape of the 1 axes of space, \(33,\).*got \(9, 9\)"):
        model.on((9, 9))
    with pytest.raises(ValueError, match="at least 4 points each"):
        model.on((3,))
    with pytest.raises(ValueError, match="points need a grid"):
        model.on(np.array([[0.5]]))
    with pytest.raises(ValueError, match="no `inputs`"):
        model.on(65, inputs=65)
    there = model.on(65)
    with pytest.raises(ValueError, match="another grid already"):
        there.on(33)
    with pytest.raises(ValueError, match="cannot adapt"):
        there.partial_fit(a, u)


def test_stages_with_terms_stay_where_they_are():
    a = smooth(30, 16, "free")
    model = Staged("mean", 1, 4, 1, grid=Grid("free"), channels=Channels(), terms=[lambda a, u: a * u]).fit(a, a**2)
    with pytest.raises(ValueError, match="a term may know the grid"):
        model.on(31)


def test_stages_on_a_latent_model_go_with_it():
    coarse, fine = (smooth(80, m, "zero", modes=5) for m in (17, 33))
    latent = PCARaNN(n_components=(5, 5), widths=(30, 20), n_members=2)
    model = Staged(latent, 2, 20, 1, grid=Grid("zero"), channels=Channels(singles=8)).fit(
        coarse[:60], held(coarse[:60])
    )
    there = model.on(33)
    assert there.model_.predict(fine[60:]).shape == (20, 33)
    assert relative_l2(there.predict(fine[60:]), held(fine[60:])) < 0.1


def test_a_symmetry_is_bound_to_the_new_grid(tmp_path):
    coarse, fine = (smooth(60, m, "zero", modes=5) for m in (17, 33))
    flip = Symmetry.reflection(-1)
    options = {"grid": Grid("zero"), "channels": Channels(singles=8), "symmetry": flip}
    model = Staged("mean", 2, 20, 1, **options).fit(coarse, held(coarse))
    there = model.on(33)
    found, flipped = there.predict(fine), there.predict(fine[:, ::-1].copy())
    assert np.allclose(found[:, ::-1], flipped, atol=1e-12 * np.abs(found).max())
    model.save(tmp_path / "flip.model")
    again = load(tmp_path / "flip.model")
    with pytest.raises(ValueError, match="set the parameter `symmetry`"):
        again.on(33)
    assert np.array_equal(again.set_params(symmetry=flip).on(33).predict(fine), found)
    there.save(tmp_path / "there.model")
    assert np.array_equal(load(tmp_path / "there.model").predict(fine), found)


def test_a_flow_that_starts_from_its_state_has_fixed_fields_there():
    coarse, fine = (waves(60, n, modes=4) for n in (24, 48))

    def stepped(a):
        x = 2 * np.pi * np.arange(a.shape[1]) / a.shape[1]
        k = np.arange(a.shape[1] // 2 + 1)
        return np.fft.irfft(np.fft.rfft(a) * np.exp(-0.02 * k**2), n=a.shape[1]) + 0.1 * np.sin(3 * x)

    seen = Channels(products=False, singles=16)
    model = Staged("input", 2, 10, 1, grid=Grid("periodic"), channels=seen).fit(coarse, stepped(coarse))
    assert relative_l2(model.on(48).predict(fine), stepped(fine)) < 1e-3


def test_components_stay_and_inputs_may_lack_an_axis():
    rng = np.random.default_rng(0)
    a = rng.uniform(size=(40, 2, 12))
    layout = Layout.of((12,), (10, 12)).on((19, 23))
    assert (layout.input_grid, layout.output_grid) == ((23,), (19, 23))
    model = Staged("mean", 1, 5, 1, grid=Grid("free", axes=(-1,)), channels=Channels()).fit(a, gaussian_filter1d(a, 2))
    assert model.on(23).predict(rng.uniform(size=(3, 2, 23))).shape == (3, 2, 23)


def test_a_symmetry_that_was_taken_away_is_missed_on_another_grid():
    a = np.cos(np.random.default_rng(0).uniform(0, 6, (30, 1)) + 2 * np.pi * np.arange(16) / 16)
    around = Symmetry.shifts(-1)
    options = {"n_features": 5, "n_members": 1, "n_stages": 1, "grid": Grid("periodic")}
    model = Staged(**options, symmetry=around).fit(a, a**2)
    finer = model.on(32)
    assert finer.fitted_.chains[0].scene.group.order == 32
    model.symmetry = None
    with pytest.raises(ValueError, match="a symmetry that is no longer among its parameters: set it again"):
        model.on(32)


def test_stages_on_what_cannot_go_to_another_grid_stay_there_too():
    a = np.random.default_rng(0).normal(size=(30, 3)) @ np.cos(np.arange(3)[:, None] * np.arange(16))
    model = Staged(LinearRegression(), n_features=5, n_members=1, n_stages=1, grid=Grid("periodic")).fit(a, a**2)
    with pytest.raises(ValueError, match="start from a LinearRegression cannot go to another grid, since it cannot"):
        model.on(32)
