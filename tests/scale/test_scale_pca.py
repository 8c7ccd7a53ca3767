import numpy as np
import pytest
from lazy_data import lazily

from pcarann import PCARaNN
from pcarann.backend.arrays import place_of
from pcarann.latent.pca import fit_pca
from pcarann.latent.source import PcaOptions
from pcarann.scale import reading
from pcarann.scale.blockwork import Frame
from pcarann.scale.engine import Budget
from pcarann.scale.pca import lazy_pca
from pcarann.scale.report import Log


def found(fields, components, inner=None, **frame):
    inner = np.ones(len(fields), dtype=bool) if inner is None else inner
    made = Frame(place_of(None), "X", frame.get("root"), inner, 0, fields.shape[1])
    reader = reading.reader_of(lazily(fields, 30), made, Budget(4_000_000, 2), log := Log())
    weights = None if frame.get("root") is None else frame["root"] ** 2
    return *lazy_pca(reader, PcaOptions(components, fields.shape[1:], weights), "inputs"), log


def matrix(samples, values, rank=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(samples, rank)) @ (rng.normal(size=(rank, values)) / np.arange(1, rank + 1)[:, None]) + 5.0


@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_modes_latents_and_energies_are_those_in_memory(shape):
    fields = matrix(*shape)
    inner = np.arange(len(fields)) % 5 > 0
    pca, latents, sizes, _ = found(fields, 8, inner)
    known, codes = fit_pca(fields, 8, among=np.flatnonzero(inner))
    assert np.allclose(pca.modes, known.modes, atol=1e-11)
    assert np.allclose(pca.singular_values, known.singular_values, rtol=1e-12)
    assert np.allclose(latents[inner], codes, atol=1e-10)
    assert np.allclose(latents, known.encode(fields), atol=1e-10)
    assert np.allclose(sizes[:, 0], ((fields - known.mean) ** 2).sum(axis=1))
    assert np.allclose(sizes[:, 1], (fields**2).sum(axis=1))
    assert pca.energy == pytest.approx(known.energy)


@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_a_share_of_the_energy_and_weights_are_taken(shape):
    fields, root = matrix(*shape), np.linspace(1, 3, shape[1])
    pca, *_ = found(fields, 0.99, root=root)
    known, _ = fit_pca(fields, 0.99, weights=root**2)
    assert pca.n_components == known.n_components
    assert np.allclose(pca.modes, known.modes, atol=1e-10)


@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_deep_modes_are_those_in_memory(shape):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.normal(size=(n, 24)))[0] for n in shape)
    fields = (left * 10.0 ** (-0.5 * np.arange(24))) @ right.T
    pca, latents, _, log = found(fields, 22)
    known, codes = fit_pca(fields, 22)
    assert log.method.endswith("in stages")
    assert pca.n_components == known.n_components == 22
    assert np.allclose(pca.singular_values, known.singular_values, rtol=1e-4)
    assert np.abs(latents - codes).max() < 1e-11 * np.linalg.norm(fields)
    assert np.abs(pca.modes @ pca.modes.T - np.eye(22)).max() < 1e-12


@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_modes_by_iteration_where_no_gram_matrix_fits(shape, monkeypatch):
    monkeypatch.setattr(reading, "MOST_SHORT", 10)
    fields = matrix(*shape)
    pca, latents, _, log = found(fields, 4)
    known, _ = fit_pca(fields, 4)
    assert log.method == "subspace iteration"
    assert 0 < log.accuracy < 1e-4
    assert np.allclose(pca.singular_values, known.singular_values, rtol=1e-6)
    assert np.allclose(latents, pca.encode(fields), atol=1e-9)
    with pytest.raises(ValueError, match="share of the energy"):
        found(fields, 0.9)


@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_modes_by_iteration_are_no_more_than_the_rank(shape, monkeypatch, recwarn):
    monkeypatch.setattr(reading, "MOST_SHORT", 10)
    fields = matrix(*shape, rank=3).reshape(shape[0], 4, -1)
    model = PCARaNN(n_components=(8, 1), widths=(10, 10), n_members=1, ridge=1e-3, scales="energy")
    model.fit(lazily(fields, 50), fields[:, 0, 0])
    assert model.scale_report_.sides[0].method == "subspace iteration"
    assert model.input_pca_.n_components == 3
    said = [str(one.message) for one in recwarn]
    assert f"n_components=8 is more than there are, as the {shape[0]} inputs have rank 3: using 3 modes." in said
    assert not any("settled" in one for one in said)


@pytest.mark.parametrize(("decay", "warned"), [(0.3, True), (2.0, False)])
def test_modes_that_have_not_settled_are_said_with_what_helps(decay, warned, monkeypatch, recwarn):
    monkeypatch.setattr(reading, "MOST_SHORT", 10)
    sizes = 1.0 / np.arange(1, 61) ** decay
    fields = (np.random.default_rng(5).normal(size=(200, 60)) * sizes).reshape(200, 3, 20)
    model = PCARaNN(n_components=(8, 1), widths=(10, 10), n_members=1, ridge=1e-3, scales="energy")
    model.fit(lazily(fields, 50), fields[:, 0, 0])
    said = [str(one.message) for one in recwarn if "settled" in str(one.message)]
    assert len(said) == warned
    assert (model.scale_report_.sides[0].accuracy > 0.01) == warned
    if warned:
        assert "singular values moved by 0.0" in str(model.scale_report_)
        assert "last modes of X have not settled" in said[0]
        assert "Lower n_components, or allow each task 0.00012 GB: then modes are exact." in said[0]
