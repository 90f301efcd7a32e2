"""A judge of chains: is the answer right, which reference steps are in the chain, what does the rubric say?

Four calls to a model that reads text alone, each kept in the ledger and never paid twice: answer (only where rules
have no proof), segmentation, step match (one reference step against all predicted ones), rubric. Long chains are cut
before cues such as "Wait", segmented part by part, and matched in groups; no prompt grows with the chain.

The chain is data: it is shown as JSON strings, and steps are made of its own words (the model names sentences, or
hands steps back, which must then be the chain). What cannot be read is ungraded; a segmentation that cannot be read is
made by the cues alone, and said.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeVar

from demur.answers.boxes import boxes, iou
from demur.answers.choices import stated_options
from demur.core.errors import ItemError, PermanentError, TransientError, UsageError
from demur.core.records import (
    Ask,
    ImagePart,
    ImageRef,
    Message,
    Outcome,
    Request,
    Response,
    Scenario,
    Status,
    TextPart,
)
from demur.core.store import digest, read_text
from demur.core.strict_json import parsed_json
from demur.judge.base import JudgeContext
from demur.judge.candidate import candidate, clean
from demur.judge.model import ModelJudge, target
from demur.judge.rules import RuleJudge, visible
from demur.suites.mm_thebench.items import BASE, Item, RubricItem
from demur.suites.mm_thebench.measures import Judged, Level, Mark, StepMatch, tokens

T = TypeVar("T")
PART = 8_000
"""Characters of a chain that one call is shown at the most."""
FRAME = 40
"""Characters that the JSON line of a sentence or step takes beside its words: of short ones, most of a call."""
LONGEST = 400_000
"""Characters of a chain that are judged; what is behind them is left out, and said."""
AT_ONCE = 16
"""Chains that are judged at once; the model's endpoint has a limit of its own."""
NO_STEPS = "the steps were cut by cues alone: the judge's segmentation could not be read"
PROMPTS = {
    "answer": ("question", "options", "answer", "reply", "mark"),
    "segment": ("sentences",),
    "match": ("question", "answer", "step", "steps"),
    "rubric": ("question", "answer", "reference", "steps", "rubric"),
    "why": ("question", "answer", "reply", "evidence", "steps"),
    "draft": ("question", "answer", "kinds"),
    "draft-rubric": ("question", "answer", "steps", "kinds"),
}
"""Role -> what its text is filled with."""


ROOM = 2_048
"""Tokens of a reply beside what it must hold: for a judge that thinks before it writes."""


def reply_schema(**properties: Any) -> dict[str, Any]:
    """A JSON object with just these fields."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def whole(low: int, high: int) -> dict[str, Any]:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def listed(of: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    """A list within bounds."""
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def schema_of(role: str, ids: range = range(1), rows: int = 0) -> dict[str, Any] | None:
    """What a reply looks like; None where only words say it.

    Every list and number has an end: a small model that is held to a grammar counts on for as long as it may.

    Args:
        role: of the prompt.
        ids: numbers of the sentences or steps that are shown.
        rows: rubric items that are shown.
    """
    said = whole(ids.start, max(ids.start, ids.stop - 1))
    if role == "answer":
        return reply_schema(pred_answer={"type": "string"}, answer_match={"type": "string", "enum": [*Level]})
    if role == "segment":
        return reply_schema(starts=listed(said, max(1, len(ids)), 1))
    if role == "match":
        best = whole(-1, said["maximum"])
        return reply_schema(best_match_step_id=best, step_match={"type": "string", "enum": [*Level][:3]})
    if role == "rubric":
        row = reply_schema(
            judgment={"type": "string", "enum": ["YES", "NO"]}, hallucination={"type": "boolean"},
            evidence_step_ids=listed(said, 8),
        )  # fmt: skip
        return reply_schema(judgments=listed(row, rows, rows))
    return None


# --- the chain and its answer ----------------------------------------------------------------------


class Chain(NamedTuple):
    """A reply's train of thought, and where it is from."""

    text: str
    kind: str


