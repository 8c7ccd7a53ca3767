import numpy as np

from pcarann import PCARaNN
from pcarann.uncertainty.look import Look


def test_looks_that_are_joined_say_what_one_look_at_all_says(pairs):
    fitted = PCARaNN(n_components=4, widths=(20, 10), n_members=1, scales="energy").fit(*pairs[:100]).fitted_
    inputs = fitted.inputs(np.concatenate([pairs.inputs[100:110], 5 * pairs.inputs[110:113]]))
    looks = [fitted.look(inputs[rows]) for rows in (slice(0, 5), slice(5, 12), slice(12, 13))]
    joined = Look.joined([Look.joined([look]) for look in looks])
    assert joined.inputs.shape[0] == 1
    assert fitted.warning(joined) == fitted.warning(fitted.look(inputs)) is not None
