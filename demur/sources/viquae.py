"""ViQuAE: a TriviaQA question whose entity is shown instead of named, answered from KILT's Wikipedia.

Layout of the folder: ``validation.jsonl``, ``test.jsonl``, ``train.jsonl``; ``images/`` (unpacked); the knowledge
base as ``humans_with_faces.jsonl.gz``, ``humans_without_faces.jsonl.gz`` and ``non_humans.jsonl.gz`` (or without
``.gz``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from demur.core.cells import answer_texts, listed
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, ImageRef, Sample
from demur.core.store import Problems
from demur.core.text import stream_safe
from demur.corpora import kilt
from demur.corpora.formats import Lookup, first_existing, json_lines
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    fields_as_attributes,
    named_splits,
    text_of,
    with_entities_decoded,
)
from demur.sources.passages import gold_of

PARTS = ("humans_with_faces", "humans_without_faces", "non_humans")


class ViQuAE(NativeSource):
    """Reads a ViQuAE folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``validation``, ``test``, ``train``, several with a comma, or ``all``.

    ``original_question`` names the entity, and no system gets it. The gold evidence comes from the provenance articles
    (`demur.sources.passages`), found by title, or by Wikidata id if the base lacks the title.
    """

    name = "viquae"
    licence = "CC-BY-4.0"

    def __init__(
        self, folder: Path, problems: Problems | None = None, split: str = "validation"
    ) -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("validation", "test", "train"))
        self._about: dict[str, Any] = {
            "source": self.name,
            "licence": "CC-BY-3.0",
            "prose_only": True,
        }

    # --- knowledge base ---

    def _read_articles(self) -> Iterator[tuple[str, dict[str, Any]]]:
        parts = [first_existing(self.root, f"{part}.jsonl", f"{part}.jsonl.gz") for part in PARTS]
        for part, path in zip(PARTS, parts, strict=True):
            if path is None:
                self.problems.add(
                    f"{part}.jsonl.gz",
                    "not in the folder: its articles cannot be gold or distractors",
                )
            else:
                yield from json_lines(path, self.problems)

    def documents(self) -> Iterator[Document]:
        """One document per article: its prose, and its picture if that is among the images."""

        def picture(place: str, name: str) -> ImageRef | None:
            image = self._find_image(name)
            if image.ref is None:
                self.notes[f"knowledge base: pictures {image.status}"] += 1
            return image.ref

        articles = kilt.documents(
            self._read_articles(), self.problems, self.notes, picture=picture, **self._about
        )
        yield from map(with_entities_decoded, articles)

    # --- questions ---

    def _read_rows(
        self, problems: Problems
    ) -> Iterator[tuple[str, str, tuple[str, dict[str, Any]]]]:
        for split in self.splits:
            for place, row in json_lines(self.need(f"{split}.jsonl"), problems):
                yield place, str(row.get("id", "")), (split, row)

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their files; cluster = depicted entity."""
        wanted_keys: set[str] = set()
        for _, _, (_, row) in self._read_rows(Problems()):
            wanted_keys.update(_plain_title(title) for title in provenance_titles(row))
            wanted_keys.add(f"qid:{row.get('wikidata_id')}")

        def entries() -> Iterator[tuple[str, Any]]:
            for _, row in self._read_articles():
                yield _plain_title(str(row.get("wikipedia_title"))), row
                if qid := kilt.entity_id(row):
                    yield f"qid:{qid}", row

        articles = Lookup(entries(), wanted_keys)
        rows = (
            (place, id_, (*values, articles))
            for place, id_, values in self._read_rows(self.problems)
        )
        yield from self.records(rows, self._make_sample)

    def _make_sample(
        self, place: str, id_: str, split: str, row: dict[str, Any], articles: Lookup
    ) -> Sample:
        answers = answer_spec(row)
        image = self._find_image(text_of(row, "image"))
        titles = provenance_titles(row)
        gold_articles = [
            article for title in titles if (article := articles.get(_plain_title(title)))
        ]
        self.notes["provenance titles that are not in the knowledge base"] += len(titles) - len(
            gold_articles
        )
        if not gold_articles and (by_entity := articles.get(f"qid:{row.get('wikidata_id')}")):
            self.notes["gold articles found by Wikidata id, not by title"] += 1
            gold_articles = [by_entity]
        gold: list[Evidence] = []
        for article in gold_articles:
            try:
                gold += gold_of(
                    kilt.document(article, **self._about), kilt.prose_paragraphs(article), answers
                )
            except DataError:
                continue
        return self.sample(
            place,
            id_,
            SampleParts(
                native=row,
                question=text_of(row, "input"),
                answers=answers,
                images=[image],
                gold=gold,
                lacks=[]
                if gold
                else [f"gold article missing: {', '.join(titles) or 'no provenance'}"],
                split=split,
                cluster=str(row.get("wikidata_id") or ""),
                attributes=fields_as_attributes(row, "kilt_id", "wikidata_id"),
            ),
        )

    # --- images ---

    @cached_property
    def _files(self) -> kilt.CommonsFiles:
        return kilt.CommonsFiles(self.root / "images")

    def _find_image(self, name: str) -> FoundImage:
        try:
            return self.images.file(f"images/{self._files.find(name) or name}")
        except DataError:  # it leads out of the folder
            return FoundImage(name, None, "missing")


def _plain_title(title: str) -> str:
    return unicodedata.normalize("NFC", stream_safe(title.replace("_", " ").strip()))


def _answer_outputs(row: dict[str, Any]) -> list[dict[str, Any]]:
    output = row.get("output")
    items = output if isinstance(output, list) else [output]
    return [item for item in items if isinstance(item, dict)]


def provenance_titles(row: dict[str, Any]) -> list[str]:
    """Titles of the articles that KILT names; their values are lists in ViQuAE and plain text in KILT's own form."""
    titles: list[str] = []
    for output in _answer_outputs(row):
        for item in listed(output.get("provenance")):
            title = item.get("title") if isinstance(item, dict) else None
            for each in title if isinstance(title, list) else [title]:
                if isinstance(each, str) and each.strip() and each not in titles:
                    titles.append(each)
    return titles


def answer_spec(row: dict[str, Any]) -> AnswerSpec:
    """Accept every alias; the original answer is the canonical one."""
    forms: list[str] = []
    canonical = ""
    for output in _answer_outputs(row):
        answer = output.get("answer")
        forms += answer_texts(answer, "output.answer")
        canonical = canonical or str(output.get("original_answer") or "")
    if canonical and canonical not in forms:
        forms.insert(0, canonical)
    unique = dict.fromkeys(form.strip() for form in forms if form.strip())
    return AnswerSpec(
        accepted=tuple((form,) for form in unique), canonical=canonical, rule="viquae"
    )
