"""Which of the rules' verdicts are proofs, and which are guesses that a better judge should look at.

A right answer that is stated, not denied and without a rival is *certain*. A wrong one is certain only where a rival of
the same kind was put in its place: another option, the opposite of yes or no, another date, another number in the same
unit. That the accepted form is missing proves nothing: of such answers of real QA systems people call four in ten
right. A deflection is certain where the speaker says that he cannot answer, and says little else.
"""

from __future__ import annotations

import re

from demur.answers.choices import right_labels, stated_options
from demur.answers.dates import Date, dates, whole_date
from demur.answers.match import holds
from demur.answers.numbers import Quantity, in_unit, quantities, whole_quantity
from demur.answers.yes_no import polarities, polarity
from demur.records import AnswerSpec, Ask, Outcome, Status, Verdict

SHORT = 60
"""Words of an answer in which a rival is looked for: longer ones hold many numbers that answer something else."""
CLOSE = 0.1
"""Relative difference within which another number may be the right one, rounded: no proof."""

_UNSURE = re.compile(
    r"\b(?:circa|c\.|around|about|approximately|roughly|nearly|almost|over|under|than|least|most|up to|early|mid|late|"
    r"before|after|since|until|by)[\s-]{1,3}(?:the\s)?\D{0,3}\d|\b(?:once|twice|thrice|none)\b"  # no exact figure
    r"|\b(?:1\d|20)\d\ds\b|\d\s?[-\u2013]\s?\d|\bcentur"
    r"|\b(?:1[5-9]|20)\d\d\d{1,2}(?!\d)(?=[\s.,;)]|$)|[A-Za-z]\d|(?<![\d.,])0\d",  # a footnote, or words run together
    re.IGNORECASE,
)
"""What makes another figure no proof: it is not exact, or not read as it was meant."""

_SPEAKER = re.compile(
    r"\b(?:i|we|i'm|sorry)\b|\b(?:can(?:no|')?t|cannot|could(?:n't| not)|unable|don't|do not|not possible|impossible)\b"
    r"|\bno (?:idea|answer|information|way)\b|^(?:unknown|unanswerable|not (?:known|available|stated|given))\b",
    re.IGNORECASE,
)


def certain(ask: Ask, text: str, answers: AnswerSpec, verdict: Verdict) -> bool:
    """Whether a verdict of the rules is a proof.

    Args:
        ask: what was asked.
        text: the visible answer.
        answers: what counts as right.
        verdict: of the rules.
    """
    if verdict.status is Status.FAILED:
        return True
    if verdict.outcome is Outcome.CORRECT:
        return True
    if verdict.outcome is Outcome.DEFLECTED:
        return _declines(text, answers, verdict.reason)
    return verdict.outcome is Outcome.INCORRECT and bool(rival(ask.question, text, answers))


def _declines(text: str, answers: AnswerSpec, reason: str) -> bool:
    return bool(_SPEAKER.search(reason.partition(":")[2])) and len(text.split()) <= SHORT and not holds(answers, text)


def rival(question: str, text: str, answers: AnswerSpec) -> str:
    """What of the same kind as the answer is stated in its place; "" when there is no such proof."""
    if answers.kind == "choice" and answers.choices:
        stated = stated_options(answers, text)
        wrong = set(stated) - right_labels(answers)
        return f"option {sorted(wrong)[0]}" if len(stated) == 1 and wrong else ""
    side = polarity(answers)
    if side:
        said = polarities(text)
        return f"says {said.copy().pop()}" if len(said) == 1 and side not in said else ""
    if len(text.split()) > SHORT or _UNSURE.search(text):
        return ""
    forms = [form[0] for form in answers.accepted if len(form) == 1]
    days = [d for form in forms if (d := whole_date(form)) is not None]
    if days and len(days) == len(forms):
        return _other_date(question, text, days)
    numbers = [n for form in forms if (n := whole_quantity(form)) is not None]
    if numbers and len(numbers) == len(forms):
        return _other_number(question, text, [n for n, _ in numbers])
    return ""


def _other_date(question: str, text: str, right: list[Date]) -> str:
    asked = {d[:3] for d in dates(question)}
    found = [d for d in dates(text) if d[:3] not in asked]
    years = {d.year for d in found}
    if not found or len(years) > 1 or any(abs(d.year - r.year) < 2 for d in found for r in right):
        return ""  # one year apart may be a season, a fiscal year, or another calendar
    return f"says {min(years)}"


def _other_number(question: str, text: str, right: list[Quantity]) -> str:
    asked = {q.low for q in quantities(question)}
    found = [q for q in quantities(text) if q.low not in asked]
    if len(found) != 1:
        return ""
    [said] = found
    for gold in right:
        value = in_unit(said.low, said.unit, gold.unit) if said.unit != gold.unit else said.low
        if value is None:
            return ""
        if abs(value - gold.low) <= CLOSE * max(abs(gold.low), abs(gold.high), 1e-12):
            return ""
    return f"says {said.low:g} {said.unit}".strip()
