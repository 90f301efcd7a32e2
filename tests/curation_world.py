"""A small world to curate: a source folder of towns and mayors, a quick encoder, gates from a table of labels."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

from PIL import Image
from simulated_gate import SimulatedGate
from stub_encoder import StubEncoder

from demur.core.errors import UsageError
from demur.core.records import Method, Response, Status
from demur.core.store import digest, file_digest, read_json, write_json
from demur.curation.build.recipe import parse_recipe
from demur.judge.local import LocalJudge
from demur.release import Release, verify

N = 14
GATE = "simulated_gate:SimulatedGate"
WORDS = [
    "river",
    "harbour",
    "market",
    "bridge",
    "tower",
    "garden",
    "mill",
    "square",
    "chapel",
    "orchard",
    "quarry",
    "station",
    "museum",
    "forge",
    "canal",
]


def quick(argument="", **options):
    """An encoder by name, for other processes: ``curation_world:quick``."""
    return StubEncoder()


def mayor(i):
    return f"{['Zorbik', 'Quellin', 'Vantor', 'Morwen'][i % 4]} {chr(65 + i)}undrel"


def picture(i):
    """A picture of its own for every number: eight columns of grey, by its bits and a seed."""
    dice = random.Random(i)
    image = Image.new("RGB", (64, 64))
    for x in range(8):
        for y in range(8):
            colour = tuple(dice.randrange(256) for _ in range(3))
            image.paste(colour, (8 * x, 8 * y, 8 * x + 8, 8 * y + 8))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def folder(root: Path, n=N) -> Path:
    """Write the source; every second question is about an image."""
    root.mkdir(parents=True, exist_ok=True)
    passages, pictures, questions = [], [], []
    for i in range(n):
        dice = random.Random(i)
        text = f"The mayor of Town{i} is {mayor(i)}. " + " ".join(dice.choices(WORDS, k=30))
        passages.append({"id": f"p{i}", "title": f"Town{i}", "text": text, "page": f"town{i}"})
        for k in range(2):
            other = f"Notes {k} on Town{i}: " + " ".join(
                random.Random(100 * i + k).choices(WORDS, k=30)
            )
            passages.append(
                {
                    "id": f"n{i}.{k}",
                    "title": f"Notes {i}.{k}",
                    "text": other,
                    "page": f"notes{i}.{k}",
                }
            )
        (root / f"k{i}.png").write_bytes(picture(i))
        pictures.append(
            {"id": f"i{i}", "title": f"A view of Town{i}", "file": f"k{i}.png", "page": f"town{i}"}
        )
        question = {
            "id": f"q{i}",
            "question": f"Who is the mayor of Town{i}?",
            "answers": [mayor(i)],
            "gold": [f"p{i}"],
            "topic": "towns" if i % 3 else "ports",
        }
        if i % 2:
            (root / f"q{i}.png").write_bytes(picture(1000 + i))
            question |= {
                "photo": f"q{i}.png",
                "question": f"Who is the mayor of the town in this photo ({i})?",
            }
        questions.append(question)
    for name, rows in (("passages", passages), ("pictures", pictures), ("questions", questions)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (root / "demur-map.yaml").write_text(
        "name: towns\n"
        "samples:\n  files: [questions.jsonl]\n"
        "  fields: {id: id, question: question, answers: answers, images: photo, gold: gold, topic: topic}\n"
        "documents:\n"
        "  - {files: [passages.jsonl], fields: {id: id, title: title, text: text, page: page}}\n"
        "  - {files: [pictures.jsonl], fields: {id: id, title: title, image: file, page: page}}\n"
    )
    return root


def simulated(name, **options):
    return {"system": GATE, "name": name, "options": options}


def recipe(source: Path, gates, **more):
    return parse_recipe(
        {
            "name": "towns",
            "version": "1.0.0",
            "sources": [{"name": "generic", "path": str(source)}],
            "gates": gates,
            "retrieval": {"encoder": "curation_world:quick", "text": 6, "visual": 2},
            "retest": 3,
            **{"rules": {"k_min": 2}, **more},
        }
    )


GATES = [
    simulated("weak", strength=0.2),
    simulated("middle", strength=0.35),
    simulated("strong", strength=0.5),
]


class TextOnly(SimulatedGate):
    """A simulated gate that takes no images, as a text model's."""

    def skip_reason(self, ask):
        shown = ask.evidence and all(e.image is not None for e in ask.evidence)
        return "takes no images" if ask.images or shown else super().skip_reason(ask)


def text_only(name, **more):
    return {"system": "curation_world:TextOnly", "name": name, **more}


class Dead:
    """A gate that never answers in time."""

    id, note = "dead", ""

    def __init__(self, argument, context):
        pass

    def skip_reason(self, ask):
        return ""

    async def answer(self, ask):
        return Response(error="no answer within the deadline")

    async def close(self):
        pass


class Mad:
    """A judge that raises, or returns what is no verdict."""

    id = "mad"

    def __init__(self, argument=""):
        pass

    def grade(self, ask, response, answers):
        if response.text.startswith("I"):
            return {"verdict": "GRADE: B-"}
        raise ValueError("not a JSON object")


STATED = [(Method.MODEL, None), (Method.EQUIVALENCE, 0.85), (Method.MATCH, 0.9), (None, None)]


class Varied(LocalJudge):
    """Grades as the local judge does, and states one of four methods and chances."""

    def grade(self, ask, response, answers):
        verdict = super().grade(ask, response, answers)
        method, chance = STATED[sum(ask.id.encode()) % len(STATED)]
        if verdict.status is Status.GRADED:
            verdict = verdict.model_copy(update={"method": method, "probability": chance})
        return verdict


class Unready(LocalJudge):
    """Refuses to grade, as a cascade does whose model calls wrong answers right."""

    async def ready(self, asks):
        raise UsageError("cannot grade", item="unready", cure="name another")


def bytes_of(release: Path):
    return {
        str(p.relative_to(release)): p.read_bytes()
        for p in sorted(release.rglob("*"))
        if p.is_file()
    }


def seal(folder: Path) -> None:
    """Hash everything again, as a careless editor of a release would, or one who forges it."""
    manifest = read_json(folder / "manifest.json")
    manifest["files"] = {n: file_digest(folder / n) for n in manifest["files"]}
    write_json(folder / "manifest.json", manifest | {"sha256": digest(manifest["files"])})


def wrong(folder: Path) -> str:
    """What `verify` has against a release, a line each."""
    return "\n".join(verify(Release.open(folder)))
