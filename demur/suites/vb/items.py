"""The records of VB: families of two photos and two questions, and what a model said of their four cells.

    BASE         (base photo,   base question)     the claim is refuted
    TEXT_FLIP    (base photo,   edited question)   the text edit alone makes it true
    IMAGE_FLIP   (edited photo, base question)     the image edit alone makes it true
    DOUBLE_FLIP  (edited photo, edited question)   both: refuted again; a diagnostic, in no headline figure

Families are read from the wide CSV sheets that such runs are published in (a row a family, a column a cell and
model, images beside the sheet or not at all), from ``families.jsonl``, or from a folder that holds either.
Source: "VB: Visibility Benchmark", sections 4.1 to 4.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import ImageRef, Record
from demur.core.store import Problems, storage_errors, why_invalid
from demur.core.uris import read_uri
from demur.corpora.formats import csv_rows, inside, json_lines
from demur.suites.base import image_beside


class Label(StrEnum):
    """What the photo says of a claim."""

    TRUE = "VISIBLY_TRUE"
    FALSE = "VISIBLY_FALSE"
    ABSTAIN = "ABSTAIN"


class Cell(StrEnum):
    """The four cells of a family, in the order of its ``gold``."""

    BASE = "BASE"
    TEXT_FLIP = "TEXT_FLIP"
    IMAGE_FLIP = "IMAGE_FLIP"
    DOUBLE_FLIP = "DOUBLE_FLIP"


CELLS = tuple(Cell)
HEADLINE = CELLS[:3]
"""The cells that the score is made of."""
XOR = (Label.FALSE, Label.TRUE, Label.TRUE, Label.FALSE)
"""Gold of a strict family."""


class Category(StrEnum):
    """The primary visibility factor of a family: exactly one."""

    GAZE_DIRECTION = "GAZE_DIRECTION"
    OCCLUSION = "OCCLUSION"
    OUT_OF_FRAME = "OUT_OF_FRAME"
    LIGHTING_DISTANCE = "LIGHTING_DISTANCE"
    INHERENTLY_NONVISUAL = "INHERENTLY_NONVISUAL"
    AUGMENTED_VISION_REQUIRED = "AUGMENTED_VISION_REQUIRED"
    INSUFFICIENT_CONTEXT = "INSUFFICIENT_CONTEXT"
    MULTI_AGENT_SECOND_ORDER = "MULTI_AGENT_SECOND_ORDER"


PREFIXES = dict(zip(("GD", "OC", "OF", "LD", "NV", "AV", "IC", "MA"), Category, strict=True))
"""First letters of a family's id in the published sheets -> its category."""
WHAT_IT_TESTS = {
    Category.GAZE_DIRECTION: "where a head and eyes point",
    Category.OCCLUSION: "something opaque in the line of sight",
    Category.OUT_OF_FRAME: "a target outside the picture",
    Category.LIGHTING_DISTANCE: "darkness, glare, or distance",
    Category.INHERENTLY_NONVISUAL: "what no picture can show",
    Category.AUGMENTED_VISION_REQUIRED: "what only magnification would show",
    Category.INSUFFICIENT_CONTEXT: "unclear referents, missing facts of the scene",
    Category.MULTI_AGENT_SECOND_ORDER: "what one person knows of another's view",
}
AGENTS = 2
"""Agents that a second-order family names at least."""


