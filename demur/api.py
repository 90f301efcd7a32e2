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
from demur.values import Comparison, Evaluation, Index, StrPath

if TYPE_CHECKING:
    from demur.core.progress import Progress
    from demur.core.records import Verdict
    from demur.curation.from_docs.make import DocsRelease
    from demur.curation.recipe import BuildRecipe
    from demur.indexing.ivf import Kind
    from demur.models import Budget
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
    from demur.curation.sources import source_named
    from demur.release import Release

    text = str(path)
    if source := source_named(text):
        from demur.curation.from_source import release_of

        with trusting(code=trust_code, hosts=trust_hosts):
            return release_of(source, Path(out), skip_bad=skip_bad)
    if skip_bad:
        raise UsageError("--skip-bad is for a source, NAME:FOLDER", item=text, cure="leave it out")
    if not text.startswith("hf:"):
        return Release.open(Path(path))
    from demur.release.push import pull

    return Release.open(pull(text.removeprefix("hf:")))


@checked
def evaluate(
    release: StrPath | Release,
    system: SystemLike,
    *,
    scenarios: Scenarios = "all",
    k: int = 2,
    strictness: Scenarios = "moderate",
    limit: int | None = None,
    text_only: bool = False,
    corpora: StrPath | None = None,
    seed: int = 0,
    repeat: int = 1,
    judge: str = "local",
    out: StrPath = "runs",
    name: str = "",
    concurrency: int | None = None,
    budget: float | None = None,
    encoder: str = "",
    fresh: bool = False,
    progress: bool = False,
    minutes: float | None = None,
    trust_code: bool = False,
    trust_hosts: bool = False,
    **sampling: Any,
) -> Evaluation:
    """Ask a system the questions of a release in some scenarios, judge the answers, and store everything.

    Args:
        release: folder, ``hf:...`` or opened.
        system: a name (``reader``, ``model:openai/gpt-4o``, ``http:rag.yaml``, ``answers:FILE``,
            ``python:module:function``; a ``NAME=`` prefix names it), a function, an object whose method ``answer`` is
            such a function, or one with the methods of `demur.scenarios.systems.System`. A function takes any of
            ``question``, ``images`` (list of bytes), ``evidence`` (list of dicts: id, title, text, image), ``choices``,
            ``id``, ``strictness``, and, for a system with its own retriever, ``corpus`` and ``exclude``, or one dict of
            all. It returns a string, or a dict with ``answer``, ``confidence``, ``contexts``, ``citations`` ... It may
            be async; one thread calls a plain one unless ``concurrency`` is given.
        scenarios: ``all`` four, names or recipes: ``oracle``, ``adversarial(k=3)``. For a system with its own retriever
            ``whole``: full, gold-removed and empty.
        k: distractors, where a recipe gives no number.
        strictness: prompting conditions: none, soft, moderate, severe, or all; ``+strict``, ``+confidence``,
            ``+reasoning``.
        limit: number of samples to ask, drawn by the seed; None for all.
        text_only: ask only questions that need no images.
        corpora: folder of ``demur corpus export``, for the scenarios of ``whole``.
        seed: seed of every random draw and order.
        repeat: independent answers to each question.
        judge: who grades.
        out: folder for the run folders. Stored answers are not requested again: with another limit, seed, other
            scenarios or prompts the system's run grows, and holds what was asked before. An edited function is another
            system.
        name: name of the run, for one apart from the others; the system's own when empty.
        concurrency: calls at once.
        budget: dollars; stops before exceeding them, and the same call continues.
        encoder: for systems that read with embeddings; the release's own when empty.
        fresh: reuse no stored answers.
        progress: show progress on standard error.
        minutes: ask nothing new after this time; the same call continues.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.
        sampling: options for models: temperature, max_tokens ...

    Raises:
        UsageError: a part does not exist, or no question can be asked this way.
        BudgetReached: the budget is used up.
        CallError: a model cannot be reached at all; received answers are kept.
    """
    from demur.core.plugins import names
    from demur.core.spec import split_part
    from demur.evaluation.asking import ask
    from demur.evaluation.questions import Questions
    from demur.release import Release
    from demur.scenarios.conditions import conditions
    from demur.scenarios.contexts import recipes
    from demur.scenarios.systems import name_of, split_name
    from demur.scenarios.systems.model import Sampling

    if not isinstance(release, Release):
        release = open_release(release, out=out, trust_code=trust_code, trust_hosts=trust_hosts)
    run_name, spec = split_name(system)
    run_name = name or run_name
    takes_own_options = isinstance(spec, str) and split_part(spec)[0] not in names(
        "systems"
    )  # module:Class takes what it likes
    if (
        unknown := []
        if takes_own_options
        else sorted(sampling.keys() - set(Sampling.model_fields) - {"layout", "note"})
    ):
        arguments = [*evaluate.__annotations__, *Sampling.model_fields]
        cure = (
            did_you_mean(unknown[0], arguments)
            or f"options of models are {', '.join(sorted(Sampling.model_fields))}"
        )
        raise UsageError(f"no argument {unknown[0]!r}", item="evaluate", cure=cure)
    system_options = {**sampling, **({"name": run_name} if run_name else {})}
    with _steps(progress) as steps, trusting(code=trust_code, hosts=trust_hosts):
        questions = Questions(
            recipes(_several(scenarios), k=k),
            conditions(_several(strictness)),
            seed,
            limit,
            text_only,
            repeat,
            None if corpora is None else Path(corpora),
        )
        [folder] = ask(
            release,
            [system],
            Path(out),
            questions,
            judge=judge,
            options={name_of(system): system_options},
            encoder_name=encoder,
            concurrency=concurrency,
            budget=_budget(budget),
            steps=steps,
            fresh=fresh,
            minutes=minutes,
        )
    return Evaluation(folder, release.folder)


