"""Where answerable questions come from: the sample corpus, a source's own folder, or a release.

    ""                       photos, flags, maps of the sample corpus, and its articles drawn as documents with tables
    mmmu:FOLDER              as published; also mmlongbench:FOLDER, and any other source of `demur sources list`
    mmmu:FOLDER?subjects=Math,Physics&split=dev      with options of that source
    FOLDER                   a release

A question with gold evidence is about a document: its pages (an image of level ``page``, or without a text, is one as it
is), or the evidence drawn as pages behind the images of the question. One without is about its images. Three kinds of questions are left out and counted: unanswerable by their
source, without images and evidence, and with evidence in letters that cannot be drawn.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.images import rgb
from demur.core.records import AnswerSpec, Evidence, ImageRef, Sample
from demur.core.store import Problems, digest, read_jsonl, seed_of, storage_errors
from demur.core.uris import read_image
from demur.sample import atlas
from demur_suites.mm_aqa.build.pages import Page, sheets
from demur_suites.mm_aqa.build.transforms import Word
from demur_suites.mm_aqa.build.transforms.drawing import drawable
from demur_suites.mm_aqa.items import Subset


class Picture(NamedTuple):
    """An image's bytes, and the words on it where they are known."""

    data: bytes
    words: list[Word] | None = None


class Answerable(NamedTuple):
    """One answerable question; its images are read, or drawn, on demand."""

    id: str
    subset: Subset
    question: str
    answers: AnswerSpec
    pictures: Callable[[], tuple[Picture, ...]]
    topic: str = ""
    licence: str = ""
    seen: tuple[str, ...] = ()
    """SHA-256 of its images; "" of the sample corpus, whose images belong to the version."""


class Pool(NamedTuple):
    """Answerable questions, and the number left out by reason."""

    questions: list[Answerable]
    left_out: Counter[str]


def open_pool(spec: str, seed: int = 0, *, work: Path | None = None) -> Pool:
    """The pool that a text names.

    Args:
        spec: see the module.
        seed: of the order of the questions.
        work: folder for pages that are rendered from PDFs.

    Raises:
        UsageError: there is no such pool, or no question of it can be used.
    """
    if not spec:
        return Pool(sample_corpus(seed), Counter())
    from demur.sources import open_source, source_named

    problems = Problems()
    if named := source_named(spec):
        options = (
            {"render": str(work / "pages")}
            if named.name == "mmlongbench" and work is not None
            else {}
        )
        source = open_source(named.name, named.folder, problems, {**options, **named.options})
        root = source.root
        pool = _of_samples(source.samples(), lambda ref: read_image(ref, root), seed)
    else:
        from demur.release import Release

        release = Release.open(Path(spec))
        pool = _of_samples(iter(release.samples()), release.read_image, seed)
    if len(problems):
        pool.left_out["rows that could not be read"] += len(problems)
    if not pool.questions:
        why = ", ".join(f"{k}: {n}" for k, n in pool.left_out.items())
        raise UsageError(
            f"no question of it can be used ({why})", item=spec, cure="give a pool with images"
        )
    return pool


def _of_samples(samples: Iterator[Sample], read: Callable[[ImageRef], bytes], seed: int) -> Pool:
    questions: list[Answerable] = []
    left_out: Counter[str] = Counter()
    for s in samples:
        pages = tuple(e for e in s.gold if e.level == "page" and e.image is not None)
        pictures, gold = ((), pages) if pages else (s.images, s.gold)
        if not s.answerable:
            left_out["natively unanswerable"] += 1
        elif not pictures and not gold:
            left_out["without an image or evidence"] += 1
        elif not all(e.image or drawable(f"{e.title} {e.text or ''}") for e in gold):
            left_out["evidence in letters that cannot be drawn"] += 1
        else:
            subset: Subset = "documents" if gold else "images"
            seen = (
                *(ref.sha256 for ref in pictures),
                *(e.image.sha256 if e.image else digest(e.text) for e in gold),
            )
            load = partial(_pictures, pictures, gold, read)
            questions.append(
                Answerable(
                    s.id, subset, s.question_with_turns, s.answers, load, s.topic, s.licence, seen
                )
            )
    return Pool(mixed(questions, seed), left_out)


def _pictures(
    shown: tuple[ImageRef, ...], gold: tuple[Evidence, ...], read: Callable[[ImageRef], bytes]
) -> tuple[Picture, ...]:
    pictures = [Picture(read(ref)) for ref in shown]
    for e in gold:
        if e.image is None:
            pictures += [Picture(page.png(), page.words) for page in sheets(e.title, e.text or "")]
        elif e.level == "page" or not (e.text or "").strip():
            pictures.append(Picture(read(e.image)))  # a page as it is
        else:  # the words in the picture are not known
            pictures += [
                Picture(page.png())
                for page in sheets(e.title, e.text or "", rgb(read(e.image), e.id))
            ]
    return tuple(pictures)


def mixed(questions: list[Answerable], seed: int) -> list[Answerable]:
    """Questions in an order of which any beginning has both subsets, and every topic, in about equal shares."""
    turns: list[tuple[int, int, str, Answerable]] = []
    for subset in ("images", "documents"):
        by_topic: dict[str, list[Answerable]] = defaultdict(list)
        for question in sorted(
            (a for a in questions if a.subset == subset), key=lambda a: seed_of(seed, "pool", a.id)
        ):
            by_topic[question.topic].append(question)
        several = [
            question
            for turn in zip_longest(*by_topic.values())
            for question in turn
            if question is not None
        ]
        turns += [
            (place, len(turns), question.id, question) for place, question in enumerate(several)
        ]
    return [question for *_, question in sorted(turns, key=lambda t: t[:3])]


