"""What a release should hold, counted again from the native files by lines that share none with demur.

`READERS` gives the questions and the base of each source as plain values: the files are read with json, csv and
pyarrow, texts are compared with ``in``, and the gates are plain functions that are called here once more.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import native_miniatures as native
import numpy as np
import pyarrow.parquet as pq
from native_miniatures import DECLINES
from PIL import Image


class Question(NamedTuple):
    """A question as its file has it."""

    id: str
    text: str
    image: bytes | None
    accepted: tuple[str, ...]
    pages: frozenset[str]
    """Pages that its gold evidence is from; empty where evidence has no pages."""
    about: int
    gold: tuple[str | bytes, ...]
    """What must stand in its gold evidence: texts, or images."""
    negatives: frozenset[str | bytes] = frozenset()
    """What the source itself shows beside it."""


class Base(NamedTuple):
    """A knowledge base: what each page says and shows."""

    texts: dict[str, str]
    images: dict[str, list[bytes]]
    titles: dict[str, str]
    queries: frozenset[bytes] = frozenset()
    """Query images, where the paper takes those of other questions for distractors too (equation 3)."""


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def squeezed(text: str) -> str:
    """Without differences of spacing."""
    return " ".join(text.split())


def overlap(one: str, other: str, words: int = 12) -> bool:
    """Whether two texts share that many words in a row."""
    runs = [
        {" ".join(w[i : i + words]) for i in range(len(w) - words + 1)}
        for w in (one.split(), other.split())
    ]
    return bool(runs[0] & runs[1])


def infoseek_questions(folder: Path) -> list[Question]:
    entity = {row["data_id"]: row for row in _lines(folder / "infoseek_val_withkb.jsonl")}
    return [
        Question(
            row["data_id"],
            row["question"],
            (folder / f"oven_images/00/{row['image_id']}.jpg").read_bytes(),
            tuple(row["answer"]),
            frozenset({entity[row["data_id"]]["entity_id"]}),
            native.NUMBERS[entity[row["data_id"]]["entity_text"]],
            (row["answer"][0],),
        )
        for row in _lines(folder / "infoseek_val.jsonl")
    ]


def infoseek(folder: Path) -> tuple[list[Question], Base]:
    wiki = list(reversed(_lines(folder / "Wiki6M_ver_1_0.jsonl")))
    texts = {row["wikidata_id"]: squeezed(row["wikipedia_content"]) for row in wiki}
    return infoseek_questions(folder), Base(
        texts, {}, {row["wikidata_id"]: row["wikipedia_title"] for row in wiki}
    )


def evqa(folder: Path) -> tuple[list[Question], Base]:
    pages = json.loads((folder / "encyclopedic_kb_wiki.json").read_text())
    with (folder / "test.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    names = {
        i["id"]: i["file_name"] for i in json.loads((folder / "val.json").read_text())["images"]
    }
    questions = []
    for line, row in enumerate(rows, 2):
        last = row["wikipedia_url"].split("|")[-1]
        first_image = names[int(row["dataset_image_ids"].split("|")[0])]
        parts = tuple(row["answer"].split("&&"))
        questions.append(
            Question(
                f"test_{line}",
                row["question"],
                (folder / "inaturalist" / first_image).read_bytes(),
                parts,
                frozenset(row["wikipedia_url"].split("|")),
                native.NUMBERS[pages[last]["title"]],
                parts[:1],
            )
        )
    file = {row["url"]: row["file"] for row in _lines(folder / "kb_images.jsonl")}
    images = {
        u: [(folder / file[i]).read_bytes() for i in p["image_urls"] if i in file]
        for u, p in pages.items()
    }
    texts = {u: squeezed(" ".join(p["section_texts"])) for u, p in pages.items()}
    return questions, Base(texts, images, {u: p["title"] for u, p in pages.items()})


def viquae(folder: Path) -> tuple[list[Question], Base]:
    rows = [
        row
        for part in ("humans_with_faces", "humans_without_faces", "non_humans")
        for row in _lines(folder / f"{part}.jsonl")
    ]
    titles = {row["wikipedia_id"]: row["wikipedia_title"] for row in rows}
    prose = {
        row["wikipedia_id"]: squeezed(
            " ".join(
                p
                for p in row["text"]["paragraph"][1:]
                if not p.startswith(("Section::::", "BULLET::::"))
            )
        )
        for row in rows
    }
    images = {
        row["wikipedia_id"]: [(folder / "images" / row["image"].replace(" ", "_")).read_bytes()]
        for row in rows
    }
    questions = [
        Question(
            row["id"],
            row["input"],
            (folder / "images" / unquote(row["image"])).read_bytes(),
            tuple(row["output"]["answer"]),
            frozenset(row["output"]["provenance"][0]["wikipedia_id"]),
            native.NUMBERS[row["output"]["provenance"][0]["title"][0]],
            (row["output"]["original_answer"],),
        )
        for row in _lines(folder / "validation.jsonl")
    ]
    return questions, Base(prose, images, titles)


def webqa(folder: Path) -> tuple[list[Question], Base]:
    stored = [
        base64.b64decode(line.split("\t")[1])
        for line in (folder / "imgs.tsv").read_text().splitlines()
    ]

    def fact(row: dict) -> str | bytes:
        return (
            squeezed(row["fact"].partition("] ")[2])
            if "fact" in row
            else stored[row["image_id"] % 10_000_000]
        )

    questions, texts, images = [], {}, {}
    for guid, row in json.loads((folder / "WebQA_train_val.json").read_text()).items():
        facts = {
            side: [fact(f) for kind in ("txt", "img") for f in row[f"{kind}_{side}Facts"]]
            for side in ("pos", "neg")
        }
        text = row["Q"].strip('"')
        about = next(number for each, number in native.NUMBERS.items() if each in text)
        accepted = tuple(answer.strip('"') for answer in row["A"])
        questions.append(
            Question(
                guid,
                text,
                None,
                accepted,
                frozenset(),
                about,
                tuple(facts["pos"]),
                frozenset(facts["neg"]),
            )
        )
        for each in (*facts["pos"], *facts["neg"]):
            (texts if isinstance(each, str) else images)[f"{guid}/{len(texts)}/{len(images)}"] = (
                each
            )
    return questions, Base(texts, {page: [image] for page, image in images.items()}, {})


def mmdocrag(folder: Path) -> tuple[list[Question], Base]:
    questions, texts, images = [], {}, {}
    for file in ("dev_20", "evaluation_20"):
        for row in _lines(folder / f"{file}.jsonl"):
            quotes = {q["quote_id"]: squeezed(q["text"]) for q in row["text_quotes"]}
            quotes |= {
                q["quote_id"]: (folder / q["img_path"]).read_bytes() for q in row["img_quotes"]
            }
            about = next(
                number for each, number in native.NUMBERS.items() if each in row["question"]
            )
            gold = tuple(quotes[quote] for quote in row["gold_quotes"])
            questions.append(
                Question(
                    f"{file}_{row['q_id']}",
                    row["question"],
                    None,
                    (row["answer_short"],),
                    frozenset(),
                    about,
                    gold,
                    frozenset(quotes.values()) - set(gold),
                )
            )
            for quote, what in quotes.items():
                (texts if isinstance(what, str) else images)[f"{file}/{row['q_id']}/{quote}"] = what
    return questions, Base(texts, {page: [image] for page, image in images.items()}, {})


def mrag(folder: Path) -> tuple[list[Question], Base]:
    questions = []
    for shard in ("test-00009-of-000011", "test-000010-of-000011"):
        for row in pq.read_table(folder / f"data/{shard}.parquet").to_pylist():
            most = 1 if row["scenario"] == "Incomplete" else 5
            gold = tuple(cell["bytes"] for cell in row["gt_images"][:most])
            near = {cell["bytes"] for cell in row["retrieved_images"][:most]} - {
                *gold,
                row["image"]["bytes"],
            }
            questions.append(
                Question(
                    row["id"],
                    row["question"],
                    row["image"]["bytes"],
                    (row["answer"],),
                    frozenset(),
                    native.NUMBERS[row["answer"]],
                    gold,
                    frozenset(near),
                )
            )
    files = sorted((folder / "image_corpus").iterdir())
    return questions, Base(
        {},
        {f.stem: [f.read_bytes()] for f in files if "input" not in f.name},
        {},
        frozenset(q.image for q in questions),
    )


def beir(folder: Path) -> tuple[list[Question], Base]:
    corpus = {row["_id"]: row for row in _lines(folder / "corpus.jsonl")}
    judged = [line.split("\t") for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]]
    queries = {row["_id"]: row for row in _lines(folder / "queries.jsonl")}
    questions = []
    for query, document, _ in judged:
        about = native.NUMBERS[corpus[document]["title"]]
        accepted = tuple(queries[query]["metadata"]["answers"])
        questions.append(
            Question(
                query,
                queries[query]["text"],
                None,
                accepted,
                frozenset({document}),
                about,
                accepted,
            )
        )
    titles = {i: row["title"] for i, row in corpus.items()}
    return questions, Base({i: squeezed(row["text"]) for i, row in corpus.items()}, {}, titles)


def generic(folder: Path) -> tuple[list[Question], Base]:
    texts: dict[str, str] = {}
    for row in _lines(folder / "passages.jsonl"):
        texts[row["page"]] = squeezed(f"{texts.get(row['page'], '')} {row['body']}")
    drawings = _lines(folder / "drawings.jsonl")
    titles = {row["page"]: row["title"] for row in drawings}
    questions = [
        Question(
            row["nr"],
            row["ask"],
            (folder / row["photo"]).read_bytes(),
            (row["solution"],),
            frozenset({row["proof"][0].rpartition(".")[0]}),
            native.NUMBERS[titles[row["proof"][0].rpartition(".")[0]]],
            (row["solution"],),
        )
        for row in _lines(folder / "questions.jsonl")
    ]
    images = {row["page"]: [(folder / row["file"]).read_bytes()] for row in drawings}
    return questions, Base(texts, images, titles)


READERS: dict[str, Callable[[Path], tuple[list[Question], Base]]] = {
    "infoseek": infoseek,
    "evqa": evqa,
    "viquae": viquae,
    "webqa": webqa,
    "mmdocrag": mmdocrag,
    "mrag": mrag,
    "beir": beir,
    "generic": generic,
}


def licence(source: str, what: str | bytes, folder: Path) -> str:
    """The licence of a piece of evidence: as its table says, else as the publisher of the base states it."""
    if source == "generic":
        if isinstance(what, bytes):
            return next(
                r["terms"]
                for r in _lines(folder / "drawings.jsonl")
                if (folder / r["file"]).read_bytes() == what
            )
        return next(
            r["terms"] for r in _lines(folder / "passages.jsonl") if what in squeezed(r["body"])
        )
    if source in ("evqa", "webqa") and isinstance(what, bytes):
        return "that of its Wikimedia file"
    return {
        "infoseek": "CC-BY-SA",
        "evqa": "CC-BY-SA",
        "webqa": "CC-BY-SA",
        "viquae": "CC-BY-3.0",
        "mrag": "CC-BY-4.0",
        "mmdocrag": "CC-BY-NC-4.0 (the dataset card says Apache-2.0, the repository CC-BY-NC-4.0: the stricter is taken)",
        "beir": "",
    }[source]


# --- gates ----------------------------------------------------------------------------------------

GATES: dict[str, Callable[[dict], str]] = {
    "well-read": native.well_read,
    "half-remembers": native.half_remembers,
    "expert": native.expert,
    "text-only": native.by_text,
    "by-heart": native.by_heart,
}


def label(gate: str, question: Question, *evidence: str | bytes) -> str:
    """What a gate's answer is: correct, deflected or incorrect; "" where it takes no images and there are some."""
    pieces = [
        {"text": e if isinstance(e, str) else None, "image": e if isinstance(e, bytes) else None}
        for e in evidence
    ]
    if gate == "text-only" and (
        question.image is not None or any(piece["image"] for piece in pieces)
    ):
        return ""
    images = [question.image] if question.image is not None else []
    said = GATES[gate](
        {"question": question.text, "choices": [], "images": images, "evidence": pieces}
    )
    if said in question.accepted:
        return "correct"
    return "deflected" if said == DECLINES else "incorrect"


