import pytest

from browsers import node
from pcarann.explorer.bundle import bundled

MODULES = {
    "main.js": """
// import of what others export
import { add, twice as double } from "./numbers.js";
import * as words from "./words.js";
import {
  Late,
} from "./late.js";

console.log(JSON.stringify([add(1, 2), double(4), words.join("a", "b"), new Late().number]));
""",
    "numbers.js": """
const secret = 1;
export function add(a, b) { return a + b * secret; }
const helper = (x) => 2 * x;
export { helper as twice };
""",
    "words.js": """
import { add } from "./numbers.js";
const secret = 5;
export const join = (...all) => all.join("-") + add(0, secret);
""",
    "late.js": "export class Late { number = 7; }\nexport async function later() { return 1; }",
}


def test_modules_become_one_script_in_which_each_keeps_its_own_names():
    assert node(bundled("main.js", MODULES.__getitem__)) == [3, 8, "a-b5", 7]


def test_each_module_is_there_once_and_after_what_it_imports():
    text = bundled("main.js", MODULES.__getitem__)
    places = [text.index(f'modules["{name}"] = ') for name in ("numbers.js", "words.js", "late.js", "main.js")]
    assert places == sorted(places)
    assert text.count("const secret = 1") == 1


@pytest.mark.parametrize(
    "line",
    [
        "export default 3;",
        'import x from "./numbers.js";',
        'import "./numbers.js";',
        'import { x } from "https://elsewhere.org/x.js";',
        'const x = await import("./numbers.js");',
        "export let x = 3;",
        'export * from "./numbers.js";',
    ],
)
def test_what_cannot_be_bundled_is_refused(line):
    with pytest.raises(ValueError, match="cannot be bundled"):
        bundled("main.js", {"main.js": line, **{k: v for k, v in MODULES.items() if k != "main.js"}}.__getitem__)


def test_circles_are_refused():
    modules = {"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}
    with pytest.raises(ValueError, match=r"a.js → b.js → a.js"):
        bundled("a.js", modules.__getitem__)
