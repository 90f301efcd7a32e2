"""The first step of the judge `local`: what comparing decides exactly, and None for the rest.

    choice   an option by letter or text, a box, yes or no
    number   the reply is one quantity: value, sign, unit, currency, range and bound
    date     the reply is one date, or one time of day
    match    an accepted form and nothing beside it; a formula or a sign; a list that is complete, in any order

Each looks at the reply as a whole (`demur.answers.reply.bodies`): without layout, a lead such as "The answer is", a source
line, or the words of the question. ``data/exact.json`` has how often each was right on labelled replies.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.answers.amounts import Amount, ambiguous, amount, amounts_agree, gold_amounts
from demur.answers.boxes import boxes, iou
from demur.answers.choices import right_labels, stated_options
from demur.answers.formulas import bare, formula, signs_in, symbols
from demur.answers.numbers import in_unit, unit_named
from demur.answers.reply import bodies
from demur.answers.spans import content, spans
from demur.answers.text import both_ends, normalise, readable, words
from demur.answers.whens import date_agrees, times_agree, whole_dates, whole_time
from demur.answers.yes_no import side
from demur.core.records import AnswerSpec, Method, Outcome
from demur.judge.deflection import read
from demur.judge.plain_refusals import is_plain_refusal


class Exact(NamedTuple):
    """What a comparison decided, and which."""

    outcome: Outcome
    method: Method
    """CHOICE, NUMBER, DATE or MATCH."""


def exact(question: str, reply: str, spec: AnswerSpec) -> Exact | None:
    """The outcome where comparing decides it, else None.

    Args:
        question: decides the unit that it asks for, and what of a reply only repeats it.
        reply: what the system said, without thoughts (`demur.core.thinking.visible`).
        spec: what is right; nothing is decided for the kinds ``none`` and ``unknown``.

    >>> spec = AnswerSpec(accepted=(("353 km",), ("353",)))
    >>> exact("How long is it?", "It is 353,000 m long.", spec)
    Exact(outcome=<Outcome.CORRECT: 'correct'>, method=<Method.NUMBER: 'number'>)
    >>> exact("How long is it?", "353 miles", spec).outcome.value, exact("How long is it?", "Quite long.", spec)
    ('incorrect', None)
    """
    if spec.kind in ("none", "unknown"):
        return None
    if spec.kind == "box":
        return _grade_box(spec, reply)
    texts = list(dict.fromkeys(bodies(both_ends(reply), question)))
    if spec.choices:
        return _grade_option(spec, texts)
    if any(_matches_form(spec, form, text) for text in texts for form in spec.accepted):
        return Exact(Outcome.CORRECT, Method.MATCH)
    for compare, method in (
        (_compare_signs, Method.MATCH),
        (_compare_sides, Method.CHOICE),
        (_compare_dates, Method.DATE),
        (_compare_numbers, Method.NUMBER),
        (_compare_lists, Method.MATCH),
        (_compare_formulas, Method.MATCH),
        (_has_other_operator, Method.MATCH),
    ):
        for text in texts:
            right = compare(spec, text, question)
            if right is not None:
                return Exact(Outcome.CORRECT if right else Outcome.INCORRECT, method)
    return None


@cache
def _measured_accuracy() -> dict[str, dict[str, int]]:
    text = files(__package__).joinpath("data/exact.json").read_text(encoding="utf-8")
    measured: dict[str, dict[str, int]] = json.loads(text)
    return measured


def probability(method: Method) -> float:
    """The chance that an exact outcome is right, from ``data/exact.json`` (`tools/measure_exact.py`): never 1."""
    counts = _measured_accuracy().get(method.value, {"right": 0, "decided": 0})
    return (counts["right"] + 1) / (counts["decided"] + 2)


# --- options and boxes ---------------------------------------------------------------------------

FEW = 8
"""Words of a reply in which an option's text is chosen, and in a longer one only mentioned perhaps."""


