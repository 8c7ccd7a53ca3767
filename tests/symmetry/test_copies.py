import numpy as np

from conftest import periodic_pairs
from pcarann import Symmetry
from pcarann.latent.pca import fit_pca
from pcarann.symmetry.copies import Copies

FIELDS = periodic_pairs(40).inputs
GROUP = Symmetry.shifts(-1).bind((10,), (2, 10))


def fitted(elements, parts):
    return Copies(GROUP, elements, 0, 0).fit_pca(FIELDS, parts, lambda **options: fit_pca(n_components=4, **options))


def test_without_a_group_fields_stay_where_they_are():
    alone = Copies(None, (0,), 0, 0)
    assert alone.move(FIELDS, 0) is FIELDS
    assert alone.sources(40) == []


def test_one_element_fits_the_fields_alone():
    pca, latents = fitted((0,), [None])
    expected, codes = fit_pca(FIELDS, 4)
    assert np.array_equal(pca.modes, expected.modes)
    assert np.array_equal(latents, codes)


def test_latents_are_those_of_the_parts_and_then_of_their_copies():
    parts = [list(range(30)), list(range(30, 40))]
    pca, latents = fitted((0, 3), parts)
    moved = np.concatenate([FIELDS, GROUP.move_inputs(FIELDS, 3)])
    assert np.allclose(latents, pca.encode(moved), rtol=0, atol=1e-12)


def test_each_field_is_seen_once_more_and_its_source_is_known():
    copies = Copies(GROUP, tuple(range(10)), 0, 0)
    seen = {}
    copies.fit_pca(FIELDS, [None], lambda fields, **_: seen.update(fields=fields) or fit_pca(fields, 4))
    added, sources = seen["fields"][40:], copies.sources(40)
    assert sorted(sources) == list(range(40))
    for field, source in zip(added, sources, strict=True):
        assert any(np.array_equal(field, np.roll(FIELDS[source], shift)) for shift in range(10))


def test_energies_are_those_of_so_many_samples():
    copies, seen = Copies(GROUP, tuple(range(10)), 0, 0), {}
    pca, _ = copies.fit_pca(FIELDS, [None], lambda fields, **_: seen.update(fields=fields) or fit_pca(fields, 4))
    twice = ((seen["fields"] - seen["fields"].mean(axis=0)) ** 2).sum()
    assert np.isclose(pca.energy, twice / 2, rtol=1e-12)
