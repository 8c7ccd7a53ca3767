import numpy as np

from pcarann.ensemble.maps import RandomMap
from pcarann.ensemble.pairs import Pairs, stream
from pcarann.features.random_layers import HiddenLayers
from pcarann.latent.weighting import Weighting

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5000, 4)), RNG.normal(size=(5000, 2))
FEATURES = RandomMap(HiddenLayers(0, 0, (4, 9, 7)), (0.5, 0.4), Weighting()).features(0, X, list(range(50)))[0]


def test_a_stream_gives_all_rows_once_in_order():
    blocks = list(stream(FEATURES, X, Y, size=900))
    assert [len(targets) for _, targets in blocks] == [900] * 5 + [500]
    assert np.array_equal(np.concatenate([targets for _, targets in blocks]), Y)
    assert np.allclose(np.concatenate([features for features, _ in blocks]), FEATURES(X), atol=1e-13)


def test_sums_are_those_of_all_rows_at_once():
    H, sums = FEATURES(X), Pairs(X, Y, 50).sums(FEATURES)
    V = RNG.normal(size=(16, 2))
    assert np.allclose(sums.normal().normal, H.T @ H, rtol=1e-12)
    assert np.allclose(sums.normal().moment, H.T @ Y, rtol=1e-10, atol=1e-10)
    assert np.allclose(sums.missed(V), H.T @ (Y - H @ V), rtol=1e-10, atol=1e-9)
    R = sums.triangle()
    assert np.allclose(R.T @ R, np.hstack([H, Y]).T @ np.hstack([H, Y]), rtol=1e-10, atol=1e-9)


def test_whoever_makes_the_sums_elsewhere_is_asked():
    asked = []
    Pairs(X, Y, 50, asked.append).sums(FEATURES)
    assert asked == [FEATURES]
