"""Files of a suite: its items by id, the images they name, its prompts, and copies of images in another folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.records import ImageRef, Response
from demur.core.store import (
    Problems,
    read_json,
    storage_errors,
    why_invalid,
    write_atomic,
    write_json,
)
from demur.core.uris import read_uri
from demur.corpora.formats import inside, json_lines


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


K = TypeVar("K", bound=_WithId)


def items_file(path: Path, suite: str, name: str = "items.jsonl") -> Path:
    """The file of items at a path: the path itself, or the file of that name in a folder.

    Raises:
        UsageError: there is none.
    """
    file = path / name if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"there is no {name}" if path.is_dir() else "no such file or folder",
            item=str(path),
            cure=f"'demur suite build {suite} --out DIR' makes a set; suites/docs/{suite}.md has the layout",
        )
    return file


def folder_of(path: Path) -> Path:
    """The folder that image paths of a file or folder of items are relative to."""
    return path if path.is_dir() else path.parent


def note_asked_without(folder: Path, model: str, *replies: Response) -> None:
    """Note at once what a model's endpoint refused: a build that is resumed may make no call that would tell it."""
    path = folder / "asked-without.json"
    known: dict[str, list[str]] = read_json(path) if path.is_file() else {}
    names = {*known.get(model, ()), *(name for reply in replies for name in reply.asked_without)}
    if names > {*known.get(model, ())}:
        write_json(path, {**known, model: sorted(names)})


def items_by_id(
    file: Path, problems: Problems, item_of: Callable[[str, dict[str, Any]], K]
) -> dict[str, K]:
    """Items of a JSON Lines file by their id; what ``item_of`` refuses, and a repeated id, is a problem.

    Args:
        file: one item a line.
        problems: collects bad items, with their place and id.
        item_of: (place, row) -> the item; raises ValueError or DataError for a bad row.
    """
    items: dict[str, K] = {}
    places: dict[str, str] = {}
    for place, row in json_lines(file, problems):
        where = f"{place} ({row.get('id', 'no id')})"
        try:
            item = item_of(place, row)
        except ValidationError as error:
            problems.add(where, why_invalid(error))
        except (DataError, StorageError, ValueError) as error:
            problems.add(where, str(error))
        else:
            if places.setdefault(item.id, place) == place:
                items[item.id] = item
            else:
                problems.add(
                    where, f"an earlier line, {places[item.id]}, has this id too; the first is kept"
                )
    return items


def image_in(folder: Path, uri: str) -> ImageRef:
    """The image at a path relative to a folder; the reference's uri is relative too.

    Raises:
        DataError, StorageError, ValueError: it leads out of the folder, or cannot be read.
    """
    held = inside(folder, uri).relative_to(folder).as_posix()
    return image_ref(read_uri(held, folder), held)


def image_beside(file: Path, uri: str, sha256: str = "") -> ImageRef:
    """The image at a path relative to a file of items.

    Raises:
        DataError: it leads out of the folder, cannot be read, or has other bytes than ``sha256`` says.
    """
    try:
        ref = image_in(file.parent, uri)
    except (DataError, StorageError, ValueError) as error:
        raise DataError(f"image {uri!r}: {error}") from error
    if sha256 and ref.sha256 != sha256:
        raise DataError(
            f"image {uri!r} has other bytes than the item records", cure="build the set again"
        )
    return ref


def images_beside(file: Path, uris: Iterable[str]) -> tuple[ImageRef | None, ...]:
    """The images at paths relative to a file of items, in their order; None for an empty path.

    Raises:
        DataError: images that cannot be read, all of them in one message.
    """
    refs: list[ImageRef | None] = []
    bad = []
    for uri in uris:
        try:
            refs.append(image_beside(file, uri) if uri else None)
        except DataError as error:
            bad.append(str(error))
    if bad:
        raise DataError("; ".join(bad))
    return tuple(refs)


def keep_image(out: Path, data: bytes, begin: int = 24) -> ImageRef:
    """Write an image below ``images/`` of a set, named by the first ``begin`` characters of its hash."""
    ref = image_ref(data, "memory")
    place = f"images/{ref.sha256[:begin]}.{ref.media_type.partition('/')[2]}"
    if not (out / place).is_file():
        write_atomic(out / place, data)
    return ref.model_copy(update={"uri": place})


def copy_images(uris: Iterable[str], root: Path, out: Path) -> None:
    """Copy images to the same relative paths in another folder."""
    for uri in sorted(set(uris)):
        with storage_errors(root / uri):
            data = inside(root, uri).read_bytes()
        write_atomic(out / uri, data)


def prompt_text(package: str, name: str) -> str:
    """A file of a package's ``prompts`` folder, without space around it."""
    return files(package).joinpath("prompts", name).read_text(encoding="utf-8").strip()
