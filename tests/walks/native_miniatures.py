"""The ten sources as their publishers lay them out, small in number but with articles as long as the real ones.

Things (bridges, chapels, mills ...) have made-up names and five facts each. An article tells them in 300 to 1,500 words
over five sections, so that an answer stands in one passage of several; a page has two or three photographs. A photograph
carries the number of its thing as black and white fields along its upper edge: what `Sighted` embeds and the gates at
the end of this file recognise, as real encoders and models recognise things. Numbers of sources do not overlap, so a
name tells which source's base a passage is from.

What is planted for the rules of curation to find is said beside it, in `ids`, `facts` and the builders.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import random
import re
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from stub_encoder import StubEncoder

from demur.core.records import Response

# --- things ---------------------------------------------------------------------------------------

BASES = {
    "infoseek": 100,
    "evqa": 200,
    "viquae": 300,
    "webqa": 400,
    "mmdocrag": 500,
    "mrag": 600,
    "beir": 700,
    "generic": 800,
    "mmlongbench": 900,
    "mmmu": 950,
    "simpleqa": 980,
    "crag_mm": 1000,
}
"""Number of the first thing of each source."""
KINDS = (
    "bridge",
    "chapel",
    "mill",
    "tower",
    "castle",
    "lighthouse",
    "market",
    "quarry",
    "station",
    "garden",
)
SYLLABLES = re.findall(r"\w+", "bra mol ket vin dur sto pel gan rus tho lim nek zar fo hul wes")
SECTIONS = ("", "History", "Setting", "Structure", "Upkeep")
RELATIONS = {
    "architect": (
        "Who drew the plans of {it}?",
        "The plans of {name} were drawn by the architect {value}.",
        "History",
    ),
    "year": (
        "In which year was {it} opened?",
        "The gates of {name} were opened to the public in {value}.",
        "History",
    ),
    "river": (
        "Which river flows past {it}?",
        "The river that flows past {name} is the {value}.",
        "Setting",
    ),
    "length": (
        "How long is {it}, in metres?",
        "From end to end {name} is {value} metres long.",
        "Structure",
    ),
    "keeper": ("Who looks after {it}?", "The care of {name} is in the hands of {value}.", "Upkeep"),
}
"""Relation -> the question, the sentence that answers it, the section of the article that holds this."""
COLOURS = ("red", "blue", "green", "yellow", "purple", "brown", "white", "black")
FILLER = re.findall(
    r"\w+",
    """about above across again almost along already although among another around because before behind below
