"""What the adapters of published datasets share: images with a status, bad rows noted, ids kept unique.

Images are described when they are first asked for (`demur.store.image_ref` decodes them whole), so that a sample
never refers to bytes that nobody has seen.
"""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import ValidationError

from demur.curation.sources import DEFECT
from demur.errors import DataError, StorageError, UsageError
from demur.formats import Seen, archive_uris, inside
from demur.records import Evidence, ImageRef, Modality
from demur.store import Problems, image_ref, read_uri, why_invalid

T = TypeVar("T")

SUFFIXES = (".jpg", ".JPEG", ".jpeg", ".png", ".JPG", ".PNG", ".gif", ".webp")
"""Extensions tried, in this order, where a source names an image without one."""


WIKIPEDIA_TEXT = "CC-BY-SA"
WIKIMEDIA_FILE = "that of its Wikimedia file"
"""Licences of what sources took from there: that of a picture is stated on the page of its file."""


class Found(NamedTuple):
    """An image that was asked for: its reference, or why there is none."""

    name: str
    ref: ImageRef | None
    status: str
    """ok | missing | unreadable"""


class Images:
    """Images of a folder by uri, each read and checked once while it stays among the last ``keep``.

    Args:
        root: folder that uris are relative to.
        keep: references remembered (about 0.5 kB each).
    """

    def __init__(self, root: Path, keep: int = 100_000) -> None:
        self.root = root
        self._keep = keep
        self._known: OrderedDict[str, Found] = OrderedDict()

    def at(self, uri: str, name: str = "") -> Found:
        """The image behind a uri that `demur.store.read_image` reads."""
        if uri in self._known:
            self._known.move_to_end(uri)
            return self._known[uri]
        try:
            found = Found(name or uri, image_ref(read_uri(uri, self.root), uri), "ok")
        except StorageError:
            found = Found(name or uri, None, "missing")
        except (DataError, ValueError, LookupError):
            found = Found(name or uri, None, "unreadable")
        self._known[uri] = found
        if len(self._known) > self._keep:
            self._known.popitem(last=False)
        return found

    def given(self, data: bytes | None, uri: str) -> Found:
        """The image whose bytes were read on the way, described once under the uri that leads back to them."""
        if uri not in self._known and data is not None:
            try:
                self._known[uri] = Found(uri, image_ref(data, uri), "ok")
            except DataError:
                self._known[uri] = Found(uri, None, "unreadable")
        return self._known.get(uri) or Found(uri, None, "missing")

    def file(self, relative: str) -> Found:
        """The image at a path below the root; one that leads out of it counts as missing."""
        try:
            path = inside(self.root, relative)
        except DataError:
            return Found(relative, None, "missing")
        if not path.is_file():
            return Found(relative, None, "missing")
        return self.at(path.relative_to(self.root).as_posix(), relative)

    def stem(self, relative: str) -> Found:
        """The image at a path without its extension."""
        for suffix in SUFFIXES:
            found = self.file(relative + suffix)
            if found.status != "missing":
                return found
        return Found(relative, None, "missing")


class OnceEach(Problems):
    """Each line once, here and in another's: a file read for samples and for documents tells its faults once."""

    def __init__(self, target: Problems | None = None) -> None:
        super().__init__()
        self._target = target
        self._told = Seen()

    def note(self, line: str) -> None:
        """Note one problem that was not noted before."""
        if self._told.add(line):
            super().note(line)
            if self._target is not None:
                self._target.note(line)


