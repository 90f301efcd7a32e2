"""A corpus of your own, from zero: the files of docs/your-own-corpus.md, and the functions that answer and gate.

$ python examples/own_corpus.py corpus

writes 60 line drawings of invented substances, two passages about each, 40 questions, the field map and the recipe, the
same bytes every time. In your project the files are there already; you write the map, the recipe and the functions.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
import sys
from pathlib import Path
from typing import Any

PARTS = (
    ("nor", "bel", "tri", "cas", "dor", "fen", "gal", "hel", "lum", "mar"),
    ("van", "cor", "dex", "lin", "mut", "pas"),
)
PEOPLE = (
    "Aldane",
    "Brekke",
    "Corvin",
    "Dahlem",
    "Estrup",
    "Falkner",
    "Gersten",
    "Holm",
    "Ivers",
    "Jessop",
)
TOWNS = ("Arnsted", "Birkfeld", "Castrow", "Dunmere", "Elsbach", "Fornham")
USES = ("a dye", "a solvent", "a fragrance", "a varnish", "a preservative", "a sweetener")
HANGING = ("", "", "OH", "NH2", "Cl", "Br", "F", "CH3", "NO2", "SH")

MAP = """\
name: substances
samples:
  files: questions.jsonl
  licence: CC0-1.0
  fields:
    answers: accepted
    images: drawing
    gold: [passages, drawings]
    topic: about
documents:
  - files: passages.csv
    fields: {text: body, page: substance}
  - files: drawings.csv
    fields: {image: file, page: substance}
"""
RECIPE = """\
name: substances
version: 0.1.0
sources:
  - name: generic
    path: .
gates:
  - {system: "python:examples.own_corpus:guess", name: guess, stages: [parametric], cost: 0}
  - {system: "python:examples.own_corpus:read", name: read, stages: [solvable, distractor]}
