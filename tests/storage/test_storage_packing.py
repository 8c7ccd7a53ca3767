import numpy as np
import pytest

from pcarann import Fields, Mesh, PCARaNN, Staged
from pcarann.backend.arrays import place_of
from pcarann.storage.arrays import Arrays
from pcarann.storage.limits import Allowance
from pcarann.storage.packing import described_packing, rebuilt_packing

RNG = np.random.default_rng(0)
x = np.linspace(0, 1, 16)
A = RNG.standard_normal((40, 1)) * x + RNG.standard_normal((40, 1)) * x**2 + 0.1 * RNG.standard_normal((40, 16))
GIVEN = {"a": A, "n": RNG.uniform(size=40)}
HOST = place_of(A)


def arrays(tensors):
    return Arrays(tensors, HOST, Allowance(10**8))


@pytest.fixture(scope="module")
def coded():
    return PCARaNN(2, n_members=1, regressor="kernel").fit(GIVEN, {"u": A**2, "v": A}).fitted_.packing


@pytest.fixture(scope="module")
def stacked():
    mesh = Mesh(RNG.uniform(size=(16, 2)))
    model = Staged(grid=mesh, n_features=5, n_members=1, n_stages=1).fit(GIVEN, {"u": A**2, "v": A})
    return model.fitted_.packing


@pytest.mark.parametrize("name", ["coded", "stacked"])
def test_a_packing_comes_back_and_does_the_same(name, request):
    packing = request.getfixturevalue(name)
    tensors = {}
    document = described_packing(packing, tensors)
    again = rebuilt_packing(document, arrays(tensors), packing.grids)
    assert np.array_equal(again.opened(GIVEN, HOST)[0], packing.opened(GIVEN, HOST)[0])
    assert np.array_equal(again.truth({"u": A, "v": A}, HOST), packing.truth({"u": A, "v": A}, HOST))
    assert (again.mesh is None) == (packing.mesh is None)


def test_no_packing_is_none():
    assert described_packing(None, {}) is None
    assert rebuilt_packing(None, arrays({}), ((1,), (1,))) is None


BROKEN = {
    "other scales": lambda doc, ten: doc.update(scales=[1.0]),
    "no scale": lambda doc, ten: doc.update(scales=[0.0, 1.0]),
    "fewer parts": lambda doc, ten: doc.update(coded=doc["coded"][:1]),
    "no parts": lambda doc, ten: doc["inputs"].update(parts=[]),
    "negative grid": lambda doc, ten: doc["outputs"]["parts"][0].update(grid=[-3]),
    "no unit": lambda doc, ten: doc["coded"][0].update(unit=0.0),
    "no mean": lambda doc, ten: ten.pop("packing.code.0.mean"),
    "other modes": lambda doc, ten: ten.update({"packing.code.0.modes": np.ones((2, 3))}),
    "NaN factor": lambda doc, ten: ten.update({"packing.code.1.factor": np.array([np.nan])}),
    "no factor": lambda doc, ten: ten.update({"packing.code.1.factor": np.array([0.0])}),
    "other holes": lambda doc, ten: ten.update({"packing.inputs.0.holes": np.zeros(3, dtype=bool)}),
    "other grid": lambda doc, ten: doc["outputs"]["parts"][0].update(grid=[15]),
}


@pytest.mark.parametrize("change", BROKEN)
def test_what_does_not_fit_together_is_refused(coded, change):
    tensors = {}
    document = described_packing(coded, tensors)
    BROKEN[change](document, tensors)
    with pytest.raises(ValueError):
        rebuilt_packing(document, arrays(tensors), coded.grids)


def test_a_mesh_is_part_of_the_file(tmp_path):
    from pcarann import load

    mesh = Mesh(RNG.uniform(size=(16, 2)), components="last")
    PCARaNN(2, n_members=1, regressor="kernel", fields=Fields(mesh=mesh)).fit(A, A**2).save(tmp_path / "model")
    assert load(tmp_path / "model").mesh_ == mesh
