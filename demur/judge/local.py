"""The default judge: offline, and every usable answer gets a verdict.

    failed     the reply is an error, empty, malformed (nothing but unfinished thoughts), or starved of tokens
    exact      an option, a quantity, a date, an accepted form and nothing beside it (`demur.judge.exact`)
    declined   the reply gives no answer (`demur.judge.deflection`), or hands the question back
    equivalence   whether the reply means an accepted form; else it is incorrect

Each verdict names the step that decided (`Method`) and the calibrated chance that it is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from demur.answers import holds, normalise
from demur.answers.choices import right_labels
from demur.answers.reply import final_part, is_answer, unwrapped
from demur.answers.text import both_ends, unformatted
from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Method, Outcome, Response, Status, Verdict
from demur.core.spec import Option, named
from demur.core.thinking import THINKING, Tags, visible
from demur.judge.courtesies import without_courtesies
from demur.judge.deflection import MOST
from demur.judge.equivalence import CUT, probability_correct
from demur.judge.exact import exact, probability
from demur.judge.own_phrases import OwnPhrases

OPTIONS = {
    "phrases": Option("a file of sentences by which your product declines, one a line"),
    "thinking": Option("tags of thoughts beside the known ones, by comma: plan,[PLAN] [/PLAN]"),
}
ECHO = "echo"
"""`Verdict.kind` of a reply that is nothing but the question again."""


class LocalJudge:
    """Grades without asking anybody; deterministic.

    Args:
        argument: ``?phrases=FILE`` reads sentences of your product as declining (`demur.judge.own_phrases`);
            ``&thinking=plan,[PLAN] [/PLAN]`` takes thoughts between these tags out too (`demur.core.thinking`).

    >>> from demur.core.records import Scenario
    >>> ask = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="How long is it?")
    >>> verdict = LocalJudge().grade(ask, Response(text="5.73 km"), AnswerSpec(accepted=(("5,730 m",),)))
    >>> verdict.outcome.value
    'correct'
    """

    version = "1"
    """What an earlier version decided is not taken for a decision of this one."""

    def __init__(self, argument: str = "") -> None:
        options = named("local", argument, OPTIONS)
        if options.argument:
            raise UsageError(
                "the judge 'local' takes no argument", item=argument, cure="write --judge local"
            )
        for name, value in options.options.items():
            if not value:
                raise UsageError(
                    f"{name}= has nothing behind it", item="local", cure=OPTIONS[name].meaning
                )
        path = options.options.get("phrases")
        self.phrases = OwnPhrases.of(Path(path)) if path else OwnPhrases(())
        own_tags = options.options.get("thinking", "")
        self.thinking = (*map(Tags.of, filter(None, own_tags.split(","))), *THINKING)
        id_parts = [f"phrases={self.phrases.version}"] if path else []
        id_parts += [f"thinking={own_tags}"] if own_tags else []
        self.id = "?".join(filter(None, ["local", "&".join(id_parts)]))

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; never raises on what a system replied.

        Args:
            ask: what the system was asked; its id becomes the verdict's.
            response: what came back; ``reasoning`` and thoughts inside the text are not judged.
            answers: what counts as correct.

        Returns:
            Correct, incorrect or deflected; failed without a usable answer; unjudged only where an answer that should
            be right or wrong has nothing written down to compare it with.
        """
        if unusable := no_answer(response, self.thinking):
            return Verdict(
                id=ask.id,
                status=Status.FAILED,
                kind=unusable,
                reason=response.error or f"the answer is {unusable}",
                judge=self.id,
            )
        reply = without_courtesies(visible(response.text, self.thinking))
        if step := exact(ask.question, reply, answers):
            reason = f"compared by {step.method}"
            return self._graded(ask, step.outcome, step.method, probability(step.method), reason)
        text = unformatted(both_ends(unwrapped(reply)))
        if is_echo(text, ask.question):
            reason = "hands the question back"
            return self._graded(ask, Outcome.DEFLECTED, Method.DECLINED, MOST, reason, ECHO)
        reading = self.phrases.read(text, ask.question)
        forms = forms_of(answers)
        final = final_part(text)  # where a reply names its answer, that alone is compared
        # A reply that declines and names an accepted form may still give it as its answer.
        compared = forms and not (reading.deflects and not holds(answers, final, ask.question))
        chance = probability_correct(ask.question, forms, final) if compared else 0.0
        if compared and chance >= CUT:
            reason = "means an accepted form"
            return self._graded(ask, Outcome.CORRECT, Method.EQUIVALENCE, chance, reason)
        if reading.deflects:
            reason, sure = f"declines: {reading.cue!r}", reading.probability
            return self._graded(ask, Outcome.DEFLECTED, Method.DECLINED, sure, reason, reading.kind)
        if not forms:
            return self._without_forms(ask, answers, final, reading.probability)
        reason = "means no accepted form"
        return self._graded(ask, Outcome.INCORRECT, Method.EQUIVALENCE, 1 - chance, reason)

    def _without_forms(self, ask: Ask, answers: AnswerSpec, text: str, answering: float) -> Verdict:
        """The verdict on a reply that answers, where no form is written down to compare it with."""
        if answers.kind not in ABSENT:  # a range of numbers
            right = holds(answers, text, ask.question)
            outcome = Outcome.CORRECT if right else Outcome.INCORRECT
            chance, reason = probability(Method.NUMBER), "compared with the right range"
            return self._graded(ask, outcome, Method.NUMBER, chance, reason)
        if answers.kind == "unknown" and ask.scenario.should == "answer":
            reason = "nobody wrote down what is right"
            return Verdict(id=ask.id, status=Status.UNJUDGED, reason=reason, judge=self.id)
        reason = "answers where it should decline"
        return self._graded(ask, Outcome.INCORRECT, Method.DECLINED, answering, reason)

    def _graded(
        self,
        ask: Ask,
        outcome: Outcome,
        method: Method,
        chance: float,
        reason: str,
        kind: str = "",
    ) -> Verdict:
        return Verdict(
            id=ask.id,
            status=Status.GRADED,
            outcome=outcome,
            method=method,
            probability=round(chance, 3),
            kind=kind,
            reason=reason[:300],
            judge=self.id,
        )


ABSENT = ("none", "unknown")
"""Kinds of `AnswerSpec` that hold nothing to compare with: no document answers, or nobody wrote the answer down."""


def forms_of(answers: AnswerSpec) -> list[tuple[str, ...]]:
    """What a reply is compared with in words: the accepted forms, or the texts of the right options."""
    if answers.choices:
        right = right_labels(answers)
        return [(text,) for label, text in answers.choices if label in right]
    return list(answers.accepted)


def no_answer(response: Response, thinking: Iterable[Tags] = THINKING) -> str:
    """Why a reply is no usable answer: ``error``, ``starved``, ``malformed``, ``empty``; "" for one that is."""
    if response.error:
        return "error"
    if is_answer(unwrapped(visible(response.text, thinking))):
        return ""
    if response.finish_reason == "length":
        return "starved"
    return "malformed" if response.text.strip() else "empty"


def is_echo(text: str, question: str) -> bool:
    """Whether an answer is nothing but the question again."""
    words = normalise(text)
    return len(words.split()) >= 3 and words == normalise(question)
