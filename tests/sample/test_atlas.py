"""The shipped corpus, its adapter, and what the adapter says of a damaged copy."""

import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from errors import places
from hypothesis import given
from hypothesis import strategies as st

from demur.core import plugins
from demur.core.errors import BadInput, UsageError
from demur.core.records import Modality, Role
from demur.core.store import Problems
from demur.core.uris import read_image
from demur.sample import atlas
from demur.sources import DEFECT
from demur.sources.atlas import Atlas
from tools.atlas.checks import NOTICES, check, holds
from tools.atlas.entities import norm
from tools.atlas.factbook import fit, plain, without_notes
from tools.atlas.flags import colour_name
from tools.atlas.passages import currency, urban_areas, without_surnames_in_capitals
from tools.atlas.questions import plan


@pytest.fixture(scope="module")
def source():
    return Atlas()


@pytest.fixture(scope="module")
def samples(source):
    return list(source.samples())


@pytest.fixture(scope="module")
def documents(source):
    return {document.id: document for document in source.documents()}


# --- the shipped corpus --------------------------------------------------------------------------


@pytest.mark.heavy
def test_counts_and_spot_records(source, samples, documents):
    assert not source.problems.lines
    assert (len(documents), len(samples)) == (1989, 1458)
    assert Counter(d.modality for d in documents.values()) == {
        Modality.TEXT: 1424,
        Modality.IMAGE: 565,
    }
    assert Counter(s.attributes["style"] for s in samples) == {
        "image->text": 765,
        "image->image": 239,
        "text->image": 220,
        "image->image+text": 117,
        "text->text": 117,
    }
    first, tenth, last = samples[0], samples[9], samples[-1]
    assert (first.id, first.answers.display_form, first.source_ref) == (
        "q-it-dz-export_commodity",
        "natural gas",
        "questions.jsonl:1",
    )
    assert (
        first.question
        == "In 2023, what was the top export commodity, by value, of the country with this flag?"
    )
    assert (tenth.id, tenth.topic, tenth.cluster, tenth.source_ref) == (
        "q-it-bw-border_km",
        "border_km",
        "bw",
        "questions.jsonl:10",
    )
    assert (last.id, last.answers.accepted) == ("q-pl-uranus", (("7th",), ("seventh",), ("7",)))
    ids = list(documents)
    assert (ids[0], ids[9], ids[-1]) == ("t-dz-history", "t-ao-symbols", "i-photo-planet-earth")
    assert documents["i-flag-bs"].title == "Flag of the Bahamas"
    assert documents["t-do-economy"].title == "Dominican Republic: economy"


@pytest.mark.reference
def test_corpus_holds_what_every_copy_must():
    """Unique ids, gold there, images whole, answers supported and not told, no equal pixels, licences, notices."""
    assert check(atlas()) == []


