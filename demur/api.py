"""The library as one uses it: a dozen functions, and the values that they return.

Everything takes ``str`` or `Path` where a path is meant, and text or objects where a part is meant (a system is a
name such as ``model:openai/gpt-4o``, or any function). All of it works where an event loop is already running (a
notebook). Results are values: they print as tables, show as tables in a notebook, and become pandas or Arrow by
``to_pandas()`` and ``to_arrow()``. The command's verbs call the same functions beneath.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from demur.core.errors import StorageError, UsageError

if TYPE_CHECKING:
    from demur.core.records import Document, Verdict
    from demur.curation.from_docs.make import DocsRelease
    from demur.curation.recipe import BuildRecipe
    from demur.indexing.ivf import Kind
    from demur.release import Release
    from demur.reports.compare import Comparison as Compared
    from demur.reports.data import ReportData
    from demur.reports.gate import Gate
    from demur.reports.tables import Table
    from demur.scenarios.systems import SystemLike
    from demur.suites import Suite

StrPath = str | Path
Scenarios = str | Sequence[str]
ALL = ("parametric", "oracle", "realistic", "adversarial")
"""The four scenarios (VLM-DeflectionBench, section 3.5)."""


# --- values ---------------------------------------------------------------------------------------


class Frame:
    """A table as a value: prints as text, shows as a table in a notebook.

    Attributes:
        table: the cells as they are; a rate holds its n, interval, ungraded and failed.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    @property
    def records(self) -> list[dict[str, Any]]:
        """One dict a row: column -> value; a rate is a dict with value (in [0, 1]), low, high, n, ungraded, failed."""
        from demur.reports.tables import to_records

        return to_records(self.table)

    def __len__(self) -> int:
        return len(self.table.rows)

    def __repr__(self) -> str:
        return self.table.render("terminal")

    def _repr_html_(self) -> str:
        from demur.reports.markup import table_html

        return table_html(self.table)

    def flat(self) -> list[dict[str, Any]]:
        """`records` with a rate in columns of its own: ``accuracy``, ``accuracy low``, ``accuracy n`` ..."""
        return [
            {
                (name if key == "value" else f"{name} {key}"): inner
                for name, value in row.items()
                for key, inner in (value.items() if isinstance(value, dict) else (("value", value),))
            }
            for row in self.records
        ]

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `flat`."""
        import pandas as pd

        return pd.DataFrame(self.flat())

    def to_arrow(self) -> Any:
        """A pyarrow Table of `flat`."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.flat())

    def to_latex(self) -> str:
        """For a paper (booktabs)."""
        return self.table.render("latex")

    def to_markdown(self) -> str:
        """For a README."""
        return self.table.render("markdown")

    def to_csv(self) -> str:
        """Every number with its n and interval."""
        return self.table.render("csv")


