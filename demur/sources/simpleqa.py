"""SimpleQA: short factual questions without evidence, the home of the three-label judge.

Layout of the folder: ``simple_qa_test_set.csv`` with the columns ``metadata, problem, answer``.
"""

from __future__ import annotations

from collections.abc import Iterator

from demur.core.cells import listed, literal
from demur.core.records import AnswerSpec, Sample
from demur.corpora.formats import csv_rows
from demur.sources.native import NativeSource, SampleParts, fields_as_attributes, text_of


class SimpleQA(NativeSource):
    """Reads a SimpleQA folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
    """

    name = "simpleqa"
    licence = "MIT"

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of the file; id = line they start on, topic = topic of the metadata."""
        path = self.need("simple_qa_test_set.csv")
        rows = csv_rows(path, self.problems, required=("metadata", "problem", "answer"))
        numbered_rows = ((place, place.rpartition(":")[2], (row,)) for place, row in rows)
        yield from self.records(numbered_rows, self._make_sample)

    def _make_sample(self, place: str, number: str, row: dict[str, str]) -> Sample:
        metadata = literal(row["metadata"])
        fields = metadata if isinstance(metadata, dict) else {}
        return self.sample(
            place,
            number,
            SampleParts(
                native=row,
                question=text_of(row, "problem"),
                answers=AnswerSpec(accepted=((text_of(row, "answer").strip(),),), rule="simpleqa"),
                split="test",
                topic=str(fields.get("topic") or ""),
                attributes={
                    **fields_as_attributes(fields, "answer_type"),
                    "urls": " ".join(map(str, listed(fields.get("urls")))),
                },
            ),
        )
