"""The examples solve what they say: textbook solutions, orders of convergence, reproducible samples."""

from __future__ import annotations

import doctest
import sys

import numpy as np
import pytest

from scripts import example

pytest.importorskip("skfem", reason="the examples are solved with scikit-fem")
pytest.importorskip("meshio", reason="the examples write meshes with meshio")


@pytest.fixture(scope="module")
def plate():
    return example("plate")


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data")
def test_files_become_a_surrogate_and_files_for_paraview(plate, tmp_path, capsys):
    import meshio

    plate.write("plate", plate.mesh(0), *plate.sample(80, 0, level=0), tmp_path)
    error, covered = example("surrogate").main(tmp_path / "plate.npz", "displacement", budget=2.0)
    assert error < 0.15
    assert 0.7 < covered <= 1
    assert "Latent models" in capsys.readouterr().out
    fields = meshio.read(tmp_path / "plate_0001.vtu").point_data
    assert fields["mean"].shape == (plate.mesh(0).p.shape[1], 2)
    assert (fields["lower"] <= fields["upper"]).all()
    assert {"surrogate.png", "plate.png", "plate.pcarann"} < {path.name for path in tmp_path.iterdir()}


@pytest.fixture(scope="module")
def block(plate):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "plate", plate)  # which it imports, as a script in the same folder
        yield example("block")


def uniform(module, level, **radius):
    """k = 1 everywhere."""
    return np.zeros(module.mesh(level, **radius).p.shape[1])


@pytest.mark.parametrize("name", ["plate", "block"])
def test_the_example_in_the_docstring_is_right(name, request):
    assert doctest.testmod(request.getfixturevalue(name)).failed == 0


@pytest.mark.parametrize(("name", "nodes"), [("plate", 3936), ("block", 2520)])
def test_a_mesh_has_the_stated_nodes_and_is_closed_along_its_seam(name, nodes, request):
    mesh = request.getfixturevalue(name).mesh()
    sides = set(mesh.boundaries) - {"left", "right"}  # parts of "outer"
    assert mesh.p.shape[1] == nodes
    assert len(mesh.boundary_facets()) == sum(len(mesh.boundaries[side]) for side in sides)


def edge_stress(plate, level, radius):
    """Stress along the hole over the traction: E times the strain of the hole's edges, since nothing acts across."""
    mesh = plate.mesh(level, radius)
    first, second = mesh.facets[:, mesh.boundaries["hole"]]
    u, _ = plate.solve(uniform(plate, level, radius=radius), 0.0, 0.0, level=level, radius=radius)
    along = (mesh.p[:, second] - mesh.p[:, first]).T
    return plate.YOUNG / plate.TRACTION * ((u[second] - u[first]) * along).sum(axis=1) / (along**2).sum(axis=1)


def test_a_small_hole_concentrates_stress_as_kirsch_says(plate):
    stress = edge_stress(plate, 2, 5.0)
    # 3 and −1 for an infinite plate; this mesh gives 3.02 and −0.95, one twice as fine 3.04 and −0.98.
    assert stress.max() == pytest.approx(3.0, abs=0.1)
    assert stress.min() == pytest.approx(-1.0, abs=0.1)


def test_uniform_heat_lengthens_a_plate_by_its_free_expansion(plate):
    warm = np.full(plate.mesh(0).p.shape[1], 100.0)
    u = plate._mechanics(0, plate.RADIUS)(warm, np.zeros(2))
    right = plate.mesh(0).p[0] > 0.999 * plate.HALF_SIDE
    free = plate.EXPANSION * 100.0 * 2 * plate.HALF_SIDE
    # The clamp hinders expansion along itself, and Poisson's ratio lengthens the plate by what that presses: 4 %.
    assert u[right, 0].mean() == pytest.approx(free, rel=0.06)


def test_displacements_are_linear_in_temperature_and_traction(plate):
    field = plate.random_field(plate.mesh(0).p, np.random.default_rng(0))
    pulled, warmed, both = (
        plate.solve(field, *given, level=0)[0] for given in ((0.5, 0.0), (0.5, 100.0), (0.5, 200.0))
    )
    assert np.allclose(both - pulled, 2 * (warmed - pulled), rtol=0, atol=1e-10 * np.abs(both).max())


def test_temperature_does_not_know_the_unit_of_conductivity(plate):
    field = plate.random_field(plate.mesh(0).p, np.random.default_rng(0))
    T, same = (plate.solve(field + shift, 0.0, 100.0, level=0)[1] for shift in (0.0, 3.0))
    assert np.allclose(T, same, rtol=0, atol=1e-10 * 100)


def test_displacement_and_temperature_converge(plate):
    def at_coarse_nodes(level):
        points = plate.mesh(level).p
        found = plate.solve(plate.random_field(points, np.random.default_rng(3)), 0.7, 150.0, level=level)
        where = {tuple(point): k for k, point in enumerate(points.T.round(5).tolist())}
        kept = [where[tuple(point)] for point in plate.mesh(0).p.T.round(5).tolist()]
        return [values[kept] for values in found]

    coarse, middle, fine = (at_coarse_nodes(level) for level in (0, 1, 3))
    order_u, order_T = (
        np.log2(np.linalg.norm(a - c) / np.linalg.norm(b - c)) for a, b, c in zip(coarse, middle, fine, strict=True)
    )
    # Two of linear elements on smooth solutions; the corners of the clamp are singular.
    assert order_T > 1.8
    assert order_u > 1.4


