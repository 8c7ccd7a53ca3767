import subprocess
import sys

import numpy as np
import pytest

from conftest import smooth_pairs
from pcarann import Fields, Kernel, PCARaNN
from pcarann.features.column_units import column_weights
from pcarann.latent.units import Units
from pcarann.metrics import relative_l2

SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 2}
REGRESSORS = pytest.mark.parametrize("options", [{}, {"regressor": "kernel"}], ids=["random", "kernel"])
KERNEL = {"regressor": Kernel(2.0), "ridge": 1e-8}
X = np.linspace(0, 1, 20)


# Sizes beyond those that have squares


@pytest.fixture(scope="module")
def wanted():
    """Predictions in ordinary units, by regressor."""
    pairs = smooth_pairs(120)
    return {
        name: PCARaNN(**SMALL, regressor=name).fit(*pairs[:90]).predict(pairs.inputs[90:])
        for name in ("random", "kernel")
    }


@REGRESSORS
@pytest.mark.parametrize(
    ("c", "d"), [(1e154, 1), (1, 1e154), (1e160, 1e160), (1e-200, 1e-200), (1, 1e-200), (1e-200, 1e160)], ids=str
)
def test_values_of_any_size_give_the_predictions_of_ordinary_ones(wanted, options, c, d):
    pairs = smooth_pairs(120)
    found = (
        PCARaNN(**SMALL, **options).fit(c * pairs.inputs[:90], d * pairs.outputs[:90]).predict(c * pairs.inputs[90:])
    )
    ordinary = wanted[options.get("regressor", "random")]
    assert np.abs(found / d - ordinary).max() <= 1e-6 * np.abs(ordinary).max()  # c is no power of two: data are rounded


@pytest.mark.parametrize("d", [1000.0, 1e-3])
def test_the_unit_of_the_outputs_does_not_count_by_default(wanted, d):
    pairs = smooth_pairs(120)
    found = PCARaNN(**SMALL).fit(pairs.inputs[:90], d * pairs.outputs[:90]).predict(pairs.inputs[90:])
    assert np.abs(found / d - wanted["random"]).max() <= 1e-6 * np.abs(wanted["random"]).max()  # rounding of d u


@pytest.mark.parametrize("d", [1e160, 1e-200])
def test_intervals_of_outputs_of_any_size_are_those_of_ordinary_ones(d):
    pairs = smooth_pairs(160)

    def band(unit):
        model = PCARaNN(**SMALL).fit(pairs.inputs[:90], unit * pairs.outputs[:90])
        model.calibrate(pairs.inputs[90:140], unit * pairs.outputs[90:140])
        return model.predict_interval(pairs.inputs[140:], alpha=0.1)

    found, ordinary = band(d), band(1.0)
    for one, other in ((found.upper, ordinary.upper), (found.std, ordinary.std)):
        assert np.abs(one / d - other).max() <= 1e-6 * np.abs(other).max()  # rounding of d u


@pytest.mark.parametrize("lazy", [False, True])
def test_the_score_of_tiny_outputs_is_that_of_ordinary_ones(lazy):
    pairs = smooth_pairs(60)

    def score(unit):
        a, u = pairs.inputs, unit * pairs.outputs
        given = [pytest.importorskip("dask.array").from_array(one, chunks=20) for one in (a, u)] if lazy else (a, u)
        return PCARaNN(**SMALL, scales=(0.3, 0.3)).fit(a, u).score(*given)

    assert score(2.0**-600) == pytest.approx(score(1.0), rel=1e-12)


def test_units_are_powers_of_two_and_1_for_ordinary_sizes():
    assert Units.of(np.array([[1e30, -1e-30]]), np.array([[-(2.0**600)]])) == Units(1.0, 2.0**600)


def test_fields_of_zeros_have_the_unit_1():
    assert Units.of(np.zeros((2, 2)), np.zeros((2, 2))) == Units(1.0, 1.0)


NAN = """
import sys
import numpy as np
from pcarann.latent.pca import fit_pca

real = np.linalg.svd
def svd(matrix, *rest, **options):  # that of NaN makes NaN, and raises nothing
    U, s, V = real(np.nan_to_num(matrix), *rest, **options)
    return (U, s, V) if np.isfinite(matrix).all() else (U * np.nan, s * np.nan, V * np.nan)

import pcarann.backend.arrays
pcarann.backend.arrays.place_of(np.zeros(1)).xp.linalg.svd = svd
try:
    fit_pca(np.array([[1.0], [np.nan], [3.0]]), 1)
except ValueError:
    sys.exit(0)
sys.exit("no error")
"""


