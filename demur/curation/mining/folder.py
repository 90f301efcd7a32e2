"""The folder that `demur mine` writes: samples with mined distractors.

``samples.jsonl`` (with distractors), ``drops.jsonl`` (hits that were left out, and why), ``mining.json`` (counts,
recall) and, on request, ``rows.jsonl`` (training rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from demur.core.errors import UsageError
from demur.core.plugins import names
from demur.core.progress import QUIET, Progress
from demur.core.records import Sample
from demur.core.store import JsonlLog, storage_errors, write_json
from demur.core.text import whole_number
from demur.corpora.leaks import Leaks
from demur.curation.mining.choose import Mined
from demur.curation.mining.gold import align_gold_of_sample
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import check_images, choose_modes, tune_probes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import Mining, modes_of, supported_options
from demur.curation.mining.training import Format, rows_of
from demur.pools.read import MINED, Pool
from demur.retrieval.cross_encoder import CrossEncoder
from demur.retrieval.indexes import open_searcher
from demur.sources import NamedSource, source_named

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.retrieval.recall import Choice
    from demur.retrieval.search import Searcher


class Samples(NamedTuple):
    """Samples by name: a pool folder, or a source (`demur.sources.NamedSource`)."""

    text: str

    @property
    def source(self) -> NamedSource | None:
        """The source; None of a pool."""
        return source_named(self.text)

    def open(self) -> Any:
        """Open the source or pool at its beginning."""
        return self.source.open() if self.source else Pool(Path(self.text))

    def pages(self, text: str) -> dict[str, int]:
        """``10,evqa=5`` as {"": 10, "evqa": 5}.

        Raises:
            UsageError: the text is malformed, or names a source that neither demur nor the samples have.
        """
        pages_of_source: dict[str, int] = {}
        for part in text.split(",") if text else ():
            source, _, number = part.rpartition("=")
            pages = whole_number(number.strip())
            if not pages or source.strip() in pages_of_source:
                raise UsageError(
                    f"--pages {text[:80]!r} is not N or N,SOURCE=N", cure="the paper's is 10,evqa=5"
                )
            pages_of_source[source.strip()] = pages
        if unknown := pages_of_source.keys() - {"", *names("sources")}:
            sources_there = {sample.source for sample in self.open().samples()}
            if unknown := unknown - sources_there:
                known_sources = ", ".join(sorted(sources_there))
                raise UsageError(
                    f"--pages: no sample is of {', '.join(sorted(unknown))}",
                    cure=f"their sources: {known_sources}",
                )
        return pages_of_source

    def about(self) -> dict[str, Any]:
        """The samples' origin, from which a build can use the folder (`demur.pools.read`)."""
        name, folder, options = self.source or NamedSource("", Path(self.text))
        place = folder and str(folder.resolve())
        return {"source": name, "folder": place, "options": dict(options)}


class MinedFolder(NamedTuple):
    """Result of `mine_folder`."""

    summary: dict[str, Any]
    choices: tuple[Choice, ...]
    probes: tuple[str, ...]
    """A line for each vector index with inverted lists."""


class FolderOptions(TypedDict, total=False):
    """How `mine_folder` opens the index, which samples it reads, and what it writes beside them."""

    pages: Mapping[str, int]
    """Source -> pages opened for an image, where they differ from the mining options."""
    encoder: str | None
    """Of the index; None: the one in its manifest."""
    text_encoder: str | None
    """Of its passages, likewise."""
    engine: RayEngine | None
    """Searches vectors; None is this process."""
    probes: int | None
    """Inverted lists searched per question; None tunes them by recall."""
    limit: int | None
    """Use only this many samples, the first."""
    skip_bad: bool
    """Leave bad rows out, and count them."""
    rows: Format | None
    """Layout of ``rows.jsonl``; None writes none."""
    seed: int
    """Of ``sampling: random``."""


