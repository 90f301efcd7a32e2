"""VB as a suite: how its five places fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import UsageError
from demur.core.records import AnswerSpec, Outcome, Response, Sample, Status
from demur.core.store import Problems
from demur_suites.base import Loaded, Option, Outputs, Suite
from demur_suites.vb import tables
from demur_suites.vb.audit import COLUMNS, audit
from demur_suites.vb.items import CELLS, Family, Label, read
from demur_suites.vb.measures import ALPHA, Score, score
from demur_suites.vb.replies import read_reply, reply_of

if TYPE_CHECKING:
    from demur.evaluation.run_folder import Task
    from demur.reports.tables import Table
    from demur_suites.gallery import Card
    from demur_suites.published import Finding, PublishedRow


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
    audit_columns = COLUMNS
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

    def verdict(
        self, response: Response, answers: AnswerSpec
    ) -> tuple[Status, Outcome | None, str]:
        """Right, wrong or deflected by the strict label; a reply without a label is no usable answer."""
        reply = read_reply(response.text)
        if reply.label is None:
            return Status.FAILED, None, f"{reply.problem}: {reply.detail}"
        if reply.label is Label.ABSTAIN:
            return Status.GRADED, Outcome.DEFLECTED, f"ABSTAIN {reply.reason_code}".strip()
        right = reply.label.value == answers.accepted[0][0]
        return Status.GRADED, Outcome.CORRECT if right else Outcome.INCORRECT, reply.label.value

    def score(
        self, model: str, items: Sequence[Family], outputs: Mapping[str, Response], **options: Any
    ) -> Score:
        """See `demur_suites.vb.measures.score`."""
        replies = {id: reply_of(response, options["parser"]) for id, response in outputs.items()}
        return score(model, items, replies, **options)

    def tables(self, scores: Sequence[Score], items: Sequence[Family]) -> list[Table]:
        """Headline, selective prediction, double flips, replies, reason codes, categories, ABSTAIN, sensitivity."""
        return tables.score_tables(scores)

    def statistics(self, items: Sequence[Family]) -> list[Table]:
        """Families by category, like Table 1."""
        return [tables.statistics_table(items)]

    def cards(
        self, items: Sequence[Family], root: Path, outputs: Outputs, **options: Any
    ) -> Iterator[Card]:
        """One a family, its four cells side by side."""
        return tables.cards(items, root, outputs, options["parser"])

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """48 families from the sample corpus; see `demur_suites.vb.build`."""
        from demur_suites.vb.build import build

        return build(out, seed=seed)

    def audit(self, rows: Sequence[PublishedRow]) -> list[Finding]:
        """See `demur_suites.vb.audit`."""
        return audit(rows)