def survivors(questions: list[Question], gates: list[str]) -> tuple[set[str], set[str]]:
    """(ids that pass Stage I, those of them that somebody answers with gold)."""
    blind = {q.id for q in questions if "correct" not in {label(gate, q) for gate in gates}}
    return blind, {
        q.id
        for q in questions
        if q.id in blind and "correct" in {label(g, q, *whole(q)) for g in gates}
    }


def whole(question: Question) -> list[str | bytes]:
    """Its gold evidence: the sentence that answers it where only the answer is told."""
    told = [native.sentence(r, question.about) for r in native.RELATIONS]
    return [
        e if isinstance(e, bytes) else next((t for t in told if e in t), e) for e in question.gold
    ]


# --- search ---------------------------------------------------------------------------------------


def pages_by_title(questions: list[Question], base: Base) -> list[list[tuple[float, str]]]:
    """For each question (how like its image a page's title is, the page), best first."""
    encoder, pages = native.sighted(), list(base.titles)
    titles = encoder.texts([base.titles[page] for page in pages])
    asked = encoder.images([_opened(q.image) for q in questions])
    return [
        sorted(zip(row.round(5).tolist(), pages, strict=True), reverse=True)
        for row in asked @ titles.T
    ]


def nearest(question: Question, images: list[bytes]) -> list[float]:
    """How like the question's image others look."""
    own, *others = native.sighted().images([_opened(i) for i in (question.image, *images)], "look")
    return (np.array(others) @ own).round(5).tolist()