# --- the sample corpus ------------------------------------------------------------------------------

_COUNTRY = re.compile(
    r"the country (?:with this flag|represented by this flag|whose flag is shown|whose outline is shown|"
    r"in this outline map)|this flag\b"
)
COLUMNS = {
    "capital": "Capital",
    "population": "Population",
    "export_commodity": "Top export",
    "currency": "Currency",
    "elevation": "Elevation",
    "coastline": "Coastline",
    "airports": "Airports",
    "heritage": "Heritage sites",
    "highest_point": "Highest point",
    "symbol": "Symbol",
    "export_partner": "Partner",
    "crop": "Top crop",
    "independence_from": "Gained from",
    "longest_border": "Longest border",
    "aircraft_prefix": "Aircraft prefix",
}
"""Kind of fact -> the head of its column in a table of countries; the first ones are preferred."""
ROWS = 7
PICTURED = (
    "landmark_name",
    "landmark_place",
    "species_name",
    "capital",
    "currency",
    "band",
    "symbol",
    "animal_fact",
    "landmark_fact",
    "planet_fact",
    "population",
    "longest_border",
)
"""Kinds of questions that are asked about a photo, flag or map."""


def sample_corpus(seed: int = 0) -> list[Answerable]:
    """Photos, flags and maps with their questions; and for each country articles and tables, drawn as two pages."""
    root = atlas()
    rows = [row for _, row in read_jsonl(root / "questions.jsonl", Problems())]
    pictures = [r for r in rows if r["query_image"] and r["kind"] in PICTURED]
    made = [
        Answerable(
            r["id"],
            "images",
            r["question"],
            _spec(r),
            partial(_query, root / r["query_image"]),
            r["query_image"].split("/")[1],
            r["licence"],
        )
        for r in pictures
    ]
    made += _documents(root, rows)
    return mixed(made, seed)


def _query(path: Path) -> tuple[Picture, ...]:
    with storage_errors(path):
        return (Picture(path.read_bytes()),)


def _spec(row: dict[str, Any]) -> AnswerSpec:
    return AnswerSpec(accepted=tuple((a,) for a in row["answers"]), rule="atlas")


def _documents(root: Path, rows: list[dict[str, Any]]) -> list[Answerable]:
    texts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, row in read_jsonl(root / "kb_text.jsonl", Problems()):
        texts[row["page"]].append(row)
    facts: dict[str, dict[str, str]] = defaultdict(dict)
    for r in rows:
        if r["gold_text"] and r["kind"] in COLUMNS and "photo" not in r["question"]:
            facts[r["entity"]].setdefault(r["kind"], r["answers"][0])
    names = {page: several[0]["title"].partition(":")[0] for page, several in texts.items()}
    countries = [c for c in facts if c in texts and len(facts[c]) >= 3]
    made: list[Answerable] = []
    taken: set[tuple[str, str]] = set()
    for r in rows:
        country, kind = r["entity"], r["kind"]
        ok = (
            country in countries and kind in COLUMNS and r["style"] in ("text->text", "image->text")
        )
        if not ok or "photo" in r["question"] or (country, kind) in taken:
            continue
        question = _COUNTRY.sub(names[country], r["question"])
        if question == r["question"] and r["style"] != "text->text":
            continue
        taken.add((country, kind))
        drawn = partial(_pages, root, country, kind, names, texts, facts, countries, r["gold_text"])
        licence = "Apache-2.0 (question); public domain (text)"
        made.append(
            Answerable(
                f"doc-{country}-{kind}", "documents", question, _spec(r), drawn, kind, licence
            )
        )
    return made


def _pages(
    root: Path,
    country: str,
    kind: str,
    names: dict[str, str],
    texts: dict[str, list[dict[str, Any]]],
    facts: dict[str, dict[str, str]],
    countries: list[str],
    gold: list[str],
) -> tuple[Picture, ...]:
    from PIL import Image

    article, sheet = Page(), Page()
    article.paragraph(names[country], 26)
    for flag in (root / "queries" / "flags").glob(f"{country}.*"):
        article.picture(Image.open(io.BytesIO(flag.read_bytes())), 300)
    for row in sorted(texts[country], key=lambda t: t["id"] not in gold):
        article.paragraph(row["title"].partition(": ")[2].capitalize(), 18)
        article.paragraph(row["text"], 14)
    at = countries.index(country)
    known = {k: v for k, v in COLUMNS.items() if k in facts[country] and k != kind}
    columns = dict(list(({kind: COLUMNS[kind]} | known).items())[:4])

    def far(c: str) -> tuple[bool, int, int]:
        return c != country, sum(k not in facts[c] for k in columns), abs(countries.index(c) - at)

    near = sorted(sorted(countries, key=far)[:ROWS], key=lambda c: names[c])
    sheet.paragraph("Countries compared", 24)
    sheet.paragraph(
        "Figures are those of the latest year for which each was published, 2023 to 2025.", 14
    )
    sheet.y += 20
    sheet.table(
        [
            ["Country", *columns.values()],
            *([names[c], *(facts[c].get(k, "-") for k in columns)] for c in near),
        ]
    )
    sheet.paragraph("A dash stands where no figure was published.", 13)
    return tuple(Picture(page.png(), page.words) for page in (article, sheet))