def test_manifest_names_every_file_with_its_hash():
    folder = atlas()
    manifest = json.loads((folder / "manifest.json").read_text())
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {
        "manifest.json"
    }
    assert there == set(manifest["outputs"])
    for name, expected in manifest["outputs"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected, name
    counts = manifest["counts"]["by_style_and_kind"]
    assert (
        sum(n for kinds in counts.values() for n in kinds.values())
        == manifest["counts"]["questions"]
        == 1458
    )
    assert manifest["planned_but_not_asked"] == {}
    assert {row["package"]: row["version"] for row in manifest["inputs"]}["flag-icons"] == "7.5.0"


def test_documented_counts_are_those_of_the_manifest():
    counts = json.loads((atlas() / "manifest.json").read_text())["counts"]
    page = (Path(__file__).parents[2] / "docs/atlas.md").read_text()
    rows = re.findall(r"^\| `(\w+->[\w+]+)` \|.*\| (\d+) \|$", page, re.MULTILINE)
    by_style = {style: sum(n.values()) for style, n in counts["by_style_and_kind"].items()}
    assert {style: int(n) for style, n in rows} == by_style
    kinds = {kind for n in counts["by_style_and_kind"].values() for kind in n}
    assert f"The {len(kinds)} kinds" in page
    for name in ("passages", "images", "query_images", "questions"):
        assert f"{counts[name]:,}" in page


def test_every_planned_question_is_there_in_order(samples):
    assert [sample.id for sample in samples] == [name for name, _ in plan()]


def test_samples_carry_what_the_rows_say(samples, documents):
    rows = [json.loads(line) for line in (atlas() / "questions.jsonl").read_text().splitlines()]
    for sample, row in zip(samples, rows, strict=True):
        assert sample.native == row
        assert (sample.topic, sample.cluster, sample.licence) == (
            row["kind"],
            row["entity"],
            row["licence"],
        )
        assert [evidence.id for evidence in sample.gold] == row["gold_text"] + row["gold_images"]
        assert all(e.role is Role.GOLD and e.title == documents[e.id].title for e in sample.gold)
        assert len(sample.images) == bool(row["query_image"])
        assert sample.split == "all"
        assert not sample.negatives
        pages = {documents[e.id].page for e in sample.gold}
        assert sample.cluster in pages or sample.attributes["style"] == "image->image+text"


def test_answer_kinds(samples):
    by_id = {sample.id: sample.answers for sample in samples}
    assert by_id["q-it-bw-border_km"].number == (825.66, 842.34)
    assert by_id["q-it-bw-border_km"].unit == "km"
    assert by_id["q-tt-dz-heritage"].number == (7.0, 7.0)
    assert by_id["q-it-ao-independence_date"].kind == "date"
    assert ("November 11, 1975",) in by_id["q-it-ao-independence_date"].accepted
    assert ("Denali",) in by_id["q-it-us-highest_point"].accepted
    assert ("United States",) in by_id["q-it-bs-export_partner"].accepted
    assert ("Washington DC",) in by_id["q-mt-us-capital"].accepted
    for answers in by_id.values():
        assert (answers.kind == "number") == (answers.number is not None)


MARKED = {"td": "ro", "ro": "td", "id": "mc", "mc": "id", "lu": "nl", "nl": "lu"}


def test_ambiguous_flags_are_marked(samples):
    marked = {
        s.cluster: s.attributes["ambiguous_with"]
        for s in samples
        if "ambiguous_with" in s.attributes
    }
    assert marked == MARKED
    assert all(
        s.images[0].uri.startswith("queries/flags/")
        for s in samples
        if "ambiguous_with" in s.attributes
    )


def test_wording_that_read_badly_is_gone(samples, documents):
    bad = r"shown by value|The Dominican|of The |the Czechia|listed first| of (?:Federated|Isle of|Pitcairn)"
    titles = [document.title for document in documents.values()]
    assert [
        text for text in [*(s.question for s in samples), *titles] if re.search(bad, text)
    ] == []
    assert [title for title in titles if title.startswith(("Cocos:", "Virgin Islands"))] == []
    shown = [sample.answers.display_form for sample in samples]
    assert [answer for answer in shown if len(answer) > 60] == []
    assert {answer for answer in shown if re.match(r"(?:the|a|an) ", answer)} == {
        "the sun and the savannah",  # two things, each with its article
        "the Turkic peoples and the sky",
        "the riches of the land",
    }
    kinds = Counter(sample.topic for sample in samples)
    assert min(kinds.values()) > 1


def test_images_are_read_back_by_their_reference(source, samples):
    for sample in samples[:40]:
        for image in sample.images:
            assert read_image(image, source.root)


def test_notices_are_kept():
    assert all((atlas() / name).read_text().strip() for name in NOTICES)


def test_registered_as_a_source():
    declared = re.search(
        r'^atlas = "(.*)"$', (Path(__file__).parents[2] / "pyproject.toml").read_text(), re.M
    )
    assert declared is not None
    assert plugins.find("sources", declared[1])[0] is Atlas


# --- damaged copies ------------------------------------------------------------------------------

ROW = {
    "id": "q1",
    "style": "image->text",
    "kind": "capital",
    "question": "What is the capital of the country with this flag?",
    "query_image": "queries/a.jpg",
    "answers": ["Algiers"],
    "gold_text": ["t1"],
    "gold_images": ["i1"],
    "entity": "dz",
    "licence": "Apache-2.0",
}


@pytest.fixture
def corpus(tmp_path):
    """A corpus of one passage, one image and one question, all of them good."""
    (tmp_path / "images").mkdir()
    (tmp_path / "queries").mkdir()
    shutil.copy(atlas() / "images/flags/dz.png", tmp_path / "images/a.png")
    shutil.copy(atlas() / "queries/flags/dz.jpg", tmp_path / "queries/a.jpg")
    text = {
        "id": "t1",
        "page": "dz",
        "title": "Algeria",
        "text": "Capital: Algiers.",
        "source": "s",
        "licence": "l",
    }
    image = {
        "id": "i1",
        "page": "dz",
        "title": "Flag",
        "file": "images/a.png",
        "source": "s",
        "licence": "l",
    }
    write(tmp_path, "kb_text.jsonl", text)
    write(tmp_path, "kb_images.jsonl", image)
    write(tmp_path, "questions.jsonl", ROW)
    return tmp_path


def write(folder, file, *rows):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / file).write_text("\n".join(lines) + "\n")


