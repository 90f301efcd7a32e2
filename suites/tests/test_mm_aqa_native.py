"""MM-AQA from native folders (PDFs, MMMU's tables) and a release: planned, built, killed, queued for people."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from report_factory import make_demo

import demur_suites
from demur.cli import main
from demur.judge.annotation.task import put_labels, read_task
from demur_suites.mm_aqa.build.pool import sample_corpus

MODELS = "suites.tests.mm_aqa_models"
FILES = ("items.jsonl", "decisions.jsonl", "manifest.json", "mm-aqa-rejections.json")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}


# --- native folders ---------------------------------------------------------------------------------


def mmlongbench(folder: Path, documents: int = 1) -> Path:
    """Documents of the sample corpus as PDFs of four pages, as published; a fifth of the questions have no answer."""
    from PIL import Image

    several = [a for a in sample_corpus(0) if a.subset == "documents"]
    rows = []
    (folder / "data/documents").mkdir(parents=True)
    for number in range(documents):
        pair = several[2 * number : 2 * number + 2]
        pages = [Image.open(io.BytesIO(p.data)).convert("RGB") for a in pair for p in a.pictures()]
        name = f"report-{number}.pdf"
        pages[0].save(
            folder / "data/documents" / name, save_all=True, append_images=pages[1:], resolution=100
        )
        for place, a in enumerate(pair):
            rows.append(
                {
                    "doc_id": name,
                    "doc_type": "Research report / Introduction",
                    "question": a.question,
                    "answer": a.answers.display_form,
                    "evidence_pages": str([2 * place + 1, 2 * place + 2]),
                    "evidence_sources": "['Table']",
                    "answer_format": "Str",
                }
            )
    rows.append(
        {
            **rows[0],
            "question": "Who painted the cover?",
            "answer": "Not answerable",
            "evidence_pages": "[]",
            "answer_format": "None",
        }
    )
    (folder / "data/samples.json").write_text(json.dumps(rows))
    return folder


def mmmu(folder: Path) -> Path:
    """Parquet shards of two subjects, pictures inside."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pictures = [a for a in sample_corpus(0) if a.topic == "photos"]
    for place, subject in enumerate(("Biology", "Geography")):
        rows = [
            {
                "id": f"validation_{subject}_{n}",
                "question": "<image 1> What is shown here?",
                "options": str([a.answers.display_form, "a teapot", "a canoe"]),
                "answer": "A",
                "question_type": "multiple-choice",
                "image_1": {"bytes": a.pictures()[0].data, "path": f"{n}.jpg"},
            }
            for n, a in enumerate(pictures[4 * place : 4 * place + 4])
        ]
        (folder / subject).mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist(rows), folder / subject / "validation-00000-of-00001.parquet"
        )
    return folder


def built(argv: list[str], kill_at: int = 0) -> int:
    """The build as a command of its own; killed (SIGKILL) when so many decisions are filed."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "demur", "suite", "build", "mm_aqa", *argv]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        log = Path(argv[argv.index("--out") + 1]) / "decisions.jsonl"
        while kill_at and process.poll() is None:
            if log.is_file() and log.read_bytes().count(b"\n") >= kill_at:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.01)
        return process.wait()


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("name", ["mmlongbench", "mmmu"])
def test_a_set_of_a_native_folder(name, tmp_path, capsys):
    if name == "mmlongbench":
        pytest.importorskip("pypdfium2", reason="no PDFs: pip install 'demur[pdf]'")
    folder = {"mmlongbench": mmlongbench, "mmmu": mmmu}[name](tmp_path / name)
    models = [
        "--rewriter",
        f"python:{MODELS}:rewriter",
        "--verifier",
        f"python:{MODELS}:doubtful",
        "--panel",
        f"python:{MODELS}:strict,python:{MODELS}:doubtful",
    ]
    common = ["--pool", f"{name}:{folder}", "--ocr", "no", *models]
    # the cost is told first
    assert (
        main(["suite", "build", "mm_aqa", "--out", str(tmp_path / "plan"), "--plan", *common]) == 0
    )
    pairs = 8 if name == "mmmu" else 2
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    assert [line["calls"] for line in plan["lines"]][-1] == pairs
    # at a stroke, and killed twice
    whole, out = tmp_path / "whole", tmp_path / "set"
    assert built(["--out", str(whole), *common]) == 0
    assert built(["--out", str(out), *common], kill_at=1) in (
        0,
        -signal.SIGKILL,
    )  # it may have ended just then
    built(["--out", str(out), *common], kill_at=2)
    assert built(["--out", str(out), *common]) == 0
    assert bytes_of(out) == bytes_of(whole)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["left_out"] == ({"natively unanswerable": 1} if name == "mmlongbench" else {})
    assert manifest["decisions"].get("human", 0) + manifest["decisions"].get("accepted", 0) == pairs
    # people settle what the two disagree on
    if manifest["decisions"].get("human"):
        _, queue = read_task(out / "queue")
        put_labels(out / "queue", "ann", {item.id: ("unanswerable", "") for item in queue})
        assert built(["--out", str(out), *common]) == 0
    capsys.readouterr()
    assert main(["suite", "check", "mm_aqa", str(out), "--json"]) == 0
    subsets = {row["Subset"]: row for row in json.loads(capsys.readouterr().out)["mm-aqa-subsets"]}
    shown = "A-MMLBD" if name == "mmlongbench" else "A-MMMU"
    assert (subsets[shown]["answerable"], subsets[shown]["unanswerable"]) == (pairs, pairs)


@pytest.mark.slow
def test_a_release_is_a_pool(tmp_path):
    out = demur_suites.suite("mm_aqa").build(
        tmp_path / "set", pool=str(make_demo(tmp_path)[0]), ocr="no"
    )
    items = demur_suites.suite("mm_aqa").open(out).items
    found = Counter(i.answerable for i in items)
    assert (
        found[True] == found[False] == 48
    )  # those without an image of their own, too: their evidence is drawn
    assert {i.subset for i in items} == {"documents"}
    assert all(i.images for i in items)
