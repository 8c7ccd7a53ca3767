"""Single precision where that is enough, double where it is not."""

import numpy as np
from runtime import run

from pcarann.export.graph import DOUBLE, Sheet
from pcarann.export.precision import SINGLE, in_single

BIG = 1.0 + np.arange(100.0) * 1e-9  # which single precision cannot tell apart


def graph():
    sheet = Sheet()
    x = sheet.input("x", (100,))
    difference = x * BIG - x * 1.0
    with sheet.loosely():
        loose = sheet.tanh(x * BIG)
    kept = sheet.joined([sheet.gathered(x, np.arange(2)), sheet.gathered(difference, np.arange(2))])
    chosen = sheet.counted(sheet.less(x, 0.5)) * 2.0
    values = {"difference": difference, "loose": loose, "kept": kept, "chosen": chosen}
    return sheet.graph({name: (value, (4 if name == "kept" else 100,)) for name, value in values.items()})


def test_what_is_not_loose_is_done_in_double():
    x = np.linspace(0, 1, 100, dtype=np.float32)[None, :]
    found = run(graph(), single=True, x=x)
    assert {one.dtype for one in found.values()} == {np.dtype(np.float32)}
    assert np.allclose(found["difference"], x * (BIG - 1), rtol=1e-5, atol=0)
    assert np.allclose(found["kept"], np.concatenate([x[:, :2], found["difference"][:, :2]], axis=1))
    assert np.array_equal(found["chosen"], np.where(x < 0.5, 2.0, 0.0))


def test_constants_of_loose_operators_are_kept_in_single_precision():
    found = in_single(graph())
    by_output = {node.output: node for node in found.nodes}
    tanh = next(node for node in found.nodes if node.operator == "Tanh")
    product = by_output[tanh.inputs[0]]
    assert [found.constants[name].dtype for name in product.inputs if name in found.constants] == [np.float32]
    casts = {node.attributes["to"] for node in found.nodes if node.operator == "Cast"}
    assert casts == {SINGLE, DOUBLE}
