"""Multiple choice: the right options, and the options that a reply states by letter or by text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

from demur.answers.spans import Span, spans
from demur.answers.text import normalise, readable
from demur.core.records import AnswerSpec


def right_labels(spec: AnswerSpec) -> set[str]:
    """Labels of the options that an accepted form names by its text, else by its label."""
    right = {normalise(p) for form in spec.accepted for p in form}
    by_text = {label for label, text in spec.choices if normalise(text) in right}
    return by_text or {label for label, _ in spec.choices if normalise(label) in right}


def no_option(spec: AnswerSpec) -> str:
    """Why no reply to a choice can be right: no options, or an accepted form that names none; "" if one can."""
    if spec.kind == "choice" and not spec.choices:
        return "a choice without options"
    unnamed = [
        part
        for form in spec.accepted
        for part in form
        if spec.choices and not right_labels(spec.model_copy(update={"accepted": ((part,),)}))
    ]
    return f"the answer {unnamed[0]!r} names none of {len(spec.choices)} options" if unnamed else ""


def stated_options(spec: AnswerSpec, text: str) -> dict[str, str]:
    """The options that a text states: label -> "letter" or "text"."""
    labels = {normalise(label): label for label, _ in spec.choices}
    plain = readable(text).strip()
    how_stated: dict[str, str] = {}
    sole_label = labels.get(re.sub(r"^(?:option|choice|answer|letter) ", "", normalise(plain)))
    if sole_label:
        how_stated[sole_label] = "letter"
    for label in _labels_by_letter(spec, plain):
        how_stated[labels[normalise(label)]] = "letter"
    texts: dict[str, list[Span]] = {}
    for label, option in spec.choices:
        places = [
            s for s in spans(spec, option, plain, bare=True, kind="string") if not denied(plain, s)
        ]
        if places:
            texts[label] = places
    for label, places in texts.items():  # "red fox" states one option, not also "fox"
        other_spans = sorted(s for o in texts if o != label for s in texts[o])
        starts = [start for start, _ in other_spans]
        furthest_ends = list(accumulate((end for _, end in other_spans), max))
        for start, end in places:
            before, upto = bisect_left(starts, start), bisect_right(starts, start)
            if not (before and furthest_ends[before - 1] >= end) and not (
                upto > before and other_spans[upto - 1][1] > end
            ):
                how_stated.setdefault(label, "text")
                break
    return how_stated


_DENIAL = re.compile(
    r"(?:\b(?:not|never|neither|nor|without|except|excluding|unlike)|n't|\b(?:rather than|instead of|"
    r"(?<!none )(?<!nothing )(?<!nobody )(?<!no one )other than|no longer|apart from|as opposed to))"
    r"(?:\s+(?:in|at|on|by|from|the|a|an|really|actually|necessarily|to|be|called|located|named|it|"
    r"is))*\s*+(?:[\"'(*]++\s*+)?+$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^\W*(?:is|was|are|were|would be|seems|looks)\s+(?:not\b(?! only)|n't|wrong|incorrect|false)|"
    r"^\W*(?:is|was|are|were)n't\b",
    re.IGNORECASE,
)


def denied(text: str, span: Span) -> bool:
    """Whether the text denies what stands at ``span``."""
    text = readable(text)
    before = re.split(r"[.;!?\n]\s", text[max(0, span[0] - 80) : span[0]])[-1]
    return bool(_DENIAL.search(before)) or bool(_DENIED_AFTER.match(text[span[1] : span[1] + 40]))


SHORT = 60
"""Characters of a reply in which a letter that stands alone is an option: "Die Antwort ist B.", "I would go with B"."""
_DROPPED = re.compile(
    r"\b(?:eliminat|rul|exclud|discard|reject)\w{1,3}(?: out)? (?:option |choice |answer )?$",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"is|s|be|it|choose|chose|pick|select|with|for|on|say|guess|think|so|thus|but|not|n?either|n?or|only|answer|option|"
    r"choice|letter|out|eliminate|exclude|discard|reject|es|est|ist|lautet|\u00e8|\u00e9|da|jest|to|het|er|la|el|le|the|"
    r"die|der|lettre|letra|lettera|litera|antwort|antwoord|respuesta|r\u00e9ponse|risposta|resposta|erantzuna|"
    r"odpowied\u017a|cevap|opci\u00f3n?|opzione|op\u00e7\u00e3o",
    re.IGNORECASE,
)
"""Words before the letter of an option; after others it may be part of a name: "vitamin C", "hepatitis B"."""
_WORD_BEFORE = re.compile(r"(?<![A-Za-z\u00c0-\u024f])([A-Za-z\u00c0-\u024f]+)[ :]{1,2}$")
_WRONG = re.compile(
    r"\W{0,3}(?:is|was) (?:\w{3,10}ly )?(?:not|wrong|incorrect|false|out|ruled out|eliminated)\b"
)


def _labels_by_letter(spec: AnswerSpec, plain: str) -> set[str]:
    """The labels by which a reply states options; without those that it rules out."""
    any_label = "|".join(re.escape(readable(label)) for label, _ in spec.choices)

    def undenied_labels(pattern: str) -> set[str]:
        return {
            match.group(1)
            for match in re.finditer(pattern, plain)
            if not denied(plain, match.span())
            and not _WRONG.match(plain, match.end(1))
            and not _DROPPED.search(plain[max(0, match.start() - 40) : match.start()])
        }

    explicit_labels = (
        undenied_labels(rf"\(({any_label})\)")
        | undenied_labels(rf"(?:^|\n)\W{{0,3}}({any_label})(?:[.):]|\*\*|$|\n)")
        | undenied_labels(rf"^\W{{0,3}}({any_label}),? (?:because|since|is (?:correct|right))\b")
        | undenied_labels(
            rf"\b(?i:option|choice|answer|letter)(?: is)?:?\W{{0,3}}({any_label})(?![^\W_])"
        )
    )
    letters = [label for label, _ in spec.choices if re.fullmatch("[A-Z]", label)]
    if explicit_labels or len(plain) > SHORT or len(letters) < len(spec.choices):
        return explicit_labels
    lone_label = rf"(?<![A-Za-z0-9'.-])({any_label})(?![A-Za-z0-9'&+#%-])"
    if any(re.search(lone_label, text) for _, text in spec.choices):  # "vitamin C"
        return explicit_labels
    for match in re.finditer(lone_label, plain):
        before = _WORD_BEFORE.search(plain[max(0, match.start() - 40) : match.start()])
        if before and not _LEADS.fullmatch(before[1]):
            return explicit_labels
    lone_labels = undenied_labels(lone_label)
    # an article, a preposition or a pronoun stands before another word: "A fox"
    lone_labels_at_ends = undenied_labels(
        lone_label + r"(?:(?! [A-Za-z\u00c0-\u024f])|(?= (?:because|since|is) ))"
    )
    return (
        lone_labels
        if lone_labels == lone_labels_at_ends and len(lone_labels) == 1
        else explicit_labels
    )
