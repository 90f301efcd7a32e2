"""What a suite is, and what all of them share: asking systems, reading outputs made elsewhere, tables, a page.

A suite says five things, each in its own file:

    items.py     its records, how they are read and checked            -> `Suite.load`, `Suite.statistics`
    build.py     how items are made, where they can be                 -> `Suite.build`
    prompts/     what a model is told (own words, versioned files)     -> `Suite.prompts`
    measures.py  pure functions from outputs to numbers                -> `Suite.score`
    tables.py    plain tables and cards, which the report room renders -> `Suite.tables`, `Suite.cards`

Everything else is here, so that the runner, the calls and the judges never learn a suite's words.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from demur.core import plugins
from demur.core.code import code_digest
from demur.core.errors import DataError, StorageError, UsageError
from demur.core.images import image_ref
from demur.core.progress import QUIET, Progress
from demur.core.records import (
    AnswerSpec,
    Ask,
    ContextSet,
    ImageRef,
    Measure,
    Outcome,
    Response,
    Sample,
    Scenario,
    Status,
    Verdict,
)
from demur.core.stats import wilson
from demur.core.store import Problems, digest, storage_errors, why_invalid
from demur.core.uris import read_image, read_uri
from demur.corpora.formats import csv_rows, inside, json_lines
from demur.evaluation.asking import Opened, ask_opened
from demur.evaluation.run_folder import Task
from demur.scenarios.conditions import Condition, Prompts
from demur.scenarios.render import ask as make_ask
from demur.scenarios.systems import SystemContext, SystemLike, split_name
from demur.scenarios.systems.model import ModelSystem

if TYPE_CHECKING:
    from demur.judge.audit import Finding
    from demur.models import Budget
    from demur.reports.gallery import Card
    from demur.reports.svg import Panel
    from demur.reports.tables import Table

I = TypeVar("I")  # noqa: E741 - an item of a suite
S = TypeVar("S")
"""The score of one model."""

Outputs = Mapping[str, Mapping[str, Response]]
"""Model -> question id -> what it said."""
NO_CLAUSE = Condition("none")
"""A suite's prompt says everything itself."""


