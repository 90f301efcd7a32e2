"""A million rows in bounded memory: what a file may cost is stated, and measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
ROWS = 1_000_000
READERS = {
    "answers": (
        "from demur.scenarios.systems import SystemContext\n"
        "from demur.scenarios.systems.answers import AnswersFile\n"
        "AnswersFile(path, SystemContext(read_image=lambda ref: b''))",
        700,
    ),
    "documents": (
        "from demur.core.records import Document\nfrom demur.core.store import Problems, read_records\n"
        "n = sum(1 for _ in read_records(Path(path), Document, Problems())); assert n == 1_000_000, n",
        60,
    ),
    "docstore": (
        "from demur.core.docstore import DocumentsWriter\nfrom demur.core.records import Document\n"
        "from demur.core.store import Problems, read_records\n"
        "with DocumentsWriter(Path(path).parent / 'kept') as kept:\n"
        "    for one in read_records(Path(path), Document, Problems()): kept.add(one)\n"
        "    assert kept.close() == []",
        150,
    ),
}
"""Name -> (what reads the file, megabytes that it may add to what Python and its imports hold)."""

MEASURED = """
import resource, sys
from pathlib import Path
import demur.core.records, demur.core.store, demur.core.docstore, demur.scenarios.systems.answers
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
path, before = sys.argv[1], most()
{code}
print(most() - before)
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "rows.jsonl"
    with path.open("w") as out:
        for i in range(ROWS):
            row = {
                "id": f"a{i}",
                "title": f"Title {i}",
                "text": "What it says. " * 5,
                "source": "x",
                "licence": "",
            }
            out.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    with path.open("w") as out:
        out.writelines(
            json.dumps({"ask": f"a{i}", "answer": f"answer {i}"}) + "\n" for i in range(ROWS)
        )
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_million_rows(name: str, rows: Path, answers: Path) -> None:
    code, most = READERS[name]
    path = answers if name == "answers" else rows
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(code=code), str(path)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < most
