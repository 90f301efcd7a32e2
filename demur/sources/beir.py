"""BEIR and MTEB layout: corpus, queries and relevance judgements of a retrieval collection.

Layout of the folder: ``corpus.jsonl`` (``_id, title, text``, and ``image`` in multimodal copies), ``queries.jsonl``
(``_id, text``, and ``image``), ``qrels/<split>.tsv`` (header, then query-id, corpus-id, score; TREC's four columns
and ``qrels/<split>.jsonl`` are read too).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from demur.core.cells import accepted_forms, cell_text, pick
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems
from demur.corpora import beir
from demur.corpora.formats import Lookup, first_existing, json_lines, open_bytes
from demur.sources.native import NativeSource, SampleParts


class Beir(NativeSource):
    """Reads a folder in BEIR layout.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: name of the file in ``qrels/``.
        answers: field of ``queries.jsonl`` with the accepted answers (``metadata.answers``). BEIR itself has none, so
            without such a field there are documents but no samples.

    A score above 0 makes a document gold. Score 0 and absence mean unjudged, never negative.
    """

    name = "beir"
    escaped = False

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "test",
        answers: str = "answers",
    ) -> None:
        super().__init__(folder, problems)
        self.split = split
        self.answers = answers

    def _read_corpus(self) -> Iterator[tuple[str, dict[str, Any]]]:
        path = first_existing(self.root, "corpus.jsonl", "corpus.jsonl.gz") or self.need(
            "corpus.jsonl"
        )
        yield from json_lines(path, self.problems)

    def documents(self) -> Iterator[Document]:
        """The corpus in the order of its file."""
        yield from beir.documents(
            self._read_corpus(), self.problems, source=self.name, picture=self.picture
        )

    def samples(self) -> Iterator[Sample]:
        """Queries that are judged, in the order of their file."""
        judged: dict[str, dict[str, int]] = {}
        for query, document, score in self._read_qrels():
            judged.setdefault(query, {})[document] = score
        gold_ids = {d for scores in judged.values() for d, score in scores.items() if score > 0}

        def judged_queries() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
            for place, row in json_lines(self.need("queries.jsonl"), self.problems):
                if (id_ := beir.row_id(row)) in judged:
                    yield place, id_, (row, judged[id_], corpus)
                else:
                    self.notes["queries without a judgement, which BEIR leaves out"] += 1

        corpus = Lookup(((beir.row_id(row), row) for _, row in self._read_corpus()), gold_ids)
        yield from self.records(judged_queries(), self._make_sample)

    def _make_sample(
        self, place: str, id_: str, row: dict[str, Any], scores: dict[str, int], corpus: Lookup
    ) -> Sample:
        answers = pick(row, self.answers)
        if answers is None:
            raise DataError(
                f"no answer under {self.answers!r}: BEIR judges documents, not answers",
                cure="add the answers to queries.jsonl and name their field: beir:FOLDER?answers=FIELD",
            )
        gold: list[Evidence] = []
        lacks: list[str] = []
        for document_id in sorted(d for d, score in scores.items() if score > 0):
            stored = corpus.get(document_id)
            if stored is None:
                lacks.append(f"gold document missing: {document_id}")
                continue
            try:
                document = beir.document(stored, source=self.name, picture=self.picture)
                gold.append(Evidence.of(document, Role.GOLD))
            except (DataError, ValueError) as error:
                lacks.append(f"gold document {document_id}: {error}")
        return self.sample(
            place,
            id_,
            SampleParts(
                native=row,
                question=cell_text(row.get("text"), "text"),
                answers=AnswerSpec(accepted=tuple(accepted_forms(answers, self.answers))),
                images=[self.images.cell(row["image"], "image", in_place=False)]
                if row.get("image")
                else (),
                gold=gold,
                lacks=lacks,
                split=self.split,
            ),
        )

    def _read_qrels(self) -> Iterator[tuple[str, str, int]]:
        path = self.need(
            f"qrels/{self.split}.tsv", f"qrels/{self.split}.jsonl", f"qrels/{self.split}.txt"
        )
        for place, row in self._judged_rows(path):
            judged = self.make(place, "qrels", partial(_parse_judgement, row))
            if judged:
                yield judged

    def _judged_rows(self, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        if path.suffix == ".jsonl":
            yield from json_lines(path, self.problems)
            return
        with open_bytes(path) as handle:
            for number, line in enumerate(handle, start=1):
                text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
                fields = text.split("\t") if "\t" in text else text.split()
                if not text.strip() or (
                    number == 1 and not fields[-1].strip().lstrip("-").replace(".", "").isdigit()
                ):
                    continue
                if len(fields) in (3, 4):
                    row = {"query-id": fields[0], "corpus-id": fields[-2], "score": fields[-1]}
                    yield f"{path.name}:{number}", row
                else:
                    self.problems.add(
                        f"{path.name}:{number}", f"expected 3 or 4 fields, found {len(fields)}"
                    )


def _parse_judgement(row: dict[str, Any]) -> tuple[str, str, int]:
    return str(row["query-id"]), str(row["corpus-id"]), int(float(row["score"]))
