"""The corpora of a release for a RAG system with its own index, from files (`demur.release.corpora` writes them)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from demur.core.errors import UsageError
from demur.core.records import Document, ImageRef
from demur.core.store import Problems
from demur.core.uris import read_image
from demur.corpora import read_corpus
from demur.pools.read import Pool
from demur.release import Release, documents_of
from demur.release.corpora import FORMS, Form, export


def export_corpora(
    release: Path,
    out: Path,
    *,
    pool: Path | None = None,
    form: Form = "jsonl",
    folds: int = 1,
    mix: str | None = None,
) -> dict[str, Any]:
    """Write ``full``, ``gold-removed`` and ``empty`` for a release.

    Args:
        pool: the pool that it was built from, for the whole knowledge base; None for the evidence of the release.
        form: ``jsonl``, ``parquet`` or ``markdown``.
        folds: as for `demur.release.corpora.export`.
        mix: a corpus of the user's own to mix in, named as for ``demur index build``.

    Returns:
        The content of ``corpora.json``.

    Raises:
        UsageError: an option is wrong, the pool holds no documents, or two documents have one id.
        DataError: a file is broken.
    """
    if form not in FORMS:
        raise UsageError(f"form {form!r}", cure=f"one of {', '.join(FORMS)}")
    opened = Release.open(release)
    samples = list(opened.samples())
    if pool is None:
        about = "the evidence of the release alone; --pool POOL gives the whole knowledge base"

        def documents() -> Iterable[Document]:
            shared_fields = ("id", "title", "text", "image", "document", "page", "licence")
            return (
                Document(**{n: getattr(e, n) for n in shared_fields})
                for e in documents_of(samples).values()
            )

        read = opened.read_image
    else:
        source = Pool(pool)
        about = f"the pool {source.root.name}"
        documents = source.documents
        if next(iter(documents()), None) is None:
            raise UsageError(
                "the pool holds no documents", item=pool, cure="demur pool build ... --documents"
            )

        def read(ref: ImageRef) -> bytes:
            return read_image(ref, source.root)

    def mixed() -> Iterator[Document]:
        if mix:
            problems = Problems()
            yield from read_corpus(mix, problems)
            problems.settle()

    return export(
        out,
        documents,
        samples,
        read_image=read,
        form=form,
        folds=folds,
        mixed=mixed,
        about=about,
        release={"name": opened.name, "version": opened.version, "sha256": opened.sha256},
    )
