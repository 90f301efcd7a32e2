"""InfoSeek: a question about the entity in an OVEN image, answered from that entity's Wikipedia article.

Layout of the folder: ``infoseek_<split>.jsonl``, ``infoseek_<split>_withkb.jsonl`` (entity of each question),
``infoseek_val_qtype.jsonl`` (kind of each question), ``Wiki6M_ver_1_0.jsonl`` or ``.jsonl.gz`` (the articles), and
the images as ``oven_images/01/oven_01963180.jpg``, as ``oven_images/oven_01963180.jpg``, as members of uncompressed
``oven_images*.tar`` or ``.zip`` archives, or wherever ``id2image.jsonl`` (image_id, image_path) or
``ovenid2impath.csv`` (two columns, no header) points to below the folder.

The knowledge base of EchoSight (Yan and Xie 2024, arXiv:2407.12735) and those after it, 100,000 pages of
Encyclopedic-VQA's Wikipedia by their URL: ``wiki_100_dict_v4.json``, and its questions
``infoseek_test_filtered.csv`` (of ``val``) and ``infoseek_train_filtered.csv`` (data_id, wikipedia_url);
``kb_images.jsonl`` (url, file) may name downloaded pictures of its pages.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from demur.core.cells import answer_texts, listed
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems
from demur.corpora import evqa, wiki6m
from demur.corpora.formats import Lookup, csv_rows, first_existing, json_items, json_lines
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    first_there,
    named_splits,
    one_of,
    text_of,
    with_entities_decoded,
)
from demur.sources.passages import gold_of, paragraphs

PAGES = "wiki_100_dict_v4.json"
QUESTIONS = {"val": "infoseek_test_filtered.csv", "train": "infoseek_train_filtered.csv"}
"""Split -> EchoSight's file of its questions."""
WIKIPEDIA = "https://en.wikipedia.org/wiki/"


class _About(NamedTuple):
    """What other files say of a question; "" where they do not."""

    entity: str
    """Wikidata id."""
    title: str
    kind: str
    url: str


