"""Asks the gates of a build through one journal, so that no answer is paid for twice.

The key of a verdict is everything that it depends on: the rendered request with its sampling (of a model) or the
evidence shown (of any other system); the system's revision, which is its code, file, weights or pool; the judge and its
code; and the accepted answers. A verdict with the same key is used again: after a kill, in another build folder, when
gates are added and when other questions change.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import TransientError, UsageError
from demur.core.records import Ask, Method, Response, Sample, Status
from demur.core.store import JsonlLog, Problems, digest, read_jsonl
from demur.curation.gates.funnel import GateQuery, Stage
from demur.curation.gates.rules import Label
from demur.curation.gates.spec import GateSpec
from demur.evaluation.runner import answer_of
from demur.judge.base import Judge, close_judge, judge_code
from demur.judge.grading import Grading
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, single
from demur.scenarios.contexts import recipe as scenario
from demur.scenarios.render import Layout
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System
from demur.scenarios.systems.model import ModelSystem

HOPELESS_AFTER = 100
"""Errors of one gate in a row that end the build (it can be resumed)."""
ERRORS_KEPT = 10_000
REASKED, RETESTED = 1, 2
"""Numbers of repeats: the second try of an answer that was not usable; the re-test of a kept sample."""


class GateAnswer(NamedTuple):
    """One gate's answer to one query."""

    label: Label
    text: str
    """Its first 300 characters."""
    why: str
    method: Method | None = None
    """How the judge came to the label, where it says so."""
    probability: float | None = None
    """The calibrated chance, in [0, 1], that the label is right; None where nobody measured it."""


def ask_of(
    sample: Sample, query: GateQuery, seed: int, condition_name: str, prompts: Prompts
) -> Ask:
    """The question of a query.

    Raises:
        UsageError: the sample has no gold evidence to show.
    """
    if query.stage is Stage.DISTRACTOR:
        evidence_shown = single(sample, query.distractor, seed)
    else:
        stage_context = context(
            sample, scenario("parametric" if query.stage is Stage.PARAMETRIC else "oracle"), seed
        )
        if stage_context is None:
            raise UsageError(
                "has no gold evidence", item=sample.id, cure="leave it out of the source"
            )
        evidence_shown = stage_context
    return make_ask(sample, evidence_shown, condition(condition_name), prompts)


@dataclass(frozen=True)
class GateQuestions:
    """How the gates and monitors of a recipe are asked."""

    specs: Mapping[str, GateSpec]
    """Name -> its spec in the recipe."""
    seed: int
    """Of the order of evidence."""
    prompts: Prompts

    def ask(self, sample: Sample, query: GateQuery) -> Ask:
        """As `ask_of`, under the condition of the gate."""
        return ask_of(sample, query, self.seed, self.specs[query.gate].condition, self.prompts)

    def skip_reasons(
        self, system: Callable[[str], System], sample: Sample, stage: Stage, distractor: str = ""
    ) -> dict[str, str]:
        """Gate of the stage -> why it cannot be asked this; a gate that can be asked is left out.

        Args:
            system: name -> the opened gate.
        """
        reason_of_gate: dict[str, str] = {}
        ask_of_condition: dict[str, Ask] = {}
        for name, spec in self.specs.items():
            if stage in spec.stages:
                if spec.condition not in ask_of_condition:
                    query = GateQuery(name, stage, distractor)
                    ask_of_condition[spec.condition] = self.ask(sample, query)
                if why := system(name).skip_reason(ask_of_condition[spec.condition]):
                    reason_of_gate[name] = why
        return reason_of_gate


