"""The house rules: imports go down only, things are short, and what is private stays so."""

import ast
from pathlib import Path

import pytest

from house import (
    ARCHITECTURE,
    LAYERS,
    NARROWED,
    ROOT,
    Module,
    arguments_of,
    circle,
    drawn,
    graphs,
    is_private,
    lines_of,
    redrawn,
    reduced,
    room,
    sources,
)

MOST_LINES, MOST_FUNCTION_LINES, MOST_ARGUMENTS, MOST_IN_ROOT = 350, 60, 8, 15
CONSTRUCTORS = {"pcarann.operator.PCARaNN.__init__": 14, "pcarann.staged.Staged.__init__": 13}
"""Those of estimators, which scikit-learn wants flat"""

TESTED_ELSEWHERE = {
    "attributes.py": "test_operator.py",
    "backend/progress.py": "test_operator.py",
    "baselines/__init__.py": "baselines/test_optimisation.py",
    "baselines/checkpoints.py": "baselines/test_optimisation.py",
    "baselines/estimator.py": "baselines/test_optimisation.py",
    "baselines/fields.py": "baselines/test_optimisation.py",
    "benchmark/machine.py": "benchmark/paper/test_reproduce.py",
    "benchmark/paper/configurations.py": "benchmark/paper/test_paper_figures.py",
    "benchmark/paper/experiments.py": "benchmark/paper/test_reproduce.py",
    "benchmark/paper/runs.py": "benchmark/paper/test_reproduce.py",
    "benchmark/paper/tables.py": "benchmark/report/test_report.py",
    "benchmark/records.py": "benchmark/report/test_report.py",
    "benchmark/report/findings.py": "benchmark/report/test_report.py",
    "benchmark/report/headline.py": "benchmark/paper/test_paper_figures.py",
    "benchmark/text.py": "benchmark/report/test_report.py",
    "cli": "test_cli.py",
    "ensemble/adaptation.py": "readout/test_recursive.py",
    "ensemble/functionals.py": "quantity/test_quantity.py",
    "ensemble/maps.py": "ensemble/test_members.py",
    "features/column_units.py": "latent/test_units.py",
    "features/validation_loss.py": "features/test_refine.py",
    "latent/graded.py": "latent/test_pca.py",
    "latent/sensitivity.py": "latent/test_channels.py",
    "latent/weighting.py": "features/test_random_layers.py",
    "loading.py": "storage/test_container.py",
    "problems/__init__.py": "problems/test_readers.py",
    "problems/formats": "problems/test_readers.py",
    "problems/selection.py": "problems/test_readers.py",
    "problems/spectral.py": "problems/test_random_fields.py",
    "quantity/intervals.py": "quantity/test_quantity.py",
    "quantity/weights.py": "quantity/test_quantity.py",
    "recipe/trials.py": "recipe/test_search.py",
    "containers/state.py": "test_surrogate.py",
    "latent/source.py": "scale/test_lazy_fit.py",
    "scale/blockwork.py": "scale/test_scale_pca.py",
    "scale/kinds.py": "scale/test_lazy_bad_input.py",
    "scale/reading.py": "scale/test_scale_pca.py",
    "scale/report.py": "scale/test_lazy_fit.py",
    "scale/samples.py": "scale/test_lazy_fit.py",
    "scale/source.py": "scale/test_lazy_fit.py",
    "storage/header.py": "storage/test_container.py",
    "symmetry/group.py": "symmetry/test_generators.py",
    "uncertainty/survey.py": "uncertainty/test_novelty.py",
    "uncertainty/watching.py": "uncertainty/test_monitor.py",
    "uncertainty/view.py": "uncertainty/test_novelty.py",
}
"""Modules, and folders, without a test file of their own"""


HOUSE = sources()


def made_up(**texts):
    """Modules of the package with these texts; `a__b` is the module b in the room a."""
    return [Module(f"src/pcarann/{name.replace('__', '/', 1)}.py", text) for name, text in texts.items()]


