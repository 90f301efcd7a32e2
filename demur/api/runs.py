"""Runs: asked, opened, compared, gated, reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from demur.core.checked import checked
from demur.core.errors import UsageError, did_you_mean
from demur.core.untrusted import trusting
from demur.values import Comparison, Evaluation, Evaluations, Report, StrPath

if TYPE_CHECKING:
    from demur.core.progress import Progress
    from demur.evaluation.asks import Written
    from demur.evaluation.export import Exported
    from demur.evaluation.options import RunOptions
    from demur.models import Estimate
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


@checked
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


def _folder(run: StrPath | Evaluation) -> Path:
    return run.folder if isinstance(run, Evaluation) else Path(run)


def _release_of(
    runs: Sequence[StrPath | Evaluation], release: StrPath | None = None
) -> Path | None:
    """The release of some runs: the one that is named, else that of an evaluation."""
    if release is not None:
        return Path(release)
    return next((r.release for r in runs if isinstance(r, Evaluation) and r.release), None)


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
        UsageError: an argument is no run, or holds several; or the two share no question.
    """
    from demur.reports.cells import headline
    from demur.reports.compare import compare as paired
    from demur.reports.data import load, one_run

    folders = [one_run(_folder(r)) for r in (first, second)]
    data = load(folders, _release_of([first, second], release))
    head = None if every else headline(data.runs)
    result = paired(data.runs[0], data.runs[1], data.samples, head, items)
    if not result.shared:
        raise UsageError(
            "no question was asked of both",
            item=f"{folders[0]}, {folders[1]}",
            cure="compare runs of one release, with the same seed, scenarios and prompts",
        )
    return Comparison(result)


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
