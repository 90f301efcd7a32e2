"""Documents and questions of one's own to a release: what is read, what is proposed, what a person decides."""

from __future__ import annotations

import csv
import gzip
import json
import re

import growth
import pytest
from errors import raises

import demur
from demur.answers import holds
from demur.cli import main
from demur.core.errors import BadInput, DataError, UsageError
from demur.core.store import Problems, read_json
from demur.corpora import read_corpus
from demur.corpora.docs import html_text
from demur.curation.from_docs.questions import read_questions
from demur.judge.annotation.task import put_labels, read_items
from demur.release import Release, verify

LIMITS = "# Upload limits\n\nFiles of up to 250 MB can be uploaded. Larger ones are refused with error E413.\n"
SSO = "<html><title>Sign &amp; on</title><nav>menu</nav><script>x</script><p>Single sign-on speaks <b>SAML 2.0</b>.</p>"
QUESTIONS = [
    {"question": "How large may an uploaded file be?", "answer": "250 MB"},
    {"question": "What does plan 3 cost?", "answer": "37 euros | 37 EUR", "topic": "plans"},
    {"question": "Can I pay with bitcoin?", "unanswerable": True},
    {"question": "how large may an uploaded file be", "answer": "250 MB"},
    {"question": "How long do refunds take?"},
]


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    parts = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        parts.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 200]/Contents {5 + 2 * n} 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
        )
        parts.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    out, places = "%PDF-1.4\n", []
    for n, part in enumerate(parts, 1):
        places.append(len(out))
        out += f"{n} 0 obj{part}endobj\n"
    table = "".join(f"{p:010} 00000 n \n" for p in places)
    end = f"trailer<</Size {len(parts) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    return f"{out}xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}{end}".encode()


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "handbook"
    (folder / "billing").mkdir(parents=True)
    (folder / "limits.md").write_text(LIMITS)
    (folder / "billing/refunds.txt").write_text(
        "Invoices come on the third working day. Refunds take ten days.\n"
    )
    (folder / "sso.html").write_text(SSO)
    (folder / "fees.pdf").write_bytes(
        pdf("The fee of a late payment is 12 euros.", "A reminder costs 3 euros.")
    )
    rows = [
        {
            "id": f"kb-{i}",
            "title": f"Plan {i}",
            "text": f"Plan {i} costs {10 * i + 7} euros a month.",
        }
        for i in range(1, 9)
    ]
    (folder / "chunks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "logo.png").write_bytes(b"no text")
    return folder


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    return path


def test_a_folder_of_documents_is_read(docs):
    found = {d.id: d for d in read_corpus(f"docs:{docs}", Problems())}
    assert set(found) == {
        "limits.md",
        "billing/refunds.txt",
        "sso.html",
        "fees.pdf#page-1",
        "fees.pdf#page-2",
    } | {f"kb-{i}" for i in range(1, 9)}
    assert (found["limits.md"].title, found["sso.html"].title, found["sso.html"].text) == (
        "Upload limits",
        "Sign & on",
        "Single sign-on speaks SAML 2.0.",
    )
    assert found["fees.pdf#page-2"].page == "fees.pdf"
    assert "3 euros" in found["fees.pdf#page-2"].text


def test_pages_without_text_are_counted(docs, caplog):
    (docs / "scanned.pdf").write_bytes(pdf("The cover letter.", " ", " "))
    found = [d.id for d in read_corpus(f"docs:{docs}", Problems()) if d.id.startswith("scanned")]
    assert found == ["scanned.pdf#page-1"]
    assert "scanned.pdf: skipped 2 of 3" in caplog.text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a<b> c</b>d<br/>e<p>f", "a cd\ne\nf"),
        ("1 < 2 &lt; 3 &amp;amp; </>x", "1 < 2 < 3 &amp; x"),
        ("<p title='a > b' x=\"'>\">y", "y"),
        ("<SCRIPT>if (a<b) '</p>'</script >z", "z"),
        ("<svg/>a<svg><p>b</svg>c", "ac"),
        ("<![ ]>a<!DOCTYPE x><?php ?>b<!-->c<!-- > -->d", "abcd"),
        ("a<nav><nav>b</nav>c</nav>d", "ad"),
        ("a<", "a<"),
        ("a<b", "a"),
        ("a<!-- b", "a"),
        ("a<style>b", "a"),
        ("<title>T</title>x", "x"),
        ("a\x00b", "a\x00b"),
    ],
)
def test_the_text_that_a_page_shows(page, text):
    assert html_text(page)[1] == text


