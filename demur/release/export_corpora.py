"""The corpora of a release for a RAG system with its own index, from files (`demur.release.corpora` writes them)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demur.core.errors import UsageError
from demur.core.records import Document, ImageRef
from demur.core.uris import read_image
from demur.pools.read import Pool
from demur.release import Release, documents_of
from demur.release.corpora import export


def export_corpora(
    release: Path,
    out: Path,
    *,
    pool: Path | None = None,
) -> dict[str, Any]:
    """Write ``full``, ``gold-removed`` and ``empty`` for a release.

    Args:
        pool: the pool that it was built from, for the whole knowledge base; None for the evidence of the release.

    Returns:
        The content of ``corpora.json``.

    Raises:
        UsageError: the pool holds no documents, or two documents have one id.
        DataError: a file is broken.
    """
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

    return export(
        out,
        documents,
        samples,
        read_image=read,
        about=about,
        release={"name": opened.name, "version": opened.version, "sha256": opened.sha256},
    )
