"""The identity of code: an edit anywhere in a function's project changes it, and nothing else does."""

from __future__ import annotations

import importlib
import sys
from functools import partial

import pytest
from errors import raises

from demur.core.code import code_digest, function_named
from demur.core.errors import UsageError

FILES = {
    "rag_app/__init__.py": "",
    "rag_app/answer.py": "import json\nfrom . import search\nfrom .prompts.short import TEXT\n\ndef answer(given):\n"
    "    import numpy\n    return search.find(given) + TEXT\n\nclass Rag:\n    def answer(self, given):\n        return 'x'\n",
    "rag_app/search.py": "def find(given):\n    import rag_helper\n    return rag_helper.HELP\n",
    "rag_app/prompts/__init__.py": "",
    "rag_app/prompts/short.py": "TEXT = 'short'\n",
    "rag_app/unused.py": "",
    "rag_helper.py": "HELP = 1\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] in ("rag_app", "rag_helper")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def answer_digest(revision=""):
    importlib.invalidate_caches()
    function, said = function_named("rag_app.answer:answer" + revision)
    return code_digest(function, said)


@pytest.mark.parametrize(
    "edited",
    [
        "rag_app/__init__.py",
        "rag_app/answer.py",
        "rag_app/search.py",
        "rag_app/prompts/short.py",
        "rag_helper.py",
    ],
)
def test_an_edit_of_any_file_of_the_project_is_another_code(project, edited):
    before = answer_digest()
    assert answer_digest() == before
    (project / edited).write_text(FILES[edited] + "# an edit\n")
    assert answer_digest() != before
    (project / edited).write_text(FILES[edited])
    assert answer_digest() == before


def test_what_is_not_imported_does_not_count_and_nothing_is_imported_to_find_out(project):
    before = answer_digest()
    (project / "rag_app" / "unused.py").write_text("X = 1\n")
    (project / "data.csv").write_text("a,b\n")
    assert answer_digest() == before
    assert "rag_helper" not in sys.modules


def test_a_revision_says_what_files_do_not(project):
    assert (
        len({answer_digest(), answer_digest("@index-of-may"), answer_digest("@index-of-june")}) == 3
    )


def test_methods_classes_and_bound_arguments(project):
    rag = function_named("rag_app.answer:Rag")[0]
    assert code_digest(rag) == code_digest(rag())
    assert len({code_digest(partial(rag, k=k)) for k in (1, 2)}) == 2

    def made(k):
        return lambda given: str(k)

    assert code_digest(made(1)) != code_digest(made(2))
    assert code_digest(made(1)) == code_digest(made(1))


def test_a_function_of_a_notebook_is_told_by_its_body():
    spaces = [{"__name__": "__notebook__"} for _ in range(3)]
    for space, body in zip(spaces, ("'x'", "'x'", "'y'"), strict=True):
        exec(f"def answer(given):\n    return {body}\n", space)
    one, same, other = (code_digest(space["answer"]) for space in spaces)
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "name", "cure"),
    [
        ("rag_app", "", "python:module:function"),
        ("rag_nowhere:answer", "'rag_nowhere'", "PYTHONPATH"),
        ("rag_app.answer:answr", "'answr'", "Rag, answer"),
        ("rag_app.prompts.short:TEXT", "'TEXT'", "function"),
        ("rag_broken:answer", "ZeroDivisionError", "module"),
    ],
)
def test_a_name_that_does_not_fit_is_told_with_the_cure(project, text, name, cure):
    (project / "rag_broken.py").write_text("1 / 0\n")
    with raises(UsageError, name, item=f"python:{text}", cure=cure):
        function_named(text)