class Option(NamedTuple):
    """One option of a suite's score: a flag of ``demur suite score`` and a keyword of `Suite.scores`.

    Attributes:
        name: of the keyword; the flag has dashes for underscores.
        help: one line.
        default: also tells the type (str, int, float).
        choices: allowed values; any when empty.
        least: of a number; None for no bound.
        most: of a number; None for no bound.
    """

    name: str
    help: str
    default: str | int | float
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    def check(self, value: Any) -> None:
        """Raise UsageError for a value that the option does not take."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.choices and value not in self.choices:
            raise UsageError(f"{self.name}={value!r}", cure=f"one of {', '.join(self.choices)}")
        if isinstance(self.default, str):
            return
        whole = not isinstance(self.default, int) or isinstance(value, int)
        low, high = (-math.inf if self.least is None else self.least), (math.inf if self.most is None else self.most)
        if not (number and whole and low <= value <= high):  # NaN lies between no bounds
            kind = "a whole number" if isinstance(self.default, int) else "a number"
            bounds = [f"at least {self.least:g}"] if self.least is not None else []
            bounds += [f"at most {self.most:g}"] if self.most is not None else []
            raise UsageError(f"{self.name} is {value}", cure=f"give {' '.join([kind, ' and '.join(bounds)]).strip()}")


class Loaded(NamedTuple, Generic[I]):
    """What was read from a path.

    Attributes:
        items: the suite's records.
        root: folder that image paths are relative to.
        outputs: what models said, where the same files hold it.
        notes: harmless peculiarities and how often they were met.
        skipped: items left out as bad.
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
    options: ClassVar[tuple[Option, ...]] = ()
    """Of the score."""
    build_options: ClassVar[tuple[Option, ...]] = ()
    """Of `build`."""
    prompt_files: ClassVar[Mapping[str, str]] = MappingProxyType({"ask": "ask.v1.md"})
    """What a text of `prompts` is for -> name of its file, and of a user's own."""
    export_options: ClassVar[tuple[Option, ...]] = ()
    """Of `export`."""
    audit_columns: ClassVar[frozenset[str]] = frozenset()
    """Columns, in lower case, of its published tables: `demur audit` hands such tables to `audit`."""

    # --- the five places -------------------------------------------------------------------------

    @abstractmethod
    def load(self, path: Path, problems: Problems) -> Loaded[I]:
        """Read items (a file or a folder); a bad one is a problem with its place, and is left out."""

    @abstractmethod
    def questions(self, items: Sequence[I]) -> Iterator[Sample]:
        """What systems are asked, one sample a question; ``answers`` hold the right reply for `verdict`, ``cluster``
        is what questions share, ``answerable`` whether an answer is expected.
        """

    def score(self, model: str, items: Sequence[I], outputs: Mapping[str, Response], **options: Any) -> S:
        """The score of one model from what it said, by question id; a missing id was not asked.

        Unless a suite says more: a `Plain` one, by `verdict`.
        """
        return plain_score(self, model, items, outputs)  # type: ignore[return-value]  # S is Plain where this is kept

    def tables(self, scores: Sequence[S], items: Sequence[I]) -> list[Table]:
        """Tables of some scores, each rate with its n; of `Plain` scores unless a suite says more."""
        return [plain_table(self, scores)]  # type: ignore[arg-type]

    def figures(self, scores: Sequence[S], items: Sequence[I]) -> list[Panel]:
        """Figures of some scores for the page; none unless a suite draws some."""
        return []

    def statistics(self, items: Sequence[I]) -> list[Table]:
        """Tables that describe a set of items; none unless a suite says more."""
        return []

    def build(self, out: Path, *, seed: int = 0, **options: Any) -> Path:
        """Make a set of items in ``out``; returns the path that `load` takes. ``options`` are its ``build_options``.

        Raises:
            UsageError: items of this suite cannot be made without its authors' data.
        """
        raise UsageError(f"items of {self.name} cannot be made here", cure="give its own files to 'demur suite check'")

    def export(
        self,
        path: Path,
        out: Path,
        *,
        outputs: Outputs = MappingProxyType({}),
        seed: int = 0,
        skip_bad: bool = False,
        **options: Any,
    ) -> Path:
        """Write a set of items for another use (training data); ``options`` are its ``export_options``.

        Args:
            path: of the items.
            out: folder to write.
            outputs: what models said, where an export needs it.
            seed: of whatever is drawn.
            skip_bad: leave bad items out.
            options: its ``export_options``.

        Raises:
            UsageError: this suite exports nothing.
        """
        raise UsageError(f"the suite {self.name} exports nothing", cure="its items are plain files already")

    def prompts(self) -> Prompts:
        """``prompts/ask.v1.md`` beside the suite's file."""
        path = Path(inspect.getfile(type(self))).with_name("prompts") / "ask.v1.md"
        with storage_errors(path):
            return Prompts.single(path.read_text(encoding="utf-8"))

    def condition(self, sample: Sample) -> Condition:
        """Under which condition a question is put; without clauses unless a suite says more."""
        return NO_CLAUSE

    def verdict(self, response: Response, answers: AnswerSpec) -> tuple[Status, Outcome | None, str]:
        """(status, outcome, reason) of one reply, for the rows of a run; by the text of the right answer here."""
        if not response.text.strip():
            return Status.FAILED, None, "no reply"
        right = {form[0].strip().casefold() for form in answers.accepted}
        hit = response.text.strip().rstrip(".").casefold() in right
        return Status.GRADED, Outcome.CORRECT if hit else Outcome.INCORRECT, "compared with the accepted answers"

    def cards(self, items: Sequence[I], root: Path, outputs: Outputs, **options: Any) -> Iterator[Card]:
        """One card an item for the page; none unless a suite shows its items."""
        yield from ()

    def audit(self, rows: Sequence[tuple[str, dict[str, str]]]) -> list[Finding]:
        """Impossibilities in published tables of this suite.

        Args:
            rows: (file and line, column -> cell) of all tables whose columns are among ``audit_columns``.
        """
        return []

    # --- what all suites share -------------------------------------------------------------------

    def open(self, path: str | Path, *, skip_bad: bool = False) -> Loaded[I]:
        """`load`, with all problems told at once.

        Raises:
            BadInput: problems, unless ``skip_bad``.
            UsageError: there are no items.
        """
        problems = Problems()
        loaded = self.load(Path(path), problems)
        problems.settle(skip_bad=skip_bad)
        if not loaded.items:
            raise UsageError("holds no items", item=str(path), cure=f"see 'demur suite show {self.name}'")
        return loaded._replace(skipped=problems.skipped)

    def tasks(self, items: Sequence[I], *, limit: int | None = None, prompts: Prompts | None = None) -> list[Task]:
        """What a run asks, in the order of the items.

        Args:
            items: of the suite.
            limit: ask the questions of the first so many clusters.
            prompts: in the place of the suite's.
        """
        prompts = prompts or self.prompts()
        made: list[Task] = []
        clusters: set[str] = set()
        for sample in self.questions(items):
            if limit is not None and sample.cluster not in clusters and len(clusters) >= limit:
                continue
            clusters.add(sample.cluster)
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
            made.append(Task(sample, context, make_ask(sample, context, self.condition(sample), prompts)))
        return made

    def check_options(self, options: Mapping[str, Any], of: tuple[Option, ...] | None = None) -> None:
        """See that options (of the score, unless ``of`` says which) exist and take these values, before any work.

        Raises:
            UsageError: one does not.
        """
        known = {o.name: o for o in (self.options if of is None else of)}
        for name, value in options.items():
            if name not in known:
                raise UsageError(f"{self.name} has no option {name!r}", cure=f"it has {', '.join(known) or 'none'}")
            known[name].check(value)

    def see_askable(self, path: Path, tasks: Sequence[Task]) -> None:
        """Raise UsageError where a task cannot be asked; whatever can be, unless a suite says more."""

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
        budget: Budget | None = None,
        prices: Path | None = None,
        steps: Progress = QUIET,
        fresh: bool = False,
        prompt: Path | None = None,
    ) -> list[Path]:
        """Ask systems every question of a set of items; one run folder each under ``out``; what was begun goes on.

        Args:
            path: of the items, as `open` takes it.
            systems: one or several: by name, as ``demur run`` takes them, functions, or objects that answer.
            out: folder of the run folders.
            limit: ask the questions of the first so many items.
            skip_bad: leave bad items out and count them.
            sampling: temperature, max_tokens ... of models.
            concurrency: calls at once, of each endpoint and function; None for 8, and 1 of a plain function.
            budget: stops the run, resumable, before its money is passed.
            prices: price table that overlays the shipped one.
            steps: told what happens.
            fresh: reuse nothing: ask everything again.
            prompt: a file in the place of the suite's prompt, or a folder of files named as in its ``prompts``.

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
        self.see_askable(Path(path), tasks)
        several = list(systems) if isinstance(systems, Sequence) and not isinstance(systems, str) else [systems]
        judge = SuiteJudge(self, tasks)
        conditions = dict.fromkeys(self.condition(t.sample) for t in tasks)
        about = {
            "suite": self.name,
            "items": {"path": str(path), "sha256": items_digest(tasks), "skipped": loaded.skipped},
            "prompts": {str(c): prompts.used(c) for c in conditions},
        }
        ledger = out / "calls.sqlite"
        opened = []
        for one in several:
            called, spec = split_name(one)
            context = SystemContext(
                read_image=lambda ref: read_image(ref, loaded.root), prompts=prompts, ledger=ledger,
                concurrency=concurrency, prices=prices,
                options={
                    **({"name": called} if called else {}),
                    **(sampling or {} if _samples(spec) else {}),
                },
            )  # fmt: skip
            opened.append(Opened.of(one, context))
        return ask_opened(
            opened, tasks, judge, out, about=about, ledger=ledger, budget=budget, steps=steps, fresh=fresh
        )

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
            outputs: what models said.
            models: score these alone.
            skip_bad: pass over outputs that belong to no question of the items (those of items left out as bad).
            options: of the score.

        Raises:
            UsageError: no such model or option, or a value that an option does not take.
        """
        models = (models,) if isinstance(models, str) else models
        unknown = [m for m in models if m not in outputs]
        if unknown:
            raise UsageError(f"no outputs of {unknown[0]!r}; there are {', '.join(outputs) or 'none'}")
        if not outputs:
            raise UsageError("there are no outputs to score", cure=f"run a system: demur suite run {self.name} ITEMS")
        self.check_options(options)
        asked = {q.id for q in self.questions(items)}
        for model in models or outputs:
            strangers = sorted(set(outputs[model]) - asked)
            if strangers and skip_bad and len(strangers) < len(outputs[model]):
                outputs = {**outputs, model: {id: r for id, r in outputs[model].items() if id in asked}}
            elif strangers:
                raise UsageError(
                    f"{len(strangers)} of {len(outputs[model])} outputs of {model!r} belong to no question of "
                    f"these items, the first is {strangers[0]!r}",
                    cure="give the items that they were made for",
                )
        return [self.score(m, items, outputs[m], **options) for m in (models or tuple(outputs))]

    def report(
        self, path: str | Path, outputs: Outputs, out: str | Path, *, skip_bad: bool = False, **options: Any
    ) -> Path:
        """One HTML page: the tables, and a card for each item.

        Args:
            path: of the items.
            outputs: what models said; those that stand beside the items are added. The items alone without any.
            out: the file to write.
            skip_bad: leave bad items out.
            options: of the score.
        """
        from demur.reports.gallery import write_gallery

        loaded = self.open(path, skip_bad=skip_bad)
        outputs = {**loaded.outputs, **outputs}
        scores = self.scores(loaded.items, outputs, skip_bad=skip_bad, **options) if outputs else []
        tables = [*(self.tables(scores, loaded.items) if scores else ()), *self.statistics(loaded.items)]
        notes = [f"{note}: {n}" for note, n in loaded.notes.items()]
        if not scores:
            notes.append("nobody has been asked yet: these are the items alone")
        if loaded.skipped:
            notes.append(f"bad items left out: {loaded.skipped}")
        cards = self.cards(loaded.items, loaded.root, outputs, **options)
        return write_gallery(
            Path(out), title=self.title, about=self.about, tables=tables, notes=notes, cards=cards,
            figures=self.figures(scores, loaded.items) if scores else [],
        )  # fmt: skip


