"""How a product of yours declines: sentences of its own, in any language ("Our docs don't cover this.").

Beside what `demur.judge.deflection` reads in any reply. A file has one a line; ``#`` begins a remark. Case, accents and
punctuation do not matter. A reply that holds one declines, whatever else it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demur.core.errors import UsageError
from demur.core.store import digest, read_text
from demur.judge.deflection import LACK, MOST, Reading, read
from demur.judge.wording import bare, fold

SHORTEST = 6
"""Letters of a phrase; shorter ones stand inside answers."""


class OwnPhrases:
    """Phrases of one product.

    Args:
        phrases: as they are said.

    >>> OwnPhrases(["Our docs don't cover this"]).read("Sorry: our docs don’t cover this!").deflects
    True
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._phrases = tuple(phrases)
        self._folded = [bare(fold(p)) for p in phrases]
        self.version = digest(sorted(self._folded), 8) if phrases else ""
        """Of them all; what other phrases decided is not taken for a decision of these."""

    @classmethod
    def of(cls, path: Path) -> OwnPhrases:
        """The phrases of a file.

        Raises:
            UsageError: it holds none, or one that is too short to be told from an answer.
            StorageError: it cannot be read.
        """
        lines = [line.strip() for line in read_text(path).removeprefix("\ufeff").splitlines()]
        phrases = [line for line in lines if line and not line.startswith("#")]
        if not phrases:
            raise UsageError("there is no phrase in it", item=str(path), cure="write one a line")
        for phrase in phrases:
            wide = sum(
                2 + (c > "\u2e80") * 4 for c in phrase if c.isalnum()
            )  # of Han and kana two say much
            if wide < 2 * SHORTEST:
                raise UsageError(
                    f"the phrase {phrase!r} is too short to be told from an answer",
                    item=str(path),
                    cure="write the whole sentence that your product says",
                )
        return cls(phrases)

    def read(self, text: str, question: str = "") -> Reading:
        """Whether a reply to a question declines, by these phrases or as any reply may."""
        reply = f" {bare(fold(text))} "
        for phrase, folded in zip(self._phrases, self._folded, strict=True):
            if _stands_as_words(folded, reply):
                return Reading(True, MOST, phrase, LACK)
        return read(text, question)


def _stands_as_words(phrase: str, reply: str) -> bool:
    """Whether a phrase stands in a reply as whole words; in writing without blanks, anywhere."""
    return f" {phrase} " in reply or (phrase in reply and any(c > "\u2e80" for c in phrase))