def model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model gate as `ModelSystem` takes them.

    ``images`` (many, one, none) becomes its layout; the rest is sampling.

    Raises:
        UsageError: a layout has no such value.
    """
    remaining_options = dict(options)
    images = remaining_options.pop("images", None)
    if images is None:
        return remaining_options
    if images not in ("many", "one", "none"):
        raise UsageError(
            f"images: {images}", item="a gate's options", cure="write many, one or none"
        )
    return {**remaining_options, "layout": Layout(images)}


def key_of(system: System, ask: Ask, sample: Sample, judge: Sequence[str], repeat: int) -> str:
    """The key of a verdict: everything that it depends on.

    Args:
        sample: the judge compares with its accepted answers.
        judge: `judge_key` of the judge.
        repeat: which of several independent answers.
    """
    if isinstance(system, ModelSystem):
        request = system.request(ask).model_copy(update={"item": "", "draw": repeat})
        question_parts: object = [request.model_dump(mode="json"), system.revision]
        if (
            type(system) is not ModelSystem
        ):  # it makes several calls; this request is only the first
            question_parts = [question_parts, system.id, ask.id]
    else:
        question_parts = [system.id, system.revision, ask.id, repeat]
    return digest([question_parts, judge, sample.answers.model_dump(mode="json")], 32)


def judge_key(judge: Judge) -> list[str]:
    """The judge's part of a key: its name, and the code of a user's own judge."""
    return [judge.id, judge_code(judge)]


class GateRunner:
    """All gates (and monitors) of a build.

    Args:
        questions: how they are asked.
        opened: opens the system of a name for a repeat; called at most once for each pair.
        judge: grades the answers. If it raises anything but demur's own errors, the answer is missing.
        journal: file that verdicts are appended to; it is read first.
        max_in_flight: questions to one gate at once; `demur.models` limits calls per endpoint.
    """

    def __init__(
        self,
        questions: GateQuestions,
        opened: Callable[[str, int], System],
        judge: Judge,
        journal: Path,
        *,
        max_in_flight: int = 8,
    ) -> None:
        self.questions_to_gate: Counter[str] = Counter()
        """Gate -> questions that this process asked it."""
        self.answers: dict[tuple[str, GateQuery], GateAnswer] = {}
        """(sample, query) -> the answer, of every query of this build."""
        self._questions, self._opened, self._judge = questions, opened, judge
        self._judge_key = judge_key(judge)
        self._systems: dict[tuple[str, int], System] = {}
        self._failures: Counter[str] = Counter()
        self.since = _time_of_last_write(journal)
        """Time of the journal's last verdict before this process; "" where it had none."""
        self.reused: set[str] = set()
        """Keys of its verdicts that were used."""
        self.errors: list[str] = []
        """``gate: why``, of the first `ERRORS_KEPT` errors of this process."""
        self._known: dict[str, GateAnswer] = {}
        self._last: dict[tuple[str, GateQuery, int], str] = {}
        """(sample, query, repeat) -> the key of its last line."""
        for line in read_journal(journal):
            self._last[line.sample, line.query, line.repeat] = line.key
            if line.final:
                self._known[line.key] = line.answer
        self.met = frozenset(query.gate for _, query, _ in self._last)
        """Gates that the journal has lines of."""
        self._keys_before = frozenset(self._known)
        self._grading = Grading(judge)
        self._journal = JsonlLog(journal)
        self._places = {name: asyncio.Semaphore(max_in_flight) for name in questions.specs}

    def system(self, name: str, repeat: int = 0) -> System:
        """The system of a gate, for a repeat; opened on first use."""
        if (name, repeat) not in self._systems:
            self._systems[name, repeat] = self._opened(name, repeat)
        return self._systems[name, repeat]

    @property
    def so_far(self) -> str:
        """Progress line: calls that all gates sent, retried and paid so far; "" where no gate calls a model."""
        from demur.models.client import summary

        systems = [s for s in self._systems.values() if isinstance(s, ModelSystem)]
        return summary(s.counts for s in systems if s.counts is not None)

    async def close(self) -> None:
        """Close the journal and every system."""
        self._journal.close()
        self._grading.close()
        for system in self._systems.values():
            await system.close()
        await close_judge(self._judge)

    async def label(self, sample: Sample, query: GateQuery, repeat: int = 0) -> Label:
        """One gate's label for one query; each is asked at most once per journal."""
        answer = await self._ask(sample, query, repeat)
        if not repeat:
            self.answers[sample.id, query] = answer
        return answer.label

    def is_busy(self, gate: str) -> bool:
        """Whether a gate has no free slot for another question."""
        return self._places[gate].locked()

    def skipped(self, sample: Sample, stage: Stage, distractor: str = "") -> dict[str, str]:
        """Gate -> why it cannot be asked this (see `GateQuestions.skip_reasons`)."""
        return self._questions.skip_reasons(self.system, sample, stage, distractor)

    def known_label(self, sample: Sample, query: GateQuery) -> Label | None:
        """The label of a query that the journal has, or that the gate cannot be asked; else None."""
        if not self._keys_before:
            return None
        _, _, answer = self._look_up(sample, query, 0)
        if answer is not None:
            self.answers[sample.id, query] = answer
        return None if answer is None else answer.label

    def _look_up(
        self, sample: Sample, query: GateQuery, repeat: int
    ) -> tuple[Ask, str, GateAnswer | None]:
        """(question, key, the answer if it is known without asking)."""
        system = self.system(query.gate, repeat)
        ask = self._questions.ask(sample, query)
        if why := system.skip_reason(ask):
            return ask, "", GateAnswer(Label.SKIPPED, "", why)
        try:
            key = key_of(system, ask, sample, self._judge_key, repeat)
        except UsageError as error:  # the question does not fit into the model's prompt
            answer = GateAnswer(Label.MISSING, "", error.message)
            self._append_to_journal("", sample.id, query, repeat, answer, final=False)
            return ask, "", answer
        before = self._known.get(key)
        if before is not None:
            if key in self._keys_before:
                self.reused.add(key)
            self._append_to_journal(key, sample.id, query, repeat, before, final=True)
        return ask, key, before

    def _append_to_journal(
        self,
        key: str,
        sample: str,
        query: GateQuery,
        repeat: int,
        answer: GateAnswer,
        *,
        final: bool,
    ) -> None:
        """Append an answer to the journal, unless the last line about this query is the same."""
        if self._last.get((sample, query, repeat)) == key:
            return
        self._last[sample, query, repeat] = key
        if final:
            self._known[key] = answer
        self._journal.append(
            {
                "key": key,
                "gate": query.gate,
                "sample": sample,
                "stage": query.stage.value,
                "evidence": query.distractor,
                "draw": repeat,
                "label": answer.label.value,
                "answer": answer.text,
                "why": answer.why,
                "method": answer.method,
                "probability": answer.probability,
                **({} if final else {"final": False}),
            }
        )

    async def _ask(self, sample: Sample, query: GateQuery, repeat: int) -> GateAnswer:
        ask, key, answer = self._look_up(sample, query, repeat)
        if answer is not None:
            return answer
        async with self._places[query.gate]:
            answer, final = await self._ask_and_grade(query.gate, ask, sample, repeat)
        self.questions_to_gate[query.gate] += 1
        self._append_to_journal(
            key if final else f"-{key}", sample.id, query, repeat, answer, final=final
        )
        return answer

    async def _ask_and_grade(
        self, gate: str, ask: Ask, sample: Sample, repeat: int
    ) -> tuple[GateAnswer, bool]:
        """(answer, whether it is final). An answer that cannot be graded is asked for once more.

        An error is not final: the next run of the build asks again.
        """
        response, answer = Response(), GateAnswer(Label.MISSING, "", "")
        for chance in (repeat, repeat + REASKED if repeat == 0 else repeat):
            response = await answer_of(self.system(gate, chance), ask)
            verdict = await self._grading.verdict(ask, response, sample.answers)
            why = response.error or verdict.reason or verdict.status.value
            answer = GateAnswer(Label.MISSING, response.text[:300], why)
            if verdict.status is Status.GRADED and verdict.outcome is not None:
                self._failures[gate] = 0
                return GateAnswer(
                    Label(verdict.outcome.value),
                    response.text[:300],
                    verdict.reason,
                    verdict.method,
                    verdict.probability,
                ), True
        if response.error and len(self.errors) < ERRORS_KEPT:
            self.errors.append(f"{gate}: {response.error}")
        self._failures[gate] = self._failures[gate] + 1 if response.error else 0
        if self._failures[gate] >= HOPELESS_AFTER:
            raise TransientError(
                f"its last {HOPELESS_AFTER} answers were errors; the last one: {response.error}",
                item=f"gate {gate}",
                cure="fix the cause and run the same command again: all verdicts so far are kept",
            )
        return answer, not response.error and verdict.status is not Status.UNJUDGED


