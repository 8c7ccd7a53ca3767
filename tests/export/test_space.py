"""Operators of grids and meshes as graphs, beside the operators themselves."""

import numpy as np
import pytest
from runtime import run

from pcarann.export.graph import Sheet
from pcarann.export.space import space_on_sheet
from pcarann.mesh.mesh import Mesh
from pcarann.spatial.axis import Axis
from pcarann.spatial.domain import Domain
from pcarann.spatial.mesh_domain import MeshDomain

ROUNDING = 1e-13  # of a few hundred sums of numbers of size 1
POINTS = np.random.default_rng(1).uniform(0, 1, (40, 2))
SPACES = {
    "a period": Domain((Axis(12, "periodic"),)),
    "an odd period": Domain((Axis(9, "periodic"),)),
    "free ends": Domain((Axis(10, "free"),)),
    "zero ends": Domain((Axis(10, "zero"),)),
    "a long axis": Domain((Axis(520, "free"),)),
    "two periods": Domain((Axis(8, "periodic"), Axis(6, "periodic"))),
    "a period and ends": Domain((Axis(6, "periodic"), Axis(7, "zero"), Axis(5, "free"))),
    "another grid": Domain((Axis(12, "periodic", 2), Axis(31, "free", 2))),
    "a mesh": MeshDomain.of(Mesh(POINTS), modes=12),
    "all harmonics of a mesh": MeshDomain.of(Mesh(POINTS), modes=40),
}
COLUMNS = 3


@pytest.mark.parametrize("name", SPACES)
def test_every_operator_is_that_of_the_space(name):
    space = SPACES[name]
    fields = np.random.default_rng(0).normal(size=(2, *space.shape, COLUMNS))
    sheet = Sheet()
    here, x = space_on_sheet(sheet, space), sheet.input("x", fields.shape[1:])
    harmonics = here.forward(x, COLUMNS)
    outputs = {
        "forward": harmonics,
        "back": here.backward(harmonics, COLUMNS),
        "blurred": here.blurred(x, COLUMNS, 1.5),
        "smoothed": here.smoothed(x, COLUMNS, 0.4),
        **{f"slope {i}": slope for i, slope in enumerate(here.slopes(x))},
    }
    found = run(sheet.graph({key: (value, ()) for key, value in outputs.items()}), x=fields)
    spectrum = space.forward(fields)
    parts = (spectrum.real, spectrum.imag) if space.is_complex else (spectrum,)
    wanted = {
        "forward": np.concatenate(parts, axis=-1),
        "back": space.backward(spectrum),
        "blurred": space.blurred(fields, 1.5),
        "smoothed": space.smoothed(fields, 0.4),
        **{f"slope {i}": slope for i, slope in enumerate(space.slopes(fields))},
    }
    for key, value in wanted.items():
        assert found[key].shape == value.shape, key
        assert np.abs(found[key] - value).max() <= ROUNDING * max(1.0, np.abs(value).max()), key