def _grade_option(spec: AnswerSpec, texts: Sequence[str]) -> Exact | None:
    right_options = right_labels(spec)
    if not right_options or not texts:
        return None
    opt_outs = {label for label, option in spec.choices if declines(option)}
    options_in_full = {
        label
        for text in texts
        for label, option in spec.choices
        if normalise(option) and normalise(text) == normalise(option)
    }
    options_stated = dict.fromkeys(options_in_full, "text") or stated_options(spec, texts[0])
    if not options_stated and opt_outs and declines(texts[0]) and len(texts[0].split()) <= 2 * FEW:
        options_stated = dict.fromkeys(opt_outs, "text")
    if len(labels_listed := _labels_alone(spec, texts[0])) > 1:
        right_ones = labels_listed == right_options and any(len(form) > 1 for form in spec.accepted)
        return Exact(Outcome.CORRECT if right_ones else Outcome.INCORRECT, Method.CHOICE)
    by_letter = {label for label, stated_by in options_stated.items() if stated_by == "letter"}
    if not options_stated or (
        not by_letter and not options_in_full and len(texts[0].split()) > FEW
    ):
        return None
    if len(by_letter) == 1 and declines(texts[0]) and by_letter - opt_outs:
        return None
    chosen = by_letter if len(by_letter) == 1 else set(options_stated)
    if len(chosen) > 1:
        if not by_letter and any(declines(text) for text in texts):
            return None
        return Exact(Outcome.INCORRECT, Method.CHOICE)
    if chosen <= right_options:
        return Exact(Outcome.CORRECT, Method.CHOICE)
    return Exact(Outcome.DEFLECTED if chosen <= opt_outs else Outcome.INCORRECT, Method.CHOICE)


def _labels_alone(spec: AnswerSpec, text: str) -> set[str]:
    """The labels of a text that is nothing but labels: "A or B", "A, C"."""
    labels = {label.casefold(): label for label, _ in spec.choices}
    named = [
        w
        for w in re.split(r"[\s,;/&().]+", text.casefold())
        if w and w not in ("or", "and", "both", "either")
    ]
    return {labels[word] for word in named} if named and set(named) <= labels.keys() else set()


def declines(option: str) -> bool:
    """Whether an option of a question is the one by which it is left open.

    >>> declines("It cannot be determined from the image"), declines("None of the above")
    (True, False)
    """
    return is_plain_refusal(option) and read(option).deflects


def _grade_box(spec: AnswerSpec, reply: str) -> Exact | None:
    stated = boxes(both_ends(reply))
    if spec.box is None or not stated:
        return None
    least = 0.5 if spec.tolerance is None else spec.tolerance
    right = len(stated) == 1 and iou(stated[0], spec.box) >= least
    return Exact(Outcome.CORRECT if right else Outcome.INCORRECT, Method.CHOICE)


# --- an accepted form and nothing beside it -----------------------------------------------------

_BEFORE = re.compile(r"(?:in|on|at|by|from|near|to|with|for|as) (?=\S)", re.IGNORECASE)
_OPERATORS = re.compile(
    r"[+<>=^±≠≤≥√∞]|#(?!\w)|(?<![^\W\d_])-(?=\d)|(?<=[\d)])-$|(?:(?<=^[A-Z])|(?<=^[A-Z][a-z]))-$"
)


def _matches_form(spec: AnswerSpec, form: tuple[str, ...], text: str) -> bool:
    """Whether a text is a form of one part, as words with the same operators; amounts are left to `_compare_numbers`."""
    if len(form) > 1:
        return False
    gold = form[0]
    if (symbol := symbols(gold)) and symbol == symbols(text):
        return True
    if amount(gold) is not None and amount(text) is not None:
        return False
    if gold.strip() == text:
        return True
    for variant in (text, _BEFORE.sub("", text, count=1)):
        if normalise(variant) and normalise(variant) == normalise(gold):
            return bare(variant) == bare(gold) and _count_operators(variant) == _count_operators(
                gold
            )
        reply_words = content(variant)
        if reply_words and not (bare(variant) or bare(gold)):
            ends = reply_words[0].start, reply_words[-1].end
            for start, end in spans(spec, gold, variant, bare=True, kind="string"):
                if (start, end) == ends:
                    return _count_operators(variant) == _count_operators(gold)
    return False