def chain_of(response: Response) -> Chain:
    """The thoughts that a model handed over, or marked in its text; else its visible reply, as it was asked to think.

    >>> chain_of(Response(text="<think>Two bands.</think>Answer: 2"))
    Chain(text='Two bands.', kind='native')
    """
    if response.reasoning.strip():
        return Chain(response.reasoning, "native")
    before, mark, _ = response.text.partition("</think>")
    if mark and (thoughts := before.rpartition("<think>")[2].strip()):
        return Chain(thoughts, "native")
    seen = visible(response.text).strip()
    return Chain(seen, "elicited" if seen else "none")


_FINAL = re.compile(
    r"^[\s*#_>]{0,8}(?:the )?(?:final )?answer(?: is)?\W{0,3}:\W{0,3}(.+)$", re.IGNORECASE | re.MULTILINE
)


def final_answer(text: str) -> str:
    r"""What stands behind the last "Answer:"; the whole text where there is none.

    >>> final_answer("1. A red star.\n**Final answer:** Vietnam")
    'Vietnam'
    """
    seen = visible(text).strip()
    found = [m[1] for m in _FINAL.finditer(seen)]
    return found[-1].strip().rstrip("*_ ") if found else seen


def answer_by_rules(item: Item, response: Response) -> tuple[Level | None, str]:
    """(level, why) as far as rules prove it: options by letter or text, boxes by overlap, words by the rule judge."""
    said = final_answer(response.text)
    if not said.strip():
        return Level.NO_ANSWER, "the reply is empty"
    if item.format == "grounding":
        return _grounded(item, said)
    if item.format == "choice":
        stated = stated_options(item.spec, said)
        if len(stated) == 1:
            letter = next(iter(stated))
            return (Level.MATCH if letter == item.answers[0] else Level.MISMATCH), f"states option {letter}"
    ask = Ask(id=item.id, sample=item.id, context="", scenario=Scenario.PARAMETRIC, question=item.question,
              choices=item.spec.choices)  # fmt: skip
    verdict = RuleJudge().grade(ask, Response(text=said), item.spec)
    level = {Outcome.CORRECT: Level.MATCH, Outcome.INCORRECT: Level.MISMATCH, Outcome.DEFLECTED: Level.NO_ANSWER}
    if verdict.status is Status.FAILED:
        return Level.NO_ANSWER, verdict.reason
    return (level[verdict.outcome] if verdict.outcome else None), verdict.reason


def _grounded(item: Item, said: str) -> tuple[Level | None, str]:
    """A box (y1, x1, y2, x2) in pixels, in shares of the picture, or in thousandths: right when one of them fits."""
    given = boxes(said)
    if not given or item.box is None:
        return Level.NO_ANSWER, "the reply holds no box of four numbers"
    y1, x1, y2, x2 = given[-1]
    scales = [(1.0, 1.0)]
    for picture in item.pictures[:1]:
        scales += [(picture.height / scale, picture.width / scale) for scale in (1.0, 1000.0)]
    best = max(iou((y1 * high, x1 * wide, y2 * high, x2 * wide), item.box) for high, wide in scales)
    if best < 0.5 and not item.pictures:
        return None, f"overlap {best:.2f} in pixels; without the picture's size shares cannot be told"
    return (Level.MATCH if best >= 0.5 else Level.MISMATCH), f"overlap {best:.2f}"


# --- cutting ---------------------------------------------------------------------------------------

_ENDS = re.compile(r"(?<=[.!?])\s+|\n\s*|(?<=[。！？])(?=\S)")
_CUE = re.compile(
    r"(?:but |oh,? |hmm+,? |ok(?:ay)?,? |so,? )?(?:wait|actually|alternatively|hold on|on second thought|however|"
    r"let me (?:re|double)|let's (?:re|double)|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|now|finally|"
    r"therefore|thus|hence|in conclusion|step \d|\d{1,2}[.)] |[-*•] |the (?:final )?answer|answer:)",
    re.IGNORECASE,
)  # fmt: skip


def sentences(text: str, most: int = PART) -> list[str]:
    r"""A text in sentences and lines, none longer than ``most``; together they are the text.

    >>> sentences("It is 3.5 m. Wait, no.\nIt is 4.")
    ['It is 3.5 m. ', 'Wait, no.\n', 'It is 4.']
    """
    found, start = [], 0
    for end in (*(m.end() for m in _ENDS.finditer(text)), len(text)):
        for low in range(start, end, most):
            found.append(text[low : min(low + most, end)])
        start = end
    return found


