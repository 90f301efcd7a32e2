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

from demur.curation.funnel import Probe, Stage
from demur.curation.gate import Label
from demur.curation.recipe import GateSpec
from demur.errors import TransientError, UsageError
from demur.judge.rules import RuleJudge
from demur.pipeline.evaluate import Judge, answer_of, close_judge, judge_code
from demur.pipeline.grading import Grading
from demur.records import Ask, Response, Sample, Status, Verdict
from demur.scenarios.conditions import Prompts, condition
from demur.scenarios.contexts import context, recipe, single
from demur.scenarios.render import Layout
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import System
from demur.scenarios.systems.model import ModelSystem
from demur.store import JsonlLog, Problems, digest, read_jsonl

HOPELESS_AFTER = 100
"""Answers of one gate in a row that were errors, with none between, that end the build (it can be resumed)."""
ERRORS_KEPT = 10_000
SHORT_ANSWER = 2_000
"""Characters that demur's own judge reads within a millisecond or so."""
REASKED, RETESTED = 1, 2
"""Draws: the second chance of an answer that could not be graded; the re-test of a kept sample."""


class Told(NamedTuple):
    """What one gate said to one probe."""

    label: Label
    answer: str
    """Its first 300 characters."""
    why: str


def ask_of(sample: Sample, probe: Probe, seed: int, how: str, prompts: Prompts) -> Ask:
    """The question that a probe is.

    Raises:
        UsageError: the sample has no gold evidence to be shown.
    """
    if probe.stage is Stage.DISTRACTOR:
        made = single(sample, probe.distractor, seed)
    else:
        found = context(sample, recipe("parametric" if probe.stage is Stage.PARAMETRIC else "oracle"), seed)
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
                asks[how] = ask_of(sample, Probe(name, stage, distractor), seed, how, prompts)
            if why := system(name).takes(asks[how]):
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


def key_of(system: System, ask: Ask, sample: Sample, judge: Sequence[str], draw: int) -> str:
    """What a verdict is kept under: everything that it depends on.

    Args:
        system: who is asked.
        ask: what it is asked.
        sample: whose accepted answers the judge compares with.
        judge: `judge_key` of the judge.
        draw: which of several independent answers.
    """
    if isinstance(system, ModelSystem):
        request = system.request(ask).model_copy(update={"item": "", "draw": draw})
        asked: object = [request.model_dump(mode="json"), system.revision]
    else:
        asked = [system.id, system.revision, ask.id, draw]
    return digest([asked, judge, sample.answers.model_dump(mode="json")], 32)


def judge_key(judge: Judge) -> list[str]:
    """A judge as `key_of` takes it: its name, and the code of a user's own."""
    return [judge.id, judge_code(judge)]


