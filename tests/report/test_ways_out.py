"""A way out that a message gives works from where its reader stands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from demur.cli import main
from demur.core.errors import UsageError
from demur.reports.annotate import open_task
from demur.reports.data import load, open_beside
from demur.reports.rag import rag_tables
from demur.sources import open_source

SOURCE = '''
from demur.sources.native import NativeSource

class Skies(NativeSource):
    """A source that nobody registered."""

    name = "skies"

    def __init__(self, folder, problems):
        super().__init__(folder, problems)
        self.need("clouds.jsonl")
'''


def advised(text: str) -> list[str]:
    """The words of the command in a message."""
    return shlex.split(re.search(r"'demur ([^']+)'", text)[1])


def test_a_source_of_ones_own_is_shown_by_the_name_that_finds_it(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    (tmp_path / "my_skies.py").write_text(SOURCE)
    (tmp_path / "folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    for spec, named in (("my_skies:Skies", "my_skies:Skies"), ("infoseek", "infoseek")):
        with pytest.raises(UsageError) as refused:
            list(open_source(spec, tmp_path / "folder").samples())
        words = advised(refused.value.cure)
        assert words == ["sources", "show", named]
        assert main(words) == 0
    assert "Skies" in capsys.readouterr().out


@pytest.mark.parametrize(
    "reads",
    [
        lambda run, out: rag_tables([run]),
        lambda run, out: open_task(out, [run]),
        lambda run, out: open_beside(run),
        lambda run, out: load([run], needs_release=True),
    ],
    ids=["rag table", "annotate", "judge run", "load"],
)
def test_a_run_away_from_its_release_says_which_it_is(
    demo: tuple[Path, list[Path]], reads, tmp_path: Path
) -> None:
    run = tmp_path / "elsewhere" / "reader"
    shutil.copytree(demo[1][0], run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["release"] = {**manifest.get("release", {}), "name": "tiny-atlas", "version": "0.1.0"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError) as refused:
        reads(run, tmp_path / "task")
    assert refused.value.item == str(run)
    assert "tiny-atlas 0.1.0" in str(refused.value)
    assert "--release DIR" in refused.value.cure
    shutil.copytree(demo[0], run.parent / "release")
    reads(run, tmp_path / "task")  # found beside it, as `demur report` finds it
