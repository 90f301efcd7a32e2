"""Does a reply decline to answer? Asked of a model, or read by rules: the first of LAVE-idk's two stages.

A guess that is marked as one is an answer; "nothing", and that the thing asked about is not there, are none. The judge
is never shown what is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template

from demur.answers.reply import final_part
from demur.core.errors import ItemError, TransientError
from demur.core.records import Ask, Response
from demur.core.thinking import visible
from demur.judge.deflection import read
from demur.judge.model import ModelJudge, schema_of, stated_number
from demur.judge.untrusted_answer import candidate

_NOTHING = re.compile(
    r"^\W*(?:there(?: is|'s) )?(?:nothing|none|no one|nobody|not (?:visible|shown|seen|clear))"
    r"(?: (?:at all|there))?\W*$",
    re.IGNORECASE,
)
_UNSEEN = re.compile(
    r"^\W*(?:i (?:do not|don't|can ?not|can't|cannot) see (?:a|an|any|the|that|such)\b"
    r"|there (?:is|are) no (?:existence|sign|trace|presence) of\b"
    r"|there (?:is|are) no (?=[^.!?,;]{1,60} in the (?:image|picture|photo)\b))[^.!?,;]*(?:[.!?]|$)",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"^(?!\W*(?:i|it|that|this|not|no|hard|unclear|sorry)\b)[^.!?]+?,? (?:but|though|although) i(?:'m| am) "
    r"not (?:\w+ )?(?:sure|certain|confident)\W*$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_OFFERS = re.compile(
    r"\W*(?:but|my (?:best )?guess|i (?:think|believe|guess|would say)|it is|it's)\b", re.IGNORECASE
)
"""An answer of the speaker's own behind a refusal, not what such things usually are."""


def declines(text: str, question: str = "") -> bool:
    """Whether a reply to a question declines, by its words and as `demur.judge.deflection` reads it.

    >>> [declines(t) for t in ("I don't see any car.", "Nothing", "Blue, but I am not sure", "It might be blue.")]
    [True, True, False, False]
    """
    text = visible(text).replace("\u2019", "'").strip()
    if _NOTHING.match(final_part(text)) or _UNSEEN.match(text):
        return True
    if _DOUBTED.match(text):
        return False
    first, *rest = _SENTENCE.split(text, maxsplit=1)
    return read(text, question).deflects or (
        bool(rest) and read(first, question).deflects and not _OFFERS.match(rest[0])
    )


class RefusalJudge(ModelJudge):
    """A model that says whether a reply declines; kept in the ledger like every other judge's calls."""

    kind = "refusal"
    prompt_package = "demur_suites.certainly_uncertain"
    prompt_name = "refusal.v1.md"
    schema = schema_of("refusal", [0, 1])

    async def declines(
        self, ask: Ask, response: Response, forms: Iterable[str] = ()
    ) -> tuple[bool | None, str]:
        """(whether it declines, why not where nobody can say: None).

        Args:
            ask: what was asked.
            response: the reply.
            forms: what may answer it, which the judge is not told: a reply of which one is hidden is not judged.

        Raises:
            PermanentError: the model cannot be asked at all.
        """
        shown = candidate(ask.question, visible(response.text), forms)
        if shown.doubted:
            return None, shown.doubted
        text = Template(self.prompt).substitute(
            question=ask.question_with_turns, answer=shown.text, mark=shown.mark
        )
        try:
            reply = await self._ask(ask, text)
        except (ItemError, TransientError) as error:
            return None, error.message
        said = stated_number(reply.text, "refusal")
        return (
            (bool(said), "")
            if said in (0, 1)
            else (None, "the judge's reply states neither 0 nor 1")
        )
