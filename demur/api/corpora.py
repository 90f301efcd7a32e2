"""Corpora, sources and indexes: joined, checked, built, opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.checked import checked
from demur.core.errors import UsageError
from demur.core.untrusted import trusting
from demur.values import Index, StrPath

if TYPE_CHECKING:
    from demur.indexing.ray import RayEngine
    from demur.pools.counts import PoolCounts
    from demur.sources.check import Checked


@checked
def build_index(
    corpora: StrPath | Sequence[StrPath],
    out: StrPath,
    *,
    encoder: str = "offline",
    text_encoder: str | None = None,
    chunk: str = "",
    tokenizer: str | None = None,
    image_root: Path | None = None,
    kind: str = "auto",
    allow_random: bool = False,
    skip_bad: bool = False,
    fresh: bool = False,
    progress: bool = False,
    **options: Any,
) -> Index:
    """Build an index folder from documents; continues an interrupted build, and reuses an equal finished one.

    Args:
        corpora: files, folders, pools or ``READER:PATH?key=value``, as ``demur index build`` takes them.
        out: index folder.
        encoder: encoder of images and texts.
        text_encoder: another encoder for passages.
        chunk: ``SIZE:OVERLAP`` in tokens (VLM-DeflectionBench: 250:32); empty to keep texts whole.
        tokenizer: a tokenizer.json; None counts words.
        image_root: folder that relative image paths start from; None: that of the source or pool, else the current one.
        kind: of the indexes of vectors: flat, ivf-flat, ivf-sq8, one of another package, or auto.
        allow_random: allow an encoder without trained weights.
        skip_bad: leave out bad documents, and list them in the folder.
        fresh: replace an index of other documents or encoders that is in ``out``.
        progress: show progress on standard error.
        options: lexical, queries, workers, parts, engine (`demur.indexing.options.IndexOptions`).

    Raises:
        UsageError: there is a tokenizer, but texts are not cut.
        BadInput: bad documents, all of them, unless ``skip_bad``.
    """
    from demur.core.store import Problems
    from demur.indexing.build import build_index as build_folder
    from demur.indexing.chunk import open_chunker
    from demur.indexing.encoders import open_encoder
    from demur.indexing.options import IndexOptions
    from demur.retrieval.indexes import read_corpora

    if tokenizer and not chunk:
        raise UsageError(
            "--tokenizer has no effect without --chunk", cure="add --chunk 250:32, or leave it out"
        )
    problems = Problems()
    names = [str(name) for name in ([corpora] if isinstance(corpora, str | Path) else corpora)]
    documents = read_corpora(names, problems, image_root)
    chunker = open_chunker(chunk, tokenizer) if chunk else None
    build_folder(
        documents if chunker is None else chunker.documents(documents),
        open_encoder(encoder, allow_random=allow_random),
        Path(out),
        IndexOptions(
            text_encoder=open_encoder(text_encoder, allow_random=allow_random)
            if text_encoder
            else None,
            kind=kind,
            skip_bad=skip_bad,
            fresh=fresh,
            progress=progress,
            problems=problems,
            corpus=", ".join(names),
            cut=chunker.setting if chunker else "",
            **options,
        ),
    )
    index = Index(out, encoder=encoder, text_encoder=text_encoder)
    index.cut = chunker.counts if chunker else None
    index.skipped = problems.summary(20)
    return index


@checked
def open_index(
    folder: StrPath,
    *,
    encoder: str | None = None,
    text_encoder: str | None = None,
    engine: RayEngine | None = None,
    trust_code: bool = False,
    trust_hosts: bool = False,
) -> Index:
    """Open an index folder for search.

    Args:
        folder: of the index.
        encoder: in place of the one that its manifest names.
        text_encoder: likewise, of its passages.
        engine: searches vectors; None is this process.
        trust_code: run code, and read files elsewhere, that the folders here name.
        trust_hosts: call hosts, and send environment variables, that the files here name.

    Raises:
        UntrustedFile: its manifest names code or files elsewhere.
    """
    with trusting(code=trust_code, hosts=trust_hosts):
        return Index(folder, encoder=encoder, text_encoder=text_encoder, engine=engine).opened()


def build_pool(sources: Sequence[str], out: Path, **options: Any) -> PoolCounts:
    """Join sources into one pool; returns its statistics.

    Args:
        sources: NAME:FOLDER?option=value each.
        out: the pool's folder.
        options: skip_bad, drop_duplicates, documents, limit (`demur.pools.write.build`).

    Raises:
        UnknownPart: a text names no source.
        BadInput: bad rows and samples, all of them, unless ``skip_bad``.
    """
    from demur.pools.write import build
    from demur.sources import source_at

    return build([source_at(text).open() for text in sources], out, **options)


def check_source(
    source: str, *, limit: int | None = None, pins: Path | None = None, published: bool = True
) -> Checked:
    """Read a source once; ``findings`` are what would silently change a benchmark.

    Args:
        source: ``NAME:FOLDER?option=value``.
        limit: read at most so many samples and documents.
        pins: YAML list of expected hashes and counts.
        published: compare with the counts of the card.
    """
    from demur.sources import source_at
    from demur.sources.cards import pins_for
    from demur.sources.check import check

    named = source_at(source)
    adapter = named.open()
    return check(adapter, pins_for(named.name, pins, published=published), limit)
