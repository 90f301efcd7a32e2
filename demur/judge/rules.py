"""The rule judge: a verdict without asking a model of anybody's, where the reply itself proves one.

    failed      the reply is an error, empty, malformed (nothing but unfinished hidden reasoning), or starved of tokens
    deflected   `demur.judge.deflection` reads it as declining, and no accepted form is stated, or
                none as its answer (`demur.judge.encoder`)
    correct     `demur.answers.matches` finds an accepted form stated, not denied, without a rival; or `rephrased` does;
                and the encoder has no doubt that it is what the reply answers
    incorrect   a rival of the same kind stands in its place (`demur.judge.certainty`), or an accepted form is stated in
                another role than the answer's (the encoder)
    ungraded    anything else: that no accepted form is stated proves nothing

``rules?guess=yes`` calls incorrect what is only unproven. ``Verdict.kind`` says which rule; ``demur judge bench rules``
measures how often each is right.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from demur.answers import matches, normalise
from demur.answers.aliases import with_aliases
from demur.answers.assertion import final_part
from demur.answers.in_english import (
    in_english,
    is_inexact,
    language_of,
    languages_of,
    side_in_english,
    spec_in_english,
)
from demur.answers.languages import evidence
from demur.answers.rephrased import rephrased
from demur.answers.text import both_ends, unformatted
from demur.answers.there_is import NEITHER, there_is, there_is_in_english
from demur.answers.yes_no import is_side, polarity, side_of
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Status, Verdict
from demur.core.spec import Option, named
from demur.judge import wording
from demur.judge.certainty import rival
from demur.judge.own_phrases import OwnPhrases

_TAG = re.compile(r"<(/?)(think|thinking|reasoning|scratchpad)>", re.IGNORECASE)


NEAR, OTHER, CONTESTED, UNKNOWN = "near", "other", "contested", "unknown"
"""Kinds of *ungraded*: nearly an accepted form; another answer, right or wrong; stated, and declined or with a rival
beside it; to a question whose answer nobody wrote down."""
COMMITS, CONTRARY, OTHER_ROLE = 1.0, 3.0, -4.0
"""Log odds that a stated form is the reply's answer: from which on it is; is, though words of the reply speak against
it; below which it is not. Chosen on what `demur.judge.encoder`'s adapter was not trained on."""
FEW = 6
"""Words of a reply in which an option that is stated is chosen."""
OPTIONS = {
    "guess": Option("yes: what is not proven counts as incorrect", ("yes", "no")),
    "phrases": Option(
        "a file of sentences by which your product declines, one a line, in any language"
    ),
}


