"""Files of every older format predict as they did when they were written."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from pcarann import load
from pcarann.storage.formats import FORMAT_VERSION, upgraded

pytestmark = pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")
OLD = sorted((Path(__file__).parent / "data").glob("*.model"))
FORMAT_1 = Path(__file__).parent / "data" / "format1.model"
every_file = pytest.mark.parametrize("path", OLD, ids=[path.stem for path in OLD])


def loaded(path):
    """The model in an old file, of which it is said once where it did not keep all."""
    version = int(path.stem.removeprefix("format")[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(path)
    said = [str(one.message) for one in caught]
    of_format = [
        text for text in said if text.startswith(f"This model is of format {version}, ") and "Fit again" in text
    ]
    assert len(of_format) == (version < 4)
    assert all(text in of_format or "which is gone: it predicts as it did" in text for text in said)
    return model


@every_file
def test_an_old_file_predicts_as_it_did_when_it_was_written(path):
    with np.load(path.with_suffix(".npz")) as kept:
        band = loaded(path).predict_interval(kept["inputs"], alpha=0.5, method="pooled")
        for name in ("mean", "std", "upper"):
            assert np.allclose(getattr(band, name), kept[name], rtol=1e-9, atol=1e-10)


@every_file
def test_an_old_file_adapts_and_is_saved_in_the_new_format(path, tmp_path):
    model = loaded(path)
    with np.load(path.with_suffix(".npz")) as kept:
        inputs, outputs = kept["inputs"], kept["mean"]
    model.partial_fit(inputs, outputs).save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(inputs), model.predict(inputs))


def test_a_file_of_format_1_says_that_it_knows_nothing_of_novelty():
    with np.load(FORMAT_1.with_suffix(".npz")) as kept, pytest.raises(ValueError, match=r"older pcarann.*fit again"):
        loaded(FORMAT_1).novelty(kept["inputs"])


def test_a_document_of_the_newest_format_stays_as_it_is():
    document = {"format": FORMAT_VERSION, "parameters": {}}
    assert upgraded(document, {}) is document


def test_there_is_no_format_0():
    with pytest.raises(ValueError, match="format 0 does not exist"):
        upgraded({"format": 0}, {})