def assert_none(faults):
    assert not faults, "\n" + "\n".join(faults)


# Imports go down only


def upward_imports(modules):
    known = {module.name for module in modules}
    heights = {name: height for height, names in enumerate(LAYERS.values()) for name in names}
    layers = {name: layer for layer, names in LAYERS.items() for name in names}
    faults = []
    for module in modules:
        for line, target, _ in module.imports(known):
            here, there = module.room, room(target)
            if here == there or {here, there} - set(heights):
                continue
            allowed = NARROWED.get(here, set(list(LAYERS)[: heights[here] + 1]))
            if layers[there] not in allowed:
                faults.append(f"{module.path}:{line}: {here} ({layers[here]}) imports {there} ({layers[there]})")
    return faults


def test_every_room_has_a_layer_and_every_layer_its_rooms():
    placed = {name for names in LAYERS.values() for name in names}
    assert {module.room for module in HOUSE} == placed


def test_imports_go_down_only():
    assert_none(upward_imports(HOUSE))


@pytest.mark.parametrize("of", [0, 1], ids=["modules", "rooms"])
def test_nothing_imports_itself_by_a_detour(of):
    assert " imports ".join(circle(graphs(HOUSE)[of])) == ""


UPWARD = {
    "at the top": "from pcarann.operator import PCARaNN",
    "a module": "import pcarann.operator",
    "relative": "from ..operator import PCARaNN",
    "in a function": "def f():\n    from pcarann.operator import PCARaNN",
    "for types": "if TYPE_CHECKING:\n    from pcarann import operator",
    "by name": "import_module('pcarann.operator')",
    "by part of a name": "importlib.import_module(f'pcarann.operator.{name}')",
}


@pytest.mark.parametrize("text", UPWARD.values(), ids=UPWARD)
def test_an_upward_import_is_found_wherever_it_stands(text):
    found = upward_imports(made_up(latent__pca="import math\n\n" + text, operator=""))
    line = 3 + text.count("\n")
    assert found == [f"src/pcarann/latent/pca.py:{line}: latent (latents) imports operator (surrogates)"]


def test_rooms_that_stand_beside_import_little():
    texts = {"baselines__fno": "import pcarann.features.kernel, pcarann.latent.pca, pcarann.files"}
    known = made_up(**texts, features__kernel="", latent__pca="", files="")
    assert upward_imports(known) == ["src/pcarann/baselines/fno.py:1: baselines (beside) imports features (features)"]


def test_downward_imports_those_of_others_and_the_version_are_no_fault():
    text = (
        "import numpy\nfrom pcarann import __version__\nfrom pcarann.latent import pca\nfrom pcarann.metrics import x"
    )
    assert upward_imports(made_up(operator=text, latent__pca="", metrics="", __init__="")) == []


def test_circles_are_found_among_modules_and_among_rooms():
    modules, rooms = graphs(
        made_up(
            files="import pcarann.metrics",
            metrics="def f():\n  import pcarann.drawing",
            drawing="from pcarann import files",
        )
    )
    assert circle(rooms)[0] == circle(rooms)[-1]
    assert set(circle(rooms)) == {"files", "metrics", "drawing"}
    assert set(circle(modules)) == {"pcarann.files", "pcarann.metrics", "pcarann.drawing"}
    inside = graphs(made_up(latent__a="import pcarann.latent.b", latent__b="import pcarann.latent.a"))
    assert (circle(inside[0]) != [], circle(inside[1])) == (True, [])


# Short


def long_modules(modules):
    counts = [(module.path, len(module.text.splitlines())) for module in modules]
    return [f"{path}:{count}: {count} lines, at most {MOST_LINES}" for path, count in counts if count > MOST_LINES]


def long_functions(modules):
    """Counted are the lines of the body; the docstring may be as long as it needs."""
    return [
        f"{module.path}:{function.lineno}: {name} has {lines_of(function)} lines, at most {MOST_FUNCTION_LINES}"
        for module in modules
        for name, function in module.functions()
        if lines_of(function) > MOST_FUNCTION_LINES
    ]