def pages_of_the_preset(source: str, question: Question, base: Base) -> set[str]:
    """Pages that appendix H opens for a question: ten by their title, five by their first image; equals together."""
    if source == "evqa":
        pages = [page for page, images in base.images.items() if images]
        scored = list(
            zip(nearest(question, [base.images[page][0] for page in pages]), pages, strict=True)
        )
        least = sorted(scored, reverse=True)[4][0]
    else:
        (scored,) = pages_by_title([question], base)
        least = scored[9][0]
    return {page for score, page in scored if score >= least}


def _opened(image: bytes) -> Image.Image:
    return Image.open(io.BytesIO(image))


# --- sources without a base -----------------------------------------------------------------------


def simpleqa(folder: Path) -> list[Question]:
    with (folder / "simple_qa_test_set.csv").open(newline="", encoding="utf-8") as handle:
        return [
            Question("", row["problem"], None, (row["answer"],), frozenset(), 0, ())
            for row in csv.DictReader(handle)
        ]


def mmmu(folder: Path) -> list[Question]:
    questions = []
    for shard in sorted(folder.glob("*/validation-*.parquet")):
        for row in pq.read_table(shard).to_pylist():
            options = json.loads(row["options"].replace("'", '"'))
            answer = options["ABCD".index(row["answer"])] if options else row["answer"]
            questions.append(
                Question(
                    row["id"],
                    row["question"],
                    row["image_1"]["bytes"],
                    (answer,),
                    frozenset(),
                    0,
                    (),
                )
            )
    return questions


