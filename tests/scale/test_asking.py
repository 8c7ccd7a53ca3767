import numpy as np
import pytest
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN
from pcarann.scale import limited
from pcarann.scale.asking import Asked, Pairs, paired

A, U = fields(300)


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**OPTIONS).fit(A[:160], U[:160])


def test_a_model_is_asked_as_it_was_at_the_call(model):
    asked, known = Asked.of(model, model.fitted_), model.predict(A[7:9])
    model.partial_fit(A[160:], 2 * U[160:])
    assert apart(asked("predict", 7, A[7:9]), known) == 0


def test_pairs_of_blocks_cover_all_samples_in_order(model):
    with limited("2MB"):
        blocks, own = paired(Pairs.of(model.fitted_, lazily(A, 14), lazily(U, 14)))
    assert len(blocks) > 2
    assert np.concatenate([block() for block in blocks]).shape == (300, 360)
    assert [first for _, first in own] == list(np.cumsum([0] + [len(y()) for y, _ in own])[:-1])


def test_a_sample_that_is_not_finite_is_named_by_its_number_among_all(model):
    bad = A.copy()
    bad[234, 3, 4] = np.nan
    with pytest.raises(ValueError, match="X contains NaN or infinity in sample 234"):
        model.predict(lazily(bad, 70)).compute()
    with limited("8MB"), pytest.raises(ValueError, match="y contains NaN or infinity in sample 234"):
        model.score(lazily(A, 20), np.where(np.isnan(bad[:, :9]), np.nan, U))
    with limited("8MB"), pytest.raises(ValueError, match="X contains NaN or infinity in sample 234"):
        model.novelty(lazily(bad, 20))


def test_lazy_parts_are_refused_and_not_read(model):
    parts = {"a": lazily(A, 70), "b": lazily(A, 70)}
    for ask in (model.predict, model.novelty, lambda X: model.score(X, U), lambda X: model.calibrate(X, U)):
        with pytest.raises(ValueError, match="X must be one array, as in fit, found dict"):
            ask(parts)
