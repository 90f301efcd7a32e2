"""The base class of the adapters: images with a status, problems of bad rows, unique ids.

An image is decoded whole when a sample first refers to it (`demur.core.images.image_ref`), so that no sample refers to
bytes that were never checked.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from demur.answers.choices import no_option
from demur.core.cells import is_empty, listed
from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.plugins import spelled
from demur.core.records import AnswerSpec, Document, Evidence, ImageRef, Modality, Piece, Sample
from demur.core.store import Problem, Problems
from demur.core.uris import picture_in, read_uri
from demur.corpora import NotDownloaded, picture_file
from demur.corpora.formats import Seen, archive_uris, json_lines
from demur.corpora.rows import bad_rows_noted, records
from demur.sources import DEFECT

T = TypeVar("T")

SUFFIXES = (".jpg", ".JPEG", ".jpeg", ".png", ".JPG", ".PNG", ".gif", ".webp")
"""Extensions tried, in this order, where a source names an image without one."""


class FoundImage(NamedTuple):
    """An image that a source names: its reference, or why there is none."""

    name: str
    ref: ImageRef | None
    status: str
    """ok | missing | unreadable | not downloaded"""


LONGEST_NAME = 255
"""Characters of a path in messages; what is longer is content or no file's name."""


KEPT = 100_000
"""Images whose references stay in memory (about 0.5 kB each)."""


class Images:
    """Images of a folder by uri; each is read and checked once while it stays among the last `KEPT`.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: OrderedDict[str, FoundImage] = OrderedDict()

    def at(self, uri: str, name: str = "", data: bytes | None = None) -> FoundImage:
        """The image behind a uri that `demur.core.uris.read_image` reads.

        Args:
            uri: relative to the folder.
            name: for messages; the uri if empty.
            data: its bytes, if they were read already.
        """
        if uri not in self._known:
            try:
                content = read_uri(uri, self.root) if data is None else data
                image = FoundImage(name or uri, image_ref(content, uri), "ok")
            except StorageError:
                image = FoundImage(name or uri, None, "missing")
            except (DataError, ValueError, LookupError):
                image = FoundImage(name or uri, None, "unreadable")
            self._known[uri] = image
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(uri)
        return self._known[uri]

    def file(self, relative: str) -> FoundImage:
        """The image at a path below the root; a path that leads out of it counts as missing."""
        return self.cell(relative, relative, in_place=False)

    def stem(self, relative: str) -> FoundImage:
        """The image at a path without its extension."""
        return first_there((self.file(relative + suffix) for suffix in SUFFIXES), relative)

    def cell(self, cell: Any, name: str, *, in_place: bool = True) -> FoundImage:
        """The image in a cell of a table, in any form that `demur.core.uris.picture_in` reads.

        Args:
            cell: as read.
            name: of the cell, for messages.
            in_place: the name is the uri that the cell's content can be read from again.
        """
        if not cell:
            return FoundImage(name, None, "missing")
        if isinstance(cell, str) and not in_place and len(cell) <= LONGEST_NAME:
            name = cell
        try:
            if in_place and isinstance(content := picture_in(cell), bytes):
                return self.at(name, data=content)
            path = picture_file(cell, self.root)
        except NotDownloaded as error:
            return FoundImage(f"{error.item} ({error.cure})", None, "not downloaded")
        except DataError:
            return FoundImage(name, None, "missing" if isinstance(cell, str) else "unreadable")
        try:
            exists = path.is_file()
        except OSError:  # the name is longer than any file's
            exists = False
        uri = path.relative_to(self.root).as_posix()
        return self.at(uri, name) if exists else FoundImage(uri, None, "missing")


def first_there(tries: Iterable[FoundImage], name: str) -> FoundImage:
    """The first that is not missing; else ``name`` as a missing image."""
    return next(
        (candidate for candidate in tries if candidate.status != "missing"),
        FoundImage(name, None, "missing"),
    )


@dataclass(frozen=True)
class SampleParts:
    """What an adapter reads of a row, from which `NativeSource.sample` makes a sample."""

    question: str
    """Blanks around it are removed."""
    answers: AnswerSpec
    native: Mapping[str, Any]
    """The row as read, without bytes."""
    images: Iterable[FoundImage] = ()
    """Of the question; a missing or unreadable one makes the sample defective."""
    gold: Iterable[Evidence] = ()
    """Repeats are removed, as among the negatives."""
    negatives: Iterable[Evidence] = ()
    """The source's own. One that is gold too is dropped and counted in ``notes``."""
    lacks: Iterable[str] = ()
    """Other defects: gold that is missing or unreadable."""
    missing: Iterable[str] = ()
    """Negatives that are missing or unreadable."""
    answerable: bool = True
    split: str = ""
    topic: str = ""
    cluster: str = ""
    """What samples share: an entity, an image."""
    licence: str = ""
    """Of the question; "" is that of the source."""
    attributes: Mapping[str, str] = field(default_factory=dict)


