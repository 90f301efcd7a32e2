"""What the adapters of published datasets share: images with a status, bad rows noted, ids kept unique.

Images are described when they are first asked for (`demur.core.images.image_ref` decodes them whole), so that a sample
never refers to bytes that nobody has seen.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, ImageRef, Modality, Sample
from demur.core.store import Problems
from demur.core.strict_json import check_depth
from demur.core.uris import read_uri
from demur.corpora.formats import Seen, archive_uris, inside
from demur.corpora.rows import attempt, records
from demur.curation.sources import DEFECT

T = TypeVar("T")

SUFFIXES = (".jpg", ".JPEG", ".jpeg", ".png", ".JPG", ".PNG", ".gif", ".webp")
"""Extensions tried, in this order, where a source names an image without one."""


class Found(NamedTuple):
    """An image that was asked for: its reference, or why there is none."""

    name: str
    ref: ImageRef | None
    status: str
    """ok | missing | unreadable"""


class Images:
    """Images of a folder by uri, each read and checked once while it stays among the last ``keep``.

    Args:
        keep: references remembered (about 0.5 kB each).
    """

    def __init__(self, root: Path, keep: int = 100_000) -> None:
        self.root = root
        self._keep = keep
        self._known: OrderedDict[str, Found] = OrderedDict()
        self._inside: set[str] = set()
        """Paths below the root that were seen to stay there."""

    def at(self, uri: str, name: str = "") -> Found:
        """The image behind a uri that `demur.core.uris.read_image` reads."""
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
        if relative in self._inside and relative in self._known:
            return self.at(relative)
        try:
            path = inside(self.root, relative)
        except DataError:
            return Found(relative, None, "missing")
        if not path.is_file():
            return Found(relative, None, "missing")
        uri = path.relative_to(self.root).as_posix()
        if uri == relative and len(self._inside) < self._keep:
            self._inside.add(relative)
        return self.at(uri, relative)

    def stem(self, relative: str) -> Found:
        """The image at a path without its extension."""
        return first_there((self.file(relative + suffix) for suffix in SUFFIXES), relative)

    def cell(self, cell: Any, uri: str) -> Found:
        """The image in a cell of a table: its bytes, or the struct ``{bytes, path}`` of `datasets`."""
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        return self.given(data if isinstance(data, bytes) else None, uri)


def first_there(tries: Iterable[Found], name: str) -> Found:
    """The first that is not missing, tried in their order; else ``name``, missing."""
    return next((found for found in tries if found.status != "missing"), Found(name, None, "missing"))


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
    licence: ClassVar[str] = ""
    """Of the questions, where the rows do not say."""

    def __init__(self, folder: Path, problems: Problems | None = None) -> None:
        self.root = Path(folder)
        self.problems: Problems = OnceEach(Problems() if problems is None else problems)
        self.images = Images(self.root)
        self.notes: Counter[str] = Counter()
        self._archives: dict[Path, dict[str, str]] = {}

    def make(self, place: str, id_: str, maker: Callable[[], T]) -> T | None:
        """A record, or None with the reason noted under place and id."""
        return attempt(self.problems, place, id_, maker)

    def records(
        self, rows: Iterable[tuple[str, str, tuple[Any, ...]]], maker: Callable[..., T], *, repeated: str = ""
    ) -> Iterator[T]:
        """As `demur.corpora.rows.records`, with the problems and notes of this source."""
        return records(rows, maker, self.problems, self.notes, repeated=repeated)

    def picture(self, relative: str) -> ImageRef:
        """The image at a path below the folder.

        Raises:
            DataError: it is missing, cannot be read, or lies outside the folder.
        """
        found = self.images.file(relative)
        if found.ref is None:
            inside(self.root, relative)
            raise DataError(f"picture {found.status}: {found.name}", cure="fetch it, or leave the row out")
        return found.ref

    def documents(self) -> Iterator[Document]:
        """None, where a source has no knowledge base."""
        yield from ()

    def members(self, archive: Path) -> dict[str, str]:
        """Member name -> uri of an archive in this folder, listed once; empty (and noted) when it is broken."""
        if archive not in self._archives:
            try:
                self._archives[archive] = archive_uris(archive, archive.relative_to(self.root).as_posix())
            except DataError as error:
                self.problems.add(archive.name, str(error))
                self._archives[archive] = {}
        return self._archives[archive]

    def sample(
        self,
        place: str,
        id_: str,
        row: Mapping[str, Any],
        *,
        question: str,
        answers: AnswerSpec,
        images: Iterable[Found] = (),
        gold: Iterable[Evidence] = (),
        negatives: Iterable[Evidence] = (),
        lacks: Iterable[str] = (),
        missing: Iterable[str] = (),
        attributes: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Sample:
        """A sample of this source, with what it lacks in its attributes and among the problems.

        Args:
            id_: of the row; it may not be empty.
            row: as read; kept as ``native``, unless ``fields`` has another.
            question: without blanks around it in the sample.
            images: of the question; those that cannot be had make the sample defective.
            gold: without repeats in the sample, as are the negatives.
            negatives: the source's own; what is gold too is dropped, and counted in ``notes``.
            lacks: what else makes the sample defective: gold that cannot be shown.
            missing: negatives that cannot be shown.

        Raises:
            DataError: the row has no id.
        """
        if not id_:
            raise DataError("no id", cure="mend the row or leave it out")
        pictures, kept, others = list(images), *self._distinct(gold, negatives)
        lacking = [f"query image {image.status}: {image.name}" for image in pictures if image.ref is None]
        lacking += lacks
        told = list(missing)
        for statement in (*told, *lacking):
            self.problems.add(f"{place} ({id_})", statement)
        more = {"missing_negatives": "; ".join(told), DEFECT: "; ".join(lacking)}
        return Sample(
            **{"native": dict(row), "licence": self.licence, **fields},
            id=id_,
            source=self.name,
            question=question.strip(),
            answers=answers,
            images=tuple(image.ref for image in pictures if image.ref),
            gold=tuple(kept),
            negatives=tuple(others),
            attributes={**(attributes or {}), **{name: text for name, text in more.items() if text}},
            source_ref=place,
        )

    def _distinct(self, gold: Iterable[Evidence], others: Iterable[Evidence]) -> tuple[list[Evidence], list[Evidence]]:
        """Gold and negatives without repeats, by id or by content; what is dropped is counted."""
        seen: set[str] = set()

        def fresh(items: Iterable[Evidence]) -> Iterator[Evidence]:
            for item in items:
                if item.image is not None and item.modality is Modality.IMAGE:
                    content = item.image.sha256
                else:
                    content = " ".join((item.text or "").casefold().split()) or item.id
                keys = {item.id, content}
                if keys & seen:
                    self.notes["evidence dropped because the same stands in the sample already"] += 1
                else:
                    seen.update(keys)
                    yield item

        return list(fresh(gold)), list(fresh(others))

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


def one_of(source: str, option: str, value: str, *known: str) -> str:
    """The value of an option that takes one of a few words.

    Raises:
        UsageError: it is none of them.
    """
    if value not in known:
        raise UsageError(f"{source}: {option} is {value!r}", cure=f"give {' or '.join(known)}")
    return value


def shown(row: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, str]:
    """Fields of a row as attributes: "" where it has none, a list with commas; ``new=old`` gives another name.

    >>> shown({"aspect": "angle", "kinds": ["a", "b"], "source": None}, "aspect", "kinds", origin="source")
    {'aspect': 'angle', 'kinds': 'a,b', 'origin': ''}
    """
    found = {}
    for new, old in (*zip(names, names, strict=True), *renamed.items()):
        found[new] = ",".join(map(str, listed(row.get(old))))
    return found


def literal(text: Any) -> Any:
    """The list that a text such as ``"['a', 'b']"`` stands for; the value itself when it is no such text."""
    if not isinstance(text, str) or not text.lstrip().startswith(("[", "{", "(")):
        return text
    outside = _QUOTED.sub("", text)
    if _NO_VALUE.search(outside):  # Python's parser goes down its stack with every operator, JSON's with every bracket
        return text
    try:
        check_depth(outside.replace("(", "[").replace(")", "]"))
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError):
        return text


_QUOTED = re.compile(r"""[bBuU]?(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")""", re.DOTALL)
_NO_VALUE = re.compile(
    r"[^\s\w,:.()\[\]{}+-]"
    r"|[-+]\s*+[^\s\d.]|(?<!\d[eE])(?<![\s,:\[({])[-+]|[^\s,:\[({]\s++[-+]"  # a sign that is not a number's
    r"|\b(?!(?:None|True|False)\b)[^\W\d]"  # a name
)
"""What stands outside the quotes of no list of plain values."""


def listed(value: Any) -> list[Any]:
    """The items of a list, written out or as text; what is no list is one item, and nothing is none."""
    value = literal(value)
    return list(value) if isinstance(value, list | tuple) else [] if value in (None, "") else [value]


def pick(value: Any, name: str, absent: Any = None) -> Any:
    """A field by its name; a name that is no field is a path through objects (``output.answer``)."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for step in name.split("."):
        if not isinstance(value, dict) or step not in value:
            return absent
        value = value[step]
    return value


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
