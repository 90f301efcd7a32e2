"""How good a judge is, on answers that people labelled: ``demur judge bench rules``.

What is read, by the shape of its lines (``.jsonl``) or its items (``.json``), each file told apart by itself:

    demur's own   id, question, answers, response, label (correct | incorrect | deflected; ``correct|incorrect`` where
                  people differ), second (the other reviewer's label), why, part (tuning | untouched), language, sort
    two-way       id, question, answers, response, human (correct | not_correct), as in EVOUNA made flat
    EVOUNA        a JSON list: question, golden_answer ("a/b"), answer_SYSTEM and judge_SYSTEM (true | false)
    ProcessBench  problem, steps, label (the first wrong step, from 0; -1: none is wrong): a labelled answer a step
    PRM800K       question.problem, label.steps: completions with a rating (-1 is wrong); a labelled answer a step
    SimpleQA      problem | question, answer | target, response | predicted_answer, grade | label (A, B, C or words)
    declines      text, deflects (true | false), question, part, language: whether a reply declines, whatever is right
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Ask, Outcome, Response, Scenario, Status, Verdict
from demur.core.stats import wilson
from demur.core.store import Problems, read_json, read_jsonl, why_invalid
from demur.judge.base import answer_spec, lettered
from demur.judge.measures.kappa import cohen

NOT_CORRECT, ANSWERED = "not_correct", "answered"
"""Labels of people who did not tell a wrong answer from none, or a right answer from a wrong one."""
MEASURED = Path(str(files("demur.judge").joinpath("data", "rules_measured.json")))
_RULES_OUT = {NOT_CORRECT: "correct", ANSWERED: "deflected"}
_NAMED = {name: name for name in (*(o.value for o in Outcome), NOT_CORRECT)} | {
    "a": "correct",
    "b": "incorrect",
    "c": "deflected",
    "not_attempted": "deflected",
    "true": "correct",
}
"""A label as files name it -> as it is named here."""


class Labelled(NamedTuple):
    """One answer with what people say of it."""

    id: str
    question: str
    answers: AnswerSpec
    response: Response
    label: str
    """correct, incorrect, deflected; `NOT_CORRECT` where people did not tell a wrong answer from none, `ANSWERED` where
    they told only whether it declines."""
    second: str = ""
    """Of a second person; "" where there was one only."""
    part: str = "all"
    language: str = ""


class Share(NamedTuple):
    """A share of answers, with its Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def ends(self) -> tuple[float, float] | None:
        """95 %."""
        return wilson(self.hits, self.n)


class BenchRow(NamedTuple):
    """How a judge did on one part of the labelled answers."""

    part: str
    n: int
    coverage: Share
    """Graded, of all whose system gave an answer."""
    precision: dict[str, Share]
    """Outcome -> how many it gave that people gave too."""
    recall: dict[str, Share]
    """Outcome -> how many of people's it gave; what it left ungraded is missed."""
    kappa: float | None
    """Of what it graded, against people; two-way where people's labels are."""
    kappa_ends: tuple[float, float] | None
    """95 %, by resampling answers."""
    people: float | None
    """Kappa of two people, where two labelled."""
    chance: dict[str, tuple[float, float]] = {}  # noqa: RUF012 - never changed
    """Label -> (precision, recall) of somebody who says it as often, at random."""


def shipped() -> Path:
    """The labelled answers that come with demur."""
    return Path(str(files("demur.judge").joinpath("data", "labelled.jsonl")))


def load(path: Path) -> list[Labelled]:
    """The labelled answers of a file, or of every ``.jsonl`` and ``.json`` of a folder.

    Raises:
        BadInput: rows that cannot be read, all of them named.
        UsageError: there are none.
    """
    paths = (
        sorted(p for p in path.iterdir() if p.suffix in (".jsonl", ".json"))
        if path.is_dir()
        else [path]
    )
    problems, found = Problems(), []
    for one in paths:
        for place, row in _rows(one, problems):
            try:
                made = list(_labelled(place, row))
            except ValidationError as error:
                problems.add(place, why_invalid(error))
                continue
            found += made
            if not made:
                problems.add(
                    place,
                    "no labelled answer: see `demur.judge.bench` for the layouts that are read",
                )
    problems.settle()
    if not found:
        raise UsageError(
            "holds no labelled answers",
            item=str(path),
            cure="give a .jsonl or .json file, or a folder",
        )
    return found