def parts(text: str, most: int = PART) -> list[list[str]]:
    """The sentences of a chain in runs that fit into one call; a long chain is cut before cues where it can be."""
    runs: list[list[str]] = [[]]
    size = 0
    for sentence in sentences(text, most):
        if runs[-1] and (size + len(sentence) + FRAME > most or (size > most * 0.6 and _CUE.match(sentence))):
            runs.append([])
            size = 0
        runs[-1].append(sentence)
        size += len(sentence) + FRAME
    return runs


def cut_by_cues(lines: Sequence[str]) -> list[str]:
    """Sentences as steps without a model: one begins at each cue and each paragraph."""
    steps: list[str] = []
    for line in lines:
        if not steps or _CUE.match(line) or steps[-1].endswith("\n\n"):
            steps.append(line)
        else:
            steps[-1] += line
    return steps


def cut_as_told(lines: Sequence[str], told: Any) -> list[str] | None:
    """Sentences as the steps that a judge's reply states; None where it states none, or other words than the chain's.

    Read are the numbers of first sentences (``starts``), and lists of steps with their words (``step_content``).
    """
    if isinstance(told, dict) and isinstance(told.get("starts"), list):
        starts = told["starts"]
        if not starts or not all(type(s) is int and 1 <= s <= len(lines) for s in starts):
            return None
        ends = sorted({1, *starts, len(lines) + 1})
        return ["".join(lines[a - 1 : b - 1]) for a, b in pairwise(ends)]
    rows = told.get("steps") if isinstance(told, dict) else told
    words = [r.get("step_content") if isinstance(r, dict) else None for r in rows] if isinstance(rows, list) else []
    text, given = "".join(lines), [len("".join(w.split())) for w in words if isinstance(w, str)]
    if not words or len(given) < len(words) or "".join("".join(w.split()) for w in words if w) != "".join(text.split()):
        return None
    steps, at = [], 0
    for size in given:
        start = at
        while size:
            size -= not text[at].isspace()
            at += 1
        while at < len(text) and text[at].isspace():
            at += 1
        steps.append(text[start:at])
    return [s for s in steps if s]


def numbered(steps: Sequence[str], first: int = 1) -> str:
    """Steps as JSON lines, which their own words cannot leave."""
    return "\n".join(
        json.dumps({"step_id": n, "step_content": clean(s).strip()}, ensure_ascii=False)
        for n, s in enumerate(steps, first)
    )


def groups(steps: Sequence[str], most: int = PART) -> Iterator[tuple[int, list[str]]]:
    """(number of the first, steps) in runs that fit into one call; a run without end has at least one step."""
    start, size = 0, 0
    for at, step in enumerate(steps):
        if at > start and size + len(step) + FRAME > most:
            yield start + 1, list(steps[start:at])
            start, size = at, 0
        size += len(step) + FRAME
    if steps:
        yield start + 1, list(steps[start:])


# --- the judge -------------------------------------------------------------------------------------


