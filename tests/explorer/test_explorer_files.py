"""Files of every kind end up at the inputs that they name, and others are refused in one sentence."""

import base64
import io
import json

import numpy as np
import pytest

from browsers import node

TABLE = {
    "name": "inputs",
    "part": "",
    "shape": [3],
    "kind": "table",
    "columns": ["length [mm]", "h & co", "Tbase"],
    "modes": None,
    "sliders": [{"label": name} for name in ("length [mm]", "h & co", "Tbase")],
    "start": {"data": [0, 0, 0]},
}
FIELD = {"name": "a", "part": "a", "shape": [4], "kind": "field", "columns": [], "modes": {}, "sliders": []}
FIELD |= {"start": {"data": [0, 0, 0, 0]}}
NUMBER = {"part": "k", "shape": [], "kind": "number", "columns": [], "modes": None, "start": {"data": [0]}}
PARTS = [FIELD, *(NUMBER | {"name": name, "part": name, "sliders": [{"label": name}]} for name in ("k", "film"))]
ALL = "length [mm], h & co, Tbase"
UNREAD = "a.csv cannot be read:"
COUNTS = "samples of its inputs: these must be as many."


def read(inputs, *files):
    """What is read of files (name, bytes or text): {input: samples}, the code of fields, or a sentence."""
    code = """
        import { readSample } from "./files.js";
        const found = [];
        for (const [name, text] of given.files) {
          const file = new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], name);
          const told = (parts) => parts.map((one) => [one.name, one.samples, [...one.data], one.python]);
          found.push(await readSample(file, given.inputs).then(told, (error) => error.message));
        }
        console.log(JSON.stringify(found));
    """
    packed = [(name, base64.b64encode(one if isinstance(one, bytes) else one.encode()).decode()) for name, one in files]
    return node(code, {"files": packed, "inputs": inputs})


def saved(write, *arrays, **named):
    held = io.BytesIO()
    write(held, *arrays, **named)
    return held.getvalue()


def test_columns_of_a_table_go_where_their_names_say():
    found = read(
        [TABLE],
        ("a.csv", "Tbase,length [mm],h & co\n90,50,40\n91,51,41\n"),
        ("b.csv", 'Tbase;"length [mm]";h & co\r\n90;50;40\r\n'),
        ("c.csv", "50\t40\t90\n"),
        ("d.json", json.dumps({"Tbase": 90, "length [mm]": 50, "h & co": 40})),
        ("e.json", json.dumps([{"Tbase": 90, "length [mm]": 50, "h & co": 40}] * 2)),
    )
    assert [one[0][:3] for one in found] == [
        ["inputs", 2, [50, 40, 90, 51, 41, 91]],
        ["inputs", 1, [50, 40, 90]],
        ["inputs", 1, [50, 40, 90]],
        ["inputs", 1, [50, 40, 90]],
        ["inputs", 2, [50, 40, 90, 50, 40, 90]],
    ]


def test_numbers_of_parts_are_read_from_columns_and_records():
    records = '[{"a": [1, 2, 3, 4], "k": 7}, {"a": [5, 6, 7, 8], "k": 8}]'
    found = read(PARTS, ("a.csv", "film,k\n4,50\n5,51\n"), ("b.json", records))
    assert [part[:3] for part in found[0]] == [["k", 2, [50, 51]], ["film", 2, [4, 5]]]
    assert found[1][0] == ["a", 2, [*range(1, 9)], 'np.array([one["a"] for one in json.load(open("b.json"))])']
    assert found[1][1][:3] == ["k", 2, [7, 8]]


@pytest.mark.parametrize(
    ("inputs", "name", "text", "sentence"),
    [
        ([TABLE], "a.csv", "a,b,c\n1,2,3\n", "a.csv has a, but the inputs are length [mm], h & co, Tbase."),
        ([TABLE], "a.csv", "Tbase,h & co\n1,2\n", f"a.csv has no length [mm], but {ALL} belong together."),
        ([TABLE], "a.csv", "Tbase,Tbase,h & co\n1,2,3\n", f"{UNREAD} two of its columns have the same name."),
        (PARTS, "a.json", '{"kk": 3}', "a.json has kk, but the inputs are a, k, film."),
        (PARTS, "a.json", '{"k": [1, 2], "film": [1, 2, 3]}', f"a.json holds 2 and 3 {COUNTS}"),
        (PARTS, "a.npz", "PK", "a.npz cannot be read: it is no .npz file, or cut short."),
        (PARTS, "a.txt", "1", "a.txt is no .npy, .npz, .csv or .json file."),
    ],
)
def test_what_does_not_belong_is_refused(inputs, name, text, sentence):
    assert read(inputs, (name, text)) == [sentence]


def test_labels_of_ticks_tell_these_apart():
    code = """
        import { tickLabels, ticks } from "./words.js";
        console.log(JSON.stringify(given.map(([low, high]) => tickLabels(ticks(low, high)))));
    """
    small, large = node(code, [[7.4e-6, 1.9e-5], [0, 5e5]])
    assert small == ["7.5e−6", "1e−5", "1.25e−5", "1.5e−5", "1.75e−5"]
    assert large == ["0", "100000", "200000", "300000", "400000", "500000"]


def test_numbers_are_rounded_to_digits_and_not_to_powers_of_ten():
    code = """
        import { said } from "./words.js";
        console.log(JSON.stringify(given.map(([value, digits]) => said(value, digits))));
    """
    found = node(code, [[99.6, 2], [9999.96, 4], [-123456, 3], [0.5, 2], [0.00012345, 2], [12.34, 2], [999999.6, 4]])
    assert found == ["100", "10000", "−123456", "0.5", "0.00012", "12", "1000000"]


def test_archives_are_read_stored_and_deflated():
    arrays = {"a": np.arange(8.0).reshape(2, 4), "k": np.array([1, 2], dtype=np.int32)}
    files = [("x.npz", saved(np.savez, **arrays)), ("y.npz", saved(np.savez_compressed, **arrays))]
    for (name, _), found in zip(files, read(PARTS, *files), strict=True):
        assert found == [["a", 2, [*range(8)], f'np.load("{name}")["a"]'], ["k", 2, [1, 2], f'np.load("{name}")["k"]']]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", [False, True])
def test_the_code_of_a_file_reads_what_the_page_does(mark, header, tmp_path, monkeypatch):
    rows = np.arange(8.0).reshape(2, 4) / 3
    text = (mark.join("pqrs") + "\n") * header + "".join(mark.join(map(repr, row.tolist())) + "\n" for row in rows)
    ((found,),) = read(PARTS, ("rows.csv", text))
    (tmp_path / "rows.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(eval(found[3], {"np": np}).ravel(), found[2])
    np.testing.assert_array_equal(found[2], rows.ravel())
