"""Croissant 1.1 metadata of a release (JSON-LD, mlcommons.org/croissant): its files with their hashes, its records, and
the responsible-AI properties (`demur.release.responsible_ai`).

It has all that a reader needs to load the records: the file and column of each field, which fields are lists, and where
the bytes of an image are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from demur.release import responsible_ai as rai
from demur.release.facts import NOBODY, facts_of

_TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {term: f"cr:{term}" for term in _TERMS.split()} | {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
"""The vocabulary that Croissant 1.1 prescribes."""

_KINDS = {
    "parquet": "application/x-parquet",
    "jsonl": "application/jsonlines",
    "json": "application/json",
    "md": "text/markdown",
    "cff": "application/yaml",
    "yaml": "application/yaml",
}


def croissant_metadata(manifest: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a release."""
    name, version = manifest["name"], manifest["version"]
    authors, facts = list(manifest.get("authors") or ()) or [NOBODY], facts_of(manifest)
    stated = {"url": facts.url, "inLanguage": list(facts.language)}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", rai.CONFORMS_TO],
        "name": name,
        "version": version,
        "description": f"{manifest['counts']['samples']} questions with gold evidence and distractors",
        "creator": [{"@type": "sc:Person", "name": author} for author in authors],
        "license": rai.licences_of(manifest) or ["see README.md"],
        "datePublished": manifest["published"],
        **{name: value for name, value in stated.items() if value},
        **rai.responsible_ai(manifest),
        "citeAs": bibtex(manifest),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file,
                "name": file,
                "contentUrl": file,
                "encodingFormat": _KINDS[file.rpartition(".")[2]],
                "sha256": sha,
            }
            for file, sha in sorted(files.items())
        ],
        "recordSet": [
            _records(
                "samples",
                [
                    *(
                        _field("samples", text)
                        for text in (
                            "id",
                            "source",
                            "split",
                            "topic",
                            "cluster",
                            "question",
                            "answer",
                            "answers",
                            "licence",
                            "canary",
                        )
                    ),
                    _field("samples", "answerable", "sc:Boolean"),
                    _field("samples", "images", "sc:ImageObject", path="[*].bytes", repeated=True),
                    *(
                        _field("samples", role, path="[*].id", repeated=True)
                        for role in ("gold", "negatives")
                    ),
                ],
            ),
            _records(
                "evidence",
                [
                    *(
                        _field("evidence", text)
                        for text in (
                            "id",
                            "document",
                            "page",
                            "licence",
                            "modality",
                            "title",
                            "text",
                            "canary",
                        )
                    ),
                    _field("evidence", "image", "sc:ImageObject", path="bytes"),
                ],
            ),
        ],
    }


def bibtex(manifest: Mapping[str, Any]) -> str:
    """A BibTeX entry for this release."""
    authors, facts = list(manifest.get("authors") or ()) or [NOBODY], facts_of(manifest)
    name, version = manifest["name"], manifest["version"]
    fields = {
        "author": " and ".join(authors),
        "title": f"{name}, version {version}",
        "year": manifest["published"][:4],
        "url": facts.url,
    }
    key = re.sub(r"[^a-z0-9]+", "-", f"{name}-{version}".lower())
    lines = [f"  {field} = {{{_tex(text)}}}" for field, text in fields.items() if text]
    return "\n".join([f"@misc{{{key},", *(f"{line}," for line in lines), "}"])


def _tex(text: str) -> str:
    """A text inside braces: no brace or command of its own."""
    return " ".join(re.sub(r"[{}\\]", " ", text).split())


def _records(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": {"@id": f"{name}/id"},
        "field": fields,
    }


def _field(
    table: str, column: str, kind: str = "sc:Text", *, path: str = "", repeated: bool = False
) -> dict[str, Any]:
    source: dict[str, Any] = {
        "fileObject": {"@id": f"data/{table}.parquet"},
        "extract": {"column": column},
    }
    if path:
        source["transform"] = {"jsonPath": path}
    field = {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "dataType": kind,
        "source": source,
    }
    return field | ({"repeated": True} if repeated else {})
