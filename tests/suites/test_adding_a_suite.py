"""docs/adding-a-suite.md, walked: its suite is saved, asked, scored, shown, and keeps the contract."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import demur
from demur.cli import main
from demur.testing import check_suite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-suite.md"


@pytest.fixture
def parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    (tmp_path / "parity.py").write_text(code)
    (tmp_path / "mine.py").write_text("def answer(given):\n    return 'yes'\n")
    prompt = re.search(r"holding `(.*?)`", text)[1]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "ask.v1.md").write_text(prompt)
    (tmp_path / "numbers.jsonl").write_text("".join(json.dumps({"number": n}) + "\n" for n in range(5)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("parity", "mine"):
        sys.modules.pop(name, None)
    return tmp_path


def test_the_suite_of_the_page_walks_from_items_to_a_page(parity, capsys):
    for line in re.findall(r"^demur (suite .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        assert main(line.split()) == 0, line
    assert "60.0 [23.1, 88.2]" in capsys.readouterr().out  # 0, 2 and 4 are even
    assert "Parity" in (parity / "parity.html").read_text(encoding="utf-8")
    check_suite(demur.suite("parity:Parity"), parity / "numbers.jsonl")


def test_a_suite_that_breaks_the_contract_is_told(parity):
    import parity as module

    class Twice(module.Parity):
        def questions(self, items):
            for sample in super().questions(items):
                yield sample.model_copy(update={"id": "same"})

    with pytest.raises(AssertionError, match="id of its own"):
        check_suite(Twice(), parity / "numbers.jsonl")


def test_suites_are_listed_and_shown(capsys):
    assert main(["suite", "list"]) == 0
    assert "vb" in capsys.readouterr().out
    assert main(["suite", "show", "vb"]) == 0
    assert "$question" in capsys.readouterr().out
    assert main(["suite", "check", "vbb", "x"]) == 2
    assert "did you mean 'vb'" in capsys.readouterr().err
