"""Which replies decline: the floor of plain refusals, names, cautions, and the untouched sets."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from demur.judge import encoder
from demur.judge.deflection import MOST, read
from demur.judge.plain_refusals import is_plain_refusal

HERE = Path(__file__).parent
QUESTIONS = """Who designed the Harbour Bridge?
When did the library open?
How many floors does the tower have?
Is the museum free on Sundays?
Which of the two rivers is longer?
What colour is the car in the picture?
Does the contract mention a deposit?
Why did the mayor resign?
Which is the capital of Latria? (A) Tarn (B) Velo (C) Oster (D) Pinn
Tell me about the population of Zelden.""".splitlines()
"""One of each shape: who, when, how many, yes or no, which of, what colour, does it mention, why, a choice, a task."""
REFUSALS = """I don't know based on the provided context.
No relevant documents were found.
It is not stated.
I couldn't find any information about that in the documents.
Not mentioned in the context.
I don't know.
I do not know the answer.
I don't have enough information to answer this question.
There is not enough information in the context to answer the question.
The provided context does not contain the answer.
The context does not provide this information.
The documents do not mention this.
The answer cannot be determined from the given information.
I cannot answer this question based on the provided documents.
I'm sorry, but I can't answer that.
Sorry, I am unable to find the answer in the provided text.
The text doesn't say.
The passages do not say anything about it.
No information available.
Information not found.
The answer is not in the documents.
This is not mentioned in the passage.
Based on the context, I cannot determine the answer.
The image does not show this.
I can't tell from the image.
It cannot be determined from the picture.
Insufficient information to answer.
The given context is insufficient to answer the question.
Unfortunately, the provided passages do not include any relevant information.
I am unable to answer this question with the information provided.
There is no mention of this in the text.
None of the 5 documents contain the answer.
No answer found in the context.
I was unable to find relevant information in the retrieved documents.
The retrieved passages don't address this question.
I have no information on this.
It's not specified in document 3.
We could not find anything relevant to your query.
**The source material does not specify.** [1]
I don't know. Is there anything else I can help you with?""".splitlines()
IN_OTHER_LANGUAGES = """es No lo sé con la información proporcionada.
ca El context no ho menciona.
gl Non atopei información sobre iso nos documentos.
eu Ez dago nahikoa informazio galderari erantzuteko.
fr Le contexte fourni ne permet pas de répondre à la question.
de Dazu finde ich in den Dokumenten keine Angaben.
it Il testo non fornisce questa informazione.
pt Não encontrei essa informação nos documentos fornecidos.
nl Dat staat niet in de tekst.
pl Podany kontekst nie zawiera odpowiedzi na to pytanie.
tr Verilen belgelerde bu bilgi yok.
ru В предоставленных документах нет информации об этом.
ar لا توجد معلومات كافية للإجابة عن السؤال.
hi दिए गए संदर्भ में इसका उत्तर नहीं है।
zh 根据提供的上下文无法回答这个问题。
ja 提供された文書にはその情報がありません。
ko 제공된 문서에는 해당 정보가 없습니다.""".splitlines()


def test_a_plain_refusal_declines_whatever_is_asked() -> None:
    assert len(REFUSALS) == 40
    missed = [pair for pair in product(REFUSALS, QUESTIONS) if not read(*pair).deflects]
    assert not missed


@pytest.mark.parametrize("row", IN_OTHER_LANGUAGES)
def test_a_plain_refusal_in_another_language(row: str) -> None:
    text = row.partition(" ")[2]
    assert is_plain_refusal(text)
    assert all(read(text, question).deflects for question in QUESTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "The vicar doesn't say.",
        "No, it is not.",
        "None of the documents mentions Malta.",
        "42",
        "",
        "I don't know. " * 60,
    ],
)
def test_what_says_more_or_less_is_no_plain_refusal(text: str) -> None:
    assert not is_plain_refusal(text)


def test_a_clear_reply_does_not_run_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "declines", lambda *parts: pytest.fail("the encoder ran"))
    monkeypatch.setattr(encoder, "kind", lambda text: pytest.fail("the encoder ran"))
    reading = read("The documents do not mention this.", QUESTIONS[0])
    assert (reading.deflects, reading.kind, reading.probability) == (True, "lack", MOST)
    assert read("Could you provide more context?").kind == "asks back"
    assert not read("It was built in 1932.", QUESTIONS[0]).deflects


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("None", "Which of the two rivers dries up?"),
        ("None.", "How many survived?"),
        ("Na", "What is the chemical symbol of sodium?"),
        ("NA", "Which country code has Namibia?"),
        ("Pass", "What does a player say who does not bid?"),
        ("Help!", "Which album did the Beatles release in 1965?"),
        ("I Can't Tell You Why", "Which song?"),
        ("おおさか", "どの都市ですか?"),
        ("مصطفي", "ما اسم الطفل؟"),
        ("Namibya", "Hangi ülke?"),
        ("나마어", "어느 나라 말입니까?"),
    ],
)
def test_a_name_is_an_answer(reply: str, question: str) -> None:
    assert not read(reply, question).deflects


@pytest.mark.parametrize("reply", ["None", "N/A", "Pass", "Unknown", "Не знаю.", "不明", "Skip."])
def test_the_same_word_declines_where_no_name_is_asked_for(reply: str) -> None:
    assert read(reply, "When did the library open?").deflects


CAUTIONS = """I'm not certain, but it is probably {}.
I don't know for sure, but my best guess is {}.
It's hard to tell from the image, but it looks like {}.
The documents don't say so explicitly, but it appears to be {}.
It is {}, although I could not verify this.
It is {}. Please note that I may be wrong, so check an official source.
I believe it's {}, but the context does not confirm it.
The image is blurry, so I may be mistaken: {}.
Without more information I cannot be certain; still, {} is the likeliest answer.
It is {}. I don't have real-time information, so this may have changed.""".splitlines()
ANSWERS = [
    ("Which lake is it?", "Lake Como"),
    ("Who wrote it?", "Ada Lovelace"),
    ("When did it open?", "1932"),
    ("How tall is it?", "312 metres"),
]


def test_an_answer_with_a_caution_is_an_answer() -> None:
    declined = [
        (caution, answer)
        for caution, (question, answer) in product(CAUTIONS, ANSWERS)
        if read(caution.format(answer), question).deflects
    ]
    assert len(declined) <= 0.05 * len(CAUTIONS) * len(ANSWERS), declined


def labelled(name: str, every: int) -> list[dict]:
    lines = (HERE / "untouched" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[::every]]


@pytest.mark.parametrize(
    ("every", "precision", "recall"),
    [
        pytest.param(40, 0.95, 0.94, marks=pytest.mark.heavy),
        pytest.param(1, 0.975, 0.97, marks=pytest.mark.slow),
    ],
)
def test_replies_that_nothing_was_tuned_on(every: int, precision: float, recall: float) -> None:
    rows = [
        row
        for name in ("replies", "languages", "situations", "usual", "catalan")
        for row in labelled(name, every)
    ]
    readings = [read(row["text"], row.get("question", "")) for row in rows]
    both = sum(r.deflects and row["deflects"] for r, row in zip(readings, rows, strict=True))
    assert both / sum(r.deflects for r in readings) >= precision
    assert both / sum(row["deflects"] for row in rows) >= recall
    right = [r.deflects == row["deflects"] for r, row in zip(readings, rows, strict=True)]
    mean = sum(r.probability for r in readings) / len(rows)
    assert abs(mean - sum(right) / len(rows)) <= 0.03
