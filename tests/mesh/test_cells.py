"""Points and cells that do not make a mesh are refused in one sentence."""

import numpy as np
import pytest

from meshes import hexahedra, quads
from pcarann.mesh.mesh import Mesh

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
CUBE = [[*corner, height] for height in (0, 1) for corner in SQUARE]
REFUSED = {
    "no points": (([[0.0, 0.0]], None), r"coordinates of two nodes or more, found \(1, 2\)"),
    "four dimensions": ((np.zeros((5, 4)), None), r"found \(5, 4\)"),
    "not a number": (([[0, 0], [1, np.nan], [np.inf, 1]], None), "NaN or infinity: 2 of 3, the first is point 1"),
    "same points": (([[0, 0], [1, 0], [0, 1], [1, 0]], None), r"1 pair\(s\) are.*first are points 1 and 3"),
    "another kind": ((SQUARE, {"wedge": [[0, 1, 2]]}), "kind 'wedge' are not known: line, triangle"),
    "five corners": ((SQUARE, [[0, 1, 2, 3, 0]]), r"k corners of a known kind in 2 dimensions.*found shape \(1, 5\)"),
    "four of a triangle": ((SQUARE, {"triangle": [[0, 1, 2, 3]]}), r"whole numbers of shape \(n, 3\)"),
    "fractions": ((SQUARE, [[0.0, 1.0, 2.0]]), "whole numbers of shape .*found float64"),
    "out of range": ((SQUARE, [[0, 1, 2], [0, 2, 4]]), r"1 cell\(s\) of kind 'triangle'.*the first is cell 1"),
    "negative": ((SQUARE, [[0, 1, -1], [0, 2, 3]]), r"the first is cell 0 with \[0, 1, -1\]"),
    "too flat a space": ((SQUARE, {"tetra": [[0, 1, 2, 3]]}), "'tetra' need points in 3 dimensions or more, found 2"),
    "a boundary": ((SQUARE, {"quad": [[0, 1, 2, 3]], "line": [[0, 1]]}), r"dimension, found quad \(2\), line \(1\)"),
    "no cells": ((SQUARE, {"quad": np.zeros((0, 4), int)}), "at least one cell, or be None for a cloud"),
    "a lost node": ((SQUARE, [[0, 1, 2]]), "1 of 4 points belong to no cell, the first is point 3"),
    "no area": (([*SQUARE, [2, 0]], [[0, 1, 2], [0, 2, 3], [0, 1, 4]]), "1 of 3 cells.* have no size.*cell 2"),
    "a cell again": ((SQUARE, [[0, 1, 2], [0, 2, 3], [2, 0, 1]]), "1 of 3 cells.* stand there twice.*cell 2"),
    "no volume": (([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2, 3]]), "'tetra' have no size"),
    "a bow tie": ((SQUARE, [[0, 2, 1, 3]]), "'quad' (are not convex|have no size).*the first is cell 0"),
    "a dart": (([[0, 0], [1, 0], [0.1, 0.1], [0, 1]], [[0, 1, 2, 3]]), "'quad' are not convex"),
    "a dart in space": (([[0, 0, 1], [1, 0, 1], [0.1, 0.1, 1], [0, 1, 1]], {"quad": [[0, 1, 2, 3]]}), "are not convex"),
    "a twisted cube": ((CUBE, [[0, 1, 2, 3, 6, 7, 4, 5]]), "'hexahedron' (are not convex|have no size)"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_mesh_is_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Mesh(*given)


def test_cells_may_be_turned_over():
    for mesh in (quads(), hexahedra()):
        ((kind, cells),) = mesh.cells.items()
        turned = cells[:, ::-1] if kind == "quad" else cells[:, [4, 5, 6, 7, 0, 1, 2, 3]]
        assert np.allclose(Mesh(mesh.points, {kind: turned}).weights, mesh.weights)


def test_kinds_are_told_by_corners_and_space():
    assert list(Mesh(SQUARE, [[0, 1, 2, 3]]).cells) == ["quad"]
    assert list(Mesh(CUBE, [list(range(8))]).cells) == ["hexahedron"]
    assert list(Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]]).cells) == ["tetra"]
    assert list(Mesh([0.0, 1.0, 3.0], [[0, 1], [1, 2]]).cells) == ["line"]
