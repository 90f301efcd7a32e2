"""MMLongBench-Doc: questions over long documents, about a fifth of which the document does not answer.

Layout of the folder: ``data/samples.json`` (or ``samples.json``), a JSON list; the pages as pictures,
``pages/<document without .pdf>/<page>.png`` with pages counted from 1, or the documents as published,
``data/documents/<document>.pdf`` (or ``documents/``), whose pages the option ``render`` writes into a folder (extra:
``pdf``). With neither, questions have no evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from demur.core.cells import answer_texts, literal
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems
from demur.corpora.formats import inside, json_rows
from demur.corpora.pdf_pages import Rendered
from demur.sources.native import NativeSource, SampleParts, fields_as_attributes, one_of, text_of

UNANSWERABLE = "Not answerable"


class MMLongBenchDoc(NativeSource):
    """Reads an MMLongBench-Doc folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        render: folder that pages of PDFs are rendered into, once each; "" renders none.
        distractors: ``document``: the other pages of a sample's document are its negatives, in their order; ``none``.

    ``answerable`` is False exactly where the answer is ``Not answerable``; empty ``evidence_pages`` do not mean that.
    """

    name = "mmlongbench"
    licence = "CC-BY-NC-4.0 (LICENSE.md says Apache-2.0, the README CC-BY-NC-4.0 for the data: the stricter is taken)"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        render: str = "",
        distractors: str = "none",
    ) -> None:
        super().__init__(folder, problems)
        self._distractors = one_of(self.name, "distractors", distractors, "none", "document")
        places = (self.root / "data" / "documents", self.root / "documents")
        self._pdfs = next((p for p in places if p.is_dir()), None) if render else None
        self._pages = Rendered(Path(render)) if render else None
        self._numbers: dict[str, list[int]] = {}

    @property
    def _has_pages(self) -> bool:
        return (self.root / "pages").is_dir() or self._pdfs is not None

    def _all_pages(self, document: str) -> list[int]:
        """The numbers of a document's available pages."""
        if document not in self._numbers:
            folder = self.root / "pages" / document.removesuffix(".pdf")
            if folder.is_dir():
                numbers = sorted(
                    {int(page.stem) for page in folder.iterdir() if page.stem.isdecimal()}
                )
            elif self._pdfs is not None and self._pages is not None:
                numbers = list(range(1, self._pages.count(inside(self._pdfs, document)) + 1))
            else:
                numbers = []
            self._numbers[document] = numbers
        return self._numbers[document]

    def _find_page(self, document: str, number: int) -> Document | None:
        image = self.images.stem(f"pages/{document.removesuffix('.pdf')}/{number}")
        if image.status == "missing" and self._pdfs is not None and self._pages is not None:
            path = self._pages.page(inside(self._pdfs, document), number)
            image = (
                image if path is None else self.images.at(str(path), f"{document} page {number}")
            )
        if image.ref is None:
            return None
        return Document(
            id=f"{document}#{number}",
            title=f"{document}, page {number}",
            image=image.ref,
            page=document,
            source=self.name,
            licence=self.licence,
        )

    def documents(self) -> Iterator[Document]:
        """Every available page, document by document."""
        folder = self.root / "pages"
        named = {f"{path.name}.pdf" for path in folder.iterdir()} if folder.is_dir() else set()
        named |= (
            {path.name for path in self._pdfs.glob("*.pdf")} if self._pdfs is not None else set()
        )
        for document in sorted(named):
            for number in self._all_pages(document):
                page = self._find_page(document, number)
                if page is not None:
                    yield page
                else:
                    self.problems.add(f"{document} page {number}", "page unreadable")

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of the file; id = row from 0, topic = document type, cluster = document."""
        rows = json_rows(self.need("data/samples.json", "samples.json"), self.problems)
        seen_questions: set[tuple[str, str]] = set()
        for number, (place, row) in enumerate(rows):
            key = (str(row.get("doc_id")), str(row.get("question")))
            if key in seen_questions:
                self.notes["questions that another row asks about the same document"] += 1
            seen_questions.add(key)
            sample = self.make(
                place, f"row {number}", partial(self._make_sample, place, str(number), row)
            )
            if sample is not None:
                yield sample

    def _make_sample(self, place: str, number: str, row: dict[str, Any]) -> Sample:
        document = text_of(row, "doc_id")
        answers, answerable = answer_spec(row)
        pages = literal(row.get("evidence_pages"))
        pages = pages if isinstance(pages, list) else []
        lacks: list[str] = []
        gold: list[Evidence] = []
        negatives: list[Evidence] = []
        for page in dict.fromkeys(pages) if answerable else ():
            gold_page = self._find_page(document, int(page)) if int(page) > 0 else None
            if gold_page is not None:
                gold.append(Evidence.of(gold_page, Role.GOLD, level="page"))
            elif int(page) < 1:
                self.notes["evidence page 0, though pages count from 1"] += 1
            elif self._has_pages:
                lacks.append(f"gold page missing: {document} page {page}")
        if not self._has_pages:
            self.notes[
                "questions without gold pages: there are neither page pictures nor PDFs to render"
            ] += 1
        elif self._distractors == "document":
            named = {e.id for e in gold}
            others = (
                self._find_page(document, n)
                for n in self._all_pages(document)
                if n not in (pages if answerable else ())
            )
            negatives = [
                Evidence.of(page, Role.DISTRACTOR, level="page", rank=rank)
                for rank, page in enumerate(
                    (p for p in others if p is not None and p.id not in named), start=1
                )
            ]
        return self.sample(
            place,
            number,
            SampleParts(
                native=row,
                question=text_of(row, "question"),
                answers=answers,
                answerable=answerable,
                gold=gold,
                negatives=negatives,
                lacks=lacks,
                split="test",
                topic=str(row.get("doc_type") or ""),
                cluster=document,
                attributes=fields_as_attributes(
                    row, "evidence_pages", "evidence_sources", "answer_format", document="doc_id"
                ),
            ),
        )


def answer_spec(row: dict[str, Any]) -> tuple[AnswerSpec, bool]:
    """The answer by its ``answer_format``, and whether the document answers the question."""
    answer = text_of(row, "answer").strip()
    if answer == UNANSWERABLE:
        return AnswerSpec(accepted=((UNANSWERABLE,),), rule="mmlongbench"), False
    form = row.get("answer_format")
    value = literal(answer)
    if form == "List" and isinstance(value, list) and value:
        return AnswerSpec(
            kind="parts",
            accepted=(tuple(answer_texts(value, "answer")),),
            rule="mmlongbench",
        ), True
    if form in ("Int", "Float"):
        try:
            number = float(answer.rstrip("%").replace(",", ""))
        except ValueError:
            number = math.nan  # "14:04 CET" and "GPT-4" stand among the Ints
        if math.isfinite(number):
            return (
                AnswerSpec(
                    kind="number",
                    accepted=((answer,),),
                    number=(number, number),
                    unit="%" if answer.endswith("%") else "",
                    rule="mmlongbench",
                ),
                True,
            )
    return AnswerSpec(accepted=((answer,),), rule="mmlongbench"), True