def _rows(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix == ".json":
        given = read_json(path)
        for number, row in enumerate(given if isinstance(given, list) else [given]):
            yield f"{path.name}[{number}]", row if isinstance(row, dict) else {}
        return
    yield from ((str(place), row) for place, row in read_jsonl(path, problems))


def _steps(place: str, row: dict[str, Any]) -> Iterator[Labelled]:
    """Steps of a train of thought with what people say of each; steps behind the first wrong one are nobody's."""

    def one(number: int, problem: str, before: Sequence[str], step: str, wrong: bool) -> Labelled:
        so_far = "\n".join(f"Step {n}: {text}" for n, text in enumerate(before, 1))
        question = f"{problem}\n\n{so_far or '(no steps yet)'}"
        label = "incorrect" if wrong else "correct"
        return Labelled(
            f"{row.get('id', place)}/{number}",
            question,
            AnswerSpec(accepted=(("a right step",),)),
            Response(text=step),
            label,
            part=str(row.get("generator", "all")),
        )

    given, label = row.get("steps"), row.get("label")
    if isinstance(given, list) and type(label) is int and -1 <= label < len(given):
        texts = [str(s) for s in given[: label + 1 if label >= 0 else None]]
        for n, text in enumerate(texts):
            if text.strip():
                yield one(n + 1, str(row.get("problem", "")), texts[:n], text, n == label)
        return
    about, rated = row.get("question"), label.get("steps") if isinstance(label, dict) else None
    if not isinstance(about, dict) or not isinstance(rated, list):
        return
    before: list[str] = []
    for n, step in enumerate(rated):
        several = step.get("completions") if isinstance(step, dict) else None
        for k, said in enumerate(several if isinstance(several, list) else []):
            words, rating = (
                (said.get("text"), said.get("rating")) if isinstance(said, dict) else (None, None)
            )
            if (
                isinstance(words, str)
                and words.strip()
                and type(rating) is int
                and rating in (-1, 0, 1)
            ):
                made = one(n + 1, str(about.get("problem", "")), before, words, rating == -1)
                yield made._replace(id=f"{made.id}.{k}")
        taken = _went_on(step)
        if taken is None:
            return  # the chain ends where nobody went on
        before.append(taken)


def _went_on(step: Any) -> str | None:
    """The completion of a PRM800K step that the chain goes on from: the chosen one, or what people wrote instead."""
    if not isinstance(step, dict):
        return None
    several, chosen, taken = (
        step.get("completions"),
        step.get("chosen_completion"),
        step.get("human_completion"),
    )
    if isinstance(several, list) and type(chosen) is int and 0 <= chosen < len(several):
        taken = several[chosen]
    text = taken.get("text") if isinstance(taken, dict) else None
    return text if isinstance(text, str) else None


def _labelled(place: str, row: dict[str, Any]) -> Iterator[Labelled]:
    if isinstance(row.get("steps"), list) or isinstance(row.get("label"), dict):
        yield from _steps(place, row)
        return
    question = str(row.get("question") or row.get("problem") or "")
    about = str(row.get("part", "all")), str(row.get("language", ""))
    if isinstance(row.get("text"), str) and isinstance(row.get("deflects"), bool):
        label = "deflected" if row["deflects"] else ANSWERED
        response = Response(text=row["text"])
        yield Labelled(
            str(row.get("id", place)),
            question,
            AnswerSpec(kind="unknown"),
            response,
            label,
            "",
            *about,
        )
        return
    systems = sorted(k.removeprefix("answer_") for k in row if k.startswith("answer_"))
    if "golden_answer" in row and systems:
        golds = [g for g in str(row["golden_answer"]).split("/") if g.strip()]
        for system in systems:
            said, judged = row.get(f"answer_{system}"), row.get(f"judge_{system}")
            if golds and isinstance(said, str) and isinstance(judged, bool):
                label = "correct" if judged else NOT_CORRECT
                yield Labelled(
                    f"{place} {system}", question, _spec(golds, row), Response(text=said), label
                )
        return
    golds = row.get("answers") or row.get("answer") or row.get("target") or []
    golds = [str(g) for g in (golds if isinstance(golds, list) else [golds]) if str(g).strip()]
    text = row.get("response", row.get("predicted_answer"))
    given = (
        str(row.get("label") or row.get("human") or row.get("grade") or "")
        .strip()
        .lower()
        .replace(" ", "_")
    )
    first, _, second = given.partition("|")
    second = second or str(row.get("second") or "").strip().lower()
    labels = [_NAMED.get(name, "") for name in (first, second)]
    if golds and isinstance(text, str) and labels[0] and bool(second) == bool(labels[1]):
        response = Response(
            text=text,
            finish_reason=str(row.get("finish_reason", "")),
            error=str(row.get("error", "")),
        )
        yield Labelled(
            str(row.get("id", place)),
            question,
            _spec(golds, row),
            response,
            labels[0],
            labels[1],
            *about,
        )


def _spec(golds: Sequence[str], row: dict[str, Any]) -> AnswerSpec:
    return answer_spec(
        golds, str(row.get("answer_type") or "string"), lettered(row.get("choices") or {})
    )


def asked(items: Iterable[Labelled]) -> list[tuple[Ask, Response, AnswerSpec]]:
    """The answers as judges take them."""
    return [
        (
            Ask(
                id=one.id,
                sample=one.id,
                context="bench",
                scenario=Scenario.ORACLE,
                question=one.question,
                choices=one.answers.choices,
            ),
            one.response,
            one.answers,
        )
        for one in items
    ]


def agrees(said: str, label: str) -> bool:
    """Whether a verdict is what people say; a label that tells less agrees with all that it may mean."""
    return said == label or (label in _RULES_OUT and said != _RULES_OUT[label])


def bench(items: Sequence[Labelled], verdicts: Sequence[Verdict]) -> list[BenchRow]:
    """One row per part and language, and one of all.

    Args:
        items: labelled answers.
        verdicts: of the judge, in their order.
    """
    pairs = list(zip(items, verdicts, strict=True))
    parts, languages = {one.part for one in items} - {"all"}, {one.language for one in items} - {""}
    names = [*sorted(parts - languages), *sorted(languages), "all"]
    return [
        _row(name, [p for p in pairs if name in (p[0].part, p[0].language, "all")])
        for name in names
    ]


def _row(part: str, pairs: list[tuple[Labelled, Verdict]]) -> BenchRow:
    graded = [(one.label, str(v.outcome.value)) for one, v in pairs if v.outcome is not None]
    usable = sum(v.status is not Status.FAILED for _, v in pairs)
    outcomes = [o.value for o in Outcome]
    precision = {
        o: Share(
            sum(agrees(said, label) for label, said in graded if said == o),
            sum(s == o for _, s in graded),
        )
        for o in outcomes
    }
    given = Counter(one.label for one, _ in pairs)
    recall = {
        o: Share(sum(label == o and agrees(said, label) for label, said in graded), given[o])
        for o in (*outcomes, NOT_CORRECT)
        if given[o]
    }
    two_way = any(label == NOT_CORRECT for label, _ in graded)
    labels = (
        [one.label for one, _ in pairs] if ANSWERED in given else [label for label, _ in graded]
    )
    chance = {
        o: (sum(agrees(o, label) for label in labels) / len(labels), precision[o].n / len(pairs))
        for o in outcomes
        if precision[o].n
    }
    people = [(one.label, one.second) for one, _ in pairs if one.second]
    value, ends = _kappa(graded, two_way)
    return BenchRow(
        part,
        len(pairs),
        Share(len(graded), usable),
        precision,
        recall,
        value,
        ends,
        cohen(*zip(*people, strict=True)).kappa if people else None,
        chance,
    )


def _kappa(
    graded: list[tuple[str, str]], two_way: bool
) -> tuple[float | None, tuple[float, float] | None]:
    """Kappa, and the middle 95 % of it over 400 resamples; None where people told only whether a reply declines."""
    if not graded or any(label == ANSWERED for label, _ in graded):
        return None, None
    if two_way:
        sides = {"correct": "correct"}
        graded = [(sides.get(a, NOT_CORRECT), sides.get(b, NOT_CORRECT)) for a, b in graded]
    value = cohen(*zip(*graded, strict=True)).kappa
    dice = random.Random(7)
    again = (
        cohen(*zip(*dice.choices(graded, k=len(graded)), strict=True)).kappa for _ in range(400)
    )
    drawn = sorted(k for k in again if k is not None)
    return value, (drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn)) - 1]) if len(
        drawn
    ) > 40 else None


