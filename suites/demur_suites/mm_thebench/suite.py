"""MM-THEBench as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import UsageError
from demur.core.records import Outcome, Response, Sample, Status
from demur.core.store import Problems
from demur.judge.base import JudgeContext
from demur.models import Budget
from demur_suites.base import Suite
from demur_suites.mm_thebench import tables
from demur_suites.mm_thebench.audit import PUBLISHED
from demur_suites.mm_thebench.build import build
from demur_suites.mm_thebench.items import Item, read
from demur_suites.mm_thebench.judging import ROOM, ChainJudge, judge_by_rules
from demur_suites.mm_thebench.measures import Judged, Level, Score, score
from demur_suites.mm_thebench.meta_evaluation import meta_task
from demur_suites.options import LEDGER, Option
from demur_suites.records import Grade, Grader, Loaded, Outputs, Scored
from demur_suites.scoring import score_models

if TYPE_CHECKING:
    from demur.evaluation.run_folder import Task
    from demur.reports.svg import Panel
    from demur.reports.tables import Table
    from demur_suites.gallery import Card

BOX = "Give the place as a box in pixels: [y1, x1, y2, x2]."


class MMTheBench(Suite[Item, Score]):
    """The suite; see `demur_suites.base.Suite`."""

    name = "mm_thebench"
    title = "MM-THEBench: thinking hallucination"
    about = (
        "Is the reasoning real, or only the answer? Chains of thought are judged at three levels: the answer, the "
        "steps against reviewed reference steps, and a rubric that tells what is made up."
    )
    published_tables = PUBLISHED
    options = (
        Option(
            "judge",
            "model that judges chains (openai/gpt-4o, http://host:8000/v1#name); without it rules grade "
            "the answers",
            "",
            grades=True,
        ),
        LEDGER,
        Option(
            "judge_prompts",
            "folder of judge prompts in place of ours: answer.md, segment.md, match.md, rubric.md",
            "",
            grades=True,
        ),
        Option(
            "room",
            "tokens a judge may think before each reply (one that reasons at length: 32768)",
            ROOM,
            least=0,
            grades=True,
        ),
        Option("concurrency", "calls to the judge at once", 8, least=1),
        Option("budget", "US dollars that the judge may cost; 0 for no bound", 0.0, least=0),
        Option("partial", "credit of a PARTIAL step match, 0 to 1", 0.0, least=0, most=1),
        Option(
            "resamples",
            "bootstrap resamples of questions for the intervals; 0 for none",
            1000,
            least=0,
        ),
        Option("seed", "of the resamples", 0, least=0),
    )

    build_options = (
        Option("items", "your own items, a file or folder; without it the Atlas items", ""),
        Option(
            "drafter",
            "model that writes the steps and rubrics that items lack; it sees the pictures unless "
            "MODEL?images=no",
            "",
        ),
        Option(
            "ledger", "file that keeps the drafter's paid replies (default: OUT/calls.sqlite)", ""
        ),
        Option("concurrency", "calls to the drafter at once", 8, least=1),
        Option("budget", "US dollars that the drafter may cost; 0: no limit", 0.0, least=0),
    )
    export_options = (
        Option("judge", "judge whose decisions people look at", ""),
        Option("of", "which decisions", "steps", ("steps", "answers", "rubric")),
        Option("n", "decisions to draw", 300, least=1),
        *(
            o
            for o in options
            if o.name in ("ledger", "judge_prompts", "room", "concurrency", "budget")
        ),
    )

    def load(self, path: Path, problems: Problems) -> Loaded[Item]:
        """An ``items.jsonl``, or the folder that holds it."""
        return read(path, problems)

    def questions(self, items: Sequence[Item]) -> Iterator[Sample]:
        """One an item, videos as frames where they can be read."""
        for item in items:
            yield Sample(
                id=item.id,
                source=self.name,
                topic=item.source,
                cluster=item.id,
                licence=item.licence,
                question=f"{item.question}\n{BOX}" if item.format == "grounding" else item.question,
                answers=item.spec,
                images=item.pictures,
                source_ref=item.source_ref,
                attributes={"part": "too complex"} if item.too_complex else {},
            )

    def check_images(self, path: Path, tasks: Sequence[Task]) -> None:
        """Check that frames were sampled of all videos."""
        items = {i.id: i for i in self.open(path, skip_bad=True).items}
        bare = [
            t.sample.id
            for t in tasks
            if items[t.sample.id].video is not None and not t.sample.images
        ]
        if bare:
            raise UsageError(
                f"videos without frames: {len(bare)}, the first is {bare[0]}",
                item=str(path),
                cure="sample frames: demur suite build mm_thebench --items ITEMS --out DIR (extra 'video')",
            )

    def part(self, question: Sample) -> str:
        """Items that are too complex are in no figure."""
        return question.attributes.get("part", "")

    @asynccontextmanager
    async def grading(self, items: Sequence[Item], **options: Any) -> AsyncIterator[Grader]:
        """By the judge of the options, at three levels; without one, answers by rules."""
        judge = judge_of(options)
        of_id = {item.id: item for item in items}

        async def grade(response: Response, question: Sample) -> Grade:
            item = of_id[question.id]
            judged = (
                judge_by_rules(item, response)
                if judge is None or item.too_complex
                else await judge.judge(item, response)
            )
            return Grade(*verdict_of(judged), judged.why, judged)

        try:
            yield grade
        finally:
            if judge is not None:
                await judge.close()

    def score(
        self, model: str, items: Sequence[Item], scored: Sequence[Scored], **options: Any
    ) -> Score:
        """See `demur_suites.mm_thebench.measures.score`."""
        return score(
            model,
            items,
            {s.question.id: s.grade.reading for s in scored if s.grade and s.grade.reading},
            judge=options["judge"] or "local",
            **{k: options[k] for k in ("partial", "resamples", "seed")},
        )

    def tables(self, scores: Sequence[Score], items: Sequence[Item]) -> list[Table]:
        """Tables 2, 3, 7, 9 and 4, and the numbers of figures 3 and 4."""
        return tables.score_tables(scores)

    def figures(self, scores: Sequence[Score], items: Sequence[Item]) -> list[Panel]:
        """Figures 3, 4 and 5."""
        return tables.figures(scores)

    def statistics(self, items: Sequence[Item]) -> list[Table]:
        """Its composition, steps and rubric, like Tables 1, 5 and 6."""
        return tables.statistics_tables(items)

    def cards(
        self, items: Sequence[Item], root: Path, scored: Mapping[str, Mapping[str, Scored]]
    ) -> Iterator[Card]:
        """One an item, each chain beside the reference steps."""
        judged = [
            (model, {id: s.grade.reading for id, s in of.items() if s.grade and s.grade.reading})
            for model, of in scored.items()
        ]
        return tables.cards(items, root, judged)

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """See `demur_suites.mm_thebench.build`."""
        return build(out, **options)

    def write_export(
        self,
        loaded: Loaded[Item],
        out: Path,
        outputs: Outputs,
        seed: int,
        options: Mapping[str, Any],
    ) -> Path:
        """A labelling task of a judge's decisions; see `demur_suites.mm_thebench.meta_evaluation`.

        Raises:
            UsageError: no judge is named.
        """
        if not options["judge"]:
            raise UsageError(
                "no judge is named", cure="name the judge that people check: --judge MODEL"
            )
        how = {name: value for name, value in options.items() if name not in ("of", "n")}
        results = score_models(self, loaded.items, outputs, resamples=0, **how)
        return meta_task(results, loaded.root, out, of=options["of"], n=options["n"], seed=seed)


def verdict_of(judged: Judged) -> tuple[Status, Outcome | None]:
    """The verdict of an answer level: a partial answer is incorrect, no answer is deflected."""
    if judged.failed:
        return Status.FAILED, None
    if judged.answer is None:
        return Status.UNJUDGED, None
    outcomes = {Level.MATCH: Outcome.CORRECT, Level.NO_ANSWER: Outcome.DEFLECTED}
    return Status.GRADED, outcomes.get(judged.answer, Outcome.INCORRECT)


def judge_of(options: Mapping[str, Any]) -> ChainJudge | None:
    """The judge of these options; None for rules."""
    if not options["judge"]:
        return None
    budget = (
        Budget(options["budget"], Path(options["ledger"]), "judge") if options["budget"] else None
    )
    context = JudgeContext(Path(options["ledger"]), options["concurrency"], budget)
    folder = Path(options["judge_prompts"]) if options["judge_prompts"] else None
    return ChainJudge(options["judge"].removeprefix("model:"), context, folder, options["room"])