class NativeSource:
    """Base of the adapters: options, problems, images and notes.

    Attributes:
        notes: harmless peculiarities met while reading, counted by what they are; ``check`` prints them.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.root = Path(folder)
        self.problems: Problems = OnceEach(Problems() if problems is None else problems)
        self.images = Images(self.root)
        self.notes: Counter[str] = Counter()
        self._archives: dict[Path, dict[str, str]] = {}

    def make(self, place: str, id_: str, maker: Callable[[], T]) -> T | None:
        """A record, or None with the reason noted under place and id."""
        try:
            return maker()
        except ValidationError as error:
            reason = why_invalid(error)
        except (DataError, StorageError) as error:
            reason = str(error)
        except KeyError as error:
            reason = f"field {error} is missing"
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
        self.problems.add(f"{place} ({id_})", reason)
        return None

    def unique(self, rows: Iterable[tuple[str, str, T]]) -> Iterator[tuple[str, str, T]]:
        """Rows (place, id, value) whose id is new; later ones of the same id are noted and left out."""
        seen = Seen()
        for place, id_, value in rows:
            if seen.add(id_):
                yield place, id_, value
            else:
                self.problems.add(f"{place} ({id_})", "this id stands in an earlier row too; the first is kept")

    def members(self, archive: Path) -> dict[str, str]:
        """Member name -> uri of an archive in this folder, listed once; empty (and noted) when it is broken."""
        if archive not in self._archives:
            try:
                self._archives[archive] = archive_uris(archive, archive.relative_to(self.root).as_posix())
            except DataError as error:
                self.problems.add(archive.name, str(error))
                self._archives[archive] = {}
        return self._archives[archive]

    def defect(self, place: str, id_: str, statements: Sequence[str]) -> dict[str, str]:
        """Attributes that record what a sample lacks; each statement is noted as a problem too."""
        for statement in statements:
            self.problems.add(f"{place} ({id_})", statement)
        return {DEFECT: "; ".join(statements)} if statements else {}

    def need(self, *names: str) -> Path:
        """The first of these files that is in the folder.

        Raises:
            UsageError: none is; the message lists what the folder holds.
        """
        for name in names:
            if (self.root / name).is_file():
                return self.root / name
        held = sorted(path.name for path in self.root.iterdir())[:12]
        raise UsageError(
            f"{self.name}: none of {', '.join(names)} in {self.root}; it holds {', '.join(held) or 'nothing'}",
            cure=f"see 'demur sources show {self.name}' for the layout",
        )


def chosen(source: str, asked: str, known: Sequence[str], unlabelled: Sequence[str] = ()) -> list[str]:
    """Splits named in an option: comma-separated names, or ``all`` for every labelled one.

    Raises:
        UsageError: no such split, or one whose answers are not public.
    """
    names = list(known) if asked == "all" else [part.strip() for part in asked.split(",") if part.strip()]
    for name in names:
        if name in unlabelled:
            raise UsageError(
                f"{source}: split {name!r} has no public answers", cure=f"use one of {', '.join(known)} instead"
            )
        if name not in known:
            raise UsageError(f"{source}: no split {name!r}; known: {', '.join((*known, 'all'))}", cure="check the name")
    return names


def distinct(gold: Iterable[Evidence], others: Iterable[Evidence]) -> tuple[list[Evidence], list[Evidence], list[str]]:
    """Gold and negatives without repeats: a negative that is also gold, by id or by content, is dropped and told.

    Returns:
        (gold, negatives, ids dropped).
    """
    dropped: list[str] = []

    def content(evidence: Evidence) -> str:
        if evidence.modality is Modality.IMAGE and evidence.image is not None:
            return evidence.image.sha256
        return " ".join((evidence.text or "").casefold().split()) or evidence.id

    def fresh(items: Iterable[Evidence]) -> Iterator[Evidence]:
        for item in items:
            keys = {item.id, content(item)}
            if keys & seen:
                dropped.append(item.id)
            else:
                seen.update(keys)
                yield item

    seen: set[str] = set()
    return list(fresh(gold)), list(fresh(others)), dropped


def literal(text: Any) -> Any:
    """The list that a text such as ``"['a', 'b']"`` stands for; the value itself when it is no such text."""
    if not isinstance(text, str) or not text.lstrip().startswith(("[", "{", "(")):
        return text
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def unquoted(text: str) -> str:
    """Without one pair of literal double quotes around the whole (WebQA's image questions and answers).

    >>> unquoted('"Are both round?"'), unquoted('"A" or "B"'), unquoted('"Is "A" red?"')
    ('Are both round?', '"A" or "B"', 'Is "A" red?')
    """
    stripped = text.strip()
    if len(stripped) < 2 or not stripped[0] == stripped[-1] == '"':
        return stripped
    inner = stripped[1:-1]
    mark = inner.find('"')
    if mark > 0 and not inner[mark - 1].isspace():  # it closes the first quotation: the two are no pair
        return stripped
    return inner.strip()


def text_of(row: dict[str, Any], field: str) -> str:
    """A required text field.

    Raises:
        DataError: absent, not text, or blank.
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"field {field!r} holds {value!r}, expected text", cure="mend the row or leave it out")
    return value
