"""MM-AQA as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.records import Sample
from demur.core.store import Problems
from demur.scenarios.conditions import Condition
from demur_suites.base import Suite
from demur_suites.mm_aqa import tables
from demur_suites.mm_aqa.audit import PUBLISHED
from demur_suites.mm_aqa.build.decisions import read_decisions
from demur_suites.mm_aqa.build.people import sample
from demur_suites.mm_aqa.conditions import CONDITIONS, FILES, chosen, question_id
from demur_suites.mm_aqa.items import Item, read
from demur_suites.mm_aqa.scoring import DECIDING, Score, grading, score
from demur_suites.options import LEDGER, Option
from demur_suites.records import Grader, Loaded, Outputs, Scored

if TYPE_CHECKING:
    from demur.reports.tables import Table
    from demur_suites.gallery import Card

UNANSWERABLE = "mm_aqa:unanswerable"
"""The rule of an answer spec whose question has lost its answer."""


class MMAQA(Suite[Item, Score]):
    """The suite; see `demur_suites.base.Suite`.

    Args:
        conditions: of the questions, joined by commas (``mm_aqa:base,cot+exabs``); all when empty.
    """

    name = "mm_aqa"
    title = "MM-AQA: unanswerable by design"
    about = (
        "Does a system abstain when a picture, page or question has lost what its answer needs? Answerable questions "
        "stand beside twins that one of 22 known changes made unanswerable; a system is asked under three conditions "
        "and two abstention clauses."
    )
    needs_images = "build the set with its pages"
    options = (
        Option(
            "tau",
            "vconf: a stated confidence of at most this counts as an abstention, 0 to 5",
            3,
            least=0,
            most=5,
            grades=True,
        ),
        Option(
            "parser",
            "strict: replies must follow the output schema; lenient: one without labels is the answer",
            "strict",
            ("strict", "lenient"),
            grades=True,
        ),
        Option(
            "abstain",
            "how to recognise an abstention: by demur's reader of final answers, or by phrases anywhere "
            "in them, as the paper does",
            "reader",
            ("reader", "substring"),
            grades=True,
        ),
        Option("judge", "who grades answers to answerable questions", "local", grades=True),
        LEDGER,
        Option(
            "grouping",
            "of transformations into categories: the paper's catalogue, or its appendix B",
            "catalogue",
            ("catalogue", "appendix-b"),
        ),
        Option(
            "diagnostic", "condition of table 4, UAC by category", "cot+exabs", tuple(CONDITIONS)
        ),
        Option("seed", "of the folds for cross-validated thresholds", 0, least=0),
    )

    build_options = (
        Option(
            "pool",
            "answerable questions: SOURCE=FOLDER, or a release; without it the sample corpus",
            "",
        ),
        Option("pairs", "most pairs to make", 300, least=1),
        Option(
            "rewriter",
            "model that rewrites questions and classifies image dependency; without it only "
            "transformations that need no model",
            "",
        ),
        Option(
            "verifier", "model that checks each twin: one that it can still answer is replaced", ""
        ),
        Option("panel", "two models, joined by a comma: both must call a twin unanswerable", ""),
        Option(
            "meaning",
            "sentence encoder that checks that a rewritten question means something else, or 'words'; "
            "by default the offline encoder, where it is installed",
            "",
        ),
        Option(
            "ocr",
            "no: do not read words off images (the words of pages drawn here are known)",
            "yes",
            ("yes", "no"),
        ),
        Option("plan", "make no calls, write plan.json with their estimated cost", False),
        Option(
            "concurrency",
            "pairs made at once, and calls in flight at each model",
            8,
            least=1,
            most=64,
        ),
        Option("budget", "US dollars that the models may cost; 0: no limit", 0.0, least=0),
    )

    export_options = (
        Option("people", "twins of each subset in a blind sample for people", 200, least=1),
    )
    published_tables = PUBLISHED
    prompt_files = FILES

    def __init__(self, conditions: str = "") -> None:
        self.conditions = chosen(conditions)

    def load(self, path: Path, problems: Problems) -> Loaded[Item]:
        """``items.jsonl`` or its folder."""
        return read(path, problems)

    def questions(self, items: Sequence[Item]) -> Iterator[Sample]:
        """An item under each condition; item and twins are one cluster."""
        for item in items:
            rule = item.answers.rule if item.answerable else UNANSWERABLE
            for condition in self.conditions:
                yield Sample(
                    id=question_id(item.id, condition),
                    source=self.name,
                    question=item.question,
                    answers=item.answers.model_copy(update={"rule": rule}),
                    images=item.images,
                    answerable=item.answerable,
                    topic=item.topic,
                    cluster=item.pair,
                    attributes={"transform": item.transform, "subset": item.subset},
                    licence=item.licence,
                    source_ref=item.source_ref,
                )

    def condition(self, sample: Sample) -> Condition:
        """The one that its id names."""
        return CONDITIONS[sample.id.rpartition("@")[2]]

    def needs_image(self, sample: Sample) -> bool:
        """Questions about documents need their pages."""
        return sample.attributes["subset"] == "documents"

    def scored_questions(self, items: Sequence[Item]) -> Iterator[Sample]:
        """Under all conditions: outputs under those that this object does not ask are scored too."""
        return type(self)().questions(items)

    def grading(self, items: Sequence[Item], **options: Any) -> AbstractAsyncContextManager[Grader]:
        """See `demur_suites.mm_aqa.scoring.grading`."""
        return grading(items, **{name: options[name] for name in DECIDING})

    def score(
        self, model: str, items: Sequence[Item], scored: Sequence[Scored], **options: Any
    ) -> Score:
        """See `demur_suites.mm_aqa.scoring.score`."""
        return score(
            model,
            items,
            {s.question.id: s for s in scored},
            **{name: options[name] for name in ("tau", "grouping", "diagnostic", "seed")},
        )

    def tables(self, scores: Sequence[Score], items: Sequence[Item]) -> list[Table]:
        """Tables 1 to 4, 7 and 8 of the paper over these models, and replies outside the matrix."""
        return tables.score_tables(scores)

    def statistics(self, items: Sequence[Item]) -> list[Table]:
        """Items by subset and transformation (table 5, figure 2), and kinds of questions (table 6)."""
        return tables.statistics(items)

    def cards(
        self, items: Sequence[Item], root: Path, scored: Mapping[str, Mapping[str, Scored]]
    ) -> Iterator[Card]:
        """One a pair: the item, and its twins below it."""
        return tables.cards(items, root, scored)

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """A set from the sample corpus, a source's folder or a release; see `demur_suites.mm_aqa.build`."""
        from demur_suites.mm_aqa.build.make import Options, build

        return build(out, seed, Options(**options))

    def write_export(
        self,
        loaded: Loaded[Item],
        out: Path,
        outputs: Outputs,
        seed: int,
        options: Mapping[str, Any],
    ) -> Path:
        """A blind sample for people to label, and a table of their labels; see `demur_suites.mm_aqa.build.people`."""
        decisions = [*read_decisions(loaded.root).values()]
        return sample(loaded.items, decisions, loaded.root, out, options["people"], seed)
