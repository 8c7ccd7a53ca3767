import numpy as np
import pytest
from distributed import Client
from lazy_data import apart, fields, lazily

from pcarann import PCARaNN
from pcarann.ensemble.maps import RandomMap
from pcarann.ensemble.pairs import Pairs
from pcarann.features.random_layers import HiddenLayers
from pcarann.latent.weighting import Weighting
from pcarann.readout.streamed import solve_sums
from pcarann.scale import limited
from pcarann.scale.members import on_workers

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20_000, 6)), RNG.normal(size=(20_000, 3))


def features_of(widths=(30, 20)):
    made = RandomMap(HiddenLayers(0, 1, (6, *widths)), (0.4, 0.3), Weighting())
    return made.features(1, X, list(range(400)))[0]


def test_sums_on_workers_are_those_of_this_process(cluster):
    here, features = Pairs(X, Y, 400), features_of()
    with Client(cluster):
        there = Pairs(X, Y, 400, on_workers(X, Y))
        found, known = there.sums(features), here.sums(features)
        assert len(found.blocks) > 3
        assert found.features.weights is None
        assert apart(found.normal().normal, known.normal().normal) < 1e-13
        assert found.normal().samples == 20_000
        V = RNG.normal(size=(features.count, 3))
        assert apart(found.missed(V), known.missed(V)) < 1e-12
        R, T = found.triangle(), known.triangle()
        assert apart(R.T @ R, T.T @ T) < 1e-12
        for ridge in (0.0, 1e-3):
            assert apart(solve_sums(found, ridge).readout, solve_sums(known, ridge).readout) < 1e-9


def test_without_a_cluster_members_are_fitted_here():
    assert on_workers(X, Y) is None


def test_members_that_do_not_fit_into_a_worker_are_refused(cluster):
    with Client(cluster), limited("2MB"), pytest.raises(ValueError, match=r"needs .* GB on a worker, but a task may"):
        on_workers(X, Y)(features_of((300, 300)))


def test_a_fit_with_many_samples_is_that_in_memory(cluster):
    a, u = (one[:, :6, :5] for one in fields(6000))
    options = dict(n_components=(8, 8), widths=(40, 30), n_members=2, ridge="gcv", scales="energy")
    known = PCARaNN(**options).fit(a, u)
    with Client(cluster):
        model = PCARaNN(**options).fit(lazily(a, 1000), lazily(u, 700))
        assert model.scale_report_.tasks == 1
        with pytest.warns(UserWarning, match="trained on 6000 of the 6000 calibration samples"):
            model.calibrate(lazily(a, 1000), lazily(u, 700))
        found = model.predict(lazily(a, 1000)).compute()
    assert model.ridge_ == pytest.approx(known.ridge_, rel=1e-6)
    assert apart(found, known.predict(a)) < 1e-8
