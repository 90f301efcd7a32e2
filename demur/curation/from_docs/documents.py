"""Documents of a user's own, cut into passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from demur.core.errors import UsageError
from demur.core.records import Document
from demur.core.store import Problems
from demur.corpora import docs as docs_reader
from demur.corpora import read_corpus
from demur.corpora.lineage import document_of, page_of
from demur.indexing.chunk import Chunker, open_chunker

CUT = "250:32"
"""Words per passage, and words shared with the passage before."""


def read_documents(
    docs: Path,
    without: Sequence[Path],
    licence: str,
    problems: Problems,
    unused: dict[str, str],
    pages: Path,
) -> list[Document]:
    """The documents of a folder, a file, or a corpus by name.

    Args:
        unused: gets each picture that cannot be used, and why.
        pages: folder that pages of PDFs with pictures are rendered into.
        without: files in the folder that are none.
        licence: of documents that state none.
        problems: takes files and rows that cannot be read, and ids that occur twice.

    Raises:
        UsageError: there is none.
    """
    if docs.exists():
        documents = docs_reader.documents(
            docs, problems, unused, licence=licence, without=without, pages=pages
        )
    else:
        documents = read_corpus(str(docs), problems)
    document_of_id: dict[str, Document] = {}
    for document in documents:
        if document.id in document_of_id:
            problems.add(document.id, "two documents have this id")
        document_of_id[document.id] = document
    if not document_of_id and not len(problems):
        raise UsageError(
            "there is no document",
            item=str(docs),
            cure="give a folder of Markdown, text, HTML, PDF, pictures or JSONL",
        )
    return list(document_of_id.values())


def cut_passages(documents: Sequence[Document], chunk: str) -> list[Document]:
    """The passages of documents.

    Args:
        chunk: ``SIZE:OVERLAP`` in words; ``auto`` cuts files by `CUT` and keeps rows of tables (chunks of a store) as
            they are; ``none`` cuts nothing.
    """
    if chunk == "none":
        return list(documents)
    chunker: Chunker = open_chunker(CUT if chunk == "auto" else chunk)
    passages: list[Document] = []
    for document in documents:
        of_file = "format" in document.attributes
        passages += chunker.documents([document]) if of_file or chunk != "auto" else [document]
    return passages


def index_passages(passages: Sequence[Document]) -> Mapping[str, list[Document]]:
    """Id of a passage, document or page -> its passages."""
    passages_of_id: dict[str, list[Document]] = {}
    for passage in passages:
        for id in dict.fromkeys((passage.id, document_of(passage), page_of(passage))):
            passages_of_id.setdefault(id, []).append(passage)
    return passages_of_id