beside between beyond bricks builders buildings carts carved cellar century children church clay coast corner country
covered crafts crowd dark daily deep district door drawing dry early earth eastern evening families farm fence field
figures fire fish flat floods floor forest former fruit gate glass goods grain grass gravel great green ground hall heavy
height hill horses houses inner iron island journey labour lake land lane large late leaves letters light lime little
local long market masons meadow metal middle mild morning moss mountain narrow near northern oak older open orchard outer
parish path people place plain plaster pond porch quiet rain rebuilt repairs roads roof rope round sand season sheep
shelter shore short side silver slate slope small smoke snow southern spring stairs steep stone storm straw street
strong summer surface tall tar timber tiles town trade travellers trees valley village visitors walls water weather
western wheat wide wind windows winter wood wool workers yard""",
)


def name(number: int) -> str:
    """The name of a thing: no two are alike in any word but the last, which says its kind."""
    mixed = number * 1357 % 4096  # odd: no two numbers below 4,096 are mixed into the same
    word = SYLLABLES[mixed >> 8] + SYLLABLES[mixed >> 4 & 15] + SYLLABLES[mixed & 15]
    return f"{word.capitalize()} {kind(number).capitalize()}"


def kind(number: int) -> str:
    """What a thing is; the same for all things of a source."""
    return KINDS[sum(number >= first for first in sorted(BASES.values())) % len(KINDS)]


def _person(number: int, salt: int) -> str:
    dice = random.Random(1000 * number + salt)
    return f"{''.join(dice.choices(SYLLABLES, k=2)).capitalize()} {''.join(dice.choices(SYLLABLES, k=3)).capitalize()}ov"


def facts(number: int) -> dict[str, str]:
    """The facts of a thing. Every sixth has the architect of the one before it: that article holds its answer too."""
    dice = random.Random(number)
    return {
        "architect": _person(number - 1 if number % 6 == 2 else number, 1),
        "year": str(1500 + number % 500),
        "river": "".join(random.Random(number + 7).choices(SYLLABLES, k=3)).capitalize() + "a",
        "length": str(1000 + 7 * number + dice.randrange(6)),
        "keeper": _person(number, 2),
        "colour": COLOURS[number % len(COLOURS)],
    }


def sentence(relation: str, number: int) -> str:
    """What an article says of one fact."""
    return RELATIONS[relation][1].format(name=name(number), value=facts(number)[relation])


def prose(words: int, dice: random.Random) -> str:
    """Sentences that say nothing, of that many words altogether."""
    said = []
    while words > 0:
        length = min(words, dice.randrange(9, 19))
        said.append(" ".join(dice.choices(FILLER, k=length)).capitalize() + ".")
        words -= length
    return " ".join(said)


def article(number: int) -> list[tuple[str, list[str]]]:
    """(title, paragraphs) of each section, 300 to 1,500 words in all; each fact in the middle of a paragraph.

    Every fifth names the thing before it, which a gate may take for a hint (`half_remembers`).
    """
    dice = random.Random(number)
    words = 280 + (317 * number) % 1161
    sections = []
    for title in SECTIONS:
        told = [sentence(r, number) for r, (_, _, where) in RELATIONS.items() if where == title]
        if not title:
            told = [f"{name(number)} is a {kind(number)}."]
        if number % 5 == 4 and title == "Setting":
            told.append(f"Many travellers go on from here to {name(number - 1)}.")
        share = words // len(SECTIONS) // len(told)
        sections.append(
            (
                title,
                [f"{prose(share // 2, dice)} {fact} {prose(share // 2, dice)}" for fact in told],
            )
        )
    return sections


def paragraphs(number: int) -> list[str]:
    """The paragraphs of an article, without headings."""
    return [paragraph for _, section in article(number) for paragraph in section]


def question(relation: str, number: int, *, seen: bool) -> str:
    """Asked of what an image shows, or by name."""
    return RELATIONS[relation][0].format(it=f"this {kind(number)}" if seen else name(number))


# --- photographs ----------------------------------------------------------------------------------

BITS = 10


def photo(number: int, shot: int, *, readable: bool = True, size: int = 48) -> Image.Image:
    """A photograph of a thing: shots differ, but less than things do. One that is not readable hides its number."""
    own, shots = np.random.default_rng(number), np.random.default_rng([number, shot])
    coarse = 0.5 * own.integers(0, 256, (6, 6, 3)) + 0.5 * shots.integers(0, 256, (6, 6, 3))
    image = Image.fromarray(coarse.astype(np.uint8)).resize((size, size), Image.Resampling.NEAREST)
    if readable:
        field = size // (BITS + 2)
        for place, bit in enumerate([1, 0, *(number >> b & 1 for b in range(BITS))]):
            image.paste(
                (255, 255, 255) if bit else (0, 0, 0),
                (place * field, 0, (place + 1) * field, size // 6),
            )
    return image


def shown(image: Image.Image) -> int | None:
    """The number of the thing that a photograph shows; None where it cannot be read."""
    grey = np.asarray(image.convert("L"), dtype=int)
    field, middle = image.width // (BITS + 2), image.height // 12
    marks = [grey[middle, place * field + field // 2] for place in range(BITS + 2)]
    if not all(mark < 40 or mark > 215 for mark in marks) or marks[0] < 128 or marks[1] > 128:
        return None
    return sum(1 << b for b in range(BITS) if marks[b + 2] > 128)


def png(number: int, shot: int, **how) -> bytes:
    """A photograph as a file."""
    out = io.BytesIO()
    photo(number, shot, **how).save(out, "PNG")
    return out.getvalue()


def jpeg(number: int, shot: int, **how) -> bytes:
    """The same photograph saved again, with losses."""
    out = io.BytesIO()
    photo(number, shot, **how).save(out, "JPEG", quality=90)
    return out.getvalue()


# --- files ----------------------------------------------------------------------------------------


def put(path: Path, data: bytes | str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def lines(path: Path, rows) -> Path:
    """Write JSON Lines."""
    return put(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def ids(source: str, n: int) -> range:
    """Numbers of a source's things."""
    return range(BASES[source], BASES[source] + n)


RELATION_OF = tuple(RELATIONS)


