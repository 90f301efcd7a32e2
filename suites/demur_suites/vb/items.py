"""The records of VB: families of two photos and two questions, and the replies of models to their four cells.

    BASE         (base photo,   base question)     the claim is refuted
    TEXT_FLIP    (base photo,   edited question)   the text edit alone makes it true
    IMAGE_FLIP   (edited photo, base question)     the image edit alone makes it true
    DOUBLE_FLIP  (edited photo, edited question)   both: refuted again; a diagnostic, in no headline figure

Families are read from the wide CSV sheets in which such runs are published (one row a family, one column for each
model and cell, images beside the sheet or not at all), from ``families.jsonl``, or from a folder that holds either.
Source: "VB: Visibility Benchmark", sections 4.1 to 4.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import rgb
from demur.core.records import ImageRef, Record, Response
from demur.core.store import Problems, storage_errors, why_invalid
from demur.core.uris import read_image
from demur.corpora.formats import csv_rows, json_lines
from demur_suites.files import folder_of, image_in, images_beside
from demur_suites.records import Loaded


class Label(StrEnum):
    """Whether the photo supports a claim."""

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
"""The cells of the headline figures."""
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
"""Least number of agents that a second-order family names."""


class Family(Record):
    """One family: two photos and two questions, crossed.

    Attributes:
        id: unique in a set; published ids begin with the category (``GD-06``).
        category: the primary visibility factor.
        questions: base and text-edited question; both empty where the set came without them.
        images: base and edited photo; None where the set came without its photos.
        gold: labels of BASE, TEXT_FLIP, IMAGE_FLIP and DOUBLE_FLIP.
        agents: names of the people in a second-order family.
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
        if bool(base) != bool(edited):
            raise ValueError("a question is empty")
        if base and base.casefold() == edited.casefold():
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
    base_question: str = Field(min_length=1)
    edited_question: str = Field(min_length=1)
    base_image: str = ""
    edited_image: str = ""
    gold: dict[Cell, Label] | None = None
    """All four cells; the XOR pattern when left out."""
    agents: tuple[str, ...] = ()
    provenance: dict[str, str] = Field(default_factory=dict)
    licence: str = ""


# --- reading -------------------------------------------------------------------------------------

SHEET_CELLS = {
    "I0q0": Cell.BASE,
    "I0q1": Cell.TEXT_FLIP,
    "I1q0": Cell.IMAGE_FLIP,
    "I1q1": Cell.DOUBLE_FLIP,
}
"""Cells by their name in the sheets' columns, ``<model>_I0q1_json``."""
_OUTPUT = re.compile(r"(?P<model>.+)_(?P<cell>I[01]q[01])_json")
_PRONOUN = re.compile(r"\b(?:he|she|they|him|her|them|his|their|it)\b", re.IGNORECASE)
IMAGE_FOLDERS = ("Images/Images", "Images", "Images Sheet Versions", "images", "")
"""Folders below a sheet's that may hold its photos; photos are found by their file name alone."""
Read = tuple[Family, dict[str, dict[Cell, str]]]
"""A family, and model -> cell -> reply."""