@pytest.mark.parametrize(
    "mark", ["<!--", "<![", "<a <", "<a x='", "</", "<?", "<script>", "<title>x", "<svg><svg>"]
)
def test_marks_that_nobody_closes_take_no_squared_time(mark):
    """`html.parser` took a minute and a half over 400,000 characters of the first, and raised over the second."""
    with growth.cpu_limit(10):
        html_text(mark * 200_000)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"caf\xe9"),
        ("b.md", b"  \n"),
        ("c.pdf", b"%PDF nothing"),
        ("d.html", b"<script>only</script>"),
        ("e.txt", b"a\0b"),
        ("f.html", b"<meta charset=punycode><p>text"),
        ("g.html", b"<meta charset=undefined><p>text"),
        ("h.html", b"<!-- " * 200_000),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_ends_nothing(
    docs, questions, tmp_path, name, data
):
    (docs / name).write_bytes(data)
    with raises(BadInput, item=name):
        demur.from_docs(docs, questions, tmp_path / "out", accept_found=True)
    made = demur.from_docs(docs, questions, tmp_path / "out", accept_found=True, skip_bad=True)
    assert made.release is not None


def test_what_was_found_is_taken_when_nobody_wants_to_look(docs, questions, tmp_path):
    made = demur.from_docs(str(docs), str(questions), str(tmp_path / "out"), accept_found=True)
    samples = {s.question: s for s in made.release.samples()}
    assert verify(made.release) == []
    assert {q: [e.id for e in s.gold] for q, s in samples.items()} == {
        "How large may an uploaded file be?": ["limits.md#0"],
        "What does plan 3 cost?": ["kb-3"],
        "Can I pay with bitcoin?": [],
    }
    assert samples["What does plan 3 cost?"].answers.accepted == (("37 euros",), ("37 EUR",))
    assert not samples["Can I pay with bitcoin?"].answerable
    for s in samples.values():
        assert not any(holds(s.answers, e.text, s.question) for e in s.negatives)
    assert list(map(len, made.drops.values())) == [1]
    assert list(made.drops) == ["no passage was confirmed as its gold"]
    assert "without a look" in (tmp_path / "out/release/README.md").read_text()
    again = (tmp_path / "out/release/manifest.json").read_bytes()
    demur.from_docs(docs, questions, tmp_path / "out", accept_found=True)
    assert (tmp_path / "out/release/manifest.json").read_bytes() == again
    note = read_json(tmp_path / "out/corpora/corpora.json")
    assert note["excluded"][samples["What does plan 3 cost?"].id] == ["kb-3"]


@pytest.mark.parametrize(
    ("answers", "texts"),
    [
        ({"text": ["a", "b"], "answer_start": [1, 2]}, ("a", "b")),
        ({"value": "a", "aliases": ["b"]}, ("a", "b")),
        ([None, "a"], ("a",)),
        ("a | b", ("a", "b")),
        ([{"name": "a"}], None),
        (True, None),
    ],
)
def test_answers_of_questions_are_read_as_everywhere(tmp_path, answers, texts):
    path, problems = tmp_path / "q.jsonl", Problems()
    path.write_text(json.dumps({"question": "Which?", "answers": answers}) + "\n")
    if texts is None:
        read_questions(path, problems)
        assert problems.lines[0].startswith("q.jsonl:1: 'answers' holds")
    else:
        assert read_questions(path, problems).distinct[0].answers == texts


def test_the_questions_that_are_left_out_are_printed(docs, questions, tmp_path, capsys):
    words = ["from-docs", str(docs), str(questions), "-o", str(tmp_path / "out"), "--accept-found"]
    assert main(words) == 0
    (id_,) = (d.sample for d in Release.open(tmp_path / "out/release").drops() if not d.evidence)
    assert f"{id_}  How long do refunds take?" in capsys.readouterr().out