class Evaluation:
    """What one system said to a release: a run folder, read when it is looked at.

    Attributes:
        folder: of the run: manifest, contexts, responses, verdicts, rows.
        release: folder of the release.
    """

    def __init__(self, folder: StrPath, release: StrPath | None = None) -> None:
        self.folder = Path(folder)
        self.release = None if release is None else Path(release)

    @cached_property
    def data(self) -> ReportData:
        """The rows, contexts and samples, as reports read them."""
        from demur.reports.data import load

        return load([self.folder], self.release)

    @property
    def system(self) -> str:
        """Who was asked."""
        return self.data.runs[0].system

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was asked, of whom, by which code, prompts, judge and seed."""
        return self.data.runs[0].manifest

    def rates(self, by: str | None = None, *, labels: StrPath | bool | None = None, finite: bool = False) -> Frame:
        """Accuracy, deflection and hallucination by scenario, each with n, interval, ungraded and failed.

        Args:
            by: also by ``source``, ``topic``, ``query_modality``, ``gold_modality`` or ``negative_modality``.
            labels: of people: the folder of ``demur annotate``, or a file of ``{"ask", "label"}`` lines; True for
                ``labels.jsonl`` in the run's folder. The rates are then shown as the labels correct them, beside the
                judge's own (`demur.judge.measures.corrected`).
            finite: with labels, intervals for these very answers instead of for others like them.

        Raises:
            Stale: the labels were given beside another judge, prompt or rubric, or of other answers.
        """
        if labels:
            from demur.reports.agree import check_labels, corrected_cells, corrected_tables, of_runs, read_labels

            given = of_runs(self.data) if labels is True else read_labels(Path(labels))
            check_labels(given, self.data)
            population: Literal["super", "finite"] = "finite" if finite else "super"
            return Frame(corrected_tables(corrected_cells(self.data, given, population=population))[0])
        from demur.reports.cells import headline
        from demur.reports.paper_tables import breakdown_table
        from demur.reports.terminal import results_table

        head = headline(self.data.runs)
        if by is None:
            return Frame(results_table(self.data, head))
        known = ("source", "topic", "query_modality", "gold_modality", "negative_modality")
        if by not in known:
            raise UsageError(f"by={by!r}", cure=f"one of {', '.join(known)}")
        return Frame(breakdown_table(self.data, head, by, by.replace("_", " "), totals=False))

    def to_arrow(self) -> Any:
        """A pyarrow Table: one row an answer, with its verdict (`demur.core.records.Row`)."""
        from demur.reports.data import arrow_rows

        return arrow_rows(self.folder / "rows.parquet")

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row an answer, with its verdict."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        return f"{self.system} ({self.folder})\n{self.rates()!r}"

    def _repr_html_(self) -> str:
        return self.rates()._repr_html_()


class Comparison:
    """Two runs over what both were asked: paired differences with tests, and the items that changed.

    Attributes:
        found: all of it, see `demur.reports.compare.Comparison`.
    """

    def __init__(self, found: Compared) -> None:
        self.found = found

    @property
    def worse(self) -> bool:
        """Whether the second is significantly worse in some scenario."""
        return bool(self.found.worse)

    @property
    def differences(self) -> Frame:
        """By scenario: both rates, their paired difference, interval, p."""
        from demur.reports.compare_tables import table

        return Frame(table(self.found))

    def to_pandas(self) -> Any:
        """The differences as a pandas DataFrame."""
        return self.differences.to_pandas()

    def to_arrow(self) -> Any:
        """The differences as a pyarrow Table."""
        return self.differences.to_arrow()

    def __repr__(self) -> str:
        from demur.reports.compare_tables import print_comparison

        out = io.StringIO()
        print_comparison(self.found, items=5, file=out)
        return out.getvalue()

    def _repr_html_(self) -> str:
        return self.differences._repr_html_()


class Index:
    """An index folder, opened with the encoders that its manifest names.

    Attributes:
        folder: of the index.
        manifest: what it holds: parts, encoders, documents, hashes.
    """

    def __init__(self, folder: StrPath, *, encoder: str | None = None, text_encoder: str | None = None) -> None:
        from demur.curation.indexes import open_searcher

        self.folder = Path(folder)
        self._searcher = open_searcher(self.folder, encoder, text_encoder)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the folder."""
        from demur.indexing.folder import checked_manifest

        return checked_manifest(self.folder)

    def search(
        self,
        text: str = "",
        *,
        image: StrPath | bytes | None = None,
        k: int = 10,
        mode: str | None = None,
        pages: int = 10,
    ) -> Hits:
        """The documents nearest to a question, an image, or both, best first.

        Args:
            text: the question.
            image: of the query: a file, or its bytes.
            k: hits.
            mode: as in ``demur index search --help``; by what is given when None.
            pages: opened by ``FIRST/...`` modes.
        """
        from demur.core.store import storage_errors
        from demur.curation.indexes import search

        data, item = (image, "") if isinstance(image, bytes) or image is None else (None, str(image))
        if item:
            with storage_errors(item):
                data = Path(item).read_bytes()
        chosen, found = search(self._searcher, text, data, k=k, mode=mode or "", pages=pages, item=item)
        return Hits([(hit.rank, hit.score, document) for hit, document in found], chosen)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {name}" for name, n in self.manifest["counts"].items())
        return f"Index({str(self.folder)!r}: {counts}; modes: {', '.join(self._searcher.modes)})"


