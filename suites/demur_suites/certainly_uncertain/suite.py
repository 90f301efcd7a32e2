"""CertainlyUncertain as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Outcome, Response, Sample, Status
from demur.core.store import Problems
from demur.core.thinking import visible
from demur.judge.local import LocalJudge
from demur.models.run import run_sync
from demur.scenarios.systems import SystemLike, split_name
from demur_suites.base import Loaded, Option, Outputs, Suite
from demur_suites.certainly_uncertain import tables
from demur_suites.certainly_uncertain.audit import PUBLISHED
from demur_suites.certainly_uncertain.build import OPTIONS as BUILD_OPTIONS
from demur_suites.certainly_uncertain.build import build
from demur_suites.certainly_uncertain.items import Pair, read
from demur_suites.certainly_uncertain.judging import Evaluator, FirstStage, first_stage, grade_all
from demur_suites.certainly_uncertain.measures import BINS, FOLDS, Graded, Others, Score, score
from demur_suites.certainly_uncertain.other_benchmarks import read_others, score_others
from demur_suites.certainly_uncertain.train import OPTIONS as EXPORT_OPTIONS
from demur_suites.certainly_uncertain.train import export
from demur_suites.certainly_uncertain.verify import verify_run
from demur_suites.grading import ask_of
from demur_suites.refusal import declines

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
        ),
        Option(
            "ledger", "file that keeps a model judge's replies, each paid for once", "calls.sqlite"
        ),
        Option(
            "others",
            "file of replies to other benchmarks, for Table 5 (JSONL; suites/docs/certainly_uncertain.md has its lines)",
            "",
        ),
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
        return export(loaded.items, loaded.root, out, outputs, options)

    def load(self, path: Path, problems: Problems) -> Loaded[Pair]:
        """A ``pairs.jsonl``, or a folder that holds one."""
        return read(path, problems)

    def questions(self, items: Sequence[Pair]) -> Iterator[Sample]:
        """Two a pair, and its control where it has one; the pair is their cluster."""
        for pair in items:
            for member in pair.members:
                question, answer, image = pair.member(member)
                yield Sample(
                    id=pair.question_id(member),
                    source=self.name,
                    question=question,
                    answers=AnswerSpec(accepted=((answer,),), rule="suite"),
                    images=(image,) if image is not None else (),
                    answerable=member != "unanswerable",
                    topic=pair.category.value,
                    cluster=pair.id,
                    licence=pair.licence,
                    source_ref=pair.source_ref,
                )

    def run(
        self,
        path: str | Path,
        systems: SystemLike | Sequence[SystemLike],
        out: str | Path,
        **given: Any,
    ) -> list[Path]:
        """`Suite.run`, then each model's P(pred) of its own answers (`verify`), in the same ledger.

        Of other systems the stated ``confidence`` counts.
        """
        folders = super().run(path, systems, out, **given)
        several = (
            list(systems)
            if isinstance(systems, Sequence) and not isinstance(systems, str)
            else [systems]
        )
        loaded = self.open(path, skip_bad=given.get("skip_bad", False))
        asked = {q.id: q for q in self.questions(loaded.items)}
        for one, folder in zip(several, folders, strict=True):
            _, spec = split_name(one)
            if isinstance(spec, str) and spec.startswith("model:"):
                verify_run(
                    folder,
                    spec.removeprefix("model:"),
                    asked,
                    loaded.root,
                    Path(out) / "calls.sqlite",
                    given,
                )
        return folders

    def verdict(
        self, response: Response, answers: AnswerSpec
    ) -> tuple[Status, Outcome | None, str]:
        """Deflected where the reply declines; else graded by rules where they can prove something (see `score`)."""
        if not visible(response.text).strip():
            return Status.FAILED, None, "no reply"
        if declines(response.text):
            return Status.GRADED, Outcome.DEFLECTED, "declines"
        if declines(answers.accepted[0][0]):
            return Status.GRADED, Outcome.INCORRECT, "answers what cannot be answered"
        verdict = LocalJudge().grade(ask_of("", ""), response, answers)
        return verdict.status, verdict.outcome, verdict.reason

    def scores(self, items: Sequence[Pair], outputs: Outputs, **given: Any) -> list[Score]:
        """`Suite.scores`; replies to other benchmarks by models without outputs here are an error."""
        if given.get("others"):
            strangers = sorted(set(read_others(Path(given["others"]))) - set(outputs))
            if strangers:
                raise UsageError(
                    f"holds replies of {', '.join(strangers)}, which have no outputs for the pairs",
                    item=given["others"],
                    cure=f"use the names that the outputs have: {', '.join(outputs)}",
                )
        return super().scores(items, outputs, **given)

    def score(
        self, model: str, items: Sequence[Pair], outputs: Mapping[str, Response], **given: Any
    ) -> Score:
        """LAVE-idk of every question by the judge, then all measures; see `measures.score`."""
        judge, ledger = given["judge"], Path(given["ledger"]) if given["ledger"] else None
        lines = read_others(Path(given["others"])).get(model, {}) if given["others"] else {}

        async def judged() -> tuple[list[Graded], dict[str, FirstStage], Others]:
            trials: dict[str, FirstStage] = {}
            async with Evaluator(judge, ledger) as evaluator:
                graded = await grade_all(evaluator, items, outputs)
                trials[judge] = await first_stage(evaluator, items)
                others = await score_others(lines, evaluator)
            for name in given["evaluators"].split():
                async with Evaluator(name, ledger) as evaluator:
                    trials[name] = await first_stage(evaluator, items)
            return graded, trials, others

        graded, trials, others = run_sync(judged())
        found = score(model, judge, graded, bins=given["bins"], k=given["folds"])
        return found._replace(evaluators=trials, others=others)

    def tables(self, scores: Sequence[Score], items: Sequence[Pair]) -> list[Table]:
        """Tables 3 to 8, thresholding, calibration, pairs, and what became of every question."""
        return tables.score_tables(scores)

    def statistics(self, items: Sequence[Pair]) -> list[Table]:
        """Pairs by category, like Table 1."""
        return [tables.statistics_table(items)]

    def figures(self, scores: Sequence[Score], items: Sequence[Pair]) -> list[Panel]:
        """Reliability, and what goes with confidence-weighted accuracy."""
        return tables.figures(scores)

    def cards(
        self, items: Sequence[Pair], root: Path, outputs: Outputs, **options: Any
    ) -> Iterator[Card]:
        """One a pair: original, mask, filled photo, control, both questions."""
        return tables.cards(items, root, outputs, self.verdict)
