"""MRAG-Bench: an image and a question whose evidence is other images of the same thing.

Layout of the folder: ``data/test-*.parquet`` (or the Parquet files directly in the folder); optionally
``image_corpus/`` with the corpus pictures, whose names hold ``gt``, ``fp`` or ``input``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from demur.core.cells import listed
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, ImageRef, Role, Sample
from demur.core.store import Problems, digest
from demur.corpora.folder import images_below
from demur.corpora.formats import in_numeric_order, parquet_rows
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    fields_as_attributes,
    one_of,
    text_of,
)

LETTERS = "ABCD"


class MRAGBench(NativeSource):
    """Reads an MRAG-Bench folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        form: ``open`` asks for the answer's text, as VLM-DeflectionBench does, and keeps the options in ``attributes``
            and ``native``; ``choice`` shows the options.

    A picture's id is the SHA-256 of its bytes. In scenario ``Incomplete`` only the first picture counts, as in the
    authors' code. Gold pictures of rows with the same answer show the same thing and lie on one page, so that none of
    them becomes a distractor of another row. ``retrieved_images`` (nearest by CLIP) may include the query or such a
    picture; these are dropped by hash, and the rest are the negatives.
    """

    name = "mrag"
    licence = "CC-BY-4.0"

    def __init__(self, folder: Path, problems: Problems | None = None, form: str = "open") -> None:
        super().__init__(folder, problems)
        self.form = one_of(self.name, "form", form, "open", "choice")

    def _shards(self) -> list[Path]:
        shards = in_numeric_order(
            [*self.root.glob("data/test-*.parquet"), *self.root.glob("*.parquet")]
        )
        if not shards:
            self.need("data/test-00000-of-00001.parquet")
        return shards

    def _read_rows(self) -> Iterator[tuple[str, str, tuple[str, dict[str, Any]]]]:
        for shard in self._shards():
            below = shard.relative_to(self.root).as_posix()
            for place, number, row in parquet_rows(shard, self.problems, batch=8):
                if missing := sorted(
                    {"id", "question", "answer", "image", "gt_images", *LETTERS} - row.keys()
                ):
                    raise DataError(
                        f"column(s) {', '.join(missing)} missing",
                        item=shard.name,
                        cure="check the file",
                    )
                yield place, str(row.get("id") or ""), (f"parquet:{below}#{number}", row)

    @cached_property
    def _things(self) -> dict[str, str]:
        """SHA-256 of every gold picture -> its page; one page per answer."""
        pages: dict[str, str] = {}
        for _, _, (_, row) in self._read_rows():
            for cell in listed(row.get("gt_images")):
                data = cell.get("bytes") if isinstance(cell, dict) else cell
                if isinstance(data, bytes):
                    pages.setdefault(sha256(data).hexdigest(), thing_id(row))
        return pages

    def documents(self) -> Iterator[Document]:
        """The corpus: ``image_corpus/`` without its query pictures, else every gold and retrieved picture.

        Query pictures (named ``input``, or equal to a query by hash) are never part of it.
        """
        queries: set[str] = set()
        for _, _, (uri, row) in self._read_rows():
            query = self.images.cell(row.get("image"), f"{uri}/image")
            if query.ref:
                queries.add(query.ref.sha256)
        seen = set(queries)
        corpus = self.root / "image_corpus"
        if corpus.is_dir():
            for path in images_below(corpus, self.problems, Counter()):
                name = path.relative_to(self.root).as_posix()
                picture = self.images.file(name)
                if "input" in path.name.lower():
                    self.notes["corpus: query pictures left out by name"] += 1
                elif picture.ref is None:
                    self.problems.add(name, f"corpus picture {picture.status}")
                elif picture.ref.sha256 in queries:
                    self.notes["corpus: query pictures left out by hash"] += 1
                elif picture.ref.sha256 in seen:
                    self.notes["corpus: repeated pictures"] += 1
                else:
                    seen.add(picture.ref.sha256)
                    yield self._make_document(picture.ref)
            return
        for _, _, (uri, row) in self._read_rows():
            for field in ("gt_images", "retrieved_images"):
                for picture in self._find_pictures(row, field, uri):
                    if picture.ref and picture.ref.sha256 not in seen:
                        seen.add(picture.ref.sha256)
                        yield self._make_document(picture.ref)

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their shards; topic = scenario."""
        yield from self.records(self._read_rows(), self._make_sample)

    def _make_sample(self, place: str, id_: str, uri: str, row: dict[str, Any]) -> Sample:
        scenario = str(row.get("scenario") or "")
        query = self.images.cell(row.get("image"), f"{uri}/image")
        most = 1 if scenario == "Incomplete" else None
        golds = self._find_pictures(row, "gt_images", uri)[:most]
        offered = self._find_pictures(row, "retrieved_images", uri)[:most]
        lacks = [
            f"gold picture {picture.status}: {picture.name}"
            for picture in golds
            if picture.ref is None
        ]
        nearest = [
            f for f in offered if f.ref is None or self._things.get(f.ref.sha256) != thing_id(row)
        ]
        if len(nearest) < len(offered):
            self.notes["retrieved pictures of the same thing as gold"] += len(offered) - len(
                nearest
            )
        seen = {query.ref.sha256} if query.ref else set()
        gold = self._without_repeats(
            golds, Role.GOLD, seen, "gold pictures equal to the query or to one another"
        )
        negatives = self._without_repeats(
            nearest,
            Role.DISTRACTOR,
            seen,
            "retrieved pictures equal to the query or to one another",
        )
        if not gold and not lacks:
            lacks.append(
                "gold evidence missing: every gold picture is the query itself, or there is none"
            )
        options = {letter: text_of(row, letter) for letter in LETTERS}
        return self.sample(
            place,
            id_,
            SampleParts(
                question=text_of(row, "question"),
                answers=self._make_answers(row, options),
                images=[query],
                gold=gold,
                negatives=negatives,
                lacks=lacks,
                missing=[
                    f"negative picture unreadable: {picture.name}"
                    for picture in nearest
                    if picture.ref is None
                ],
                split="test",
                topic=scenario,
                cluster=text_of(row, "answer"),
                attributes={
                    **fields_as_attributes(
                        row, "aspect", "image_type", "answer_choice", origin="source"
                    ),
                    **{f"option_{letter}": text for letter, text in options.items()},
                },
                native={
                    key: value
                    for key, value in row.items()
                    if key not in ("image", "gt_images", "retrieved_images")
                },
            ),
        )

    def _make_answers(self, row: dict[str, Any], options: dict[str, str]) -> AnswerSpec:
        answer, letter = text_of(row, "answer").strip(), str(row.get("answer_choice") or "").strip()
        if letter and options.get(letter, "").strip() != answer:
            raise DataError(
                f"answer_choice {letter!r} is {options.get(letter)!r}, but answer is {answer!r}",
                cure="leave it out",
            )
        if self.form == "open":
            return AnswerSpec(accepted=((answer,),), rule="mragbench")
        return AnswerSpec(
            kind="choice", accepted=((answer,),), choices=tuple(options.items()), rule="mragbench"
        )

    def _without_repeats(
        self, pictures: list[FoundImage], role: Role, seen: set[str], note: str
    ) -> list[Evidence]:
        fresh = []
        for picture in pictures:
            if picture.ref is None:
                continue
            if picture.ref.sha256 in seen:
                self.notes[note] += 1
                continue
            seen.add(picture.ref.sha256)
            fresh.append(Evidence.of(self._make_document(picture.ref), role))
        return fresh

    def _find_pictures(self, row: dict[str, Any], field: str, uri: str) -> list[FoundImage]:
        return [
            self.images.cell(cell, f"{uri}/{field}/{i}")
            for i, cell in enumerate(listed(row.get(field)))
        ]

    def _make_document(self, ref: ImageRef) -> Document:
        page = self._things.get(ref.sha256, "")
        return Document(
            id=picture_id(ref),
            title="",
            image=ref,
            page=page,
            source=self.name,
            licence=self.licence,
        )


def picture_id(ref: ImageRef) -> str:
    """Id of a picture: the beginning of the SHA-256 of its bytes."""
    return f"img-{ref.sha256[:16]}"


def thing_id(row: dict[str, Any]) -> str:
    """Id of the thing in a row's gold pictures: one per answer, without revealing the answer."""
    return "thing-" + digest(" ".join(str(row.get("answer") or "").casefold().split()).encode(), 12)
