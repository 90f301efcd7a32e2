"""Reading the reply of a model that grades with SimpleQA's three labels.

A published grader takes the first capital A, B or C anywhere in the reply and C when there is none, so that
NOT_ATTEMPTED reads as correct and an outage as an abstention. Here a label counts where it begins a sentence or line,
stands behind a name of a label ("Verdict: CORRECT"), or in capitals where a sentence states it ("It is INCORRECT
because ..."). "correct" is an ordinary word: "The correct answer is Danube" states no label. What says nothing, two
things, or something doubtful is None: it is asked again, and then *unjudged* and counted beside every rate.
"""

from __future__ import annotations

import re
import unicodedata

from demur.core.records import Outcome
from demur.core.text import stream_safe

LETTERS = {"A": Outcome.CORRECT, "B": Outcome.INCORRECT, "C": Outcome.DEFLECTED}
WORDS = {
    "NOT_ATTEMPTED": Outcome.DEFLECTED,
    "INCORRECT": Outcome.INCORRECT,
    "CORRECT": Outcome.CORRECT,
}
"""Longest first: CORRECT stands inside INCORRECT."""

_TAG = re.compile(r"<[/|]{0,2}\w[\w|]{0,20}/?>")
_UNIT = re.compile(r"(?<=\w\w[.!?;])\s+|(?<=[)*\"'][.!?;])\s+|\n")
"""Ends of a sentence ("A. Einstein" is one) and of a line."""
_WORD = r"(?<![A-Z_])(?:NOT[ _-]ATTEMPTED|INCORRECT|CORRECT)(?![A-Z_])"
_SHOUTED = re.compile(_WORD, re.ASCII)
_NAME = (
    r"\b(?:answer|grade|verdict|label|choice|option|letter|target|result|rating|judge?ment|evaluation|assessment|outcome"
    r"|classification|conclusion|decision)[\s\"'*_`]{0,4}(?P<sign>\bis\b|:|=|->|\||[-\u2013\u2014])"
)
_STATES = r"\b(?:is|it|as|so|therefore|thus|hence|clearly|grade|graded|marked|rated|judged|labell?ed|considered)\b|[:,]"
_STATED = re.compile(
    rf"(?:(?P<bare>^)|(?P<named>{_NAME})|(?P<prose>{_STATES}))[\s\W]{{0,8}}?"
    rf"(?:(?P<word>{_WORD})|\b(?P<letter>(?-i:[ABC]))\b)",
    re.IGNORECASE | re.ASCII,
)
NEAR = 300
"""Characters on either side of a label that are read; a clause that is longer settles nothing."""
_ENDS = re.compile(
    r"[\"')*\]`_}|]{0,4}\s{0,3}(?:$|[.,;:!(){}\]|\u3002\u2013\u2014]|-\s|(?:because|since|due|and|as (?:it|the|this))\b)",
    re.IGNORECASE,
)
"""What may follow a label: no noun ("the CORRECT answer")."""
_LETTER_ENDS = re.compile(rf"\W{{0,20}}(?:$|{_WORD}|\s(?:because|since)\b|[\"'],)", re.ASCII)
"""A letter is an article or an initial too: nothing but a label or a reason may follow it."""
_UNDONE = re.compile(
    r".*\?|.*\b(?:if|unless|would|could|except|provided)\b"
    r"|\W{0,4}(?:but|however|though|although|yet|only|in part|partly|partially)\b"
    r"|\W{0,3}[:=]\W{0,3}(?:false|not?|0|none|never)\b",
    re.IGNORECASE | re.DOTALL,
)
_DOUBT = re.compile(
    r"[\u00ac\u2260]|\b(?:not|no|non|never|neither|nor|none|nothing|nobody|cannot|[a-z]{2,7}n['\u2019]t|without|hardly"
    r"|scarcely|barely|far|rather than|instead|doubt\w{0,4}|if|unless|whether|would|could|should|might|may|must|can"
    r"|seems?|appears?|looks?|perhaps|maybe|possibly|probably|part(?:ial)?ly|almost|nearly|half|fails?|false|wrong"
    r"|claim\w{0,3}|says?|said|assert\w{0,3}|calls?|pretend\w{0,3}"
    r"|nicht|keine?|nein|pas|ne|nie|niet|geen|inte|ikke|n\u00e3o|nunca|jamais|\u043d\u0435|\u043d\u0435\u0442)\b",
    re.IGNORECASE,
)
"""A negation, a condition, or somebody else's word."""
_EDGES = re.compile(r"^[\W_]++|(?<![\W_])[\W_]++$")
_TAIL = re.compile(r"(?<!\W)\W++$")
_CROSS = re.compile(r"[\u2717\u2718\u274c]")
_SO = re.compile(r"\b(?:so|therefore|thus|hence)\b", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"\b(?:wait|actually|on second thought|correction)\b", re.IGNORECASE)
_OTHERWISE = re.compile(r"\b(?:incorrect|wrong)\b", re.IGNORECASE)


