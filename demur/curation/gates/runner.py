"""The gates of a build, asked through one journal, so that no answer is paid for twice.

A verdict is kept under everything that it depends on: the rendered request with its sampling (of a model), or what is
shown (of any other system); the system's revision, which is its code, file, weights or pool; the judge and its code;
and the accepted answers. It holds for as long as these are equal: across a kill, in another build folder, when other
gates are added and when other questions change.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import TransientError, UsageError
from demur.core.records import Ask, Response, Sample, Status, Verdict
from demur.core.store import JsonlLog, Problems, digest, read_jsonl
from demur.curation.gates.funnel import GateQuery, Stage
from demur.curation.gates.rules import Label
from demur.curation.recipe import GateSpec
from demur.evaluation.runner import answer_of
from demur.judge.base import UNJUDGED, Judge, close_judge, judge_code
from demur.judge.grading import Grading
from demur.judge.rules import OTHER, RuleJudge
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, single
from demur.scenarios.contexts import recipe as scenario
from demur.scenarios.render import Layout
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System
from demur.scenarios.systems.model import ModelSystem

HOPELESS_AFTER = 100
"""Answers of one gate in a row that were errors, with none between, that end the build (it can be resumed)."""
ERRORS_KEPT = 10_000
SHORT_ANSWER = 2_000
"""Characters that demur's own judge reads within a millisecond or so."""
REASKED, RETESTED = 1, 2
"""Repeats: the second chance of an answer that could not be graded; the re-test of a kept sample."""


class GateAnswer(NamedTuple):
    """What one gate said to one query."""

    label: Label
    text: str
    """Its first 300 characters."""
    why: str


def ask_of(sample: Sample, query: GateQuery, seed: int, how: str, prompts: Prompts) -> Ask:
    """The question that a query is.

    Raises:
        UsageError: the sample has no gold evidence to be shown.
    """
    if query.stage is Stage.DISTRACTOR:
        made = single(sample, query.distractor, seed)
    else:
        found = context(sample, scenario("parametric" if query.stage is Stage.PARAMETRIC else "oracle"), seed)
        if found is None:
            raise UsageError("has no gold evidence", item=sample.id, cure="leave it out of the source")
        made = found
    return make_ask(sample, made, condition(how), prompts)


def skip_reasons(
    specs: Mapping[str, GateSpec],
    system: Callable[[str], System],
    sample: Sample,
    stage: Stage,
    distractor: str,
    seed: int,
    prompts: Prompts,
) -> dict[str, str]:
    """Gate -> why it cannot be asked this; gates that can be, or are of other stages, are left out."""
    found: dict[str, str] = {}
    asks: dict[str, Ask] = {}
    for name, spec in specs.items():
        if stage in spec.stages:
            how = spec.condition
            if how not in asks:
                asks[how] = ask_of(sample, GateQuery(name, stage, distractor), seed, how, prompts)
            if why := system(name).skip_reason(asks[how]):
                found[name] = why
    return found


def model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's options of a model gate as `ModelSystem` takes them: ``images`` (many, one, none), ``captions`` (with,
    without, only) and ``prompt_tokens`` make its layout; the rest is sampling.

    Raises:
        UsageError: a value that a layout does not have.
    """
    rest = dict(options)
    chosen = {k: rest.pop(k) for k in ("images", "captions", "prompt_tokens") if k in rest}
    if not chosen:
        return rest
    images, captions = chosen.get("images", "many"), chosen.get("captions", "with")
    if images not in ("many", "one", "none") or captions not in ("with", "without", "only"):
        raise UsageError(
            f"images: {images}, captions: {captions}", item="a gate's options",
            cure="images is many, one or none; captions is with, without or only",
        )  # fmt: skip
    return {**rest, "layout": Layout(images, captions, chosen.get("prompt_tokens"))}


def key_of(system: System, ask: Ask, sample: Sample, judge: Sequence[str], repeat: int) -> str:
    """What a verdict is kept under: everything that it depends on.

    Args:
        sample: whose accepted answers the judge compares with.
        judge: `judge_key` of the judge.
        repeat: which of several independent answers.
    """
    if isinstance(system, ModelSystem):
        request = system.request(ask).model_copy(update={"item": "", "draw": repeat})
        asked: object = [request.model_dump(mode="json"), system.revision]
        if type(system) is not ModelSystem:  # several calls, of which this is the first alone
            asked = [asked, system.id, ask.id]
    else:
        asked = [system.id, system.revision, ask.id, repeat]
    return digest([asked, judge, sample.answers.model_dump(mode="json")], 32)


def judge_key(judge: Judge) -> list[str]:
    """A judge as `key_of` takes it: its name, and the code of a user's own."""
    return [judge.id, judge_code(judge)]


