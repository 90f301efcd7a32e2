"""The pictures that Markdown and HTML show: ``![caption](file.png)``, ``![caption][name]``, ``<img src alt>``.

Nothing is fetched, and a picture that stands in the page itself (``data:``) is not taken out of it: such pictures, and
those that lead nowhere, are named with what would help.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from demur.core.errors import DataError
from demur.corpora import NOT_DOWNLOADED
from demur.corpora.formats import inside

_INLINE = re.compile(r"!\[([^\]\n]{0,300})\]\(\s{0,9}(?:<([^>\n]{1,999})>|([^)\s]{1,999}))")
_NAMED = re.compile(r"!\[([^\]\n]{0,300})\]\[([^\]\n]{0,300})\]")
_NAME = re.compile(r"^ {0,3}\[([^\]\n]{1,300})\]:[ \t]{1,9}<?([^\s>]{1,999})", re.MULTILINE)
_IMG = re.compile(r"<img\b([^<>]{0,4000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""(?<![\w-])(src|alt)\s{0,9}=\s{0,9}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}:)?//", re.IGNORECASE)


class Mention(NamedTuple):
    """A picture as a text names it."""

    place: str
    """A path, an address or the content."""
    caption: str


def pictures_in(text: str, *, markdown: bool) -> Iterator[Mention]:
    """The pictures of a text; those of HTML elements after those of Markdown.

    >>> list(pictures_in('![A mill](mill.png "at noon") <img src=weir.jpg>', markdown=True))
    [Mention(place='mill.png', caption='A mill'), Mention(place='weir.jpg', caption='')]
    """
    if markdown:
        yield from (Mention(m[2] or m[3], m[1]) for m in _INLINE.finditer(text))
        places = {m[1].casefold(): m[2] for m in _NAME.finditer(text)}
        for named in _NAMED.finditer(text):
            if place := places.get((named[2] or named[1]).casefold()):
                yield Mention(place, named[1])
    for element in _IMG.finditer(text):
        attributes = _ATTRIBUTE.finditer(element[1])
        values = {m[1].lower(): unescape(m[2] or m[3] or m[4] or "") for m in attributes}
        if values.get("src"):
            yield Mention(values["src"], " ".join(values.get("alt", "").split()))


def file_of(mention: Mention, document: Path, root: Path) -> Path:
    """Where the file of a picture should be.

    Args:
        document: the file that shows it; relative paths start beside it, those with a slash in front at ``root``.
        root: the folder of all documents.

    Raises:
        DataError: it is an address, content, or leads out of the folder.
    """
    if mention.place.startswith("data:"):
        raise DataError("it stands in the page itself", cure="save it as a file beside the page")
    if _ADDRESS.match(mention.place):
        raise DataError("it is not downloaded", cure=NOT_DOWNLOADED)
    path = unquote(mention.place.partition("#")[0].partition("?")[0])
    start = root if path.startswith("/") else document.parent
    below = os.path.normpath(os.path.relpath(start, root) + "/" + path.lstrip("/"))
    return inside(root, Path(below).as_posix())
