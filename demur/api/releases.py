"""Releases: built, estimated, built again, made from documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.checked import checked
from demur.core.progress import progress_if
from demur.core.untrusted import trusting
from demur.values import StrPath

if TYPE_CHECKING:
    from demur.curation.build.convergence import Convergence
    from demur.curation.build.curate import Built
    from demur.curation.build.estimate import BuildEstimate
    from demur.curation.build.folder import FolderRecipe
    from demur.curation.build.rebuild import Enlarged
    from demur.curation.build.recipe import BuildRecipe
    from demur.curation.from_docs.make import DocsRelease
    from demur.indexing.ray import RayEngine
    from demur.release import Release


@dataclass(frozen=True)
class BuildOptions:
    """How a build works; the release is the same."""

    exhaustive: bool = False
    """Ask every gating model every question."""
    hurry: bool = False
    """Keep every endpoint busy, for a few per cent more calls."""
    fresh: bool = False
    """Ask everything again, and pay again."""
    batch: bool | Path = False
    """Send calls in batches (half the price, within a day); a path writes the next wave of them there, and stops."""
    budget: float | None = None
    """Dollars; stops before exceeding them, and the same call continues."""
    prices: Path | None = None
    """Price table that overrides entries of the shipped one."""
    concurrency: int | None = None
    """Calls in flight per endpoint."""
    engine: RayEngine | None = None
    """The cluster that embeds and searches knowledge bases; None is this process."""
    progress: bool = False
    """Show progress on standard error."""


DEFAULTS = BuildOptions()


def build(opened: FolderRecipe, options: BuildOptions = DEFAULTS) -> Built:
    """Build a release from sources by a recipe: gates, mining, checks, freeze; continues an interrupted build.

    Args:
        opened: the recipe and its folder (`demur.curation.build.folder.recipe_at`); the release is ``work/release``.
        options: how.

    Raises:
        BadInput: problems of the sources; names all of them.
        UsageError: the recipe names unknown parts, or no sample remains.
    """
    from demur.curation.build.curate import curate

    with _work(options) as work:
        return curate(
            opened.recipe,
            opened.work,
            base=opened.base,
            skip_bad=opened.skip_bad,
            exhaustive=options.exhaustive,
            hurry=options.hurry,
            **work,
        )


def build_indexes(opened: FolderRecipe, options: BuildOptions = DEFAULTS) -> list[Path]:
    """Build the indexes of a recipe alone, without its gates; `build` in the same folder uses them.

    Args:
        opened: as of `build`.
        options: how.

    Returns:
        The folder of each index.
    """
    from demur.curation.build.curate import build_indexes as index_folder

    with _work(options) as work:
        del work["fresh"]  # of verdicts, which it does not touch
        return index_folder(
            opened.recipe, opened.work, base=opened.base, skip_bad=opened.skip_bad, **work
        )


@checked
def build_release(
    recipe: StrPath | BuildRecipe,
    out: StrPath,
    *,
    skip_bad: bool = False,
    trust_code: bool = False,
    trust_hosts: bool = False,
    **options: Any,
) -> Release:
    """Build a release from sources by a recipe: gates, mining, checks, freeze; continues an interrupted build.

    Args:
        recipe: a YAML file, or a `demur.curation.build.recipe.BuildRecipe`.
        out: build folder; the release is ``out/release``.
        skip_bad: leave out bad records, and count them.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.
        options: ``budget`` (dollars), ``concurrency``, ``progress`` ... (`BuildOptions`).

    Raises:
        BadInput: problems of the sources; names all of them.
        UsageError: the recipe names unknown parts, or no sample remains.
    """
    from demur.curation.build.folder import FolderRecipe, recipe_at
    from demur.curation.build.recipe import BuildRecipe

    with trusting(code=trust_code, hosts=trust_hosts):
        if isinstance(recipe, BuildRecipe):
            opened = FolderRecipe(recipe, Path(), skip_bad, Path(out))
        else:
            opened = recipe_at(Path(recipe), Path(out), skip_bad=skip_bad)
        return build(opened, BuildOptions(**options)).release


def plan_build(
    opened: FolderRecipe,
    *,
    rates: Mapping[str, float] | None = None,
    learn_from: Path | None = None,
    prices: Path | None = None,
    batch: bool = False,
    ready: bool = True,
    measure: bool = False,
) -> tuple[BuildEstimate, Sequence[str]]:
    """What a build would ask and cost; reads the sources, calls no model.

    Args:
        opened: as of `build`.
        rates: ``stage`` or ``gate/stage`` -> probability of a right answer; part of an index (``titles``, ``passages`` ...)
            -> items embedded per second. Both go before what was measured.
        learn_from: another build to estimate rates from.
        prices: price table that overrides entries of the shipped one.
        batch: calls go in batches.
        ready: look whether all that a build needs is there, servers of models among it; not of somebody else's recipe.
        measure: open the encoders and time them, for hours and disk.

    Returns:
        (the estimate, a line for each thing that the build would be refused for).
    """
    from demur.curation.build.context import unready
    from demur.curation.build.estimate import estimate_build
    from demur.models.run import run_sync

    estimate = estimate_build(
        opened.recipe,
        opened.work,
        base=opened.base,
        skip_bad=opened.skip_bad,
        rates=rates,
        prices=prices,
        batch=batch,
        learn_from=learn_from,
        measure=measure,
    )
    return estimate, run_sync(unready(opened.recipe)) if ready else ()


def rebuild(enlarged: Enlarged, options: BuildOptions = DEFAULTS) -> Built:
    """Make a release with more gates, asking only what is new.

    Args:
        enlarged: the release with its new gates (`demur.curation.build.rebuild.enlarge`).
        options: how.
    """
    from demur.curation.build.rebuild import rebuild as build_enlarged

    with _work(options) as work:
        return build_enlarged(enlarged, exhaustive=options.exhaustive, hurry=options.hurry, **work)


def converge(
    opened: FolderRecipe,
    options: BuildOptions = DEFAULTS,
    *,
    order: Sequence[str] | None = None,
    threshold: float = 0.02,
) -> Convergence:
    """Measure how many samples stay as gating models are added.

    Args:
        opened: as of `build`.
        options: how.
        order: in which to add the gates; None: weakest first.
        threshold: converged when each further gate removes less than this share of what is left.
    """
    from demur.curation.build.convergence import measure_convergence

    with _work(options) as work:
        return measure_convergence(
            opened.recipe,
            opened.work,
            base=opened.base,
            skip_bad=opened.skip_bad,
            order=order,
            threshold=threshold,
            **work,
        )


@contextmanager
def _work(options: BuildOptions) -> Iterator[dict[str, Any]]:
    """The options of any work on a build folder (`demur.curation.build.context.Work`)."""
    from demur.models import Budget
    from demur.models.batch import batching

    with (
        progress_if(options.progress) as steps,
        batching(options.batch, steps, fresh=options.fresh),
    ):
        yield {
            "steps": steps,
            "fresh": options.fresh,
            "budget": None if options.budget is None else Budget(options.budget),
            "prices": options.prices,
            "concurrency": options.concurrency,
            "engine": options.engine,
        }


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
        docs: a folder or file of documents: Markdown, text, HTML, PDF, pictures, rows of tables; or a corpus by name.
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

    with progress_if(progress) as steps, trusting(code=trust_code):
        return make_release(
            Path(docs),
            Path(questions),
            Path(out),
            accept_found=accept_found,
            steps=steps,
            **options,
        )
