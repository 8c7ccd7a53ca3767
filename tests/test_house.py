"""Rules of the code base: imports go one way, few arguments, private names stay private."""

import ast

import pytest

from house import (
    ARCHITECTURE,
    LAYERS,
    NARROWED,
    Module,
    arguments_of,
    circle,
    drawn,
    graphs,
    is_private,
    redrawn,
    reduced,
    room,
    sources,
)

MOST_ARGUMENTS = 8
CONSTRUCTORS = {"pcarann.operator.PCARaNN.__init__": 14, "pcarann.staged.Staged.__init__": 13}
"""Those of estimators, which scikit-learn wants flat"""

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


# Few arguments


def crowded_functions(modules):
    faults = []
    for module in modules:
        for name, function in module.functions():
            most, count = CONSTRUCTORS.get(f"{module.name}.{name}", MOST_ARGUMENTS), arguments_of(function)
            if count > most:
                faults.append(f"{module.path}:{function.lineno}: {name} has {count} arguments, at most {most}")
    return faults


def test_no_function_has_many_arguments():
    assert_none(crowded_functions(HOUSE))


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


# Docstrings


def untold(modules):
    return [f"{module.path}:1: no docstring" for module in modules if not ast.get_docstring(module.tree)]


def test_every_module_opens_with_a_docstring():
    assert_none(untold(HOUSE))


def test_a_module_without_a_docstring_is_found():
    assert untold(made_up(files="import math", metrics='"""Errors."""')) == ["src/pcarann/files.py:1: no docstring"]


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
