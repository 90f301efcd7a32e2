"""The retrieval modes that the paper tries (VLM-DeflectionBench, appendix H), and what a mode searches by.

    mode                        searches                      by               finds
    text->text                  passages, dense               the text         documents
    lexical                     passages, BM25                the text         documents
    fused                       both, reciprocal ranks        the text         documents
    image->title                page titles (T)               the image        pages
    image->title+summary        page titles + summaries (T+S) the image        pages
    text->title                 page titles                   the text         pages
    image->image                images by their looks         the image        documents
    image->first-image          the first image of each page  the image        documents
    text->image                 images through the joint space  the text       documents
    image+text->title+summary   page titles + summaries       both, as one     pages
    image+text->image           images                        both, as one     documents
    image+text->text            passages, dense               both, as one     documents
    FIRST/text->text            passages of the pages that FIRST found, ranked by the text   documents
    FIRST/lexical               the same, ranked by BM25                                      documents

The modes by ``image+text`` need an encoder that reads a text and an image as one, into the space of all that it embeds.

A mode of another package is a `SimpleMode` that it registers under ``demur.modes``, or ``module:MODE``
(docs/index-plugins.md; `demur.testing.check_mode`).

On a command line, where ``>`` has another meaning, ``-to-`` may replace ``->``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core import plugins
from demur.core.errors import UnknownPart, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur.indexing.encoders import Encoder


@dataclass(frozen=True)
class Query:
    """A text, an image, or both. A mode uses the one that it needs."""

    text: str = ""
    image: Image | None = None
    vectors: Mapping[tuple[str, str], NDArray[np.float32]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What is already embedded (`Searcher.embedded`): (`SimpleMode.key`, space) -> (d,) float32; (tokens, d) of late
    interaction."""

    @property
    def fault(self) -> str:
        """Why one of its vectors cannot be searched with; "" if all can."""
        wrong_vectors = [
            by
            for (by, _), vector in self.vectors.items()
            if not (np.isfinite(vector).all() and vector.any())
        ]
        return (
            f"the vector of its {wrong_vectors[0]} is NaN, infinite or zero"
            if wrong_vectors
            else ""
        )

    def has(self, mode: SimpleMode, space: str) -> bool:
        """Whether it has what a mode searches a space by."""
        there = {"text": bool(self.text.strip()), "image": self.image is not None}
        needed = ("text", "image") if mode.by == "both" else (mode.by,)
        return (mode.key, space) in self.vectors or all(there[name] for name in needed)


class SimpleMode(NamedTuple):
    """A mode that searches one part of the index."""

    part: str
    by: Literal["text", "image", "both"]
    finds: Literal["documents", "pages"]
    embed: Callable[[Encoder, Sequence[Query], str], Any] | None = None
    """(encoder, queries, space) -> (n, d) float32, for a mode with vectors of its own: a function with a name. None: the
    encoder's of the text, of the image, or of both read as one."""

    @property
    def key(self) -> str:
        """What the vectors of a query are kept by: modes with the same key have the same."""
        return self.by if self.embed is None else f"{self.embed.__module__}:{self.embed.__name__}"


SIMPLE_MODES = {
    "text->text": SimpleMode("passages", "text", "documents"),
    "lexical": SimpleMode("lexical", "text", "documents"),
    "image->title": SimpleMode("titles", "image", "pages"),
    "image->title+summary": SimpleMode("summaries", "image", "pages"),
    "text->title": SimpleMode("titles", "text", "pages"),
    "image->image": SimpleMode("looks", "image", "documents"),
    "image->first-image": SimpleMode("looks", "image", "documents"),
    "text->image": SimpleMode("images", "text", "documents"),
    "image+text->title+summary": SimpleMode("summaries", "both", "pages"),
    "image+text->image": SimpleMode("looks", "both", "documents"),
    "image+text->text": SimpleMode("passages", "both", "documents"),
}
MODES = (*SIMPLE_MODES, "fused")
FUSED = ("text->text", "lexical")


def canonical_mode(text: str) -> str:
    """The canonical text of a mode.

    Raises:
        UnknownPart: no such mode; the message lists them.

    >>> canonical_mode("image-to-title/text-to-text")
    'image->title/text->text'
    """
    mode = text.replace("-to-", "->")
    first, slash, then = mode.partition("/")
    if slash and then not in FUSED:
        raise UnknownPart("retrieval mode", text, MODES, hint=_HINT)
    if first != "fused":
        mode_named(first)
    return mode


_HINT = "or FIRST/text->text, FIRST/lexical"


@cache
def mode_named(name: str) -> SimpleMode:
    """The mode of one step that searches one part, by its canonical text.

    Raises:
        UnknownPart: no such mode; the message lists them.
        UsageError: what another package calls so is no mode.
    """
    if name in SIMPLE_MODES:
        return SIMPLE_MODES[name]
    try:
        mode, _ = plugins.find("modes", name)
    except UnknownPart as error:
        known = (*MODES, *plugins.names("modes"))
        raise UnknownPart("retrieval mode", name, known, hint=_HINT) from error
    if not isinstance(mode, SimpleMode):
        raise UsageError(
            f"it is a {type(mode).__name__}, no retrieval mode",
            item=name,
            cure="let it be a demur.retrieval.modes.SimpleMode (demur.testing.check_mode)",
        )
    return mode


def every_mode() -> dict[str, SimpleMode]:
    """All modes of one step that search one part, those of other packages last."""
    return SIMPLE_MODES | {name: mode_named(name) for name in plugins.names("modes")}


def simple_modes(modes: Iterable[str]) -> list[str]:
    """The simple modes that modes of one step consist of, each once."""
    return list(
        dict.fromkeys(
            simple_mode for mode in modes for simple_mode in (FUSED if mode == "fused" else (mode,))
        )
    )
