"""VB as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Outcome, Response, Sample, Status
from demur.core.store import Problems
from demur_suites.base import Suite
from demur_suites.options import Option
from demur_suites.records import Grade, Grader, Loaded, Scored
from demur_suites.vb import tables
from demur_suites.vb.audit import PUBLISHED
from demur_suites.vb.items import CELLS, Cell, Family, Label, read
from demur_suites.vb.measures import ALPHA, Score, score
from demur_suites.vb.replies import UNGRADED, Reply, reply_of

if TYPE_CHECKING:
    from demur.evaluation.run_folder import Task
    from demur.reports.tables import Table
    from demur_suites.gallery import Card


NO_QUESTION = "(the set holds no questions)"
"""Of a family that can be scored and not asked about."""


class VB(Suite[Family, Score]):
    """The suite; see `demur_suites.base.Suite`."""

    name = "vb"
    title = "VB: visibility families"
    about = (
        "Does a model know what a photo shows and what it does not? Each family crosses a minimal edit of the photo "
        "with a minimal edit of the question; a claim is VISIBLY_TRUE, VISIBLY_FALSE, or the model abstains."
    )
    needs_images = "put the photos beside the file (or into Images/ there), or only score the outputs that it holds"
    published_tables = PUBLISHED
    options = (
        Option(
            "mode",
            "measured, or paper: as the printed tables were made",
            "measured",
            ("measured", "paper"),
        ),
        Option(
            "parser",
            "strict: the whole reply is the JSON; lenient: the last object inside it",
            "strict",
            ("strict", "lenient"),
            grades=True,
        ),
        Option("alpha", "credit of an abstention in CAA, 0 to 1", ALPHA, least=0, most=1),
        Option(
            "resamples",
            "bootstrap resamples of families for the intervals; 0 for none",
            1000,
            least=0,
        ),
        Option("seed", "of the resamples", 0, least=0),
    )

    def load(self, path: Path, problems: Problems) -> Loaded[Family]:
        """A sheet (.csv), a ``families.jsonl``, or a folder that holds either."""
        return read(path, problems)

    def questions(self, items: Sequence[Family]) -> Iterator[Sample]:
        """Four a family, one a cell; the family is their cluster."""
        for family in items:
            for place, cell in enumerate(CELLS):
                image = family.image(cell)
                yield Sample(
                    id=family.cell_id(cell),
                    source=self.name,
                    question=family.question(cell) or NO_QUESTION,
                    answers=AnswerSpec(accepted=((family.gold[place].value,),), rule="suite"),
                    images=(image,) if image is not None else (),
                    answerable=family.gold[place] is not Label.ABSTAIN,
                    topic=family.category.value,
                    attributes={"gold": "" if family.strict else "with ABSTAIN"},
                    cluster=family.id,
                    licence=family.licence,
                    source_ref=family.source_ref,
                )

    def check_images(self, path: Path, tasks: Sequence[Task]) -> None:
        """Check that families have questions and photos."""
        for task in tasks:
            if task.sample.question == NO_QUESTION:
                raise UsageError(
                    "its question is not in the sheet",
                    item=f"{path} ({task.sample.cluster})",
                    cure="add the columns base_question and flip_question, or only score the outputs",
                )
        super().check_images(path, tasks)

    def part(self, question: Sample) -> str:
        """Double flips and families with an ABSTAIN label are in no headline figure."""
        if question.id.endswith(f"/{Cell.DOUBLE_FLIP}"):
            return "double flip"
        return question.attributes["gold"]

    @asynccontextmanager
    async def grading(self, items: Sequence[Family], **options: Any) -> AsyncIterator[Grader]:
        """Right, wrong or deflected by the label; a reply without a label is no usable answer."""

        async def grade(response: Response, question: Sample) -> Grade:
            reply = reply_of(response, options["parser"])
            if reply.label is None:
                return Grade(Status.FAILED, None, f"{reply.problem}: {reply.detail}", reply)
            if reply.label is Label.ABSTAIN:
                why = f"ABSTAIN {reply.reason_code}".strip()
                return Grade(Status.GRADED, Outcome.DEFLECTED, why, reply)
            right = reply.label.value == question.answers.accepted[0][0]
            outcome = Outcome.CORRECT if right else Outcome.INCORRECT
            return Grade(Status.GRADED, outcome, reply.label.value, reply)

        yield grade

    def score(
        self, model: str, items: Sequence[Family], scored: Sequence[Scored], **options: Any
    ) -> Score:
        """See `demur_suites.vb.measures.score`."""
        replies: dict[str, Reply] = {
            s.question.id: s.grade.reading or UNGRADED for s in scored if s.grade is not None
        }
        return score(model, items, replies, **options)

    def tables(self, scores: Sequence[Score], items: Sequence[Family]) -> list[Table]:
        """Headline, selective prediction, double flips, replies, reason codes, categories, ABSTAIN, sensitivity."""
        return tables.score_tables(scores)

    def statistics(self, items: Sequence[Family]) -> list[Table]:
        """Families by category, like Table 1."""
        return [tables.statistics_table(items)]

    def cards(
        self, items: Sequence[Family], root: Path, scored: Mapping[str, Mapping[str, Scored]]
    ) -> Iterator[Card]:
        """One a family, its four cells side by side."""
        return tables.cards(items, root, scored)

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """48 families from the sample corpus; see `demur_suites.vb.build`."""
        from demur_suites.vb.build import build

        return build(out, seed=seed)