class JournalLine(NamedTuple):
    """One line of a journal."""

    key: str
    sample: str
    query: GateQuery
    repeat: int
    answer: GateAnswer
    final: bool
    """False of an error, which the next run asks for again."""


def read_journal(journal: Path) -> Iterator[JournalLine]:
    """The lines of a journal, oldest first. A torn or foreign line is ignored: its question is asked again."""
    for _, line in read_jsonl(journal, Problems()) if journal.exists() else ():
        try:
            method, probability = line["method"], line["probability"]
            answer = GateAnswer(
                Label(line["label"]),
                str(line["answer"]),
                str(line["why"]),
                None if method is None else Method(method),
                None if probability is None else float(probability),
            )
            query = GateQuery(str(line["gate"]), Stage(line["stage"]), str(line["evidence"]))
            final = line.get("final", True) is not False
            yield JournalLine(
                str(line["key"]), str(line["sample"]), query, int(line["draw"]), answer, final
            )
        except (KeyError, TypeError, ValueError):
            continue


def last_answers(
    journal: Path, sample: str | None = None
) -> dict[str, dict[GateQuery, GateAnswer]]:
    """Sample -> query -> the last answer in a journal; of one sample, or all."""
    answers_of_sample: dict[str, dict[GateQuery, GateAnswer]] = {}
    for line in read_journal(journal):
        if not line.repeat and sample in (None, line.sample):
            answers_of_sample.setdefault(line.sample, {})[line.query] = line.answer
    return answers_of_sample


def _time_of_last_write(journal: Path) -> str:
    if not journal.exists() or not journal.stat().st_size:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.stat().st_mtime))
