"""The sources of `pcarann` as the house rules see them: who imports whom, what is private, how large things are.

python tests/house.py      draws rooms and layers, from the sources themselves, into docs/architecture.md
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = ROOT / "docs" / "architecture.md"

LAYERS = {
    "ground": ("backend", "files", "validation", "metrics", "drawing"),
    "latents": ("latent", "mesh"),
    "readout": ("readout",),
    "features": ("features",),
    "symmetry": ("symmetry",),
    "ensemble": ("ensemble",),
    "uncertainty": ("uncertainty",),
    "containers": ("containers",),
    "space": ("spatial",),
    "a fit": (
        "options",
        "settings",
        "fitted",
        "attributes",
        "fitting",
        "scale",
        "recipe",
        "storage",
        "derivatives",
        "quantity",
    ),
    "surrogates": (
        "surrogate",
        "operator",
        "staged",
        "contest",
        "automatic",
        "marching",
        "sampling",
        "loading",
        "pcarann",
    ),
    "callers": ("export", "serving", "explorer"),
    "beside": ("problems", "baselines"),
    "benchmark": ("benchmark",),
    "command line": ("cli",),
}
"""Lowest first. A room is a folder or a module of the root, `pcarann` the root's `__init__`. It may import what stands
in its own layer, as long as nothing goes round in a circle, and in the layers before."""
NARROWED = {"problems": {"ground"}, "baselines": {"ground", "latents"}}
"""Rooms that may import from these layers alone"""

Graph = dict[str, set[str]]


class Import(NamedTuple):
    """A module of ours that is imported, or one name of it."""

    line: int
    module: str
    name: str = ""


class Module:
    """One source file."""

    def __init__(self, path: str, text: str):
        self.path, self.text = path, text
        parts = Path(path).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[parts.index("pcarann") : -1 if self.is_package else None])
        self.room = room(self.name)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def imports(self, known: Iterable[str]) -> Iterator[Import]:
        """All imports of ours, inside functions and under TYPE_CHECKING too, and those by `import_module`.

        The version does not count: whoever is imported has passed the package's front door, which holds it.
        """
        for line, module, name in self._imported():
            if module.split(".")[0] == "pcarann" and (module, name) != ("pcarann", "__version__"):
                inner = f"{module}.{name}"
                yield Import(line, inner) if inner in known else Import(line, module, name)

    def _imported(self) -> Iterator[Import]:
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = resolve_name("." * node.level + (node.module or ""), package)
                yield from (Import(node.lineno, module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                yield Import(node.lineno, _known_start(node.args[0]).rstrip("."))

    def private_attributes(self) -> Iterator[tuple[int, str]]:
        """Attributes `_name` that this module does not define; those of self, cls and the standard library are free."""
        nodes = list(ast.walk(self.tree))
        own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {node.id for node in nodes if isinstance(node, ast.Name)} | _OF_NAMED_TUPLES
        attributes = [node for node in nodes if isinstance(node, ast.Attribute) and is_private(node.attr)]
        own |= {node.attr for node in attributes if _of(_SELF, node) and isinstance(node.ctx, ast.Store)}
        free = {*_SELF, *sys.stdlib_module_names}
        yield from ((node.lineno, node.attr) for node in attributes if not (_of(free, node) or node.attr in own))

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        """Functions and methods by name, `Class.method`, inner ones after outer ones."""
        yield from _functions(self.tree, "")


_SELF = ("self", "cls")
_OF_NAMED_TUPLES = {"_replace", "_asdict", "_make", "_fields"}


def room(module: str) -> str:
    """`latent` of `pcarann.latent.pca`, `files` of `pcarann.files`, `pcarann` of the package itself."""
    return module.split(".")[1] if "." in module else module


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def arguments_of(function: ast.FunctionDef) -> int:
    """Arguments without self and cls, *args and **kwargs, as ruff counts them."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from _functions(child, f"{prefix}{child.name}." if named else prefix)


def _of(names: Iterable[str], node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in names


def _known_start(argument: ast.expr) -> str:
    """All of "a.b", and the start of f"a.{b}"."""
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
    return str(first.value) if isinstance(first, ast.Constant) else ""


def sources() -> list[Module]:
    """All modules of the package."""
    paths = sorted((ROOT / "src" / "pcarann").rglob("*.py"))
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def graphs(modules: list[Module]) -> tuple[Graph, Graph]:
    """Who imports whom among the modules, and among the rooms."""
    known = {module.name for module in modules}
    among = {module.name: {one.module for one in module.imports(known)} - {module.name} for module in modules}
    rooms: Graph = {module.room: set() for module in modules}
    for name, targets in among.items():
        rooms[room(name)] |= {room(target) for target in targets} - {room(name)}
    return among, rooms


def circle(graph: Graph) -> list[str]:
    """Names of which each imports the next, the first again at the end; empty where there are none."""
    try:
        TopologicalSorter({name: sorted(targets) for name, targets in graph.items()}).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def reduced(graph: Graph) -> Graph:
    """The graph without what follows: no arrow from a to c where arrows lead from a over b to c."""
    below: Graph = {}
    for name in TopologicalSorter(graph).static_order():
        below[name] = set().union(*(below[one] | {one} for one in graph.get(name, ())))
    return {name: targets - set().union(*(below[one] for one in targets)) for name, targets in graph.items()}


def drawn(modules: list[Module]) -> str:
    """A table of the rooms, with the first sentences of their docstrings, and their imports as a Mermaid graph."""
    _, graph = graphs(modules)
    doors = {module.room: module for module in modules if module.name.count(".") < 2}
    labels = {name: "__init__.py" if name == "pcarann" else name + "/" * doors[name].is_package for name in graph}
    rows = ["| layer | room | what it holds |", "|---|---|---|"]
    for layer, names in LAYERS.items():
        rows += [f"| {layer} | `{labels[name]}` | {_subject(doors[name])} |" for name in names if name in graph]
    nodes = [f'    {name}["{labels[name]}"]' for name in sorted(graph)]
    arrows = [f"    {name} --> {one}" for name, targets in sorted(reduced(graph).items()) for one in sorted(targets)]
    return "\n".join([*rows, "", "```mermaid", "graph TD", *nodes, *arrows, "```"])


def _subject(module: Module) -> str:
    return " ".join((ast.get_docstring(module.tree) or "").split("\n\n")[0].split()).rstrip(".")


_MARKS = "<!-- drawn by tests/house.py -->", "<!-- end of the drawing -->"


def redrawn(text: str, drawing: str) -> str:
    """The text with the drawing between its marks."""
    before, rest = text.split(_MARKS[0])
    return f"{before}{_MARKS[0]}\n{drawing}\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}"


if __name__ == "__main__":
    text = redrawn(ARCHITECTURE.read_text(encoding="utf-8"), drawn(sources()))
    ARCHITECTURE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{ARCHITECTURE.relative_to(ROOT)} shows the imports as they are now.\n")