def infoseek(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Questions about ``asked`` of ``n`` entities. Q1, Q10, Q11 ... are ids of which one begins with another."""
    val, withkb, qtype, wiki = [], [], [], []
    for place, number in enumerate(ids("infoseek", n)):
        qid, told = f"Q{place + 1}", article(number)
        text = "\n".join("\n".join([*([title] if title else []), *parts]) for title, parts in told)
        wiki.append(
            {
                "wikidata_id": qid,
                "wikipedia_title": name(number),
                "wikipedia_content": text,
                "wikipedia_summary": told[0][1][0],
                "wikipedia_image_url": None,
            }
        )
        if place >= asked:
            continue
        relation = RELATION_OF[place % len(RELATION_OF)]
        value, data_id, image = (
            facts(number)[relation],
            f"infoseek_val_{place:08}",
            f"oven_{place:08}",
        )
        numeric = relation == "length"
        span = (
            {"wikidata": float(value), "range": [float(value) - 2, float(value) + 2]}
            if numeric
            else None
        )
        val.append(
            {
                "data_id": data_id,
                "image_id": image,
                "question": question(relation, number, seen=True),
                "answer": [value],
                "answer_eval": [span] if span else [value],
                "data_split": "val_unseen_entity",
            }
        )
        withkb.append({"data_id": data_id, "entity_id": qid, "entity_text": name(number)})
        kind_of = {"length": "Numerical", "year": "Time"}.get(relation, "String")
        qtype.append({"data_id": data_id, "question_type": kind_of})
        put(folder / f"oven_images/00/{image}.jpg", png(number, 0))
    wiki.append({**wiki[0], "wikipedia_content": "A later row of the same entity."})
    lines(folder / "infoseek_val.jsonl", val)
    lines(folder / "infoseek_val_withkb.jsonl", withkb)
    lines(folder / "infoseek_val_qtype.jsonl", qtype)
    lines(folder / "Wiki6M_ver_1_0.jsonl", wiki)
    return folder


WIKI = "https://en.wikipedia.org/wiki/"


def echosight(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """The same questions with EchoSight's files: pages by URL, in another order, and a CSV without the last question.

    CSV and base escape their URLs otherwise, and the base lacks Wikidata ids.
    """
    infoseek(folder, n, asked)
    (folder / "Wiki6M_ver_1_0.jsonl").unlink()
    pages, pictures = {}, []
    for number in reversed(ids("infoseek", n)):
        url = WIKI + name(number).replace(" ", "_" if number % 3 else "%5F")
        told = article(number)
        pages[url] = {
            "title": name(number),
            "url": url,
            "section_titles": [name(number), *SECTIONS[1:]],
            "section_texts": ["\n\n".join(parts) for _, parts in told],
            "image_urls": [f"https://upload.wikimedia.org/{number}.png"],
            "image_reference_descriptions": [f"A view of {name(number)}"],
            "image_section_indices": [0],
        }
        put(folder / f"kb_images/{number}.png", png(number, 1))
        link = pages[url]["image_urls"][0]
        pictures.append({"url": link, "file": f"kb_images/{number}.png"})
    lines(folder / "kb_images.jsonl", pictures)
    put(folder / "wiki_100_dict_v4.json", json.dumps(pages))
    with (folder / "infoseek_test_filtered.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.DictWriter(handle, ["question", "wikipedia_url", "data_id"])
        table.writeheader()
        for place, number in list(enumerate(ids("infoseek", asked)))[:-1]:
            title = name(number).replace(" ", "%20" if place % 2 else "_")
            table.writerow(
                {
                    "question": "x",
                    "wikipedia_url": WIKI + title,
                    "data_id": f"infoseek_val_{place:08}",
                }
            )
    return folder


def evqa_url(number: int) -> str:
    """Key of a page. Every third leads to a section of its article, and has a letter that is percent-escaped."""
    return WIKI + name(number).replace(" ", "_") + ("_%C3%A9#History" if number % 3 == 0 else "")


def evqa(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Templated, automatic, multi_answer and 2_hop questions; three photographs a page, the first never downloaded
    for every fourth. The first page of all shows a copy of its own question's photograph."""
    rows, pages, pictures, file_of = [], {}, [], {}
    for place, number in enumerate(ids("evqa", n)):
        url, told = evqa_url(number), article(number)
        links = [f"https://upload.wikimedia.org/{number}_{shot}.png" for shot in (1, 2, 3)]
        pages[url] = {
            "title": name(number),
            "url": url,
            "section_titles": [name(number), *SECTIONS[1:]],
            "section_texts": ["\n\n".join(parts) for _, parts in told],
            "image_urls": links,
            "image_reference_descriptions": [f"A view of {name(number)}", None, ""],
            "image_section_indices": [0, 1, 3],
        }
        for shot, link in enumerate(links, 1):
            if number % 4 == 3 and shot == 1:
                continue
            below = f"kb_images/{number}_{shot}.png"
            put(folder / below, jpeg(number, 0) if place == 0 and shot == 3 else png(number, shot))
            pictures.append({"url": link, "file": below})
        if place >= asked:
            continue
        relation = RELATION_OF[place % len(RELATION_OF)]
        where = SECTIONS.index(RELATIONS[relation][2])
        sort = ("automatic", "templated", "multi_answer", "automatic", "2_hop")[place % 5]
        row = {
            "question": question(relation, number, seen=True),
            "question_original": question(relation, number, seen=False),
            "answer": facts(number)[relation],
            "dataset_image_ids": f"{7000 + number}|{8000 + number}",
            "dataset_name": "inaturalist",
            "dataset_category_id": str(number),
            "question_type": sort,
            "wikipedia_url": url,
            "wikipedia_title": name(number),
            "evidence": "",
            "evidence_section_id": str(where),
            "evidence_section_title": SECTIONS[where],
            "encyclopedic_vqa_split": "test",
            "wikipedia_url_used_in_train": "False",
        }
        if sort == "templated":
            row["evidence"] = sentence(relation, number)
        if sort == "multi_answer":
            row["answer"] = f"{facts(number)['river']}&&the {facts(number)['river']}"
            row["question"] = "Which river, or rivers, flow past this?"
        if sort == "2_hop":
            row["wikipedia_url"] = f"{evqa_url(number - 1)}|{url}"
            row["wikipedia_title"] = f"{name(number - 1)}|{name(number)}"
            row["evidence_section_id"] = f"0|{where}"
            row["evidence_section_title"] = f"{name(number - 1)}|{SECTIONS[where]}"
        rows.append(row)
        for shot, base in enumerate((7000, 8000)):
            file_of[base + number] = f"val/00001_Plantae/{base + number}.jpg"
            put(folder / "inaturalist" / file_of[base + number], png(number, 10 * shot))
    with put(folder / "test.csv", "").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    put(folder / "encyclopedic_kb_wiki.json", json.dumps(pages))
    lines(folder / "kb_images.jsonl", pictures)
    images = [{"id": number, "file_name": below} for number, below in file_of.items()]
    put(folder / "val.json", json.dumps({"images": images, "annotations": []}))
    return folder


def viquae(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Three files of articles; wikipedia ids of which one begins with another (1, 10, 11 ...), bullets and headings."""
    rows, pages = [], []
    for place, number in enumerate(ids("viquae", n)):
        id_, qid, file = str(place + 1), f"Q9{place:03}", f"512px-{name(number)} (é).jpg"
        text = [f"{name(number)}\n"]
        for title, parts in article(number):
            text += [
                *([f"Section::::{title}.\n"] if title else []),
                *(f"{part}\n" for part in parts),
            ]
        text.append(f"BULLET::::- {prose(8, random.Random(number))}\n")
        pages.append(
            {
                "wikipedia_id": id_,
                "wikipedia_title": name(number),
                "kilt_id": id_,
                "url": WIKI + name(number),
                "image": file,
                "categories": "",
                "anchors": {},
                "text": {"paragraph": text},
                "wikidata_info": {"wikidata_id": qid, "wikipedia_title": name(number)},
            }
        )
        put(folder / "images" / file.replace(" ", "_"), png(number, 1))
        if place >= asked:
            continue
        relation = RELATION_OF[place % len(RELATION_OF)]
        value, query = facts(number)[relation], f"512px-Q%C3%A9_{number}.jpg"
        put(folder / "images" / query.replace("%C3%A9", "é"), png(number, 0))
        rows.append(
            {
                "id": f"{zlib.crc32(query.encode()):08x}",
                "kilt_id": f"tc_{place}",
                "image": query,
                "url": "",
                "wikidata_id": qid,
                "input": question(relation, number, seen=True),
                "original_question": question(relation, number, seen=False),
                "meta": {},
                "output": {
                    "original_answer": value,
                    "answer": [value],
                    "provenance": [{"title": [name(number)], "wikipedia_id": [id_]}],
                },
            }
        )
    lines(folder / "validation.jsonl", rows)
    third = len(pages) // 3
    lines(folder / "humans_with_faces.jsonl", pages[:third])
    lines(folder / "humans_without_faces.jsonl", pages[third : 2 * third])
    lines(folder / "non_humans.jsonl", pages[2 * third :])
    return folder


def webqa(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Questions by name, over snippets or pictures; each has twelve negatives of both kinds, one of them with the
    answer in it and one that repeats the gold."""
    store: list[bytes] = []

    def picture(number: int) -> dict:
        store.append(png(number, len(store)))
        image_id = 30_000_000 + len(store) - 1
        return {
            "image_id": image_id,
            "title": f"File {image_id}",
            "caption": f"{name(number)}, seen from the road",
            "url": f"https://commons.wikimedia.org/wiki/File:{image_id}.jpg",
            "imgUrl": "",
        }

    def snippet(guid: str, place: int, number: int, relation: str) -> dict:
        dice = random.Random(number * 31 + place)
        fact = f"{prose(20, dice)} {sentence(relation, number)} {prose(15, dice)}"
        url = WIKI + name(number).replace(" ", "_")
        return {
            "title": name(number),
            "fact": f"[{place}] {fact}",
            "url": url,
            "snippet_id": f"{guid}_{place}",
        }

    rows = {}
    numbers = list(ids("webqa", n))
    for place, number in enumerate(numbers[:asked]):
        guid = f"{place:032x}"
        others = numbers[place + 1 :] + numbers[:place]
        by_image = place % 2 == 1
        relation = RELATION_OF[place % len(RELATION_OF)]
        row = {"topic": "", "split": "val", "Guid": guid, "txt_posFacts": [], "img_posFacts": []}
        if by_image:
            row |= {
                "Q": f'"What colour is the roof of {name(number)}?"',
                "A": [f'"{facts(number)["colour"]}"'],
                "Qcate": "color",
                "img_posFacts": [picture(number)],
            }
        else:
            row |= {
                "Q": question(relation, number, seen=False),
                "A": [facts(number)[relation]],
                "Qcate": "text",
                "txt_posFacts": [snippet(guid, 0, number, relation)],
            }
        texts = [snippet(guid, k, other, relation) for k, other in enumerate(others[:7], 1)]
        if not by_image:
            texts.append(dict(row["txt_posFacts"][0], snippet_id=f"{guid}_8"))
            texts.append(snippet(guid, 9, number, relation))
        row["txt_negFacts"], row["img_negFacts"] = texts, [picture(other) for other in others[:5]]
        rows[guid] = row
    put(folder / "WebQA_train_val.json", json.dumps(rows))
    tsv, offsets = b"", []
    for place, data in enumerate(store):
        offsets.append(len(tsv))
        tsv += b"%d\t%s\n" % (30_000_000 + place, base64.b64encode(data))
    put(folder / "imgs.tsv", tsv)
    put(folder / "imgs.lineidx", "".join(f"{offset}\n" for offset in offsets))
    return folder


def mmdocrag(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Twelve quotes of text and eight pictures a question; gold is a text, a picture, or one of each."""
    rows, numbers = [], list(ids("mmdocrag", n))
    for place, number in enumerate(numbers[:asked]):
        document = f"Survey_{place // 2}"
        others = numbers[place + 1 :] + numbers[:place]
        relation = RELATION_OF[place % len(RELATION_OF)]
        texts, images = [], []
        about = [*others[:6], number, *others[6:11]]
        for k, other in enumerate(about, 1):
            text = next(p for p in paragraphs(other) if sentence(relation, other) in p)
            texts.append(
                {
                    "quote_id": f"text{k}",
                    "type": "text",
                    "text": text,
                    "page_id": k,
                    "layout_id": 10 * k,
                }
            )
        for k, other in enumerate([others[0], number, *others[1:7]], 1):
            below = f"images/{document}_image{10 * place + k}.jpg"
            put(folder / below, png(other, 40 + place))
            images.append(
                {
                    "quote_id": f"image{k}",
                    "type": "image",
                    "img_path": below,
                    "img_description": f"A {kind(other)}.",
                    "page_id": 20 + k,
                    "layout_id": 300 + k,
                }
            )
        by_image = place % 3 == 1
        rows.append(
            {
                "q_id": place,
                "doc_name": document,
                "domain": "Guidebook" if place % 2 else "Academic paper",
                "question": f"What colour is the roof of {name(number)}?"
                if by_image
                else question(relation, number, seen=False),
                "evidence_modality_type": ["figure" if by_image else "text"],
                "question_type": "Descriptive",
                "text_quotes": texts,
                "img_quotes": images,
                "gold_quotes": ["image2"] if by_image else ["text7"],
                "answer_short": facts(number)["colour" if by_image else relation],
                "answer_interleaved": "It is told there.",
                "old_id": place,
            }
        )
    lines(folder / "evaluation_20.jsonl", rows)
    lines(
        folder / "dev_20.jsonl",
        [dict(row, question=row["question"] + " (dev)") for row in rows[:1]],
    )
    return folder


def mrag(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """A photograph that mostly shows too little, five better ones of the same thing as gold; the corpus names a query too."""
    rows, numbers = [], list(ids("mrag", n))
    for place, number in enumerate(numbers[:asked]):
        others = numbers[place + 1 :] + numbers[:place]
        names = [name(number), *map(name, others[:3])]
        letter = place % 4
        names[0], names[letter] = names[letter], names[0]
        gold = [png(number, shot) for shot in range(1, 6)]
        nearest = [
            png(others[0], 1),
            gold[0],
            png(others[1], 2),
            png(others[2], 3),
            png(others[3], 1),
        ]
        query = png(number, 0, readable=place % 3 == 0)
        rows.append(
            {
                "id": str(place),
                "aspect": "perspective",
                "scenario": "Incomplete" if place % 5 == 4 else "Angle",
                "image": {"bytes": query, "path": None},
                "gt_images": [{"bytes": g, "path": None} for g in gold],
                "question": f"Can you identify this {kind(number)}?",
                **dict(zip("ABCD", names, strict=True)),
                "answer_choice": "ABCD"[letter],
                "answer": name(number),
                "image_type": "object",
                "source": "synthetic",
                "retrieved_images": [{"bytes": g, "path": None} for g in nearest],
            }
        )
        put(folder / f"image_corpus/{place}_input.png", query)
    for number in numbers:
        for shot in range(1, 6):
            put(folder / f"image_corpus/{number}_gt_{shot}.png", png(number, shot))
    (folder / "data").mkdir(parents=True, exist_ok=True)
    half = len(rows) // 2
    pq.write_table(pa.Table.from_pylist(rows[:half]), folder / "data/test-00009-of-000011.parquet")
    pq.write_table(pa.Table.from_pylist(rows[half:]), folder / "data/test-000010-of-000011.parquet")
    return folder


def beir(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """Whole articles as documents; ids with leading zeros and with a mark that looks like a passage's."""
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for place, number in enumerate(ids("beir", n)):
        id_ = f"00{place}" if place % 2 else f"doc-{place}#p{place}"
        corpus.append({"_id": id_, "title": name(number), "text": "\n\n".join(paragraphs(number))})
        if place < asked:
            relation = RELATION_OF[place % len(RELATION_OF)]
            queries.append(
                {
                    "_id": f"q{place}",
                    "text": question(relation, number, seen=False),
                    "metadata": {"answers": [facts(number)[relation]]},
                }
            )
            qrels.append(f"q{place}\t{id_}\t1")
    lines(folder / "corpus.jsonl", corpus)
    lines(folder / "queries.jsonl", queries)
    put(folder / "qrels/test.tsv", "\n".join(qrels) + "\n")
    return folder


def generic(folder: Path, n: int = 16, asked: int = 10) -> Path:
    """A table of one's own: passages and drawings of pages, questions with a photograph, gold by id."""
    passages, drawings, rows = [], [], []
    for place, number in enumerate(ids("generic", n)):
        page = f"page#{place}"
        for section, (title, parts) in enumerate(article(number)):
            text = "\n".join(parts)
            passages.append(
                {
                    "id": f"{page}.{section}",
                    "title": f"{name(number)} {title}".strip(),
                    "body": text,
                    "page": page,
                    "terms": "CC-BY-4.0" if place % 2 else "CC0-1.0",
                }
            )
        put(folder / f"drawings/{place}.png", png(number, 1))
        drawings.append(
            {
                "id": f"{page}/drawing",
                "title": name(number),
                "file": f"drawings/{place}.png",
                "page": page,
                "terms": "CC-BY-NC-4.0",
            }
        )
        if place < asked:
            relation = RELATION_OF[place % len(RELATION_OF)]
            put(folder / f"photos/{place}.png", png(number, 0))
            rows.append(
                {
                    "nr": f"g{place}",
                    "ask": question(relation, number, seen=True),
                    "solution": facts(number)[relation],
                    "photo": f"photos/{place}.png",
                    "proof": [f"{page}.{SECTIONS.index(RELATIONS[relation][2])}"],
                }
            )
    lines(folder / "passages.jsonl", passages)
    lines(folder / "drawings.jsonl", drawings)
    lines(folder / "questions.jsonl", rows)
    put(
        folder / "demur-map.yaml",
        "name: own\nsamples:\n  files: [questions.jsonl]\n"
        "  fields: {id: nr, question: ask, answers: solution, images: photo, gold: proof}\n"
        "documents:\n"
        "  - files: [passages.jsonl]\n    fields: {id: id, title: title, text: body, page: page, licence: terms}\n"
        "  - files: [drawings.jsonl]\n    fields: {id: id, title: title, image: file, page: page, licence: terms}\n",
    )
    return folder


# --- without a knowledge base ---


def simpleqa(folder: Path, asked: int = 8) -> Path:
    """Questions by name, answers short."""
    put(folder / "simple_qa_test_set.csv", "")
    with (folder / "simple_qa_test_set.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["metadata", "problem", "answer"])
        for place, number in enumerate(ids("simpleqa", asked)):
            relation = RELATION_OF[place % len(RELATION_OF)]
            about = {
                "topic": "Art" if place % 2 else "Music",
                "answer_type": "Other",
                "urls": [WIKI + name(number)],
            }
            writer.writerow(
                [str(about), question(relation, number, seen=False), facts(number)[relation]]
            )
    return folder


def mmmu(folder: Path, asked: int = 8) -> Path:
    """Two subjects; every fourth question is open."""
    for subject, first in (("Math", 0), ("Art_Theory", asked // 2)):
        rows = []
        for place in range(first, first + asked // 2):
            number = BASES["mmmu"] + place
            options = [name(number + k) for k in range(4)]
            right = place % 4
            options[0], options[right] = options[right], options[0]
            open_ended = place % 4 == 3
            rows.append(
                {
                    "id": f"validation_{subject}_{place + 1}",
                    "question": f"What does <image 1> show, this {kind(number)}?",
                    "options": str([] if open_ended else options),
                    "explanation": "",
                    "image_1": {"bytes": png(number, 0), "path": None},
                    "image_2": None,
                    "img_type": "['Photographs']",
                    "answer": name(number) if open_ended else "ABCD"[right],
                    "topic_difficulty": "Easy",
                    "question_type": "open" if open_ended else "multiple-choice",
                    "subfield": subject,
                }
            )
        (folder / subject).mkdir(parents=True, exist_ok=True)
        schema = pa.schema(
            [
                (
                    key,
                    pa.struct([("bytes", pa.binary()), ("path", pa.string())])
                    if key.startswith("image_")
                    else pa.string(),
                )
                for key in rows[0]
            ]
        )
        pq.write_table(
            pa.Table.from_pylist(rows, schema),
            folder / subject / "validation-00000-of-00001.parquet",
        )
    return folder


def mmlongbench(folder: Path, asked: int = 8) -> Path:
    """Pages as pictures, counted from 1; every fourth question has no answer in its document."""
    rows = []
    for place, number in enumerate(ids("mmlongbench", asked)):
        document = f"survey-{place // 2}.pdf"
        answerable = place % 4 != 3
        page = 1 + place % 2
        rows.append(
            {
                "doc_id": document,
                "doc_type": "Guidebook",
                "question": f"What colour is the roof of {name(number)}?",
                "answer": facts(number)["colour"] if answerable else "Not answerable",
                "evidence_pages": str([page] if answerable else []),
                "evidence_sources": "['Figure']",
                "answer_format": "Str" if answerable else "None",
            }
        )
        put(folder / f"pages/survey-{place // 2}/{page}.png", png(number, 1))
    put(folder / "data/samples.json", json.dumps(rows))
    return folder


def crag_mm(folder: Path, asked: int = 4) -> Path:
    """Single questions of what a picture shows, and conversations whose later turns ask of other things by their names.

    The two corpora hold the entities shown and passages about them.
    """
    first, relations, entities = BASES["crag_mm"], tuple(RELATIONS)[:4], {}
    for part, turns in (("single", 1), ("multi", 4)):
        rows = []
        for place in range(asked):
            number, session = first + place * turns + (turns > 1), f"{part}-{place}"
            asks = [
                (f"{session}-{turn}", relation, number + turn)
                for turn, relation in enumerate(relations[:turns])
            ]
            entities[name(number)] = {"river": facts(number)["river"]}
            rows.append(
                {
                    "session_id": session,
                    "image": {"bytes": png(number, 0), "path": None},
                    "image_url": None,
                    "turns": {
                        "interaction_id": [i for i, _, _ in asks],
                        "domain": [place % 2] * turns,
                        "query_category": [0] * turns,
                        "dynamism": [0] * turns,
                        "query": [question(r, n, seen=n == number) for _, r, n in asks],
                        "image_quality": [0] * turns,
                    },
                    "answers": {
                        "interaction_id": [i for i, _, _ in asks],
                        "ans_full": [facts(n)[r] for _, r, n in asks],
                    },
                }
            )
        labels = {"feature": {"names": ["book", "vehicle"], "_type": "ClassLabel"}}
        stored = json.dumps({"info": {"features": {"turns": {"domain": labels}}}})
        file = put(folder / part / "data/validation-00000-of-00001.parquet", b"")
        table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": stored})
        pq.write_table(table, file)
    pages = [(f"{n}_chunk_0", {"page_name": n, "page_url": n, "page_snippet": n}) for n in entities]
    images = [
        (
            str(i),
            {"image_url": f"https://{i}", "entities": json.dumps([n]), "info": json.dumps({n: e})},
        )
        for i, (n, e) in enumerate(entities.items())
    ]
    for store, entries in (("web", pages), ("image", images)):
        chroma(folder / store, entries)
    return folder


def chroma(folder: Path, entries: list[tuple[str, dict[str, str]]]) -> None:
    """A store of Chroma: the two tables of its file that hold entries (id, fields)."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as store, store:
        store.execute("CREATE TABLE embeddings (id INTEGER PRIMARY KEY, embedding_id TEXT)")
        columns = "id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL"
        store.execute(f"CREATE TABLE embedding_metadata ({columns}, bool_value INTEGER)")
        for number, (id_, fields) in enumerate(entries):
            store.execute("INSERT INTO embeddings VALUES (?, ?)", (number, id_))
            for row in fields.items():
                store.execute(
                    "INSERT INTO embedding_metadata (id, key, string_value) VALUES (?, ?, ?)",
                    (number, *row),
                )


BUILDERS = {
    "infoseek": infoseek,
    "evqa": evqa,
    "webqa": webqa,
    "mmdocrag": mmdocrag,
    "mrag": mrag,
    "viquae": viquae,
    "beir": beir,
    "generic": generic,
    "mmmu": mmmu,
    "mmlongbench": mmlongbench,
    "simpleqa": simpleqa,
    "crag_mm": crag_mm,
}
OPTIONS = {"beir": {"answers": "metadata.answers"}}
SIX = ("infoseek", "evqa", "webqa", "mmdocrag", "mrag", "viquae")


# --- an encoder that sees -------------------------------------------------------------------------


class Sighted(StubEncoder):
    """Texts by their words; images by the name of what they show, and by their colours."""

    note = "words and painted numbers, for tests"
    WORD = re.compile(r"\w+")

    def __init__(self, name: str):
        super().__init__(name, dims={"joint": 256, "text": 256, "look": 108})

    def texts(self, texts, space="joint", *, role="passage"):
        rows = np.zeros((len(texts), self.dims[space]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in self.WORD.findall(text.casefold()):
                place = zlib.crc32(word.encode())
                row[place % len(row)] += 1 if place >> 16 & 1 else -1
        return _unit(rows)

    def images(self, images, space="joint"):
        if space == "look":
            small = [
                np.asarray(i.convert("RGB").resize((6, 6), Image.Resampling.BOX), np.float32)
                for i in images
            ]
            return _unit(
                np.array([s.ravel() - s.mean() for s in small], np.float32).reshape(len(small), 108)
            )
        seen = [shown(image) for image in images]
        return self.texts(["nothing that can be made out" if s is None else name(s) for s in seen])


def _unit(rows):
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:, :1] += length == 0
    return rows / np.where(length, length, 1)


def sighted(argument="", *, allow_random=False):
    """What ``encoder: native_miniatures:sighted`` opens."""
    return Sighted("native_miniatures:sighted")


def contriever(argument="", *, allow_random=False):
    """An encoder of passages: what stands for Contriever where there is none."""
    return Sighted("native_miniatures:contriever")


# --- gates ----------------------------------------------------------------------------------------

DECLINES = "I do not know."
WRONG = "Qwxyz Vorrnblat"
NUMBERS = {name(number): number for number in range(100, 1024)}


def _subject(asked: dict) -> int | None:
    """What is asked about: named in the question, or shown."""
    named = [number for each, number in NUMBERS.items() if each in asked["question"]]
    if named:
        return named[0]
    return shown(Image.open(io.BytesIO(asked["images"][0]))) if asked["images"] else None


def _relation(asked: dict) -> str:
    if "colour" in asked["question"]:
        return "colour"
    if "identify" in asked["question"] or "show" in asked["question"]:
        return "name"
    return next(
        (
            r
            for r, (q, _, _) in RELATIONS.items()
            if asked["question"].startswith(q.partition("{")[0])
        ),
        "river",
    )


def _fact(number: int, relation: str) -> str:
    return name(number) if relation == "name" else facts(number)[relation]


def _answer(asked: dict, *, knows, otherwise: str, hints: bool = False) -> str:
    """What somebody says who knows some things, reads what is put before them, and looks at pictures."""
    subject, relation = _subject(asked), _relation(asked)
    for piece in asked["evidence"]:
        if piece["text"] and relation in RELATIONS:
            said = (
                RELATIONS[relation][1]
                .replace(".", r"\.")
                .format(name=r"\w+ \w+", value=r"([\w ]+?)")
            )
            if found := re.search(said, piece["text"]):
                return found[1]
        if hints and subject is not None and piece["text"] and name(subject) in piece["text"]:
            return _fact(subject, relation)
        if piece["image"]:
            seen = shown(Image.open(io.BytesIO(piece["image"])))
            if seen is not None and relation in ("colour", "name"):
                return _fact(seen, relation)
    if subject is not None and knows(subject):
        return _fact(subject, relation)
    return otherwise


def well_read(asked: dict) -> str:
    """A plain function as a gate: knows every fifth thing, declines of others."""
    return _answer(asked, knows=lambda number: number % 5 == 0, otherwise=DECLINES)


def half_remembers(asked: dict) -> str:
    """Another: knows every seventh thing, guesses wrongly of others; a passage that names the thing reminds it."""
    return _answer(asked, knows=lambda number: number % 7 == 3, otherwise=WRONG, hints=True)


def expert(asked: dict) -> str:
    """The stronger gate that a rebuild adds: knows what `well_read` knows, and every fourth thing."""
    return _answer(
        asked, knows=lambda number: number % 5 == 0 or number % 4 == 1, otherwise=DECLINES
    )


def by_text(asked: dict) -> str:
    """What `TextOnly` answers: it knows every third thing by its name."""
    return _answer(asked, knows=lambda number: number % 3 == 1, otherwise=DECLINES)


def by_heart(asked: dict) -> str:
    """Never reads what is put before it: right about every second thing, of the others it tells the next one's facts."""
    subject, relation = _subject(asked), _relation(asked)
    return WRONG if subject is None else _fact(subject + subject % 2, relation)


def repeats_the_last(asked: dict) -> str:
    """A system that says what was answered before, if anything."""
    said = [turn["content"] for turn in asked["turns"] if turn["role"] == "assistant"]
    return said[-1] if said else DECLINES


class TextOnly:
    """A gate that takes no images, neither in the question nor as evidence."""

    id, note = "text-only", "reads text alone"

    def __init__(self, argument, context):
        pass

    def skip_reason(self, ask):
        if ask.images or any(piece.image for piece in ask.evidence):
            return "text-only model"
        return ""

    async def answer(self, ask):
        pieces = [{"text": piece.text, "image": None} for piece in ask.evidence]
        return Response(
            text=by_text({"question": ask.question, "images": [], "evidence": pieces}),
            served_by=self.id,
        )

    async def close(self):
        pass


HERE = SimpleNamespace(
    well_read={"system": "python:native_miniatures:well_read", "name": "well-read"},
    half_remembers={"system": "python:native_miniatures:half_remembers", "name": "half-remembers"},
    text_only={"system": "native_miniatures:TextOnly", "name": "text-only"},
    expert={"system": "python:native_miniatures:expert", "name": "expert"},
)
"""The gates as a recipe names them."""