def crowded_functions(modules):
    faults = []
    for module in modules:
        for name, function in module.functions():
            most, count = CONSTRUCTORS.get(f"{module.name}.{name}", MOST_ARGUMENTS), arguments_of(function)
            if count > most:
                faults.append(f"{module.path}:{function.lineno}: {name} has {count} arguments, at most {most}")
    return faults


def test_no_module_is_long():
    assert_none(long_modules(HOUSE))


def test_no_function_is_long():
    assert_none(long_functions(HOUSE))


def test_no_function_has_many_arguments():
    assert_none(crowded_functions(HOUSE))


def test_the_root_holds_few_modules():
    assert len([module.path for module in HOUSE if module.path.count("/") == 2]) <= MOST_IN_ROOT


def test_a_long_module_is_found():
    assert long_modules(made_up(files="\n" * 350, metrics="\n" * 351)) == [
        "src/pcarann/metrics.py:351: 351 lines, at most 350"
    ]


@pytest.mark.parametrize("docstring", ["", '        """Three\n\n        lines."""\n'], ids=["bare", "told"])
def test_a_long_function_is_found_by_the_lines_of_its_body(docstring):
    short, long = ("class A:\n    def f(self):\n" + docstring + "        pass\n" * count for count in (60, 61))
    assert long_functions(made_up(files=short, metrics=long)) == [
        "src/pcarann/metrics.py:2: A.f has 61 lines, at most 60"
    ]


def test_arguments_are_counted_without_self_and_by_keyword_too():
    text = "class PCARaNN:\n    def {}(self, a, b, c, d, e, f, g, *, h{}):\n        pass"
    found = crowded_functions(made_up(files=text.format("f", ""), metrics=text.format("f", ", i")))
    assert found == ["src/pcarann/metrics.py:2: PCARaNN.f has 9 arguments, at most 8"]
    inner = "def f():\n    def g(a, b, c, d, e, f, g, h, i):\n        pass"
    assert crowded_functions(made_up(files=inner)) == ["src/pcarann/files.py:2: f.g has 9 arguments, at most 8"]


@pytest.mark.parametrize(("more", "faults"), [(6, 0), (7, 1)])
def test_the_constructor_of_the_estimator_has_a_limit_of_its_own(more, faults):
    names = ", ".join(f"x{k}" for k in range(8 + more))
    assert len(crowded_functions(made_up(operator=f"class PCARaNN:\n    def __init__(self, {names}): pass"))) == faults
    assert len(crowded_functions(made_up(marching=f"class PCARaNN:\n    def __init__(self, {names}): pass"))) == 1


# Private names stay private


def private_uses(modules):
    known = {module.name for module in modules}
    faults = []
    for module in modules:
        imported = [(line, f"{target}.{name}".rstrip(".")) for line, target, name in module.imports(known)]
        uses = [(line, name) for line, name in imported if any(map(is_private, name.split(".")))]
        uses += [(line, f".{name}") for line, name in module.private_attributes()]
        faults += [f"{module.path}:{line}: {name} is private to another module" for line, name in sorted(uses)]
    return faults


def test_what_is_private_to_a_module_is_used_there_alone():
    assert_none(private_uses(HOUSE))


PRIVATE = {
    "from pcarann.files import _whole": "pcarann.files._whole",
    "from pcarann import files\nfiles._whole()": "._whole",
    "model._fitted = 1": "._fitted",
    "def f(model):\n    return model.ensemble._place": "._place",
}


@pytest.mark.parametrize(("text", "name"), PRIVATE.items(), ids=PRIVATE.values())
def test_the_use_of_a_private_name_is_found(text, name):
    line = 1 + text.count("\n")
    assert private_uses(made_up(latent__pca=text, files="")) == [
        f"src/pcarann/latent/pca.py:{line}: {name} is private to another module"
    ]


