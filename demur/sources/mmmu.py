"""MMMU: college exam questions over images, the base pool of abstention benchmarks.

Layout of the folder: one folder per subject with ``validation-00000-of-00001.parquet`` (and ``dev-``), as published.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.core.cells import accepted_forms, listed, options_in
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Sample
from demur.core.store import Problems
from demur.corpora.formats import in_numeric_order, parquet_rows
from demur.sources.native import (
    NativeSource,
    SampleParts,
    fields_as_attributes,
    named_splits,
    text_of,
)

IMAGES = tuple(f"image_{n}" for n in range(1, 8))


class MMMU(NativeSource):
    """Reads an MMMU folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``validation``, ``dev``, both with a comma, or ``all``; the answers of test are withheld.
        subjects: folder names with a comma, or ``all``.

    Placeholders such as ``<image 1>`` stay in question and options; the images follow in their order.
    """

    name = "mmmu"
    licence = "Apache-2.0"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "validation",
        subjects: str = "all",
    ) -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("validation", "dev"), ("test",))
        self.subjects = (
            None if subjects == "all" else {part.strip() for part in subjects.split(",")}
        )

    def samples(self) -> Iterator[Sample]:
        """Questions by split, subject and row; topic = subject."""
        yield from self.records(self._read_rows(), self._make_sample)

    def _read_rows(self) -> Iterator[tuple[str, str, tuple[str, str, str, dict[str, Any]]]]:
        for split in self.splits:
            files = in_numeric_order(self.root.glob(f"*/{split}-*.parquet"))
            if not files:
                self.need(f"Accounting/{split}-00000-of-00001.parquet")
            for path in files:
                subject = path.parent.name
                if self.subjects is not None and subject not in self.subjects:
                    continue
                below = path.relative_to(self.root).as_posix()
                for place, number, row in parquet_rows(path, self.problems, batch=16):
                    yield (
                        f"{subject}/{place}",
                        str(row.get("id") or ""),
                        (split, subject, f"parquet:{below}#{number}", row),
                    )

    def _make_sample(
        self, place: str, id_: str, split: str, subject: str, uri: str, row: dict[str, Any]
    ) -> Sample:
        return self.sample(
            place,
            id_,
            SampleParts(
                question=text_of(row, "question"),
                answers=answer_spec(row),
                images=[
                    self.images.cell(row[column], f"{uri}/{column}")
                    for column in IMAGES
                    if row.get(column)
                ],
                split=split,
                topic=subject,
                attributes=fields_as_attributes(
                    row,
                    "subfield",
                    "question_type",
                    difficulty="topic_difficulty",
                    image_types="img_type",
                ),
                native={key: value for key, value in row.items() if key not in IMAGES},
            ),
        )


def answer_spec(row: dict[str, Any]) -> AnswerSpec:
    """A letter among the options, or for an open question one or more accepted forms.

    Raises:
        DataError: the letter names no option.
    """
    choices = (
        options_in(row.get("options") or None, "options").pairs
        if listed(row.get("options"))
        else ()
    )
    forms = accepted_forms(row.get("answer"), "answer")
    if not choices:
        return AnswerSpec(accepted=tuple(form for form in forms if all(form)), rule="mmmu")
    letter = forms[0][0] if forms else ""
    text = dict(choices).get(letter)
    if text is None:
        raise DataError(
            f"the answer {letter!r} names none of {len(choices)} options", cure="leave the row out"
        )
    return AnswerSpec(
        kind="choice",
        accepted=((letter,),),
        choices=choices,
        canonical=f"({letter}) {text}",
        rule="mmmu",
    )