def _count_operators(text: str) -> Counter[str]:
    return Counter(_OPERATORS.findall(readable(text).strip(" .\"'")))


def _single_part_forms(spec: AnswerSpec) -> list[str]:
    return [form[0] for form in spec.accepted if len(form) == 1]


def _compare_signs(spec: AnswerSpec, text: str, question: str) -> bool | None:
    """A gold that is mere signs: shown beside words ("A star: ★"), or another one in its place."""
    golds = {symbols(form) for form in _single_part_forms(spec)}
    if not golds or "" in golds or len(golds) != len(spec.accepted):
        return None
    signs_shown = signs_in(text)
    if symbols(text):
        return symbols(text) in golds
    return len(signs_shown) == 1 and signs_shown[0] in golds if signs_shown else None


def _compare_sides(spec: AnswerSpec, text: str, question: str) -> bool | None:
    golds = {side(form) for form in _single_part_forms(spec)}
    if len(golds) != 1 or not (gold := golds.pop()):
        return None
    stated = "" if declines(re.sub(r"^\W*\w+\W+", "", text)) else side(text)
    return stated == gold if stated else None


def _compare_formulas(spec: AnswerSpec, text: str, question: str) -> bool | None:
    golds = [bare(form) for form in _single_part_forms(spec)]
    reply_formula = bare(text)
    if not reply_formula or not any(golds):
        return None
    if reply_formula in golds:
        return True
    amounts = [amount(form) for form in _single_part_forms(spec)]
    if amount(text):
        turned = formula(text) and not any(amounts)
        return (
            False
            if turned and all(sorted(reply_formula) == sorted(gold) for gold in golds)
            else None
        )
    if not all(golds):
        return None
    if any(amounts):  # "\u221a2" is no 2, while "5 * 3" may be 15
        parts = re.findall(r"\d+(?:\.\d+)?", reply_formula)
        return (
            False
            if formula(text) and "=" not in reply_formula and set(parts) & set(golds)
            else None
        )
    return False


def _has_other_operator(spec: AnswerSpec, text: str, question: str) -> bool | None:
    """The words of a form with other operators: Na- for Na+, C for C#."""
    reply_words = normalise(_SUFFIX.sub("", readable(text)))
    for form in _single_part_forms(spec):
        if reply_words and reply_words == normalise(_SUFFIX.sub("", readable(form))):
            return False if _count_operators(text) != _count_operators(form) else None
    return None


_SUFFIX = re.compile(r"[+#]")


# --- lists ----------------------------------------------------------------------------------------

_SEPARATOR = re.compile(
    r"[,;/\n|、，；・•]|\s(?:and|und|y|e|et|i|en|och|og|ve|и|и|و|और|及|和|と|와|과)\s|\s?&\s?| - ",
    re.IGNORECASE,
)
_ENUMERATOR = re.compile(
    r"^\s*(?:and\s)?(?:\(?\d{1,2}[.)]|[-*•])\s+|^\s*(?:and|und|y|e|et|и)\s", re.IGNORECASE
)
_ORDERED = re.compile(r"\b(?:order|sequence|ranking|rank|chronological)\b", re.IGNORECASE)