class ChainJudge(ModelJudge):
    """Judges chains at three levels.

    Args:
        argument: a model string of `demur.models`.
        context: ledger, budget, prices.
        prompts: folder of texts (``answer.md``, ``segment.md``, ``match.md``, ``rubric.md``) in place of ours.
        room: tokens of a reply beside what it must hold, for a judge that thinks before it writes.
    """

    kind = "chains"

    def __init__(
        self, argument: str, context: JudgeContext | None = None, prompts: Path | None = None, room: int = ROOM
    ) -> None:
        super().__init__(argument, context)
        self._room = room
        self.texts, self.own = _texts(prompts)
        self.prompt_sha256 = digest(self.texts)

    async def told(
        self,
        role: str,
        item: str,
        need: int,
        notes: set[str],
        *,
        schema: dict[str, Any] | None = None,
        pictures: Sequence[ImageRef] = (),
        **fields: str,
    ) -> Any:
        """What a model replies to one of the prompts, as JSON; None where it is none, or the call failed.

        Args:
            role: of the prompt.
            item: whose call it is.
            need: tokens that the reply takes.
            notes: takes why there is no reply.
            schema: of the reply, where the endpoint takes one and the prompt is ours.
            pictures: of the item, for a model that is shown them (``images=yes``).
            fields: the prompt's.

        Raises:
            PermanentError: the model cannot be asked at all.
            BudgetReached: the budget leaves no room for another call.
        """
        model = await self._model()
        schema = schema if self._schema and role not in self.own else None
        text = TextPart(text=Template(self.texts[role]).safe_substitute(fields))
        try:
            shown = [ImagePart(image=ref) for ref in self._scaled(tuple(pictures) if self.sees else ())]
            request = Request(
                model=self.model, temperature=0.0, max_tokens=need + self._room, item=item, json_schema=schema,
                messages=(Message(role="user", parts=(*shown, text)),),
            )  # fmt: skip
            await self._see_somebody(request)
            try:
                reply = await model.complete(request)
            except PermanentError:
                if schema is None:
                    raise
                self._schema = False  # the endpoint may not know schemas: words are asked for from here on
                reply = await model.complete(request.model_copy(update={"json_schema": None}))
        except (ItemError, TransientError):
            self.counts[f"{role}: calls failed"] += 1
            notes.add(f"a call to the judge failed ({role})")
            return None
        found = as_json(reply.text)
        self.counts[f"{role}: {'read' if found is not None else 'not read'}"] += 1
        if found is None:
            cut = ", its tokens ended" if reply.finish_reason == "length" else ""
            notes.add(f"a reply of the judge could not be read ({role}{cut})")
        return found

    async def judge(self, item: Item, response: Response, *, answers: bool = True) -> Judged:
        """One reply at three levels, the answer only where ``answers``; the system is not asked again."""
        text, kind = chain_of(response)
        if response.error or not text.strip():
            return Judged(
                id=item.id, failed=bool(response.error), answer=None if response.error else Level.NO_ANSWER,
                why=response.error or "the reply is empty",
            )  # fmt: skip
        notes: set[str] = set()
        if len(text) > LONGEST:
            text = text[:LONGEST]
            notes.add(f"only the first {LONGEST:,} characters of the chain were judged")
        steps, read = await self.segment(item.id, text, notes)
        if not read:
            notes.add(NO_STEPS)
        (level, why), matches, marks = await asyncio.gather(
            self.answer(item, response, notes) if answers else _graded_before(),
            self.match(item, steps, notes),
            self.mark(item, steps, notes),
        )
        reference = tokens(item.chain)
        length = tokens(text) / reference if reference and text else None
        return Judged.model_validate({
            "id": item.id, "answer": level, "why": why, "kind": kind, "steps": steps, "matches": matches,
            "marks": marks, "length": length, "notes": sorted(notes),
        })  # fmt: skip

    async def answer(self, item: Item, response: Response, notes: set[str]) -> tuple[Level | None, str]:
        """Answer level: rules where they have a proof, the model otherwise."""
        level, why = answer_by_rules(item, response)
        if level is not None:
            return level, why
        shown = candidate(item.question, final_answer(response.text))
        options = "\n".join(f"{letter}. {text}" for letter, text in item.choices.items())
        told = await self.told(
            "answer", item.id, 128, notes, schema=schema_of("answer"), question=item.question, options=options,
            answer=right(item), reply=shown.text, mark=shown.mark,
        )  # fmt: skip
        said = told.get("answer_match") if isinstance(told, dict) else None
        if not isinstance(said, str) or said not in [*Level] or (said == Level.PARTIAL and item.format == "choice"):
            return None, "the judge's reply states no level"
        return Level(said), "the judge's level"

    async def segment(self, id: str, text: str, notes: set[str]) -> tuple[list[str], bool]:
        """The chain in steps, together the chain itself; and whether the model's cuts could be read throughout."""

        async def one(lines: list[str]) -> tuple[list[str], bool]:
            if len(lines) == 1:
                return lines, True
            ids = range(1, len(lines) + 1)
            told = await self.told(
                "segment", id, 32 + 8 * len(lines), notes, schema=schema_of("segment", ids), sentences=_lines(lines)
            )
            cut = cut_as_told(lines, told)
            return (cut, True) if cut is not None else (cut_by_cues(lines), False)

        found = await asyncio.gather(*(one(run) for run in parts(text) if run))
        steps = [step for cut, _ in found for step in cut]
        if "".join(steps) != text:  # never: what is cut is the text itself
            raise AssertionError(f"the steps of {id} are not the chain")
        return steps, all(read for _, read in found)

    async def match(self, item: Item, steps: Sequence[str], notes: set[str]) -> list[StepMatch] | None:
        """One reference step after another against all predicted ones, group by group; the best match counts."""
        if not item.steps or not steps:
            return None if not item.steps else [StepMatch(step=s.id, label=Level.MISMATCH) for s in item.steps]

        async def one(content: str, first: int, run: list[str]) -> tuple[Level, int | None] | None:
            ids = range(first, first + len(run))
            told = await self.told(
                "match", item.id, 64, notes, schema=schema_of("match", ids), question=item.question,
                answer=right(item), step=content, steps=numbered(run, first),
            )  # fmt: skip
            return read_match(told, ids)

        asked = [
            [one(f"({', '.join(s.types)}) {s.content}", first, run) for first, run in groups(steps)] for s in item.steps
        ]
        said = await asyncio.gather(*(asyncio.gather(*of_step) for of_step in asked))
        return [best_match(s.id, found) for s, found in zip(item.steps, said, strict=True)]

    async def mark(self, item: Item, steps: Sequence[str], notes: set[str]) -> list[Mark] | None:
        """The full rubric; of a long chain, group by group."""
        if not steps:
            return None
        rubric = item.full_rubric
        lines = "\n".join(f"{n}. {r.question}" for n, r in enumerate(rubric, 1))
        reference = numbered([s.content for s in item.steps]) or "(no reference steps are given)"

        async def one(first: int, run: list[str]) -> list[Mark]:
            ids = range(first, first + len(run))
            told = await self.told(
                "rubric", item.id, 64 + 80 * len(rubric), notes, schema=schema_of("rubric", ids, len(rubric)),
                question=item.question, answer=right(item), reference=reference, steps=numbered(run, first),
                rubric=lines,
            )  # fmt: skip
            return read_marks(told, len(rubric), ids)

        found = await asyncio.gather(*(one(first, run) for first, run in groups(steps)))
        return [best_mark(r, [run[n] for run in found]) for n, r in enumerate(rubric)]


