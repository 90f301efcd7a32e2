"""Runs: asked, opened, compared, gated, reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from demur.core.checked import checked
from demur.core.errors import UsageError, did_you_mean
from demur.core.untrusted import trusting
from demur.values import Comparison, Evaluation, Report, StrPath

if TYPE_CHECKING:
    from demur.core.progress import Progress
    from demur.models import Budget
    from demur.release import Release
    from demur.reports.gate import Demands, Gate
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


def _release_of(
    runs: Sequence[StrPath | Evaluation], release: StrPath | None = None
) -> Path | None:
    """The release of some runs: the one that is named, else that of an evaluation."""
    if release is not None:
        return Path(release)
    return next((r.release for r in runs if isinstance(r, Evaluation) and r.release), None)


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

    folders = [one_run(_folder(r)) for r in (first, second)]
    data = load(folders, _release_of([first, second], release))
    return Comparison(
        paired(
            data.runs[0], data.runs[1], data.samples, None if every else headline(data.runs), items
        )
    )


@checked
def gate(
    run: StrPath | Evaluation,
    *,
    baseline: StrPath | Evaluation | None = None,
    release: StrPath | None = None,
    max_failed: float = 0.1,
    allow_undecided: bool = False,
    **demands: Unpack[Demands],
) -> Gate:
    """Decide whether a run is good enough, and not worse than a baseline; ``demur gate``.

    Args:
        run: the run.
        baseline: run that it must not be worse than.
        release: release of the run; the evaluation's own, or the one beside the run, when None.
        max_failed: share of failed answers above which the system counts as down.
        allow_undecided: what cannot be decided is green.
        demands: ``min_declined``, ``min_accuracy``, ``max_hallucination`` and ``max_deflection``: scenario -> share, as
            in ``{"full": 0.6}``; ``min_joint``: a share (`demur.reports.gate.Demands`).

    Returns:
        ``state`` (pass, fail, undecided, down), ``exit_code``, ``checks``; ``text()``, ``markdown()``, ``junit()``.

    Raises:
        UsageError: no limit and no baseline, a limit on a scenario that was not asked, or a baseline with another
            release, corpus, judge or prompt.
    """
    from demur.reports.gate import gate as decide
    from demur.reports.gate import limits_of

    return decide(
        _folder(run),
        limits_of(**demands),
        baseline=None if baseline is None else _folder(baseline),
        release=_release_of([run], release),
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
    image_budget: float = 12.0,
) -> Report:
    """Write one self-contained HTML file of some runs.

    Args:
        runs: evaluations, run folders, or folders that hold runs.
        out: file to write.
        release: release of the runs; the evaluations' own, or the one beside the first run, when None.
        tables: folder for tables (.txt .md .tex .csv) and figures (.svg) for a paper.
        groups: run name -> its section of Table 4: ``open``, ``closed`` or your own words.
        verdicts: name of the verdicts given by ``demur judge run --name``; "" for the runs' own.
        image_budget: megabytes of all images in the page; 0 for none.

    Raises:
        UsageError: a path is no run, there are no such verdicts, or the images' budget is none.
    """
    from demur.reports.data import load
    from demur.reports.html import write_report

    if not 0 <= image_budget < 1e6:
        raise UsageError(
            f"image budget {image_budget:g} MB",
            cure="write --image-budget 12, or 0 for no pictures",
        )
    all_runs = [runs] if isinstance(runs, str | Path | Evaluation) else list(runs)
    data = load([_folder(r) for r in all_runs], _release_of(all_runs, release), verdicts=verdicts)
    files = write_report(
        data,
        Path(out),
        image_budget=round(image_budget * 1_000_000),
        groups=groups,
        tables=None if tables is None else Path(tables),
    )
    return Report(Path(out), tuple(files), data)
