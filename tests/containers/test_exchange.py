import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.containers.exchange import checked_outputs, handed_out, refuse_unaligned


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    outputs = {"u": 1e200 * inputs @ rng.normal(size=(3, 4)), "T": inputs @ rng.normal(size=(3, 2))}
    model = PCARaNN(n_components=3, widths=(20, 10), n_members=1, scales="energy").fit(inputs, outputs)
    return model.fitted_, outputs


def test_true_outputs_go_in_and_come_out_as_they_were(fitted):
    record, outputs = fitted
    inside = checked_outputs(outputs, record)
    assert np.abs(inside).max() < 1e3
    out = record.packing.output_code.apart(handed_out(np.zeros(0), record, inside))
    for name, fields in dict(out).items():
        assert np.allclose(fields, outputs[name], rtol=1e-12)


def test_outputs_that_are_not_those_of_the_model_are_refused_by_name(fitted):
    record, outputs = fitted
    with pytest.raises(ValueError, match="T"):
        checked_outputs({"u": outputs["u"]}, record)


def test_plain_samples_have_no_names_that_could_differ(fitted):
    record, outputs = fitted
    refuse_unaligned(np.zeros((60, 3)), outputs, record)
