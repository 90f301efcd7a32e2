"""The papers' tables by command: a sheet made of known counts goes in, the printed figures come out."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType

import pytest

from demur.cli import main
from demur_suites.mm_thebench.statistics import odds_of_rates
from suites.tests.test_mm_aqa_measures import SWEEPS
from suites.tests.test_thebench_measures import TABLE_9

TABLES = Path(__file__).parent / "tables"


def written(path: Path, rows: Iterable[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(capsys, *argv: object) -> dict[str, list[dict]]:
    assert main(["suite", "score", *map(str, argv), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def value(cell: object) -> float:
    return cell["value"] if isinstance(cell, dict) else cell


# --- 003, VB: tables 2 and 3 -----------------------------------------------------------------------

COUNTS = {  # families with IMAGE_FLIP and TEXT_FLIP right of those with BASE right; second-order cells right; all right
    "Gemini 3.1 Pro": (56, 74, 85, 17, 230),
    "GPT-5": (46, 49, 58, 18, 189),
    "Claude Opus 4.5": (45, 53, 79, 14, 193),
    "GPT-4o": (60, 67, 75, 20, 236),
    "Gemini 2.5 Pro": (55, 66, 74, 18, 224),
    "Claude 3.7 Sonnet": (37, 36, 73, 11, 159),
    "Gemma 3 12B": (25, 38, 59, 15, 170),
    "InternVL3-8B": (36, 22, 59, 9, 151),
}
FALSE, TRUE = "VISIBLY_FALSE", "VISIBLY_TRUE"


def right_cells(counts: tuple[int, int, int, int, int]) -> list[tuple[int, int, int]]:
    """(BASE, TEXT_FLIP, IMAGE_FLIP) right or not of a hundred families, the seven of second order first."""
    image, text, base, second_order, every = counts
    families = [(1, int(n < text), int(n < image)) for n in range(base)]
    more = every - base - image - text
    families += [(0, int(n < more), int(n < more - (100 - base))) for n in range(100 - base)]
    kinds = sorted(set(families))
    for several in product(range(8), repeat=len(kinds)):
        fits = all(n <= families.count(kind) for n, kind in zip(several, kinds, strict=True))
        rights = sum(n * sum(kind) for n, kind in zip(several, kinds, strict=True))
        if fits and (sum(several), rights) == (7, second_order):
            first = [kind for n, kind in zip(several, kinds, strict=True) for _ in range(n)]
            break
    for kind in first:
        families.remove(kind)
    return first + families


def vb_cells(model: str, two: dict[str, str], three: dict[str, str]) -> list[list[str]]:
    """Three replies a family: right, wrong, an abstention or unusable, as many of each as the paper has."""
    families = right_cells(COUNTS[model])
    abstained, answered = int(two["abs"]), int(three["answered"])
    unusable = 300 - answered - abstained
    sure = (float(two["caa"]) * (300 - unusable) - 0.25 * abstained) / COUNTS[model][-1]
    cells = [["" for _ in range(3)] for _ in families]
    # what leaves a denominator is in no family of second order, and in none whose BASE is right
    free = [n for n, family in enumerate(families) if n >= 7 and not family[0]]
    places = [(n, c) for n in free for c in range(3)]
    places += [(n, c) for n in range(100) if n not in free for c in range(3)]
    for n, cell in places:
        gold = FALSE if cell == 0 else TRUE
        reply: dict[str, object] = {"label": gold, "confidence": sure}
        if not families[n][cell]:
            reply = {"label": TRUE if gold == FALSE else FALSE, "confidence": 0.5}
            if unusable:
                reply, unusable = {}, unusable - 1
            elif abstained:
                reply, abstained = {"label": "ABSTAIN"}, abstained - 1
        cells[n][cell] = json.dumps(reply)
    assert (unusable, abstained) == (0, 0)
    return cells


def test_tables_2_and_3_of_vb(tmp_path, capsys):
    two, three = (
        {row["model"]: row for row in csv.DictReader(file.read_text().splitlines())}
        for file in (TABLES / "vb_table2.csv", TABLES / "vb_table3.csv")
    )
    cells = {model: vb_cells(model, two[model], three[model]) for model in COUNTS}
    sheet = tmp_path / "sheet.csv"
    with sheet.open("w", newline="") as handle:
        rows = csv.writer(handle)
        names = ("I0q0", "I0q1", "I1q0")
        rows.writerow(["ID", *(f"{model}_{cell}_json" for model in COUNTS for cell in names)])
        for n in range(100):
            id = f"{'MA' if n < 7 else 'OC'}-{n:02d}"
            rows.writerow([id, *(text for model in COUNTS for text in cells[model][n])])
    tables = scored(capsys, "vb", sheet, "--mode", "paper", "--resamples", 0)
    headline = {row["Model"]: row for row in tables["vb-headline"]}
    selective = {row["Model"]: row for row in tables["vb-selective"]}
    titles = {"CAA": "caa", "I_MEFR": "i_mefr", "T_MEFR": "t_mefr", "MEFR": "mefr"}
    for model, (image, text, base, second_order, right) in COUNTS.items():
        row, other = headline[model], selective[model]
        for title, printed in {**titles, "ToMAcc": "tomacc"}.items():
            assert value(row[title]) == pytest.approx(float(two[model][printed]), abs=6e-4), model
        assert (row["ABS"], row["n of ToM"]) == (int(two[model]["abs"]), 21)
        parts = {"CAA": 0.7, "MEFR": 0.15, "SelRank": 0.1, "ToMAcc": 0.05}
        final = sum(weight * value(row[title]) for title, weight in parts.items())
        assert value(row["Final"]) == pytest.approx(final)
        assert (other["Answered"], other["MEFR d"]) == (int(three[model]["answered"]), base)
        assert 100 * value(other["Cov"]) == pytest.approx(float(three[model]["coverage"]), abs=0.06)
        assert value(other["AnsAcc"]) == pytest.approx(right / other["Answered"])
        assert value(row["I_MEFR"]) == pytest.approx(image / base)
        assert value(row["T_MEFR"]) == pytest.approx(text / base)
        assert value(row["ToMAcc"]) == pytest.approx(second_order / 21)


# --- 000, MM-AQA: table 7, and the vconf row of tables 1 and 2 ---------------------------------------


def confidences(after: list[int], all_items: int) -> list[int]:
    """A stated confidence of each item: at threshold tau as many are left as the paper's counts say."""
    left = [all_items, *after, 0]
    return [tau for tau, (n, fewer) in enumerate(pairwise(left), 1) for _ in range(n - fewer)]