class GateRunner:
    """All gates (and monitors) of a build.

    Args:
        specs: name -> what the recipe says of it.
        opened: opens the system of a name for a repeat; called at most once for each pair.
        judge: who grades; what it raises, other than demur's own errors, leaves the answer ungraded.
        journal: file that verdicts are appended to as they come; read first, whoever wrote it.
        max_in_flight: questions to one gate at once; the limit per endpoint is `demur.models`' own.
    """

    def __init__(
        self,
        specs: Mapping[str, GateSpec],
        opened: Callable[[str, int], System],
        judge: Judge,
        journal: Path,
        *,
        seed: int,
        prompts: Prompts,
        max_in_flight: int = 8,
    ) -> None:
        self.asked: Counter[str] = Counter()
        """Gate -> questions put to it by this process."""
        self.answers: dict[tuple[str, GateQuery], GateAnswer] = {}
        """(sample, query) -> what was said, of everything asked for in this build."""
        self._specs, self._opened, self._judge = specs, opened, judge
        self._seed, self._prompts = seed, prompts
        self._judge_key = judge_key(judge)
        self._systems: dict[tuple[str, int], System] = {}
        self._failures: Counter[str] = Counter()
        self.since = _written(journal)
        """When the journal's last verdict came, before this process; "" where it had none."""
        self.reused: set[str] = set()
        """Keys of the verdicts that it had and that were used."""
        self.errors: list[str] = []
        """``gate: why``, of the first `ERRORS_KEPT` answers of this process that were errors."""
        self._known: dict[str, GateAnswer] = {}
        self._last: dict[tuple[str, GateQuery, int], str] = {}
        """What was asked -> the key of its last line."""
        for line in read_journal(journal):
            self._last[line.sample, line.query, line.repeat] = line.key
            if line.final:
                self._known[line.key] = line.answer
        self._resumed = bool(self._known)
        self.met = frozenset(query.gate for _, query, _ in self._last)
        """Gates of which the journal had something."""
        self._had = frozenset(self._known)
        self._grading = Grading(judge)
        self._journal = JsonlLog(journal)
        self._places = {name: asyncio.Semaphore(max_in_flight) for name in specs}

    def system(self, name: str, repeat: int = 0) -> System:
        """The system of a gate, for a repeat; opened when first needed."""
        if (name, repeat) not in self._systems:
            self._systems[name, repeat] = self._opened(name, repeat)
        return self._systems[name, repeat]

    @property
    def so_far(self) -> str:
        """Calls that all gates sent, tried again and paid so far, in words; "" where none calls a model."""
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
        """One gate's label for one query; asked at most once per journal."""
        answer = await self._ask(sample, query, repeat)
        if not repeat:
            self.answers[sample.id, query] = answer
        return answer.label

    def is_busy(self, gate: str) -> bool:
        """Whether a gate has no place free for another question."""
        return self._places[gate].locked()

    def skipped(self, sample: Sample, stage: Stage, distractor: str = "") -> dict[str, str]:
        """Gate -> why it cannot be asked this (see `skip_reasons`)."""
        return skip_reasons(self._specs, self.system, sample, stage, distractor, self._seed, self._prompts)

    def known(self, sample: Sample, query: GateQuery) -> Label | None:
        """The label of a query that need not be asked: the journal had it, or that gate cannot be asked this."""
        if not self._resumed:
            return None
        _, _, answer = self._look(sample, query, 0)
        if answer is not None:
            self.answers[sample.id, query] = answer
        return None if answer is None else answer.label

    def _look(self, sample: Sample, query: GateQuery, repeat: int) -> tuple[Ask, str, GateAnswer | None]:
        """(question, key, what is known without asking)."""
        system = self.system(query.gate, repeat)
        ask = ask_of(sample, query, self._seed, self._specs[query.gate].condition, self._prompts)
        if why := system.skip_reason(ask):
            return ask, "", GateAnswer(Label.SKIPPED, "", why)
        try:
            key = key_of(system, ask, sample, self._judge_key, repeat)
        except UsageError as error:  # this one question does not fit into the model's prompt
            answer = GateAnswer(Label.UNGRADED, "", error.message)
            self._note("", sample.id, query, repeat, answer, final=False)
            return ask, "", answer
        before = self._known.get(key)
        if before is not None:
            if key in self._had:
                self.reused.add(key)
            self._note(key, sample.id, query, repeat, before, final=True)
        return ask, key, before

    def _note(self, key: str, sample: str, query: GateQuery, repeat: int, answer: GateAnswer, *, final: bool) -> None:
        """Keep in the journal what holds now, unless the last line about this question says so already."""
        if self._last.get((sample, query, repeat)) == key:
            return
        self._last[sample, query, repeat] = key
        if final:
            self._known[key] = answer
        self._journal.append({
            "key": key, "gate": query.gate, "sample": sample, "stage": query.stage.value,
            "evidence": query.distractor, "draw": repeat, "label": answer.label.value, "answer": answer.text,
            "why": answer.why, **({} if final else {"final": False}),
        })  # fmt: skip

    async def _ask(self, sample: Sample, query: GateQuery, repeat: int) -> GateAnswer:
        ask, key, answer = self._look(sample, query, repeat)
        if answer is not None:
            return answer
        async with self._places[query.gate]:
            answer, final = await self._put(query.gate, ask, sample, repeat)
        self.asked[query.gate] += 1
        self._note(key if final else f"-{key}", sample.id, query, repeat, answer, final=final)
        return answer

    async def _put(self, gate: str, ask: Ask, sample: Sample, repeat: int) -> tuple[GateAnswer, bool]:
        """Ask; what cannot be graded is asked for once more. Second: whether the answer stands for good.

        An answer that was an error is not kept: the next run of the build asks again.
        """
        response, answer = Response(), GateAnswer(Label.UNGRADED, "", "")
        for chance in (repeat, repeat + REASKED if repeat == 0 else repeat):
            response = await answer_of(self.system(gate, chance), ask)
            verdict = await self._graded(ask, response, sample)
            answer = GateAnswer(Label.UNGRADED, response.text[:300], _why(verdict, response))
            if verdict.status is Status.GRADED and verdict.outcome is not None:
                self._failures[gate] = 0
                return GateAnswer(Label(verdict.outcome.value), response.text[:300], verdict.reason), True
            if verdict.status is Status.UNGRADED and verdict.kind == OTHER:  # it did not show that it knows
                self._failures[gate] = 0
                return GateAnswer(Label.UNPROVEN, response.text[:300], verdict.reason), True
        if response.error and len(self.errors) < ERRORS_KEPT:
            self.errors.append(f"{gate}: {response.error}")
        self._failures[gate] = self._failures[gate] + 1 if response.error else 0
        if self._failures[gate] >= HOPELESS_AFTER:
            raise TransientError(
                f"its last {HOPELESS_AFTER} answers were all errors; the last: {response.error}",
                item=f"gate {gate}",
                cure="see to it and run the same command again: every verdict already had is kept",
            )
        return answer, not response.error and verdict.kind != UNJUDGED

    async def _graded(self, ask: Ask, response: Response, sample: Sample) -> Verdict:
        if len(response.text) <= SHORT_ANSWER and isinstance(self._judge, RuleJudge):  # quicker than another thread
            return self._judge.grade(ask, response, sample.answers)
        return await self._grading.verdict(ask, response, sample.answers)


