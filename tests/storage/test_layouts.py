"""Layouts come back as they were; channels are counted without the grid."""

import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.layout import Layout
from pcarann.storage.arrays import Arrays
from pcarann.storage.layouts import described_layout, rebuilt_layout, seen_channels
from pcarann.storage.limits import Allowance


def arrays(allowed=10**7):
    return Arrays({}, place_of(None), Allowance(allowed))


LAYOUT = Layout.of((2, 40, 24), (40, 24), None)


def test_a_layout_comes_back():
    again = rebuilt_layout(described_layout(LAYOUT, {}), arrays())
    assert again == LAYOUT


@pytest.mark.parametrize(
    "change",
    [{"output_grid": [-40, -24]}, {"output_grid": [40.0, 24]}, {"closed": [1, 0]}, {"boundaries": ["odd", "odd"]},
     {"trained": [2, 2]}, {"space": [-7]}, {"input_grid": "ab"}],
    ids=str,
)  # fmt: skip
def test_what_is_no_layout_is_refused(change):
    with pytest.raises(ValueError):
        rebuilt_layout(described_layout(LAYOUT, {}) | change, arrays())


def test_a_grid_that_is_only_said_is_refused_where_it_is_too_large():
    said = described_layout(LAYOUT, {}) | {"input_grid": [2, 10**5, 10**5], "output_grid": [10**5, 10**5]}
    with pytest.raises(ValueError, match="one sample on its grid would take"):
        rebuilt_layout(said, arrays())


@pytest.mark.parametrize("smoothed", [None, 0.1])
@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("boundary", ["periodic", "free", "zero"])
def test_channels_are_as_many_on_a_small_grid(smoothed, products, boundary):
    layout = Layout.of((2, 40, 24), (40, 24), None)
    layout = Layout(layout.input_grid, layout.output_grid, layout.space, (boundary,) * 2, (False,) * 2)
    sight = Sight(layout.domain, Channels(products=products, smoothed=smoothed), False, np.zeros((1, 40, 24, 1)))
    whole = sight.channels(*(np.zeros((1, *layout.domain.shape, n)) for n in (2, 1)))
    assert seen_channels(sight, layout, arrays()) == whole.shape[-1]


def test_products_of_too_many_components_are_refused():
    layout = Layout.of((3000, 16), (3000, 16), (-1,))
    with pytest.raises(ValueError, match="products of its channels would take"):
        seen_channels(Sight(layout.domain, Channels(), False), layout, arrays())