class Family(Record):
    """One family: two photos and two questions, crossed.

    Attributes:
        id: unique in a set; published ids begin with the category (``GD-06``).
        category: the primary visibility factor.
        questions: base and text-edited question.
        images: base and edited photo; None where the set came without its photos.
        gold: labels of BASE, TEXT_FLIP, IMAGE_FLIP and DOUBLE_FLIP.
        agents: who is named in a second-order family.
        provenance: how the photos were made: source, edit, parameters.
    """

    id: str = Field(min_length=1)
    category: Category
    questions: tuple[str, str]
    images: tuple[ImageRef | None, ImageRef | None] = (None, None)
    gold: tuple[Label, Label, Label, Label] = XOR
    agents: tuple[str, ...] = ()
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""
    source_ref: str = ""
    """File and line."""

    @model_validator(mode="after")
    def _two_by_two(self) -> Self:
        base, edited = (" ".join(q.split()) for q in self.questions)
        if not base or not edited:
            raise ValueError("a question is empty")
        if base.casefold() == edited.casefold():
            raise ValueError("both questions are the same: the text edit is missing")
        one, other = self.images
        if one is not None and other is not None and one.sha256 == other.sha256:
            raise ValueError("both images have the same bytes: the image edit is missing")
        if self.gold != XOR and Label.ABSTAIN not in self.gold:
            given = ", ".join(self.gold)
            raise ValueError(
                f"gold is {given}; a family without ABSTAIN follows {', '.join(XOR)} (each edit alone flips the claim)"
            )
        return self

    @property
    def strict(self) -> bool:
        """Whether its gold follows the XOR pattern: only such families are in headline figures."""
        return self.gold == XOR

    @property
    def second_order(self) -> bool:
        """Whether it asks what one agent knows of another's view."""
        return self.category is Category.MULTI_AGENT_SECOND_ORDER

    def cell_id(self, cell: Cell) -> str:
        """Id of one cell: ``GD-06/BASE``."""
        return f"{self.id}/{cell}"

    def question(self, cell: Cell) -> str:
        """The question asked in a cell."""
        return self.questions[cell in (Cell.TEXT_FLIP, Cell.DOUBLE_FLIP)]

    def image(self, cell: Cell) -> ImageRef | None:
        """The photo shown in a cell."""
        return self.images[cell in (Cell.IMAGE_FLIP, Cell.DOUBLE_FLIP)]


class FamilyLine(Record):
    """A line of ``families.jsonl``; image paths are relative to the file."""

    id: str
    category: Category
    base_question: str
    edited_question: str
    base_image: str = ""
    edited_image: str = ""
    gold: dict[Cell, Label] | None = None
    """All four cells; the XOR pattern when left out."""
    agents: tuple[str, ...] = ()
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""


# --- reading -------------------------------------------------------------------------------------

SHEET_CELLS = {"I0q0": Cell.BASE, "I0q1": Cell.TEXT_FLIP, "I1q0": Cell.IMAGE_FLIP, "I1q1": Cell.DOUBLE_FLIP}
"""Cells by their name in the sheets' columns, ``<model>_I0q1_json``."""
_OUTPUT = re.compile(r"(?P<model>.+)_(?P<cell>I[01]q[01])_json")
_PRONOUN = re.compile(r"\b(?:he|she|they|him|her|them|his|their|it)\b", re.IGNORECASE)
IMAGE_FOLDERS = ("Images/Images", "Images", "Images Sheet Versions", "images", "")
"""Where the photos of a sheet are looked for, by their file name alone, below the sheet's folder."""


class Sheet(NamedTuple):
    """What a file or folder of families held.

    Attributes:
        families: in the order of the file.
        outputs: model -> cell id -> the text it replied; of sheets alone.
        notes: harmless peculiarities and how often they were met.
    """

    families: tuple[Family, ...]
    outputs: dict[str, dict[str, str]]
    notes: Counter[str]


