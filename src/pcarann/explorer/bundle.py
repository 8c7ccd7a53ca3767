"""Modules of JavaScript as one script, since a page that is a file may not load others.

Each module becomes a function that is called once and returns what it exports, after those that it imports. Known are

    import { a, b as c } from "./other.js";
    import * as other from "./other.js";
    export function f() {}     and async function, function*, class, const
    export { a, b as c };

at the start of a line, which is all that our scripts use; anything else that imports or exports is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["bundled"]

_IMPORT = re.compile(r'^import\s+(\{[^}]*\}|\*\s+as\s+[\w$]+)\s+from\s+"\./([\w.-]+)";?[ \t]*$', re.MULTILINE)
_DECLARED = re.compile(r"^export\s+(?=(?:async\s+)?(?:function\*?|class|const)\s+([\w$]+))", re.MULTILINE)
_LISTED = re.compile(r"^export\s+\{([^}]*)\};?[ \t]*$", re.MULTILINE)
_OTHERS = re.compile(r"^\s*(?:import|export)\b[^\n]*|\bimport\s*[.(]|\bimport\.meta", re.MULTILINE)


def bundled(entry: str, read: Callable[[str], str]) -> str:
    """One script of the module with this name and all that it imports, each read by its name."""
    written: dict[str, str] = {}

    def write(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"Modules import one another in a circle: {' → '.join((*path, name))}.")
        if name in written:
            return
        text = read(name)
        for one in _IMPORT.finditer(text):
            write(one[2], (*path, name))
        written[name] = _wrapped(name, text)

    write(entry, ())
    parts = "".join(written.values())
    return f'"use strict";\nconst modules = {{}};\n{parts}'


def _wrapped(name: str, text: str) -> str:
    names = {one[1]: one[1] for one in _DECLARED.finditer(text)}
    for one in _LISTED.finditer(text):
        names |= {after: before for before, after in _pairs(one[1])}
    code = _LISTED.sub("", _DECLARED.sub("", _IMPORT.sub(_taken, text)))
    if found := _OTHERS.search(code):
        raise ValueError(f"{name} imports or exports in a way that cannot be bundled: {found[0].strip()}")
    given = ", ".join(f"{after}: {before}" for after, before in names.items())
    return f'modules["{name}"] = (() => {{\n{code}\nreturn {{ {given} }};\n}})();\n'


def _taken(found: re.Match[str]) -> str:
    what, name = found[1], found[2]
    if what.startswith("*"):
        return f'const {what.split()[-1]} = modules["{name}"];'
    names = ", ".join(before if before == after else f"{before}: {after}" for before, after in _pairs(what[1:-1]))
    return f'const {{ {names} }} = modules["{name}"];'


def _pairs(names: str) -> list[tuple[str, str]]:
    """`a, b as c` as pairs of the name before and after."""
    words = [one.split() for one in names.split(",") if one.strip()]
    return [(one[0], one[-1]) for one in words]
