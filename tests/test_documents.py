"""Documents: their code runs and prints what they say, their names are in the package, their links lead somewhere."""

import ast
import inspect
import re
import sys
import traceback
from importlib import import_module

import pytest

import pcarann
from house import ROOT
from pcarann import PCARaNN, automatic

DOCUMENTS = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
}
MAPS = ("architecture.md", "paper_to_code.md")
"""Those that lead into the package: all that stands in code quotes there is a name"""

MODULES = {
    "matplotlib": ["figures"],
    "xarray": ["formats", "scale"],
    "dask": ["scale"],
    "torch": ["torch"],
    "meshio": ["mesh"],
    "onnx": ["onnx"],
    "starlette": ["serve"],
}
"""Modules that `pip install .` does not bring, and the extras that do"""

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")
KEYWORD = re.compile(r"\b([a-z]\w*)=")
LINK = re.compile(r"\]\(([^)#:]+)\)")


def lines_with(pattern, text):
    """What a pattern finds in each line outside of blocks, with the number of the line."""
    in_block = False
    for number, line in enumerate(text.splitlines(), start=1):
        in_block ^= line.startswith("```")
        if not in_block:
            yield from ((number, found) for found in pattern.findall(line))


# Code


def as_printed(text):
    """Numbers that stand as comments behind a print, by line."""
    found = (re.match(r"print\(.*\) +# ([\d.e+-]+)$", line) for line in text.splitlines())
    return {number: float(match[1]) for number, match in enumerate(found, start=1) if match}


def run(name, text):
    """Run each Python block of a document by itself, as if it was pasted alone; return what was printed, by line."""
    printed = {}
    for block in BLOCK.finditer(text):
        before = text.count("\n", 0, block.start(1))
        code = compile("\n" * before + block[1], name, "exec")  # so that errors tell the document's line
        exec(code, {"print": lambda *values: printed.update({sys._getframe(1).f_lineno: values})})
    return printed


@pytest.fixture
def quick_auto(monkeypatch):
    """`auto` is called as it is written, and has seconds."""
    auto = automatic.auto

    def limited(X, y, *, budget=60.0, **others):
        return auto(X, y, budget=budget / 20, **others)

    monkeypatch.setattr(automatic, "auto", limited)


def not_installed(text):
    """Modules of the extras that a document does not tell the reader to install; the README only lists the extras."""
    if text == DOCUMENTS["README.md"]:
        return set(MODULES)
    return {module for module, extras in MODULES.items() if not any(f".[{extra}]" in text for extra in extras)}


@pytest.mark.parametrize("name", [name for name, text in DOCUMENTS.items() if BLOCK.search(text)])
def test_every_block_of_a_document_runs_alone_and_prints_the_numbers_that_it_says(
    name, quick_auto, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PCARANN_CACHE", str(tmp_path / "cache"))
    text = DOCUMENTS[name]
    if "matplotlib" in not_installed(text):
        monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import raises ImportError
    printed, said = run(name, text), as_printed(text)
    assert {line: float(f"{float(printed[line][0]):.2g}") for line in said} == said


@pytest.mark.parametrize("name", [name for name, text in DOCUMENTS.items() if BLOCK.search(text)])
def test_a_document_names_the_extra_of_what_its_blocks_import(name):
    nodes = [node for block in BLOCK.findall(DOCUMENTS[name]) for node in ast.walk(ast.parse(block))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {one.partition(".")[0] for one in names}.isdisjoint(not_installed(DOCUMENTS[name]))


def test_no_block_sees_names_of_another():
    with pytest.raises(NameError):
        run("made_up.md", "```python\nx = 1\n```\n```python\nprint(x)\n```\n")


def test_an_error_in_a_document_is_told_with_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run("made_up.md", "Text.\n```python\nx = 1\n```\nText.\n```python\n1 / 0\n```\n")
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.filename, last.lineno) == ("made_up.md", 7)


def test_numbers_behind_prints_are_read():
    text = "Text.\n```python\nprint(1 / 3)   # 0.33\nprint('x')  # a word\n```"
    assert as_printed(text) == {3: 0.33}
    assert run("made_up.md", text) == {3: (1 / 3,), 4: ("x",)}


# Names


def resolved(name):
    """What a dotted name means inside the package."""
    found = pcarann
    for part in name.split(".") if name != "pcarann" else ():
        try:
            found = import_module(f"{found.__name__}.{part}") if inspect.ismodule(found) else getattr(found, part)
        except ModuleNotFoundError:
            found = getattr(found, part)
    return found


def _is_method(one):
    return inspect.isfunction(one) or inspect.ismethod(one)


def parameters():
    """Names of all arguments of the public classes, their methods, and the public functions."""
    public = [getattr(pcarann, name) for name in pcarann.__all__ if name != "ModelFileError"]
    methods = [method for one in public for name, method in inspect.getmembers(one, _is_method) if name[0] != "_"]
    return {name for one in (*public, *methods) for name in inspect.signature(one).parameters}


@pytest.mark.parametrize("name", MAPS)
def test_every_name_in_a_map_of_the_code_is_in_the_package(name):
    missing = []
    for line, quoted in lines_with(QUOTED, DOCUMENTS[name]):
        if re.fullmatch(r'".*"|\W.*|.*[=( ].*', quoted):
            continue  # a value, a call or a command
        if (ROOT / "src" / "pcarann" / quoted).exists() or (ROOT / quoted).exists() or hasattr(PCARaNN, quoted):
            continue
        try:
            resolved(quoted)
        except AttributeError as error:
            missing.append(f"docs/{name}:{line}: {quoted}: {error}")
    assert not missing, "\n" + "\n".join(missing)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_argument_in_a_document_is_one_of_a_public_name(name):
    quoted, known = lines_with(QUOTED, DOCUMENTS[name]), parameters()
    unknown = [
        f"{name}:{line}: {one}"
        for line, text in quoted
        for one in KEYWORD.findall(text)
        if not known.issuperset(one.split("__"))
    ]
    assert unknown == []


@pytest.mark.parametrize(
    "name", ["latent.pca.fit_pca", "latent.pca.PCA.encode", "PCARaNN.fit", "recipe.search.Search", "problems.burgers"]
)
def test_names_are_resolved_to_what_they_name(name):
    assert resolved(name).__name__.rpartition(".")[2] == name.rpartition(".")[2]


@pytest.mark.parametrize("name", ["latent.pca.fit_pcas", "latent.pcas", "pca.fit_pca", "PCARaNN.fits"])
def test_names_that_are_not_there_are_not_resolved(name):
    with pytest.raises(AttributeError):
        resolved(name)


# Links


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_to_a_file(name):
    folder = ROOT if name == "README.md" else ROOT / "docs"
    links = lines_with(LINK, DOCUMENTS[name])
    assert [f"{name}:{line}: {link}" for line, link in links if not (folder / link).exists()] == []