class Plain(NamedTuple):
    """What a suite without measures of its own tells of a model.

    Attributes:
        model: its name.
        accuracy: right over graded replies, Wilson's interval; deflected replies are graded and not right.
        deflected: share of graded replies.
    """

    model: str
    accuracy: Measure
    deflected: Measure


def plain_score(suite: Suite[Any, Any], model: str, items: Sequence[Any], outputs: Mapping[str, Response]) -> Plain:
    """The `Plain` score of a model: every question asked is graded, ungraded or failed, and counted as such."""
    found: Counter[Status | Outcome | None] = Counter()
    for question in suite.questions(items):
        response = outputs.get(question.id)
        if response is not None:
            failed = (Status.FAILED, None, "")
            status, outcome, _ = failed if response.error else suite.verdict(response, question.answers)
            found[outcome or status] += 1
    n = sum(found[o] for o in Outcome)

    def rate(name: str, hits: int) -> Measure:
        low, high = wilson(hits, n) or (None, None)
        return Measure(
            name=name, value=hits / n if n else None, n=n, ungraded=found[Status.UNGRADED],
            failed=found[Status.FAILED], low=low, high=high, interval="wilson(0.95)",
        )  # fmt: skip

    return Plain(model, rate("accuracy", found[Outcome.CORRECT]), rate("deflection", found[Outcome.DEFLECTED]))


