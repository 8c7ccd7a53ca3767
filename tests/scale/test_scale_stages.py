import numpy as np
import pytest
from lazy_data import apart, fields, lazily

from pcarann import Staged
from pcarann.scale import limited

A, U = (one[:, :9] for one in fields(90))
OPTIONS = dict(n_features=6, n_members=1, n_stages=1)


@pytest.mark.parametrize("most", [40, None])
def test_stages_of_lazy_samples_are_those_in_memory(most):
    known = Staged(**OPTIONS, max_samples=most).fit(A, U, together=2)
    with limited("60MB"):
        model = Staged(**OPTIONS, max_samples=most).fit(lazily(A, 7), lazily(U, 20), together=2)
    assert apart(model.predict(A), known.predict(A)) < 1e-10
    assert np.allclose(model.fitted_.value_range, known.fitted_.value_range, rtol=1e-12)


def test_what_stages_cannot_read_is_refused():
    xarray = pytest.importorskip("xarray")
    labelled = xarray.DataArray(lazily(A, 7), dims=("sample", "i", "j"))
    with pytest.raises(ValueError, match="without labels"):
        Staged(**OPTIONS).fit(labelled, lazily(U, 7))
    with pytest.raises(ValueError, match="lower max_samples"), limited("1MB"):
        Staged(**OPTIONS).fit(lazily(A, 7), lazily(U, 7))
    with pytest.raises(ValueError, match="must divide the number of samples, found 90"):
        Staged(**OPTIONS).fit(lazily(A, 7), lazily(U, 7), together=4)
    bad = A.copy()
    bad[88, 3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        Staged(**OPTIONS, max_samples=40).fit(lazily(bad, 7), lazily(U, 7))
