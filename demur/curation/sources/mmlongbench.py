"""MMLongBench-Doc: questions over long documents, about a fifth of which the document does not answer.

Layout of the folder: ``data/samples.json`` (or ``samples.json``), a JSON list; optionally the pages as pictures,
``pages/<document without .pdf>/<page>.png`` with pages counted from 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from demur.curation.sources.native import NativeSource, literal, text_of
from demur.formats import json_rows
from demur.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.store import Problems

UNANSWERABLE = "Not answerable"
LICENCE = "CC-BY-NC-4.0 (LICENSE.md says Apache-2.0, the README CC-BY-NC-4.0 for the data: the stricter is taken)"


class MMLongBenchDoc(NativeSource):
    """Reads an MMLongBench-Doc folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.

    ``answerable`` is False exactly where the answer is ``Not answerable``; empty ``evidence_pages`` do not mean that.
    """

    name = "mmlongbench"

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        super().__init__(folder, problems)

    def _page(self, document: str, number: int) -> Document | None:
        found = self.images.stem(f"pages/{document.removesuffix('.pdf')}/{number}")
        if found.ref is None:
            return None
        return Document(
            id=f"{document}#{number}",
            title=f"{document}, page {number}",
            image=found.ref,
            page=document,
            source=self.name,
            licence=LICENCE,
        )

    def documents(self) -> Iterator[Document]:
        """Every page picture below ``pages/``, document by document."""
        folder = self.root / "pages"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            numbers = sorted({int(page.stem) for page in path.iterdir() if page.stem.isdigit()})
            for number in numbers:
                page = self._page(f"{path.name}.pdf", number)
                if page is not None:
                    yield page
                else:
                    self.problems.add(f"pages/{path.name}/{number}", "page picture unreadable")

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of the file; id = row from 0, topic = document type, cluster = document."""
        rows = json_rows(self.need("data/samples.json", "samples.json"), self.problems)
        asked: set[tuple[str, str]] = set()
        for number, (place, row) in enumerate(rows):
            key = (str(row.get("doc_id")), str(row.get("question")))
            if key in asked:
                self.notes["a question asked twice of one document"] += 1
            asked.add(key)
            sample = self.make(place, f"row {number}", partial(self._sample, place, number, row))
            if sample is not None:
                yield sample

    def _sample(self, place: str, number: int, row: dict[str, Any]) -> Sample:
        document = text_of(row, "doc_id")
        answers, answerable = answer_spec(row)
        pages = literal(row.get("evidence_pages"))
        pages = pages if isinstance(pages, list) else []
        sources = literal(row.get("evidence_sources"))
        lacks: list[str] = []
        gold: list[Evidence] = []
        has_pages = (self.root / "pages").is_dir()
        for page in dict.fromkeys(pages) if answerable else ():
            found = self._page(document, int(page)) if int(page) > 0 else None
            if found is not None:
                gold.append(Evidence.of(found, Role.GOLD, level="page"))
            elif int(page) < 1:
                self.notes["evidence page 0, though pages count from 1"] += 1
            elif has_pages:
                lacks.append(f"gold page missing: {document} page {page}")
        if not has_pages:
            self.notes["gold pages not shown: there is no folder pages/"] += 1
        return Sample(
            id=str(number),
            source=self.name,
            question=text_of(row, "question").strip(),
            answers=answers,
            answerable=answerable,
            gold=tuple(gold),
            split="test",
            topic=str(row.get("doc_type") or ""),
            cluster=document,
            attributes={
                "document": document,
                "evidence_pages": ",".join(map(str, pages)),
                "evidence_sources": ",".join(map(str, sources)) if isinstance(sources, list) else "",
                "answer_format": str(row.get("answer_format") or ""),
                **self.defect(place, str(number), lacks),
            },
            licence=LICENCE,
            native=row,
            source_ref=place,
        )


def answer_spec(row: dict[str, Any]) -> tuple[AnswerSpec, bool]:
    """The answer by its ``answer_format``, and whether the document answers the question."""
    answer = text_of(row, "answer").strip()
    if answer == UNANSWERABLE:
        return AnswerSpec(accepted=((UNANSWERABLE,),), rule="mmlongbench"), False
    form = row.get("answer_format")
    value = literal(answer)
    if form == "List" and isinstance(value, list) and value:
        return AnswerSpec(kind="parts", accepted=(tuple(str(v) for v in value),), rule="mmlongbench"), True
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
