import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.readout.direct import solve_readout
from pcarann.readout.leave_out import left_out_residuals
from pcarann.readout.streamed import solve_streamed_readout

SAMPLES = 60
GROUPS = {
    "samples": [[i] for i in range(SAMPLES)],
    "copies": [[i, i + 20, i + 40] for i in range(20)],
}
ALONE_OR_COPIED = pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)


def rows(features, rank=None, seed=0):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(SAMPLES, features))
    if rank is not None:
        H = rng.normal(size=(SAMPLES, rank)) @ rng.normal(size=(rank, features))
    return H, rng.normal(size=(SAMPLES, 3))


def refitted_residuals(H, Y, groups, ridge):
    """y − ŷ of the first row of each group, by a fit without the group: the ridge as rows of H."""
    found = []
    for group in groups:
        others = np.setdiff1d(np.arange(len(H)), group)
        below = np.sqrt(ridge) * np.eye(H.shape[1]) if ridge else np.empty((0, H.shape[1]))
        A, B = np.vstack([H[others], below]), np.vstack([Y[others], np.zeros((len(below), Y.shape[1]))])
        found.append(Y[group[0]] - H[group[0]] @ np.linalg.lstsq(A, B, rcond=1e-12)[0])
    return np.array(found)


# Features, rank, ridge, and what then solves: each way to a readout once.
CASES = {
    "primal": (20, None, 0.0, ("cholesky", False)),
    "primal ridge": (20, None, 0.1, ("cholesky", False)),
    "dual ridge": (90, None, 0.1, ("cholesky", True)),
    "dual": (90, None, 0.0, ("cholesky", True)),
    "svd": (30, 12, 0.0, ("svd", False)),
    "svd of few rows": (90, 12, 0.0, ("svd", False)),
    "qr": (30, 12, 1e-13, ("qr", False)),
    "dual qr": (90, 12, 1e-12, ("qr", True)),
}


@ALONE_OR_COPIED
@pytest.mark.parametrize(("features", "rank", "ridge", "solver"), CASES.values(), ids=CASES)
def test_samples_left_out_are_predicted_as_by_a_fit_without_them(backend, features, rank, ridge, solver, groups):
    H, Y = rows(features, rank)
    solution = solve_readout(backend(H), backend(Y), ridge)
    assert (solution.report.solver, solution.dual) == solver
    found = to_host(left_out_residuals(solution, backend(H), backend(Y), groups))
    wanted = refitted_residuals(H, Y, groups, ridge)
    assert np.abs(found - wanted).max() <= 1e-8 * np.abs(wanted).max()  # conditions below 1e3, or cut off


@ALONE_OR_COPIED
@pytest.mark.parametrize(("rank", "ridge"), [(None, 0.0), (None, 0.1), (12, 0.0)], ids=["", "ridge", "deficient"])
def test_some_rows_are_enough_where_rows_were_streamed(rank, ridge, groups):
    H, Y = rows(20, rank)
    solution = solve_streamed_readout(lambda: [(H[:25], Y[:25]), (H[25:], Y[25:])], ridge)
    kept = [row for group in groups[:5] for row in group]
    counted = np.arange(len(kept)).reshape(5, -1).tolist()
    found = left_out_residuals(solution, H[kept], Y[kept], counted)
    wanted = refitted_residuals(H, Y, groups[:5], ridge)
    assert np.abs(found - wanted).max() <= 1e-8 * np.abs(wanted).max()  # conditions below 1e3, or cut off


def test_a_row_that_alone_holds_up_a_feature_has_a_finite_residual():
    H, Y = np.vstack([np.eye(3), [[1.0, 1.0, 0.0]]]), np.ones((4, 1))
    assert np.isfinite(left_out_residuals(solve_readout(H, Y), H, Y, [[2]])).all()
