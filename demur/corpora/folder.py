"""A folder of images: a document each, its title from ``metadata.jsonl`` (``file_name``, ``text``) or its file name.

A file is an image if Pillow can open its ending (`demur.core.images.IMAGE_FORMATS`). The captions, and the names in one
folder at a time, are held in memory.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import readable_formats
from demur.core.records import Document
from demur.core.store import Problems, storage_errors
from demur.corpora import image_at, log_skipped, valid_document
from demur.corpora.formats import json_lines

OPTIONS = {"licence": "licence of all images"}
CAPTIONS = "metadata.jsonl"


def read(
    reader: str, path: str, problems: Problems, options: Mapping[str, str]
) -> Iterator[Document]:
    """Images below the folder, by path; an image that cannot be read is a problem.

    Links are followed wherever they lead (collections are often put together of links), but to no folder twice.
    The log says how many files were skipped, and of which endings.

    Raises:
        UsageError: there is no image.
    """
    root = Path(path)
    captions: dict[str, str] = {}
    if (root / CAPTIONS).is_file():
        for _, row in json_lines(root / CAPTIONS, problems):
            captions[str(row.get("file_name"))] = str(row.get("text") or row.get("caption") or "")
    skipped: Counter[str] = Counter()
    file = None
    for file in images_below(root, problems, skipped):
        id = file.relative_to(root).as_posix()
        try:
            image = image_at(file)
        except (DataError, StorageError) as error:
            problems.add(_printable(id), error.message)
            continue
        title = captions.get(id) or title_of(file)
        yield from valid_document(
            problems,
            id,
            id=id,
            title=title,
            image=image,
            source=root.name,
            licence=options.get("licence", ""),
        )
    if file is None and not len(problems):
        raise UsageError(
            f"no image among {skipped.total():,} files",
            item=path,
            cure=f"docs:{path} reads texts and PDF",
        )
    log_skipped(path, skipped)


def image_endings() -> frozenset[str]:
    """Endings of files that Pillow can open as one of `demur.core.images.IMAGE_FORMATS`, such as ``.png``."""
    from PIL import Image

    format_of_ending, readable = Image.registered_extensions(), readable_formats()
    return frozenset(ending for ending, kind in format_of_ending.items() if kind in readable)


def title_of(file: Path) -> str:
    """What stands for the caption of a picture that has none."""
    return file.stem.replace("_", " ").replace("-", " ")


def images_below(root: Path, problems: Problems, skipped: Counter[str]) -> Iterator[Path]:
    """The files below a folder that look like images, by path; the others are counted."""
    endings = image_endings()

    def wanted(entry: os.DirEntry[str]) -> bool:
        ending = os.path.splitext(entry.name)[1].lower()
        if ending in endings:
            return True
        elif entry.path != str(root / CAPTIONS):
            skipped[f"{_printable(ending)} files" if ending else "without an ending"] += 1
        return False

    whole, linked = root.resolve(), set[Path]()

    def outside_and_new(target: Path) -> bool:
        """Whether a link leads to what no other way leads to; so no circle is walked twice."""
        new = target not in linked and not target.is_relative_to(whole)
        linked.add(target)
        return new and not whole.is_relative_to(target)

    open_folders = [_listed(root, wanted)]
    while open_folders:
        try:
            for path, is_folder in open_folders[-1]:
                if is_folder:
                    if path.is_symlink() and not outside_and_new(path.resolve()):
                        skipped["links to folders"] += 1
                        continue
                    open_folders.append(_listed(path, wanted))
                    break
                yield path
            else:
                open_folders.pop()
        except StorageError as error:
            if len(open_folders) == 1:
                raise
            problems.add(_printable(error.item), error.message)
            open_folders.pop()


def _listed(
    folder: Path, wanted: Callable[[os.DirEntry[str]], bool]
) -> Iterator[tuple[Path, bool]]:
    """What is in a folder and wanted, by name, and its folders; with whether it is one."""
    names: list[str] = []
    folders: set[str] = set()
    with storage_errors(folder), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                folders.add(entry.name)
            elif not wanted(entry):
                continue
            names.append(entry.name)
    names.sort()
    for name in names:
        yield folder / name, name in folders


def _printable(name: str) -> str:
    """A file name as text that can be written down: bytes that are not UTF-8 are escaped."""
    return name.encode(errors="backslashreplace").decode()
