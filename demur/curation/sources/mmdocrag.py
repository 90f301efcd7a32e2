"""MMDocRAG: a text question over a long document, with gold and distracting quotes (text and picture) given.

Layout of the folder: ``evaluation_20.jsonl``, ``evaluation_15.jsonl``, ``dev_20.jsonl``, ``dev_15.jsonl``, and
``images/`` or ``images.zip`` (read in place). ``train.jsonl`` holds chat transcripts and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from demur.curation.sources.native import Found, NativeSource, chosen, distinct, literal, text_of
from demur.errors import DataError, UsageError
from demur.formats import json_lines
from demur.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.store import Problems, digest

LICENCE = "CC-BY-NC-4.0 (the dataset card says Apache-2.0, the repository CC-BY-NC-4.0: the stricter is taken)"


class MMDocRAG(NativeSource):
    """Reads an MMDocRAG folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``evaluation``, ``dev``, both with a comma, or ``all``.
        quotes: ``20`` or ``15`` candidate quotes per question (different files, same questions).
        captions: ``no`` titles a picture with its document and page; ``yes`` with ``img_description``, which a model
            wrote while looking at it, so that text-only readers then see the picture's content.

    ``answer_interleaved`` cites the gold quotes and is never shown; it stays in ``native``, as do the quote numbers.
    """

    name = "mmdocrag"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "all",
        quotes: str = "20",
        captions: str = "no",
    ) -> None:
        super().__init__(folder, problems)
        if quotes not in ("15", "20") or captions not in ("yes", "no"):
            raise UsageError("mmdocrag: quotes is 15 or 20, captions is yes or no", cure="choose one of them")
        self.splits = [f"{part}_{quotes}" for part in chosen(self.name, split, ("dev", "evaluation"))]
        self.captions = captions == "yes"

    def documents(self) -> Iterator[Document]:
        """Every distinct quote of the chosen files; ``page`` is the document it is from."""
        seen: set[str] = set()
        for place, id_, row in self._rows():
            for document, _ in self.make(place, id_, partial(self._quotes, row)) or ():
                if document is not None and document.id not in seen:
                    seen.add(document.id)
                    yield document

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their files; topic = domain, cluster = document."""
        for place, id_, row in self.unique(self._rows()):
            sample = self.make(place, id_, partial(self._sample, place, id_, row))
            if sample is not None:
                yield sample

    def _rows(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for split in self.splits:
            for place, row in json_lines(self.need(f"{split}.jsonl"), self.problems):
                yield place, f"{split}_{row.get('q_id', 'no q_id')}", row

    def _sample(self, place: str, id_: str, row: dict[str, Any]) -> Sample:
        if "messages" in row:
            raise DataError("a chat transcript, not a question row", cure="leave train.jsonl out")
        gold_ids = {str(quote) for quote in row["gold_quotes"]}
        gold: list[Evidence] = []
        others: list[Evidence] = []
        lacks: list[str] = []
        missing: list[str] = []
        named: set[str] = set()
        for document, what in self._quotes(row):
            quote_id, _, wrong = what.partition(" ")
            named.add(quote_id)
            is_gold = quote_id in gold_ids
            if document is None:
                (lacks if is_gold else missing).append(f"{'gold' if is_gold else 'negative'} quote {what}")
            else:
                role = Role.GOLD if is_gold else Role.DISTRACTOR
                (gold if is_gold else others).append(Evidence.of(document, role, level="quote"))
        lacks += [f"gold quote {quote} missing: no such quote in the row" for quote in sorted(gold_ids - named)]
        gold, others, dropped = distinct(gold, others)
        if dropped:
            self.notes["quotes dropped because the same stands in the sample already"] += len(dropped)
        if not gold_ids:
            lacks.append("gold evidence missing: gold_quotes is empty")
        for wrong in missing:
            self.problems.add(f"{place} ({id_})", wrong)
        split = id_.rpartition("_")[0]
        if str(row["q_id"]) != str(int(place.rpartition(":")[2]) - 1):
            self.notes["q_id differs from the 0-based line number that the official scorer relies on"] += 1
        kinds = row.get("evidence_modality_type") or []
        return Sample(
            id=id_,
            source=self.name,
            question=text_of(row, "question").strip(),
            answers=answer_spec(row["answer_short"]),
            gold=tuple(gold),
            negatives=tuple(others),
            split=split,
            topic=str(row.get("domain") or ""),
            cluster=text_of(row, "doc_name"),
            attributes={
                "question_type": str(row.get("question_type") or ""),
                "evidence_modality": ",".join(map(str, kinds if isinstance(kinds, list) else [kinds])),
                "document": row["doc_name"],
                **({"missing_negatives": "; ".join(missing)} if missing else {}),
                **self.defect(place, id_, lacks),
            },
            licence=LICENCE,
            native=row,
            source_ref=place,
        )

    def _quotes(self, row: dict[str, Any]) -> list[tuple[Document | None, str]]:
        """(document, quote id) of every quote in order; (None, ``quote id what is wrong``) where it cannot be shown."""
        found: list[tuple[Document | None, str]] = []
        name = str(row.get("doc_name") or "")
        for quote in row.get("text_quotes") or []:
            text = str(quote.get("text") or "").strip()
            quote_id = str(quote["quote_id"])
            if not text:
                found.append((None, f"{quote_id} has no text"))
                continue
            title = f"{name}, page {quote.get('page_id')}"
            found.append((self._document(name, text, title, text=text), quote_id))
        for quote in row.get("img_quotes") or []:
            quote_id, path = str(quote["quote_id"]), str(quote.get("img_path") or "")
            image = self._image(path)
            if image.ref is None:
                found.append((None, f"{quote_id} picture {image.status}: {path or 'no img_path'}"))
                continue
            title = f"{name}, page {quote.get('page_id')}"
            if self.captions and quote.get("img_description"):
                title = str(quote["img_description"])
            found.append((self._document(name, path, title, image=image.ref), quote_id))
        return found

    def _document(self, name: str, content: str, title: str, **what: Any) -> Document:
        return Document(
            id=f"{name}:{digest([content, title], 12)}",
            title=title,
            page=name,
            source=self.name,
            licence=LICENCE,
            **what,
        )

    @cached_property
    def _packed(self) -> dict[str, str]:
        archive = self.root / "images.zip"
        return self.members(archive) if archive.is_file() else {}

    def _image(self, path: str) -> Found:
        below = path if path.startswith("images/") else f"images/{path}"
        found = self.images.file(below)
        if found.status != "missing":
            return found
        uri = self._packed.get(below) or self._packed.get(below.removeprefix("images/"))
        return self.images.at(uri, path) if uri else found


def answer_spec(answer: Any) -> AnswerSpec:
    """``answer_short``; a list, written out or as text (``"['46','27']"``), means parts that are all required."""
    value = literal(answer)
    if isinstance(value, list | tuple):
        parts = tuple(str(part) for part in value)
        if not parts:
            raise DataError("answer_short is an empty list", cure="leave the row out")
        return AnswerSpec(kind="parts", accepted=(parts,), rule="mmdocrag")
    return AnswerSpec(accepted=((str(answer).strip(),),) if answer is not None else (), rule="mmdocrag")