def _compare_lists(spec: AnswerSpec, text: str, question: str) -> bool | None:
    reply_items = _list_items(text)
    for form in spec.accepted:
        parts = [
            item
            for part in form
            for item in (_list_items(part) if len(form) == 1 else [_item_key(part)])
        ]
        if len(parts) < 2 or not reply_items or form[0].startswith("(") or amount(form[0]):
            continue
        if reply_items == parts or (
            not _ORDERED.search(question) and Counter(reply_items) == Counter(parts)
        ):
            return True
        if len(spec.accepted) > 1:
            continue
        if len(form) > 1 and set(reply_items) < set(parts):
            return False
        if len(reply_items) > 1 and all(key[:1].isdigit() for key in (*reply_items, *parts)):
            return False
    return None


def _list_items(text: str) -> list[str]:
    return [key for item in _SEPARATOR.split(text) if (key := _item_key(_ENUMERATOR.sub("", item)))]


def _item_key(item: str) -> str:
    if (number := amount(item)) is not None:
        return f"{number.low:g} {number.high:g} {number.unit} {number.noun}".strip()
    return normalise(item)


# --- numbers and dates ----------------------------------------------------------------------------


def _compare_numbers(spec: AnswerSpec, text: str, question: str) -> bool | None:
    if spec.kind == "date":
        return None
    foreign = not _ENGLISH & {w.norm for w in words(question)}
    reply_amount = amount((foreign and ambiguous(text)) or text)
    if reply_amount is None:
        return None
    other = amount(ambiguous(text)) if ambiguous(text) and not foreign else None
    if foreign:
        spec = spec.model_copy(
            update={"accepted": tuple((ambiguous(f) or f,) for f in _single_part_forms(spec))}
        )
    if spec.number is not None:
        within = [_within_range(spec, each) for each in (reply_amount, other) if each is not None]
        if True in within:
            return True
        if not spec.accepted:
            return None if None in within else False
    golds, complete = gold_amounts(spec, question)
    tolerance = spec.tolerance if spec.kind == "number" else None
    results = [amounts_agree(gold, reply_amount, question, tolerance) for gold in golds]
    if True in results:
        return True
    if None in results or (
        other and any(amounts_agree(gold, other, question, tolerance) for gold in golds)
    ):
        return None
    return False if complete and results else None


_ENGLISH = frozenset(
    "what which who whose how when where why is are was were does did the of this".split()
)
"""One of these is in any English question; in others a point before three digits separates thousands."""


def _within_range(spec: AnswerSpec, reply_amount: Amount) -> bool | None:
    """Whether an amount lies in the accepted range; None where its unit cannot be compared."""
    low, high = spec.number or (0.0, 0.0)
    if reply_amount.bound not in ("", "~"):
        return False
    unit = unit_named(spec.unit)
    ends = (reply_amount.low, reply_amount.high)
    if unit and reply_amount.unit and unit != reply_amount.unit:
        converted = (
            in_unit(reply_amount.low, reply_amount.unit, unit),
            in_unit(reply_amount.high, reply_amount.unit, unit),
        )
        if converted[0] is None or converted[1] is None:
            return False
        ends = converted[0], converted[1]
    elif spec.unit and not unit and normalise(reply_amount.noun) not in ("", normalise(spec.unit)):
        return None
    slack = 1e-9 * max(abs(low), abs(high))
    if low == high and spec.tolerance is not None:
        slack = max(slack, spec.tolerance * abs(low))
    return low - slack <= ends[0] and ends[1] <= high + slack


def _compare_dates(spec: AnswerSpec, text: str, question: str) -> bool | None:
    forms = _single_part_forms(spec)
    if reply_dates := whole_dates(text):
        golds = [whole_dates(form) for form in forms]
        if not golds or not all(golds):
            return None
        results = [
            date_agrees(gold, date) for dates in golds for gold in dates for date in reply_dates
        ]
        return True if True in results else None if None in results else False
    if (time := whole_time(text)) is not None:
        times = [whole_time(form) for form in forms]
        if any(gold is not None and times_agree(gold, time) for gold in times):
            return True
        return False if times and None not in times else None
    return None