def test_a_film_cools_a_block_and_insulated_faces_leave_it_the_same_at_all_heights(block):
    points = block.mesh(0).p
    insulated, cooled = (block.solve(uniform(block, 0), film, 100.0, level=0) for film in (0.0, 0.05))
    assert cooled.mean() < 0.9 * insulated.mean()
    layers = [insulated[np.isclose(points[2], height)] for height in np.unique(points[2].round(6))]
    means = [layer.mean() for layer in layers]
    # Tetrahedra are not the same in all layers.
    assert np.ptp(means) < 0.01 * insulated.mean()


@pytest.mark.parametrize("name", ["plate", "block"])
def test_a_sample_depends_on_the_seed_and_its_number_alone(name, request):
    module = request.getfixturevalue(name)
    many, few, others = (module.sample(*given, level=0) for given in ((3, 0), (2, 0), (2, 1)))
    for all_three, first_two, another in zip(many, few, others, strict=True):
        for key, values in all_three.items():
            assert np.array_equal(values[:2], first_two[key])
            assert not np.array_equal(first_two[key], another[key])
            assert np.isfinite(values).all()


def test_the_field_has_the_stated_spread_and_correlation(plate):
    points = np.array([[-60.0, -10.0, 60.0], [-60.0, -60.0, 60.0]])
    rng = np.random.default_rng(0)
    draws = np.array([plate.random_field(points, rng) for _ in range(2000)])
    near, far = np.corrcoef(draws.T)[0, 1:]
    # Of 2000 draws, standard deviations and correlations have errors of 2 %; edges raise the spread around them.
    assert draws.std(axis=0) == pytest.approx(plate.SPREAD, rel=0.2)
    assert near > 0.4 > abs(far)


@pytest.mark.parametrize("name", ["plate", "block"])
def test_samples_and_mesh_are_written_and_read_again(name, request, tmp_path):
    import meshio

    module = request.getfixturevalue(name)
    inputs, outputs = module.sample(2, 0, level=0)
    module.write(name, module.mesh(0), inputs, outputs, tmp_path)
    with np.load(tmp_path / f"{name}.npz") as file:
        assert {f"input_{key}" for key in inputs} | {f"output_{key}" for key in outputs} < set(file)
        assert np.array_equal(file["points"][file["cells"]], module.mesh(0).p.T[module.mesh(0).t.T])
    read = meshio.read(tmp_path / f"{name}_mesh.vtu")
    assert np.array_equal(read.point_data["output_temperature"], outputs["temperature"][0])
    assert read.points.shape == (module.mesh(0).p.shape[1], 3)


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data")
def test_a_guarded_design_is_confirmed_by_the_solver_and_one_without_guard_exploits_the_surrogate(tmp_path):
    design = example("design")
    found = design.main(["--quick", "-o", str(tmp_path)])
    assert found["confirmed"]
    assert design.solve(found["careful"])[-1] <= 1.02 * design.LIMIT
    assert design.solve(found["trusting"])[-1] > 1.5 * design.LIMIT
    # Sections of the lightest beam are in the ratio of the sixth roots of ∫ (1 − x)² over them.
    ends = np.linspace(0, 1, 5)
    bending = -np.diff((1 - ends) ** 3) / 3
    lightest = bending ** (1 / 6) * (np.cbrt(bending).sum() / design.LIMIT) ** 0.25
    assert design.mass(found["careful"]) == pytest.approx(design.mass(lightest), rel=0.02)
    assert (tmp_path / "design.png").stat().st_size > 0


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data", "ignore:relative error .*")
def test_a_surrogate_that_chooses_its_samples_is_drawn_beside_one_that_does_not(tmp_path):
    curves = example("active").main(["--quick", "-o", str(tmp_path)])
    assert [len(curve) for curve in curves.values()] == [3, 3]
    assert curves["random"][0] == curves["error"][0] > curves["error"][2]
    assert (tmp_path / "active.png").stat().st_size > 0


@pytest.mark.filterwarnings("ignore:.* lies? outside the training data")
def test_an_inversion_draws_posteriors_with_the_model_error_and_without(tmp_path):
    pytest.importorskip("emcee", reason="posteriors are drawn with emcee")
    draws = example("inversion").main(["--quick", "-o", str(tmp_path)])
    widths = {name: np.std(found, axis=0).mean() for name, found in draws.items()}
    assert widths["with model error"] > widths["without"]
    assert (tmp_path / "inversion.png").stat().st_size > 0


def test_the_beam_of_the_design_bends_as_beams_do():
    design = example("design")
    assert design.solve(np.ones(4))[-1] == pytest.approx(1 / 3, rel=1e-4)
    assert np.allclose(design.solve(np.full(4, 0.5)), 16 * design.solve(np.ones(4)))


def test_the_field_of_the_inversion_is_that_of_a_square():
    pytest.importorskip("emcee", reason="posteriors are drawn with emcee")
    case = example("inversion")
    uniform = case.solve(np.r_[-50.0, 1.0, np.zeros(case.MODES)])
    # −Δu = 1: 0.07367 in the middle of the unit square; h only lowers it.
    assert uniform[12, 12] == pytest.approx(0.07367, rel=3e-3)
    assert case.solve(np.r_[1.0, 1.0, np.zeros(case.MODES)])[12, 12] < uniform[12, 12]