class OnceEach(Problems):
    """Problems without repeats, passed on to a target: a file may be read for samples and for documents."""

    def __init__(self, target: Problems | None = None) -> None:
        super().__init__()
        self._target = target
        self._noted = Seen()

    def note(self, problem: Problem) -> None:
        """Note a problem, unless it was noted before."""
        if self._noted.add(str(problem)):
            super().note(problem)
            if self._target is not None:
                self._target.note(problem)


class NativeSource:
    """Base of the adapters: options, problems, images and notes.

    Attributes:
        notes: harmless peculiarities of the data, counted by kind; ``check`` prints them.
    """

    name: ClassVar[str]
    licence: ClassVar[str] = ""
    """Of the questions, if the rows do not name one."""
    escaped: ClassVar[bool] = True
    """Whether HTML entities in texts are leftovers of the web pages that the publisher read, to be decoded."""
    names_gold: ClassVar[bool] = True
    """Whether the source says which evidence answers; where it has a knowledge base and does not, none is missed."""

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.root = Path(folder)
        self.problems: Problems = OnceEach(Problems() if problems is None else problems)
        self.images = Images(self.root)
        self.notes: Counter[str] = Counter()
        self._archives: dict[Path, dict[str, str]] = {}

    def make(self, place: str, id_: str, maker: Callable[[], T]) -> T | None:
        """A record, or None with the reason noted under place and id."""
        record = None
        with bad_rows_noted(self.problems, place, id_):
            record = maker()
        return record

    def records(
        self,
        rows: Iterable[tuple[str, str, tuple[Any, ...]]],
        maker: Callable[..., T],
        *,
        repeated: str = "",
    ) -> Iterator[T]:
        """As `demur.corpora.rows.records`, with the problems and notes of this source."""
        return records(rows, maker, self.problems, self.notes, repeated=repeated)

    def picture(self, cell: Any) -> ImageRef:
        """The image in a cell: a path below the folder, or content.

        Raises:
            DataError: it is missing, cannot be read, or lies outside the folder.
        """
        image = self.images.cell(cell, cell if isinstance(cell, str) else "image", in_place=False)
        if image.ref is None:
            picture_file(cell, self.root)
            raise DataError(
                f"picture {image.status}: {image.name}", cure="fetch it, or leave the row out"
            )
        return image.ref

    def kb_pictures(self) -> dict[str, str]:
        """Address -> path of each downloaded picture of the knowledge base, from ``kb_images.jsonl`` (url, file)."""
        file = self.root / "kb_images.jsonl"
        rows = json_lines(file, self.problems) if file.is_file() else ()
        return {str(row.get("url")): str(row.get("file")) for _, row in rows}

    def documents(self) -> Iterator[Document]:
        """No documents, for a source without a knowledge base."""
        yield from ()

    def members(self, archive: Path) -> dict[str, str]:
        """Member name -> uri of an archive in this folder, listed once; empty (and noted) when it is broken."""
        if archive not in self._archives:
            try:
                self._archives[archive] = archive_uris(
                    archive, archive.relative_to(self.root).as_posix()
                )
            except DataError as error:
                self.problems.add(archive.name, str(error))
                self._archives[archive] = {}
        return self._archives[archive]

    def sample(self, place: str, id_: str, parts: SampleParts) -> Sample:
        """A sample of this source; what it lacks goes into its attributes and the problems.

        Args:
            place: of the row.
            id_: of the row; not empty.

        Raises:
            DataError: the row has no id, or its answer names none of its options.
        """
        if not id_:
            raise DataError("no id", cure="mend the row or leave it out")
        if unusable := no_option(parts.answers):
            raise DataError(unusable, cure="write an option's label or text")
        question, answers = parts.question, parts.answers
        gold, negatives = parts.gold, parts.negatives
        if self.escaped:
            question, answers = decode_entities(question), _readable_answers(answers)
            gold, negatives = (
                map(with_entities_decoded, gold),
                map(with_entities_decoded, negatives),
            )
        pictures, distinct_gold, distinct_negatives = (
            list(parts.images),
            *self._distinct(gold, negatives),
        )
        lacks = [
            f"query image {image.status}: {image.name}" for image in pictures if image.ref is None
        ]
        lacks += parts.lacks
        missing = list(parts.missing)
        for statement in (*missing, *lacks):
            self.problems.add(place, statement, id_)
        defects = {"missing_negatives": "; ".join(missing), DEFECT: "; ".join(lacks)}
        return Sample(
            id=id_,
            source=self.name,
            question=question.strip(),
            answers=answers,
            answerable=parts.answerable,
            images=tuple(image.ref for image in pictures if image.ref),
            gold=tuple(distinct_gold),
            negatives=tuple(distinct_negatives),
            split=parts.split,
            topic=parts.topic,
            cluster=parts.cluster,
            licence=parts.licence or self.licence,
            attributes={
                **parts.attributes,
                **{name: text for name, text in defects.items() if text},
            },
            native=dict(parts.native),
            source_ref=place,
        )

    def _distinct(
        self, gold: Iterable[Evidence], others: Iterable[Evidence]
    ) -> tuple[list[Evidence], list[Evidence]]:
        """Gold and negatives without repeats, by id or by content; repeats are counted."""
        seen: set[str] = set()

        def fresh(items: Iterable[Evidence]) -> Iterator[Evidence]:
            for item in items:
                if item.image is not None and item.modality is Modality.IMAGE:
                    content = item.image.sha256
                else:
                    content = " ".join((item.text or "").casefold().split()) or item.id
                keys = {item.id, content}
                if keys & seen:
                    self.notes[
                        "pieces of evidence dropped because they repeat another of the same sample"
                    ] += 1
                else:
                    seen.update(keys)
                    yield item

        return list(fresh(gold)), list(fresh(others))

    def need(self, *names: str) -> Path:
        """The first of these files that is in the folder.

        Raises:
            UsageError: there is none; the message lists the files of the folder.
        """
        for name in names:
            if (self.root / name).is_file():
                return self.root / name
        name = spelled("sources", type(self), self.name)
        held_names = sorted(path.name for path in self.root.iterdir())[:12]
        raise UsageError(
            f"{self.name}: none of {', '.join(names)} in {self.root}; it holds {', '.join(held_names) or 'nothing'}",
            cure=f"see 'demur sources show {name}' for the layout",
        )


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")