class Panel:
    """All gates (and monitors) of a build.

    Args:
        specs: name -> what the recipe says of it.
        opened: opens the system of a name for a draw; called at most once for each pair.
        judge: who grades; what it raises, other than demur's own errors, counts as a verdict that could not be had.
        journal: file that verdicts are appended to as they come; read first, whoever wrote it.
        seed: of the contexts.
        prompts: the texts.
        each: questions to one gate in flight at once; the limit per endpoint is `demur.calls`' own.
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
        each: int = 8,
    ) -> None:
        self.names, self.each = tuple(specs), each
        self.asked: Counter[str] = Counter()
        """Gate -> questions put to it by this process."""
        self.told: dict[tuple[str, Probe], Told] = {}
        """(sample, probe) -> what was said, of everything asked for in this build."""
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
        self._known: dict[str, Told] = {}
        self._last: dict[tuple[str, Probe, int], str] = {}
        """What was asked -> the key of its last line."""
        for line in read_journal(journal):
            self._last[line.sample, line.probe, line.draw] = line.key
            if line.final:
                self._known[line.key] = line.told
        self._resumed = bool(self._known)
        self.met = frozenset(probe.gate for _, probe, _ in self._last)
        """Gates of which the journal had something."""
        self._had = frozenset(self._known)
        self._grading = Grading(judge)
        self._journal = JsonlLog(journal)
        self._free = {name: asyncio.Semaphore(each) for name in specs}

    def system(self, name: str, draw: int = 0) -> System:
        """The system of a gate, for a draw; opened when first needed."""
        if (name, draw) not in self._systems:
            self._systems[name, draw] = self._opened(name, draw)
        return self._systems[name, draw]

    @property
    def so_far(self) -> str:
        """Calls that all gates sent, tried again and paid so far, in words; "" where none calls a model."""
        from demur.calls.progress import told

        systems = [s for s in self._systems.values() if isinstance(s, ModelSystem)]
        return told(*(s.counts for s in systems if s.counts is not None))

    async def close(self) -> None:
        """Close the journal and every system."""
        self._journal.close()
        self._grading.close()
        for system in self._systems.values():
            await system.close()
        await close_judge(self._judge)

    async def label(self, sample: Sample, probe: Probe, draw: int = 0) -> Label:
        """One gate's label for one probe; asked at most once in the life of a journal."""
        told = await self._tell(sample, probe, draw)
        if not draw:
            self.told[sample.id, probe] = told
        return told.label

    def skipped(self, sample: Sample, stage: Stage, distractor: str = "") -> dict[str, str]:
        """Gate -> why it cannot be asked this (see `skip_reasons`)."""
        return skip_reasons(self._specs, self.system, sample, stage, distractor, self._seed, self._prompts)

    def known(self, sample: Sample, probe: Probe) -> Label | None:
        """The label of a probe that need not be asked: the journal had it, or that gate cannot be asked this."""
        if not self._resumed:
            return None
        _, _, told = self._look(sample, probe, 0)
        if told is not None:
            self.told[sample.id, probe] = told
        return None if told is None else told.label

    def _look(self, sample: Sample, probe: Probe, draw: int) -> tuple[Ask, str, Told | None]:
        """(question, key, what is known without asking)."""
        system = self.system(probe.gate, draw)
        ask = ask_of(sample, probe, self._seed, self._specs[probe.gate].condition, self._prompts)
        if why := system.takes(ask):
            return ask, "", Told(Label.SKIPPED, "", why)
        try:
            key = key_of(system, ask, sample, self._judge_key, draw)
        except UsageError as error:  # this one question does not fit into the model's prompt
            told = Told(Label.UNGRADED, "", error.message)
            self._note("", sample.id, probe, draw, told, final=False)
            return ask, "", told
        told_before = self._known.get(key)
        if told_before is not None:
            if key in self._had:
                self.reused.add(key)
            self._note(key, sample.id, probe, draw, told_before, final=True)
        return ask, key, told_before

    def _note(self, key: str, sample: str, probe: Probe, draw: int, told: Told, *, final: bool) -> None:
        """Keep in the journal what holds now, unless the last line about this question says so already."""
        if self._last.get((sample, probe, draw)) == key:
            return
        self._last[sample, probe, draw] = key
        if final:
            self._known[key] = told
        self._journal.append({
            "key": key, "gate": probe.gate, "sample": sample, "stage": probe.stage.value,
            "evidence": probe.distractor, "draw": draw, "label": told.label.value, "answer": told.answer,
            "why": told.why, **({} if final else {"final": False}),
        })  # fmt: skip

    async def _tell(self, sample: Sample, probe: Probe, draw: int) -> Told:
        ask, key, told = self._look(sample, probe, draw)
        if told is not None:
            return told
        async with self._free[probe.gate]:
            told, final = await self._put(probe.gate, ask, sample, draw)
        self.asked[probe.gate] += 1
        self._note(key if final else f"-{key}", sample.id, probe, draw, told, final=final)
        return told

    async def _put(self, gate: str, ask: Ask, sample: Sample, draw: int) -> tuple[Told, bool]:
        """Ask; what cannot be graded is asked for once more. Second: whether the answer stands for good.

        An answer that was an error is not kept: the next run of the build asks again.
        """
        response, told = Response(), Told(Label.UNGRADED, "", "")
        for chance in (draw, draw + REASKED if draw == 0 else draw):
            response = await answer_of(self.system(gate, chance), ask)
            verdict = await self._graded(ask, response, sample)
            told = Told(Label.UNGRADED, response.text[:300], _why(verdict, response))
            if verdict.status is Status.GRADED and verdict.outcome is not None:
                self._failures[gate] = 0
                return Told(Label(verdict.outcome.value), response.text[:300], verdict.reason), True
        if response.error and len(self.errors) < ERRORS_KEPT:
            self.errors.append(f"{gate}: {response.error}")
        self._failures[gate] = self._failures[gate] + 1 if response.error else 0
        if self._failures[gate] >= HOPELESS_AFTER:
            raise TransientError(
                f"its last {HOPELESS_AFTER} answers were all errors; the last: {response.error}",
                item=f"gate {gate}",
                cure="see to it and run the same command again: every verdict already had is kept",
            )
        return told, not response.error

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
    probe: Probe
    draw: int
    told: Told
    final: bool
    """Whether it stands for good; an answer that never came is asked for again."""


def read_journal(journal: Path) -> Iterator[JournalLine]:
    """The lines of a journal, oldest first; a torn or foreign one is passed over: its question is asked again."""
    for _, line in read_jsonl(journal, Problems()) if journal.exists() else ():
        try:
            told = Told(Label(line["label"]), str(line["answer"]), str(line["why"]))
            probe = Probe(str(line["gate"]), Stage(line["stage"]), str(line["evidence"]))
            final = line.get("final", True) is not False
            yield JournalLine(str(line["key"]), str(line["sample"]), probe, int(line["draw"]), told, final)
        except (KeyError, TypeError, ValueError):
            continue


def last_told(journal: Path, sample: str | None = None) -> dict[str, dict[Probe, Told]]:
    """Sample -> what was asked -> what the gate said, as the folder's last build knew it; of one sample, or all."""
    found: dict[str, dict[Probe, Told]] = {}
    for line in read_journal(journal):
        if not line.draw and sample in (None, line.sample):
            found.setdefault(line.sample, {})[line.probe] = line.told
    return found


def _written(journal: Path) -> str:
    if not journal.exists() or not journal.stat().st_size:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.stat().st_mtime))
