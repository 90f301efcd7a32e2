"""Documents as people have them, pictures among them: a folder to an index, to a release, asked and reported."""

from __future__ import annotations

import csv
import io
import json
import logging
import re

import growth
import pyarrow.parquet as pq
import pytest
from PIL import Image
from test_walks import demur

from demur.core.store import Problems
from demur.corpora import read_corpus
from demur.corpora.docs import documents
from demur.corpora.mentions import pictures_in
from demur.judge.annotation.task import put_labels
from demur.release import Release

COLOURS = {"green": (0, 160, 0), "red": (200, 0, 0), "blue": (0, 0, 200), "grey": (90, 90, 90)}
LIGHTS = {"pump": "green", "valve": "red", "boiler": "blue"}
PRICES = {"basic": 7, "team": 19, "campus": 41}


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), COLOURS[colour]).save(out, "PNG")
    return out.getvalue()


def pdf(*pages: tuple[str, bool]) -> bytes:
    """A PDF: a line of text on each page, and a picture where that is wanted."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    picture = b"q 60 0 0 60 20 20 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\xff\xff\x00 EI Q"
    for n, (text, pictured) in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 150 Td ({text}) Tj ET ".encode() + picture * pictured
        parts.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 500 200]/Contents {5 + 2 * n} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>".encode()
        )
        parts.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
    out, places = b"%PDF-1.4\n", []
    for n, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj%sendobj\n" % (n, part)
    table = "".join(f"{p:010} 00000 n \n" for p in places)
    end = f"trailer<</Size {len(parts) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    head = f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n"
    return out + f"{head}{table}{end}".encode()


@pytest.fixture
def folder(tmp_path):
    """Markdown, HTML and a PDF that show pictures, a picture by itself, and pictures that cannot be used."""
    docs = tmp_path / "docs"
    (docs / "img").mkdir(parents=True)
    for machine, colour in LIGHTS.items():
        (docs / f"img/{machine}.png").write_bytes(png(colour))
    (docs / "report.png").write_bytes(png("grey"))
    (docs / "img/broken.png").write_bytes(png("red")[:30])
    (docs / "machines.md").write_text(
        "# Machines\n\nEach machine has a light.\n\n![Status light of the pump](img/pump.png)\n\n"
        "![Status light of the valve][v]\n\n[v]: ./img/valve.png\n\n"
        "![far away](https://example.org/a.png) ![gone](img/gone.png)\n"
    )
    (docs / "more.html").write_text(
        "<title>Boiler</title><p>The boiler is new.</p>"
        '<img alt="Status light of the boiler" src="img/boiler.png?v=2"><img src="data:image/png;base64,AAAA">'
    )
    (docs / "prices.pdf").write_bytes(
        pdf(
            *(
                (f"The {plan} plan costs {price} euros.", plan == "team")
                for plan, price in PRICES.items()
            )
        )
    )
    return docs


UNUSABLE = {
    "machines.md: https://example.org/a.png",
    "machines.md: img/gone.png",
    "more.html: data:image/png;base64,AAAA",
    "img/broken.png",
}


def test_pictures_are_documents_on_the_page_that_shows_them(folder, tmp_path):
    unused: dict[str, str] = {}
    problems = Problems()
    found = {d.id: d for d in documents(folder, problems, unused, pages=tmp_path / "pages")}
    assert not problems.lines
    assert set(unused) == UNUSABLE
    pictures = {id: d for id, d in found.items() if d.text is None}
    assert {id: (d.title, d.page) for id, d in pictures.items()} == {
        "img/pump.png": ("Status light of the pump", "machines.md"),
        "img/valve.png": ("Status light of the valve", "machines.md"),
        "img/boiler.png": ("Status light of the boiler", "more.html"),
        "report.png": ("report", ""),
        "prices.pdf#page-2": ("prices, page 2", "prices.pdf"),
    }
    assert {id for id, d in found.items() if d.text is not None} == {
        "machines.md",
        "more.html",
        "prices.pdf#page-1",
        "prices.pdf#page-2#text",
        "prices.pdf#page-3",
    }
    assert found["prices.pdf#page-2#text"].document == "prices.pdf#page-2"


def test_without_a_folder_for_pages_their_pictures_are_named(folder, caplog):
    with caplog.at_level(logging.WARNING):
        found = {d.id for d in read_corpus(f"docs:{folder}", Problems())}
    assert "prices.pdf#page-2" in found
    assert "img/pump.png" in found
    for name in (*UNUSABLE, "prices.pdf#page-2"):
        assert name in caplog.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('![a b](<x y.png> "t") ![](z.png)', [("x y.png", "a b"), ("z.png", "")]),
        ("![one][N] ![n][]\n\n[n]: <i/n.png>\n", [("i/n.png", "one"), ("i/n.png", "n")]),
        ("[no](a.png) \\ ![gone][missing]", []),
        (
            "<IMG data-src=lazy.png SRC='a.png?x=1&amp;y=2' alt='A \n b'><img alt=x>",
            [("a.png?x=1&y=2", "A b")],
        ),
    ],
)
def test_the_pictures_that_a_text_names(text, shown):
    assert list(pictures_in(text, markdown=True)) == shown


@pytest.mark.parametrize("mark", ["![", "<img ", "![a](<", "![a][", "[a]: ", "<img src='"])
def test_pictures_that_nobody_closes_take_no_squared_time(mark):
    with growth.cpu_limit(10):
        list(pictures_in(mark * 200_000, markdown=True))


def test_pages_that_show_nothing_are_no_pictures_and_posters_are_bounded(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    blank, scan = pdf(("Cover.", False), (" ", False)), pdf((" ", True))
    (docs / "blank.pdf").write_bytes(blank)
    (docs / "poster.pdf").write_bytes(scan.replace(b"[0 0 500 200]", b"[0 0 9000 99]"))
    unused: dict[str, str] = {}
    found = {d.id: d for d in documents(docs, Problems(), unused, pages=tmp_path / "pages")}
    assert set(found) == {"blank.pdf#page-1", "poster.pdf#page-1"}
    assert not unused
    assert found["poster.pdf#page-1"].image.width == 4096


def test_pictures_of_rows_come_once_and_hidden_ones_not_at_all(folder):
    (folder / "gallery.html").write_text('<img src="report.png" alt="The report">')
    (folder / "rows.jsonl").write_text(json.dumps({"id": "r", "image": "img/pump.png"}) + "\n")
    (folder / ".away").symlink_to("/", target_is_directory=True)
    (folder / "up.md").write_text("Look.\n\n![a](.away/x.png) ![b](../../x.png)\n")
    unused: dict[str, str] = {}
    problems = Problems()
    found = {d.id: d for d in documents(folder, problems, unused)}
    assert not problems.lines  # a page of pictures alone is no bad file
    assert found["report.png"].title == "The report"
    assert "r" in found
    assert "img/pump.png" not in found
    assert {"up.md: .away/x.png", "up.md: ../../x.png"} <= set(unused)


def test_a_changed_pdf_is_rendered_anew(folder, tmp_path):
    def page_two() -> str:
        found = documents(folder, Problems(), {}, pages=tmp_path / "pages")
        return next(d.image.sha256 for d in found if d.id == "prices.pdf#page-2" and d.image)

    before = page_two()
    (folder / "prices.pdf").write_bytes(pdf(("Page one.", False), ("Page two.", True)))
    assert page_two() != before


def sighted(asked: dict) -> str:
    """A scripted system: tells the colour of the first picture shown, or the price of a plan in the texts."""
    for piece in asked["evidence"]:
        if piece["image"] and "colour" in asked["question"]:
            with Image.open(io.BytesIO(piece["image"])) as image:
                pixel = image.convert("RGB").getpixel((3, 3))
            return min(
                COLOURS,
                key=lambda c: sum(abs(a - b) for a, b in zip(COLOURS[c], pixel, strict=True)),
            )
        plan = re.search(r"the (\w+) plan", asked["question"])
        if (
            piece["text"]
            and plan
            and (cost := re.search(rf"{plan[1]} plan costs (\d+)", piece["text"]))
        ):
            return f"{cost[1]} euros"
    return "I do not know."


@pytest.mark.heavy
def test_from_the_folder_to_an_index_a_release_a_run_and_a_report(folder, tmp_path):
    index = tmp_path / "index"
    demur(
        "index",
        "build",
        f"docs:{folder}?pages={tmp_path / 'pages'}",
        "--out",
        index,
        "--encoder",
        "offline",
    )
    shown = json.loads(demur("index", "info", index, "--json"))
    assert (shown["counts"]["images"], shown["counts"]["texts"]) == (5, 5)
    questions = tmp_path / "questions.csv"
    with questions.open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["id", "question", "answer", "gold"])
        for machine, colour in LIGHTS.items():
            row = [machine, f"What colour is the status light of the {machine}?", colour]
            table.writerow([*row, f"img/{machine}.png"])
        for plan, price in PRICES.items():
            table.writerow([plan, f"What does the {plan} plan cost?", f"{price} euros", ""])
    out = tmp_path / "out"
    made = json.loads(demur("from-docs", folder, questions, "-o", out, "--accept-found", "--json"))
    assert (made["documents"], made["pictures"], made["passages"]) == (10, 5, 5)
    assert set(made["unused_pictures"]) == UNUSABLE
    assert made["kinds"] == {"answered": len(LIGHTS) + len(PRICES)}
    printed = demur("from-docs", folder, questions, "-o", out, "--accept-found")
    assert all(name in printed for name in UNUSABLE)
    release = Release.open(out / "release")
    samples = {s.id: s for s in release.samples()}
    for machine, colour in LIGHTS.items():
        (gold,) = samples[machine].gold
        assert release.read_image(gold.image) == png(colour)
        shown_beside = {e.id for e in samples[machine].negatives if e.image}
        others = {f"img/{m}.png" for m in LIGHTS} - {f"img/{machine}.png"}
        # none of the page of gold: the light beside it answers another question
        same_page = {"img/pump.png", "img/valve.png"} if machine != "boiler" else set()
        assert others - same_page <= shown_beside
        assert not shown_beside & same_page
    for plan in PRICES:
        assert not any(e.image for e in samples[plan].negatives)
    excluded = json.loads((out / "corpora/corpora.json").read_text())["excluded"]
    # who must not read the price must not see the page that shows it
    assert {"prices.pdf#page-2", "prices.pdf#page-2#text#0"} <= set(excluded["team"])
    demur("corpus", "export", out / "release", "--out", tmp_path / "corpora")
    rows = (tmp_path / "corpora/full/corpus.jsonl").read_text().splitlines()
    images = {row["id"]: row["image"] for row in map(json.loads, rows) if row["image"]}
    for machine, colour in LIGHTS.items():
        file = tmp_path / "corpora/full" / images[f"img/{machine}.png"]
        assert file.read_bytes() == png(colour)
    demur(
        "run",
        out / "release",
        "--system",
        "python:test_docs_with_pictures:sighted",
        "--out",
        tmp_path / "runs",
        "--judge",
        "local",
    )
    (run,) = (p for p in (tmp_path / "runs").iterdir() if p.is_dir())
    rows = pq.read_table(run / "rows.parquet").to_pylist()
    outcome = {(r["sample"], r["scenario"]): r["outcome"] for r in rows}
    for id in samples:
        assert outcome[id, "oracle"] == "correct"
        assert outcome[id, "parametric"] == "deflected"
        wrong = samples[id].answers.accepted[0][0] in LIGHTS.values() and any(
            e.image for e in samples[id].negatives
        )
        assert outcome[id, "adversarial"] == ("incorrect" if wrong else "deflected")
    page = tmp_path / "report.html"
    told = json.loads(demur("report", run, "--release", out / "release", "-o", page, "--json"))
    oracle = next(line for line in told["results"] if line["scenario"] == "oracle")
    assert (oracle["accuracy"]["value"], oracle["truthfulness"]["value"]) == (1.0, 1.0)


def test_a_person_sees_the_picture_that_is_proposed(folder, tmp_path):
    questions = tmp_path / "questions.txt"
    questions.write_text("Which colour has the status light of the boiler?\n")
    out = tmp_path / "out"
    demur("from-docs", folder, questions, "-o", out, code=1)
    items = [json.loads(line) for line in (out / "review/items.jsonl").read_text().splitlines()]
    boiler = next(item for item in items if ["From", "img/boiler.png"] in item["shown"])
    (image,) = boiler["images"]
    assert (out / "review/images" / image).read_bytes() == png("blue")
    assert ["Passage", "Status light of the boiler"] in boiler["shown"]
    put_labels(out / "review", "ann", {boiler["id"]: ("yes", "")})
    demur("from-docs", folder, questions, "-o", out)
    (sample,) = Release.open(out / "release").samples()
    assert [e.id for e in sample.gold] == ["img/boiler.png"]