def test_people_decide_what_is_gold(docs, questions, tmp_path):
    """A yes is gold, all no is a question that leaves; without an answer it is one that nothing answers; labels stay."""
    out = tmp_path / "out"
    made = demur.from_docs(docs, questions, out)
    assert made.release is None
    assert len(made.waiting) == 3
    items = {
        dict(i.shown)["From"] + " " + dict(i.shown)["Question"]: i.id
        for i in read_items(out / "review/items.jsonl")
    }
    refunds = [key for key in items if key.endswith("refunds take?")]
    said = {items["limits.md#0 How large may an uploaded file be?"]: ("yes", "")}
    said |= {items[key]: ("yes" if key.startswith("billing") else "no", "") for key in refunds}
    put_labels(out / "review", "ann", said)
    plan = next(q.id for q in read_questions(questions, Problems()).distinct if "plan 3" in q.text)
    assert demur.from_docs(docs, questions, out).waiting == (plan,)
    (docs / "new.md").write_text(
        "# News\n\nNothing of note.\n"
    )  # documents grow; what was said of the others holds
    put_labels(
        out / "review",
        "ann",
        {id: ("no", "") for key, id in items.items() if key.endswith("cost?")},
    )
    made = demur.from_docs(docs, questions, out)
    samples = {s.question: s for s in made.release.samples()}
    assert samples["How long do refunds take?"].answers.kind == "unknown"
    assert [e.id for e in samples["How long do refunds take?"].gold] == ["billing/refunds.txt#0"]
    (left_out,) = made.drops["no passage answers it"].values()
    assert left_out in {row["question"] for row in QUESTIONS}
    assert made.kinds == {"answered": 1, "gold alone": 1, "unanswerable": 1}
    put_labels(out / "review", "ann", {items[key]: ("no", "") for key in refunds})
    last = demur.from_docs(docs, questions, out)
    assert {s.question: s.answers.kind for s in last.release.samples()}[
        "How long do refunds take?"
    ] == "none"


def test_gold_that_the_rows_name_is_looked_at_by_nobody(docs, tmp_path):
    csv = tmp_path / "q.csv"
    csv.write_text(
        "query,expected,doc_id\nWhat is the late fee?,12 euros,fees.pdf\nHow long do refunds take?,,billing/refunds.txt\n"
    )
    made = demur.from_docs(docs, csv, tmp_path / "out")
    assert {s.question: [e.id for e in s.gold] for s in made.release.samples()} == {
        "What is the late fee?": ["fees.pdf#page-1#0"],
        "How long do refunds take?": ["billing/refunds.txt#0"],
    }
    csv.write_text(
        "query,doc_id\nWhat is the late fee?,fees.doc\nWhich fee?,fees.pdf\nHow long?,refunds\n"
    )
    with raises(BadInput, cure="--skip-bad") as caught:
        demur.from_docs(docs, csv, tmp_path / "other")
    assert [line.partition(" is ")[0] for line in caught.value.problems] == [  # all of them at once
        "q.csv:2: gold 'fees.doc'",
        "q.csv:4: gold 'refunds'",
    ]
    made = demur.from_docs(docs, csv, tmp_path / "skipped", skip_bad=True)
    assert [s.question for s in made.release.samples()] == ["Which fee?"]
    assert [d.reason for d in made.release.drops()] == ["its gold is not among the documents"] * 2


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("q.csv", "frage\nWas?\n", "frage"),
        ("q.jsonl", '{"question": 3}\n', "int"),
        ("q.jsonl", '{"question": "a?", "answerable": "perhaps"}\n', "'perhaps'"),
        (
            "q.jsonl",
            '{"question": "a?", "id": 1}\n{"question": "b?", "id": 1}\n',
            "(1)",
        ),
        ("q.txt", "\n\n", "question"),
    ],
)
def test_questions_that_are_none_are_told(tmp_path, name, text, error):
    (tmp_path / name).write_text(text)

    def read():
        problems = Problems()
        read_questions(tmp_path / name, problems)
        problems.settle()

    with pytest.raises((UsageError, DataError, BadInput), match=error):
        read()


def test_what_it_wrote_among_the_documents_is_no_document(docs, questions, tmp_path):
    first = demur.from_docs(docs, questions, docs / "mine")
    again = demur.from_docs(docs, questions, docs / "mine", accept_found=True)
    third = demur.from_docs(docs, questions, docs / "mine", accept_found=True)
    assert first.documents == again.documents == third.documents
    assert again.release.sha256 == third.release.sha256


def test_a_log_is_a_question_a_line_and_each_once(tmp_path):
    (tmp_path / "log.txt").write_text("Who?\n\nwho\nWhere is it?\n")
    read = read_questions(tmp_path / "log.txt", Problems())
    assert ([q.text for q in read.distinct], read.repeated) == (["Who?", "Where is it?"], 1)


