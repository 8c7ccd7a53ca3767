import numpy as np

from pcarann import PCARaNN
from pcarann.serving.vectors import Vector, VectorMap


def test_fields_are_vectors_in_c_order_without_the_points_that_have_no_value():
    rng = np.random.default_rng(1)
    X = {"k": rng.normal(size=(20, 2, 3)), "f": rng.normal(size=20)}
    u = rng.normal(size=(20, 3, 2))
    u[:, 1, 0] = np.nan
    model = PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(X, u)
    found = VectorMap.of(model)
    assert [(one.name, one.size) for one in found.inputs] == [("k", 6), ("f", 1)]
    assert [(one.name, one.size) for one in found.outputs] == [("outputs", 5)]
    (output,) = found.outputs
    assert np.array_equal(output.values(u[:1]), u[0].reshape(-1)[[0, 1, 3, 4, 5]])
    assert np.array_equal(output.field(np.arange(1.0, 6.0)), [[[1, 2], [0, 3], [4, 5]]])
    assert np.array_equal(found.inputs[0].field(X["k"][0].reshape(-1)), X["k"][:1])
    assert found.inputs[1].field(np.array([2.0])).shape == (1,)


def test_a_size_is_counted_without_end():
    assert Vector("u", (2**40, 2**40)).size == 2**80