async def _graded_before() -> tuple[Level | None, str]:
    return None, "graded by the run's own judge"


def _texts(folder: Path | None) -> tuple[dict[str, str], set[str]]:
    """Role -> prompt, and the roles whose text is the user's."""
    texts, own = {}, set()
    for role, fields in PROMPTS.items():
        path = folder / f"{role}.md" if folder is not None else None
        if path is not None and path.is_file():
            own.add(role)
            texts[role] = read_text(path)
            wanted = set(fields) - {"options", "mark"}
            if missing := wanted - set(Template(texts[role]).get_identifiers()):
                raise UsageError(
                    f"lacks ${min(missing)}", item=str(path), cure=f"it is filled with {', '.join(fields)}"
                )
        else:
            texts[role] = files(__package__).joinpath("prompts", f"{role}.v1.md").read_text(encoding="utf-8")
    if folder is not None and not own:
        raise UsageError(
            "holds no prompt of the judge", item=str(folder), cure=f"name files {', '.join(f'{r}.md' for r in PROMPTS)}"
        )
    return texts, own


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(
        json.dumps({"n": n, "sentence": clean(s).strip()}, ensure_ascii=False) for n, s in enumerate(lines, 1)
    )


def right(item: Item) -> str:
    """The right answer in words."""
    return target(item.spec) if item.format != "grounding" else f"[y1, x1, y2, x2] = {list(item.box or ())}"


_FENCE = re.compile(r"^```[a-z]*\s*|(?<!\s)\s*+```$|```$", re.IGNORECASE)


def as_json(reply: str) -> Any:
    """A reply that is JSON, in a code fence or not; None where it is none."""
    try:
        return parsed_json(_FENCE.sub("", visible(reply).strip()))
    except (ValueError, RecursionError):
        return None


def read_match(told: Any, ids: range) -> tuple[Level, int | None] | None:
    """(label, predicted step) of a judge's reply; None where it names no label, or a step that it was not shown."""
    if not isinstance(told, dict):
        return None
    label, step = told.get("step_match"), told.get("best_match_step_id")
    if label == Level.MISMATCH:
        return Level.MISMATCH, None
    if label in (Level.MATCH, Level.PARTIAL) and type(step) is int and step in ids:
        return Level(label), step
    return None


