"""JSON of strangers: as Python reads it, and never deeper than the stack bears, wherever it is read."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from demur.core.cells import literal
from demur.core.store import Problems, read_jsonl
from demur.core.strict_json import MAX_DEPTH, check_depth, loose_json, parsed_json
from demur.corpora.formats import json_elements, json_items, json_lines

DEEP = [
    "[" * 100_000,
    '{"a":' * 100_000,
    '["]"' + ',["]]"' * 5_000,
    r'{"a\"": ' * 3_000,
    "[" * (MAX_DEPTH + 1),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('[]{}"\\ ux', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text('[]{}"\\', max_size=4), inner, max_size=3)
    ),
    max_leaves=60,
)


@settings(max_examples=examples(60), deadline=None)
@given(VALUES, st.integers(0, 60), st.booleans())
def test_what_is_json_is_read_as_python_reads_it(value, more, ascii):
    text = json.dumps([value] * more, ensure_ascii=ascii)
    assert parsed_json(text) == loose_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("read", [parsed_json, loose_json, check_depth])
def test_what_is_too_deep_is_told_as_that(read, text):
    with pytest.raises(ValueError, match=str(MAX_DEPTH)):
        read(text)


def test_as_deep_as_may_be():
    text = "[" * MAX_DEPTH + '"[[[[{{{{"' + "]" * MAX_DEPTH
    assert parsed_json(text) == json.loads(text)
    many = json.dumps([{"a": ["[", r"\"["]}] * 1_000)  # many brackets are not deep ones
    assert parsed_json(many) == json.loads(many)


def test_files_of_lines_and_giant_files_say_so_and_go_on_where_they_can(tmp_path):
    lines = tmp_path / "rows.jsonl"
    lines.write_text('\ufeff{"id": 1}\n' + "[" * 50_000 + '\n{"id": 2}\n')
    for read in (read_jsonl, json_lines):
        problems = Problems()
        assert [row["id"] for _, row in read(lines, problems)] == [1, 2]
        assert len(problems) == 1
        assert "rows.jsonl:2" in problems.lines[0]
        assert str(MAX_DEPTH) in problems.lines[0]
    for read, start in ((json_elements, '[{"a": 1}, '), (json_items, '{"a": 1, "b": ')):
        path = tmp_path / "giant.json"
        path.write_text(start + "[" * 50_000)
        problems = Problems()
        list(read(path, problems))
        assert str(MAX_DEPTH) in problems.lines[0]


SMALL = """
import sys, threading
from demur.core.strict_json import parsed_json
from demur.core.cells import literal

def tried():
    for text in {texts}:
        try:
            parsed_json(text)
        except ValueError as error:
            assert "too deep" in str(error), error
        else:
            raise SystemExit("read")
        assert literal(text) == text

sys.setrecursionlimit(100_000)
threading.stack_size(256 << 10)
thread = threading.Thread(target=tried)
thread.start()
thread.join()
print("whole")
"""


@pytest.mark.heavy
def test_nested_brackets_end_no_process_however_small_its_stack():
    code = SMALL.format(texts=["[" * 20_000, '{"a":' * 20_000])
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "whole\n"), ended.stderr[-500:]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['a', \"b's\"]", ["a", "b's"]),
        ("[1, -2.5, 1e-3, None, True]", [1, -2.5, 1e-3, None, True]),
        ("('x', ('y',))", ("x", ("y",))),
        ("{'a': [1], 'b': {}}", {"a": [1], "b": {}}),
        ("[]", []),
        (" [ - 1 ]", [-1]),
        ("['it\\'s']", ["it's"]),
        (7, 7),
        ("plain", "plain"),
    ],
)
def test_lists_written_as_text_are_lists(text, value):
    assert literal(text) == value


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "[-",
        "[- ",
        "[not ",
        "[1+1",
        "[1 +1",
        "[lambda:",
        "[True+",
        "{1:",
        "[~",
        "[x if y else ",
    ],
)
def test_what_python_parses_down_its_stack_is_no_list(piece):
    for text in (piece * 50_000, piece + piece.lstrip("[({") * 50_000):
        assert literal(text) == text


@pytest.mark.parametrize(
    "text", ["1e999", '{"a": -1e400}', "[NaN]", "-Infinity", '"\\ud800"', "9" * 5_000]
)
def test_what_no_file_can_hold_is_refused(text):
    with pytest.raises(ValueError, match=r"number|JSON|surrogate|digits"):
        parsed_json(text)