def mmlongbench(folder: Path) -> list[Question]:
    questions = []
    for place, row in enumerate(json.loads((folder / "data/samples.json").read_text())):
        document = folder / "pages" / row["doc_id"].removesuffix(".pdf")
        gold = tuple(
            (document / f"{page}.png").read_bytes() for page in json.loads(row["evidence_pages"])
        )
        accepted = (DECLINES,) if row["answer"] == "Not answerable" else (row["answer"],)
        questions.append(
            Question(str(place), row["question"], None, accepted, frozenset(), 0, gold)
        )
    return questions


def crag_mm(folder: Path) -> list[Question]:
    questions = []
    for part in ("multi", "single"):
        file = folder / part / "data/validation-00000-of-00001.parquet"
        for row in pq.read_table(file).to_pylist():
            answers = dict(zip(*row["answers"].values(), strict=True))
            image = row["image"]["bytes"]
            for id_, text in zip(
                row["turns"]["interaction_id"], row["turns"]["query"], strict=True
            ):
                accepted = (answers[id_],)
                questions.append(Question(id_, text, image, accepted, frozenset(), 0, ()))
    return questions


WITHOUT_BASE: dict[str, Callable[[Path], list[Question]]] = {
    "simpleqa": simpleqa,
    "mmmu": mmmu,
    "mmlongbench": mmlongbench,
    "crag_mm": crag_mm,
}