def test_table_7_of_mm_aqa(tmp_path, capsys):
    items: list[dict[str, object]] = []
    replies: list[dict[str, object]] = []
    for subset, rows in SWEEPS.items():
        tp, fp, fn, tn, au = zip(*(counts for counts, *_ in rows), strict=True)
        for kind, after, n in (
            ("right", tp, tp[0]),
            ("wrong", fp, fp[0] + fn[0]),
            ("gone", au, au[0] + tn[0]),
        ):
            for place, sure in enumerate(confidences(list(after), n)):
                of = {"subset": subset, "answers": {"accepted": [["7"]]}}
                id = f"{subset}-{kind}-{place}"
                if kind == "gone":
                    of |= {"pair": id, "transform": "missing-context"[: 15 * (subset == "images")]}
                    of["transform"] = of["transform"] or "temporal-drift"
                items.append({"id": f"{id}~t" if kind == "gone" else id, "pair": id, **of})
                items[-1]["question"] = f"How many roses are in vase {len(items)}?"
                answer = "7" if kind == "right" else "9"
                text = f"EXPLANATION - seen\nFINAL ANSWER - {answer}\nCONFIDENCE - {sure}"
                replies.append({"id": f"{items[-1]['id']}@vconf", "system": "m", "output": text})
    tables = scored(
        capsys,
        "mm_aqa",
        written(tmp_path / "replies.jsonl", replies),
        "--items",
        written(tmp_path / "items.jsonl", items),
    )
    found = {(row["Subset"], row["tau"]): row for row in tables["mm-aqa-tau"]}
    for subset, name in (("images", "A-MMMU"), ("documents", "A-MMLBD")):
        for tau, ((tp, fp, fn, tn, au), aac, uac, ar, mcc) in enumerate(SWEEPS[subset], 1):
            row = found[name, tau]
            shares = [100 * value(row[f"{title} (%)"]) for title in ("AAC", "UAC", "AR")]
            assert shares == pytest.approx([aac, uac, ar], abs=0.05)
            assert row["MCC"] == pytest.approx(mcc, abs=5e-4)
            assert (row["n answ."], row["n unansw."]) == (tp + fp + fn, tn + au)
        [row] = tables[f"mm-aqa-{subset}"]  # the paper's tau is 3
        assert tuple(row[c] for c in ("TP", "FP", "FN", "TN", "AU")) == SWEEPS[subset][2][0]
    sums = [round(found["A-MMMU", tau]["sum over subsets"], 2) for tau in (1, 2, 3, 4)]
    assert sums == [0.34, 0.41, 0.43, 0.44]