@checked
def sweep(
    release: StrPath | Release,
    system: SystemLike,
    *,
    distractors: tuple[int, int] | None = None,
    positions: tuple[int, int] | None = None,
    modality: bool = False,
    scenarios: Scenarios = "all",
    k: int = 2,
    **options: Any,
) -> Evaluation:
    """Evaluate a system under everything that varies: `Evaluation.rates` has a line for each.

    Args:
        release: folder, ``hf:...`` or opened.
        system: as `evaluate` takes it.
        distractors: lowest and highest number of distractors, Realistic.
        positions: lowest and highest position of the gold among k distractors, Realistic.
        modality: the Realistic scenario by modality of gold and distractors.
        scenarios: asked besides.
        k: distractors, where a recipe gives no number.
        options: as `evaluate` takes them, such as ``strictness="all"``, ``limit`` and ``out``.
    """
    from demur.scenarios import contexts

    recipes = [
        *contexts.recipes(_several(scenarios), k=k),
        *(contexts.sweep(*distractors) if distractors else ()),
        *(contexts.positions(*positions, k) if positions else ()),
        *(contexts.grid(k) if modality else ()),
    ]
    return evaluate(release, system, scenarios=list(map(str, recipes)), k=k, **options)


def _several(texts: Scenarios) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _folder(run: StrPath | Evaluation) -> Path:
    return run.folder if isinstance(run, Evaluation) else Path(run)


def _budget(dollars: float | None) -> Budget | None:
    from demur.models import Budget

    return None if dollars is None else Budget(dollars)


def _steps(progress: bool) -> Progress:
    from demur.core.progress import QUIET, TerminalProgress

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
    from demur.curation.indexes import build_from
    from demur.indexing.options import IndexOptions

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
        options=IndexOptions(kind=kind, skip_bad=skip_bad, fresh=fresh, progress=progress),
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
        recipe: a YAML file, or a `demur.curation.recipe.BuildRecipe`.
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
    from demur.curation.build import curate
    from demur.curation.recipe import BuildRecipe, load_recipe

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