def _why(verdict: Verdict, response: Response) -> str:
    return response.error or verdict.reason or verdict.status.value


class JournalLine(NamedTuple):
    """One line of a journal."""

    key: str
    sample: str
    query: GateQuery
    repeat: int
    answer: GateAnswer
    final: bool
    """Whether it stands for good; an answer that never came is asked for again."""


def read_journal(journal: Path) -> Iterator[JournalLine]:
    """The lines of a journal, oldest first; a torn or foreign one is passed over: its question is asked again."""
    for _, line in read_jsonl(journal, Problems()) if journal.exists() else ():
        try:
            answer = GateAnswer(Label(line["label"]), str(line["answer"]), str(line["why"]))
            query = GateQuery(str(line["gate"]), Stage(line["stage"]), str(line["evidence"]))
            final = line.get("final", True) is not False
            yield JournalLine(str(line["key"]), str(line["sample"]), query, int(line["draw"]), answer, final)
        except (KeyError, TypeError, ValueError):
            continue


def last_answers(journal: Path, sample: str | None = None) -> dict[str, dict[GateQuery, GateAnswer]]:
    """Sample -> what was asked -> what the gate said, as the folder's last build knew it; of one sample, or all."""
    found: dict[str, dict[GateQuery, GateAnswer]] = {}
    for line in read_journal(journal):
        if not line.repeat and sample in (None, line.sample):
            found.setdefault(line.sample, {})[line.query] = line.answer
    return found


def _written(journal: Path) -> str:
    if not journal.exists() or not journal.stat().st_size:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.stat().st_mtime))
