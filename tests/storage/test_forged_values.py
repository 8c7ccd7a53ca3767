"""Values of a document that are not of their type: refused when the file is loaded, or harmless ever after."""

import copy
import json
import warnings

import pytest

from pcarann import ModelFileError, load
from pcarann.cli.models import model_facts
from pcarann.storage.container import read, write
from small_models import PAIRS, A, saved

WRONG = ([[]], "x", None, {}, float("inf"), -1, True, 10**400, "x" * 100_000, float("nan"))
ASKED = {"parts": {"a": PAIRS.inputs[:3], "n": A[:3, 0]}, "mean": A[:3], "stages": A[:3], "mesh": A[:3]}
ASKED |= dict.fromkeys(("marching", "labelled flow"), A[:3, None])
SHOWN = ("fit_report_", "stages_", "rollout_report_", "refinement_", "monitor", "fit_seconds_")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def leaves(part, path=()):
    """Paths to all values of a document and to what holds them; of a list the first and the last entry only."""
    if path:
        yield path
    if isinstance(part, dict):
        for name, one in part.items():
            yield from leaves(one, (*path, name))
    elif isinstance(part, list):
        for at in sorted({0, len(part) - 1} if part else ()):
            yield from leaves(part[at], (*path, at))


def forged(document, path, value):
    """The document with another value."""
    found = inner = copy.deepcopy(document)
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return found


def means_something(path, value):
    """Whether the document then describes another sound model: a part is called otherwise, or left out."""
    return (path[-1] == "name" and value == "x") or (path in [("packing",), ("marching",)] and value is None)


def used(model, X):
    """Show all that is known of a model, and predict."""
    model.predict(X)
    for name in SHOWN:
        str(getattr(model, name, None))
    str(model)
    json.dumps(model_facts(model))


@pytest.mark.parametrize("name", ["latent", "adapted", "kernel", "parts", "mean", "stages", "mesh", "labelled flow"])
def test_no_value_of_a_document_breaks_what_was_loaded(folder, name):
    path, failed = folder / "forged", []
    document, tensors = read(saved(folder, name))
    for i, where in enumerate(leaves(document)):
        value = WRONG[i % len(WRONG)]
        write(path, forged(document, where, value), tensors)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                used(load(path), ASKED.get(name, PAIRS.inputs[:3]))
            except ModelFileError:
                continue
            except Exception as error:
                if not means_something(where, value):
                    failed.append((where, repr(value)[:20], repr(error)[:200]))
    assert not failed


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:8])
@pytest.mark.parametrize("field", ["relative_error", "r2", "samples", "parts", "ridge"])
def test_a_report_is_what_its_record_declares(folder, field, value):
    document, tensors = read(saved(folder, "latent"))
    write(folder / "forged", forged(document, ("report", field), value), tensors)
    try:
        model = load(folder / "forged")
    except ModelFileError:
        return
    str(model.fit_report_)
    json.dumps(model_facts(model))
