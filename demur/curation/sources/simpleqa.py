"""SimpleQA: short factual questions without evidence, the home of the three-label judge.

Layout of the folder: ``simple_qa_test_set.csv`` with the columns ``metadata, problem, answer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from demur.curation.sources.native import NativeSource, literal, text_of
from demur.formats import csv_rows
from demur.records import AnswerSpec, Document, Sample
from demur.store import Problems


class SimpleQA(NativeSource):
    """Reads a SimpleQA folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
    """

    name = "simpleqa"

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        super().__init__(folder, problems)

    def documents(self) -> Iterator[Document]:
        """None: SimpleQA has no knowledge base."""
        yield from ()

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of the file; id = line they start on, topic = topic of the metadata."""
        path = self.need("simple_qa_test_set.csv")
        for place, row in csv_rows(path, self.problems, required=("metadata", "problem", "answer")):
            sample = self.make(place, "no id", partial(self._sample, place, row))
            if sample is not None:
                yield sample

    def _sample(self, place: str, row: dict[str, str]) -> Sample:
        metadata = literal(row["metadata"])
        known = metadata if isinstance(metadata, dict) else {}
        urls = known.get("urls")
        return Sample(
            id=place.rpartition(":")[2],
            source=self.name,
            question=text_of(row, "problem").strip(),
            answers=AnswerSpec(accepted=((text_of(row, "answer").strip(),),), rule="simpleqa"),
            split="test",
            topic=str(known.get("topic") or ""),
            attributes={
                "answer_type": str(known.get("answer_type") or ""),
                "urls": " ".join(map(str, urls)) if isinstance(urls, list) else "",
            },
            licence="MIT",
            native=dict(row),
            source_ref=place,
        )
