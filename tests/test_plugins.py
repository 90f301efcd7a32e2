"""Parts by name: listed without importing, found by spelling or by module, errors in one drawn tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

import demur.core.errors as errors
from demur.core.errors import BadInput, DemurError, MissingExtra, UnknownPart, UsageError
from demur.core.plugins import find, names, where


def test_listing_imports_nothing_of_what_is_listed():
    code = (
        "import sys; from demur.core.plugins import names\n"
        "print([names(k) for k in ('sources', 'encoders', 'systems', 'judges')] != [])\n"
        "print([m for m in sys.modules if m.startswith('demur.') and not m.startswith('demur.core')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", "[]"]


def test_every_registered_part_can_be_loaded():
    for kind in ("sources", "systems", "judges", "encoders"):
        assert names(kind)
        for name in names(kind):
            assert callable(find(kind, name)[0]), f"{kind} {name} -> {where(kind)[name]}"


def test_a_name_may_carry_an_argument():
    factory, argument = find("systems", "reader?min=0.5")
    assert argument == "?min=0.5"
    assert factory is find("systems", "reader")[0]


def test_a_class_is_found_by_module(tmp_path, monkeypatch):
    (tmp_path / "strange_part.py").write_text("class Mine: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find("judges", "strange_part:Mine")[0].__name__ == "Mine"
    with raises(UsageError, "'Other'"):
        find("judges", "strange_part:Other")
    with raises(UnknownPart, "no_such_module:Mine", "cascade, lave, local, model, panel"):
        find("judges", "no_such_module:Mine")


def test_errors_are_one_line_with_item_and_cure():
    error = DemurError("expected a number", item="pool.jsonl:3", cure="mend the row")
    assert str(error) == "pool.jsonl:3: expected a number - mend the row"
    assert str(MissingExtra("the encoder", extra="clip", module="torch")).endswith(
        "pip install 'demur[clip]'"
    )
    assert "and 5 more" in str(BadInput([f"line {i}" for i in range(25)]))


def test_the_drawn_tree_is_the_real_one():
    drawn = {
        line.strip(" |`-").split()[0]
        for line in (errors.__doc__ or "").splitlines()
        if "--" in line or line.strip() == "DemurError"
    }
    real = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, DemurError)}
    assert drawn == real


HOSTILE = {
    "raises": "raise ValueError('no')",
    "ends": "import sys; sys.exit(0)",
    "exits": "raise SystemExit('bye')",
    "wrong": "def (:",
    "deep": "def f(): f()\nf()",
    "absent": "import nothing_of_this_name",
    "nul": "x = '\\0'\nraise KeyError(x)",
    "half": "raise OSError('\\ud800')",
    "own": "class E(Exception):\n    def __str__(self): return 'own'\nraise E",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_module_does_when_it_is_imported_is_one_line(name, tmp_path, monkeypatch):
    (tmp_path / f"hostile_{name}.py").write_text(HOSTILE[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind in ("sources", "systems", "judges"):
        with pytest.raises(DemurError) as caught:
            find(kind, f"hostile_{name}:Part")
        assert str(caught.value).encode("utf-8", "replace").count(b"\n") <= 1


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text("zq.:_/\\?=-0 \0\ud800é", max_size=30)
    | st.sampled_from([".:x", "..zq:x", "zq..zq:x", ":", "zq:" * 9])
)
def test_no_name_of_a_part_ends_in_anything_but_a_part_or_our_error(text):
    for kind in ("sources", "systems", "judges"):
        with pytest.raises(DemurError):
            find(kind, text)


OWN = """
from demur.core.records import Document, Outcome, Sample, Status, Verdict

class Source:
    name = "own"
    def __init__(self, folder, problems=None):
        self.root, self.problems = folder, problems
    def documents(self):
        yield Document(id="d", title="D", text="a text", source="own")
    def samples(self):
        return iter(())

class Judge:
    id = "own"
    def grade(self, ask, response, answers):
        return Verdict(id=ask.id, status=Status.GRADED, outcome=Outcome.CORRECT, judge="own")
"""


def test_parts_of_the_current_folder_load_from_the_installed_command(tmp_path):
    """A console script has no current folder on its path, as ``python -m`` has."""
    (tmp_path / "own_parts.py").write_text(OWN)
    stub = Path(__file__).with_name("stub_encoder.py").read_text()
    (tmp_path / "own_encoder.py").write_text(stub.replace("stub_encoder:", "own_encoder:"))
    (tmp_path / "data").mkdir()
    (tmp_path / "rows.jsonl").write_text('{"question": "q", "answer": "a", "response": "b"}\n')
    for words in (
        "index build own_parts:Source:data --encoder own_encoder:stub --out index",
        "judge file rows.jsonl --judge own_parts:Judge",
        "sources show own_parts:Source",
    ):
        command = [Path(sys.executable).with_name("demur"), *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
