"""Encyclopedic-VQA: a question about the subject of up to five interchangeable photographs.

Layout of the folder: ``test.csv``, ``val.csv``, ``train.csv``; ``encyclopedic_kb_wiki.json`` or the ``.zip`` that
holds it (read in place); iNaturalist photographs below ``inaturalist/`` or ``inat/``, named by ``inat_id2name.json``
(id -> file name), ``val_id2name.json``, ``train_id2name.json`` or iNaturalist's own ``val.json`` and ``train.json``;
landmark photographs as ``landmarks/{train,index,test}/0/0/a/00ab12cd34ef5678.jpg`` (or ``google-landmark/``).
``kb_images.jsonl`` (url, file) may name downloaded pictures of the knowledge base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from demur.core.errors import DataError
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import Problems, digest
from demur.core.text import whole_number
from demur.corpora import evqa
from demur.corpora.formats import (
    Lookup,
    csv_rows,
    first_existing,
    json_elements,
    json_items,
)
from demur.corpora.lineage import quotation_id
from demur.sources.native import (
    FoundImage,
    NativeSource,
    SampleParts,
    fields_as_attributes,
    first_there,
    named_splits,
    one_of,
    text_of,
    with_entities_decoded,
)

REQUIRED = (
    "question",
    "answer",
    "dataset_image_ids",
    "dataset_name",
    "question_type",
    "wikipedia_url",
    "evidence_section_id",
)

_EMPTY = re.compile(r"\b(?:the answer is|a|an|the)\b|[^\w\s]|_", re.IGNORECASE)
"""Matches what the official normalisation deletes."""


class EncyclopedicVQA(NativeSource):
    """Reads an Encyclopedic-VQA folder.

    Args:
        folder: see the module's layout.
        problems: where bad rows are noted.
        split: ``test``, ``val``, ``train``, several with a comma, or ``all``.
        images: ``first`` asks each question once, with the first of its photographs that can be read; ``each`` asks
            it once per photograph (the dataset's size is given in such triplets).
        types: question types to keep (``templated,automatic,multi_answer,2_hop``) or ``all``.

    ``question_original`` names the subject; it stays in ``native`` and no system gets it.
    """

    name = "evqa"
    licence = "unstated (questions); CC-BY-SA (Wikipedia text); photographs keep their own licences"

    def __init__(
        self,
        folder: Path,
        problems: Problems | None = None,
        split: str = "test",
        images: str = "first",
        types: str = "all",
    ) -> None:
        super().__init__(folder, problems)
        self.splits = named_splits(self.name, split, ("test", "val", "train"))
        self.types = named_splits(
            self.name, types, ("templated", "automatic", "multi_answer", "2_hop")
        )
        self.each = one_of(self.name, "images", images, "first", "each") == "each"

    # --- knowledge base ---

    def _read_pages(self) -> Iterator[tuple[str, str, Any]]:
        path = first_existing(self.root, "encyclopedic_kb_wiki.json", "encyclopedic_kb_wiki.zip")
        if path is None:
            self.problems.add(
                "encyclopedic_kb_wiki.json",
                "not in the folder: no question can be given its gold section",
            )
            return
        member = "encyclopedic_kb_wiki.json" if path.suffix == ".zip" else ""
        yield from json_items(path, self.problems, member)

    def documents(self) -> Iterator[Document]:
        """One document per section with text, then one per downloaded picture; ``page`` is the article's URL."""
        documents = evqa.documents(
            self._read_pages(),
            self.problems,
            self.notes,
            files=self.kb_pictures(),
            picture=self.picture,
            optional_pictures=True,
        )
        yield from map(with_entities_decoded, documents)

    # --- questions ---

    def _read_rows(self) -> Iterator[tuple[str, str, tuple[str, dict[str, str]]]]:
        for split in self.splits:
            path = self.need(f"{split}.csv")
            for place, row in csv_rows(path, self.problems, required=REQUIRED):
                yield place, f"{split}_{place.rpartition(':')[2]}", (split, row)

    def samples(self) -> Iterator[Sample]:
        """Questions in the order of their files; id = split and line, topic = question type, cluster = article."""
        urls: set[str] = set()
        ids: set[str] = set()
        quiet = Problems()
        for split in self.splits:
            for _, row in csv_rows(self.need(f"{split}.csv"), quiet, required=REQUIRED):
                urls.update(map(evqa.page_key, _split_parts(row["wikipedia_url"])))
                if row["dataset_name"] == "inaturalist":
                    ids.update(image_ids(row))
        names = self._find_file_names(ids)
        pages = Lookup(
            ((evqa.page_key(url), [url, row]) for _, url, row in self._read_pages()), urls
        )
        if pages.repeated:
            self.notes[evqa.REPEATED] += pages.repeated
        for place, id_, (split, row) in self._read_rows():
            if row["question_type"] not in self.types:
                self.notes[f"question type {row['question_type']!r} not asked for"] += 1
                continue
            yield from (
                self.make(
                    place, id_, partial(self._samples_of_row, place, id_, split, row, pages, names)
                )
                or ()
            )

    def _samples_of_row(
        self,
        place: str,
        id_: str,
        split: str,
        row: dict[str, str],
        pages: Lookup,
        names: dict[str, str],
    ) -> list[Sample]:
        answers = answer_spec(row)
        if not all(_EMPTY.sub("", form[0]).strip() for form in answers.accepted):
            self.notes[
                "questions with a reference that the official scorer refuses (articles only)"
            ] += 1
        gold, lacks = self._gold_of_hops(row, pages)
        ids = image_ids(row)
        if not ids:
            raise DataError("no image id", cure="mend the row or leave it out")
        candidates = [
            (image_id, self._find_image(row["dataset_name"], image_id, names)) for image_id in ids
        ]

        def sample(
            sample_id: str, image_id: str, pictures: list[FoundImage], **further_attributes: str
        ) -> Sample:
            return self.sample(
                place,
                sample_id,
                SampleParts(
                    native=row,
                    question=text_of(row, "question"),
                    answers=answers,
                    images=pictures,
                    gold=gold,
                    lacks=lacks,
                    split=row.get("encyclopedic_vqa_split") or split,
                    topic=row["question_type"],
                    cluster=row["wikipedia_url"],
                    attributes={
                        **fields_as_attributes(row, "dataset_name", category="dataset_category_id"),
                        **fields_as_attributes(
                            row, url_seen_in_train="wikipedia_url_used_in_train"
                        ),
                        "image_id": image_id,
                        **further_attributes,
                    },
                ),
            )

        if self.each:
            return [
                sample(f"{id_}:{image_id}", image_id, [picture]) for image_id, picture in candidates
            ]
        image_id, first = next(((i, f) for i, f in candidates if f.ref), candidates[0])
        further_attributes = {"image_alternatives": "|".join(ids)} if len(ids) > 1 else {}
        if first.ref is None:
            return [
                sample(id_, image_id, [picture for _, picture in candidates], **further_attributes)
            ]
        if passed := [f"{i} {f.status}" for i, f in candidates[: ids.index(image_id)]]:
            further_attributes["images_passed_over"] = ", ".join(passed)
            self.notes["questions shown with a later image because the first cannot be read"] += 1
        return [sample(id_, image_id, [first], **further_attributes)]

    def _gold_of_hops(self, row: dict[str, str], pages: Lookup) -> tuple[list[Evidence], list[str]]:
        """The evidence section of each hop (or the evidence text, or the whole article), and what is missing."""
        gold: list[Evidence] = []
        lacks: list[str] = []
        urls, sections = _split_parts(row["wikipedia_url"]), row["evidence_section_id"].split("|")
        for hop, stated_url in enumerate(urls):
            url, page = pages.get(evqa.page_key(stated_url)) or ("", None)
            if not isinstance(page, dict):
                lacks.append(f"gold page missing: {stated_url or 'no URL'}")
                continue
            stated = sections[hop].strip() if hop < len(sections) else ""
            texts = evqa.sections(page)
            number = whole_number(stated)
            number = -1 if number is None else number
            if stated and not 0 <= number < len(texts):
                lacks.append(
                    f"gold section missing: {url} has {len(texts)} sections, not {stated!r}"
                )
            elif not stated or not texts[number].text.strip():
                article = "\n\n".join(text for _, _, text in texts if text.strip())
                title = str(page.get("title") or url)
                self.notes["gold at article level: no section is named, or it is empty"] += 1
                gold.append(_gold_evidence(url, url, title, article, "article"))
            elif row.get("evidence", "").strip() and len(urls) == 1:
                text = row["evidence"].strip()
                quoted = quotation_id(evqa.section_id(url, number), digest(text.encode(), 8))
                cut = _gold_evidence(quoted, url, texts[number].title, text, "passage")
                gold.append(cut.model_copy(update={"document": evqa.section_id(url, number)}))
            else:
                gold.append(
                    _gold_evidence(evqa.section_id(url, number), url, *texts[number][1:], "section")
                )
        if not urls:
            lacks.append("gold page missing: no URL")
        return gold, lacks

    # --- images ---

    def _find_file_names(self, wanted_ids: set[str]) -> dict[str, str]:
        """File name of each wanted iNaturalist image id."""
        names: dict[str, str] = {}
        for file in ("inat_id2name.json", "val_id2name.json", "train_id2name.json"):
            if (self.root / file).is_file():
                entries = json_items(self.root / file, self.problems)
                names.update((key, str(value)) for _, key, value in entries if key in wanted_ids)
        for file in ("val.json", "train.json"):
            if wanted_ids - names.keys() and (self.root / file).is_file():
                for _, image in json_elements(self.root / file, self.problems, under="images"):
                    if isinstance(image, dict) and str(image.get("id")) in wanted_ids:
                        names.setdefault(str(image["id"]), str(image.get("file_name")))
        return names

    def _find_image(self, dataset: str, image_id: str, names: dict[str, str]) -> FoundImage:
        if dataset == "landmarks":
            below = "/".join((*image_id[:3], image_id))
            roots = [
                f"{top}/{part}"
                for top in ("landmarks", "google-landmark")
                for part in ("train", "index", "test")
            ]
            places = [f"{root}/{below}" for root in (*roots, "landmarks", "google-landmark")]
            return first_there(map(self.images.stem, places), image_id)
        if dataset != "inaturalist":
            raise DataError(
                f"dataset_name is {dataset!r}, expected inaturalist or landmarks",
                cure="mend the row",
            )
        name = names.get(image_id)
        if name is None:
            return FoundImage(f"{image_id} (no file name in any id map)", None, "missing")
        tops = ("inaturalist/", "inat/", "inaturalist/val/", "inat/val/", "")
        return first_there((self.images.file(f"{top}{name}") for top in tops), name)


def _gold_evidence(id_: str, url: str, title: str, text: str, level: Any) -> Evidence:
    document = Document(id=id_, page=url, title=title, text=text, licence="CC-BY-SA")
    return Evidence.of(document, Role.GOLD, level=level)


def _split_parts(field: str) -> list[str]:
    return [part.strip() for part in field.split("|") if part.strip()]


def image_ids(row: dict[str, str]) -> list[str]:
    """Image ids of a row: separated by ``|``, or a JSON list as one public copy has them."""
    field = row["dataset_image_ids"].strip()
    if field.startswith("["):
        field = field.strip("[]").replace(",", "|").replace('"', "").replace("'", "")
    return list(dict.fromkeys(_split_parts(field)))


def answer_spec(row: dict[str, str]) -> AnswerSpec:
    """``|`` separates accepted forms; inside one, ``&&`` separates the parts of a multi_answer."""
    several = row["question_type"] == "multi_answer"
    forms = []
    for form in _split_parts(row["answer"]):
        parts = [part.strip() for part in form.split("&&") if part.strip()] if several else [form]
        if parts:
            forms.append(tuple(parts))
    return AnswerSpec(kind="parts" if several else "string", accepted=tuple(forms), rule="evqa")
