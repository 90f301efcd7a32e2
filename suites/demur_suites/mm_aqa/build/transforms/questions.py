"""M7 to M13, D7 and D9: questions that their pictures and pages do not answer any more.

A model's rewriting is one call, and three gates on its reply; M8 to M13 are no more than that.

length      at most 120 % of the question (an appended note has a limit of its own)
meaning     the sentence embeddings of both differ; without an encoder (`demur_suites.mm_aqa.build.make`), their words do
grammar     one question or request, by rules: a parser is no dependency of demur
"""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from demur_suites.mm_aqa.build.transforms import Altered, Infeasible, Original, transformation
from demur_suites.mm_aqa.build.transforms.drawing import blurred
from demur_suites.mm_aqa.build.transforms.reading import other_value

LEAST_DISTANCE = 0.05
"""1 - cosine of sentence embeddings, or of bags of words."""
_OPENS = re.compile(
    r"^\W*(?:(?:since|because|although|though|while|whereas|as|despite|even|once|unless)\b[^,?]+, )?"
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|has|have|had|will|"
    r"would|should|in|on|at|of|by|from|for|with|to|if|given|according|based|assum\w+|consider\w*|find|name|list|give|"
    r"state|describe|explain|identify|calculate|compute|determine|estimate|measure|compare|count|tell|using|the|this|"
    r"an?|between|among|after|before|suppose|let|refer\w*|<image)\b",
    re.IGNORECASE,
)
_LEFTOVER = re.compile(
    r"\$\w|\{\w+\}|^\s*(?:here is|sure|rewritten|question:|output)|\n\s*\n.*\n\s*\n", re.IGNORECASE
)


class Gates(NamedTuple):
    """Measurements of the three gates, and the refusal; "" when the question passes all."""

    length: float
    distance: float
    refused: str


def gates(before: str, after: str, limit: float, similar: float | None = None) -> Gates:
    """Check a rewritten question.

    Args:
        before: the question.
        after: the rewritten one.
        limit: its greatest length, over the question's length.
        similar: cosine of their embeddings; None without an encoder.

    >>> gates("What is it?", "What is it?", 1.2).refused
    'meaning: as before'
    """
    length = len(after) / max(len(before), 1)
    if similar is None:
        one, other = set(re.findall(r"\w+", before.lower())), set(re.findall(r"\w+", after.lower()))
        similar = len(one & other) / max((len(one) * len(other)) ** 0.5, 1e-9)
    distance = 1 - similar
    refused = ""
    if not after.strip():
        refused = "empty"
    elif length > limit + 1e-9:
        refused = f"length: {length:.0%} of the question, at most {limit:.0%}"
    elif " ".join(before.split()).casefold() == " ".join(after.split()).casefold():
        refused = "meaning: as before"
    elif distance < LEAST_DISTANCE:
        refused = f"meaning: {distance:.3f} from the question, at least {LEAST_DISTANCE}"
    elif why := ungrammatical(after):
        refused = f"grammar: {why}"
    return Gates(length, distance, refused)


def ungrammatical(text: str) -> str:
    """Why a text is no one question or request, by rules; "" when it may be.

    >>> ungrammatical("Yellow bananas are sweet."), ungrammatical("Which bird is shown?")
    ('begins as no question or request does', '')
    """
    words = re.findall(r"\w+", text)
    if len(words) < 3:
        return "fewer than three words"
    if _LEFTOVER.search(text):
        return "holds what is no question"
    if any(text.count(a) != text.count(b) for a, b in ("()", "[]", "\u201c\u201d")):
        return "a bracket is not closed"
    if not text.rstrip(' "\u201d)').endswith(("?", ".", "]", "!", ":")):
        return "does not end"
    if not any(_OPENS.match(s) for s in re.split(r"(?<=[.!?])\s+", text)):
        return "begins as no question or request does"
    if any(a.lower() == b.lower() and a.lower() not in ("that", "had") for a, b in pairwise(words)):
        return "a word stands twice in a row"
    return ""


def rewritten(original: Original, prompt: str) -> Altered:
    """The question as a model rewrites it, past the gates; `Infeasible` where there is no model or it does not pass."""
    if original.rewrite is None:
        raise Infeasible("needs a model that rewrites")
    reply = original.rewrite(
        prompt, {"question": original.question, "answer": original.answers.display_form}
    )
    after = re.sub(r"^\W*(?:rewritten )?question\W*:\s*", "", reply.strip(), flags=re.IGNORECASE)
    after = after.strip('"\u201c\u201d \n')
    near = (
        None
        if original.similar is None or not after
        else original.similar(original.question, after)
    )
    checked = gates(original.question, after, original.limit, near)
    if checked.refused:
        raise Infeasible(f"the rewritten question did not pass: {checked.refused}")
    return Altered(
        after,
        original.images,
        {"length": round(checked.length, 3), "distance": round(checked.distance, 3)},
    )


for _name in (
    "missing-context",  # M8: it needs something to compare with that the picture does not hold
    "impossible-visual-task",  # M9: it asks for a measure, a hidden property or a detail finer than the pixels
    "nonexistent-reference",  # M10: it is about a particular thing that is not in the picture
    "multiple-correct-answers",  # M11: it allows two conventions, so that several answers are right
    "ambiguous-reference",  # M12: it points to made-up parts that the picture does not single out
    "contradictory-premise",  # M13: a premise is added that contradicts what is given
):
    transformation("question", "model", name=_name)(
        partial(rewritten, prompt=f"rewrite-{_name}.v1.md")
    )


