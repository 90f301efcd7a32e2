"""The demo: the whole workflow on the built-in sample, with real parts.

Atlas -> a versioned release -> three systems in four scenarios -> verdicts -> a report.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from demur.core.errors import MissingExtra, UsageError
from demur.core.progress import QUIET, Progress
from demur.core.store import read_json, write_json
from demur.curation.build.curate import curate
from demur.curation.build.recipe import BuildRecipe, parse_recipe
from demur.curation.build.sample_pool import sample_sources
from demur.evaluation.asking import ask
from demur.evaluation.options import RunOptions
from demur.indexing.encoders import open_encoder
from demur.models.ledger import Ledger
from demur.reports.data import ReportData, load
from demur.reports.html import write_report
from demur.reports.terminal import summarised
from demur.sample import llm
from demur.scenarios.contexts import standard
from demur.scenarios.render import Layout

if TYPE_CHECKING:
    from demur.models import Estimate

CAREFUL = "reader?min=0.55"
"""The reader that declines; its threshold comes from the confidences of the always-answering reader."""
SMALL = "SmolLM2-135M"
SMALL_NOTE = "a 135-million-parameter text-only language model, asked a few text questions: too small to judge models by"
SMALL_SAMPLES = 3
"""Number of questions for it, unless fewer are drawn per topic (`_small_samples`)."""
BY_CONSTRUCTION = (
    "it also decided which samples are solvable and which distractors stay, so its accuracy is 100 % with gold alone "
    "and about 0 % with distractors alone by construction"
)
LAYOUT = Layout(images="none", max_tokens=450)
OWN = ("release", "runs", "build", "index", "report.html", "summary.json", "demo.json")
"""Files that the demo writes into its folder."""


def _small_samples(plan: BuildRecipe) -> int:
    return min(SMALL_SAMPLES, (plan.sources[0].per_topic or SMALL_SAMPLES) + 1)


def recipe(seed: int = 0, per_topic: int | None = None) -> BuildRecipe:
    """The demo's recipe (``demur/sample/demo.yaml``) with another seed and, where given, another size."""
    data = yaml.safe_load(files("demur.sample").joinpath("demo.yaml").read_text(encoding="utf-8"))
    if per_topic is not None:
        data["sources"] = [{**source, "per_topic": per_topic} for source in data["sources"]]
    return parse_recipe({**data, "seed": seed}, "demo.yaml")


def demo(
    out: Path,
    *,
    seed: int = 0,
    per_topic: int | None = None,
    fresh: bool = False,
    model: bool = True,
    steps: Progress = QUIET,
) -> tuple[ReportData, dict[str, Any]]:
    """Run the demo; continues an interrupted one in the same folder.

    Args:
        out: folder for release, runs, working files, ``report.html`` and ``summary.json``.
        seed: seed of every random draw and order; the same seed gives the same bytes.
        per_topic: questions per topic; the recipe's own number when None.
        fresh: first delete the files of an earlier demo there.
        model: include the small language model, if its weights are available.
        steps: receives the progress.

    Returns:
        The runs, as a report reads them, and the summary: with what was left out (and the command that installs it),
        and the seconds of each stage.

    Raises:
        UsageError: ``out`` holds another demo or other files.
        MissingExtra: the demo's packages are not installed.
    """
    if per_topic is not None and per_topic < 1:
        raise UsageError(f"per-topic {per_topic}", cure="give 1 or more")
    plan = recipe(seed, per_topic)
    _claim(out, {"seed": seed, "per_topic": plan.sources[0].per_topic, "model": model}, fresh)
    encoder = open_encoder(plan.retrieval.encoder)
    left_out: list[str] = []
    with ExitStack() as stack:
        steps.stage("start the small language model")
        address = _model(stack, left_out) if model else ""
        if not address:
            plan = plan.model_copy(
                update={
                    "gates": tuple(g for g in plan.gates if g.name != SMALL),
                    "limits": (*plan.limits, "The small language model took no part as a gate."),
                }
            )
        small = f"model:{address}"
        named = {"layout": LAYOUT, "note": SMALL_NOTE, "name": SMALL}
        models = {SMALL: {"system": small, **named}} if address else None
        built = curate(plan, out, steps=steps, encoder=encoder, models=models)
        steps.stage("ask three systems in four scenarios")
        sampling = {
            "temperature": 0,
            "max_tokens": 32,
            "seed": 0,
            "extra": {"cache_prompt": False},
            **named,
        }
        options = RunOptions(seed=seed, out=out / "runs")
        of_small = RunOptions(
            seed=seed,
            out=out / "runs",
            limit=_small_samples(plan),
            text_only=True,
            system_options=sampling,
            concurrency=2,
            ledger=out / "build" / "calls.sqlite",
        )
        swept = RunOptions(seed=seed, out=out / "runs", distractors=(0, 5))
        with ThreadPoolExecutor(1) as other:  # the model answers in its own process in parallel
            waiting = (
                other.submit(ask, built.release, [small], of_small, steps=steps)
                if address
                else None
            )
            runs = [
                *ask(
                    built.release,
                    ["reader"],
                    options,
                    encoder=encoder,
                    caveat=BY_CONSTRUCTION,
                    steps=steps,
                ),
                *ask(built.release, [CAREFUL], swept, encoder=encoder, steps=steps),
            ]
            if waiting is not None:
                runs += waiting.result()
    steps.stage("write the report")
    data = load(runs, out / "release")
    write_report(data, out / "report.html")
    steps.stage("")
    took = {k: round(v, 1) for k, v in steps.times.items()}
    summary = {**summarised(data), "left_out": left_out, "seconds": took}
    write_json(out / "summary.json", summary)
    return data, summary


