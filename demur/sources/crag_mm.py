"""CRAG-MM: questions about a photograph, often a frame of smart glasses, alone or as turns of a conversation.

Layout of the folder: the Parquet files of the two repositories (``validation-00000-of-00008.parquet``), as downloaded,
at most two folders deep (``single/data/``), or what ``save_to_disk`` of `datasets` wrote; pictures that a row names by
their address, saved as ``images/<session_id>.jpg``; the retrieval contents, each in a folder of its own with its
``chroma.sqlite3``; optionally ``kb_images.jsonl`` (url, file) for downloaded pictures of the image corpus.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Sample
from demur.core.store import Problems
from demur.core.strict_json import parsed_json
from demur.core.turns import ATTRIBUTE
from demur.corpora import cragmm
from demur.corpora.formats import dataset_rows, in_numeric_order, parquet_rows
from demur.sources.native import FoundImage, NativeSource, SampleParts, named_splits, text_of

LABELS = ("domain", "query_category", "dynamism", "image_quality")
"""Fields of a turn that are stored as numbers of names."""
SKIPPED = frozenset(
    {"04d98259-27af-41b1-a7be-5798fd1b8e95", "695b4b5c-7c65-4f7b-8968-50fe10482a16"}
)
"""Sessions that the official evaluation leaves out (``SESSIONS_TO_SKIP``)."""


class _Row(NamedTuple):
    """One conversation of a file."""

    place: str
    value: dict[str, Any]
    uri: str | None
    """Of its picture; None where the picture is not in a Parquet file."""
    names: Mapping[str, Sequence[str]]
    """Field of a turn -> the names of its numbers."""


class CragMM(NativeSource):
    """Reads a CRAG-MM folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``validation``, ``public_test``, both with a comma, or ``all``.

    Each turn is a sample. Its history holds the earlier questions with their reference answers; the official evaluation
    puts the system's own answers there. There is no gold evidence: the source names none.
    """

    name = "crag_mm"
    licence = "CC-BY-NC-4.0 (no commercial use)"
    names_gold = False

    def __init__(
        self, folder: Path, problems: Problems | None = None, split: str = "validation"
    ) -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("validation", "public_test"))

    # --- knowledge base ---

    def documents(self) -> Iterator[Document]:
        """Entities and pictures of the image corpus, passages of the web corpus: whichever lie in the folder."""
        files = self.kb_pictures()
        for store in sorted(self.root.glob(f"*/{cragmm.STORE}")):
            yield from cragmm.documents(
                cragmm.entries(store),
                self.problems,
                self.notes,
                files=files,
                picture=self.picture,
            )

    # --- questions ---

    def samples(self) -> Iterator[Sample]:
        """Turns in the order of their files; id = interaction, topic = domain, cluster = session."""
        yield from self.records(self._turns(), self._make_sample)

    def _turns(self) -> Iterator[tuple[str, str, tuple[str, _Row, list[dict[str, Any]], int]]]:
        for split in self.splits:
            for row in self._read_rows(split):
                session = str(row.value.get("session_id") or "")
                if session in SKIPPED:
                    self.notes["sessions that the official evaluation skips"] += 1
                    continue
                turns = self.make(row.place, session, partial(turns_of_row, row.value)) or []
                for number, turn in enumerate(turns):
                    id_ = str(turn.get("interaction_id") or "")
                    yield row.place, id_, (split, row, turns, number)

    def _read_rows(self, split: str) -> Iterator[_Row]:
        if any((self.root / name).is_file() for name in ("dataset_dict.json", "state.json")):
            for place, _, row in dataset_rows(str(self.root), split=split):
                yield _Row(place, row, None, {})
            return
        name = f"{split}-*.parquet"
        files = {path for depth in ("", "*/", "*/*/") for path in self.root.glob(depth + name)}
        if not files:
            self.need(f"data/{split}-00000-of-00001.parquet")
        for file in in_numeric_order(files):
            below, names = file.relative_to(self.root).as_posix(), label_names(file)
            for _, number, row in parquet_rows(file, self.problems, batch=8):
                yield _Row(f"{below}:{number}", row, f"parquet:{below}#{number}/image", names)

    def _make_sample(
        self,
        place: str,
        id_: str,
        split: str,
        row: _Row,
        turns: Sequence[Mapping[str, Any]],
        number: int,
    ) -> Sample:
        turn, session = dict(turns[number]), text_of(row.value, "session_id")
        history = [
            {"role": role, "content": text_of(dict(earlier), field)}
            for earlier in turns[:number]
            for role, field in (("user", "query"), ("assistant", "ans_full"))
        ]
        labels = {
            field: _label(turn.get(field, row.value.get(field)), row.names.get(field, ()))
            for field in LABELS
        }
        return self.sample(
            place,
            id_,
            SampleParts(
                native={
                    "session_id": session,
                    "image_url": row.value.get("image_url"),
                    "turns": list(turns),
                },
                question=text_of(turn, "query"),
                answers=AnswerSpec(
                    accepted=((text_of(turn, "ans_full").strip(),),), rule="crag_mm"
                ),
                images=[self._find_image(row, session)],
                split=split,
                topic=labels["domain"],
                cluster=session,
                attributes={
                    **labels,
                    "turn": str(number + 1),
                    "egocentric": "no" if row.value.get("image_url") else "yes",
                    **({ATTRIBUTE: json.dumps(history, ensure_ascii=False)} if history else {}),
                },
            ),
        )

    def _find_image(self, row: _Row, session: str) -> FoundImage:
        if cell := row.value.get("image"):
            name = row.uri or f"image of {session}"
            return self.images.cell(cell, name, in_place=row.uri is not None)
        saved = self.images.stem(f"images/{session}")
        address = row.value.get("image_url")
        if saved.status != "missing" or not address:
            return saved
        return FoundImage(f"{address} (save it as images/{session}.jpg)", None, "not downloaded")


def turns_of_row(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The turns of a conversation with their answers (``ans_full``).

    Version 0.1.2 stores an object of lists, 0.1.1 a list of objects.

    Raises:
        DataError: lists of different lengths, or no turn.

    >>> answers = [{"interaction_id": "a", "ans_full": "Ada."}]
    >>> turns_of_row({"turns": {"interaction_id": ["a"], "query": ["Who?"]}, "answers": answers})
    [{'interaction_id': 'a', 'query': 'Who?', 'ans_full': 'Ada.'}]
    """
    answer_of = {
        answer.get("interaction_id"): answer.get("ans_full") for answer in _objects(row, "answers")
    }
    turns = _objects(row, "turns")
    if not turns:
        raise DataError("the conversation has no turn", cure="leave it out")
    return [turn | {"ans_full": answer_of.get(turn.get("interaction_id"))} for turn in turns]


def _objects(row: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    value = row.get(field)
    if isinstance(value, list):
        return value
    lists = value if isinstance(value, dict) else {}
    if len({len(items) for items in lists.values()}) > 1:
        raise DataError(f"the lists of {field} differ in length", cure="leave it out")
    return [dict(zip(lists, items, strict=True)) for items in zip(*lists.values(), strict=True)]


def _label(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, int) and 0 <= value < len(names):
        return str(names[value])
    return "" if value is None else str(value)


def label_names(file: Path) -> dict[str, list[str]]:
    """Field of a turn -> the names of its numbers, as `datasets` writes them into a Parquet file; {} without them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = (pq.read_schema(file).metadata or {}).get(b"huggingface", b"{}")
        turns = parsed_json(stored)["info"]["features"]["turns"]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return {}
    turns = turns[0] if isinstance(turns, list) else turns
    fields = turns.get("feature", turns) if isinstance(turns, dict) else {}
    names: dict[str, list[str]] = {}
    for field in LABELS:
        feature = fields.get(field) if isinstance(fields, dict) else None
        while isinstance(feature, dict) and "names" not in feature:
            feature = feature.get("feature")
        if isinstance(feature, dict) and isinstance(feature["names"], list):
            names[field] = feature["names"]
    return names