def files_of(path: Path) -> list[Path]:
    """The files of families at a path: the file itself, or the ``families.jsonl`` or sheets of a folder.

    Raises:
        UsageError: nothing of that kind is there.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(
            "no such file or folder",
            item=str(path),
            cure="name a sheet (.csv), a .jsonl, or their folder",
        )
    lines = path / "families.jsonl"
    found = (
        [lines]
        if lines.is_file()
        else sorted(p for p in path.iterdir() if p.suffix.lower() == ".csv")
    )
    if not found:
        held = ", ".join(sorted(p.name for p in path.iterdir())[:8]) or "nothing"
        raise UsageError(
            f"holds neither families.jsonl nor a sheet (.csv), but {held}",
            item=str(path),
            cure="see suites/docs/vb.md for both layouts; 'demur suite build vb' makes a small set",
        )
    return found


def read(path: Path, problems: Problems) -> Loaded[Family]:
    """Read families, and the replies that sheets hold beside them.

    Several sheets of one folder (one a model) may repeat the same families.

    Raises:
        UsageError: nothing readable is at ``path``.
    """
    families: dict[str, Family] = {}
    outputs: dict[str, dict[str, Response]] = {}
    notes: Counter[str] = Counter()
    for file in files_of(path):
        seen: set[str] = set()
        for where, (family, replies) in _families(file, problems, notes):
            known = families.setdefault(family.id, family)
            if not any(known.questions) and any(family.questions):
                known = families[family.id] = known.model_copy(
                    update={"questions": family.questions}
                )
            photos = [
                (a.sha256, b.sha256)
                for a, b in zip(known.images, family.images, strict=True)
                if a and b
            ]
            if family.id in seen:
                problems.add(where, "an earlier row holds this family too; the first is kept")
            elif any(family.questions) and known.questions != family.questions:
                problems.add(where, f"has other questions than in {known.source_ref}")
            elif any(a != b for a, b in photos):
                problems.add(where, f"has other photos than in {known.source_ref}")
            else:
                _merge(outputs, replies, family, where, problems)
            seen.add(family.id)
    folder = folder_of(path)
    for family in families.values():  # what an author may want to check; none excludes a family
        if differs_much(family, folder):
            notes["families whose two photos differ in more than a small edit"] += 1
        if not any(family.questions):
            notes[
                "families without their questions: outputs can be scored, no system can be asked"
            ] += 1
        if not family.strict:
            notes["families with an ABSTAIN gold label: scored apart from the headline"] += 1
        if (
            family.second_order
            and not family.agents
            and any(map(_PRONOUN.search, family.questions))
        ):
            notes["second-order questions with a pronoun instead of an agent's name"] += 1
    return Loaded(tuple(families.values()), folder, outputs, notes)


SMALL_EDIT = 0.35
"""Share of a photo that a small edit may change."""


def differs_much(family: Family, folder: Path) -> bool:
    """Whether a family's photos differ in more than `SMALL_EDIT` of their area, or in their form."""
    from PIL import Image

    base, edited = family.images
    if base is None or edited is None:
        return False
    if abs(base.width / base.height - edited.width / edited.height) > 0.05:
        return True
    small = [
        np.asarray(
            rgb(read_image(photo, folder)).convert("L").resize((64, 64), Image.Resampling.BOX)
        ).astype(int)
        for photo in (base, edited)
    ]
    return float((np.abs(small[0] - small[1]) > 24).mean()) > SMALL_EDIT


def _merge(
    outputs: dict[str, dict[str, Response]],
    replies: Mapping[str, Mapping[Cell, str]],
    family: Family,
    where: str,
    problems: Problems,
) -> None:
    """Add the replies to a family; of a cell that two sheets fill differently the first is kept."""
    for model, cells in replies.items():
        held = outputs.setdefault(model, {})
        for cell, text in cells.items():
            if held.setdefault(family.cell_id(cell), Response(text=text)).text != text:
                problems.add(
                    where,
                    f"an earlier sheet has another output of {model!r} for {cell}; the first is kept",
                )


def _families(file: Path, problems: Problems, notes: Counter[str]) -> Iterator[tuple[str, Read]]:
    """The sound families of a file, each with its place and id; the others are problems."""
    family_of: Callable[[str, Mapping[str, Any]], Read | None]
    if file.suffix.lower() == ".csv":
        held = _photos(file.parent)
        rows = csv_rows(file, problems, mend=True)
        family_of = partial(_of_sheet, file.parent, held, notes)
    else:
        rows = json_lines(file, problems)
        family_of = partial(_of_line, file)
    for place, row in rows:
        where = f"{place} ({str(row.get('ID') or row.get('id') or 'no id').strip()})"
        try:
            if (family_and_replies := family_of(place, row)) is not None:
                yield where, family_and_replies
        except ValidationError as error:
            problems.add(where, why_invalid(error))
        except (DataError, ValueError) as error:
            problems.add(where, str(error))