def decode_entities(text: str) -> str:
    """The text with its HTML entities decoded once; an ampersand alone stays.

    >>> decode_entities("AT&amp;T &amp;lt; x?a=1&copy=2")
    'AT&T &lt; x?a=1&copy=2'
    """
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def with_entities_decoded(item: Piece) -> Piece:
    """A document or a piece of evidence with the entities of its title and text decoded."""
    if "&" not in f"{item.title}{item.text}":
        return item
    text = None if item.text is None else decode_entities(item.text)
    return item.model_copy(update={"title": decode_entities(item.title), "text": text})


def _readable_answers(answers: AnswerSpec) -> AnswerSpec:
    accepted = tuple(tuple(map(decode_entities, form)) for form in answers.accepted)
    choices = tuple((label, decode_entities(text)) for label, text in answers.choices)
    canonical = decode_entities(answers.canonical)
    return answers.model_copy(
        update={"accepted": accepted, "choices": choices, "canonical": canonical}
    )


def named_splits(
    source: str, option: str, known_splits: Sequence[str], unlabelled: Sequence[str] = ()
) -> list[str]:
    """The splits that an option names, separated by commas, or ``all`` for every labelled one.

    Raises:
        UsageError: no such split, or one whose answers are not public.
    """
    names = (
        list(known_splits)
        if option == "all"
        else [part.strip() for part in option.split(",") if part.strip()]
    )
    for name in names:
        if name in unlabelled:
            raise UsageError(
                f"{source}: split {name!r} has no public answers",
                cure=f"use one of {', '.join(known_splits)} instead",
            )
        if name not in known_splits:
            raise UsageError(
                f"{source}: no split {name!r}; known: {', '.join((*known_splits, 'all'))}",
                cure="check the name",
            )
    return names