def mine_folder(
    samples: Samples,
    index: Path,
    out: Path,
    options: MiningOptions,
    *,
    steps: Progress = QUIET,
    **settings: Unpack[FolderOptions],
) -> MinedFolder:
    """Mine distractors for every sample, and write them.

    Args:
        out: folder to write to; earlier files there are replaced.
        options: number and kinds of distractors, and which candidates may be taken.
        settings: see `FolderOptions`.

    Raises:
        UsageError: the index has none of the wanted kinds, or ``out`` is the folder of the samples.
        BadInput: rows that are not samples, all of them.
    """
    origin = samples.about()  # a wrong name is refused before the index is read
    modes_of(options)  # raises for a wrong mode
    probes, pages = settings.get("probes"), settings.get("pages", {})
    cross_encoder = CrossEncoder(options.cross_encoder) if options.cross_encoder else None
    searcher = open_searcher(
        index, settings.get("encoder"), settings.get("text_encoder"), settings.get("engine")
    )
    supported = _supported(options, searcher, index, steps)
    if probes and not searcher.lists:
        raise UsageError(
            "--probes for an index without inverted lists", item=index, cure="leave it out"
        )
    reader = _Reader(samples, settings.get("limit"))
    if out.resolve() == reader.source.root.resolve():
        raise UsageError(
            "the samples are read from this folder", item=out, cure="choose another --out"
        )
    mining = Mining(searcher, reader.source.root, supported, steps, cross_encoder)
    check_images(searcher, mining.root, supported, steps)
    if probes:
        for part in searcher.lists:
            searcher.probe(part, probes)
    elif searcher.lists:
        depths = {supported.pages, *pages.values()}
        searches = [supported.model_copy(update={"pages": n}) for n in depths]
        tune_probes(reader.read(), searcher, mining.root, searches, steps)
    steps.stage("choose the mode of each source by recall of gold")
    chosen = choose_modes(reader.read(), mining, pages_of=pages)
    reader.source.problems.settle(skip_bad=settings.get("skip_bad", False))
    steps.stage("mine")
    gold: Counter[str] = Counter()
    aligned = (
        align_gold_of_sample(sample, searcher, Leaks(sample, mining.image_hashes), gold)
        for sample in reader.read()
    )
    mined = mine_samples(
        aligned, mining, chosen, total=chosen.question_count, seed=settings.get("seed", 0)
    )
    counts = _write(mined, out, settings.get("rows"), options.text + options.lexical)
    summary = {
        "from": origin,
        "index": searcher.id,
        "gold": dict(sorted(gold.items())),
        **counts,
        "probes": [setting._asdict() for setting in searcher.probes.values()],
        "recall": [_recall_row(choice) for choice in chosen.choices],
        "skipped": reader.source.problems.summary(),
    }
    write_json(out / MINED, summary)
    return MinedFolder(
        summary, tuple(chosen.choices), tuple(str(setting) for setting in searcher.probes.values())
    )


class _Reader:
    """Reads the samples, again and again."""

    def __init__(self, samples: Samples, limit: int | None) -> None:
        self._samples, self._limit = samples, limit
        self.source = samples.open()
        """As it was opened last."""

    def read(self) -> Iterator[Sample]:
        """The samples from the beginning."""
        self.source = self._samples.open()
        return islice(self.source.samples(), self._limit)


def _supported(
    options: MiningOptions, searcher: Searcher, index: Path, steps: Progress
) -> MiningOptions:
    """The options without the kinds that the index does not have, each with a warning.

    Raises:
        UsageError: nothing is left to mine.
    """
    supported, lacking = supported_options(options, searcher.modes)
    if lacking and not supported.wanted and not supported.adopts:
        raise UsageError(
            f"no distractor can be mined: {'; '.join(lacking)}",
            item=index,
            cure="mine kinds that the index has (--text, --lexical, --visual)",
        )
    for line in lacking:
        steps.warn(line)
    return supported


def _write(
    mined_samples: Iterable[tuple[Sample, Mined]], out: Path, rows: Format | None, wanted: int
) -> dict[str, Any]:
    """Write samples, drops and training rows as they are mined.

    Args:
        wanted: negatives of a training row that has all of them.

    Returns:
        Counts, for the summary.
    """
    left_out: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    without_distractors: list[str] = []
    total = 0
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        # a folder without the first is unfinished
        for name in (MINED, "samples.jsonl", "drops.jsonl", "rows.jsonl"):
            (out / name).unlink(missing_ok=True)
    with ExitStack() as logs:
        sample_log = logs.enter_context(JsonlLog(out / "samples.jsonl"))
        drop_log = logs.enter_context(JsonlLog(out / "drops.jsonl"))
        row_log = logs.enter_context(JsonlLog(out / "rows.jsonl")) if rows else None
        for sample, mined in mined_samples:
            sample_log.append(sample)
            if row_log is not None and rows:
                for row in rows_of(sample, mined, rows, wanted=wanted):
                    row_log.append(row)
            for drop in mined.drops:
                drop_log.append(drop)
                left_out[drop.reason] += 1
            kinds.update(e.mode for e in mined.negatives)
            total += 1
            if not mined.negatives:
                without_distractors.append(sample.id)
    return {
        "samples": total,
        "without_distractors": without_distractors,
        "distractors": dict(sorted(kinds.items())),
        "left_out": dict(sorted(left_out.items())),
    }


def _recall_row(choice: Choice) -> dict[str, Any]:
    return {
        "source": choice.source,
        "chosen": choice.mode,
        "at": choice.k,
        "own_image_in_index": choice.own_images_indexed,
        "gold_out_of_reach": choice.lacking,
        "modes": {
            mode: [m.model_dump(mode="json") for m in measures] for mode, measures in choice.table
        },
    }
