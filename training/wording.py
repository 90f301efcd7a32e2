"""Train the linear model of `demur.judge.wording` on the labelled sentences of this folder and write its weights.

    python training/wording.py            writes demur/judge/data/wording.npz
    python training/wording.py --cross    five folds, by language: precision and recall

Read are the sentences of `rows`, `later` and `last`, the tuning part of the shipped answers, and plain answers that are
made up; nothing untouched, nor what is held out of the last batches (`held_out`). To some a courtesy or caveat is
added (around_training.jsonl.xz); not in --cross, where such copies would be in two folds. The weights are the mean of
two fits: one without what `later` reads, most of which was written to mislead the reader, and one with all. Those
raise recall on such replies and cost precision on usual ones; the mean keeps both.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from demur.core.store import seed_of
from demur.core.thinking import visible
from demur.judge import wording
from demur.judge.deflection import bare_deflections

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LABELLED = [
    HERE / f"{name}.jsonl.xz"
    for name in (
        "deflections_by_language",
        "deflections",
        "deflections_evouna",
        "deflections_ordinary",
    )
]
LATER = HERE / "deflections_replies.jsonl.xz"
LAST = HERE / "deflections_last.jsonl.xz"
HELD_OUT_OF = ("twenty-eighth", "twenty-ninth")
"""Batches of `LAST` of which one reply in eight is only measured on."""
GRADED = ROOT / "tests/judge/graded_by_language.jsonl"
SHIPPED = ROOT / "demur/judge/data/labelled.jsonl"
GRADED_NQ = HERE / "graded_evouna.jsonl.xz"
QUESTIONS = ROOT / "demur/sample/atlas/questions.jsonl"
PLAIN = {
    "en": (
        "It is {}.",
        "The answer is {}.",
        "Based on the provided context, it is {}.",
        "I think it's {}.",
        "{}, probably.",
        "The answer to this question is {}.",
        "The answer to your question is: {}",
        "To answer the question: {}.",
        "That would be {}.",
        "This is {}.",
        "The image shows {}.",
        "Looking at the image, this appears to be {}.",
        "Based on what I know, that would be {}.",
    ),
    "es": (
        "Es {}.",
        "La respuesta es {}.",
        "Según el texto, es {}.",
        "Creo que es {}.",
        "La respuesta a esta pregunta es {}.",
        "Eso sería {}.",
        "Esto es {}.",
        "La imagen muestra {}.",
        "Por lo que veo en la imagen, parece ser {}.",
        "Por lo que sé, sería {}.",
    ),
    "ca": (
        "És {}.",
        "La resposta és {}.",
        "Segons el text, és {}.",
        "Crec que és {}.",
        "La resposta a aquesta pregunta és {}.",
        "Això seria {}.",
        "Això és {}.",
        "La imatge mostra {}.",
        "Pel que veig a la imatge, sembla {}.",
        "Pel que sé, seria {}.",
    ),
    "gl": (
        "É {}.",
        "A resposta é {}.",
        "Segundo o texto, é {}.",
        "Creo que é {}.",
        "A resposta a esta pregunta é {}.",
        "Iso sería {}.",
        "Isto é {}.",
        "A imaxe mostra {}.",
        "Polo que vexo na imaxe, parece {}.",
        "Polo que sei, sería {}.",
    ),
    "eu": (
        "{} da.",
        "Erantzuna {} da.",
        "Testuaren arabera, {} da.",
        "Uste dut {} dela.",
        "Galdera honen erantzuna {} da.",
        "Hori {} litzateke.",
        "Hau {} da.",
        "Irudiak {} erakusten du.",
        "Irudia ikusita, {} dirudi.",
        "Dakidanez, {} litzateke.",
    ),
    "fr": (
        "C'est {}.",
        "La réponse est {}.",
        "D'après le texte, c'est {}.",
        "Je pense que c'est {}.",
        "La réponse à cette question est {}.",
        "Ce serait {}.",
        "Voici {}.",
        "L'image montre {}.",
        "D'après ce que je vois sur l'image, il semble s'agir de {}.",
        "D'après ce que je sais, ce serait {}.",
    ),
    "de": (
        "Es ist {}.",
        "Die Antwort lautet {}.",
        "Laut dem Text ist es {}.",
        "Ich glaube, es ist {}.",
        "Die Antwort auf diese Frage ist {}.",
        "Das wäre {}.",
        "Das ist {}.",
        "Das Bild zeigt {}.",
        "Auf dem Bild scheint das {} zu sein.",
        "Nach allem, was ich weiß, wäre das {}.",
    ),
    "it": (
        "È {}.",
        "La risposta è {}.",
        "Secondo il testo è {}.",
        "Credo che sia {}.",
        "La risposta a questa domanda è {}.",
        "Sarebbe {}.",
        "Questo è {}.",
        "L'immagine mostra {}.",
        "Guardando l'immagine, sembra essere {}.",
        "Per quello che so, sarebbe {}.",
    ),
    "pt": (
        "É {}.",
        "A resposta é {}.",
        "Segundo o texto, é {}.",
        "Acho que é {}.",
        "A resposta a esta pergunta é {}.",
        "Seria {}.",
        "Isto é {}.",
        "A imagem mostra {}.",
        "Pelo que vejo na imagem, parece ser {}.",
        "Pelo que sei, seria {}.",
    ),
    "nl": (
        "Het is {}.",
        "Het antwoord is {}.",
        "Volgens de tekst is het {}.",
        "Ik denk dat het {} is.",
        "Het antwoord op deze vraag is {}.",
        "Dat zou {} zijn.",
        "Dit is {}.",
        "De afbeelding toont {}.",
        "Op de afbeelding lijkt dit {} te zijn.",
        "Voor zover ik weet zou dat {} zijn.",
    ),
    "pl": (
        "To {}.",
        "Odpowiedź to {}.",
        "Według tekstu jest to {}.",
        "Myślę, że to {}.",
        "Odpowiedź na to pytanie to {}.",
        "To byłoby {}.",
        "To jest {}.",
        "Na zdjęciu widać: {}.",
        "Patrząc na zdjęcie, wydaje się, że to {}.",
        "Z tego, co wiem, byłoby to {}.",
    ),
    "ru": (
        "Это {}.",
        "Ответ: {}.",
        "Согласно тексту, это {}.",
        "Думаю, это {}.",
        "Ответ на этот вопрос: {}.",
        "Это было бы {}.",
        "Вот это {}.",
        "На изображении: {}.",
        "Судя по изображению, это, похоже, {}.",
        "Насколько я знаю, это было бы {}.",
    ),
    "tr": (
        "{}.",
        "Cevap {}.",
        "Metne göre {}.",
        "Sanırım {}.",
        "Bu sorunun cevabı {}.",
        "Bu {} olurdu.",
        "Bu {}.",
        "Görselde {} görülüyor.",
        "Görsele bakınca bu {} gibi görünüyor.",
        "Bildiğim kadarıyla bu {} olurdu.",
    ),
    "ar": (
        "إنه {}.",
        "الجواب هو {}.",
        "وفقًا للنص، إنه {}.",
        "أظن أنه {}.",
        "الإجابة عن هذا السؤال هي {}.",
        "سيكون ذلك {}.",
        "هذا هو {}.",
        "تُظهر الصورة {}.",
        "بالنظر إلى الصورة، يبدو أن هذا {}.",
        "بناءً على ما أعرفه، سيكون ذلك {}.",
    ),
    "hi": (
        "यह {} है।",
        "उत्तर {} है।",
        "पाठ के अनुसार, यह {} है।",
        "मुझे लगता है कि यह {} है।",
        "इस प्रश्न का उत्तर {} है।",
        "वह {} होगा।",
        "यह {} है।",
        "चित्र में {} दिखता है।",
        "चित्र को देखकर यह {} लगता है।",
        "मेरी जानकारी के अनुसार वह {} होगा।",
    ),
    "zh": (
        "是{}。",
        "答案是{}。",
        "根据文中内容，是{}。",
        "我想是{}。",
        "这个问题的答案是{}。",
        "那应该是{}。",
        "这是{}。",
        "图片显示的是{}。",
        "从图片来看，这似乎是{}。",
        "据我所知，那是{}。",
    ),
    "ja": (
        "{}です。",
        "答えは{}です。",
        "資料によると{}です。",
        "{}だと思います。",
        "この質問の答えは{}です。",
        "それは{}でしょう。",
        "これは{}です。",
        "画像には{}が写っています。",
        "画像を見ると、これは{}のようです。",
        "私の知る限り、それは{}です。",
    ),
    "ko": (
        "{}입니다.",
        "정답은 {}입니다.",
        "본문에 따르면 {}입니다.",
        "{}인 것 같습니다.",
        "이 질문의 답은 {}입니다.",
        "그것은 {}일 것입니다.",
        "이것은 {}입니다.",
        "이미지에는 {}이(가) 보입니다.",
        "이미지를 보면 이것은 {}인 것 같습니다.",
        "제가 아는 바로는 그것은 {}입니다.",
    ),
}
"""How a plain answer is put; Atlas's answers and accepted ones of Natural Questions go in. Of such replies people write
down few."""
AROUND = HERE / "around_training.jsonl.xz"
"""What stands before or after a reply: greetings, courtesies, caveats (it may be out of date, a doctor should be
asked). Alone they decline, so their words look like declining; the rest of the reply decides."""
EACH_AROUND = 30
"""Plain answers, other answers and deflections with each of these."""
EACH = 40
"""Plain answers by each of these, and ten times as many that are a name or number and nothing else."""
WORDS = 800
"""Plain answers that are any word of a reply."""
ENDS = (".", "\u3002", "!", "\u0964")
WEIGHTS = ROOT / "demur/judge/data/wording.npz"


def later() -> list[dict[str, Any]]:
    """Replies written while the reader showed its mistakes, and graded ones."""
    graded = [row for row in lines(GRADED) if row["part"] == "tuning"]
    return lines(LATER) + [
        {
            "language": row["language"],
            "deflects": row["label"] == "deflected",
            "text": row["response"],
        }
        for row in graded
    ]


def held_out(row: dict[str, Any]) -> bool:
    """Whether a reply of `LAST` is only measured on."""
    return row["part"] in HELD_OUT_OF and seed_of("held", row["text"]) % 8 == 0


def last() -> list[dict[str, Any]]:
    """The last batches, without what is held out of them."""
    return [row for row in lines(LAST) if not held_out(row)]


def rows() -> list[dict[str, Any]]:
    """The labelled sentences, the tuning part of the shipped answers, and plain answers."""
    found = [row for file in LABELLED for row in lines(file)]
    for row in lines(SHIPPED):
        if row["part"] == "tuning" and (text := visible(row["response"])):
            found.append(
                {"language": row["language"], "deflects": row["label"] == "deflected", "text": text}
            )
    said = plain_answers()
    draw = np.random.default_rng(0)
    alone = ("{}",) * 10
    replies = " ".join(row["response"] for row in lines(GRADED_NQ) if row["label"] != "deflected")
    words = sorted({word for word in re.findall(r"\b[a-z]{3,}\b", replies)} - bare_deflections()[0])
    for word in draw.choice(words, WORDS, replace=False):  # as a bad extractive reader answers
        found.append({"language": "en", "deflects": False, "text": str(word)})
    for language, forms in [("en", alone), *PLAIN.items()]:
        for form in forms:
            for answer in draw.choice(said, EACH, replace=False):
                found.append({"language": language, "deflects": False, "text": form.format(answer)})
    return found


def plain_answers() -> list[str]:
    """What goes into `PLAIN`."""
    accepted = [answer for row in lines(GRADED_NQ) for answer in row["answers"]]
    accepted += [answer for row in lines(QUESTIONS) for answer in row["answers"]]
    return sorted({answer for answer in accepted if len(answer.split()) <= 5})


def surrounded(labelled: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers and deflections of one sentence or two with something around them, labelled as without."""
    draw = np.random.default_rng(1)
    said = plain_answers()
    found = []
    for entry in lines(AROUND):
        code = entry["language"]
        short = [
            row
            for row in labelled
            if row.get("language", "en") == code
            and len(row["text"]) < 200
            and row["text"].rstrip().endswith(ENDS)
        ]
        of = {
            deflects: [row["text"] for row in short if row["deflects"] == deflects]
            for deflects in (True, False)
        }
        space = "" if code in ("zh", "ja") else " "
        for form in [
            *(f"{one}{space}{{}}" for one in entry["before"]),
            *(f"{{}}{space}{one}" for one in entry["after"]),
        ]:
            plain = [
                str(draw.choice(PLAIN[code])).format(draw.choice(said)) for _ in range(EACH_AROUND)
            ]
            answers = [*plain, *(str(text) for text in draw.choice(of[False], EACH_AROUND))]
            declining = [str(text) for text in draw.choice(of[True], EACH_AROUND)]
            for deflects, texts in ((False, answers), (True, declining)):
                found += [
                    {"language": code, "deflects": deflects, "text": form.replace("{}", text)}
                    for text in texts
                ]
    return found