def one_of(source: str, option: str, value: str, *known_values: str) -> str:
    """The value of an option that takes one of ``known_values``.

    Raises:
        UsageError: the option does not take it.
    """
    if value not in known_values:
        raise UsageError(
            f"{source}: {option} is {value!r}", cure=f"give {' or '.join(known_values)}"
        )
    return value


def fields_as_attributes(row: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, str]:
    """Fields of a row as attributes: "" for a missing one, lists with commas; ``new=old`` renames a field.

    >>> row = {"aspect": "angle", "kinds": ["a", "b"], "source": None}
    >>> fields_as_attributes(row, "aspect", "kinds", origin="source")
    {'aspect': 'angle', 'kinds': 'a,b', 'origin': ''}
    """
    attributes = {}
    for new, old in (*zip(names, names, strict=True), *renamed.items()):
        attributes[new] = ",".join(map(str, items(row.get(old))))
    return attributes


_TRUE = frozenset({"true", "1", "1.0", "yes", "y", "t"})
_FALSE = frozenset({"false", "0", "0.0", "no", "n", "f"})


def read_truth(cell: Any, name: str) -> bool | None:
    """Whether a cell says yes; None if it is empty.

    Args:
        name: of its column, for the message.

    Raises:
        DataError: it says neither yes nor no.
    """
    if is_empty(cell):
        return None
    cell_value = str(cell).strip().lower()
    if cell_value not in _TRUE | _FALSE:
        raise DataError(
            f"{name} holds {cell_value!r}", cure="write true or false, or leave it empty if unknown"
        )
    return cell_value in _TRUE


def items(value: Any) -> list[Any]:
    """The items of a list (`demur.core.cells.listed`) that are not null."""
    return [item for item in listed(value) if item is not None]


def remove_quotes(text: str) -> str:
    """A text without the literal double quotes around all of it (WebQA's image questions and answers).

    >>> remove_quotes('"Are both round?"'), remove_quotes('"A" or "B"'), remove_quotes('"Is "A" red?"')
    ('Are both round?', '"A" or "B"', 'Is "A" red?')
    """
    stripped = text.strip()
    if len(stripped) < 2 or not stripped[0] == stripped[-1] == '"':
        return stripped
    inner = stripped[1:-1]
    mark = inner.find('"')
    if mark > 0 and not inner[mark - 1].isspace():  # it closes a first quotation
        return stripped
    return inner.strip()


def text_of(row: dict[str, Any], field: str) -> str:
    """A required text field.

    Raises:
        DataError: absent, not text, or blank.
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"field {field!r} holds {value!r}, expected text", cure="mend the row or leave it out"
        )
    return value