def plan_demo(
    out: Path,
    *,
    seed: int = 0,
    per_topic: int | None = None,
    model: bool = True,
    per_second: float | None = None,
) -> Estimate:
    """An upper bound of the demo's calls to its language model, which runs on this machine and costs nothing.

    Args:
        out: the demo's folder; stored replies are not requested again.
        seed: as for `demo`.
        per_topic: as for `demo`.
        model: as for `demo`; without it there are no calls.
        per_second: replies per second, to estimate the time.
    """
    from demur.models import Estimate, EstimateLine
    from demur.models.estimate import check_rate

    check_rate(per_second)
    if not model:
        return Estimate(
            notes=("no model is called: the demo's other systems compute their answers",)
        )
    plan = recipe(seed, per_topic)
    with TemporaryDirectory() as folder:  # planning leaves the folder empty
        samples = len(sample_sources(plan.sources, Path(folder), seed=plan.seed).samples)
    path = out / "build" / "calls.sqlite"
    had = 0
    if path.is_file():
        with Ledger(path, read_only=True) as ledger:
            had = sum(s.replies for s in ledger.stats())
    asks = _small_samples(plan) * len(standard())
    lines = []
    for stage, calls in (("gate", samples), ("run", asks)):
        cached = min(had, calls)
        had -= cached
        seconds = None if per_second is None else (calls - cached) / per_second
        lines.append(
            EstimateLine(
                stage=stage,
                model=SMALL,
                calls=calls,
                cached=cached,
                money=0.0,
                expected=0.0,
                seconds=seconds,
            )
        )
    note = "an upper bound: the gate is a text model and gets no questions about images; it runs here at no cost"
    return Estimate(lines=tuple(lines), notes=(note,))


def _model(stack: ExitStack, left_out: list[str]) -> str:
    """Start the model's server; returns "", and appends the reason to ``left_out``, when that fails."""
    why = llm.fetch()
    if not why:
        try:
            return stack.enter_context(llm.serving())
        except (UsageError, MissingExtra) as error:
            why = str(error)
    left_out.append(
        f"the small language model took no part: {why} - install its weights with: {llm.BY_HAND}"
    )
    return ""


def _claim(out: Path, mark: dict[str, Any], fresh: bool) -> None:
    """Check that the folder is empty or holds the same demo, and mark it."""
    path = out / "demo.json"
    if fresh and path.exists():
        for name in OWN:
            target = out / name
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink(
                missing_ok=True
            )
    if path.exists():
        if read_json(path) != mark:
            options = ", ".join(f"{name} {value}" for name, value in read_json(path).items())
            raise UsageError(
                f"holds a demo with other options ({options})",
                item=str(out),
                cure="choose another --out, or add --fresh",
            )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            "not empty, and not a folder of the demo", item=str(out), cure="choose another --out"
        )
    write_json(path, mark)