def files_of(path: Path) -> list[Path]:
    """The files of families at a path: the file itself, or the ``families.jsonl`` or sheets of a folder.

    Raises:
        UsageError: nothing of that kind is there.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(
            "no such file or folder", item=str(path), cure="name a sheet (.csv), a .jsonl, or their folder"
        )
    lines = path / "families.jsonl"
    found = [lines] if lines.is_file() else sorted(p for p in path.glob("*.csv"))
    if not found:
        held = ", ".join(sorted(p.name for p in path.iterdir())[:8]) or "nothing"
        raise UsageError(
            f"holds neither families.jsonl nor a sheet (.csv), but {held}", item=str(path),
            cure="see docs/suites.md for both layouts; 'demur suite build vb' makes a small set",
        )  # fmt: skip
    return found


def read(path: Path, problems: Problems) -> Sheet:
    """Read families, and the outputs that stand beside them in sheets.

    Several sheets of one folder (one a model) may repeat the same families.

    Raises:
        UsageError: nothing readable is at ``path``.
    """
    families: dict[str, Family] = {}
    outputs: dict[str, dict[str, str]] = {}
    notes: Counter[str] = Counter()
    for file in files_of(path):
        mine: set[str] = set()
        rows = _sheet(file, problems, notes) if file.suffix.lower() == ".csv" else _jsonl(file, problems)
        for place, family, said in rows:
            where = f"{place} ({family.id})"
            known = families.setdefault(family.id, family)
            photos = [
                (one.sha256, other.sha256)
                for one, other in zip(known.images, family.images, strict=True)
                if one is not None and other is not None
            ]
            if family.id in mine:
                problems.add(where, "this family stands in an earlier row too; the first is kept")
            elif known.questions != family.questions:
                problems.add(where, f"has other questions than in {known.source_ref}")
            elif any(one != other for one, other in photos):
                problems.add(where, f"has other photos than in {known.source_ref}")
            else:  # what was said of another family of that name is not this one's
                _merge(outputs, said, family, where, problems)
            mine.add(family.id)
    for family in families.values():
        for remark in remarks(family):
            notes[remark] += 1
    return Sheet(tuple(families.values()), outputs, notes)


def _merge(
    outputs: dict[str, dict[str, str]],
    said: Mapping[str, Mapping[Cell, str]],
    family: Family,
    where: str,
    problems: Problems,
) -> None:
    """Add what models said of a family; a cell that two sheets fill differently keeps the first, and is told."""
    for model, cells in said.items():
        held = outputs.setdefault(model, {})
        for cell, text in cells.items():
            if held.setdefault(family.cell_id(cell), text) != text:
                problems.add(where, f"an earlier sheet has another output of {model!r} for {cell}; the first is kept")


def _made(place: str, id: str, problems: Problems, **fields: Any) -> Family | None:
    try:
        return Family(id=id, source_ref=place, **fields)
    except ValidationError as error:
        problems.add(f"{place} ({id or 'no id'})", why_invalid(error))
        return None


def _jsonl(file: Path, problems: Problems) -> Iterator[tuple[str, Family, dict[str, dict[Cell, str]]]]:
    for place, row in json_lines(file, problems):
        name = str(row.get("id", "no id"))
        try:
            line = FamilyLine.model_validate(row)
        except ValidationError as error:
            problems.add(f"{place} ({name})", why_invalid(error))
            continue
        missing = [cell for cell in CELLS if line.gold is not None and cell not in line.gold]
        if missing:
            problems.add(f"{place} ({name})", f"gold lacks {', '.join(missing)}; give all four cells or leave gold out")
            continue
        if line.category is Category.MULTI_AGENT_SECOND_ORDER and (why := _unnamed(line)):
            problems.add(f"{place} ({name})", why)
            continue
        before = len(problems)
        images = [_image(file, name, place, line.id, problems) for name in (line.base_image, line.edited_image)]
        if len(problems) > before:  # a family whose photo is named and cannot be read is a bad one
            continue
        family = _made(
            place, line.id, problems, category=line.category, questions=(line.base_question, line.edited_question),
            images=tuple(images), gold=XOR if line.gold is None else tuple(line.gold[cell] for cell in CELLS),
            agents=line.agents, provenance=line.provenance, licence=line.licence,
        )  # fmt: skip
        if family is not None:
            yield place, family, {}


def _unnamed(line: FamilyLine) -> str:
    """Why a second-order family does not name its agents; "" when it does."""
    if len(set(line.agents)) < AGENTS:
        return f"a second-order family names its agents: give 'agents' with at least {AGENTS} names"
    for question in (line.base_question, line.edited_question):
        lost = [a for a in line.agents if not re.search(rf"(?<!\w){re.escape(a)}(?!\w)", question, re.IGNORECASE)]
        if lost:
            return f"the agent {lost[0]!r} is not named in the question {question!r}"
    return ""


def _image(file: Path, name: str, place: str, id: str, problems: Problems) -> ImageRef | None:
    if not name:
        return None
    try:
        return image_beside(file, name)
    except DataError as error:
        problems.add(f"{place} ({id})", str(error))
        return None


def _sheet(
    file: Path, problems: Problems, notes: Counter[str]
) -> Iterator[tuple[str, Family, dict[str, dict[Cell, str]]]]:
    held = _photos(file.parent)
    for place, row in csv_rows(file, problems, required=("base_question", "flip_question"), mend=True):
        id = (row.get("ID") or row.get("id") or "").strip()
        if row.get("Status", "Done").strip().lower() != "done":
            notes["rows whose Status is not Done, left out"] += 1
            continue
        category = PREFIXES.get(id.partition("-")[0].upper())
        if category is None:
            problems.add(
                f"{place} ({id or 'no id'})",
                f"the id begins with none of {', '.join(PREFIXES)}, so its category is unknown",
            )
            continue
        images = tuple(_photo(file.parent, held, row.get(name, ""), notes) for name in ("pic_base", "pic_flip"))
        if None in images:
            notes["families without their photos beside the sheet: outputs can be scored, nobody can be asked"] += 1
        change, where = row.get("flip_change", "").strip(), row.get("indoor_outdoor", "").strip()
        family = _made(
            place, id, problems, category=category, questions=(row["base_question"], row["flip_question"]),
            images=images,
            provenance={k: v for k, v in {"image_edit": change, "where": where}.items() if v},
        )  # fmt: skip
        if family is None:
            continue
        said: dict[str, dict[Cell, str]] = {}
        for column, text in row.items():
            named = _OUTPUT.fullmatch(column or "")
            if named and named["cell"] in SHEET_CELLS:
                said.setdefault(named["model"], {})[SHEET_CELLS[named["cell"]]] = text or ""
        yield place, family, said


def _photos(folder: Path) -> dict[str, str]:
    """File name -> path below ``folder`` of what lies where a sheet's photos may; the first of `IMAGE_FOLDERS` wins."""
    held: dict[str, str] = {}
    for place in reversed(IMAGE_FOLDERS):
        if (folder / place).is_dir():
            with storage_errors(folder / place):
                names = [entry.name for entry in (folder / place).iterdir()]
            held |= {name: (PurePosixPath(place) / name).as_posix() for name in names}
    return held