def test_own_private_names_dunders_and_named_tuples_are_no_fault():
    text = """
class A:
    _count: int
    def __init__(self, other):
        self._x = other._x + other._count + self._inherited
        type(self).__name__, other._made(), other._replace(x=1), _free(), sys._getframe()
    def _made(self): pass
def _free(): pass
"""
    assert private_uses(made_up(files=text)) == []


# Told and tested


def untold(modules):
    return [f"{module.path}:1: no docstring" for module in modules if not ast.get_docstring(module.tree)]


def has_code(module):
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(module.tree))


def mirrors(path):
    """`latent/test_pca.py` of `latent/pca.py`, `test_cli.py` of `cli/__init__.py`.

    The room may stand in the name, `best/test_best_tables.py` of `best/tables.py`: pytest wants all names to differ.
    """
    if path.as_posix() == "__init__.py":
        return ["test_package.py"]
    if path.name == "__init__.py":
        return [path.parent.with_name(f"test_{path.parent.name}.py").as_posix()]
    return [path.with_name(f"test_{name}").as_posix() for name in (path.name, f"{path.parent.name}_{path.name}")]


def untested(modules, tests, elsewhere):
    """Modules without a test file, and exceptions that name no module without one or no test file."""
    faults, used = [], set()
    for module in modules:
        path = Path(module.path).relative_to("src/pcarann")
        if tests.intersection(mirrors(path)) or (module.is_package and not has_code(module)):
            continue
        excuse = {path.as_posix(), *map(str, path.parents)} & set(elsewhere)
        used |= excuse
        if not excuse:
            faults.append(f"{module.path}:1: no tests/{mirrors(path)[0]}")
    faults += [f"tests/test_house.py: {one} needs no exception" for one in sorted(set(elsewhere) - used)]
    return faults + [f"tests/test_house.py: {one} is not there" for one in elsewhere.values() if one not in tests]


def test_every_module_opens_with_a_docstring():
    assert_none(untold(HOUSE))


def test_every_module_has_a_test_file_that_mirrors_it():
    tests = {path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert_none(untested(HOUSE, tests, TESTED_ELSEWHERE))


def test_a_module_without_a_docstring_is_found():
    assert untold(made_up(files="import math", metrics='"""Errors."""')) == ["src/pcarann/files.py:1: no docstring"]


def test_a_module_without_a_test_file_is_found():
    code = "def f(): pass"
    modules = made_up(
        latent__pca=code, problems__read=code, files=code, metrics=code, cli__kinds=code, cli____init__=""
    )
    tests = {"latent/test_pca.py", "problems/test_problems_read.py", "test_cli.py"}
    elsewhere = {"cli": "test_cli.py", "files.py": "test_fields.py"}
    assert untested(modules, tests, elsewhere) == [
        "src/pcarann/metrics.py:1: no tests/test_metrics.py",
        "tests/test_house.py: test_fields.py is not there",
    ]
    assert untested(modules[:1], tests, {"cli": "test_cli.py"}) == ["tests/test_house.py: cli needs no exception"]


# The picture


def test_the_picture_of_the_layers_is_that_of_the_imports():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert text == redrawn(text, drawn(HOUSE)), "run: python tests/house.py"


def test_what_follows_is_not_drawn():
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"a", "d"}}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"a"}}


def test_rooms_are_drawn_with_their_subjects_and_arrows():
    texts = {"files": '"""Files,\nwhole.\n\nMore."""', "latent____init__": '"""Latents."""'}
    assert drawn(made_up(**texts, latent__pca="import pcarann.files")).splitlines() == [
        "| layer | room | what it holds |",
        "|---|---|---|",
        "| ground | `files` | Files, whole |",
        "| latents | `latent/` | Latents |",
        "",
        "```mermaid",
        "graph TD",
        '    files["files"]',
        '    latent["latent/"]',
        "    latent --> files",
        "```",
    ]
