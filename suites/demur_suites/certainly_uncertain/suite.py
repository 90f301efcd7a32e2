"""CertainlyUncertain as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.records import Response, Sample
from demur.core.store import Problems
from demur.models.run import run_sync
from demur_suites.base import Suite
from demur_suites.certainly_uncertain import tables
from demur_suites.certainly_uncertain.audit import PUBLISHED
from demur_suites.certainly_uncertain.build import OPTIONS as BUILD_OPTIONS
from demur_suites.certainly_uncertain.build import build
from demur_suites.certainly_uncertain.hub_rows import hub_files, read_hub
from demur_suites.certainly_uncertain.items import Pair, questions, read
from demur_suites.certainly_uncertain.judging import Evaluator, first_stages
from demur_suites.certainly_uncertain.measures import BINS, FOLDS, Reading, Score, graded_of, score
from demur_suites.certainly_uncertain.train import OPTIONS as EXPORT_OPTIONS
from demur_suites.certainly_uncertain.train import export
from demur_suites.options import LEDGER, Option
from demur_suites.records import Grade, Grader, Loaded, Outputs, Scored
from demur_suites.scoring import score_models

if TYPE_CHECKING:
    from demur.reports.svg import Panel
    from demur.reports.tables import Table
    from demur_suites.gallery import Card


class CertainlyUncertain(Suite[Pair, Score]):
    """The suite; see `demur_suites.base.Suite`."""

    name = "certainly_uncertain"
    title = "CertainlyUncertain: pairs of an answerable and an unanswerable question"
    about = (
        "Does a model know what it cannot know? Pairs differ in the photo or in the question, and one member alone can "
        "be answered; five kinds of uncertainty. Answer, declining and confidence are scored together."
    )
    needs_images = (
        "name the photos in its lines (image, idk_image), or only score outputs made elsewhere"
    )
    published_tables = PUBLISHED
    build_options = BUILD_OPTIONS
    export_options = EXPORT_OPTIONS
    options = (
        Option(
            "judge",
            "of answers: rules, lave:MODEL, or any other judge; lave:MODEL also says who declines",
            "local",
            grades=True,
        ),
        LEDGER,
        Option(
            "evaluators", "further judges of who declines, for Table 8: lave:MODEL lave:MODEL", ""
        ),
        Option("bins", "of ECE and the reliability figure", BINS, least=2, most=100),
        Option("folds", "of the cross-validated thresholds", FOLDS, least=2, most=100),
    )

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """A set from the sample's photos, scenes, GQA or captions; see `demur_suites.certainly_uncertain.build`."""
        return build(out, options, seed=seed)

    def write_export(
        self,
        loaded: Loaded[Pair],
        out: Path,
        outputs: Outputs,
        seed: int,
        options: Mapping[str, Any],
    ) -> Path:
        """Training data; see `demur_suites.certainly_uncertain.train`."""

        def read(model: str) -> dict[str, Reading]:
            how = {"judge": options["judge"], "ledger": str(out / "calls.sqlite")}
            [(_, scored, _)] = score_models(self, loaded.items, outputs, models=model, **how)
            return {s.question.id: s.grade.reading for s in scored if s.grade and s.grade.reading}

        return export(loaded.items, loaded.root, out, outputs, options, read)

    def load(self, path: Path, problems: Problems) -> Loaded[Pair]:
        """A ``pairs.jsonl``, a file of the published rows, or a folder that holds either."""
        return read_hub(path, problems) if hub_files(path) else read(path, problems)

    def questions(self, items: Sequence[Pair]) -> Iterator[Sample]:
        """Two a pair, and its control where it has one; the pair is their cluster."""
        return questions(items)

    def part(self, question: Sample) -> str:
        """Controls are in no headline figure."""
        return "control" if question.id.endswith("/control") else ""

    @asynccontextmanager
    async def grading(self, items: Sequence[Pair], **options: Any) -> AsyncIterator[Grader]:
        """Both stages of LAVE-idk; see `judging`."""
        async with Evaluator(options["judge"], ledger_of(options)) as evaluator:

            async def grade(response: Response, question: Sample) -> Grade:
                return await evaluator.grade(response, question)

            yield grade

    def score(
        self, model: str, items: Sequence[Pair], scored: Sequence[Scored], **options: Any
    ) -> Score:
        """All measures of LAVE-idk and P(pred); see `measures.score`."""
        judges = [options["judge"], *options["evaluators"].split()]
        result = score(
            model, options["judge"], graded_of(scored), bins=options["bins"], k=options["folds"]
        )
        stages = run_sync(first_stages(judges, items, ledger_of(options)))
        return result._replace(evaluators=stages)

    def tables(self, scores: Sequence[Score], items: Sequence[Pair]) -> list[Table]:
        """Tables 3, 4, 6 to 8, thresholding, calibration, pairs, and what became of every question."""
        return tables.score_tables(scores)

    def statistics(self, items: Sequence[Pair]) -> list[Table]:
        """Pairs by category, like Table 1."""
        return [tables.statistics_table(items)]

    def figures(self, scores: Sequence[Score], items: Sequence[Pair]) -> list[Panel]:
        """Reliability, and what goes with confidence-weighted accuracy."""
        return tables.figures(scores)

    def cards(
        self, items: Sequence[Pair], root: Path, scored: Mapping[str, Mapping[str, Scored]]
    ) -> Iterator[Card]:
        """One a pair: original, mask, filled photo, control, both questions."""
        return tables.cards(items, root, scored)


def ledger_of(options: Mapping[str, Any]) -> Path | None:
    """Where a model judge's replies are kept; None keeps nothing."""
    return Path(options["ledger"]) if options["ledger"] else None
