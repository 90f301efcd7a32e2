"""The contract of a suite, and what all suites share: asking systems, scoring outputs, a page.

A suite has five places, each in its own file:

    items.py     its records; how they are read and checked            -> `Suite.load`, `Suite.statistics`
    build.py     how items are made, where they can be                 -> `Suite.make_items`
    prompts/     the words for a model (versioned files)              -> `Suite.prompts`
    measures.py  pure functions from outputs to numbers                -> `Suite.score`
    tables.py    plain tables and cards that `demur.reports` renders   -> `Suite.tables`, `Suite.cards`

The runner, the model calls and the judges know nothing of a suite. Beside this file: `files` reads items and images,
`outputs` reads replies, `plain` scores a suite without measures of its own, `published` audits printed tables.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from demur.core import plugins
from demur.core.code import code_digest
from demur.core.errors import UsageError, did_you_mean
from demur.core.progress import QUIET, Progress
from demur.core.records import (
    AnswerSpec,
    Ask,
    ContextSet,
    Outcome,
    Response,
    Sample,
    Scenario,
    Status,
    Verdict,
)
from demur.core.store import Problems, digest, read_text
from demur.core.uris import read_image
from demur.evaluation.asking import Opened, ask_opened
from demur.evaluation.options import RunOptions
from demur.evaluation.run_folder import Task
from demur.evaluation.runner import Plan
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import SystemContext, SystemLike, name_of
from demur_suites.plain import plain_score, plain_table

if TYPE_CHECKING:
    from demur.reports.svg import Panel
    from demur.reports.tables import Table
    from demur_suites.gallery import Card
    from demur_suites.published import PublishedTables

I = TypeVar("I")  # noqa: E741 - an item of a suite
S = TypeVar("S")
"""The score of one model."""

Outputs = Mapping[str, Mapping[str, Response]]
"""Model -> question id -> reply."""
NO_CLAUSE = Condition("none")
"""Suites put what they say about abstaining into their own prompt."""


class Option(NamedTuple):
    """One option of a suite: a flag of ``demur suite``, a keyword of `Suite.scores`, `Suite.build` or `Suite.export`.

    Attributes:
        name: of the keyword; the flag has dashes for underscores.
        help: one line.
        default: its type is the option's type (str, int, float; False: a flag).
        choices: allowed values; any when empty.
        least: lower bound of a number.
        most: upper bound of a number.
    """

    name: str
    help: str
    default: str | int | float
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    def check(self, value: Any) -> None:
        """Raise UsageError for a value that the option does not take."""
        if self.choices and value not in self.choices:
            raise UsageError(
                f"{self.name}={value!r}", cure=f"give one of {', '.join(self.choices)}"
            )
        if isinstance(self.default, str):
            return
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise UsageError(f"{self.name} is {value!r}", cure="give True or False")
            return
        types, kind = (
            (int, "a whole number") if isinstance(self.default, int) else ((int, float), "a number")
        )
        typed = isinstance(value, types) and not isinstance(value, bool)
        if not (typed and self.least <= value <= self.most):  # NaN lies between no bounds
            bounds = f" from {self.least:g}" * math.isfinite(
                self.least
            ) + f" to {self.most:g}" * math.isfinite(self.most)
            raise UsageError(f"{self.name} is {value}", cure=f"give {kind}{bounds}")


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

    # --- the five places -------------------------------------------------------------------------

    @abstractmethod
    def load(self, path: Path, problems: Problems) -> Loaded[I]:
        """Read items (a file or a folder); a bad one is a problem with its place, and is left out."""

    @abstractmethod
    def questions(self, items: Sequence[I]) -> Iterator[Sample]:
        """One sample a question: ``answers`` holds the right reply for `verdict`, ``cluster`` names the item that
        several questions share, ``answerable`` says whether an answer is expected.
        """

    def score(
        self, model: str, items: Sequence[I], outputs: Mapping[str, Response], **options: Any
    ) -> S:
        """The score of one model from its replies by question id; a question without a reply was not asked.

        ``options`` are all of the suite's, with their defaults. Unless you replace it, the `Plain` score: the share of
        right verdicts.
        """
        return plain_score(self.verdict, model, self.questions(items), outputs)  # type: ignore[return-value]  # S is Plain where this is kept

    def tables(self, scores: Sequence[S], items: Sequence[I]) -> list[Table]:
        """Tables of scores, each rate with its n; by default of `Plain` scores."""
        return [plain_table(self.name, self.title, scores)]  # type: ignore[arg-type]

    def figures(self, scores: Sequence[S], items: Sequence[I]) -> list[Panel]:
        """Figures of scores for the page; none by default."""
        return []

    def statistics(self, items: Sequence[I]) -> list[Table]:
        """Tables that describe a set of items; none by default."""
        return []

    @property
    def spelled(self) -> str:
        """How a command names the suite."""
        return plugins.spelled("suites", type(self), self.name)

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

    def prompts(self) -> Prompts:
        """The ``prompt_files`` in the folder ``prompts`` beside the suite's file."""
        folder = Path(inspect.getfile(type(self))).with_name("prompts")
        return Prompts.of(
            {role: read_text(folder / name) for role, name in self.prompt_files.items()}
        )

    def condition(self, sample: Sample) -> Condition:
        """The condition of a question; without clauses by default."""
        return NO_CLAUSE

    def verdict(
        self, response: Response, answers: AnswerSpec
    ) -> tuple[Status, Outcome | None, str]:
        """(status, outcome, reason) of one reply, for the rows of a run; by default by the text of the right answer."""
        if not response.text.strip():
            return Status.FAILED, None, "no reply"
        right = {form[0].strip().casefold() for form in answers.accepted}
        hit = response.text.strip().rstrip(".").casefold() in right
        return (
            Status.GRADED,
            Outcome.CORRECT if hit else Outcome.INCORRECT,
            "compared with the accepted answers",
        )

    def cards(
        self, items: Sequence[I], root: Path, outputs: Outputs, **options: Any
    ) -> Iterator[Card]:
        """One card an item for the page; none by default. ``options`` are all of the score's."""
        yield from ()

    @property
    def errata(self) -> str:
        """Known errors of its paper's tables, as CSV: the file ``errata.csv`` beside the suite's; "" without one."""
        path = Path(inspect.getfile(type(self))).with_name("errata.csv")
        return read_text(path) if path.is_file() else ""

    # --- what all suites share -------------------------------------------------------------------

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
            kept: list[I] = []
            had: set[str] = set()
            for item in loaded.items:
                own = [question.id for question in self.questions((item,))]
                if len(set(own) - had) < len(own):
                    problems.add(
                        f"{path} ({own[0]})",
                        "its id stands for more than one question; the first is kept",
                    )
                    continue
                kept.append(item)
                had.update(own)
            loaded = loaded._replace(items=tuple(kept))
        problems.settle(skip_bad=skip_bad)
        if not loaded.items:
            none = f"all {problems.skipped} items are bad" if problems.skipped else "holds no items"
            raise UsageError(none, item=str(path), cure=f"see 'demur suite show {self.spelled}'")
        return loaded._replace(skipped=problems.skipped)

    def tasks(
        self, items: Sequence[I], *, limit: int | None = None, prompts: Prompts | None = None
    ) -> list[Task]:
        """What a run asks, in the order of the items.

        Args:
            items: of the suite.
            limit: ask the questions of this many items (clusters), the first ones.
            prompts: in place of the suite's.
        """
        prompts = prompts or self.prompts()
        made: list[Task] = []
        clusters: set[str] = set()
        for sample in self.questions(items):
            cluster = sample.cluster or sample.id
            if limit is not None and cluster not in clusters and len(clusters) >= limit:
                continue
            clusters.add(cluster)
            context = ContextSet(
                id=digest([self.name, sample.id], 16),
                sample=sample.id,
                scenario=Scenario.PARAMETRIC,
                evidence=(),
                expected="answer" if sample.answerable else "deflect",
                k_asked=0,
                k_used=0,
                recipe=f"suite({self.name})",
                seed=0,
            )
            made.append(
                Task(sample, context, make_ask(sample, context, self.condition(sample), prompts))
            )
        return made

    def check_options(
        self, given: Mapping[str, Any], of: tuple[Option, ...] | None = None
    ) -> dict[str, Any]:
        """A value for each option (of the score, unless ``of`` says which): the given one, else its default.

        Raises:
            UsageError: there is no such option, or it does not take the value.
        """
        known = {o.name: o for o in (self.options if of is None else of)}
        for name, value in given.items():
            if name not in known:
                cure = f"{did_you_mean(name, tuple(known))} it has {', '.join(known) or 'none'}".strip()
                raise UsageError(f"{self.name} has no option {name!r}", cure=cure)
            known[name].check(value)
        return {name: given.get(name, option.default) for name, option in known.items()}

    def build(self, out: str | Path, *, seed: int = 0, **options: Any) -> Path:
        """Make a set of items in ``out``; returns the path that `load` takes. ``options`` are its ``build_options``.

        Raises:
            UsageError: there is no such option, or items of this suite cannot be made without its authors' data.
        """
        return self.make_items(Path(out), seed, self.check_options(options, self.build_options))

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
        given = self.check_options(options, self.export_options)
        return self.write_export(
            self.open(path, skip_bad=skip_bad), Path(out), outputs, seed, given
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

    def run(
        self,
        path: str | Path,
        systems: SystemLike | Sequence[SystemLike],
        out: str | Path,
        *,
        limit: int | None = None,
        skip_bad: bool = False,
        sampling: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
        budget: float | None = None,
        prices: Path | None = None,
        steps: Progress = QUIET,
        fresh: bool = False,
        prompt: Path | None = None,
    ) -> list[Path]:
        """Ask systems every question of a set of items; one run folder each under ``out``; an unfinished run resumes.

        Args:
            path: of the items, as `open` takes it.
            systems: one or several: names, as ``demur run`` takes them, functions, or objects that answer.
            out: folder of the run folders.
            limit: ask the questions of this many items, the first ones.
            skip_bad: leave bad items out and count them.
            sampling: temperature, max_tokens ... of models.
            concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
            budget: dollars; stops the run, resumable, before it costs more.
            prices: price table that overlays the shipped one.
            steps: progress of the run.
            fresh: reuse nothing: ask everything again.
            prompt: a file in place of the suite's prompt, or a folder of files named as in its ``prompts``.

        Raises:
            DataError: a prompt is empty, or lacks a placeholder.
            UsageError: an item lacks an image, or a system does not exist.
            BadInput: problems of the items.
        """
        out = Path(out)
        loaded = self.open(path, skip_bad=skip_bad)
        prompts = self.prompts()
        if prompt is not None:
            prompts.replace(prompt, self.prompt_files)
        tasks = self.tasks(loaded.items, limit=limit, prompts=prompts)
        self.check_images(Path(path), tasks)
        several = (
            list(systems)
            if isinstance(systems, Sequence) and not isinstance(systems, str)
            else [systems]
        )
        names = [name_of(one) for one in several]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError("a system is named twice", item=twice[0], cure="name each once")
        judge = SuiteJudge(self, tasks)
        conditions = dict.fromkeys(self.condition(t.sample) for t in tasks)
        about = {
            "suite": self.name,
            "items": {"sha256": items_digest(tasks), "skipped": loaded.skipped},
            "items_path": str(Path(path).resolve()),
            "prompts": {str(c): prompts.used(c) for c in conditions},
        }
        options = RunOptions(
            out=out,
            concurrency=concurrency,
            budget=budget,
            prices=prices,
            fresh=fresh,
            system_options=dict(sampling or {}),
        )
        opened = [
            Opened.of(
                system,
                SystemContext(
                    read_image=lambda ref: read_image(ref, loaded.root),
                    prompts=prompts,
                    ledger=options.calls,
                    concurrency=concurrency,
                    prices=prices,
                    options=options.system_options,
                ),
            )
            for system in several
        ]
        return ask_opened(opened, Plan(tasks, about), judge, options, steps=steps)

    def scores(
        self,
        items: Sequence[I],
        outputs: Outputs,
        *,
        models: str | Sequence[str] = (),
        skip_bad: bool = False,
        **options: Any,
    ) -> list[S]:
        """The score of each model, in the order of ``models`` or of ``outputs``.

        Args:
            items: of the suite.
            outputs: replies of models.
            models: score only these.
            skip_bad: ignore replies to questions that are not among the items (their items were left out as bad).
            options: of the score.

        Raises:
            UsageError: no such model or option, or a value that an option does not take.
        """
        models = (models,) if isinstance(models, str) else models
        unknown = [m for m in models if m not in outputs]
        if unknown:
            raise UsageError(
                f"no outputs of {unknown[0]!r}; there are {', '.join(outputs) or 'none'}"
            )
        if not outputs:
            raise UsageError(
                "there are no outputs to score",
                cure=f"run a system: demur suite run {self.spelled} ITEMS",
            )
        given = self.check_options(options)
        asked = {q.id for q in self.questions(items)}
        for model in models or outputs:
            strangers = sorted(set(outputs[model]) - asked)
            if strangers and skip_bad and len(strangers) < len(outputs[model]):
                outputs = {
                    **outputs,
                    model: {id: r for id, r in outputs[model].items() if id in asked},
                }
            elif strangers:
                raise UsageError(
                    f"{len(strangers)} of {len(outputs[model])} outputs of {model!r} belong to no question of "
                    f"these items, the first is {strangers[0]!r}",
                    cure=f"give the items that they were made for; ids of theirs are like {min(asked)!r}",
                )
        return [self.score(m, items, outputs[m], **given) for m in (models or tuple(outputs))]

    def report(
        self,
        path: str | Path,
        outputs: Outputs,
        out: str | Path,
        *,
        skip_bad: bool = False,
        **options: Any,
    ) -> Path:
        """One HTML page: the tables, and a card for each item.

        Args:
            path: of the items.
            outputs: replies of models; those stored with the items are added. Without any the page shows the items.
            out: the file to write.
            skip_bad: leave bad items out.
            options: of the score.
        """
        from demur_suites.gallery import write_gallery

        loaded = self.open(path, skip_bad=skip_bad)
        outputs = {**loaded.outputs, **outputs}
        scores = self.scores(loaded.items, outputs, skip_bad=skip_bad, **options) if outputs else []
        tables = [
            *(self.tables(scores, loaded.items) if scores else ()),
            *self.statistics(loaded.items),
        ]
        notes = [f"{note}: {n}" for note, n in loaded.notes.items()]
        if not scores:
            notes.append("no system has been asked yet: this page shows only the items")
        if loaded.skipped:
            notes.append(f"bad items left out: {loaded.skipped}")
        cards = self.cards(loaded.items, loaded.root, outputs, **self.check_options(options))
        return write_gallery(
            Path(out),
            title=self.title,
            about=self.about,
            tables=tables,
            notes=notes,
            cards=cards,
            figures=self.figures(scores, loaded.items) if scores else [],
        )


class SuiteJudge:
    """A suite's verdicts as a judge of the runner.

    Attributes:
        id: ``suite:NAME``.
        version: hash of the right answers, and of the code of a suite of another package: when either changes, stored
            answers are graded again.
    """

    def __init__(self, suite: Suite[Any, Any], tasks: Sequence[Task] = ()) -> None:
        self.id = f"suite:{suite.name}"
        own = "" if type(suite).__module__.startswith("demur_suites.") else code_digest(type(suite))
        self.version = digest(
            [own, {t.ask.id: t.sample.answers.model_dump(mode="json") for t in tasks}], 16
        )
        self._suite = suite

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; a failed call counts as the system's failure."""
        if response.error:
            return Verdict(id=ask.id, status=Status.FAILED, reason=response.error, judge=self.id)
        status, outcome, reason = self._suite.verdict(response, answers)
        return Verdict(
            id=ask.id,
            status=status,
            outcome=outcome,
            reason=reason,
            judge=self.id,
            raw=response.text,
        )


def items_digest(tasks: Sequence[Task]) -> str:
    """Hash of everything systems are asked: equal sets of items have equal hashes, wherever their files are."""
    return digest([t.ask.id for t in tasks], 32)


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