def _outcome(label: str) -> Outcome | None:
    name = re.sub(r"[ -]", "_", label.upper())
    return LETTERS.get(name) or WORDS.get(name)


def alone(reply: str) -> Outcome | None:
    """The label that is the whole reply, layout aside.

    >>> alone("**Incorrect.**").value, alone("<answer>B</answer>").value, alone("CORRECT?"), alone("It is CORRECT.")
    ('incorrect', 'incorrect', None, None)
    """
    text = _TAG.sub(" ", unicodedata.normalize("NFKC", stream_safe(reply)))
    label = _outcome(_EDGES.sub("", text))
    crossed = _CROSS.search(text) and label is Outcome.CORRECT
    return None if crossed or re.search("[?\u00ac\u2260]", text) else label


def parse(reply: str) -> Outcome | None:
    """The label that a reply states; None when it states none, more than one, or one in doubt.

    >>> [parse(r).value for r in ("A", "CORRECT", "NOT_ATTEMPTED", "Answer: B", "It is INCORRECT.", "| label | CORRECT |")]
    ['correct', 'correct', 'deflected', 'incorrect', 'incorrect', 'correct']
    >>> parse("A or B"), parse("I cannot grade this."), parse("The correct answer is Danube.")
    (None, None, None)
    """
    if (lone_label := alone(reply)) is not None:
        return lone_label
    text = _TAG.sub(" ", unicodedata.normalize("NFKC", stream_safe(reply)))
    labels: set[Outcome | None] = set()
    prose = letter = False
    before = ""  # the line above that has no end
    for unit in _UNIT.split(text):
        label_match = _label_in_unit(unit, before, in_object=text.lstrip().startswith("{"))
        if label_match:
            labels.add(_outcome(label_match["word"] or label_match["letter"]))
            prose |= label_match["prose"] is not None
            letter |= label_match["letter"] is not None
            unit = unit[label_match.end() :]
        labels |= {_outcome(label) if label_match else None for label in _SHOUTED.findall(unit)}
        tail = _TAIL.search(unit)
        before = "" if tail and set(".!?:;") & set(tail[0]) else unit
    if letter:
        labels |= {
            LETTERS[letter_found]
            for letter_found in re.findall(r"(?<![A-Za-z'])[BC](?![A-Za-z'])", text)
        }
    if prose and (
        _TAKEN_BACK.search(text) or (Outcome.CORRECT in labels and _OTHERWISE.search(text))
    ):
        return None
    return labels.pop() if len(labels) == 1 else None


def _label_in_unit(unit: str, before: str, *, in_object: bool) -> re.Match[str] | None:
    """Where a sentence or line states a label; None where it states none, or doubts it."""
    for stated in _STATED.finditer(unit):
        label, bare = stated["word"] or stated["letter"], stated["bare"] is not None
        place = stated.end() - len(label)
        if place > NEAR:
            break
        clause = _SO.split((f"{before}\n" if bare else "") + unit[:place])[-1]
        after = unit[stated.end() : stated.end() + NEAR]
        named = (stated["sign"] or "is").lower() != "is"
        if (
            (label.isupper() or named or (bare and alone(unit)))
            and (stated["prose"] is None or (label.isupper() and stated["word"] and not in_object))
            and (_ENDS if stated["word"] else _LETTER_ENDS).match(after)
            and not _UNDONE.match(after)
            and not _DOUBT.search(clause)
            and not (_CROSS.search(clause) and _outcome(label) is Outcome.CORRECT)
        ):
            return stated
    return None
