"""Atlas: the sample corpus, read by the generic adapter.

Layout of the folder (`demur.sample.atlas` is the shipped one):

- ``kb_text.jsonl``: passages - id, page, title, text, source, licence;
- ``kb_images.jsonl``: captioned images - id, page, title (the caption), file, source, licence, author;
- ``questions.jsonl``: id, style, kind, question, query_image, answers (the first is the one in the gold evidence, the
  others are accepted too), answer_kind, number, unit, gold_text, gold_images, support, entity, licence, ambiguous_with;
- ``images/`` and ``queries/``: the files those rows name, relative to the folder.
"""

from __future__ import annotations

from pathlib import Path

from demur.core.store import Problems
from demur.sample import atlas
from demur.sources.field_map import FieldMap
from demur.sources.generic import Generic

_OF_BOTH = {"page": "page", "source": "source", "licence": "licence"}
_MAP = FieldMap.model_validate(
    {
        "name": "atlas",
        "samples": {
            "files": ["questions.jsonl"],
            "split": "all",
            "fields": {
                "answer_kind": "answer_kind",
                "number": "number",
                "unit": "unit",
                "images": "query_image",
                "gold": ["gold_text", "gold_images"],
                "topic": "kind",
                "cluster": "entity",
                "licence": "licence",
                "attributes": ["style", "ambiguous_with"],
            },
        },
        "documents": [
            {"files": ["kb_text.jsonl"], "fields": {"text": "text", **_OF_BOTH}},
            {
                "files": ["kb_images.jsonl"],
                "fields": {"image": "file", "attributes": ["author"], **_OF_BOTH},
            },
        ],
    }
)


class Atlas(Generic):
    """Reads an Atlas folder: passages and images in the order of their files, then questions.

    ``page`` of a document groups a country's passages, flag and map (``dz``), or a thing's photo and passage
    (``koala``). A sample's topic is the question's kind, its cluster the entity; the style is among the attributes.

    Args:
        folder: the corpus; the one shipped with demur if None.
        problems: where bad rows are noted.
    """

    name = "atlas"
    _map = _MAP

    def __init__(self, folder: Path | None = None, problems: Problems | None = None) -> None:
        super().__init__(atlas() if folder is None else folder, problems)
