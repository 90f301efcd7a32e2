"""Reading the reply of a model that grades with SimpleQA's three labels.

A published grader takes the first capital A, B or C anywhere in the reply and C when there is none, so that
NOT_ATTEMPTED reads as correct and an outage as an abstention. Here a label counts where it is the whole reply, alone on
its line, behind a name of a label ("Verdict: CORRECT"), or in capitals where a sentence states it ("It is INCORRECT
because ..."). "correct" is an ordinary word: "The correct answer is Danube" states no label. What says nothing, two
things, or something doubtful is None: it is asked again, and then *unjudged* and counted beside every rate.
"""

from __future__ import annotations

import re

from demur.core.records import Outcome

LETTERS = {"A": Outcome.CORRECT, "B": Outcome.INCORRECT, "C": Outcome.DEFLECTED}
WORDS = {
    "NOT_ATTEMPTED": Outcome.DEFLECTED,
    "INCORRECT": Outcome.INCORRECT,
    "CORRECT": Outcome.CORRECT,
}
"""Longest first: CORRECT stands inside INCORRECT."""

_WORD = re.compile(
    r"(?<![A-Z_])(NOT[ _-]ATTEMPTED|INCORRECT|CORRECT)(?![A-Z_])", re.IGNORECASE | re.ASCII
)
_NEGATED = re.compile(
    r"\b(?:NOT|NEVER|NEITHER|NOR|ISN'T|N'T)\s+(?:\w+\s+)?(?:IN)?CORRECT\b", re.IGNORECASE
)
_NAMED = re.compile(  # a letter is an article or an initial too: nothing but a label or a reason may follow it
    r"(?:(?:ANSWER|GRADE|VERDICT|LABEL|CHOICE|OPTION|TARGET|LETTER|RESULT|RATING)[\"'*]*+"
    r"\s*+(?:IS|:|=|->)\s*+[\"'(*\[]*+([ABC])"
    r"(?=[\"'*)\]}.,;:]*+[^\S\n]*+(?:$|\n)|[\"'][,}]|\s++(?:because|since)\b"
    r"|[\s(,:.)=-]++(?:NOT[ _-]ATTEMPTED|(?:IN)?CORRECT)\b)"
    r"|^\W*+([ABC])\s*+[,):.=-]++\s*+(?:$|\n|(?:NOT[ _-]ATTEMPTED|(?:IN)?CORRECT)\b)"
    r"|(?::|(?<!\s)[^\S\n]*+\n)\s*+[\"'(*\[]*+([ABC])\W*+$)",
    re.IGNORECASE,
)
_EDGES = re.compile(r"^[\W_]++|(?<![\W_])[\W_]++$")
_CROSSED_OUT = re.compile(r"[?\u00ac\u2260\u2717\u2718\u274c]")
NEAR = 300
"""Characters on either side of a label that are read; a clause that is longer settles nothing."""
_NAME = re.compile(
    r"\b(?:answer|grade|verdict|label|choice|result|rating|judge?ment|evaluation|assessment|outcome|classification"
    r"|conclusion|decision)[\"'*_`]{0,4}\s{0,3}(?P<sign>is|:|=|->|[-\u2013\u2014])\s{0,3}[\"'(*\[`_]{0,4}$",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"(?:^|[\n.!:;,)>]|\s[-\u2013\u2014]|\b[ABC]"
    r"|\b(?i:is|it|this|as|answer|response|reply|label|grade|verdict|graded?|marked|rated|judged|labell?ed|considered"
    r"|so|therefore|thus|hence|clearly))[\s\"'(*\[`_#]{0,6}$"
)
"""What stands before a label in capitals that a sentence states."""
_BREAK = re.compile(
    r"[.!?;][\"')*\]]{0,3}\s|[\"'],\s|\n\s{0,9}\n|\b(?:so|therefore|thus|hence)\b", re.IGNORECASE
)
_DOUBT = re.compile(
    r"\b(?:not|no|non|never|neither|nor|none|nothing|nobody|cannot|[a-z]{2,7}n['\u2019]t|without|hardly|scarcely|barely"
    r"|far|rather than|instead|doubt\w{0,4}|if|unless|whether|would|could|should|might|may|must|can|seems?|appears?"
    r"|looks?|perhaps|maybe|possibly|probably|partly|partially|almost|nearly|half|fails?|false that|wrong (?:that|to)"
    r"|claim\w{0,3}|says?|said|assert\w{0,3}|calls?|pretend\w{0,3}"
    r"|nicht|keine?|nein|pas|ne|nie|niet|geen|inte|ikke|n\u00e3o|nunca|jamais|\u043d\u0435|\u043d\u0435\u0442)\b",
    re.IGNORECASE,
)
"""A negation, a condition, or somebody else's word."""
_ENDS = re.compile(
    r"[\"')*\]`_}]{0,4}(?:\s{0,3}$|\s{0,3}[.,;:!)\n}\]\u2013\u2014]|\s-\s"
    r"|\s(?:because|since|due|and|as (?:it|the|this))\b)",
    re.IGNORECASE,
)
"""What may follow a label: no noun ("the CORRECT answer"), and no question mark."""
_UNDONE = re.compile(
    r"[^.!?\n]{0,200}+\?|[^.!?\n]{0,200}?\b(?:if|unless|would|could|except|provided)\b"
    r"|\W{0,4}(?:but|however|though|although|yet|only|in part|partly|partially)\b"
    r"|\W{0,3}[:=]\W{0,3}(?:false|not?|0|none|never)\b",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(r"\b(?:wait|actually|on second thought|correction)\b", re.IGNORECASE)
_OTHERWISE = re.compile(r"\b(?:incorrect|wrong)\b", re.IGNORECASE)


def alone(reply: str) -> Outcome | None:
    """The label that is the whole reply, or the whole line.

    >>> alone("**Incorrect.**").value, alone("CORRECT?"), alone("It is CORRECT.")
    ('incorrect', None, None)
    """
    whole = _EDGES.sub("", reply).upper()
    if _CROSSED_OUT.search(reply):
        return None
    return LETTERS.get(whole) or WORDS.get(re.sub(r"[ -]", "_", whole))


def parse(reply: str) -> Outcome | None:
    """The label that a reply states; None when it states none, more than one, or one in doubt.

    >>> [parse(r).value for r in ("A", "CORRECT", "INCORRECT", "NOT_ATTEMPTED", "Answer: B", "It is INCORRECT.")]
    ['correct', 'correct', 'incorrect', 'deflected', 'incorrect', 'incorrect']
    >>> parse("A or B"), parse("I cannot grade this."), parse("The correct answer is Danube.")
    (None, None, None)
    """
    if (whole := alone(reply)) is not None:
        return whole
    if _NEGATED.search(reply):
        return None
    said: set[Outcome] = set()
    prose = (
        not reply[:NEAR].lstrip().startswith("{")
    )  # a key or a value of a broken object is no sentence
    plain = False  # whether a label is stated by prose alone
    for found in _WORD.finditer(reply):
        how = _stated(reply, found, prose=prose)
        if how:
            said.add(WORDS[re.sub(r"[ -]", "_", found[1].upper())])
            plain |= how == "prose"
        elif found[
            1
        ].isupper():  # named, and not given: "CORRECT or INCORRECT", "It would be CORRECT if"
            return None
    if plain and (
        _TAKEN_BACK.search(reply) or (Outcome.CORRECT in said and _OTHERWISE.search(reply))
    ):
        return None
    # a letter counts in the place of a label only; lower case is an article more often than a label
    for found in _NAMED.finditer(reply):
        letter = next(filter(None, found.groups()))
        if letter in LETTERS:
            if _doubted(reply[max(0, found.start() - NEAR) : found.start()], line=True):
                return None
            said.add(LETTERS[letter])
    if said:  # a second label anywhere makes two: a lone B or C is always one, an A only where no noun can follow
        said |= {
            LETTERS[letter]
            for letter in re.findall(r"(?<![A-Za-z'])([BC]|A(?=\s*[,;/)]))(?![A-Za-z'])", reply)
        }
    return said.pop() if len(said) == 1 else None


def _stated(reply: str, found: re.Match[str], *, prose: bool) -> str:
    """How a word is stated as the label: by its "line", its "name", or "prose"; "" where it is not."""
    before = reply[max(0, found.start() - NEAR) : found.start()]
    after = reply[found.end() : found.end() + NEAR]
    line = before.rpartition("\n")[2] + found[1] + after.partition("\n")[0]
    if alone(line) is not None:
        return "" if _doubted(before) else "line"
    if not _ENDS.match(after) or _UNDONE.match(after):
        return ""
    capitals = found[1].isupper()
    name = _NAME.search(before)
    if name and (
        capitals or name["sign"].lower() != "is"
    ):  # "the answer is correct" is an ordinary sentence
        return "" if _doubted(before[: name.start()], line=True) else "name"
    if capitals and prose and _STATES.search(before) and not _doubted(before):
        return "prose"
    return ""


def _doubted(before: str, *, line: bool = False) -> bool:
    """Whether the clause that ends here denies or doubts what follows; a line may be a clause of its own."""
    if line and "\n" in before:
        before = before.rpartition("\n")[2]
    ends = max(
        (found.end() for found in _BREAK.finditer(before)), default=0 if len(before) < NEAR else -1
    )
    return ends < 0 or _DOUBT.search(before, ends) is not None


def literal(reply: str) -> Outcome:
    """The published parser, faults and all: the first capital A, B or C anywhere; C when there is none.

    For reproducing published numbers only. "CORRECT" and "INCORRECT" read as C, "NOT_ATTEMPTED" as A.

    >>> [literal(r).value for r in ("CORRECT", "INCORRECT", "NOT_ATTEMPTED", "Answer: B", "b")]
    ['deflected', 'deflected', 'correct', 'correct', 'deflected']
    """
    found = re.search(r"[ABC]", reply)
    return LETTERS[found.group() if found else "C"]