class Hits(Sequence[Any]):
    """Hits of a search: (rank, score, document), best first."""

    def __init__(self, found: Sequence[tuple[int, float, Document]], mode: str) -> None:
        self._found, self.mode = tuple(found), mode

    def __getitem__(self, place: Any) -> Any:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def frame(self) -> Frame:
        """Rank, score, id, title and the beginning of the text."""
        from demur.reports.tables import Column, Table

        columns = (
            Column("rank"), Column("score", decimals=4), Column("id", align="left"), Column("title", align="left"),
            Column("text", align="left"),
        )  # fmt: skip
        rows = tuple(
            (r, float(s), d.id, d.title, " ".join((d.text or "(image)").split())[:80]) for r, s, d in self._found
        )
        return Frame(Table("hits", f"Found by {self.mode}.", columns, rows))

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        return self.frame.to_pandas()

    def to_arrow(self) -> Any:
        """A pyarrow Table."""
        return self.frame.to_arrow()

    def __repr__(self) -> str:
        return repr(self.frame)

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()


# --- functions ------------------------------------------------------------------------------------


def open_release(
    path: StrPath, *, out: StrPath = "runs", options: Mapping[str, str] | None = None, skip_bad: bool = False
) -> Release:
    """A release by name.

    Args:
        path: a release folder; ``hf:OWNER/NAME@v1.0.0``, of the Hugging Face Hub (downloaded once, then cached); or
            ``SOURCE=FOLDER``, a source's own files as they are (``simpleqa=/data/simpleqa``).
        out: of SOURCE=FOLDER: a release is made of it in ``out/release``.
        options: of SOURCE=FOLDER: of its adapter (`demur sources show NAME`).
        skip_bad: of SOURCE=FOLDER: leave out what cannot be read, and count it.

    Raises:
        ReleaseError: it is no finished release.
        UsageError: options for something that is no source.
        StorageError: it cannot be read or downloaded.
    """
    from demur.curation.from_source import names_source, release_of
    from demur.release import Release

    text = str(path)
    if names_source(text):
        return release_of(text, Path(out), options=options, skip_bad=skip_bad)
    if options or skip_bad:
        raise UsageError("--set and --skip-bad are for SOURCE=FOLDER", item=text, cure="leave them out")
    if not text.startswith("hf:"):
        return Release.open(Path(path))
    name, _, revision = text[3:].partition("@")
    if name.count("/") != 1:
        raise UsageError(f"{text!r} names no dataset", cure="write hf:OWNER/NAME or hf:OWNER/NAME@VERSION")
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(name, repo_type="dataset", revision=revision or None)
    except Exception as error:  # the client raises many kinds, of its own, of its HTTP library and OSError
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise StorageError(why, item=text, cure="check the name, the version and the network") from error
    return Release.open(Path(folder))