def plain_table(suite: Suite[Any, Any], scores: Sequence[Plain]) -> Table:
    """The table of `Plain` scores."""
    from demur.reports.tables import Column, Table

    columns = (
        Column("Model", align="left"), Column("Accuracy (%)", interval=True), Column("Deflection (%)", interval=True),
        Column("n"), Column("ungraded"), Column("failed"),
    )  # fmt: skip
    rows = tuple(
        (s.model, s.accuracy, s.deflected, s.accuracy.n, s.accuracy.ungraded, s.accuracy.failed) for s in scores
    )
    return Table(suite.name, suite.title, columns, rows, notes=("n: graded replies. Intervals: Wilson, 95 %.",))


def _samples(spec: SystemLike) -> bool:
    """Whether sampling options are for this system: a model, or one that is made of models."""
    factory = plugins.find("systems", spec)[0] if isinstance(spec, str) else None
    return isinstance(factory, type) and issubclass(factory, ModelSystem)


class SuiteJudge:
    """A suite's verdicts as a judge of the runner.

    Attributes:
        id: ``suite:NAME``.
        version: of the right answers, and of the code of a suite that is not demur's: when either was edited, answers
            that are there are graded again.
    """

    def __init__(self, suite: Suite[Any, Any], tasks: Sequence[Task] = ()) -> None:
        self.id = f"suite:{suite.name}"
        own = "" if type(suite).__module__.startswith("demur.") else code_digest(type(suite))
        self.version = digest([own, {t.ask.id: t.sample.answers.model_dump(mode="json") for t in tasks}], 16)
        self._suite = suite

    def grade(self, ask: Ask, response: Response, answers: AnswerSpec) -> Verdict:
        """One verdict; a call that failed is the system's failure."""
        if response.error:
            return Verdict(id=ask.id, status=Status.FAILED, reason=response.error, judge=self.id)
        status, outcome, reason = self._suite.verdict(response, answers)
        return Verdict(id=ask.id, status=status, outcome=outcome, reason=reason, judge=self.id, raw=response.text)


def items_digest(tasks: Sequence[Task]) -> str:
    """Hash of all that systems are asked: equal sets of items give equal text, wherever they lie."""
    return digest([t.ask.id for t in tasks], 32)