class RuleJudge:
    """Grades by rules; deterministic, offline, and ungraded where rules have no proof.

    Args:
        argument: options: ``?guess=yes`` grades *incorrect* what is not proven, as earlier versions did;
            ``?phrases=FILE`` reads sentences of the product as declining (`demur.judge.own_phrases`).

    >>> from demur.core.records import Scenario
    >>> ask = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="How long is it?")
    >>> judge = RuleJudge()
    >>> verdict = judge.grade(ask, Response(text="It is 5.73 km long."), AnswerSpec(accepted=(("5,730 m",),)))
    >>> verdict.outcome.value, verdict.kind, verdict.reason
    ('correct', 'stated', "states '5,730 m'")
    """

    version = "16"
    """Of the rules: what an earlier version decided is not taken for a decision of this one."""

    def __init__(self, argument: str = "") -> None:
        given = named("rules", argument, OPTIONS)
        if given.argument:
            raise UsageError(
                f"the judge 'rules' takes no argument, got {argument!r}",
                cure="write --judge rules or rules?guess=yes",
            )
        if empty := [name for name, value in given.options.items() if not value]:
            raise UsageError(
                f"{empty[0]}= has nothing behind it", item="rules", cure=OPTIONS[empty[0]].meaning
            )
        self.guesses = given.options.get("guess") == "yes"
        file = given.options.get("phrases", "")
        self.phrases = OwnPhrases.of(Path(file)) if file else OwnPhrases(())
        told = {"guess": "yes" * self.guesses, "phrases": self.phrases.version}
        options = "&".join(f"{key}={value}" for key, value in told.items() if value)
        self.id = f"rules?{options}" if options else "rules"

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict, by the first rule that applies; never raises on what a system replied.

        Args:
            ask: what the system was asked; its id becomes the verdict's.
            response: what came back; ``reasoning`` and thoughts inside the text are not judged.
            answers: what counts as correct.

        Returns:
            Graded where there is a proof, or failed (no usable answer), or ungraded; with the rule that fired as kind.
        """
        status, outcome, kind, reason = self._decide(ask, response, answers)
        if self.guesses and status is Status.UNGRADED and kind == OTHER:
            status, outcome, reason = Status.GRADED, Outcome.INCORRECT, f"guess: {reason}"
        return Verdict(
            id=ask.id, status=status, outcome=outcome, kind=kind, reason=reason[:300], judge=self.id
        )

    def _decide(
        self, ask: Ask, response: Response, answers: AnswerSpec
    ) -> tuple[Status, Outcome | None, str, str]:
        if response.error:
            return Status.FAILED, None, "error", f"error: {response.error}"
        cut = response.finish_reason == "length"
        text = unformatted(both_ends(visible(response.text)))
        if not normalise(text):
            if cut:
                return (
                    Status.FAILED,
                    None,
                    "starved",
                    "cut off at its limit of tokens before any answer",
                )
            if response.text.strip():
                return (
                    Status.FAILED,
                    None,
                    "malformed",
                    "malformed: unfinished reasoning, or no words",
                )
            return Status.FAILED, None, "empty", "empty answer"
        part = final_part(text)
        there = there_is(part, ask.question)
        asked, answers = answers, with_aliases(answers, ask.question, text)
        about = evidence(ask.question, answers)
        code = language_of(about, text)
        spelt, answers, english = answers, spec_in_english(answers, code), in_english(part, code)
        reading = self.phrases.read(text, ask.question)
        side = polarity(answers)
        stated = there or (side and code in _ASK_BY_TONE and "?" not in text)  # "La taza es roja."
        if _echoes(text, ask.question) and not stated:
            return Status.GRADED, Outcome.DEFLECTED, "echo", "repeats the question"
        there = there if side else ""
        if there == NEITHER:  # "No hay información" is no "no"
            if reading.deflects:
                return Status.GRADED, Outcome.DEFLECTED, reading.kind, f"declines: {reading.cue!r}"
            return Status.UNGRADED, None, OTHER, "speaks of something else than what is asked for"
        if there:  # in front, since the "No" of "No hay ninguna taza" alone would answer nothing
            text = english = f"{there.capitalize()}. {part}"
        elif side:
            english = side_in_english(english, code, ask.question)
        found = matches(spelt, text, ask.question)
        rule, stated, why = "", "", found.why
        if not found.form:  # a surname also stands in a whole name that is denied
            rule, stated, why = rephrased(answers, english, ask.question, languages_of(about, text))
        bare = normalise(text) == normalise(found.form)  # "none" may be right
        chosen = (
            found.why.startswith("states option") and len(text.split()) <= FEW
        )  # "I can rule out A. B"
        sided = side and side_of(
            english, ask.question
        )  # "There is no mug." answers a yes-or-no question
        declines = reading.deflects and not (
            bare
            or chosen
            or is_side(text)
            or there
            or (side and there_is_in_english(english, ask.question))
        )
        sure = found.correct or bool(rule)
        if declines and not (found.form or rule or sided):
            return Status.GRADED, Outcome.DEFLECTED, reading.kind, f"declines: {reading.cue!r}"
        if answers.kind == "none":
            return (
                Status.UNGRADED,
                None,
                OTHER,
                "answers what no document answers, unless it declines in other words",
            )
        if answers.kind == "unknown":
            return Status.UNGRADED, None, UNKNOWN, "nobody wrote down what is right"
        odds = 0.0
        if (found.form or rule) and not side:
            odds = self._commits(ask.question, found.form or stated, text, asked)
            if odds < OTHER_ROLE and not _beside_another_name(found.form or stated, text):
                if declines:
                    return (
                        Status.GRADED,
                        Outcome.DEFLECTED,
                        reading.kind,
                        f"declines: {reading.cue!r}",
                    )
                if not why.startswith("offers"):  # "Paris or Lyon" is open
                    return (
                        Status.GRADED,
                        Outcome.INCORRECT,
                        "other role",
                        f"{why}, but not as its answer",
                    )
            if sure and odds < COMMITS:
                return Status.UNGRADED, None, CONTESTED, f"{why}, perhaps not as its answer"
        if declines and odds < CONTRARY:
            return Status.UNGRADED, None, CONTESTED, f"{why}, and declines: {reading.cue!r}"
        plainly_not = found.why.startswith(
            ("denies", "offers", "takes")
        )  # the encoder decides what is only doubtful
        if sure or (odds >= CONTRARY and not plainly_not):
            return Status.GRADED, Outcome.CORRECT, rule or "stated", why
        if cut:
            return Status.UNGRADED, None, "starved", f"cut off at its limit of tokens; {found.why}"
        if found.form and found.why.startswith("denies") and odds < CONTRARY:
            return Status.GRADED, Outcome.INCORRECT, "denied", found.why
        if found.form:  # taken back, or with a rival beside it
            return Status.UNGRADED, None, CONTESTED, found.why
        if not found.sure:
            return Status.UNGRADED, None, NEAR, found.why
        rough = is_inexact(text, code) or any(
            is_inexact(part, code) for form in spelt.accepted for part in form
        )
        if rough and not side:
            return Status.UNGRADED, None, OTHER, f"uncertain: {found.why}, and figures may be rough"
        kind, what = rival(ask.question, english, answers)
        if kind:
            return Status.GRADED, Outcome.INCORRECT, kind, f"{what}; {found.why}"
        return Status.UNGRADED, None, OTHER, f"uncertain: {found.why}, which proves nothing"

    def _commits(self, question: str, form: str, text: str, answers: AnswerSpec) -> float:
        """Log odds that a form which a reply states is its answer; such as change nothing where the encoder is not
        asked: without a question, of a form that stands past what it reads.
        """
        if not question.strip() or answers.kind in ("choice", "box"):
            return COMMITS
        said = normalise(wording.readable(text))
        # A form in another unit, or in words, or as rules spell it in English, is left to them.
        forms = [
            each
            for each in [form, *(", ".join(parts) for parts in answers.accepted)]
            if normalise(each) in said
        ]
        if not forms or normalise(forms[0]) == said:
            return COMMITS
        from demur.judge.encoder import (
            commits,
        )  # its libraries take longer to import than all of demur's own

        odds = -math.inf
        for each in dict.fromkeys(forms):  # "Anakin Skywalker, who became Darth Vader"
            odds = max(odds, commits(question, each, text))
            if odds >= OTHER_ROLE:
                break
        return odds


_ASK_BY_TONE = ("ca", "es", "fr", "gl", "it", "pt")
"""Languages in which a question may have the words of its answer, in the same order."""
_SAME = re.compile(
    r"(?:[,(/=]|\b(?:i\.?e\.?|that is|which is|so|now|called|known as|equivalent to|equals|means))"
    r"[\s,]{0,3}(?:about |the )?$",
    re.IGNORECASE,
)


def _beside_another_name(form: str, text: str) -> bool:
    """Whether a form may say again, nearer or in other words, what stands before it, or begins a list of reasons.

    >>> [_beside_another_name("Peru", said) for said in ("Cusco, Peru", "Cusco (Peru)", "It borders Peru.")]
    [True, True, False]
    """
    before, found, after = text.strip().casefold().rpartition(form.casefold())
    ends = bool(found) and not after.strip(" .)!\"'*")
    return (ends and bool(_SAME.search(before))) or text.strip().casefold().startswith(
        f"{form.casefold()}, "
    )


def _echoes(text: str, question: str) -> bool:
    """Whether an answer is nothing but the question again."""
    said = normalise(text)
    return len(said.split()) >= 3 and said == normalise(question)


def visible(text: str) -> str:
    """The answer without the thoughts that some models leave in it; "" when only unfinished thoughts are there.

    >>> visible("<think>Lyon? No.</think> Paris"), visible("<think>Let me see")
    ('Paris', '')
    """
    kept: list[str] = []
    at = 0  # what is before it is kept or cut
    closing: dict[str, list[re.Match[str]]] = {}
    for tag in reversed(tags := list(_TAG.finditer(text))):
        if tag[1]:
            closing.setdefault(tag[2].lower(), []).append(tag)
    for tag in tags:
        ends = closing.get(tag[2].lower(), [])
        while ends and ends[-1].start() < tag.end():
            ends.pop()
        if not tag[1] and tag.start() >= at and ends:
            kept.append(text[at : tag.start()])
            at = ends[-1].end()
    text = "".join(kept) + text[at:]
    left = list(_TAG.finditer(text))
    text = text[max((tag.end() for tag in left if tag[1]), default=0) :]
    opened = _TAG.match(text.lstrip())
    return "" if opened and not opened[1] else text.strip()
