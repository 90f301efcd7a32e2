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
    FIRST/text->text            passages of the pages that FIRST found, ranked by the text   documents
    FIRST/lexical               the same, ranked by BM25                                      documents

On a command line, where ``>`` has another meaning, ``-to-`` may replace ``->``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import UnknownPart

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Query:
    """A text, an image, or both. A mode uses the one that it needs."""

    text: str = ""
    image: Image | None = None
    vectors: Mapping[tuple[str, str], NDArray[np.float32]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What is already embedded (`Searcher.embedded`): ("text" or "image", space) -> (d,) float32."""

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

    def has(self, by: str, space: str) -> bool:
        """Whether it can be searched by its text or its image in a space."""
        return (by, space) in self.vectors or (
            bool(self.text.strip()) if by == "text" else self.image is not None
        )


class SimpleMode(NamedTuple):
    """A mode that searches one part of the index."""

    part: str
    by: Literal["text", "image"]
    finds: Literal["documents", "pages"]


SIMPLE_MODES = {
    "text->text": SimpleMode("passages", "text", "documents"),
    "lexical": SimpleMode("lexical", "text", "documents"),
    "image->title": SimpleMode("titles", "image", "pages"),
    "image->title+summary": SimpleMode("summaries", "image", "pages"),
    "text->title": SimpleMode("titles", "text", "pages"),
    "image->image": SimpleMode("looks", "image", "documents"),
    "image->first-image": SimpleMode("looks", "image", "documents"),
    "text->image": SimpleMode("images", "text", "documents"),
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
    if first not in MODES or (slash and then not in FUSED):
        raise UnknownPart("retrieval mode", text, MODES, hint="or FIRST/text->text, FIRST/lexical")
    return mode


def simple_modes(modes: Iterable[str]) -> list[str]:
    """The simple modes that modes of one step consist of, each once."""
    return list(
        dict.fromkeys(
            simple_mode for mode in modes for simple_mode in (FUSED if mode == "fused" else (mode,))
        )
    )