def evaluate(
    release: StrPath | Release,
    system: SystemLike,
    *,
    scenarios: Scenarios = ALL,
    k: int = 2,
    strictness: Scenarios = "moderate",
    limit: int | None = None,
    text_only: bool = False,
    corpora: StrPath | None = None,
    seed: int = 0,
    repeat: int = 1,
    judge: str = "rules",
    out: StrPath = "runs",
    name: str = "",
    concurrency: int | None = None,
    budget: float | None = None,
    encoder: str = "",
    fresh: bool = False,
    progress: bool = False,
    minutes: float | None = None,
    **sampling: Any,
) -> Evaluation:
    """Ask a system the questions of a release in some scenarios, judge what it says, keep all of it.

    Args:
        release: folder, ``hf:...`` or opened.
        system: a name (``reader``, ``model:openai/gpt-4o``, ``http:rag.yaml``, ``answers:FILE``,
            ``python:module:function``; ``NAME=`` before it says what to call it), a function, or an object with the
            methods of `demur.scenarios.systems.System`. A function takes ``question``, ``images`` (list of bytes),
            ``evidence`` (list of dicts: id, title, text, image), ``choices``, ``id`` and ``strictness``, and, of a
            system with its own retriever, ``corpus`` and ``exclude``, whichever of them it names, or one dict of all;
            it returns a string, or a dict with ``answer``, ``confidence``, ``contexts``, ``citations`` ... It may be
            async. A plain one is called by one thread unless ``concurrency`` says otherwise.
        scenarios: names or recipes: ``oracle``, ``adversarial(k=3)``; all four by default. Of a system with its own
            retriever ``whole``: full, gold-removed and empty.
        k: distractors where a recipe does not say.
        strictness: prompting conditions: none, soft, moderate, severe; ``+strict``, ``+confidence``, ``+reasoning``.
        limit: ask so many samples, drawn by the seed; None for all.
        text_only: ask only what a system without images can be asked.
        corpora: what ``demur corpus export`` wrote, for the scenarios of ``whole``.
        seed: of every draw and order.
        repeat: independent answers to each question.
        judge: who grades.
        out: folder of run folders. Answers that are there are not asked for again; an edited function is another
            system.
        name: of the run; the system's own when empty.
        concurrency: calls at once.
        budget: stop before so many dollars are passed; the same call goes on.
        encoder: for systems that read with embeddings; the release's own when empty.
        fresh: reuse nothing.
        progress: show it on standard error.
        minutes: ask nothing new after so many; the same call goes on.
        sampling: of models: temperature, max_tokens ...

    Raises:
        UsageError: a part does not exist, or nothing can be asked this way.
        BudgetReached: the budget leaves no room.
        CallError: a model cannot be reached at all; what was answered is kept.
    """
    from demur.core.progress import QUIET, TerminalProgress
    from demur.evaluation.asking import ask
    from demur.release import Release
    from demur.scenarios.conditions import condition
    from demur.scenarios.contexts import WHOLE, recipe
    from demur.scenarios.systems import name_of, taken_apart

    opened = release if isinstance(release, Release) else open_release(release, out=out)
    money = None
    if budget is not None:
        from demur.models import Budget

        money = Budget(budget)
    called = name or taken_apart(system)[0]
    given = {**sampling, **({"name": called} if called else {})}
    texts = [one for text in _several(scenarios) for one in (WHOLE if text == "whole" else (text,))]
    with TerminalProgress() if progress else QUIET as steps:
        [folder] = ask(
            opened, [system], Path(out), judge=judge, seed=seed, limit=limit, repeat=repeat,
            text_only=text_only, corpora=None if corpora is None else Path(corpora),
            recipes=[recipe(one, k=k) for one in texts],
            conditions=[condition(one) for one in _several(strictness)],
            options={name_of(system): given}, encoder_name=encoder, concurrency=concurrency, budget=money,
            steps=steps, fresh=fresh, minutes=minutes,
        )  # fmt: skip
    return Evaluation(folder, opened.folder)


def _several(texts: Scenarios) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def open_run(folder: StrPath, release: StrPath | None = None) -> Evaluation:
    """A run folder of ``demur run``, ``demur sweep`` or `evaluate`.

    Args:
        folder: of the run.
        release: that it was asked from; looked for beside it when None.

    Raises:
        UsageError: it is no run folder.
    """
    found = Evaluation(folder, release)
    if len(found.data.runs) != 1:
        raise UsageError(f"holds {len(found.data.runs)} runs", item=str(folder), cure="name one of them")
    return found


def compare(first: StrPath | Evaluation, second: StrPath | Evaluation, *, every: bool = False) -> Comparison:
    """Is the second run better or worse than the first, and where: paired over what both were asked.

    Args:
        first: the run to compare with.
        second: the one that may be better or worse.
        every: pool every shared question, sweeps and other prompts included.
    """
    from demur.reports.cells import headline
    from demur.reports.compare import compare as paired
    from demur.reports.data import load

    runs = [one if isinstance(one, Evaluation) else open_run(one) for one in (first, second)]
    release = next((r.release for r in runs if r.release is not None), None)
    data = load([r.folder for r in runs], release)
    return Comparison(paired(data.runs[0], data.runs[1], data.samples, None if every else headline(data.runs)))