class RuleShare(NamedTuple):
    """How often one rule of a judge is right."""

    outcome: str
    kind: str
    share: Share


def by_rule(items: Sequence[Labelled], verdicts: Sequence[Verdict]) -> list[RuleShare]:
    """The precision of each rule that graded something, by outcome, then most used first."""
    said: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    for one, verdict in zip(items, verdicts, strict=True):
        if verdict.outcome is not None:
            key = verdict.outcome.value, verdict.kind or "-"
            said[key] += 1
            right[key] += agrees(verdict.outcome.value, one.label)
    order = sorted(said, key=lambda key: (key[0], -said[key], key[1]))
    return [RuleShare(*key, Share(right[key], said[key])) for key in order]


def measured_rules() -> dict[tuple[str, str], Share]:
    """(outcome, kind) of the judge `rules` -> how often it was right, on labelled replies that nothing was tuned on
    (``tools/measure_rules.py``).
    """
    return {
        (outcome, kind): Share(hits, n) for outcome, kind, hits, n in read_json(MEASURED)["rules"]
    }


def as_dict(rows: Sequence[BenchRow], rules: Sequence[RuleShare]) -> dict[str, Any]:
    """Rows and rules for JSON."""

    def share(s: Share) -> dict[str, Any]:
        return {"value": s.value, "hits": s.hits, "n": s.n, "ends": s.ends}

    def shares(by_label: dict[str, Share]) -> dict[str, Any]:
        return {label: share(s) for label, s in by_label.items()}

    return {
        "rows": [
            r._asdict()
            | {
                "coverage": share(r.coverage),
                "precision": shares(r.precision),
                "recall": shares(r.recall),
            }
            for r in rows
        ],
        "rules": [{"outcome": r.outcome, "kind": r.kind, **share(r.share)} for r in rules],
    }