# --- 002, CertainlyUncertain: a row of table 3 -------------------------------------------------------

QWEN = {  # root: (IDK found, answers declined, answers right) of 200 pairs a category; F1, LAVE-idk, CW as printed
    "epistemic": ((120, 47, 137), (65.45, 64.22, 11.92)),
    "aleatoric": ((124, 45, 129), (67.15, 63.35, 15.71)),
}
CATEGORIES = {
    "epistemic": ("knowledge", "complexity", "extraneous"),
    "aleatoric": ("temporal", "ambiguity"),
}
TOTAL = (66.13, 63.87, 13.45)


def cu_replies(category: str, root: str) -> Iterator[tuple[str, str, float]]:
    """(question id, reply, P(True)) of 200 pairs."""
    (found, declined, right), (*_, cw) = QWEN[root]
    credit = found + right
    sure = (4 * cw + 0.9 * (400 - credit)) / credit  # of right replies; .9 of wrong ones
    for n in range(200):
        idk = "I don't know" if n < found else "1914"
        yield f"{category}-{n}/unanswerable", idk, sure if n < found else 0.9
        answer = "7" if n < right else "I don't know" if n < right + declined else "9"
        yield f"{category}-{n}/answerable", answer, sure if n < right else 0.9


def test_a_row_of_table_3_of_certainly_uncertain(tmp_path, capsys):
    replies, pairs = [], []
    for root, categories in CATEGORIES.items():
        for category in categories:
            for id, text, sure in cu_replies(category, root):
                replies.append({"id": id, "output": text, "computed_confidence": sure})
            for n in range(200):
                first = {"id": f"{category}-{n}", "category": category, "answer": "7"}
                asked = f"roses are in {category} vase {n}?"
                two = {"question": f"How many {asked}", "idk_question": f"Who knows which {asked}"}
                pairs.append(first | two)
    tables = scored(
        capsys,
        "certainly_uncertain",
        written(tmp_path / "Qwen-VL-Chat.jsonl", replies),
        "--items",
        written(tmp_path / "pairs.jsonl", pairs),
    )
    [row] = tables["cu-headline"]
    figures = {
        root: [100 * value(row[f"{root.capitalize()} {title}"]) for title in ("F1", "LAVE", "CW")]
        for root in (*QWEN, "total")
    }
    for root, (_, printed) in QWEN.items():
        assert figures[root] == pytest.approx(printed, abs=0.13)  # a quarter of a point a reply
    assert figures["total"] == pytest.approx(TOTAL, abs=0.1)
    weighted = [
        (3 * e + 2 * a) / 5 for e, a in zip(figures["epistemic"], figures["aleatoric"], strict=True)
    ]
    assert figures["total"] == pytest.approx(weighted)
    assert (row["n"], row["no P"], row["Model"]) == (2000, 0, "Qwen-VL-Chat")


