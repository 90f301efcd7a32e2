"""Builds Atlas out of the fetched inputs: ``python -m tools.atlas.build INPUTS OUT``.

Runs in the environment that `inputs.fetch` made; `tools.atlas` starts it there.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from tools.atlas import flags, inputs, maps, photos, wordnet
from tools.atlas.checks import NOTICES, check
from tools.atlas.entities import Entity, entities
from tools.atlas.facts import facts
from tools.atlas.passages import LICENCE as FACTBOOK_LICENCE
from tools.atlas.passages import SOURCE as FACTBOOK_SOURCE
from tools.atlas.passages import passages
from tools.atlas.questions import LICENCE, Asked, Country, Thing, ask

NOTICE_FOLDER = Path(__file__).with_name("notices")
_WORDNET_SOURCE = f"WordNet 3.0 via Debian dict-wn {inputs.DEBIAN['dict-wn']}"
_WORDNET_LICENCE = "WordNet 3.0 licence (permissive, notice required)"


class Corpus:
    """The rows and images of the corpus, gathered and then written."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.texts: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []
        self.queries: dict[str, tuple[Image.Image, dict[str, Any], dict[str, Any]]] = {}

    def picture(self, row: dict[str, Any], image: Image.Image, **options: Any) -> None:
        """Keep a knowledge-base image: its row, and its file at once."""
        self.pictures.append(row)
        self._save(row["file"], image, options)

    def query(
        self,
        file: str,
        image: Image.Image,
        source: str,
        licence: str,
        author: str = "",
        **options: Any,
    ) -> None:
        """Note a query image; its file is written when a question shows it."""
        row = {
            "file": file,
            "source": source,
            "licence": licence,
            **({"author": author} if author else {}),
        }
        self.queries[file] = (image, row, options)

    def _save(self, file: str, image: Image.Image, options: dict[str, Any]) -> None:
        path = self.out / file
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, optimize=True, **options)

    def write(self, asked: list[Asked]) -> None:
        """Write the JSONL files and the query images that the questions show."""
        shown = sorted({question.query_image for question in asked if question.query_image})
        for file in shown:
            image, _, options = self.queries[file]
            self._save(file, image, options)
        self._jsonl("kb_text.jsonl", self.texts)
        self._jsonl("kb_images.jsonl", self.pictures)
        self._jsonl("query_images.jsonl", [self.queries[file][1] for file in shown])
        self._jsonl("questions.jsonl", [question.row() for question in asked])

    def _jsonl(self, file: str, rows: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (self.out / file).write_text(lines, encoding="utf-8")


def build(work: Path, out: Path) -> dict[str, Any]:
    """Build the corpus from the inputs below ``work`` into ``out`` (emptied first) and return its manifest.

    Raises:
        ValueError: the built corpus does not hold what `checks` asks; the message lists why.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    corpus = Corpus(out)
    countries = _countries(corpus, work)
    things = _things(corpus, work, {iso: country.entity for iso, country in countries.items()})
    asked, lost = ask(countries, things)
    corpus.write(asked)
    for name in NOTICES:
        (out / name).write_text(
            (NOTICE_FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8"
        )
    problems = check(out)
    if problems:
        raise ValueError(
            f"{len(problems)} problem(s) in what was built:\n  " + "\n  ".join(problems)
        )
    manifest = _manifest(work, out, corpus, asked, lost)
    (out / "manifest.json").write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return manifest


def _countries(corpus: Corpus, work: Path) -> dict[str, Country]:
    found = entities(work, inputs.factbook_folder(work))
    every = maps.outlines(work)
    countries: dict[str, Country] = {}
    for iso, entity in found.items():
        made = passages(entity)
        for passage in made.values():
            row = {"id": passage.id, "page": iso, "title": passage.title, "text": passage.text}
            corpus.texts.append({**row, "source": FACTBOOK_SOURCE, "licence": FACTBOOK_LICENCE})
        image = flags.flag_image(work, iso)
        row = {"id": f"i-flag-{iso}", "page": iso, "file": f"images/flags/{iso}.png"}
        row |= {
            "title": f"Flag of {entity.in_sentence}",
            "source": flags.SOURCE,
            "licence": flags.LICENCE,
        }
        corpus.picture(row, image.quantize(64))
        glossy = flags.query_image(work, iso)
        if glossy:
            corpus.query(
                f"queries/flags/{iso}.jpg",
                glossy,
                flags.QUERY_SOURCE,
                flags.QUERY_LICENCE,
                quality=78,
            )
        symbols = made["symbols"].text if "symbols" in made else ""
        fields = {
            label: text for passage in made.values() for label, text in passage.fields.items()
        }
        countries[iso] = Country(
            entity=entity,
            passages=made,
            facts={}
            if entity.dependent
            else {k: f for k, f in facts(entity, fields).items() if f.section in made},
            visual=flags.visual_facts(entity, image, symbols),
            has_query_flag=glossy is not None,
            has_outline=not entity.dependent
            and entity.number in every
            and maps.detailed(every[entity.number]),
        )
    for iso, country in countries.items():
        code = country.entity.number
        if code not in every or iso in maps.LEFT_OUT:
            countries[iso] = Country(**{**vars(country), "has_outline": False})
            continue
        row = {"id": f"i-map-{iso}", "page": iso, "file": f"images/maps/{iso}.png"}
        row |= {
            "title": f"Location map of {country.entity.in_sentence}",
            "source": maps.SOURCE,
            "licence": maps.LICENCE,
        }
        corpus.picture(row, maps.draw(every, code, context=True, size=(256, 192)).quantize(24))
        if country.has_outline:
            outline = maps.draw(every, code, context=False, size=(224, 168)).quantize(8)
            corpus.query(f"queries/maps/{iso}.png", outline, maps.SOURCE, maps.LICENCE)
    return countries


def _things(corpus: Corpus, work: Path, known: dict[str, Entity]) -> dict[str, Thing]:
    things: dict[str, Thing] = {}
    for group, rows in photos.table().items():
        for row in rows:
            key = row["key"]
            caption = row.get("title") or _caption(row, known)
            pair = photos.pair(work, row["files"])
            kept = {
                "id": f"i-photo-{key}",
                "page": key,
                "file": f"images/photos/{key}.jpg",
                "title": caption,
            }
            kept |= {"source": pair.kept_photo.source, "licence": pair.kept_photo.licence}
            if pair.kept_photo.author:
                kept["author"] = pair.kept_photo.author
            corpus.picture(kept, pair.kept, quality=76)
            shown = pair.query_photo
            file = f"queries/photos/{key}.jpg"
            corpus.query(file, pair.query, shown.source, shown.licence, shown.author, quality=76)
            if "wordnet" in row:
                word = row["wordnet"]
                text = wordnet.gloss(work, word["lemma"], word["sense"], word["title"])
                passage = {"id": f"t-wn-{key}", "page": key, "title": word["title"], "text": text}
                corpus.texts.append(
                    {**passage, "source": _WORDNET_SOURCE, "licence": _WORDNET_LICENCE}
                )
            things[key] = Thing(row, caption, shown.licence, group)
    return things


def _caption(row: dict[str, Any], known: dict[str, Entity]) -> str:
    """``Colosseum, Rome, Italy``; nothing is said twice."""
    country = known[row["country"]].name if row["country"] else ""
    parts = [row["name"]]
    if row["place"] != row["name"]:
        parts.append(row["place"])
    if country and country not in row["place"]:
        parts.append(country)
    return ", ".join(parts)


def _manifest(
    work: Path, out: Path, corpus: Corpus, asked: list[Asked], lost: Counter[str]
) -> dict[str, Any]:
    """Versions and hashes of what went in and of what came out, and the counts."""
    styles: dict[str, Counter[str]] = {}
    for question in asked:
        styles.setdefault(question.style, Counter())[question.kind] += 1
    return {
        "name": "atlas",
        "licence_of_questions": LICENCE,
        "libraries": {name: inputs.PYTHON[name] for name in ("pycountry", "cairosvg", "pillow")},
        "inputs": inputs.digests(work),
        "counts": {
            "passages": len(corpus.texts),
            "images": len(corpus.pictures),
            "query_images": len(
                {question.query_image for question in asked if question.query_image}
            ),
            "questions": len(asked),
            "by_style_and_kind": {
                style: dict(sorted(kinds.items())) for style, kinds in sorted(styles.items())
            },
        },
        "planned_but_not_asked": dict(sorted(lost.items())),
        "outputs": {
            path.relative_to(out).as_posix(): inputs.file_sha256(path)
            for path in sorted(out.rglob("*"))
            if path.is_file()
        },
    }


if __name__ == "__main__":
    made = build(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(
        json.dumps(made["counts"], indent=1)
        + "\n"
        + json.dumps(made["planned_but_not_asked"])
        + "\n"
    )