def test_modes_of_nan_end_in_an_error_where_the_decomposition_raises_none():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", NAN], timeout=20, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Columns


def table(n, units, seed):
    """Uniform parameters ξ, the columns of a table of them in these units, and a response."""
    rng = np.random.default_rng(seed)
    xi = rng.uniform(-1, 1, (n, len(units)))
    u = np.sin(3 * xi[:, :1] + 2 * X) * np.exp(xi[:, 1:2] * X) + 0.2 * np.tanh(xi[:, 2:].sum(axis=1))[:, None] * X
    return xi * units, xi, u


def errors_in_units(units, **options):
    """Test errors of the table as it is, and of standardised columns."""
    (a, xi, u), (a_test, xi_test, u_test) = table(250, units, seed=0), table(200, units, seed=1)
    options = {"n_components": (len(units), 0.9999), "widths": (80, 40), "n_members": 3} | options
    own = PCARaNN(**options).fit(a, u).predict(a_test)
    standard = PCARaNN(**options).fit(xi / xi.std(axis=0), u).predict(xi_test / xi.std(axis=0))
    return relative_l2(own, u_test), relative_l2(standard, u_test)


WILD = np.array([1, 1e3, 1e-3, 1e6, 5, 1e-6, 10, 100, 1e4, 1e-2, 2.0])


@pytest.mark.filterwarnings("ignore:.*lies? outside the training data")
@pytest.mark.parametrize("options", [{}, {"scales": "energy"}, KERNEL], ids=["refined", "energy", "kernel"])
@pytest.mark.parametrize("units", [np.array([1, 1e3]), np.array([1e3, 1]), WILD], ids=["1 1000", "1000 1", "eleven"])
def test_a_table_in_any_units_is_learned_as_well_as_a_standardised_one(units, options):
    own, standard = errors_in_units(units, **options)
    assert own <= 1.1 * standard  # room for a random choice on latents that are turned; the fault costs 1.4 to 4000


def series(n, seed, terms=16):
    """Coefficients ξ/j² of a decaying sine series, and a pointwise response to its sum."""
    j = np.arange(1, terms + 1)
    a = np.random.default_rng(seed).uniform(-1, 1, (n, terms)) / j**2
    f = a @ np.sin(np.pi * j[:, None] * X)
    return a, np.exp(f) / (1 + f**2)


@pytest.mark.parametrize("options", [{}, KERNEL], ids=["random", "kernel"])
def test_coefficients_of_a_decaying_series_are_learned_as_well_as_without_units(options):
    (a, u), (a_test, u_test) = series(250, seed=0), series(200, seed=1)
    options = {"n_components": (16, 0.9999), "widths": (80, 40), "n_members": 3} | options
    plain = PCARaNN(**options, fields=Fields(quadrature=(np.ones(16), None))).fit(a, u)
    found = PCARaNN(**options).fit(a, u)
    assert relative_l2(found.predict(a_test), u_test) <= 1.1 * relative_l2(plain.predict(a_test), u_test)


def test_a_smooth_field_along_one_axis_is_left_as_it_is(pairs):
    assert PCARaNN(**SMALL).fit(*pairs[:90]).input_pca_.weights is None


def test_columns_are_weighted_by_the_inverse_square_of_their_spread():
    a, _, u = table(300, np.array([1, 1e3]), seed=0)
    assert column_weights(a, u, (2,)) == pytest.approx(1 / a.var(axis=0), rel=1e-12)  # rounding of a mean


def test_a_column_that_never_changes_is_weighted_as_the_one_that_changes_most():
    a, _, u = table(300, np.array([1, 1e3]), seed=0)
    a = np.hstack([a, np.full((300, 1), 7.0)])
    assert column_weights(a, u, (3,))[2] == pytest.approx(1 / a.var(axis=0).max(), rel=1e-12)


def test_weights_that_the_user_gives_are_kept():
    a, _, u = table(100, np.array([1, 1e3]), seed=0)
    model = PCARaNN(
        n_components=(2, 3), widths=(20, 10), n_members=1, fields=Fields(quadrature=(np.array([1.0, 2.0]), None))
    ).fit(a, u)
    assert model.input_pca_.weights.tolist() == [1.0, 2.0]