retrieval: {encoder: offline, text: 8, visual: 4}
rules: {k_min: 3}
topics: none
retest: 0
limits: [The substances are invented.]
"""


# --- the raw files -------------------------------------------------------------------------------


def substances(count: int = 60) -> list[dict[str, Any]]:
    """Invented substances with what is known of each."""
    dice = random.Random("substances")
    names = [f"{a}{b}ane".capitalize() for a in PARTS[0] for b in PARTS[1]]
    dice.shuffle(names)
    return [
        {
            "id": f"s{n:02}",
            "name": name,
            "kelvin": 250 + 3 * n + dice.randint(0, 2),
            "rings": dice.randint(1, 3),
            "density": round(0.8 + n / 80 + dice.random() / 100, 3),
            "by": dice.choice(PEOPLE),
            "town": dice.choice(TOWNS),
            "year": 1850 + n,
            "use": dice.choice(USES),
            "hanging": [dice.choice(HANGING) for _ in range(6)],
        }
        for n, name in enumerate(names[:count])
    ]


def drawn(what: dict[str, Any], path: Path) -> None:
    """A line drawing of rings in a row, with what hangs on the first and the last."""
    from PIL import Image, ImageDraw, ImageFont

    side = 280
    image = Image.new("L", (side, side), 255)
    draw = ImageDraw.Draw(image)
    step = side / (what["rings"] * 1.8 + 3.0)
    for number in range(what["rings"]):
        x, y = side / 2 + (number - (what["rings"] - 1) / 2) * step * math.sqrt(3), side / 2
        corners = [
            (x + step * math.sin(math.pi * k / 3), y - step * math.cos(math.pi * k / 3))
            for k in range(6)
        ]
        draw.polygon(corners, outline=0, width=3)
        for k, letters in enumerate(what["hanging"]):
            inside = (k in (1, 2) and number < what["rings"] - 1) or (k in (4, 5) and number > 0)
            if letters and not inside:
                (cx, cy), out = corners[k], 0.6 if k % 2 == number % 2 else 0.5
                draw.line([(cx, cy), (cx + (cx - x) * out, cy + (cy - y) * out)], fill=0, width=3)
                end = (cx + (cx - x) * (out + 0.3), cy + (cy - y) * (out + 0.3))
                draw.text(end, letters, fill=0, font=ImageFont.load_default(14), anchor="mm")
    image.save(path)


def written(folder: Path) -> None:
    """All files of the corpus, with the map and the recipe."""
    (folder / "drawings").mkdir(parents=True, exist_ok=True)
    known = substances()
    with (folder / "passages.csv").open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "title", "body", "substance"])
        for what in known:
            name, of = what["name"], f"{what['id']}"
            rows.writerow(
                [
                    f"{of}-history",
                    f"History of {name}",
                    f"{name} was isolated in {what['year']} by {what['by']} in {what['town']}. It has been sold as "
                    f"{what['use']} ever since, and small amounts of it are kept in the cabinets of older schools.",
                    of,
                ]
            )
            built = ("one ring", "two rings", "three rings")[what["rings"] - 1]
            rows.writerow(
                [
                    f"{of}-data",
                    f"Properties of {name}",
                    f"Pure {name} melts at {what['kelvin']} K, and its density at room temperature is {what['density']} "
                    f"g/cm3. The molecule of this 2-methoxy derivative is built of {built}.",
                    of,
                ]
            )
    with (folder / "drawings.csv").open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "title", "file", "substance"])
        for what in known:
            drawn(what, folder / "drawings" / f"{what['id']}.png")
            rows.writerow(
                [
                    f"{what['id']}-drawing",
                    f"A structural drawing, sheet {what['id']}",
                    f"drawings/{what['id']}.png",
                    what["id"],
                ]
            )
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as out:
        for row in questions(known):
            out.write(json.dumps(row) + "\n")
    (folder / "demur-map.yaml").write_text(MAP, encoding="utf-8")
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")


def questions(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """40 questions: ten each on melting points, densities, rings and who isolated what; one in four with a drawing."""
    found = []
    for n in range(40):
        what, kind = known[n], ("melting", "density", "rings", "history")[n % 4]
        name, id_ = what["name"], what["id"]
        ask = {
            "melting": f"At what temperature does {name} melt?",
            "density": f"What is the density of {name}?",
            "rings": f"How many rings does the molecule of {name} have?",
            "history": f"Who isolated {name}?",
        }[kind]
        say = {
            "melting": [f"{what['kelvin']} K"],
            "density": [f"{what['density']} g/cm3"],
            "rings": [str(what["rings"])],
            "history": [what["by"]],
        }[kind]
        drawing = n % 16 == 3 or n % 8 == 0
        found.append(
            {
                "id": f"q{n:02}",
                "question": ask.replace(name, "the substance in this drawing") if drawing else ask,
                "accepted": say,
                "drawing": f"drawings/{id_}.png" if drawing else None,
                "about": kind,
                "passages": [f"{id_}-history" if kind == "history" else f"{id_}-data"],
                "drawings": [],
            }
        )
    return found


# --- systems: what you would write -----------------------------------------------------------------

LOOK_FOR = {
    "melt": r"melts at ([\d.]+ K)",
    "density": r"temperature is ([\d.]+ g/cm3)",
    "rings": r"built of (\w+) rings?",
    "isolated": r"isolated in \d+ by (\w+)",
}


def guess(given: dict[str, Any]) -> str:
    """A gate that reads nothing: what a model might say from memory."""
    return {"melt": "300 K", "density": "1 g/cm3", "rings": "6", "isolated": "Nobody"}[_kind(given)]


def read(given: dict[str, Any]) -> str:
    """A gate that answers from the first passage that says anything of the kind, about whatever substance."""
    found = [
        match
        for e in given["evidence"]
        if e["text"] and (match := re.search(LOOK_FOR[_kind(given)], e["text"]))
    ]
    return found[0][1] if found else "I cannot tell."


def rag(given: dict[str, Any]) -> dict[str, Any]:
    """The system under test: answers of the substance that is named, and declines where no passage is about it."""
    name = next(
        (
            word.strip("?.")
            for word in given["question"].split()
            if word.strip("?.").endswith("ane")
        ),
        "",
    )
    about = [e for e in given["evidence"] if e["text"] and (name in e["text"] if name else True)]
    if not about or (not name and len(about) > 1):
        return {"answer": "I cannot answer this from the passages.", "confidence": 0.1}
    answer = read({**given, "evidence": about})
    return {"answer": answer, "confidence": 0.2 if answer.startswith("I cannot") else 0.9}


def _kind(given: dict[str, Any]) -> str:
    return next(kind for kind in LOOK_FOR if kind in given["question"])


if __name__ == "__main__":
    written(Path(sys.argv[1]))