def _photo(folder: Path, held: Mapping[str, str], given: str, notes: Counter[str]) -> ImageRef | None:
    """A photo of a sheet: only its file name matters (the paths are those of somebody else's machine)."""
    uri = held.get(PurePosixPath(PureWindowsPath(given.strip()).name).name)
    if uri is None:
        return None
    try:
        inside(folder, uri)
        return image_ref(read_uri(uri, folder), uri)
    except (DataError, StorageError):
        notes["photos beside the sheet that cannot be read: no image, broken, or a link out of the folder"] += 1
        return None


def remarks(family: Family) -> list[str]:
    """What a careful author would look at again; none of it keeps a family out."""
    found = []
    if not family.strict:
        found.append("families with an ABSTAIN gold label: kept, and scored apart from the headline")
    if family.second_order and not family.agents and any(_PRONOUN.search(q) for q in family.questions):
        found.append("second-order questions that use a pronoun where an agent's name is asked for")
    return found


def statistics(families: Iterable[Family]) -> dict[Category, dict[str, int]]:
    """Families, strict ones, and distinct base photos by category, like Table 1."""
    table: dict[Category, dict[str, int]] = {c: {"families": 0, "strict": 0, "photos": 0} for c in Category}
    photos: dict[Category, set[str]] = {c: set() for c in Category}
    for family in families:
        row = table[family.category]
        row["families"] += 1
        row["strict"] += family.strict
        if family.images[0] is not None:
            photos[family.category].add(family.images[0].sha256)
    for category, row in table.items():
        row["photos"] = len(photos[category])
    return table


def line_of(family: Family, images: Mapping[int, str]) -> dict[str, Any]:
    """The ``families.jsonl`` line of a family, with its photos at these paths (0 base, 1 edited)."""
    line = FamilyLine(
        id=family.id, category=family.category, base_question=family.questions[0],
        edited_question=family.questions[1], base_image=images[0], edited_image=images[1],
        gold=dict(zip(CELLS, family.gold, strict=True)), agents=family.agents, provenance=family.provenance,
        licence=family.licence,
    )  # fmt: skip
    return line.model_dump(mode="json")
