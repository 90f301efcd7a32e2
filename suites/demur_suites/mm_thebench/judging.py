"""A judge of chains: is the answer right, which reference steps are in the chain, what does the rubric say?

There are four calls to a text model, each kept in the ledger and paid for once: answer (only where rules have no
proof), segmentation, step match (one reference step against all predicted ones), rubric. Long chains are cut before
cues such as "Wait", segmented part by part, and matched in groups; no prompt grows with the chain (`chains`).

The chain is data: prompts hold it as JSON strings. A reply that cannot be read leaves its level unjudged; where the
segmentation cannot be read, cues alone cut the steps, and a note says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from demur.answers.boxes import boxes, iou
from demur.answers.choices import stated_options
from demur.core.errors import ItemError, TransientError, UsageError
from demur.core.records import (
    AnswerSpec,
    ImagePart,
    ImageRef,
    Message,
    Method,
    Outcome,
    Request,
    Response,
    Status,
    TextPart,
)
from demur.core.spec import Option, named
from demur.core.store import digest, read_text
from demur.core.strict_json import parsed_json
from demur.core.thinking import visible
from demur.judge.base import JudgeContext
from demur.judge.local import LocalJudge
from demur.judge.model import ModelJudge, target
from demur.judge.untrusted_answer import candidate, forms_of
from demur_suites.files import prompt_text
from demur_suites.grading import ask_of
from demur_suites.mm_thebench.chains import (
    LONGEST,
    chain_of,
    cut_as_judged,
    cut_by_cues,
    final_answer,
    groups,
    numbered,
    sentences,
)
from demur_suites.mm_thebench.items import BASE, Item, RubricItem, Step
from demur_suites.mm_thebench.measures import Judged, Level, Mark, StepMatch, tokens

NO_STEPS = "cues alone cut the steps: the judge's segmentation could not be read"
PROMPTS = {
    "answer": ("question", "options", "answer", "reply", "mark"),
    "segment": ("sentences",),
    "match": ("question", "answer", "step", "steps"),
    "rubric": ("question", "answer", "reference", "steps", "rubric"),
    "draft": ("question", "answer", "kinds"),
    "draft-rubric": ("question", "answer", "steps", "kinds"),
}
"""Role -> the fields of its prompt."""
ROOM = 2_048
"""Tokens that a reply may take beyond its content: for a judge that thinks before it writes."""


def reply_schema(**properties: Any) -> dict[str, Any]:
    """A JSON object with just these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def whole(low: int, high: int) -> dict[str, Any]:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def listed(of: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    """A list within bounds."""
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def schema_of(role: str, ids: range = range(1), rows: int = 0) -> dict[str, Any] | None:
    """The schema of a reply; None for a role without one.

    Every list and number has a bound: a small model under a grammar otherwise goes on for as long as it can.

    Args:
        role: of the prompt.
        ids: numbers of the sentences or steps in the prompt.
        rows: number of rubric items in the prompt.
    """
    known = whole(ids.start, max(ids.start, ids.stop - 1))
    if role == "answer":
        return reply_schema(
            pred_answer={"type": "string"}, answer_match={"type": "string", "enum": [*Level]}
        )
    if role == "segment":
        return reply_schema(starts=listed(known, max(1, len(ids)), 1))
    if role == "match":
        best = whole(-1, known["maximum"])
        return reply_schema(
            best_match_step_id=best, step_match={"type": "string", "enum": [*Level][:3]}
        )
    if role == "rubric":
        row = reply_schema(
            judgment={"type": "string", "enum": ["YES", "NO"]},
            hallucination={"type": "boolean"},
            evidence_step_ids=listed(known, 8),
        )
        return reply_schema(judgments=listed(row, rows, rows))
    return None


def answer_by_rules(
    answers: AnswerSpec,
    response: Response,
    question: str = "",
    picture: ImageRef | None = None,
    *,
    sure: bool = False,
) -> tuple[Level | None, str]:
    """(level, why): options by letter or text, boxes by overlap, words by the local judge; with ``sure``, None where
    only its pair model would decide.
    """
    answer = final_answer(response.text)
    if not answer.strip():
        return Level.NO_ANSWER, "the reply is empty"
    if answers.box is not None:
        return _grounded(answers.box, answer, picture)
    if answers.kind == "choice":
        stated = stated_options(answers, answer)
        if len(stated) == 1:
            letter = next(iter(stated))
            return (
                Level.MATCH if letter == answers.accepted[0][0] else Level.MISMATCH
            ), f"states option {letter}"
    verdict = LocalJudge().grade(
        ask_of("", question, choices=answers.choices), Response(text=answer), answers
    )
    level = {
        Outcome.CORRECT: Level.MATCH,
        Outcome.INCORRECT: Level.MISMATCH,
        Outcome.DEFLECTED: Level.NO_ANSWER,
    }
    if verdict.status is Status.FAILED:
        return Level.NO_ANSWER, verdict.reason
    if sure and verdict.method is Method.EQUIVALENCE:
        return None, verdict.reason
    return (level[verdict.outcome] if verdict.outcome else None), verdict.reason


def _grounded(
    box: tuple[float, ...], answer: str, picture: ImageRef | None
) -> tuple[Level | None, str]:
    """A box (y1, x1, y2, x2) in pixels, in shares of the picture, or in thousandths: right when one of them fits."""
    boxes_of_reply = boxes(answer)
    if not boxes_of_reply:
        return Level.NO_ANSWER, "the reply holds no box of four numbers"
    y1, x1, y2, x2 = boxes_of_reply[-1]
    scales = [(1.0, 1.0)]
    if picture is not None:
        scales += [(picture.height / scale, picture.width / scale) for scale in (1.0, 1000.0)]
    best = max(iou((x1 * wide, y1 * high, x2 * wide, y2 * high), box) for high, wide in scales)
    if best < 0.5 and picture is None:
        return (
            None,
            f"overlap {best:.2f} in pixels; shares need the size of the picture, which is missing",
        )
    return (Level.MATCH if best >= 0.5 else Level.MISMATCH), f"overlap {best:.2f}"


def graded_by_rules(
    item: Item, response: Response, *, sure: bool = False
) -> tuple[Level | None, str]:
    """`answer_by_rules` for the reply to an item."""
    picture = next(iter(item.pictures), None)
    return answer_by_rules(item.spec, response, item.question, picture, sure=sure)


# --- the judge -------------------------------------------------------------------------------------


SEES = Option("whether the judge sees an item's pictures", ("yes", "no"))


class ChainJudge(ModelJudge):
    """Judges chains at three levels.

    Args:
        argument: ``MODEL?images=yes``, a model string of `demur.models`; with the option it sees an item's pictures.
        context: ledger, budget, prices.
        prompts: folder of prompts (``answer.md``, ``segment.md``, ``match.md``, ``rubric.md``) in place of ours.
        room: tokens that a reply may take beyond its content, for a judge that thinks before it writes.
    """

    kind = "chains"

    def __init__(
        self,
        argument: str,
        context: JudgeContext | None = None,
        prompts: Path | None = None,
        room: int = ROOM,
    ) -> None:
        model, options = named("chains", argument, {"images": SEES})
        self.sees = options.get("images") == "yes"
        super().__init__(model, context or JudgeContext())
        self.id += "?images=yes" * self.sees
        self._room = room
        self.texts, self.own = _texts(prompts)
        self.prompt_sha256 = digest(self.texts)

    async def reply(
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
        """The model's reply to one of the prompts, as JSON; None where it is no JSON, or the call failed.

        Args:
            role: of the prompt.
            item: the item that the call is for.
            need: tokens of the reply's content.
            notes: collects why there is no reply.
            schema: of the reply, used where the endpoint supports one and the prompt is ours.
            pictures: of the item, for a model that sees them (``images=yes``).
            fields: of the prompt.

        Raises:
            PermanentError: the model cannot be asked at all.
            BudgetReached: the budget leaves no room for another call.
        """
        schema = None if role in self.own else schema
        text = TextPart(text=Template(self.texts[role]).safe_substitute(fields))
        try:
            images = [ImagePart(image=ref) for ref in pictures if self.sees]
            request = Request(
                model=self.model,
                temperature=0.0,
                max_tokens=need + self._room,
                item=item,
                json_schema=schema,
                messages=(Message(role="user", parts=(*images, text)),),
            )
            reply = await (await self._model()).complete(request)
        except (ItemError, TransientError):
            self.counts[f"{role}: calls failed"] += 1
            notes.add(f"a call to the judge failed ({role})")
            return None
        if "temperature" in reply.asked_without:
            notes.add("the judge was asked at its own temperature")
        parsed = as_json(reply.text)
        self.counts[f"{role}: {'read' if parsed is not None else 'not read'}"] += 1
        if parsed is None:
            cut = ", its tokens ended" if reply.finish_reason == "length" else ""
            notes.add(f"a reply of the judge could not be read ({role}{cut})")
        return parsed

    async def judge(self, item: Item, response: Response) -> Judged:
        """One reply at three levels."""
        text, kind = chain_of(response)
        if response.error or not text.strip():
            return Judged(
                id=item.id,
                failed=bool(response.error),
                answer=None if response.error else Level.NO_ANSWER,
                why=response.error or "the reply is empty",
            )
        notes: set[str] = set()
        if len(text) > LONGEST:
            text = text[:LONGEST]
            notes.add(f"only the first {LONGEST:,} characters of the chain were judged")
        steps, read = await self.segment(item.id, text, notes)
        if not read:
            notes.add(NO_STEPS)
        (level, why), matches, marks = await asyncio.gather(
            self.answer(item, response, notes),
            self.match(item, steps, notes),
            self.mark(item, steps, notes),
        )
        return Judged.model_validate(
            {
                "id": item.id,
                "answer": level,
                "why": why,
                "kind": kind,
                "steps": steps,
                "matches": matches,
                "marks": marks,
                "length": thinking_length(item, text),
                "notes": sorted(notes),
            }
        )

    async def answer(
        self, item: Item, response: Response, notes: set[str]
    ) -> tuple[Level | None, str]:
        """Answer level: comparing where it decides, the model otherwise."""
        level, why = graded_by_rules(item, response, sure=True)
        if level is not None:
            return level, why
        shown = candidate(
            item.question, final_answer(response.text), forms_of(item.spec, item.choices.items())
        )
        if shown.doubted:
            return None, shown.doubted
        options = "\n".join(f"{letter}. {text}" for letter, text in item.choices.items())
        reply = await self.reply(
            "answer",
            item.id,
            128,
            notes,
            schema=schema_of("answer"),
            question=item.question,
            options=options,
            answer=right_answer(item),
            reply=shown.text,
            mark=shown.mark,
        )
        level_name = reply.get("answer_match") if isinstance(reply, dict) else None
        if (
            not isinstance(level_name, str)
            or level_name not in [*Level]
            or (level_name == Level.PARTIAL and item.format == "choice")
        ):
            return None, "the judge's reply states no level"
        return Level(level_name), "the judge's level"

    async def segment(self, id: str, text: str, notes: set[str]) -> tuple[list[str], bool]:
        """The steps, which together are the chain; and whether every cut of the model could be read."""

        async def one(lines: list[str]) -> tuple[list[str], bool]:
            if len(lines) == 1:
                return lines, True
            ids = range(1, len(lines) + 1)
            reply = await self.reply(
                "segment",
                id,
                32 + 8 * len(lines),
                notes,
                schema=schema_of("segment", ids),
                sentences=numbered(lines, names=("n", "sentence")),
            )
            cut = cut_as_judged(lines, reply)
            return (cut, True) if cut is not None else (cut_by_cues(lines), False)

        cuts = await asyncio.gather(*(one(run) for _, run in groups(sentences(text), at_cues=True)))
        steps = [step for cut, _ in cuts for step in cut]
        if "".join(steps) != text:  # never: what is cut is the text itself
            raise AssertionError(f"the steps of {id} are not the chain")
        return steps, all(read for _, read in cuts)

    async def match(
        self, item: Item, steps: Sequence[str], notes: set[str]
    ) -> list[StepMatch] | None:
        """Each reference step against all predicted ones, group by group; the best match counts."""
        if not item.steps or not steps:
            return (
                None
                if not item.steps
                else [StepMatch(step=s.id, label=Level.MISMATCH) for s in item.steps]
            )

        async def one(content: str, first: int, run: list[str]) -> tuple[Level, int | None] | None:
            ids = range(first, first + len(run))
            reply = await self.reply(
                "match",
                item.id,
                64,
                notes,
                schema=schema_of("match", ids),
                question=item.question,
                answer=right_answer(item),
                step=content,
                steps=numbered(run, first),
            )
            return read_match(reply, ids)

        async def best(step: Step) -> StepMatch:
            content = f"({', '.join(step.types)}) {step.content}"
            matches = await asyncio.gather(
                *(one(content, first, run) for first, run in groups(steps))
            )
            return best_match(step.id, matches)

        return list(await asyncio.gather(*map(best, item.steps)))

    async def mark(self, item: Item, steps: Sequence[str], notes: set[str]) -> list[Mark] | None:
        """The full rubric; a long chain group by group."""
        if not steps:
            return None
        rubric = item.full_rubric
        lines = "\n".join(f"{n}. {r.question}" for n, r in enumerate(rubric, 1))
        reference = numbered([s.content for s in item.steps]) or "(no reference steps are given)"

        async def one(first: int, run: list[str]) -> list[Mark]:
            ids = range(first, first + len(run))
            reply = await self.reply(
                "rubric",
                item.id,
                64 + 80 * len(rubric),
                notes,
                schema=schema_of("rubric", ids, len(rubric)),
                question=item.question,
                answer=right_answer(item),
                reference=reference,
                steps=numbered(run, first),
                rubric=lines,
            )
            return read_marks(reply, len(rubric), ids)

        marks_of_groups = await asyncio.gather(*(one(first, run) for first, run in groups(steps)))
        return [best_mark(r, [run[n] for run in marks_of_groups]) for n, r in enumerate(rubric)]


def thinking_length(item: Item, text: str) -> float | None:
    """Tokens of a chain over those of the annotated one; None where either is missing."""
    reference = tokens(item.chain)
    return tokens(text[:LONGEST]) / reference if reference and text else None


def _texts(folder: Path | None) -> tuple[dict[str, str], set[str]]:
    """Role -> prompt, and the roles whose prompt is the user's."""
    texts, own = {}, set()
    for role, fields in PROMPTS.items():
        path = folder / f"{role}.md" if folder is not None else None
        if path is not None and path.is_file():
            own.add(role)
            texts[role] = read_text(path)
            needed = set(fields) - {"options", "mark"}
            if missing := needed - set(Template(texts[role]).get_identifiers()):
                raise UsageError(
                    f"lacks ${min(missing)}",
                    item=str(path),
                    cure=f"its fields are {', '.join(fields)}",
                )
        else:
            texts[role] = prompt_text(__package__, f"{role}.v1.md") + "\n"
    if folder is not None and not own:
        raise UsageError(
            "holds no prompt of the judge",
            item=str(folder),
            cure=f"name files {', '.join(f'{r}.md' for r in PROMPTS)}",
        )
    return texts, own


def right_answer(item: Item) -> str:
    """The right answer in words."""
    return (
        target(item.spec)
        if item.format != "grounding"
        else f"[y1, x1, y2, x2] = {list(item.box or ())}"
    )


_FENCE = re.compile(r"^```[a-z]*\s*|(?<!\s)\s*+```$|```$", re.IGNORECASE)


def as_json(reply: str) -> Any:
    """A reply as JSON, in a code fence or not; None where it is no JSON."""
    try:
        return parsed_json(_FENCE.sub("", visible(reply).strip()))
    except (ValueError, RecursionError):
        return None


def read_match(reply: Any, ids: range) -> tuple[Level, int | None] | None:
    """(label, predicted step) of a judge's reply; None where it names no label, or a step outside its prompt."""
    if not isinstance(reply, dict):
        return None
    label, step = reply.get("step_match"), reply.get("best_match_step_id")
    if label == Level.MISMATCH:
        return Level.MISMATCH, None
    if label in (Level.MATCH, Level.PARTIAL) and type(step) is int and step in ids:
        return Level(label), step
    return None


def best_match(step: int, matches: Sequence[tuple[Level, int | None] | None]) -> StepMatch:
    """The best of all groups; unread where an unread group could hold a better one."""
    order = [Level.MATCH, Level.PARTIAL, Level.MISMATCH]
    read = sorted((f for f in matches if f is not None), key=lambda f: order.index(f[0]))
    if not read or (None in matches and read[0][0] is not Level.MATCH):
        return StepMatch(step=step, label=None)
    return StepMatch(step=step, label=read[0][0], predicted=read[0][1])


def read_marks(reply: Any, n: int, ids: range) -> list[Mark]:
    """Marks of a judge's reply, in order; all unread where there is not one for each rubric item."""
    rows = reply.get("judgments") if isinstance(reply, dict) else reply
    unread = Mark(satisfied=None)
    if not isinstance(rows, list) or len(rows) != n:
        return [unread] * n
    marks = []
    for row in rows:
        word = str(row.get("judgment", "")).strip().lower() if isinstance(row, dict) else ""
        if word not in ("yes", "no"):
            marks.append(unread)
            continue
        cited = row.get("evidence_step_ids")
        evidence = (
            tuple(i for i in cited if type(i) is int and i in ids)
            if isinstance(cited, list)
            else ()
        )
        made_up = word == "no" and row.get("hallucination") is True
        marks.append(Mark(satisfied=word == "yes", hallucination=made_up, evidence=evidence))
    return marks


def best_mark(item: RubricItem, marks_of_groups: Sequence[Mark]) -> Mark:
    """One mark of all groups: the first two base items must hold in each group, any other in one of them."""
    if len(marks_of_groups) == 1:
        return marks_of_groups[0]
    evidence = tuple(i for m in marks_of_groups for i in m.evidence)
    marks = [m.satisfied for m in marks_of_groups]
    decided = item not in BASE[:2]
    satisfied = decided if decided in marks else None if None in marks else not decided
    made_up = satisfied is False and any(m.hallucination for m in marks_of_groups)
    return Mark(satisfied=satisfied, hallucination=made_up, evidence=evidence)


def judge_by_rules(item: Item, response: Response) -> Judged:
    """Answer level alone, without a model."""
    if response.error:
        return Judged(id=item.id, failed=True, why=response.error)
    text, kind = chain_of(response)
    level, why = graded_by_rules(item, response)
    return Judged(id=item.id, answer=level, why=why, kind=kind, length=thinking_length(item, text))
