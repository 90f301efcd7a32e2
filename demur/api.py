"""The library as one uses it: a dozen functions; the values that they return stand in `demur.values`.

Everything takes ``str`` or `Path` where a path is meant, and text or objects where a part is meant (a system is a
name such as ``model:openai/gpt-4o``, or any function). All of it works where an event loop is already running (a
notebook). Results are values: they print as tables, show as tables in a notebook, and become pandas or Arrow by
``to_pandas()`` and ``to_arrow()``. The command's verbs call the same functions beneath.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from demur.core.errors import UsageError
from demur.values import Comparison, Evaluation, Index, StrPath

if TYPE_CHECKING:
    from demur.core.records import Verdict
    from demur.curation.from_docs.make import DocsRelease
    from demur.curation.recipe import BuildRecipe
    from demur.indexing.ivf import Kind
    from demur.release import Release
    from demur.reports.gate import Gate
    from demur.scenarios.systems import SystemLike
    from demur.suites import Suite

Scenarios = str | Sequence[str]
ALL = ("parametric", "oracle", "realistic", "adversarial")
"""The four scenarios (VLM-DeflectionBench, section 3.5)."""


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
    from demur.release.push import pull

    return Release.open(pull(text.removeprefix("hf:")))


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
            ``python:module:function``; ``NAME=`` before it says what to call it), a function, an object whose method
            ``answer`` is such a function, or one with the methods of `demur.scenarios.systems.System`. A function
            takes ``question``, ``images`` (list of bytes), ``evidence`` (list of dicts: id, title, text, image),
            ``choices``, ``id`` and ``strictness``, and, of a system with its own retriever, ``corpus`` and ``exclude``,
            whichever of them it names, or one dict of all; it returns a string, or a dict with ``answer``,
            ``confidence``, ``contexts``, ``citations`` ... It may be
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
    from demur.evaluation.questions import Questions
    from demur.release import Release
    from demur.scenarios.conditions import condition
    from demur.scenarios.contexts import WHOLE, recipe
    from demur.scenarios.systems import name_of, split_name

    opened = release if isinstance(release, Release) else open_release(release, out=out)
    money = None
    if budget is not None:
        from demur.models import Budget

        money = Budget(budget)
    called = name or split_name(system)[0]
    given = {**sampling, **({"name": called} if called else {})}
    texts = [one for text in _several(scenarios) for one in (WHOLE if text == "whole" else (text,))]
    with TerminalProgress() if progress else QUIET as steps:
        questions = Questions(
            [recipe(one, k=k) for one in texts], [condition(one) for one in _several(strictness)], seed, limit,
            text_only, repeat, None if corpora is None else Path(corpora),
        )  # fmt: skip
        [folder] = ask(
            opened, [system], Path(out), questions, judge=judge, options={name_of(system): given},
            encoder_name=encoder, concurrency=concurrency, budget=money, steps=steps, fresh=fresh, minutes=minutes,
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


def compare(
    first: StrPath | Evaluation,
    second: StrPath | Evaluation,
    *,
    every: bool = False,
    release: StrPath | None = None,
    items: int | None = None,
) -> Comparison:
    """Is the second run better or worse than the first, and where: paired over what both were asked.

    Args:
        first: the run to compare with.
        second: the one that may be better or worse.
        every: pool every shared question, sweeps and other prompts included.
        release: that they were asked from; the evaluations' own, or the one beside the first run, when None.
        items: read at most so many of the items that changed, each way; all when None.

    Raises:
        UsageError: they are not two runs.
    """
    from demur.reports.cells import headline
    from demur.reports.compare import compare as paired
    from demur.reports.data import load

    runs = [one if isinstance(one, Evaluation) else Evaluation(one) for one in (first, second)]
    known = next((r.release for r in runs if r.release is not None), None)
    data = load([r.folder for r in runs], known if release is None else Path(release))
    if len(data.runs) != 2:
        where = f"{runs[0].folder} and {runs[1].folder}"
        raise UsageError(f"{len(data.runs)} runs were found in {where}", cure="name two run folders")
    return Comparison(paired(data.runs[0], data.runs[1], data.samples, None if every else headline(data.runs), items))


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
    from demur.curation.indexes import build_from

    named = [str(one) for one in ([corpora] if isinstance(corpora, str | Path) else corpora)]
    build_from(
        named, Path(out), encoder=encoder, text_encoder=text_encoder, chunk=chunk, tokenizer=tokenizer, kind=kind,
        skip_bad=skip_bad, progress=progress,
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
    verdicts: str = "",
) -> Path:
    """One self-contained HTML file of some runs; returns its path.

    Args:
        runs: evaluations, run folders, or folders that hold runs.
        out: the file to write.
        release: that they were asked from; the evaluations' own, or the one beside the first run, when None.
        tables: a folder that gets tables (.txt .md .tex .csv) and figures (.svg) for a paper.
        groups: run name -> ``open``, ``closed`` or words of your own: the section of Table 4 that it belongs in.
        verdicts: of which judge, as ``demur judge run --name`` filed them; "" for the runs' own.
    """
    from demur.reports.data import load
    from demur.reports.html import write_report

    several = [runs] if isinstance(runs, str | Path | Evaluation) else list(runs)
    known = (r.release for r in several if isinstance(r, Evaluation) and r.release is not None)
    beside = next(known, None) if release is None else Path(release)
    data = load([r.folder if isinstance(r, Evaluation) else Path(r) for r in several], beside, verdicts=verdicts)
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
        options: name, version, chunk, candidates, distractors, licence, skip_bad, poison
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
