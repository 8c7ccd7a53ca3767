"""Build the site: gather its pages in build/pages, and have Sphinx turn them into build/site.

Pages are those of docs/, one for each public name and each module, from their docstrings, one for each script, and
whatever these lead to. A warning of Sphinx is an error.

`python website/build.py --check FOLDER` reads all pages and resolves all links, but writes no HTML: it gives
the same warnings in less than half of the time. `make test` runs it.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.cmd.build import main as sphinx

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from graph import rooms_as_svg
from links import ROOT, address, linked, relinked
from nav import NAV

_PACKAGE = ROOT / "src" / "pcarann"
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_BESIDE = {"metrics": "Errors and intervals", "problems": "Problems and files", "drawing": "Pictures"}
"""Modules whose names are public too"""


def gather(pages: Path) -> None:
    """Write all pages, pictures and files of the site to the folder `pages`."""
    shutil.rmtree(pages, ignore_errors=True)
    for path in _reached():
        _put(path, pages)
    for name, text in (*_reference(), *_modules()):
        _write(pages / name, text)
    index = pages / "index.md"
    _write(index, index.read_text(encoding="utf-8") + "".join(_toctrees()))


def _reached() -> list[str]:
    """Paths of the documents, and of the files outside src/ to which they lead, and to which those lead."""
    waiting = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    found = set(waiting)
    while waiting:
        home = waiting.pop()
        new = {path for path in _leads(home) if not path.startswith("src/")} - found
        found |= new
        waiting += [path for path in new if path.endswith(".md") or (ROOT / path).is_dir()]
    return sorted(found)


def _leads(home: str) -> Iterator[str]:
    """Paths to which a document leads, or which a folder holds."""
    if (ROOT / home).is_dir():
        return (f"{home}/{path.name}" for path in sorted((ROOT / home).glob("*.md")))
    return linked((ROOT / home).read_text(encoding="utf-8"), home)


def _put(path: str, pages: Path) -> None:
    """Write a document with its links changed, a script as a page that shows it, all else as it is."""
    source, target = ROOT / path, pages / address(path)
    if path.endswith(".md"):
        text = relinked(source.read_text(encoding="utf-8"), path)
        text = _MERMAID.sub(lambda match: rooms_as_svg(match[1]), text)
        _write(target, text if path.startswith("docs/") else _alone(text))
    elif path.endswith(".py"):
        script = source.read_text(encoding="utf-8")
        _write(target, _alone(f"# {path}\n\n```python\n{script}```\n"))
    elif source.is_dir():
        rows = [f"- [{name}]({name.rpartition('/')[2]})\n" for name in _leads(path)]
        _write(target, _alone(f"# {path}\n\n{''.join(rows)}"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _alone(text: str) -> str:
    """A page that is reached by links only."""
    return f"---\norphan: true\n---\n\n{text}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _toctrees() -> Iterator[str]:
    """The navigation."""
    for section, pages in NAV.items():
        yield _toctree([f"{title} <{page.removesuffix('.md')}>" for page, title in pages.items()], section)
    yield _toctree(["reference/index", "modules/index"], "Reference")


def _toctree(entries: list[str], caption: str = "") -> str:
    options = ":hidden:\n" + f":caption: {caption}\n" * bool(caption)
    return "\n```{toctree}\n" + options + "\n" + "\n".join(entries) + "\n```\n"


def _reference() -> Iterator[tuple[str, str]]:
    """A page for each public name, and one that lists them."""
    rows, homes = [], _homes()
    for name, home in homes.items():
        node = next(one for one in _parsed(home).body if getattr(one, "name", None) == name)
        rows.append(f"- [`{name}`]({name}.md): {_first_sentence(node)}")
        is_class = isinstance(node, ast.ClassDef)
        options = ["inherited-members: BaseEstimator, Exception, ABC"] * is_class
        yield (
            f"reference/{name}.md",
            _auto(name, "class" if is_class else "function", f"pcarann.{home}.{name}", *options),
        )
    for name, title in _BESIDE.items():
        rows.append(f"- [`pcarann.{name}`]({name}.md): {_first_sentence(_parsed(name))}")
        yield f"reference/{name}.md", _auto(title, "module", f"pcarann.{name}", "imported-members:")
    yield "reference/index.md", "# Public names\n\n" + "\n".join(rows) + "\n" + _toctree([*homes, *_BESIDE])


def _modules() -> Iterator[tuple[str, str]]:
    """A page for each module, and one that lists them."""
    rows = []
    for path in sorted(_PACKAGE.rglob("*.py"))[1:]:
        inner = path.relative_to(_PACKAGE).as_posix()
        page, name = (
            address(f"src/pcarann/{inner}"),
            inner.removesuffix(".py").removesuffix("/__init__").replace("/", "."),
        )
        rows.append(f"- [`{name}`]({page.removeprefix('modules/')}): {_first_sentence(_parsed(name))}")
        yield page, _alone(_auto(name, "module", f"pcarann.{name}", "no-index:"))
    yield "modules/index.md", "# All modules\n\n" + "\n".join(rows) + "\n"


def _homes() -> dict[str, str]:
    """In which module each public name is defined."""
    for node in _parsed("__init__").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
            return dict(ast.literal_eval(node.value))
    raise LookupError("pcarann/__init__.py has no _HOME.")


def _auto(title: str, kind: str, name: str, *options: str) -> str:
    """A page that autodoc fills."""
    lines = "".join(f"   :{option}\n" if ":" in option else f"   :{option}:\n" for option in options)
    return f"# {title}\n\n```{{eval-rst}}\n.. auto{kind}:: {name}\n{lines}```\n"


def _parsed(name: str) -> ast.Module:
    """A module of the package by its name inside, read and not imported."""
    path = _PACKAGE / (name.replace(".", "/") + ".py")
    return ast.parse((path if path.exists() else path.with_suffix("") / "__init__.py").read_text(encoding="utf-8"))


def _first_sentence(node: ast.AST) -> str:
    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())  # type: ignore[arg-type]


def build(folder: Path, *, check: bool = False) -> int:
    """Build the site in a folder, or only `check` it; return 0 if there was no warning."""
    gather(folder / "pages")
    settings = ["-W", "--keep-going", "-q", "-E", "-c", str(Path(__file__).parent), "-d", str(folder / "doctrees")]
    how = ["-b", "dummy"] if check else ["-j", "2"]
    return int(sphinx([*settings, *how, str(folder / "pages"), str(folder / "site")]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        sys.exit(build(Path(sys.argv[2]), check=True))
    sys.exit(build(ROOT / "build"))
