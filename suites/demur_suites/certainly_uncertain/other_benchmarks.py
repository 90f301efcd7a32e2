"""Table 5: what the same models do on other benchmarks, from replies made elsewhere.

A line of the file is one reply, or one rating of a reply by the judge that a benchmark brings:

    {"benchmark": "VQAv2", "id": "7", "system": "m", "question": "...", "answers": ["red", "red", "dark red"], "output": "red"}
    {"benchmark": "MM-Hal", "id": "1", "system": "m", "rating": 4}

    lave-idk   UNK-VQA, TDIUC   LAVE-idk as for pairs; what cannot be answered says ``"answerable": false``
    f1         POPE, AMBER      F1 of one side (``"positive": "no"``; default yes) of yes-or-no questions
    vqa        VQAv2, VizWiz    agreement with all annotators but one, over every one left out; declining is "unanswerable"
    rating     MM-Hal           mean rating, and the share below 3, which counts as hallucinated

Other benchmarks name their ``measure``. Replies that failed, take no side or cannot be judged are counted, in no figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, get_args

import numpy as np
from pydantic import Field, ValidationError, model_validator

from demur.answers.yes_no import side
from demur.core.errors import UsageError
from demur.core.records import Measure, Record, Response
from demur.core.store import Problems, why_invalid
from demur.core.thinking import visible
from demur.corpora.formats import json_lines
from demur.judge.official.infoseek import normalise
from demur_suites.certainly_uncertain.judging import AT_ONCE, Evaluator
from demur_suites.certainly_uncertain.measures import Others, detection
from demur_suites.grading import at_once
from demur_suites.refusal import declines

Kind = Literal["lave-idk", "f1", "vqa", "rating"]
KNOWN: Mapping[str, Kind] = {
    "UNK-VQA": "lave-idk",
    "TDIUC": "lave-idk",
    "POPE": "f1",
    "AMBER": "f1",
    "VQAv2": "vqa",
    "VizWiz": "vqa",
    "MM-Hal": "rating",
}
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
HALLUCINATED = 3
"""A rating below it, of 0 to 6, counts as hallucinated."""


class Line(Record):
    """One reply to a question of another benchmark, or its rating."""

    benchmark: str = Field(min_length=1)
    id: str = Field(min_length=1)
    system: str = Field(min_length=1)
    measure: Kind | None = None
    question: str = ""
    answers: tuple[str, ...] = ()
    answerable: bool = True
    positive: Literal["yes", "no"] = "yes"
    output: str = ""
    rating: float | None = Field(default=None, ge=0, le=6)

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        if self.kind is None:
            raise ValueError(
                f"benchmark {self.benchmark!r} is not known: name its measure ({', '.join(get_args(Kind))})"
            )
        if self.kind == "f1" and not (
            self.answers and self.answers[0].strip().lower() in ("yes", "no")
        ):
            raise ValueError("answers hold neither yes nor no")
        if self.kind != "rating" and self.answerable and not any(a.strip() for a in self.answers):
            raise ValueError("holds no answers")
        return self

    @property
    def kind(self) -> Kind | None:
        """By which measure it is scored."""
        return self.measure or KNOWN.get(self.benchmark)


def read_others(path: Path) -> dict[str, dict[str, list[Line]]]:
    """System -> benchmark -> its lines.

    Raises:
        UsageError: there is no such file.
        BadInput: lines that cannot be read.
    """
    if not path.is_file():
        raise UsageError(
            "no such file", item=str(path), cure="give replies to other benchmarks as JSONL"
        )
    problems = Problems()
    found: dict[str, dict[str, list[Line]]] = {}
    kinds: dict[str, Kind | None] = {}
    seen: set[tuple[str, str, str]] = set()
    for place, row in json_lines(path, problems):
        where = f"{place} ({row.get('benchmark', 'no benchmark')} {row.get('id', 'no id')})"
        try:
            line = Line.model_validate(row)
        except ValidationError as error:
            problems.add(where, why_invalid(error))
            continue
        key = line.system, line.benchmark, line.id
        if key in seen:
            problems.add(where, f"an earlier line holds this reply of {line.system!r} too")
        elif kinds.setdefault(line.benchmark, line.kind) != line.kind:
            problems.add(
                where, f"earlier lines of {line.benchmark} are scored by {kinds[line.benchmark]}"
            )
        else:
            seen.add(key)
            found.setdefault(line.system, {}).setdefault(line.benchmark, []).append(line)
    problems.settle(skip_bad=False)
    return found


async def score_others(lines: Mapping[str, Sequence[Line]], evaluator: Evaluator) -> Others:
    """One model's figures by benchmark."""
    found: dict[str, tuple[Measure, bool]] = {}
    for benchmark, own in lines.items():
        kind = own[0].kind
        replied = [line for line in own if visible(line.output).strip()]

        def put(
            title: str, value: float | None, n: int, asked: int, failed: int, share: bool = True
        ) -> None:
            found[title] = (
                Measure(name=title, value=value, n=n, unjudged=asked - failed - n, failed=failed),
                share,
            )

        if kind == "rating":
            ratings = [line.rating for line in own if line.rating is not None]
            low = [float(rating < HALLUCINATED) for rating in ratings]
            for title, values in ((benchmark, ratings), (f"{benchmark} Hall.", low)):
                put(
                    title,
                    _mean(values),
                    len(values),
                    len(own),
                    len(own) - len(ratings),
                    values is low,
                )
        elif kind == "f1":
            sided = [(side(line.output), line) for line in own]
            read = [
                (taken == x.positive, x.answers[0].strip().lower() == x.positive)
                for taken, x in sided
                if taken
            ]
            f1 = detection([taken for taken, _ in read], [gold for _, gold in read]).f1
            put(benchmark, f1, len(read), len(own), len(own) - len(replied))
        else:
            credits: Sequence[float | None] = (
                [vqa(line) for line in replied]
                if kind == "vqa"
                else await at_once([_lave(evaluator, line) for line in replied], AT_ONCE)
            )
            graded = [credit for credit in credits if credit is not None]
            put(benchmark, _mean(graded), len(graded), len(own), len(own) - len(replied))
    return found


async def _lave(evaluator: Evaluator, line: Line) -> float | None:
    answer = next((a for a in line.answers if a.strip()), "")
    _, credit, _ = await evaluator.credit(
        f"{line.benchmark}/{line.id}",
        line.question,
        answer,
        not line.answerable,
        Response(text=line.output),
    )
    return credit


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def vqa(line: Line) -> float:
    """VQA accuracy: a third of how many other annotators say the same, at most 1, over every annotator left out.

    >>> vqa(Line(benchmark="VQAv2", id="1", system="m", answers=("two",) * 3 + ("3",) * 7, output="The 2."))
    0.9
    """
    reply = "unanswerable" if declines(line.output) else _words(line.output)
    same = [_words(answer) == reply for answer in line.answers]
    left_out = [sum(same) - one for one in same] if len(same) > 1 else [3 * sum(same)]
    return round(float(np.mean([min(1.0, n / 3) for n in left_out])), 10)


def _words(text: str) -> str:
    return " ".join(
        str(NUMBERS.index(w)) if w in NUMBERS else w for w in normalise(visible(text)).split()
    )