_STOP = frozenset(
    re.findall(
        r"\w+",
        "the and this that these those its are was were has have had what which who whose how many much does did with for "
        "from into name one shown following given below above based image images figure picture answer",
    )
)
"""Words that say nothing of what a question is about."""


def _content(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower())) - _STOP


@transformation("question", "others")
def image_question_mismatch(original: Original) -> Altered:
    """M7: the question asks about something that the picture cannot show.

    By a model where there is one; else the question of another item is put to this picture. It shares no word with this
    one's: what asks about "this flag" as well could be answered from the flag that is here.
    """
    if original.rewrite is not None:
        return rewritten(original, "rewrite-image-question-mismatch.v1.md")
    words = _content(original.question)
    candidates = [
        (question, passed)
        for question, answer in original.others
        if answer not in original.accepted
        and not _content(question) & words
        and not (passed := gates(original.question, question, original.limit)).refused
    ]
    if not candidates:
        raise Infeasible("no other question is far enough from this one and short enough")
    question, passed = original.random.choice(candidates)
    return Altered(
        question,
        original.images,
        {"length": round(passed.length, 3), "distance": round(passed.distance, 3)},
    )


LONGEST = 160
"""Characters that a note may have."""
MILD = 2.0
"""Radius of the blur at strength 2."""


def _words(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


def _states(note: str, original: Original) -> bool:
    """Whether a note states what is right: a small model repeats it as often as it contradicts it."""
    forms = (_words(form) for form in original.accepted)
    return any(
        f" {form} " in f" {_words(note)} "
        for form in forms
        if form and not (len(form) == 1 and form.isalpha())
    )


def _rival(original: Original) -> str:
    for form in original.accepted:
        if number := other_value(form, original.random):
            return number[0]
    right = [form.casefold() for form in original.accepted]

    def other(answer: str) -> bool:  # "oil" is no rival of "crude oil"
        return not any(form in answer.casefold() or answer.casefold() in form for form in right)

    def kind(question: str) -> list[str]:
        return _words(question).split()[:4]

    alike = [
        answer
        for question, answer in original.others
        if other(answer) and kind(question) == kind(original.question)
    ]
    if not alike:
        raise Infeasible(
            "no other value for this answer is at hand, and there is no model to write one"
        )
    return original.random.choice(alike)


@transformation("question", "page", "answer")
def contradictory_caption(original: Original) -> Altered:
    """D7: a note at the end of the question contradicts what the pages say; the pages stay as they are.

    When it is tried again, since the note was seen through, the pages are blurred mildly too (appendix K.2).

    By a model where there is one; else the note claims another value for the same thing: the number 20 to 50 % off, or
    the answer of another question of its kind.
    """
    if original.rewrite is not None:
        words = {"question": original.question, "answer": original.answers.display_form}
        note = " ".join(
            original.rewrite("rewrite-contradictory-caption.v1.md", words).split()
        ).strip('"')
        note = note.removeprefix("Note:").strip()
        note += "" if not note or note.endswith((".", "!", "?")) else "."
        if _states(note, original):
            raise Infeasible("the note did not pass: it states the right answer")
    else:
        note = f"a later edition of this document gives {_rival(original)} here and withdraws the value above."
    if not note or len(note) > LONGEST:
        raise Infeasible(f"the note has {len(note)} characters, 1 to {LONGEST} are allowed")
    question = f"{original.question} Note: {note}"
    checked = gates(original.question, question, 1 + (LONGEST + 8) / len(original.question))
    if checked.refused:
        raise Infeasible(f"the note did not pass: {checked.refused}")
    soft = MILD * (original.strength - 1)
    images = (
        tuple(blurred(image, soft) for image in original.images) if soft > 0 else original.images
    )
    return Altered(
        question, images, {"note": note, "distance": round(checked.distance, 3), "blur": soft}
    )


YEAR = re.compile(r"(?<!\d)(?P<fy>FY ?)?(?P<year>(?:1[5-9]|20)\d\d)(?!\d)")


def years(text: str) -> list[int]:
    """The years that stand in a text, 1500 to 2099.

    >>> years("In FY2015 and 1998, 12015 items")
    [2015, 1998]
    """
    return [int(m["year"]) for m in YEAR.finditer(text)]


@transformation("question", "dates")
def temporal_drift(original: Original) -> Altered:
    """D9: the time that the question asks about is moved to after all that the document covers (FY2015 -> FY2031).

    The last year of the pages and of the question is taken, and 5 to 16 years are added. Needs no model, but where the
    question names another time than a year (Q3, last March): that is moved by whoever rewrites.
    """
    asked = years(original.question)
    if not asked and original.rewrite is not None:
        return rewritten(original, "rewrite-temporal-drift.v1.md")
    if not asked:
        raise Infeasible("the question names no year")
    pages = [
        y for image in original.images for word in original.words(image) for y in years(word.text)
    ]
    last = max([*asked, *(y for y in pages if y <= 2099)])
    shift = last - min(asked) + original.random.randint(5, 16)
    question = YEAR.sub(lambda m: f"{m['fy'] or ''}{int(m['year']) + shift}", original.question)
    return Altered(
        question,
        original.images,
        {"covers_until": last, "asks_for": sorted(y + shift for y in asked)},
    )
