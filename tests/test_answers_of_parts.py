"""Answers of several parts in eighteen languages: any order is right, a further item is not. And questions with a "not"."""

from __future__ import annotations

import pytest

import demur
from demur.answers.in_english import in_english
from demur.core.records import Outcome

LISTS = """
What colours has it? | blue and red | Red and blue. | Red, blue and green.
What colours has it? | blue and red | The colours are red and blue, and the star is white. | Red, green and blue.
What colours has it? | blue and red | In the picture, red and blue dominate. | Green, red and blue.
What colours has it? | blue and red | Two colours, red and blue. | The colours are green, red and blue.
What colours has it? | blue and red | Yes, red and blue. | Blue and red and green.
What colours has it? | blue and red | Red, blue, not green. | Red, blue, green.
Which languages are spoken? | French and English | In Canada, English and French are. | English, French and Arabic
Who founded it? | Ann Lee and Bob Ray | Bob Ray and Ann Lee in 1998, and Cy Fox joined later. | Ann Lee, Bob Ray and Cy Fox
Who founded it? | Ann Lee and Bob Ray | By Bob Ray and Ann Lee and sold in 1998. | They were Cy Fox, Ann Lee and Bob Ray.
Who founded it? | Ann Lee and Bob Ray | Bob Ray and Ann Lee, students. | Ann Lee and Bob Ray as well as others
¿De qué colores es? | rojo y azul | Azul y rojo. | Azul, rojo y verde.
¿De qué colores es? | rojo y azul | Azul y rojo, y tiene una estrella en el centro. | Rojo y azul y verde.
De quins colors és? | vermell i blau | Blau i vermell. | Blau, vermell i verd.
De que cores é? | vermello e azul | Azul e vermello. | Azul, vermello e verde.
De que cores é a bandeira? | vermelho e azul | Azul e vermelho. | Azul, vermelho e verde.
Di quali colori è? | rosso e blu | Blu e rosso. | Blu, rosso e verde.
De quelles couleurs est-il ? | rouge et bleu | Bleu et rouge. | Bleu, rouge et vert.
Welche Farben hat sie? | rot und blau | Blau und rot, und sie ist alt. | Blau, rot und grün.
Welke kleuren heeft hij? | rood en blauw | Blauw en rood. | Blauw, rood en groen.
Jakie kolory ma flaga? | czerwony i niebieski | Niebieski i czerwony. | Niebieski, czerwony i zielony.
Какие цвета у флага? | красный и синий | Синий и красный. | Синий, красный и зелёный.
Bayrak hangi renklerdedir? | kırmızı ve mavi | Mavi ve kırmızı. | Mavi, kırmızı ve yeşil.
Zein kolore ditu? | gorria eta urdina | Urdina eta gorria. | Urdina, gorria eta berdea.
ما ألوان العلم؟ | الأحمر والأزرق | الأحمر والأزرق | الأحمر والأزرق والأخضر
झंडे के रंग कौन से हैं? | लाल और नीला | नीला और लाल | नीला, लाल और हरा
旗子是什么颜色？ | 红色和蓝色 | 蓝色和红色。 | 蓝色、红色和绿色
旗は何色ですか？ | 赤と青 | 青と赤だと思います。 | 青と赤と緑
깃발은 무슨 색입니까? | 빨강과 파랑 | 파랑과 빨강입니다. | 파랑과 빨강과 초록
"""
"""question | accepted form | reply of nothing else | reply with a further item"""


@pytest.mark.parametrize("line", LISTS.strip().splitlines())
def test_a_further_item_is_not_right(line: str, without_encoder: None) -> None:
    question, accepted, right, more = line.split(" | ")
    assert demur.grade(question, [accepted], right).outcome is Outcome.CORRECT
    verdict = demur.grade(question, [accepted], more)
    assert verdict.outcome is None, verdict.reason


