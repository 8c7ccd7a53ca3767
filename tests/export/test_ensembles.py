"""An ensemble on a sheet: moves of a group there and back."""

import numpy as np
from runtime import SMALL, pairs, run

from pcarann import PCARaNN
from pcarann.export.ensembles import LatentModel
from pcarann.export.graph import Sheet
from pcarann.symmetry.generators import Symmetry


def ensemble():
    X, y = pairs(60, inputs=(4, 4), outputs=(2, 4, 4))
    model = PCARaNN(**SMALL, symmetry=Symmetry.dihedral()).fit(X, y)
    return model.fitted_.ensemble, X.reshape(60, -1)


def test_an_orbit_holds_inputs_moved_by_every_element():
    found, X = ensemble()
    sheet = Sheet()
    model = LatentModel(sheet, found)
    orbit = model.orbit(sheet.input("a", (16,)))
    graph = sheet.graph({"orbit": (orbit, (8, 16)), "x": (model.encoded(orbit), (8, 6))})
    values = run(graph, a=X[:5])
    wanted = [found.group.move_inputs(X[:5], g) for g in found.averaged]
    assert np.array_equal(values["orbit"], np.stack(wanted, axis=1))
    assert np.allclose(values["x"], np.stack(found.orbit(X[:5]), axis=1), rtol=1e-12, atol=1e-12)


def test_fields_are_moved_back_before_they_are_averaged():
    found, _ = ensemble()
    latents = np.random.default_rng(0).normal(size=(3, 8, 6))
    sheet = Sheet()
    fields = LatentModel(sheet, found).decoded(sheet.reshaped(sheet.input("y", (8, 6)), (6,)))
    (values,) = run(sheet.graph({"u": (fields, (32,))}), y=latents).values()
    group, decode = found.group, found.output_pca.decode
    wanted = [group.move_outputs(decode(latents[:, i]), group.inverse(g)) for i, g in enumerate(found.averaged)]
    assert np.allclose(values, np.mean(wanted, axis=0), rtol=1e-12, atol=1e-12)