def read(folder):
    """Ids of the samples without a defect, and the problems."""
    source = Atlas(folder, Problems())
    left = [sample.id for sample in source.samples() if DEFECT not in sample.attributes]
    list(source.documents())
    return left, source.problems.lines


def test_the_small_corpus_is_good(corpus):
    assert read(corpus) == (["q1"], [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": "  "}, "question"),
        ({"answers": []}, "answer"),
        ({"answers": [" "]}, "answer"),
        ({"gold_text": ["t9"]}, ": t9"),
        ({"query_image": "queries/none.jpg"}, ": queries/none.jpg"),
        ({"query_image": "../../etc/passwd"}, ": ../../etc/passwd"),
        ({"number": [2, 1]}, "runs backwards"),
    ],
)
def test_bad_question_is_named_and_left_out(corpus, change, said):
    write(corpus, "questions.jsonl", ROW | {"id": "q0"}, ROW | change)
    left, problems = read(corpus)
    assert left == ["q0"]
    assert len(problems) == 1
    assert problems[0].startswith("questions.jsonl:2 (q1): ")
    assert said in problems[0]


def test_duplicate_ids_keep_the_first(corpus):
    write(corpus, "questions.jsonl", ROW, ROW | {"kind": "other"})
    assert read(corpus) == (
        ["q1"],
        ["questions.jsonl:2 (q1): this id stands in an earlier row too; the first is kept"],
    )
    image = {
        "id": "t1",
        "page": "dz",
        "title": "Flag",
        "file": "images/a.png",
        "source": "s",
        "licence": "l",
    }
    write(corpus, "kb_images.jsonl", image)
    left, problems = read(corpus)
    assert "kb_images.jsonl:1 (t1)" in places(problems)
    assert left == []


def test_unreadable_lines(corpus):
    write(corpus, "questions.jsonl", '{"id": "q7", "style"', "[1]", ROW)
    left, problems = read(corpus)
    assert left == ["q1"]
    assert [line.split(":")[:2] for line in problems] == [
        ["questions.jsonl", "1"],
        ["questions.jsonl", "2"],
    ]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text"])
@pytest.mark.parametrize("file", ["images/a.png", "queries/a.jpg"])
def test_broken_images(corpus, damage, file):
    path = corpus / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"empty": b"", "truncated": content[: len(content) // 2], "text": b"no image"}[damage]
        )
    left, problems = read(corpus)
    assert left == []
    assert any(
        re.match(rf"(kb_images|questions)\.jsonl:1 \((i1|q1)\): .*{file}", line)
        for line in problems
    )
    assert len(problems) == (
        2 if file.startswith("images") else 1
    )  # a document that is lost takes its question along


