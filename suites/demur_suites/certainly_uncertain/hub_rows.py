r"""The published set as pairs: Hub ``CertainlyUncertain/CertainlyUncertain_v0.1``, rows in LLaVA's form.

    {"id": ..., "image": ..., "conversations": [{"from": "human", "value": "<image>\\n..."}, {"from": "gpt", ...}],
     "category": ..., "answerable": true}

The test split is JSON Lines, the training split one JSON array. No field says which two rows are a pair. Two are joined
where exactly one answerable and one unanswerable row of a category share their id, or the question, or the photo; every
other row is a single item. Photos are fetched by the set's own script; without them outputs can be scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from demur.core.errors import DataError, StorageError
from demur.core.records import ImageRef
from demur.core.store import Problems, read_text, why_invalid
from demur.core.strict_json import loose_json
from demur.corpora.formats import json_lines
from demur_suites.certainly_uncertain.items import FILE, IDK, Pair, Uncertainty, folded, loaded
from demur_suites.files import image_in
from demur_suites.records import Loaded

FIELDS = ("id", "conversations", "category", "answerable")
YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class HubRow(NamedTuple):
    """One published row: a question about a photo, its answer, and whether the photo answers it."""

    place: str
    id: str
    category: Uncertainty
    answerable: bool
    question: str
    answer: str
    image: str
    """As written."""
    photo: ImageRef | None


def hub_files(path: Path) -> list[Path]:
    """The files at a path, one or those of a folder without a ``pairs.jsonl``, that hold published rows."""
    files = ([] if (path / FILE).is_file() else sorted(path.iterdir())) if path.is_dir() else [path]
    return [file for file in files if file.suffix in (".json", ".jsonl") and _is_published(file)]


def _is_published(file: Path) -> bool:
    try:
        _, row = next(_rows(file, Problems()), ("", {}))
    except (DataError, StorageError, ValueError):
        return False
    return "conversations" in row


def read_hub(path: Path, problems: Problems) -> Loaded[Pair]:
    """Pairs and single items of published files; a row that is none is a problem with its place."""
    pairs: dict[str, Pair] = {}
    for file in hub_files(path):
        for pair in _pairs_of(file, problems):
            while pair.id in pairs:  # rows of one id that are not one pair
                pair = pair.model_copy(update={"id": f"{pair.id}+"})
            pairs[pair.id] = pair
    return loaded(pairs, path, problems)


def _pairs_of(file: Path, problems: Problems) -> Iterator[Pair]:
    rows: list[HubRow] = []
    for place, row in _rows(file, problems):
        try:
            rows.append(_hub_row(place, row, file.parent))
        except ValueError as error:
            problems.add(f"{place} ({row.get('id', 'no id')})", str(error))
    split = next((name for name in ("train", "test") if name in file.stem), "")
    for rows_of_pair in _joined(rows):
        try:
            yield _pair_of(rows_of_pair, split)
        except ValidationError as error:
            first = rows_of_pair[0]
            problems.add(f"{first.place} ({first.id})", why_invalid(error))


def _rows(file: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    if file.suffix == ".jsonl":
        yield from json_lines(file, problems)
        return
    rows = loose_json(read_text(file))
    if not isinstance(rows, list):
        return
    for place, row in enumerate(rows):
        if isinstance(row, dict):
            yield f"{file.name}[{place}]", row
        else:
            problems.add(f"{file.name}[{place}]", "is no JSON object")


def _hub_row(place: str, row: Mapping[str, Any], folder: Path) -> HubRow:
    missing = [name for name in FIELDS if row.get(name) in (None, "")]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    texts: dict[str, str] = {}
    for turn in row["conversations"] if isinstance(row["conversations"], list) else ():
        if isinstance(turn, dict) and isinstance(turn.get("value"), str):
            texts.setdefault(str(turn.get("from")), turn["value"].replace("<image>", "").strip())
    answerable = YES_NO.get(str(row["answerable"]).strip().casefold())
    if not texts.get("human") or not texts.get("gpt") or answerable is None:
        raise ValueError("needs a human turn, a gpt turn, and answerable true or false")
    image = str(row.get("image") or "")
    return HubRow(
        place,
        str(row["id"]),
        Uncertainty(str(row["category"])),
        answerable,
        texts["human"],
        texts["gpt"],
        image,
        _photo(folder, image),
    )


def _photo(folder: Path, image: str) -> ImageRef | None:
    try:
        return image_in(folder, image) if image else None
    except (DataError, StorageError, ValueError):
        return None


KEYS: tuple[Callable[[HubRow], str], ...] = (
    lambda row: row.id,
    lambda row: folded(row.question),
    lambda row: row.image,
)
"""What two rows of a category share that are a pair, the surest first."""


def _joined(rows: list[HubRow]) -> list[list[HubRow]]:
    """Rows in their order, each with its partner where exactly one can be."""
    partner: dict[int, int] = {}
    for key in KEYS:
        groups: defaultdict[tuple[Uncertainty, str], list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            if place not in partner and key(row):
                groups[row.category, key(row)].append(place)
        for places in groups.values():
            if len(places) == 2 and _contrast(*(rows[place] for place in places)):
                partner |= {places[0]: places[1], places[1]: places[0]}
    return [
        [row, rows[partner[place]]] if place in partner else [row]
        for place, row in enumerate(rows)
        if partner.get(place, place) >= place
    ]


def _contrast(first: HubRow, second: HubRow) -> bool:
    """Whether two rows differ in what answers them, and in either the question or the photo."""
    same_question = folded(first.question) == folded(second.question)
    return first.answerable != second.answerable and same_question != (first.image == second.image)


def _pair_of(rows: list[HubRow], split: str) -> Pair:
    first = rows[0]
    texts: dict[str, Any] = {}
    for row in rows:
        if row.answerable:
            texts |= {"question": row.question, "answer": row.answer, "image": row.photo}
        else:
            texts |= {
                "idk_question": row.question,
                "idk_answer": row.answer or IDK,
                "idk_image": row.photo,
            }
    pictures = {row.image for row in rows if row.image}
    return Pair(
        id=first.id,
        category=first.category,
        route="image" if len(pictures) > 1 else "caption",
        split=split,
        source_ref=first.place,
        **texts,
    )