class InfoSeek(NativeSource):
    """Reads an InfoSeek folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``val``, ``train``, both with a comma, or ``all``; test and human have no public answers.
        kb: ``wiki6m``, or ``echosight`` for the 100,000 pages: then only questions of its CSV files are asked (without
            these files, those whose entity has a page of its title), so that recall compares with that field's.

    An entity has a Wikidata id in Wiki6M and a URL in the other: both stand in the attributes ``entity`` and
    ``wikipedia_url``, wherever the folder tells them.

    The gold evidence comes from the entity's article (`demur.sources.passages`). One streamed pass over Wiki6M
    copies the needed articles to disk; memory holds two short strings per question.
    """

    name = "infoseek"
    licence = "Apache-2.0 (questions); CC-BY-SA (Wikipedia text); images keep the licences of their source sets"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "val",
        kb: str = "wiki6m",
    ) -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("val", "train"), ("test", "human"))
        self.by_url = one_of(self.name, "kb", kb, "wiki6m", "echosight") == "echosight"

    # --- knowledge base ---

    @cached_property
    def _wiki(self) -> Path | None:
        return first_existing(self.root, "Wiki6M_ver_1_0.jsonl", "Wiki6M_ver_1_0.jsonl.gz")

    def documents(self) -> Iterator[Document]:
        """Wiki6M, one document per article; or sections and pictures of the pages by URL."""
        if self.by_url:
            documents = evqa.documents(
                self._read_pages(),
                self.problems,
                self.notes,
                files=self.kb_pictures(),
                picture=self.picture,
                source=self.name,
                optional_pictures=True,
            )
            yield from map(with_entities_decoded, documents)
        elif self._wiki is not None:
            rows = json_lines(self._wiki, self.problems)
            articles = wiki6m.documents(rows, self.problems, self.notes, source=self.name)
            yield from map(with_entities_decoded, articles)

    def _read_pages(self) -> Iterator[tuple[str, str, Any]]:
        yield from json_items(self.need(PAGES), self.problems)

    # --- questions ---

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their files; topic = question kind, cluster = entity."""
        entities: dict[str, tuple[str, str]] = {}
        kinds: dict[str, str] = {}
        for split in self.splits:
            self._join(split, entities, kinds)
        urls = self._urls(entities)
        if self.by_url:
            keyed = ((evqa.page_key(url), [url, page]) for _, url, page in self._read_pages())
            base = Lookup(keyed, set(map(evqa.page_key, urls.values())))
            if not self._has_urls:  # a title that is no page's says nothing
                there = {url for url in set(urls.values()) if base.get(evqa.page_key(url))}
                urls = {id_: url for id_, url in urls.items() if url in there}
        else:
            base = self._look_up_articles({qid for qid, _ in entities.values()})
        abouts = {
            id_: _About(*entities.get(id_, ("", "")), kinds.get(id_, ""), urls.get(id_, ""))
            for id_ in {**entities, **kinds, **urls}
        }
        yield from self.records(self._rows(abouts, base), self._make_sample)

    def _rows(
        self, abouts: dict[str, _About], base: Lookup
    ) -> Iterator[tuple[str, str, tuple[str, dict[str, Any], _About, Lookup]]]:
        for split in self.splits:
            for place, row in json_lines(self.need(f"infoseek_{split}.jsonl"), self.problems):
                id_ = str(row.get("data_id") or "")
                about = abouts.get(id_, _About("", "", "", ""))
                if self.by_url and not about.url:
                    self.notes["questions without a page in the knowledge base, not asked"] += 1
                    continue
                yield place, id_, (split, row, about, base)

    @property
    def _has_urls(self) -> bool:
        return any((self.root / QUESTIONS[split]).is_file() for split in self.splits)

    def _urls(self, entities: dict[str, tuple[str, str]]) -> dict[str, str]:
        """Question -> URL of its page: as the field's files say; without them, by the entity's title."""
        if self.by_url and not self._has_urls:
            titles = ((id_, title) for id_, (_, title) in entities.items() if title)
            return {id_: WIKIPEDIA + title.replace(" ", "_") for id_, title in titles}
        return {
            row["data_id"]: row["wikipedia_url"].partition("|")[0].strip()
            for split in self.splits
            if (file := self.root / QUESTIONS[split]).is_file()
            for _, row in csv_rows(file, self.problems, required=("data_id", "wikipedia_url"))
        }

    def _join(
        self, split: str, entities: dict[str, tuple[str, str]], kinds: dict[str, str]
    ) -> None:
        withkb = self.root / f"infoseek_{split}_withkb.jsonl"
        if not withkb.is_file():
            self.problems.add(
                withkb.name,
                "not in the folder: no question of this split can be given its gold article",
            )
        else:
            for place, row in json_lines(withkb, self.problems):
                data_id, qid = row.get("data_id"), row.get("entity_id")
                if isinstance(data_id, str) and isinstance(qid, str) and qid:
                    entities.setdefault(
                        data_id, (sys.intern(qid), sys.intern(str(row.get("entity_text") or "")))
                    )
                else:
                    self.problems.add(place, "data_id or entity_id is missing", str(data_id))
        qtype = self.root / f"infoseek_{split}_qtype.jsonl"
        if not qtype.is_file():
            self.notes[
                f"{qtype.name} is absent: question kinds are read from the shape of answer_eval"
            ] += 1
        else:
            for _, row in json_lines(qtype, self.problems):
                kinds[str(row.get("data_id"))] = sys.intern(
                    str(row.get("question_type") or "").lower()
                )

    def _look_up_articles(self, wanted_ids: set[str]) -> Lookup:
        if self._wiki is None:
            self.problems.add(
                "Wiki6M_ver_1_0.jsonl.gz",
                "not in the folder: no question can be given its gold article",
            )
            return Lookup((), wanted_ids)
        rows = json_lines(self._wiki, self.problems)
        return Lookup(((wiki6m.entity_id(row), row) for _, row in rows), wanted_ids)

    def _make_sample(
        self,
        place: str,
        data_id: str,
        file: str,
        row: dict[str, Any],
        about: _About,
        base: Lookup,
    ) -> Sample:
        answers = answer_spec(row, about.kind or None)
        gold = self._gold(about, base, answers)
        missing = about.url if self.by_url else about.entity or "no entity in the withkb file"
        return self.sample(
            place,
            data_id,
            SampleParts(
                native=row,
                question=text_of(row, "question"),
                answers=answers,
                images=[self._find_image(text_of(row, "image_id"))],
                gold=gold,
                lacks=() if gold else [f"gold article missing: {missing}"],
                split=str(row.get("data_split") or file),
                topic=about.kind
                or {"number": "numerical", "date": "time"}.get(answers.kind, "string"),
                cluster=about.entity or str(row["image_id"]),
                attributes={
                    **(
                        {"entity": about.entity, "entity_title": about.title}
                        if about.entity
                        else {}
                    ),
                    **({"wikipedia_url": about.url} if about.url else {}),
                    "image_id": str(row["image_id"]),
                },
            ),
        )

    def _gold(self, about: _About, base: Lookup, answers: AnswerSpec) -> list[Evidence]:
        """Paragraphs of the entity's article that hold the answer, else the whole article; [] without an article."""
        if not self.by_url:
            try:
                article = wiki6m.document(base.get(about.entity) or {}, source=self.name)
            except DataError:
                return []
            return gold_of(article, paragraphs(article.text or ""), answers)
        url, page = base.get(evqa.page_key(about.url)) or ("", None)
        if not isinstance(page, dict):
            return []
        sections = list(evqa.section_documents(url, page, self.name))
        passages = [
            evidence
            for section in sections
            for evidence in gold_of(section, paragraphs(section.text or ""), answers)
            if evidence.level == "passage"
        ]
        if passages or not sections:
            return passages
        text = "\n\n".join(section.text or "" for section in sections)
        whole = sections[0].model_copy(update={"id": url, "text": text})
        return [Evidence.of(whole, Role.GOLD, level="article")]

    # --- images ---

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Image id -> path, from the maps that the folder holds."""
        paths: dict[str, str] = {}
        table = self.root / "ovenid2impath.csv"
        if table.is_file():
            for _, row in csv_rows(
                table, self.problems, columns=("oven_id", "path"), delimiter=","
            ):
                if (
                    row["oven_id"].startswith("oven_") and "." in PurePosixPath(row["path"]).name
                ):  # else a header
                    paths[row["oven_id"]] = row["path"]
        mapped = self.root / "id2image.jsonl"
        if mapped.is_file():
            for _, row in json_lines(mapped, self.problems):
                paths[str(row.get("image_id"))] = str(row.get("image_path"))
        return paths

    @cached_property
    def _packed(self) -> dict[str, str]:
        """Image id -> uri, from archives that can be read in place."""
        archives = sorted(p for p in self.root.glob("oven_images*") if p.suffix in (".tar", ".zip"))
        return {
            PurePosixPath(member).stem: uri
            for archive in archives
            for member, uri in self.members(archive).items()
        }

    def _find_image(self, image_id: str) -> FoundImage:
        places = (
            f"oven_images/{image_id.removeprefix('oven_')[:2]}/{image_id}",
            f"oven_images/{image_id}",
        )
        image = first_there(map(self.images.stem, places), image_id)
        if image.status == "missing" and (path := self._paths.get(image_id)):
            image = first_there(map(self.images.file, (path, f"oven_images/{path}")), image_id)
        if image.status == "missing" and image_id in self._packed:
            image = self.images.at(self._packed[image_id], image_id)
        return image


def answer_spec(row: dict[str, Any], kind: str | None) -> AnswerSpec:
    """The accepted forms, or for a numerical question the closed range of ``answer_eval``.

    The kind comes from the question-type file; without it, a ``range`` in ``answer_eval`` means numerical.

    Raises:
        DataError: no answer, or a range that is not two numbers.
    """
    raw_answer = row.get("answer")
    forms = [form for form in answer_texts(raw_answer, "answer") if form]
    graded = row.get("answer_eval")
    if isinstance(graded, list) and len(graded) == 1 and isinstance(graded[0], dict):
        graded = graded[0]
    if isinstance(graded, dict) and "range" in graded:
        low, high = _range_ends(graded["range"])
        wikidata_value = graded.get("wikidata")
        wikidata_value = (
            wikidata_value[0]
            if isinstance(wikidata_value, list) and wikidata_value
            else wikidata_value
        )
        canonical = (
            forms[0]
            if forms
            else str(wikidata_value if wikidata_value is not None else (low + high) / 2)
        )
        return AnswerSpec(
            kind="number",
            accepted=tuple((form,) for form in forms),
            canonical=canonical,
            number=(low, high),
            rule="infoseek",
        )
    if kind == "numerical":
        raise DataError(
            f"a numerical question without a range: answer_eval is {graded!r}",
            cure="leave the row out",
        )
    graded_forms = answer_texts(graded, "answer_eval") if isinstance(graded, list) else []
    accepted = [form for form in graded_forms if form]
    return AnswerSpec(
        kind="date" if kind == "time" else "string",
        accepted=tuple((form,) for form in (accepted or forms)),
        canonical=forms[0] if forms else "",
        rule="infoseek",
    )


def _range_ends(span: Any) -> tuple[float, float]:
    """The first two numbers of a range; each, and the range itself, may be written as text."""
    with suppress(TypeError, ValueError, OverflowError):
        low, high = (float(end) for end in listed(span)[:2] if not isinstance(end, bool))
        if math.isfinite(low) and math.isfinite(high):
            return low, high
    raise DataError(
        f"answer_eval.range is {span!r}, expected two numbers", cure="mend the row or leave it out"
    )
