"""WebQA: a text question over snippets and captioned pictures, with hard negatives of both kinds.

Layout of the folder: ``WebQA_train_val.json`` (one object keyed by Guid), ``imgs.tsv`` (``id<TAB>base64``) with
``imgs.lineidx`` (byte offset of every line; built by one pass when absent).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from demur.core.cells import answer_texts
from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems, digest
from demur.corpora.evqa import PICTURE_LICENCE
from demur.corpora.formats import LineIndex, Seen, first_existing, json_items
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    items,
    named_splits,
    remove_quotes,
    text_of,
    with_entities_decoded,
)

MARKS = re.compile(r"^(?:\[\d+\]\s*)+")
"""Reference marks at the beginning of some snippets."""


class WebQA(NativeSource):
    """Reads a WebQA folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``val``, ``train``, both with a comma, or ``all``; the test file has no labelled facts.

    Snippet ids are per question and one picture has many captions, so the id of a document is a hash of its content:
    the same snippet, or the same picture with the same caption, has the same id everywhere.
    """

    name = "webqa"
    licence = "CC0-1.0 (questions); pictures keep their Wikimedia licences"

    def __init__(self, folder: Path, problems: Problems | None = None, split: str = "val") -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("val", "train"), ("test",))

    def _read_rows(self) -> Iterator[tuple[str, str, Any]]:
        yield from json_items(self.need("WebQA_train_val.json"), self.problems)

    def documents(self) -> Iterator[Document]:
        """Every distinct snippet and captioned picture of all splits, in the order met."""
        seen = Seen()
        for place, guid, row in self._read_rows():
            if not isinstance(row, dict):  # samples() notes it
                continue
            facts: list[tuple[Document | None, str]] = (
                self.make(place, guid, partial(list, self._read_facts(row))) or []
            )
            for document, _ in facts:
                if document is not None and seen.add(document.id):
                    yield with_entities_decoded(document)

    def samples(self) -> Iterator[Sample]:
        """Questions of the chosen splits in the order of the file; topic = Qcate."""

        def rows_of_splits() -> Iterator[tuple[str, str, tuple[Any]]]:
            for place, guid, row in self._read_rows():
                if not isinstance(row, dict):
                    self.problems.add(place, f"expected an object, got {type(row).__name__}", guid)
                elif row.get("split") in self.splits:
                    yield place, guid, (row,)
                elif row.get("split") not in ("train", "val"):
                    self.problems.add(
                        place, f"split is {row.get('split')!r}, expected train or val", guid
                    )

        yield from self.records(rows_of_splits(), self._make_sample)

    def _make_sample(self, place: str, guid: str, row: dict[str, Any]) -> Sample:
        if "txt_Facts" in row or "img_Facts" in row:
            raise DataError(
                "the facts are not labelled (a test row)", cure="leave the test file out"
            )
        forms = [remove_quotes(form) for form in answer_texts(row["A"], "A")]
        category = str(row.get("Qcate") or "")
        answers = AnswerSpec(
            accepted=tuple((form,) for form in forms if form),
            rule=f"webqa:{category}" if category else "webqa",
        )
        raw = text_of(row, "Q")
        question = remove_quotes(raw)
        if question != raw.strip():
            self.notes["questions with literal quotes around them"] += 1
        gold: list[Evidence] = []
        others: list[Evidence] = []
        lacks: list[str] = []
        missing: list[str] = []
        for document, role_or_fault in self._read_facts(row):
            is_gold = role_or_fault.startswith("gold")
            if document is None:
                (lacks if is_gold else missing).append(role_or_fault)
            else:
                (gold if is_gold else others).append(
                    Evidence.of(document, Role.GOLD if is_gold else Role.DISTRACTOR)
                )
        if not gold and not lacks:
            lacks.append("gold evidence missing: no positive fact")
        with_pictures = self._store is not None  # without any, one problem says so
        return self.sample(
            place,
            guid,
            SampleParts(
                native=row,
                question=question,
                answers=answers,
                gold=gold,
                negatives=others,
                lacks=lacks,
                missing=missing if with_pictures else (),
                split=str(row["split"]),
                topic=category,
                attributes={
                    **({"subject": str(row["topic"])} if row.get("topic") else {}),
                    **(
                        {"missing_negatives": "; ".join(missing)}
                        if missing and not with_pictures
                        else {}
                    ),
                },
            ),
        )

    def _read_facts(self, row: dict[str, Any]) -> Iterator[tuple[Document | None, str]]:
        """(document, role) of every fact; (None, what is wrong) for an unusable one."""
        for kind, role in (("pos", "gold"), ("neg", "negative")):
            for fact in items(row.get(f"txt_{kind}Facts")):
                text = " ".join(MARKS.sub("", str(fact.get("fact") or "")).split())
                if text:
                    title = str(fact.get("title") or "")
                    about = {
                        "title": title,
                        "page": str(fact.get("url") or ""),
                        "licence": "CC-BY-SA",
                    }
                    yield (
                        Document(id=snippet_key(title, text), text=text, source=self.name, **about),
                        role,
                    )
                else:
                    yield None, f"{role} snippet without text: {fact.get('snippet_id')}"
        for kind, role in (("pos", "gold"), ("neg", "negative")):
            for fact in items(row.get(f"img_{kind}Facts")):
                image = self._find_image(fact.get("image_id"))
                if image.ref is not None:
                    title = str(fact.get("caption") or fact.get("title") or "")
                    about = {
                        "title": title,
                        "page": str(fact.get("url") or ""),
                        "licence": PICTURE_LICENCE,
                    }
                    key = picture_key(str(fact["image_id"]), title)
                    yield Document(id=key, image=image.ref, source=self.name, **about), role
                else:
                    yield None, f"{role} picture {image.status}: {image.name}"

    # --- images ---

    @cached_property
    def _store(self) -> LineIndex | None:
        path = first_existing(self.root, "imgs.tsv")
        if path is None:
            self.problems.add("imgs.tsv", "not in the folder: no picture can be shown")
            return None
        return LineIndex(path, path.with_suffix(".lineidx"))

    def _find_image(self, image_id: Any) -> FoundImage:
        name = str(image_id)
        if self._store is None:
            return FoundImage(name, None, "missing")
        try:
            number = int(name) % 10_000_000
            head = self._store.line(number, 64)
        except (ValueError, IndexError):
            return FoundImage(f"{name} (no such row in imgs.tsv)", None, "missing")
        if head.partition(b"\t")[0].decode("ascii", "replace") != name:
            return FoundImage(f"{name} (its row in imgs.tsv holds another id)", None, "missing")
        return self.images.at(f"tsv:{self._store.path.name}#{self._store.offsets[number]}", name)


def snippet_key(title: str, text: str) -> str:
    """Id of a snippet: equal where title and text are."""
    return "txt-" + digest(f"{title}\n{text}".encode(), 16)


def picture_key(image_id: str, caption: str) -> str:
    """Id of a picture with its caption."""
    return f"img-{image_id}-{digest(caption.encode(), 8)}"
