"""The contract of a suite: what a benchmark that is not the four scenarios must say of itself.

A suite has five places, each in its own file:

    items.py     its records; how they are read and checked            -> `Contract.load`, `Contract.questions`
    build.py     how items are made, where they can be                 -> `Contract.make_items`
    prompts/     the words for a model (versioned files)               -> `Contract.prompts`
    measures.py  from graded replies to numbers                        -> `Contract.verdict`, `Contract.score`
    tables.py    plain tables and cards that `demur.reports` renders   -> `Contract.tables`, `Contract.cards`

``load`` and ``questions`` are enough. A suite is a subclass of `demur_suites.Suite` (`base`), which adds the doors to those
who know nothing of a suite: `running` asks systems, `scoring` grades their replies, `report` writes the page. `options` has
the options, `files` reads items and images, `outputs` reads replies, `plain` scores a suite without measures of its own.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from demur.core import plugins
from demur.core.errors import UsageError
from demur.core.records import Outcome, Response, Sample, Status
from demur.core.store import Problems, read_text
from demur.scenarios.conditions import Condition, Prompts
from demur_suites.options import Option, filled
from demur_suites.plain import plain_score, plain_table
from demur_suites.records import Grade, Grader, Loaded, Outputs, Scored

if TYPE_CHECKING:
    from demur.evaluation.run_folder import Task
    from demur.reports.svg import Panel
    from demur.reports.tables import Table
    from demur_suites.gallery import Card
    from demur_suites.published import PublishedTables

I = TypeVar("I")  # noqa: E741 - an item of a suite
S = TypeVar("S")
"""The score of one model."""

NO_CLAUSE = Condition("none")
"""Suites put what they say about abstaining into their own prompt."""


class Contract(ABC, Generic[I, S]):
    """What a suite says of itself, and how its items are opened."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What people call it."""
    about: ClassVar[str]
    """Two or three sentences: what it measures, where it comes from."""
    needs_images: ClassVar[str] = ""
    """Of a suite whose questions cannot be asked without images: what to do where they are missing."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Of the score."""
    build_options: ClassVar[tuple[Option, ...]] = ()
    """Of `build`."""
    prompt_files: ClassVar[Mapping[str, str]] = MappingProxyType({"ask": "ask.v1.md"})
    """Role of a text of `prompts` -> name of its file, also of a user's own."""
    export_options: ClassVar[tuple[Option, ...]] = ()
    """Of `export`."""
    published_tables: ClassVar[PublishedTables | None] = None
    """What its published tables look like and must obey, for `demur suite audit`."""

    # --- what a suite must say, and what it may --------------------------------------------------

    @abstractmethod
    def load(self, path: Path, problems: Problems) -> Loaded[I]:
        """Read items (a file or a folder); a bad one is a problem with its place, and is left out."""

    @abstractmethod
    def questions(self, items: Sequence[I]) -> Iterator[Sample]:
        """One sample a question: ``answers`` holds the right reply for `verdict`, ``cluster`` names the item that
        several questions share, ``answerable`` says whether an answer is expected.
        """

    def scored_questions(self, items: Sequence[I]) -> Iterator[Sample]:
        """The questions whose replies are scored, where that is more than this object asks."""
        return self.questions(items)

    def part(self, question: Sample) -> str:
        """What a question is for where it is in no headline figure (a control, a diagnostic); "" where it is."""
        return ""

    def condition(self, sample: Sample) -> Condition:
        """The condition of a question; without clauses by default."""
        return NO_CLAUSE

    def prompts(self) -> Prompts:
        """The ``prompt_files`` in the folder ``prompts`` beside the suite's file."""
        folder = Path(inspect.getfile(type(self))).with_name("prompts")
        return Prompts.of(
            {role: read_text(folder / name) for role, name in self.prompt_files.items()}
        )

    def needs_image(self, sample: Sample) -> bool:
        """Whether a question cannot be asked without an image."""
        return bool(self.needs_images)

    def check_images(self, path: Path, tasks: Sequence[Task]) -> None:
        """Check that the questions that need images have them.

        Raises:
            UsageError: some have none.
        """
        bare = dict.fromkeys(
            t.sample.cluster for t in tasks if not t.ask.images and self.needs_image(t.sample)
        )
        if bare:
            every = len({t.sample.cluster for t in tasks})
            raise UsageError(
                f"{len(bare):,} of {every:,} items lack an image that their questions need, the first is "
                f"{next(iter(bare))}",
                item=str(path),
                cure=self.needs_images,
            )

    def verdict(self, response: Response, question: Sample, **options: Any) -> Grade:
        """The grade of a reply that is no failed call; by default by the text of the right answer."""
        if not response.text.strip():
            return Grade(Status.FAILED, None, "no reply")
        right = {form[0].strip().casefold() for form in question.answers.accepted}
        hit = response.text.strip().rstrip(".").casefold() in right
        outcome = Outcome.CORRECT if hit else Outcome.INCORRECT
        return Grade(Status.GRADED, outcome, "compared with the accepted answers")

    def grading(self, items: Sequence[I], **options: Any) -> AbstractAsyncContextManager[Grader]:
        """Who grades replies to these items, one at a time or many at once; by default `verdict`.

        A suite that asks a judge opens it here, and closes it at the end. ``options`` are all of the score's.
        """

        @asynccontextmanager
        async def by_verdict() -> AsyncIterator[Grader]:
            async def grade(response: Response, question: Sample) -> Grade:
                if response.error:
                    return Grade(Status.FAILED, None, response.error)
                return self.verdict(response, question, **options)

            yield grade

        return by_verdict()

    def score(self, model: str, items: Sequence[I], scored: Sequence[Scored], **options: Any) -> S:
        """The score of one model from its graded replies, one for each question, in their order.

        ``options`` are all of the suite's, with their defaults. Unless you replace it, the `Plain` score: the share of
        right verdicts.
        """
        return plain_score(model, scored)  # type: ignore[return-value]  # S is Plain where this is kept

    def tables(self, scores: Sequence[S], items: Sequence[I]) -> list[Table]:
        """Tables of scores, the summary first, each rate with its n; by default of `Plain` scores."""
        return [plain_table(self.name, self.title, scores)]  # type: ignore[arg-type]

    def figures(self, scores: Sequence[S], items: Sequence[I]) -> list[Panel]:
        """Figures of scores for the page; none by default."""
        return []

    def statistics(self, items: Sequence[I]) -> list[Table]:
        """Tables that describe a set of items; none by default."""
        return []

    def cards(
        self, items: Sequence[I], root: Path, scored: Mapping[str, Mapping[str, Scored]]
    ) -> Iterator[Card]:
        """One card an item for the page; none by default.

        Args:
            items: of the suite.
            root: folder that image paths are relative to.
            scored: model -> question id -> its graded reply, of what was asked.
        """
        yield from ()

    def make_items(self, out: Path, seed: int, options: Mapping[str, Any]) -> Path:
        """`build`, with all of its ``build_options``: make a set in ``out``; returns the path that `load` takes."""
        raise UsageError(
            f"items of {self.name} cannot be made here",
            cure="give its own files to 'demur suite check'",
        )

    def write_export(
        self, loaded: Loaded[I], out: Path, outputs: Outputs, seed: int, options: Mapping[str, Any]
    ) -> Path:
        """`export` of a set that was read, with all of its ``export_options``; returns what it wrote."""
        raise UsageError(
            f"the suite {self.name} exports nothing", cure="its items are plain files already"
        )

    @property
    def errata(self) -> str:
        """Known errors of its paper's tables, as CSV: the file ``errata.csv`` beside the suite's; "" without one."""
        path = Path(inspect.getfile(type(self))).with_name("errata.csv")
        return read_text(path) if path.is_file() else ""

    # --- what all suites share -------------------------------------------------------------------

    @property
    def spelled(self) -> str:
        """How a command names the suite."""
        return plugins.spelled("suites", type(self), self.name)

    def open(self, path: str | Path, *, skip_bad: bool = False) -> Loaded[I]:
        """`load`, with all problems in one error.

        Raises:
            BadInput: problems, and ids that two questions have, unless ``skip_bad``.
            UsageError: there are no items.
        """
        problems = Problems()
        loaded = self.load(Path(path), problems)
        ids = [question.id for question in self.questions(loaded.items)]
        if len(set(ids)) < len(ids):
            loaded = loaded._replace(items=tuple(self._first_of_each_id(path, loaded, problems)))
        problems.settle(skip_bad=skip_bad)
        if not loaded.items:
            none = f"all {problems.skipped} items are bad" if problems.skipped else "holds no items"
            raise UsageError(none, item=str(path), cure=f"see 'demur suite show {self.spelled}'")
        return loaded._replace(skipped=problems.skipped)

    def _first_of_each_id(
        self, path: str | Path, loaded: Loaded[I], problems: Problems
    ) -> Iterator[I]:
        earlier: set[str] = set()
        for item in loaded.items:
            ids = [question.id for question in self.questions((item,))]
            if len(set(ids) - earlier) < len(ids):
                problems.add(
                    f"{path} ({ids[0]})",
                    "its id stands for more than one question; the first is kept",
                )
                continue
            earlier.update(ids)
            yield item

    def check_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A value for each option of the score; see `demur_suites.options.filled`."""
        return filled(self.name, self.options, values)