def _of_line(file: Path, place: str, row: Mapping[str, Any]) -> Read:
    """The family of a line of ``families.jsonl``; raises ValueError or DataError for a bad one."""
    line = FamilyLine.model_validate(row)
    missing = [cell for cell in CELLS if line.gold is not None and cell not in line.gold]
    if missing:
        raise ValueError(f"gold lacks {', '.join(missing)}; give all four cells or leave gold out")
    if line.category is Category.MULTI_AGENT_SECOND_ORDER:
        _check_agents(line)
    base, edited = images_beside(file, (line.base_image, line.edited_image))
    return Family(
        id=line.id,
        source_ref=place,
        category=line.category,
        questions=(line.base_question, line.edited_question),
        images=(base, edited),
        gold=XOR if line.gold is None else tuple(line.gold[cell] for cell in CELLS),
        agents=line.agents,
        provenance=line.provenance,
        licence=line.licence,
    ), {}


def _check_agents(line: FamilyLine) -> None:
    """Raise ValueError where a second-order family does not name its agents in both questions."""
    if len(set(line.agents)) < AGENTS:
        raise ValueError(
            f"a second-order family names its agents: give 'agents' with at least {AGENTS} names"
        )
    for question in (line.base_question, line.edited_question):
        for agent in line.agents:
            if not re.search(rf"(?<!\w){re.escape(agent)}(?!\w)", question, re.IGNORECASE):
                raise ValueError(f"the agent {agent!r} is not named in the question {question!r}")


def _of_sheet(
    folder: Path, held: Mapping[str, str], notes: Counter[str], place: str, row: Mapping[str, str]
) -> Read | None:
    """The family of a row of a sheet, with its replies; None for a row that is not done."""
    id = (row.get("ID") or row.get("id") or "").strip()
    if row.get("Status", "Done").strip().lower() != "done":
        notes["rows whose Status is not Done, left out"] += 1
        return None
    category = PREFIXES.get(id.partition("-")[0].upper())
    if category is None:
        raise ValueError(
            f"the id begins with none of {', '.join(PREFIXES)}, so its category is unknown"
        )
    replies: dict[str, dict[Cell, str]] = {}
    for column, text in row.items():
        named = _OUTPUT.fullmatch(column or "")
        if named and named["cell"] in SHEET_CELLS:
            replies.setdefault(named["model"], {})[SHEET_CELLS[named["cell"]]] = text or ""
    questions = (row.get("base_question", ""), row.get("flip_question", ""))
    if not replies and not any(questions):
        raise ValueError(
            "the sheet has neither questions (base_question, flip_question) nor outputs"
        )
    base, edited = (
        _photo(folder, held, row.get(name, ""), notes) for name in ("pic_base", "pic_flip")
    )
    if base is None or edited is None:
        notes[
            "families without their photos beside the sheet: outputs can be scored, no system can be asked"
        ] += 1
    about = {
        "image_edit": row.get("flip_change", "").strip(),
        "where": row.get("indoor_outdoor", "").strip(),
    }
    family = Family(
        id=id,
        source_ref=place,
        category=category,
        questions=questions,
        images=(base, edited),
        provenance={k: v for k, v in about.items() if v},
    )
    return family, replies


def _photos(folder: Path) -> dict[str, str]:
    """File name -> path below ``folder`` of the files in `IMAGE_FOLDERS`; the first folder wins."""
    held: dict[str, str] = {}
    for place in reversed(IMAGE_FOLDERS):
        if (folder / place).is_dir():
            with storage_errors(folder / place):
                names = [entry.name for entry in (folder / place).iterdir()]
            held |= {name: (PurePosixPath(place) / name).as_posix() for name in names}
    return held


def _photo(
    folder: Path, held: Mapping[str, str], given: str, notes: Counter[str]
) -> ImageRef | None:
    """A photo of a sheet by its file name; the rest of the path is of another machine."""
    uri = held.get(PurePosixPath(PureWindowsPath(given.strip()).name).name)
    if uri is None:
        return None
    try:
        return image_in(folder, uri)
    except (DataError, StorageError, ValueError):
        notes[
            "photos beside the sheet that cannot be read: no image, broken, or a link out of the folder"
        ] += 1
        return None
