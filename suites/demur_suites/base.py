"""The contract of a suite: what a benchmark that is not the four scenarios must say of itself.

A suite has five places, each in its own file:

    items.py     its records; how they are read and checked            -> `Suite.load`, `Suite.questions`
    build.py     how items are made, where they can be                 -> `Suite.make_items`
    prompts/     the words for a model (versioned files)               -> `Suite.prompts`
    measures.py  from graded replies to numbers                        -> `Suite.verdict`, `Suite.score`
    tables.py    plain tables and cards that `demur.reports` renders   -> `Suite.tables`, `Suite.cards`

``load`` and ``questions`` are enough. Beside this file: `running` asks systems, `scoring` grades their replies, `report`
writes the page, `options` has the options; they know nothing of a suite. `files` reads items and images, `outputs` reads
replies, `plain` scores a suite without measures of its own.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from demur.core import plugins
from demur.core.errors import UsageError
from demur.core.records import Outcome, Response, Sample, Status
from demur.core.store import Problems, read_text
from demur.scenarios.conditions import Condition, Prompts
from demur_suites.options import Option, filled
from demur_suites.plain import plain_score, plain_table

if TYPE_CHECKING:
    from demur.evaluation.options import RunOptions
    from demur.evaluation.run_folder import Task
    from demur.models import Estimate
    from demur.reports.svg import Panel
    from demur.reports.tables import Table
    from demur.scenarios.systems import SystemLike
    from demur_suites.gallery import Card
    from demur_suites.published import PublishedTables

I = TypeVar("I")  # noqa: E741 - an item of a suite
S = TypeVar("S")
"""The score of one model."""

Outputs = Mapping[str, Mapping[str, Response]]
"""Model -> question id -> reply."""
NO_CLAUSE = Condition("none")
"""Suites put what they say about abstaining into their own prompt."""


class Loaded(NamedTuple, Generic[I]):
    """What was read from a path.

    Attributes:
        items: the suite's records.
        root: folder that image paths are relative to.
        outputs: replies of models, where the same files hold them.
        notes: harmless peculiarities, with how often each occurs.
        skipped: bad items that were left out.
    """

    items: tuple[I, ...]
    root: Path
    outputs: Outputs = MappingProxyType({})
    notes: Mapping[str, int] = MappingProxyType({})
    skipped: int = 0


class Grade(NamedTuple):
    """What a suite says of one reply.

    Attributes:
        status: graded; failed of a reply that is none; unjudged where nobody could tell.
        outcome: of a graded reply.
        reason: how it was graded, or why not.
        reading: what the suite's measures need of the reply beside that (a label, a credit); any type.
    """

    status: Status
    outcome: Outcome | None
    reason: str
    reading: Any = None


class Scored(NamedTuple):
    """One question, what a system replied and how that was graded: tables, rows, comparisons and pages read these."""

    question: Sample
    response: Response | None = None
    grade: Grade | None = None
    """None of a question that was not asked, as is the response."""

    @property
    def right(self) -> bool:
        """Whether the reply is right: a correct answer, or declining where nothing answers the question."""
        wanted = Outcome.CORRECT if self.question.answerable else Outcome.DEFLECTED
        return self.grade is not None and self.grade.outcome is wanted


Grader = Callable[[Response, Sample], Awaitable[Grade]]


class Suite(ABC, Generic[I, S]):
    """The contract of a suite; subclass it, fill the abstract methods, register the class under ``demur.suites``."""

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

    @property
    def errata(self) -> str:
        """Known errors of its paper's tables, as CSV: the file ``errata.csv`` beside the suite's; "" without one."""
        path = Path(inspect.getfile(type(self))).with_name("errata.csv")
        return read_text(path) if path.is_file() else ""

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

    def finish_run(
        self, folder: Path, system: SystemLike, loaded: Loaded[I], options: RunOptions
    ) -> None:
        """What else a suite asks a system after its run, kept in the run's folder and ledger; nothing by default."""

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

    def build(self, out: str | Path, *, seed: int = 0, **options: Any) -> Path:
        """Make a set of items in ``out``; returns the path that `load` takes. ``options`` are its ``build_options``.

        Raises:
            UsageError: there is no such option, or items of this suite cannot be made without its authors' data.
        """
        return self.make_items(Path(out), seed, filled(self.name, self.build_options, options))

    def export(
        self,
        path: str | Path,
        out: str | Path,
        *,
        outputs: Outputs = MappingProxyType({}),
        seed: int = 0,
        skip_bad: bool = False,
        **options: Any,
    ) -> Path:
        """Write a set of items for another use (training data).

        Args:
            path: of the items.
            out: folder to write.
            outputs: replies of models, where an export needs them.
            seed: of random choices.
            skip_bad: leave bad items out.
            options: its ``export_options``.

        Raises:
            UsageError: there is no such option, or this suite exports nothing.
        """
        values = filled(self.name, self.export_options, options)
        return self.write_export(
            self.open(path, skip_bad=skip_bad), Path(out), outputs, seed, values
        )

    def tasks(
        self, items: Sequence[I], *, limit: int | None = None, prompts: Prompts | None = None
    ) -> list[Task]:
        """What a run asks; see `demur_suites.running.tasks_of`."""
        from demur_suites.running import tasks_of

        return tasks_of(self, items, limit=limit, prompts=prompts)

    def run(
        self,
        path: str | Path,
        systems: SystemLike | Sequence[SystemLike],
        out: str | Path,
        **how: Any,
    ) -> list[Path]:
        """Ask systems every question of a set of items; see `demur_suites.running.run`."""
        from demur_suites.running import run

        return run(self, path, systems, out, **how)

    def plan(
        self, path: str | Path, systems: str | Sequence[str], out: str | Path, **how: Any
    ) -> Estimate:
        """What `run` with the same arguments would cost; see `demur_suites.running.planned`."""
        from demur_suites.running import planned

        return planned(self, path, systems, out, **how)

    def scores(self, items: Sequence[I], outputs: Outputs, **how: Any) -> list[S]:
        """The score of each model; see `demur_suites.scoring.score_models`."""
        from demur_suites.scoring import score_models

        return [result.score for result in score_models(self, items, outputs, **how)]

    def report(self, path: str | Path, outputs: Outputs, out: str | Path, **how: Any) -> Path:
        """One HTML page: the tables, and a card for each item; see `demur_suites.report.write_report`."""
        from demur_suites.report import write_report

        return write_report(self, path, outputs, out, **how)


# --- by name ----------------------------------------------------------------------------------------


def suites() -> tuple[str, ...]:
    """Names of the registered suites; nothing is imported."""
    return plugins.names("suites")


def suite(name: str) -> Suite[Any, Any]:
    """The suite of a name, or ``module:Class``; text after a name and a colon is its argument (``mm_aqa:cot,base``).

    Raises:
        UnknownPart: no suite has that name; the error lists those that exist.
    """
    factory, argument = plugins.find("suites", name)
    try:
        made = factory(argument) if argument else factory()
    except TypeError as error:  # Python's words: no such argument, an abstract method is missing
        raise UsageError(f"cannot be made: {error}", item=name) from error
    if not isinstance(made, Suite):
        raise UsageError("is no suite", item=name, cure="name a subclass of demur_suites.Suite")
    return made
