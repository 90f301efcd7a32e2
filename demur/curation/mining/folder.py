"""The folder that `demur mine` writes: samples with mined distractors.

``samples.jsonl`` (with distractors), ``drops.jsonl`` (hits that were left out, and why), ``mining.json`` (counts,
recall) and, on request, ``rows.jsonl`` (training rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.plugins import names
from demur.core.progress import QUIET, Progress
from demur.core.records import Sample
from demur.core.store import JsonlLog, storage_errors, write_json
from demur.core.text import whole_number
from demur.corpora.leaks import Leaks
from demur.corpora.near_duplicates import HASHES_IN_MEMORY, ImageHashes
from demur.curation.mining.gold import align_gold_of_sample
from demur.curation.mining.mine import mine_samples
from demur.curation.mining.modes import check_images, choose_modes, tune_probes
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import modes_of, supported_options
from demur.curation.mining.training import Format, rows_of
from demur.pools.read import MINED, Pool
from demur.retrieval.indexes import open_searcher
from demur.sources import NamedSource, source_named

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.retrieval.recall import Choice


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


def mine_folder(
    samples: Samples,
    index: Path,
    out: Path,
    options: MiningOptions,
    *,
    pages: Mapping[str, int] | None = None,
    encoder: str | None = None,
    text_encoder: str | None = None,
    engine: RayEngine | None = None,
    probes: int | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    rows: Format | None = None,
    seed: int = 0,
    steps: Progress = QUIET,
) -> MinedFolder:
    """Mine distractors for every sample, and write them.

    Args:
        out: folder to write to; earlier files there are replaced.
        options: number and kinds of distractors, and which candidates may be taken.
        pages: source -> pages opened for an image, where they differ from ``options.pages``.
        encoder: of the index; None: the one in its manifest.
        text_encoder: of its passages, likewise.
        engine: searches vectors; None is this process.
        probes: inverted lists searched per question; None tunes them by recall.
        limit: use only this many samples, the first.
        skip_bad: leave bad rows out, and count them.
        rows: layout of ``rows.jsonl``; None writes none.

    Raises:
        UsageError: the index has none of the wanted kinds, or ``out`` is the folder of the samples.
        BadInput: rows that are not samples, all of them.
    """
    origin = samples.about()  # a wrong name is refused before the index is read
    pages = pages or {}
    modes_of(options)  # raises for a wrong mode
    searcher = open_searcher(index, encoder, text_encoder, engine)
    supported, lacking = supported_options(options, searcher.modes)
    if lacking and not supported.wanted and not supported.adopts:
        raise UsageError(
            f"no distractor can be mined: {'; '.join(lacking)}",
            item=index,
            cure="mine kinds that the index has (--text, --lexical, --visual)",
        )
    if probes and not searcher.lists:
        raise UsageError(
            "--probes for an index without inverted lists", item=index, cure="leave it out"
        )
    source = samples.open()
    if out.resolve() == source.root.resolve():
        raise UsageError(
            "the samples are read from this folder", item=out, cure="choose another --out"
        )

    def read_samples() -> Iterator[Sample]:
        nonlocal source
        source = samples.open()
        return islice(source.samples(), limit)

    check_images(searcher, source.root, supported, steps)
    for line in lacking:
        steps.warn(line)
    if probes:
        for part in searcher.lists:
            searcher.probe(part, probes)
    elif searcher.lists:
        searches = [
            supported.model_copy(update={"pages": n}) for n in {supported.pages, *pages.values()}
        ]
        tune_probes(read_samples(), searcher, source.root, searches, steps)
    steps.stage("choose the mode of each source by recall of gold")
    chosen = choose_modes(read_samples(), searcher, source.root, supported, steps, pages_of=pages)
    source.problems.settle(skip_bad=skip_bad)
    steps.stage("mine")
    left_out: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    short: list[str] = []
    total = 0
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for name in (
            MINED,
            "samples.jsonl",
            "drops.jsonl",
            "rows.jsonl",
        ):  # a folder without the first is unfinished
            (out / name).unlink(missing_ok=True)
    with ExitStack() as logs:
        sample_log, drop_log = (
            logs.enter_context(JsonlLog(out / f"{name}.jsonl")) for name in ("samples", "drops")
        )
        training = logs.enter_context(JsonlLog(out / "rows.jsonl")) if rows else None
        read_again = read_samples()
        image_hashes = ImageHashes(source.root, most=HASHES_IN_MEMORY)
        at_cut = (
            align_gold_of_sample(sample, searcher, Leaks(sample, image_hashes), gold)
            for sample in read_again
        )
        for sample, mined in mine_samples(
            at_cut,
            searcher,
            source.root,
            supported,
            chosen,
            steps,
            image_hashes,
            chosen.question_count,
            seed=seed,
        ):
            sample_log.append(sample)
            if training is not None and rows:
                for row in rows_of(sample, mined, rows, wanted=options.text + options.lexical):
                    training.append(row)
            for drop in mined.drops:
                drop_log.append(drop)
                left_out[drop.reason] += 1
            kinds.update(e.mode for e in mined.negatives)
            total += 1
            if not mined.negatives:
                short.append(sample.id)
    summary = {
        "from": origin,
        "index": searcher.id,
        "gold": dict(sorted(gold.items())),
        "samples": total,
        "without_distractors": short,
        "distractors": dict(sorted(kinds.items())),
        "left_out": dict(sorted(left_out.items())),
        "probes": [setting._asdict() for setting in searcher.probes.values()],
        "recall": [_recall_row(choice) for choice in chosen.choices],
        "skipped": source.problems.summary(),
    }
    write_json(out / MINED, summary)
    return MinedFolder(
        summary, tuple(chosen.choices), tuple(str(setting) for setting in searcher.probes.values())
    )


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