def test_the_command(docs, questions, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["from-docs", str(docs), str(questions), "-o", str(out)]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "3 questions" in said.out
    assert f"demur annotate --out {out / 'review'}" in said.err
    assert main([*command, "--name", "two words"]) == 2  # before the review, not after it
    assert "'two words'" in capsys.readouterr().err
    assert main([*command, "--accept-found", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kinds"] == {"answered": 2, "unanswerable": 1}
    assert len(list(Release.open(out / "release").samples())) == 3
    assert main(["from-docs", str(tmp_path / "nowhere"), str(questions), "-o", str(out)]) == 2
    capsys.readouterr()


SHEET = 'question,answer,gold\r\n"How large, ""in MB"", may an uploaded file be?",250 MB,\r\nWhat is plan 3?,37 euros,kb-3\r\n'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Q.CSV", SHEET.encode()),
        ("q.csv", SHEET.replace("\r\n", "\n").encode("utf-8-sig")),
        (
            "q.csv",
            re.sub(",(?! )", ";", SHEET).encode(),
        ),  # as spreadsheets write it where the comma is decimal
        ("q.tsv", re.sub(",(?! )", "\t", SHEET).encode()),
        ("q.csv", SHEET.replace("question,answer,gold", " Question,ANSWER,Gold ").encode()),
        ("q.csv.gz", gzip.compress(SHEET.encode())),
        ("q.csv", SHEET.encode("utf-16")),
    ],
)
def test_a_list_of_questions_reads_the_same_however_a_spreadsheet_wrote_it(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    problems = Problems()
    found = [
        (q.text, q.answers, q.gold) for q in read_questions(tmp_path / name, problems).distinct
    ]
    assert problems.lines == []
    assert found == [
        ('How large, "in MB", may an uploaded file be?', ("250 MB",), ()),
        ("What is plan 3?", ("37 euros",), ("kb-3",)),
    ]


def test_a_list_of_questions_in_another_encoding_says_so(tmp_path):
    (tmp_path / "q.csv").write_bytes(SHEET.encode("utf-16-le"))  # without a byte-order mark
    with raises(DataError, item="q.csv:1", cure="UTF-8"):
        read_questions(tmp_path / "q.csv", Problems())


def test_a_folder_is_named_by_where_it_is(docs, questions, tmp_path, monkeypatch):
    monkeypatch.chdir(docs)
    (docs / "packed.txt.gz").write_bytes(gzip.compress(b"not read"))
    here = demur.from_docs(".", questions, tmp_path / "here", accept_found=True)
    there = demur.from_docs(docs, questions, tmp_path / "there", accept_found=True)
    assert here.release.sha256 == there.release.sha256
    assert read_json(here.corpora / "corpora.json")["documents"].startswith("handbook, ")


def test_the_right_answer_of_a_file_of_rag_answers_is_its_ground_truth(tmp_path):
    path = tmp_path / "ragas.csv"
    path.write_text(
        "question,answer,contexts,ground_truth\nWhen?,At three.,[],14:30\nWho?,Bob.,[],\"['Ann', 'Anna']\"\n"
    )
    assert [q.answers for q in read_questions(path, Problems()).distinct] == [
        ("14:30",),
        ("Ann", "Anna"),
    ]
    path.write_text("question,answer,reference\nWhen?,14:30,Section 3.2\n")  # where it stands
    assert [q.answers for q in read_questions(path, Problems()).distinct] == [("14:30",)]
    path.write_text("user_input,response,reference\nWhen?,At three.,14:30\n")
    assert [q.answers for q in read_questions(path, Problems()).distinct] == [("14:30",)]


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ("14:30 | half past two", ("14:30", "half past two")),
        ("['a', 'b']", ("a", "b")),  # pandas
        ("['a'\n 'b']", ("a", "b")),  # numpy
        (json.dumps(["\U0001f600", "b"]), ("\U0001f600", "b")),
        ("[0, 1]", ("[0, 1]",)),  # an interval
        ("['a', 'b", ("['a', 'b",)),
    ],
)
def test_a_cell_may_hold_several_answers_as_a_list_is_printed(tmp_path, cell, answers):
    path = tmp_path / "q.csv"
    with path.open("w", newline="") as sheet:
        csv.writer(sheet).writerows([["question", "answer"], ["When?", cell]])
    assert [q.answers for q in read_questions(path, Problems()).distinct] == [answers]