def test_what_no_encoder_makes_right(
    monkeypatch: pytest.MonkeyPatch, without_encoder: None
) -> None:
    monkeypatch.setattr("demur.judge.encoder.commits", lambda question, form, text: 9.0)
    assert (
        demur.grade("Who?", ["Ann Lee and Bob Ray"], "Ann Lee and Bob Ray and Cy Fox").outcome
        is None
    )


@pytest.mark.parametrize(
    ("question", "accepted", "reply"),
    [
        ("¿Quién la fundó?", "Larry Page y Sergey Brin", "Larry Page, Sergey Brin y Elon Musk."),
        ("¿Quién la fundó?", "Larry Page y Sergey Brin", "Brin."),
        (
            "Quem fundou a empresa?",
            "Larry Page e Sergey Brin",
            "Larry Page, Sergey Brin e Elon Musk.",
        ),
        ("Kto założył firmę?", "Larry Page i Sergey Brin", "Larry Page, Sergey Brin i Elon Musk."),
        ("Who founded it?", "Larry Page, Sergey Brin", "Brin"),
    ],
)
def test_two_persons_are_no_long_name(
    question: str, accepted: str, reply: str, without_encoder: None
) -> None:
    assert demur.grade(question, [accepted], reply).outcome is None
    assert (
        demur.grade("¿Quién lo escribió?", ["José Ortega y Gasset"], "Gasset").outcome
        is Outcome.CORRECT
    )


def test_a_character_that_also_joins_is_part_of_a_name(without_encoder: None) -> None:
    assert (
        demur.grade("是哪一座？", ["太和殿"], "是太和殿、中和殿里最大的那座。").outcome
        is Outcome.CORRECT
    )


NEGATED = """
correct | ¿Qué mes no es cálido? | Enero | Enero no es cálido.
ungraded | ¿Qué mes no es cálido? | Enero | No es enero.
correct | Welcher Monat ist nicht warm? | Januar | Der Januar ist nicht warm.
ungraded | Welcher Monat ist warm? | Januar | Der Januar ist nicht warm.
correct | Quel mois n'est pas chaud ? | janvier | Janvier n'est pas chaud.
correct | Какой месяц не тёплый? | январь | Январь не тёплый.
correct | Hangi ay sıcak değil? | Ocak | Ocak sıcak değil.
correct | Zer ez dago barne? | gosaria | Gosaria ez dago barne.
correct | أي شهر ليس حارا؟ | يناير | يناير ليس حارا.
incorrect | ما العاصمة؟ | باريس | ليست باريس بل لندن.
correct | कीमत में क्या शामिल नहीं है? | नाश्ता | नाश्ता शामिल नहीं है।
ungraded | 价格不包括什么？ | 早餐 | 不是早餐。
"""
"""verdict | question | accepted form | reply"""


@pytest.mark.parametrize("line", NEGATED.strip().splitlines())
def test_a_negated_question(line: str, without_encoder: None) -> None:
    expected, question, accepted, reply = line.split(" | ")
    verdict = demur.grade(question, [accepted], reply)
    assert (verdict.outcome.value if verdict.outcome else "unjudged") == expected, verdict.reason


@pytest.mark.parametrize(
    ("code", "text", "rewritten"),
    [
        ("es", "230 voltios", "230 V"),
        ("gl", "7 xigabytes", "7 GB"),
        ("fr", "7 Go", "7 GB"),
        ("fr", "5 kilonewtons", "5 kN"),
        ("pl", "7 gigabajtów", "7 GB"),
        ("tr", "230 volttur", "230 V"),
        ("ru", "16 ГБ", "16 GB"),
        ("ru", "5 килоньютонов", "5 kN"),
        ("ru", "100 кв. м", "100 кв. м"),
        ("ar", "7 غيغابايت", "7 GB"),
        ("hi", "7 गीगाबाइट", "7 GB"),
        ("zh", "7吉字节", "7 GB"),
        ("ja", "7000メガバイト", "7000 MB"),
        ("ko", "230볼트", "230 V"),
    ],
)
def test_units_of_data_voltage_and_force(code: str, text: str, rewritten: str) -> None:
    assert in_english(text, code).strip() == rewritten