# --- 004, MM-THEBench: accuracies of table 7, rows of table 9 -----------------------------------------

COUNTED = {
    "Qwen3-8B": (61, 64),
    "GLM-4.5V": (81, 34),
    "InternVL3.5-8B": (97, 42),
    "Opus-4.1": (96, 54),
}
"""Model -> chains that hallucinate in perception alone, in reasoning alone."""


def judge(request: object) -> str:
    text = request.messages[0].parts[0].text
    if "What to mark" not in text:
        return '{"pred_answer": "red", "answer_match": "PARTIAL"}'
    lost = [kind in text for kind in ("PERCEIVED", "REASONED", "neither of the two")]
    marks = [{"judgment": "NO" if no else "YES", "hallucination": no} for no in lost]
    return json.dumps({"judgments": [mark | {"evidence_step_ids": []} for mark in marks]})


def test_accuracies_and_table_9_of_mm_thebench(tmp_path, capsys, monkeypatch):
    module = ModuleType("papers_judge")
    module.judge = judge
    monkeypatch.setitem(sys.modules, "papers_judge", module)
    monkeypatch.chdir(tmp_path)
    choices = {"A": "one", "B": "two"}
    items = [
        {"id": f"i{n}", "source": "mm-vet", "question": f"Which is item {n}?", "answers": ["A"]}
        | {"format": "choice", "choices": choices}
        for n in range(151)
    ]
    items[116] = {
        "id": "i116",
        "source": "mm-vet",
        "question": "Which colours?",
        "answers": ["red and blue"],
    }
    wrong_of = {
        model: [round(rate * n / 100) for rate, n in zip(TABLE_9[model][2:], ns, strict=True)]
        for model, ns in COUNTED.items()
    }
    chains = []
    for model, ns in COUNTED.items():
        places = iter(n for n in range(151) if n != 116)
        for kind, n, wrong in zip(("PERCEIVED", "REASONED"), ns, wrong_of[model], strict=True):
            for k in range(n):
                place = next(places)
                answer = "B" if k < wrong else "A"
                chains.append(
                    {"id": f"i{place}", "system": model, "output": f"{kind} Answer: {answer}"}
                )
    for n in range(150):
        answer = "A" if n < 116 else "only a shade of red" if n == 116 else "B"
        chains.append({"id": f"i{n}", "system": "o3", "output": f"Seen. Answer: {answer}"})
    tables = scored(
        capsys,
        "mm_thebench",
        written(tmp_path / "chains.jsonl", chains),
        "--items",
        written(tmp_path / "items.jsonl", items),
        "--judge",
        "python:papers_judge:judge",
        "--resamples",
        0,
    )
    accuracy = {row["Model"]: row["mm-vet Acc (%)"] for row in tables["thebench-sources"]}
    assert round(100 * accuracy["o3"]["value"], 2) == 77.67  # (116 + .5) of 150
    rows = {row["Model"]: row for row in tables["thebench-association"]}
    for model, (n_p, n_r) in COUNTED.items():
        row, (chi, odds, err_p, err_r) = rows[model], TABLE_9[model]
        assert (row["n_P"], row["n_R"]) == (n_p, n_r)
        rates = [100 * value(row[name]) for name in ("Err_P (%)", "Err_R (%)")]
        assert rates == pytest.approx([err_p, err_r], abs=0.0501)
        assert row["chi2"] == pytest.approx(chi, abs=0.05)
        if model == "InternVL3.5-8B":  # the paper repeats its chi-square here
            odds = odds_of_rates(err_p / 100, err_r / 100)
        assert row["OR"] == pytest.approx(odds, abs=0.05)