def lines(file: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file, or of a compressed one."""
    text = lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
    return [json.loads(line) for line in text.decode().split("\n") if line]


def matrix(texts: list[str]) -> sp.csr_matrix:
    """One row a text, of unit length: buckets that occur, each the same weight."""
    found = [wording.buckets(text) for text in texts]
    sizes = [len(f) for f in found]
    values = np.repeat([1 / np.sqrt(max(1, n)) for n in sizes], sizes)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_matrix((values, np.concatenate(found), ends), shape=(len(texts), wording.BUCKETS))


def fitted(x: sp.csr_matrix, y: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.float64], float]:
    """Weights and bias. What few sentences have is penalised less (it is scaled by its inverse document frequency).

    The penalty, the scale and the words beside the runs, and the numbers of `demur.judge.wording`, were chosen on five
    folds like those of `--cross`.
    """
    rarity = np.log((1 + x.shape[0]) / (1 + np.bincount(x.indices, minlength=x.shape[1])))
    model = LogisticRegression(C=5, max_iter=2_000).fit(x @ sp.diags(rarity), y)
    return model.coef_[0] * rarity, float(model.intercept_[0])


def mean_of_two(
    x: sp.csr_matrix, y: npt.NDArray[np.bool_], first: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], float]:
    """The mean of a fit to the rows marked ``first`` and a fit to all."""
    (some, at), (every, bias) = fitted(x[first], y[first]), fitted(x, y)
    return (some + every) / 2, (at + bias) / 2


def training() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The sentences of the weights: of both fits, and of the second only."""
    earlier, since = rows(), later()
    return earlier + surrounded(earlier) + last(), since


def cross(labelled: list[dict[str, Any]], first: npt.NDArray[np.bool_]) -> None:
    """Precision and recall by language, each sentence by a model that has not seen it."""
    y = np.array([row["deflects"] for row in labelled])
    x = matrix([visible(row["text"]) for row in labelled])
    p = np.zeros(len(y))
    for seen, unseen in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        weights, bias = mean_of_two(x[seen], y[seen], first[seen])
        p[unseen] = x[unseen] @ weights + bias
    languages = np.array([row.get("language", "en") for row in labelled])
    for code in ["all", *sorted(set(languages))]:
        part = np.ones(len(y), bool) if code == "all" else languages == code
        said = p > 0
        right = (said & y & part).sum()
        precision, recall = right / max(1, (said & part).sum()), right / max(1, (y & part).sum())
        sys.stdout.write(f"{code:4} {part.sum():6}   {precision:.3f} {recall:.3f}\n")


def main() -> None:
    """Train on everything and write, or cross-validate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cross", action="store_true", help="cross-validate; write nothing")
    args = parser.parse_args()
    earlier, since = (rows() + last(), later()) if args.cross else training()
    labelled = earlier + since
    first = np.arange(len(labelled)) < len(earlier)
    if args.cross:
        return cross(labelled, first)
    x, y = (
        matrix([visible(row["text"]) for row in labelled]),
        np.array([row["deflects"] for row in labelled]),
    )
    found, bias = mean_of_two(x, y, first)
    scale = float(
        np.abs(found).max() / 127**2
    )  # roots: the many small weights need fine steps, the few large ones room
    roots = np.round(np.sign(found) * np.sqrt(np.abs(found) / scale)).astype(np.int8)
    np.savez_compressed(WEIGHTS, roots=roots, scale=np.float64(scale), bias=np.float64(bias))
    sys.stdout.write(
        f"{WEIGHTS.relative_to(ROOT)}: {len(labelled):,} sentences, {WEIGHTS.stat().st_size:,} bytes\n"
    )
    return None


if __name__ == "__main__":
    main()