def grade(
    question: str,
    answers: str | Sequence[str],
    response: str,
    *,
    judge: str = "rules",
    choices: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """One verdict: correct, incorrect or deflected; ungraded where the judge cannot say; failed where nothing was said.

    Args:
        question: as it was asked.
        answers: accepted forms; any one of them is right.
        response: what a system said. Untrusted.
        judge: who grades.
        choices: (letter, text) of the options shown; ``answers`` are then letters or texts of the right ones.

    >>> grade("Which river is it?", answers=["Danube"], response="The Danube, I think.").outcome.value
    'correct'
    """
    from demur.evaluation.rejudge import GradeRow, grade_items, row_item
    from demur.judge.base import open_judge

    row = GradeRow(
        id="grade", question=question, answers=tuple(_several(answers)), response=response, choices=dict(choices)
    )
    [verdict] = grade_items(open_judge(judge), [row_item(row)])
    return verdict


def build_index(
    corpora: StrPath | Sequence[StrPath],
    out: StrPath,
    *,
    encoder: str = "offline",
    text_encoder: str | None = None,
    chunk: str = "",
    tokenizer: str | None = None,
    kind: Kind | Literal["auto"] = "auto",
    skip_bad: bool = False,
    progress: bool = False,
) -> Index:
    """Documents to an index folder; one that was killed goes on, one that is there and the same is taken as it is.

    Args:
        corpora: files, folders, pools or ``READER:PATH?key=value``, as ``demur index build`` takes them.
        out: the index folder.
        encoder: of images and texts.
        text_encoder: another one for passages.
        chunk: ``SIZE:OVERLAP`` in tokens; texts are not cut when empty (VLM-DeflectionBench: 250:32).
        tokenizer: a tokenizer.json that counts them; words when None.
        kind: of the vector index.
        skip_bad: leave bad documents out, and list them in the folder.
        progress: show it on standard error.
    """
    from demur.core.store import Problems
    from demur.curation.indexes import read_corpora
    from demur.indexing.build import build_index as build
    from demur.indexing.chunk import open_chunker
    from demur.indexing.encoders import open_encoder

    named = [str(one) for one in ([corpora] if isinstance(corpora, str | Path) else corpora)]
    problems = Problems()
    documents = read_corpora(named, problems)
    cut = ""
    if chunk:
        chunker = open_chunker(chunk, tokenizer)
        documents, cut = chunker.documents(documents), chunker.told
    build(
        documents, open_encoder(encoder), Path(out), kind=kind, skip_bad=skip_bad, problems=problems, progress=progress,
        text_encoder=open_encoder(text_encoder) if text_encoder else None, corpus=", ".join(named), cut=cut,
    )  # fmt: skip
    return Index(out, encoder=encoder, text_encoder=text_encoder)


def open_index(folder: StrPath, *, encoder: str | None = None, text_encoder: str | None = None) -> Index:
    """An index folder, to be searched; with other encoders than its manifest names where they are given."""
    return Index(folder, encoder=encoder, text_encoder=text_encoder)


def build_release(
    recipe: StrPath | BuildRecipe,
    out: StrPath,
    *,
    skip_bad: bool = False,
    budget: float | None = None,
    concurrency: int | None = None,
    progress: bool = False,
) -> Release:
    """Sources to a release, by a recipe: gates, mining, checks, freeze; one that was stopped goes on.

    Args:
        recipe: a YAML file, or a `demur.curation.recipe.BuildRecipe`.
        out: folder; the release is ``out/release``.
        skip_bad: leave bad records out, and count them.
        budget: stop before so many dollars are passed; the same call goes on.
        concurrency: calls in flight per endpoint.
        progress: show it on standard error.

    Raises:
        BadInput: problems of the sources, all at once.
        UsageError: the recipe names parts that do not exist, or nothing survived.
    """
    from demur.core.progress import QUIET, TerminalProgress
    from demur.curation.build import curate
    from demur.curation.recipe import BuildRecipe, load_recipe

    money = None
    if budget is not None:
        from demur.models import Budget

        money = Budget(budget)
    given = recipe if isinstance(recipe, BuildRecipe) else load_recipe(Path(recipe))
    base = Path() if isinstance(recipe, BuildRecipe) else Path(recipe).parent
    with TerminalProgress() if progress else QUIET as steps:
        return curate(
            given, Path(out), base=base, skip_bad=skip_bad, budget=money, steps=steps, concurrency=concurrency
        ).release


def gate(
    run: StrPath | Evaluation,
    *,
    min_accuracy: Mapping[str, float] | None = None,
    max_hallucination: Mapping[str, float] | None = None,
    min_deflection: Mapping[str, float] | None = None,
    max_deflection: Mapping[str, float] | None = None,
    baseline: StrPath | Evaluation | None = None,
    max_failed: float = 0.1,
    strict: bool = False,
) -> Gate:
    """Is a run good enough, and not worse than a baseline; ``demur gate``.

    Args:
        run: to be decided on.
        min_accuracy: scenario -> least share of right answers: ``{"full": 0.6}``.
        max_hallucination: scenario -> highest share of wrong answers.
        min_deflection: scenario -> least share of deflections.
        max_deflection: scenario -> highest share of deflections.
        baseline: a run that it must not be worse than.
        max_failed: share of failed answers above which the system counts as down.
        strict: decide although nobody has labelled answers of the run; else it only advises.

    Returns:
        ``state`` (pass, fail, cannot tell, down), ``exit_code``, ``checks``; ``text()``, ``markdown()``, ``junit()``.

    Raises:
        UsageError: nothing is asked of it, or the baseline is of another release, corpus, judge or prompt.
    """
    from demur.reports.gate import gate as decided
    from demur.reports.gate import limits

    def folder(one: StrPath | Evaluation) -> Path:
        return one.folder if isinstance(one, Evaluation) else Path(one)

    asked = [
        limit
        for side, rate, given in (
            ("min", "accuracy", min_accuracy), ("max", "hallucination", max_hallucination),
            ("min", "deflection", min_deflection), ("max", "deflection", max_deflection),
        )
        for limit in limits([f"{name}={share:f}" for name, share in (given or {}).items()], side, rate)  # type: ignore[arg-type]
    ]  # fmt: skip
    release = run.release if isinstance(run, Evaluation) else None
    return decided(
        folder(run), asked, baseline=None if baseline is None else folder(baseline), release=release,
        most_failed=max_failed, strict=strict,
    )  # fmt: skip


def report(
    runs: StrPath | Evaluation | Sequence[StrPath | Evaluation],
    out: StrPath = "report.html",
    *,
    release: StrPath | None = None,
    tables: StrPath | None = None,
    groups: Mapping[str, str] | None = None,
) -> Path:
    """One self-contained HTML file of some runs; returns its path.

    Args:
        runs: evaluations, run folders, or folders that hold runs.
        out: the file to write.
        release: that they were asked from; the evaluations' own, or the one beside the first run, when None.
        tables: a folder that gets tables (.txt .md .tex .csv) and figures (.svg) for a paper.
        groups: run name -> ``open``, ``closed`` or words of your own: the section of Table 4 that it belongs in.
    """
    from demur.reports.data import load
    from demur.reports.html import write_report

    several = [runs] if isinstance(runs, str | Path | Evaluation) else list(runs)
    known = (r.release for r in several if isinstance(r, Evaluation) and r.release is not None)
    beside = next(known, None) if release is None else Path(release)
    data = load([r.folder if isinstance(r, Evaluation) else Path(r) for r in several], beside)
    write_report(data, Path(out), groups=groups, tables=None if tables is None else Path(tables))
    return Path(out)


def from_docs(
    docs: StrPath,
    questions: StrPath,
    out: StrPath,
    *,
    accept_found: bool = False,
    progress: bool = False,
    **options: Any,
) -> DocsRelease:
    """A small release from documents and questions of one's own; ``demur from-docs``.

    Args:
        docs: a folder or file of documents: Markdown, text, HTML, PDF, rows of tables; or a corpus by name.
        questions: a list or a log: JSONL, CSV, Parquet, or a question a line; answers where they are known.
        out: folder: ``release``, ``corpora``, ``review``.
        accept_found: wait for no person's look at what was found as gold.
        progress: show it on standard error.
        options: name, version, chunk, candidates, distractors, licence, skip_bad
            (`demur.curation.from_docs.make.from_docs`).

    Returns:
        ``release``, or None and in ``waiting`` the questions whose passages somebody must look at (in ``review``).
    """
    from demur.core.progress import QUIET, TerminalProgress
    from demur.curation.from_docs.make import from_docs as made

    with TerminalProgress() if progress else QUIET as steps:
        return made(Path(docs), Path(questions), Path(out), accept_found=accept_found, steps=steps, **options)


def suite(name: str) -> Suite[Any, Any]:
    """The suite of a name, such as ``vb``: a benchmark that is not the four scenarios (`demur.suites.Suite`).

    Raises:
        UnknownPart: no suite has that name; lists those that exist.
    """
    from demur.suites import suite as found

    return found(name)
