"""MMMU: college exam questions over images, the base pool of abstention benchmarks.

Layout of the folder: one folder per subject with ``validation-00000-of-00001.parquet`` (and ``dev-``), as published.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from demur.curation.sources.native import Found, NativeSource, chosen, literal, text_of
from demur.errors import DataError
from demur.formats import in_numeric_order, parquet_rows
from demur.records import AnswerSpec, Document, Sample
from demur.store import Problems

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

    def __init__(
        self, folder: Path, problems: Problems | None = None, split: str = "validation", subjects: str = "all"
    ) -> None:
        super().__init__(folder, problems)
        self.splits = chosen(self.name, split, ("validation", "dev"), ("test",))
        self.subjects = None if subjects == "all" else {part.strip() for part in subjects.split(",")}

    def documents(self) -> Iterator[Document]:
        """None: MMMU has no knowledge base."""
        yield from ()

    def samples(self) -> Iterator[Sample]:
        """Questions by split, subject and row; topic = subject."""
        for place, id_, (split, subject, shown, number, row) in self.unique(self._rows()):
            sample = self.make(place, id_, partial(self._sample, place, id_, split, subject, shown, number, row))
            if sample is not None:
                yield sample

    def _rows(self) -> Iterator[tuple[str, str, tuple[str, str, str, int, dict[str, Any]]]]:
        for split in self.splits:
            files = in_numeric_order(self.root.glob(f"*/{split}-*.parquet"))
            if not files:
                self.need(f"Accounting/{split}-00000-of-00001.parquet")
            for path in files:
                subject = path.parent.name
                if self.subjects is not None and subject not in self.subjects:
                    continue
                shown = path.relative_to(self.root).as_posix()
                for place, number, row in parquet_rows(path, self.problems, batch=16):
                    yield f"{subject}/{place}", str(row.get("id")), (split, subject, shown, number, row)

    def _sample(
        self, place: str, id_: str, split: str, subject: str, shown: str, number: int, row: dict[str, Any]
    ) -> Sample:
        found = [self._image(row[column], f"parquet:{shown}#{number}/{column}") for column in IMAGES if row.get(column)]
        lacks = [f"query image {image.status}: {image.name}" for image in found if image.ref is None]
        return Sample(
            id=text_of(row, "id"),
            source=self.name,
            question=text_of(row, "question").strip(),
            answers=answer_spec(row),
            images=tuple(image.ref for image in found if image.ref),
            split=split,
            topic=subject,
            attributes={
                "subfield": str(row.get("subfield") or ""),
                "difficulty": str(row.get("topic_difficulty") or ""),
                "question_type": str(row.get("question_type") or ""),
                "image_types": ",".join(map(str, _listed(row.get("img_type")))),
                **self.defect(place, id_, lacks),
            },
            licence="Apache-2.0",
            native={key: value for key, value in row.items() if key not in IMAGES},
            source_ref=place,
        )

    def _image(self, cell: Any, uri: str) -> Found:
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        return self.images.given(data if isinstance(data, bytes) else None, uri)


def _listed(value: Any) -> list[Any]:
    value = literal(value)
    return list(value) if isinstance(value, list | tuple) else [] if value in (None, "") else [value]


def answer_spec(row: dict[str, Any]) -> AnswerSpec:
    """A letter among the options, or for an open question one or more accepted forms.

    Raises:
        DataError: the letter names no option.
    """
    options = [str(option) for option in _listed(row.get("options"))]
    answer = literal(row.get("answer"))
    forms = [str(form) for form in answer] if isinstance(answer, list) else [str(answer if answer is not None else "")]
    if not options:
        return AnswerSpec(accepted=tuple((form,) for form in forms if form.strip()), rule="mmmu")
    choices = tuple((chr(ord("A") + i), option) for i, option in enumerate(options))
    letter = forms[0].strip()
    text = dict(choices).get(letter)
    if text is None:
        raise DataError(f"the answer {letter!r} names none of {len(options)} options", cure="leave the row out")
    return AnswerSpec(
        kind="choice", accepted=((letter,),), choices=choices, canonical=f"({letter}) {text}", rule="mmmu"
    )