# --- published tables -----------------------------------------------------------------------------


class Audited(NamedTuple):
    """What suites found in published tables of their kinds.

    Attributes:
        findings: of all suites.
        lines: how many lines they read.
        rest: tables that belong to no suite.
    """

    findings: list[Finding]
    lines: int
    rest: list[Path]


def audit_tables(paths: Sequence[Path], problems: Problems) -> Audited:
    """Hand published tables to the suites that know their columns; tables of one suite are audited together.

    Args:
        paths: CSV files.
        problems: takes lines that cannot be read.
    """
    known = {name: suite(name) for name in suites()}
    rows: dict[str, list[tuple[str, dict[str, str]]]] = {}
    rest = []
    for path in paths:
        held = csv_lower(path, Problems())
        columns = set(held[0][1]) if held else set()
        owner = next((n for n, s in known.items() if columns - {"model", "n"} and columns <= s.audit_columns), None)
        if owner is None:
            rest.append(path)
        else:
            rows.setdefault(owner, []).extend(csv_lower(path, problems))
    findings = [f for name, own in rows.items() for f in known[name].audit(own)]
    return Audited(findings, sum(map(len, rows.values())), rest)


def csv_lower(path: Path, problems: Problems) -> list[tuple[str, dict[str, str]]]:
    """Rows of a CSV file by plain names of its columns: ``Cov (%)`` is ``cov``, ``MEFR d`` is ``mefr_d``."""

    def plain(name: str) -> str:
        return "_".join(name.partition("(")[0].lower().split())

    return [(place, {plain(k): v for k, v in row.items()}) for place, row in csv_rows(path, problems, mend=True)]


# --- files of items --------------------------------------------------------------------------------


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


K = TypeVar("K", bound=_WithId)


def items_file(path: Path, suite: str, name: str = "items.jsonl") -> Path:
    """The file of items at a path: itself, or the one of that name in a folder.

    Raises:
        UsageError: there is none.
    """
    file = path / name if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"there is no {name}" if path.is_dir() else "no such file or folder", item=str(path),
            cure=f"'demur suite build {suite} --out DIR' makes a set; docs/suites.md has the layout",
        )  # fmt: skip
    return file


def items_by_id(file: Path, problems: Problems, made: Callable[[str, dict[str, Any]], K]) -> dict[str, K]:
    """Items of a JSON Lines file by their id; what ``made`` refuses, and an id that comes twice, is a problem.

    Args:
        file: a line an item.
        problems: takes bad items, with their place and id.
        made: (place, row) -> the item; what is wrong with the row is a ValueError or a DataError.
    """
    found: dict[str, K] = {}
    places: dict[str, str] = {}
    for place, row in json_lines(file, problems):
        where = f"{place} ({row.get('id', 'no id')})"
        try:
            item = made(place, row)
        except ValidationError as error:
            problems.add(where, why_invalid(error))
        except (DataError, StorageError, ValueError) as error:
            problems.add(where, str(error))
        else:
            if places.setdefault(item.id, place) == place:
                found[item.id] = item
            else:
                problems.add(where, f"an earlier line, {places[item.id]}, has this id too; the first is kept")
    return found


def image_beside(file: Path, uri: str, sha256: str = "") -> ImageRef:
    """The image at a path relative to a file of items, read and described; its uri is relative too.

    Raises:
        DataError: it leads out of the folder, cannot be read, or has other bytes than ``sha256`` says.
    """
    folder = file.parent
    try:
        held = inside(folder, uri).relative_to(folder).as_posix()
        found = image_ref(read_uri(held, folder), held)
    except (DataError, StorageError, ValueError) as error:
        raise DataError(f"image {uri!r}: {error}") from error
    if sha256 and found.sha256 != sha256:
        raise DataError(f"image {uri!r} has other bytes than were filed", cure="build the set again")
    return found


# --- by name ----------------------------------------------------------------------------------------


def suites() -> tuple[str, ...]:
    """Names of the registered suites; nothing is imported."""
    return plugins.names("suites")


def suite(name: str) -> Suite[Any, Any]:
    """The suite of a name, or ``module:Class``; what follows a name and a colon is handed to it (``mm_aqa:cot,base``).

    Raises:
        UnknownPart: no suite has that name; lists those that exist.
    """
    factory, argument = plugins.find("suites", name)
    try:
        made: Suite[Any, Any] = factory(argument) if argument else factory()
    except TypeError as error:
        raise UsageError(f"the suite {factory.name!r} takes nothing behind its name", item=name) from error
    return made
