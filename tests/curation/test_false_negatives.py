"""A made-up corpus with hard ways of stating an answer: `demur mine --lexical` takes what does not state it, alone."""

import json

import pytest

from demur.cli import main
from demur.core.store import Problems, read_jsonl

CASES = {
    # id: question, answers, passages that hold the answer, passages that do not
    "yes-no": (
        "Is the Ollan bridge made of iron?",
        ["no"],
        [],
        [
            "There is no toll on the Ollan bridge.",
            "The Ollan bridge? Yes, it was iron, the mayor said in no hurry.",
        ],
    ),
    "unit": (
        "How long is the Perrin tunnel?",
        ["5,730 m"],
        [
            "The Perrin tunnel is 5.73 km long.",
            "At 18,799 feet the Perrin tunnel is long.",
            "Perrin tunnel, 5 730 metres.",
        ],
        [
            "The Perrin tunnel cost 5,730 francs.",
            "The Perrin tunnel took 5.73 years.",
            "Perrin tunnel: 15,730 m of pipe.",
        ],
    ),
    "separators": (
        "How many people live in Quennet?",
        ["1,234,567"],
        [
            "Quennet has 1.234.567 people.",
            "Quennet: 1 234 567 people",
            "Quennet has 1234567 people.",
        ],
        [
            "Quennet has 234,567 people.",
            "Quennet had 1,234 people.",
            "Quennet ran version 1.234.56 of it.",
        ],
    ),
    "day": (
        "When was Tarvo Linn born?",
        ["+1975-07-12T00:00:00Z"],
        [
            "Tarvo Linn was born on July 12th, 1975.",
            "Tarvo Linn (born 12/7/75)",
            "Tarvo Linn, *12.07.1975",
        ],
        [
            "Tarvo Linn married in July 1975.",
            "Tarvo Linn left on 13 July 1975.",
            "Tarvo Linn, 12 July 1976.",
        ],
    ),
    "era": (
        "In which year did Brennus Maro die?",
        ["44 BC"],
        ["Brennus Maro died in 44 BCE.", "Brennus Maro, dead by 44 B.C."],
        ["Brennus Maro died at 44 years.", "Brennus Maro ruled until AD 44."],
    ),
    "decade": (
        "When was the Sellick mill built?",
        ["1970s"],
        ["The Sellick mill is of the 1970's."],
        ["The Sellick mill had 1970 workers.", "Sellick mill, of the 1960s."],
    ),
    "common words": (
        "Which novel made Osric Vane known?",
        ["It"],
        ["Osric Vane wrote the novel It in a year."],
        ["It made Osric Vane rich.", "Osric Vane wrote it. It sold well."],
    ),
    "month": (
        "In which month does the Wendel fair open?",
        ["May"],
        ["The Wendel fair opens in May.", "May is when the Wendel fair opens."],
        ["The Wendel fair may open late."],
    ),
    "acronym": (
        "Which country made the Harrow engine?",
        ["US"],
        ["The Harrow engine was made in the U.S. by hand."],
        ["The Harrow engine brought us home."],
    ),
    "inside a word": (
        "What did Illya Dorn teach?",
        ["art", "rio"],
        ["Illya Dorn taught art."],
        ["Illya Dorn was smart and taught at the Riordan party."],
    ),
    "possessive": (
        "Who founded the Corven school?",
        ["Queen's College"],
        [
            "Queens College founded the Corven school.",
            "Corven school: a gift of Queen’s College's dean.",
        ],
        ["The queen visited the Corven school and its college."],
    ),
    "owner": (
        "Who painted the Marsh House?",
        ["Dvořák"],
        ["Dvorak's painting is of the Marsh House.", "The Marsh House is DVOŘÁK’S."],
        ["The Marsh House was Dvorska's."],
    ),
    "diacritics": (
        "Where is the Nordhaus station?",
        ["Århus", "Köln"],
        [
            "Nordhaus station is in Aarhus.",
            "Nordhaus station, Koeln.",
            "Nordhaus station stands in Koln.",
        ],
        ["Nordhaus station has a kolonnade."],
    ),
    "numerals": (
        "Which war closed the Teller works?",
        ["World War II"],
        ["World War 2 closed the Teller works."],
        ["World War I closed the Teller works.", "Teller works, world of 2 wars."],
    ),
    "korean": (
        "Where was Kim Taro born?",
        ["서울"],
        ["Kim Taro 서울에서 태어났다.", "서울은 Kim Taro 고향이다."],
        ["Kim Taro 부산에서 살았다."],
    ),
    "chinese": (
        "Where does Li Mobai work?",
        ["中国"],
        ["Li Mobai 他在中国工作。"],
        ["Li Mobai 他在日本工作。"],
    ),
    "plural": (
        "Which animal lives on Stag Isle?",
        ["wolf"],
        ["Many wolves live on Stag Isle."],
        ["A wolfhound came to Stag Isle."],
    ),
}


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    root = tmp_path_factory.mktemp("hard")
    passages, questions = [], []
    for name, (question, answers, held, free) in CASES.items():
        gold = {
            "id": f"{name}/gold",
            "title": "gold",
            "text": f"{question} Nobody had asked before.",
        }
        passages += [
            gold,
            *({"id": f"{name}/held/{i}", "title": "", "text": t} for i, t in enumerate(held)),
        ]
        passages += [{"id": f"{name}/free/{i}", "title": "", "text": t} for i, t in enumerate(free)]
        questions.append(
            {"id": name, "question": question, "answers": answers, "gold": [gold["id"]]}
        )
    for file, rows in (("passages", passages), ("questions", questions)):
        (root / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "demur-map.yaml").write_text(
        "name: hard\nsamples: {files: [questions.jsonl], fields: {id: id, question: question, answers: answers, gold: gold}}\n"
        "documents:\n  - {files: [passages.jsonl], fields: {id: id, title: title, text: text}}\n"
    )
    pool, index, out = (str(root / name) for name in ("pool", "index", "mined"))
    by = ["--encoder", "curation_world:quick"]
    assert main(["pool", "build", f"generic:{root}", "--documents", "--out", pool]) == 0
    assert main(["index", "build", pool, "--out", index, *by]) == 0
    words = ["--text", "0", "--visual", "0", "--lexical", "60", "--modes", "lexical"]
    assert main(["mine", pool, "--index", index, *by, "--out", out, *words]) == 0
    return {
        row["id"]: row["negatives"]
        for _, row in read_jsonl(root / "mined/samples.jsonl", Problems())
    }


@pytest.mark.parametrize("name", CASES)
def test_what_states_the_answer_is_no_distractor_and_what_does_not_is(mined, name):
    mine = {e["id"].removeprefix("hard:") for e in mined[f"hard:{name}"]}
    _, _, held, free = CASES[name]
    assert {id for id in mine if id.startswith(f"{name}/")} == {
        f"{name}/free/{i}" for i in range(len(free))
    }, held