def test_caller_decides(corpus):
    write(
        corpus,
        "questions.jsonl",
        ROW,
        ROW | {"id": "q2", "answers": []},
        ROW | {"id": "q3", "question": ""},
    )
    source = Atlas(corpus)
    assert len(list(source.samples())) == 1
    with pytest.raises(BadInput, match=r"2 problem\(s\)"):
        source.problems.settle()
    source.problems.settle(skip_bad=True)
    assert source.problems.skipped == 2
    assert len(list(source.samples())) == 1
    assert len(source.problems) == 2  # read once, noted once


def test_no_corpus_there(tmp_path):
    with pytest.raises(UsageError, match=r"kb_text\.jsonl"):
        list(Atlas(tmp_path).documents())


# --- what the rebuild does to text ---------------------------------------------------------------


@pytest.mark.reference
def test_checks_find_what_is_planted(tmp_path):
    folder = tmp_path / "atlas"
    shutil.copytree(atlas(), folder)
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    rows[0]["answers"] = ["nothing that stands there"]
    rows[1]["question"] = "Is it the Algerian dinar?"
    rows[2]["gold_text"] = ["t-none"]
    rows[3]["licence"] = "GPL-3"
    write(folder, "questions.jsonl", *rows)
    shutil.copy(folder / "images/flags/dz.png", folder / "images/flags/ao.png")
    (folder / "images/extra.png").write_bytes(b"")
    (folder / "WORDNET-LICENSE.txt").unlink()
    found = "\n".join(check(folder))
    for said in (
        "does not stand in its evidence",
        "tells the answer",
        "gold evidence missing",
        "may not be shipped",
    ):
        assert said in found
    for said in ("same pixels as", "images/extra.png: no row names it", "notice missing"):
        assert said in found
    assert len(check(folder)) == 7


@given(
    st.lists(st.sampled_from(["word", "(", ")", '"', ", ", "; ", ". ", "A"]), max_size=40),
    st.integers(1, 60),
)
def test_fit_never_cuts_inside_a_statement(pieces, limit):
    text = "".join(pieces)
    cut = fit(text, limit)
    assert text.startswith(cut)
    if cut != text:
        assert cut.count("(") == cut.count(")")
        assert cut.count('"') % 2 == 0
        assert cut.endswith(".") or text[len(cut)] in ",;."


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("alpha (one, two), beta, gamma", 12, "alpha (one, two)"),
        ("alpha (one, two), beta, gamma", 24, "alpha (one, two), beta"),
        ('the "first, last" one, beta', 15, 'the "first, last" one'),
        (
            "It joined the U.S. Army. Then it left. The end came.",
            40,
            "It joined the U.S. Army. Then it left.",
        ),
        ("a single statement without an end", 9, "a single statement without an end"),
    ],
)
def test_fit_by_example(text, limit, kept):
    assert fit(text, limit) == kept


@given(st.text(max_size=80))
def test_plain_is_stable(text):
    once = plain(text)
    assert "<br>" not in once
    assert once == once.strip()


def test_text_helpers():
    assert plain("a<br><br>b &amp;amp; <em>c</em>") == "a; b & c"
    assert (
        without_notes("Mount Cook 3,724 m; note - the height was 3,764 m") == "Mount Cook 3,724 m"
    )
    assert (
        currency("Cooperation Financiere en Afrique Centrale francs (XAF)")
        == "Central African CFA franc (XAF)"
    )
    assert currency("laris (GEL)") == "lari (GEL)"
    assert urban_areas(
        "3.204 million OUAGADOUGOU (capital), 1.129 million Bobo-Dioulasso (2023)"
    ) == ("Ouagadougou (capital) 3.204 million, Bobo-Dioulasso 1.129 million (2023)")
    assert without_surnames_in_capitals("Charles DE GAULLE left NATO; Henry VIII") == (
        "Charles de Gaulle left NATO; Henry VIII"
    )
    assert (
        colour_name((200, 16, 46)),
        colour_name((255, 255, 255)),
        colour_name((10, 10, 10)),
    ) == (
        "red",
        "white",
        "black",
    )
    assert holds(norm("Capital:  Algiers."), "algiers")
    assert not holds("algiersk", "algiers")
