"""The public functions; `demur.values` holds the values that they return.

A path is a ``str`` or `Path`; a part is a name or an object (a system is a name such as ``model:openai/gpt-4o``, or any
function). All functions also work in a running event loop (a notebook). Results print as tables, also in a notebook,
and convert with ``to_pandas()`` and ``to_arrow()``. The command's verbs call the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from demur.core.checked import checked
from demur.core.errors import UsageError, did_you_mean
from demur.core.untrusted import trusting
from demur.values import Comparison, Evaluation, Evaluations, Index, StrPath

if TYPE_CHECKING:
    from demur.core.progress import Progress
    from demur.core.records import Verdict
    from demur.curation.build.recipe import BuildRecipe
    from demur.curation.from_docs.make import DocsRelease
    from demur.evaluation.asks import Written
    from demur.evaluation.export import Exported
    from demur.evaluation.options import RunOptions
    from demur.indexing.ivf import Kind
    from demur.models import Budget, Estimate
    from demur.release import Release
    from demur.reports.gate import Gate
    from demur.scenarios.systems import SystemLike

Scenarios = str | Sequence[str]


@checked
def open_release(
    path: StrPath,
    *,
    out: StrPath = "runs",
    skip_bad: bool = False,
    trust_code: bool = False,
    trust_hosts: bool = False,
) -> Release:
    """Open a release by name.

    Args:
        path: a release folder; ``hf:OWNER/NAME@v1.0.0`` on the Hugging Face Hub (downloaded once, then cached); or
            a source's native files (``mmmu:/data/mmmu?split=dev``; `demur sources show NAME` lists its options).
        out: of a source: folder that receives the release, as ``out/release``.
        skip_bad: of a source: leave out bad records, and count them.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.

    Raises:
        ReleaseError: the folder holds no finished release.
        UsageError: ``skip_bad`` for what is no source.
        StorageError: the release cannot be read or downloaded.
    """
    from demur.release import Release
    from demur.sources import source_named

    text = str(path)
    if source := source_named(text):
        from demur.release.from_source import release_of

        with trusting(code=trust_code, hosts=trust_hosts):
            return release_of(source, Path(out), skip_bad=skip_bad)
    if skip_bad:
        raise UsageError("--skip-bad is for a source, NAME:FOLDER", item=text, cure="leave it out")
    if not text.startswith("hf:"):
        return Release.open(Path(path))
    from demur.release.push import pull

    return Release.open(pull(text.removeprefix("hf:")))


def evaluate(
    release: StrPath | Release,
    system: SystemLike,
    *,
    name: str = "",
    progress: bool = False,
    trust_code: bool = False,
    trust_hosts: bool = False,
    **options: Any,
) -> Evaluation:
    """Ask a system the questions of a release in some scenarios, judge the answers, and store everything.

    >>> evaluate(RELEASE, my_rag, scenarios="oracle", limit=20)  # doctest: +SKIP

    Args:
        release: folder, ``hf:...`` or opened.
        system: a name (``reader``, ``model:openai/gpt-4o``, ``http:rag.yaml``, ``answers:FILE``,
            ``python:module:function``; a ``NAME=`` prefix names it), a function, an object whose method ``answer`` is
            such a function, or one with the methods of `demur.scenarios.systems.System`. A function takes any of
            ``question``, ``images`` (list of bytes), ``evidence`` (list of dicts: id, title, text, image), ``choices``,
            ``id``, ``strictness``, and, for a system with its own retriever, ``corpus`` and ``exclude``, or one dict of
            all. It returns a string, or a dict with ``answer``, ``confidence``, ``contexts``, ``citations`` ... It may
            be async; one thread calls a plain one unless ``concurrency`` is given.
        name: name of the run, for one apart from the others; the system's own when empty.
        progress: show progress on standard error.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.
        options: what is asked and how, such as ``scenarios``, ``k``, ``strictness``, ``limit``, ``judge``, ``out`` and
            ``budget`` (`demur.evaluation.options.RunOptions`; ``distractors``, ``positions`` and ``modality`` sweep);
            and options of the system: ``temperature``, ``max_tokens`` ...

    Raises:
        UsageError: a part or an option does not exist, or no question can be asked this way.
        BudgetReached: the budget is used up.
        CallError: a model cannot be reached at all; received answers are kept.
    """
    run_options = _run_options(system, name, options)
    [evaluation] = evaluate_all(
        release,
        [system],
        run_options,
        progress=progress,
        trust_code=trust_code,
        trust_hosts=trust_hosts,
    )
    return evaluation


sweep = evaluate
"""`evaluate` under everything that varies, such as ``distractors=(0, 5)``: `Evaluation.rates` has a line for each."""


def evaluate_all(
    release: StrPath | Release,
    systems: Sequence[SystemLike],
    options: RunOptions,
    *,
    progress: bool | Progress = False,
    trust_code: bool = False,
    trust_hosts: bool = False,
) -> Evaluations:
    """`evaluate` for several systems: all are checked before the first is asked, and they share the budget.

    Args:
        release: folder, ``hf:...`` or opened.
        systems: as `evaluate` takes them.
        options: what is asked and how.
        progress: show progress on standard error.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.
    """
    from demur.evaluation.asking import ask
    from demur.release import Release

    with _steps(progress) as steps, trusting(code=trust_code, hosts=trust_hosts):
        if not isinstance(release, Release):
            release = open_release(release, out=options.out)
        return Evaluations(ask(release, systems, options, steps=steps), release.folder)


def plan_evaluation(
    release: Release,
    systems: Sequence[str],
    options: RunOptions,
    *,
    per_second: float | None = None,
) -> Estimate:
    """What `evaluate_all` would cost, and which limits of `gate` its questions could not decide; calls no model.

    Args:
        release: opened.
        systems: by name.
        options: what is asked and how.
        per_second: replies per second, for the time.
    """
    from demur.evaluation.asking import planned
    from demur.reports.gate import limits_not_decidable

    plan = planned(release, systems, options, per_second=per_second)
    note = limits_not_decidable(options, release)
    return plan.model_copy(update={"notes": (*plan.notes, note)})


def write_asks(
    release: Release, file: StrPath, options: RunOptions, images: StrPath | None = None
) -> Written:
    """Write the questions that `evaluate` would ask, for a system that demur does not run.

    Args:
        release: opened.
        file: ``.jsonl``, or ``.csv`` (lists as JSON).
        options: what is asked.
        images: folder for the images; they are only named when None.
    """
    from demur.evaluation import asks

    return asks.write_asks(release, Path(file), options, None if images is None else Path(images))


def export(
    release: Release, framework: Literal["inspect", "lmms-eval"], options: RunOptions
) -> Exported:
    """Write the questions as tasks of another evaluation framework, graded there as demur does.

    Args:
        release: opened.
        framework: whose tasks.
        options: what is asked, the judge, and in ``out`` the folder to write to.
    """
    from demur.evaluation.for_inspect import export_inspect
    from demur.evaluation.for_lmms_eval import export_lmms_eval

    write = export_inspect if framework == "inspect" else export_lmms_eval
    return write(release, options)


def _run_options(system: SystemLike, name: str, options: dict[str, Any]) -> RunOptions:
    """The options of one system: those of the run, and its own."""
    from demur.core.plugins import names
    from demur.core.spec import split_part
    from demur.evaluation.options import RunOptions
    from demur.scenarios.systems import split_name
    from demur.scenarios.systems.model import Sampling

    spec = split_name(system)[1]
    of_system = {k: v for k, v in options.items() if k not in RunOptions.model_fields}
    takes_any = isinstance(spec, str) and split_part(spec)[0] not in names("systems")
    known = [*Sampling.model_fields, "layout", "note"]
    if unknown := [] if takes_any else sorted(of_system.keys() - set(known)):
        cure = did_you_mean(unknown[0], [*RunOptions.model_fields, *known])
        raise UsageError(
            f"no argument {unknown[0]!r}",
            item="evaluate",
            cure=cure or f"options of models are {', '.join(sorted(Sampling.model_fields))}",
        )
    of_run = {k: v for k, v in options.items() if k not in of_system}
    named = {"name": name} if name else {}
    return RunOptions.of({**of_run, "system_options": {**of_system, **named}})


def _several(texts: Scenarios) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _folder(run: StrPath | Evaluation) -> Path:
    return run.folder if isinstance(run, Evaluation) else Path(run)


def _budget(dollars: float | None) -> Budget | None:
    from demur.models import Budget

    return None if dollars is None else Budget(dollars)


def _steps(progress: bool | Progress) -> Progress:
    from demur.core.progress import QUIET, Progress, TerminalProgress

    if isinstance(progress, Progress):
        return progress
    return TerminalProgress() if progress else QUIET


@checked
def open_run(folder: StrPath, release: StrPath | None = None) -> Evaluation:
    """Open a run folder of ``demur run``, ``demur sweep`` or `evaluate`.

    Args:
        folder: run folder.
        release: release of the run; the one beside it when None.

    Raises:
        UsageError: the folder is no run, or holds several.
    """
    from demur.reports.data import one_run

    return Evaluation(one_run(Path(folder)), release)


@checked
def compare(
    first: StrPath | Evaluation,
    second: StrPath | Evaluation,
    *,
    every: bool = False,
    release: StrPath | None = None,
    items: int | None = None,
) -> Comparison:
    """Test whether the second run is better or worse than the first, and where, on the questions asked of both.

    Args:
        first: run to compare with.
        second: run that may be better or worse.
        every: compare every shared question, including sweeps and other prompts.
        release: release of the runs; the evaluations' own, or the one beside the first run, when None.
        items: most changed items to read, each way; None for all.

    Raises:
        UsageError: an argument is no run, or holds several.
    """
    from demur.reports.cells import headline
    from demur.reports.compare import compare as paired
    from demur.reports.data import load, one_run

    release_of_runs = next(
        (r.release for r in (first, second) if isinstance(r, Evaluation) and r.release is not None),
        None,
    )
    folders = [one_run(_folder(r)) for r in (first, second)]
    data = load(folders, release_of_runs if release is None else Path(release))
    return Comparison(
        paired(
            data.runs[0], data.runs[1], data.samples, None if every else headline(data.runs), items
        )
    )


@checked
def grade(
    question: str,
    answers: str | Sequence[str],
    response: str,
    *,
    judge: str = "local",
    choices: Mapping[str, str] | Sequence[tuple[str, str]] = (),
) -> Verdict:
    """Grade one response: correct, incorrect or deflected; failed for an empty one, unjudged where a judge's call fails.

    Args:
        question: the question.
        answers: accepted answers; any one of them is right.
        response: the system's response. Untrusted.
        judge: who grades.
        choices: letter -> text of the options; ``answers`` are then letters or texts of the right ones.

    >>> grade("Which river is it?", answers=["Danube"], response="The Danube, I think.").outcome.value
    'correct'
    """
    from pydantic import ValidationError

    from demur.core.store import why_invalid
    from demur.evaluation.rejudge import GradeRow, grade_items, row_item
    from demur.judge.base import open_judge

    try:
        row = row_item(
            GradeRow(
                id="grade",
                question=question,
                answers=tuple(_several(answers)),
                response=response,
                choices=dict(choices),
            )
        )
    except ValidationError as error:
        raise UsageError(
            why_invalid(error), item="grade", cure="give an accepted answer, not an empty one"
        ) from error
    [verdict] = grade_items(open_judge(judge), [row])
    return verdict


@checked
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
    fresh: bool = False,
    progress: bool = False,
) -> Index:
    """Build an index folder from documents; continues an interrupted build, and reuses an equal finished one.

    Args:
        corpora: files, folders, pools or ``READER:PATH?key=value``, as ``demur index build`` takes them.
        out: index folder.
        encoder: encoder of images and texts.
        text_encoder: another encoder for passages.
        chunk: ``SIZE:OVERLAP`` in tokens (VLM-DeflectionBench: 250:32); empty to keep texts whole.
        tokenizer: a tokenizer.json; None counts words.
        kind: kind of vector index.
        skip_bad: leave out bad documents, and list them in the folder.
        fresh: replace an index of other documents or encoders that is in ``out``.
        progress: show progress on standard error.
    """
    from demur.retrieval.indexes import build_from

    corpus_names = [
        str(corpus) for corpus in ([corpora] if isinstance(corpora, str | Path) else corpora)
    ]
    build_from(
        corpus_names,
        Path(out),
        encoder=encoder,
        text_encoder=text_encoder,
        chunk=chunk,
        tokenizer=tokenizer,
        kind=kind,
        skip_bad=skip_bad,
        fresh=fresh,
        progress=progress,
    )
    return Index(out, encoder=encoder, text_encoder=text_encoder)


@checked
def open_index(
    folder: StrPath,
    *,
    encoder: str | None = None,
    text_encoder: str | None = None,
    trust_code: bool = False,
    trust_hosts: bool = False,
) -> Index:
    """Open an index folder for search.

    Args:
        folder: of the index.
        encoder: in place of the one that its manifest names.
        text_encoder: likewise, of its passages.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.

    Raises:
        UntrustedFile: its manifest names code or files elsewhere.
    """
    with trusting(code=trust_code, hosts=trust_hosts):
        return Index(folder, encoder=encoder, text_encoder=text_encoder)


@checked
def build_release(
    recipe: StrPath | BuildRecipe,
    out: StrPath,
    *,
    skip_bad: bool = False,
    budget: float | None = None,
    concurrency: int | None = None,
    progress: bool = False,
    trust_code: bool = False,
    trust_hosts: bool = False,
) -> Release:
    """Build a release from sources by a recipe: gates, mining, checks, freeze; continues an interrupted build.

    Args:
        recipe: a YAML file, or a `demur.curation.build.recipe.BuildRecipe`.
        out: build folder; the release is ``out/release``.
        skip_bad: leave out bad records, and count them.
        budget: dollars; stops before exceeding them, and the same call continues.
        concurrency: calls in flight per endpoint.
        progress: show progress on standard error.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.

    Raises:
        BadInput: problems of the sources; names all of them.
        UsageError: the recipe names unknown parts, or no sample remains.
    """
    from demur.curation.build.curate import curate
    from demur.curation.build.recipe import BuildRecipe, load_recipe

    build_recipe = recipe if isinstance(recipe, BuildRecipe) else load_recipe(Path(recipe))
    base = Path() if isinstance(recipe, BuildRecipe) else Path(recipe).parent
    with _steps(progress) as steps, trusting(code=trust_code, hosts=trust_hosts):
        return curate(
            build_recipe,
            Path(out),
            base=base,
            skip_bad=skip_bad,
            budget=_budget(budget),
            steps=steps,
            concurrency=concurrency,
        ).release


@checked
def gate(
    run: StrPath | Evaluation,
    *,
    min_declined: Mapping[str, float] | None = None,
    min_accuracy: Mapping[str, float] | None = None,
    max_hallucination: Mapping[str, float] | None = None,
    max_deflection: Mapping[str, float] | None = None,
    min_joint: float | None = None,
    baseline: StrPath | Evaluation | None = None,
    max_failed: float = 0.1,
    allow_undecided: bool = False,
) -> Gate:
    """Decide whether a run is good enough, and not worse than a baseline; ``demur gate``.

    Args:
        run: the run.
        min_declined: scenario -> lowest share declined of the questions that it is right to decline.
        min_accuracy: scenario -> lowest share of right answers: ``{"full": 0.6}``.
        max_hallucination: scenario -> highest share of wrong answers.
        max_deflection: scenario -> highest share of deflections.
        min_joint: lowest share of questions that are right in all scenarios of the run.
        baseline: run that it must not be worse than.
        max_failed: share of failed answers above which the system counts as down.
        allow_undecided: what cannot be decided is green.

    Returns:
        ``state`` (pass, fail, undecided, down), ``exit_code``, ``checks``; ``text()``, ``markdown()``, ``junit()``.

    Raises:
        UsageError: no limit and no baseline, a limit on a scenario that was not asked, or a baseline with another
            release, corpus, judge or prompt.
    """
    from demur.reports.gate import gate as decide
    from demur.reports.gate import limits_of

    limits = limits_of(min_declined, min_accuracy, max_hallucination, max_deflection, min_joint)
    release = run.release if isinstance(run, Evaluation) else None
    return decide(
        _folder(run),
        limits,
        baseline=None if baseline is None else _folder(baseline),
        release=release,
        most_failed=max_failed,
        allow_undecided=allow_undecided,
    )


@checked
def report(
    runs: StrPath | Evaluation | Sequence[StrPath | Evaluation],
    out: StrPath = "report.html",
    *,
    release: StrPath | None = None,
    tables: StrPath | None = None,
    groups: Mapping[str, str] | None = None,
    verdicts: str = "",
) -> Path:
    """Write one self-contained HTML file of some runs; returns its path.

    Args:
        runs: evaluations, run folders, or folders that hold runs.
        out: file to write.
        release: release of the runs; the evaluations' own, or the one beside the first run, when None.
        tables: folder for tables (.txt .md .tex .csv) and figures (.svg) for a paper.
        groups: run name -> its section of Table 4: ``open``, ``closed`` or your own words.
        verdicts: name of the verdicts given by ``demur judge run --name``; "" for the runs' own.
    """
    from demur.reports.data import load
    from demur.reports.html import write_report

    all_runs = [runs] if isinstance(runs, str | Path | Evaluation) else list(runs)
    releases = (r.release for r in all_runs if isinstance(r, Evaluation) and r.release is not None)
    release_used = next(releases, None) if release is None else Path(release)
    data = load([_folder(r) for r in all_runs], release_used, verdicts=verdicts)
    write_report(data, Path(out), groups=groups, tables=None if tables is None else Path(tables))
    return Path(out)


@checked
def from_docs(
    docs: StrPath,
    questions: StrPath,
    out: StrPath,
    *,
    accept_found: bool = False,
    progress: bool = False,
    trust_code: bool = False,
    **options: Any,
) -> DocsRelease:
    """Make a small release from your own documents and questions; ``demur from-docs``.

    Args:
        docs: a folder or file of documents: Markdown, text, HTML, PDF, rows of tables; or a corpus by name.
        questions: JSONL, CSV, Parquet, or one question per line; with answers where they are known.
        out: folder for ``release``, ``corpora`` and ``review``.
        accept_found: accept the proposed gold passages without a review.
        progress: show progress on standard error.
        trust_code: read files elsewhere that links in the folder lead to.
        options: name, version, chunk, candidates, distractors, licence, skip_bad
            (`demur.curation.from_docs.make.from_docs`).

    Returns:
        ``release``, or None and in ``waiting`` the questions whose passages need a review (in ``review``).
    """
    from demur.curation.from_docs.make import from_docs as make_release

    with _steps(progress) as steps, trusting(code=trust_code):
        return make_release(
            Path(docs),
            Path(questions),
            Path(out),
            accept_found=accept_found,
            steps=steps,
            **options,
        )