def best_match(step: int, found: Sequence[tuple[Level, int | None] | None]) -> StepMatch:
    """The best of all groups; unread where a group that was not read could have held a better one."""
    order = [Level.MATCH, Level.PARTIAL, Level.MISMATCH]
    read = sorted((f for f in found if f is not None), key=lambda f: order.index(f[0]))
    if not read or (None in found and read[0][0] is not Level.MATCH):
        return StepMatch(step=step, label=None)
    return StepMatch(step=step, label=read[0][0], predicted=read[0][1])


def read_marks(told: Any, n: int, ids: range) -> list[Mark]:
    """Marks of a judge's reply, in order; all unread where there is not one for each rubric item."""
    rows = told.get("judgments") if isinstance(told, dict) else told
    unread = Mark(satisfied=None)
    if not isinstance(rows, list) or len(rows) != n:
        return [unread] * n
    found = []
    for row in rows:
        said = str(row.get("judgment", "")).strip().lower() if isinstance(row, dict) else ""
        if said not in ("yes", "no"):
            found.append(unread)
            continue
        given = row.get("evidence_step_ids")
        evidence = tuple(i for i in given if type(i) is int and i in ids) if isinstance(given, list) else ()
        found.append(
            Mark(
                satisfied=said == "yes",
                hallucination=said == "no" and row.get("hallucination") is True,
                evidence=evidence,
            )
        )
    return found


def best_mark(item: RubricItem, found: Sequence[Mark]) -> Mark:
    """One mark of all groups: consistent and coherent it must be in each, anything else in one of them."""
    if len(found) == 1:
        return found[0]
    evidence = tuple(i for m in found for i in m.evidence)
    said = [m.satisfied for m in found]
    decided = item not in BASE[:2]
    if decided in said:
        satisfied: bool | None = decided
    else:
        satisfied = None if None in said else not decided
    made_up = satisfied is False and any(m.hallucination for m in found)
    return Mark(satisfied=satisfied, hallucination=made_up, evidence=evidence)


# --- many chains -----------------------------------------------------------------------------------


def judge_by_rules(item: Item, response: Response) -> Judged:
    """Answer level alone, without a model."""
    if response.error:
        return Judged(id=item.id, failed=True, why=response.error)
    text, kind = chain_of(response)
    level, why = answer_by_rules(item, response)
    reference = tokens(item.chain)
    length = tokens(text[:LONGEST]) / reference if reference and text else None
    return Judged.model_validate({"id": item.id, "answer": level, "why": why, "kind": kind, "length": length})


def judge_all(
    judge: ChainJudge | None,
    items: Sequence[Item],
    outputs: Mapping[str, Response],
    progress: Callable[[int], None] = lambda n: None,
) -> dict[str, Judged]:
    """What was judged of each item that has a reply; without a judge, answers by rules."""
    from demur.models.run import run_sync

    pairs = [(i, outputs[i.id]) for i in items if i.id in outputs and not i.too_complex]  # those are in no figure
    if judge is None:
        return {i.id: judge_by_rules(i, r) for i, r in pairs}
    return {j.id: j for j in run_sync(all_of(judge, [judge.judge(i, r) for i, r in pairs], progress))}


async def all_of(
    judge: ChainJudge | None, work: Sequence[Coroutine[Any, Any, T]], progress: Callable[[int], None]
) -> list[T]:
    """All of them, so many at once; what no chain can survive (a wrong key, the budget) is raised."""
    at_once = asyncio.Semaphore(AT_ONCE)
    done: Counter[str] = Counter()

    async def one(job: Coroutine[Any, Any, T]) -> T:
        async with at_once:
            found = await job
        done["n"] += 1
        progress(done["n"])
        return found

    try:
        async with asyncio.TaskGroup() as tasks:
            several = [tasks.create_task(one(job)) for job in work]
    except* Exception as errors:
        raise errors.exceptions[0] from None
    finally:
        for job in work:
            job.close()
        if judge is not None:
            await judge.close()
    return [task.result() for task in several]
