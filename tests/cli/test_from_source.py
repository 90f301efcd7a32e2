"""Sources without a knowledge base, from their own files to their own figures."""

from __future__ import annotations

import csv
import importlib
import json
import sys

import mini_sources as mini
import pytest
from PIL import Image, ImageDraw

from demur.cli import main

KNOWS = """
SAID = {said!r}

def answer(given):
    SEEN.append((given["question"], [e["title"] for e in given["evidence"]], len(given["images"])))
    return next((SAID[q] for q in SAID if q in given["question"]), "I do not know.")

SEEN = []
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a function that says this over a source; its printed output and what it was shown."""
    monkeypatch.setenv("COLUMNS", "160")  # so that `figures` reads a row from one line
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def go(source, said, *words, code=0):
        name = f"knows_{len(list(tmp_path.iterdir()))}"
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        (tmp_path / f"{name}.py").write_text(KNOWS.format(said=said))
        capsys.readouterr()
        assert (
            main(["run", source, "--system", f"python:{name}:answer", "--out", name, *words])
            == code
        )
        out = capsys.readouterr()
        return out.out + out.err, getattr(sys.modules.get(name), "SEEN", []), tmp_path / name

    return go


def figures(text):
    """The cells of the one row of figures."""
    (line,) = [
        ln.split()
        for ln in text.splitlines()
        if ln.split()[1:2] in (["simpleqa"], ["mmmu"], ["mmlongbench"])
    ]
    return line


def test_simpleqa_is_asked_without_evidence_and_has_its_five_figures(run, tmp_path):
    folder = tmp_path / "simpleqa"
    folder.mkdir()
    with (folder / "simple_qa_test_set.csv").open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["metadata", "problem", "answer"])
        table.writerows(
            [
                ["{'topic': 'Rivers'}", f"Which river flows past Town{i}?", f"Zorbik{i}"]
                for i in range(8)
            ]
        )
    said = {f"Town{i}?": f"Zorbik{i}" for i in range(3)} | {"Town3?": "The Quellin"}
    text, seen, out = run("simpleqa:simpleqa", said)
    assert len(seen) == 8
    assert all(not evidence for _, evidence, _ in seen)
    verdicts = [
        json.loads(line)
        for line in (
            out
            / next(p.name for p in out.iterdir() if p.name.startswith("python"))
            / "verdicts.jsonl"
        )
        .read_text()
        .splitlines()
    ]
    graded = [v["outcome"] for v in verdicts if v["status"] == "graded"]
    right, wrong, n = graded.count("correct"), graded.count("incorrect"), len(graded)
    assert (right, graded.count("deflected")) == (3, 4)
    accuracy, silent, given, f1, shown = figures(text)[-5:]
    assert (accuracy, silent, given) == (
        f"{right / n:.3f}",
        f"{4 / n:.3f}",
        f"{right / (right + wrong):.3f}" if right + wrong else "-",
    )
    assert f1 == f"{2 * right / (right + wrong + n):.3f}"
    assert int(shown) == n
    assert main(["score", str(out)]) == 0


def test_mmmu_is_asked_by_its_choices_with_its_images(run, tmp_path):
    mini.mmmu(tmp_path / "mmmu")
    text, seen, _ = run("mmmu:mmmu", {})
    assert all(images for _, _, images in seen)
    assert "mmmu" in text
    assert "the folder" in run("mmmu:nowhere", {}, code=2)[0]


def document(path, pages):
    pictures = []
    for n in range(1, pages + 1):
        picture = Image.new("RGB", (200, 280), "white")
        ImageDraw.Draw(picture).text((20, 20 * n), f"page {n}", "black")
        pictures.append(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(path, "PDF", save_all=True, append_images=pictures[1:])


def test_mmlongbench_shows_the_pages_of_its_documents(run, tmp_path):
    pytest.importorskip("pypdfium2")
    row = {
        "doc_id": "guide.pdf",
        "doc_type": "Guide",
        "evidence_sources": "['Text']",
        "answer_format": "Str",
    }
    rows = [
        row
        | {"question": "Who keeps the north gate?", "answer": "Zorbik", "evidence_pages": "[2]"},
        row
        | {
            "question": "Who keeps the south gate?",
            "answer": "Not answerable",
            "evidence_pages": "[]",
        },
    ]
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm" / "samples.json").write_text(json.dumps(rows))
    document(tmp_path / "mm" / "documents" / "guide.pdf", 4)
    text, seen, out = run(
        "mmlongbench:mm", {"north gate": "Zorbik"}, "--scenarios", "realistic", "--k", "9"
    )
    shown = {question: sorted(titles) for question, titles, _ in seen}
    assert shown == {q["question"]: [f"guide.pdf, page {n}" for n in range(1, 5)] for q in rows}
    assert sorted(p.name for p in (out / "pages" / "guide").iterdir()) == [
        "1.png",
        "2.png",
        "3.png",
        "4.png",
    ]
    assert figures(text)[-5] == "1.000"  # one right, one rightly declined
    assert figures(text)[-2] == "1.000"


def test_a_bad_row_and_a_defective_sample_are_each_counted_once_and_asks_leave_no_release(
    run, tmp_path, capsys
):
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "demur-map.yaml").write_text(
        "name: table\nsamples:\n  files: [q.csv]\n  fields: {id: id, question: q, answers: a, images: photo}\n"
    )
    (folder / "q.csv").write_text(
        "id,q,a,photo\n1,Who?,Zorbik,\n2,Where?,Quell,gone.png\n3,,Lake,\n"
    )
    _, seen, out = run("generic:table", {"Who?": "Zorbik"}, "--skip-bad")
    assert len(seen) == 1
    (step,) = json.loads((out / "release" / "funnel.json").read_text())
    assert (step["entered"], step["kept"], step["dropped"]) == (3, 1, {"cannot be read": 2})
    capsys.readouterr()
    assert (
        main(["asks", "generic:table", "-o", str(tmp_path / "out" / "asks.jsonl"), "--skip-bad"])
        == 0
    )
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["asks.jsonl"]