def figures(questions: list[Question], gate: str, context: str) -> dict[str, float]:
    """SimpleQA's figures: right, declined, right among those attempted, and the harmonic mean of first and third.

    What MMLongBench-Doc says its document does not answer is right when it is declined; its F1 is of the right among
    the answerable and of the right among the attempted.
    """
    said = []
    for q in questions:
        asked = {
            "question": q.text,
            "choices": [],
            "images": [q.image] if q.image else [],
            "evidence": [],
        }
        if context == "oracle":
            asked["evidence"] = [{"text": None, "image": page} for page in q.gold]
        said.append(GATES[gate](asked))
    right = [s in q.accepted for s, q in zip(said, questions, strict=True)]
    attempted = [s != DECLINES for s in said]
    answerable = [DECLINES not in q.accepted for q in questions]
    hits = sum(r and a for r, a in zip(right, attempted, strict=True))
    given, recall = hits / max(1, sum(attempted)), hits / sum(answerable)
    return {
        "accuracy": sum(right) / len(said),
        "not attempted": 1 - sum(attempted) / len(said),
        "given attempted": given,
        "f1": 2 * given * recall / (given + recall) if hits else 0.0,
        "n": len(said),
    }


def crag_documents(folder: Path) -> int:
    """Passages of the web store, and the entities of the image store, each once."""
    fields = []
    for store in ("web", "image"):
        with closing(sqlite3.connect(folder / store / "chroma.sqlite3")) as opened:
            fields += opened.execute("SELECT key, string_value FROM embedding_metadata").fetchall()
    entities = {name for key, value in fields if key == "info" for name in json.loads(value)}
    return len(entities) + sum(key == "page_snippet" for key, _ in fields)


def truthfulness(questions: list[Question], gate: str) -> dict[str, float]:
    """CRAG-MM's two scores: over turns, and over conversations, each stopped after two turns that are not right."""
    points = {"correct": 1, "deflected": 0, "incorrect": -1}
    score_of = {q.id: points[label(gate, q)] for q in questions}
    sessions: dict[str, list[int]] = {}
    for id_, score in score_of.items():
        sessions.setdefault(id_.rpartition("-")[0], []).append(score)
    for turns in sessions.values():
        stopped = False
        for place in range(len(turns)):
            if stopped:
                turns[place] = 0
            elif place and turns[place] < 1 and turns[place - 1] < 1:
                stopped = True
    means = [sum(turns) / len(turns) for turns in sessions.values()]
    return {
        "truthfulness": sum(score_of.values()) / len(score_of),
        "by conversation": sum(means) / len(means),
    }
