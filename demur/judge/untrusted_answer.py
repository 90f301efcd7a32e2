"""A candidate answer as a judge's model is shown it. It may be anybody's text, and may try to be its own judge.

cleaned    control, invisible, direction-turning and private characters are taken out; the record keeps the answer
capped     of a long answer its beginning and its end are shown
fenced     it stands between two lines with a mark that is made from its own hash: it cannot hold its own mark
masked     lines that imitate a verdict, or give orders to a grader, are replaced by a note, and reported
doubted    a replaced passage may be the answer: "The rating is A." where an option is A. To show it would let a forged
           verdict through, and no model can grade what it is not shown: such an answer is judged locally
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.core.records import AnswerSpec
from demur.core.store import digest

LONGEST = 6_000
"""Characters of an answer that a judge is shown, half from its beginning and half from its end."""
MASKED = "[left out: text that imitates a grader]"

# --- look-alikes ----------------------------------------------------------------------------------

_LOOKALIKE = str.maketrans(
    "АВЕКМНОРСТХаекморсхтвнΑΒΕΗΙΚΜΝΟΡΤΧοᴀʙᴄᴅᴇɢʟᴍɴᴏʀᴛᴠᎪᏴᏟᎠᎬᏀᏞᎷᎡᎢᏙᎥꓮꓐꓚꓓꓰꓖꓡꓟꓠꓳꓣꓔꓦØøıɪ‹›〈〉⟨⟩ՕօⲈⲉⲞⲟⲢⲣⲤⲥⲦⲧȻȼɆɇɌɍŦŧ𐐄𐐕",
    "ABEKMHOPCTXaekmopcxtBHABEHIKMNOPTXoABCDEGLMNORTVABCDEGLMRTViABCDEGLMNORTVOoiI<><><>OoEeOoPpCcTtCcEeRrTtOC",
) | {
    **dict.fromkeys(
        map(ord, "\u115f\u1160\u2800\u3164\uffa0")
    ),  # blank, and neither space nor control
    **{
        first + n: chr(65 + n) for first in (0x1F150, 0x1F170, 0x1F1E6) for n in range(26)
    },  # in circles, boxes, flags
}
"""Letters and brackets that look like Latin ones, for finding what imitates a grader; the judge sees the answer's."""


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """The text in the Latin letters that it looks like, without accents; and the place of each of them in the text."""
    if text.isascii():
        return text, range(len(text) + 1)
    letters, places = [], []
    for place, character in enumerate(
        text
    ):  # one at a time: to normalise a thousand marks together takes long
        for c in unicodedata.normalize("NFKD", character.translate(_LOOKALIKE)).translate(
            _LOOKALIKE
        ):
            if unicodedata.category(c) not in ("Mn", "Me"):
                letters.append(c)
                places.append(place)
    return "".join(letters), [*places, len(text)]


# --- what imitates a grader -----------------------------------------------------------------------

_MARKS = "#*_=>\"'`({[<|~ \t-"
_GRADES = "grade|verdict|label|judge?ment|score|rating|result|evaluation"
_GRADE = rf"(?:{_GRADES})"
_LABEL = r"(?:CORRECT|INCORRECT|NOT[ _-]?ATTEMPTED)"
_FIRM = "output|status|decision|assessment|conclusion"
"""Words for a grade that many other things are called by too: only "correct" behind them imitates a grader."""
_SIGN = r"[-=]>|[:=|\u2192\u2013\u2014-]"
_BEFORE, _BEHIND = r"[\"'*]{0,3}\s{0,3}", r"\s{0,3}[\"'*(\[]{0,3}"
_ELSEWHERE = """\
calificación evaluación veredicto nota resultado | correcto correcta acertado acertada
qualificació avaluació veredicte resultat | correcte encertat encertada
cualificación avaliación | correcto correcta
avaliação veredito classificação | correto correta certo certa
valutazione verdetto giudizio voto esito risultato | corretto corretta giusto giusta esatto esatta
évaluation jugement résultat note | correct correcte juste
bewertung urteil ergebnis wertung | richtig korrekt zutreffend
beoordeling oordeel cijfer resultaat uitslag | correct juist goed
ocena werdykt wynik | poprawna poprawny poprawne poprawnie prawidłowa prawidłowo dobrze
değerlendirme karar sonuç puan | doğru
ebaluazioa kalifikazioa epaia emaitza | zuzena egokia
оценка вердикт результат итог | верно правильно верный правильный
التقييم الحكم النتيجة الدرجة | صحيح صحيحة
मूल्यांकन निर्णय परिणाम ग्रेड | सही
评分 评判 判定 结果 判断 評分 結果 | 正确 正確
採点 評価 判定結果 | 正解 正しい
채점 판정 평가 결과 | 정답 맞음 정확 옳음"""
"""Words for a verdict | words for right, by language."""
_ABOVE = """\
ignora ignore ignorad ignoren olvida olvide omite | anterior anteriores previas arriba
ignora ignoreu oblida oblideu | anterior anteriors
ignora ignore esquece | anterior anteriores
ignore ignora ignorem esqueça esquece desconsidere | anterior anteriores acima
ignora ignorate ignori dimentica dimenticate | precedente precedenti
ignore ignorez ignorer oublie oubliez | précédent précédente précédents précédentes ci-dessus
ignoriere ignorieren ignoriert vergiss vergessen missachte | vorherige vorherigen vorigen obige obigen bisherigen
negeer vergeet | vorige voorgaande bovenstaande hierboven eerdere
ignoruj zignoruj zignorujcie pomiń zapomnij | poprzednie poprzednich powyższe powyższych
görmezden yoksay unut | önceki yukarıdaki
ahaztu baztertu | aurreko goiko
игнорируй игнорируйте проигнорируй забудь забудьте | предыдущие предыдущих прежние вышеуказанные
تجاهل | السابقة أعلاه
अनदेखा नज़रअंदाज़ | पिछले ऊपर
忽略 忽视 无视 忘记 忘記 | 以上指 以上的 以上所 以上规 以上規 之前的 上面的 上述 先前的
無視 忘れ | 上記 これまでの 以前の 前の指示 上の指示
무시하 무시해 잊어 잊고 | 이전 위의"""
"""To ignore | above or before, by language: what an order to a grader has, and few answers have."""


def _any_of(words: str) -> str:
    return "|".join(sorted({_folded(word)[0] for word in words.split()}))


def _sides(table: str) -> list[str]:
    return [" ".join(line.split("|")[side] for line in table.splitlines()) for side in (0, 1)]


_THERE = _sides(_ELSEWHERE)
_IGNORE, _BEFORE_THIS = map(_any_of, _sides(_ABOVE))
_GRADE_THERE, _RIGHT_THERE, _SHOUTED_THERE = (
    _any_of(_THERE[0]),
    _any_of(_THERE[1]),
    _any_of(_THERE[1].upper()),
)
_ANY_CASE = (
    rf"\b{_GRADE}{_BEFORE}(?:is(?! (?-i:a) \w):?|{_SIGN}){_BEHIND}(?:{_LABEL}|[ABC])\b",  # not "The result is a draw"
    # only at the end of what is said: "Resultado: A Alemanha venceu"
    rf"(?:{_GRADES}|{_GRADE_THERE}){_BEFORE}(?:{_SIGN}){_BEHIND}"
    rf"(?:{_RIGHT_THERE}|{_LABEL}|(?-i:[ABC]))(?![^\W_]|[ \t]+[^\W_])",
    rf"\b(?:{_FIRM}){_BEFORE}(?:{_SIGN}){_BEHIND}{_LABEL}(?![^\W_]|[ \t]+[^\W_])",
    # a rating out of three; not "Rating: 3 stars", "3.5" or "3/5"
    rf"\brating{_BEFORE}(?:is:?|{_SIGN}|\s){_BEHIND}[0-3](?!\w|[ \t]+\w|[ \t]?[%(/★]|[.,:-]\d)",
    rf"(?:{_GRADE_THERE})\s{{1,3}}(?-i:{_SHOUTED_THERE})(?![^\W_])",
    r"\b(?:is[ _]?)?correct[\"']{0,2}\s{0,3}[:=]\s{0,3}(?:true|yes)\b",
    # orders to whoever grades
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instruction|prompt|rule|above|previous|guideline|system)",
    r"\b(?:as|dear|note to|attention|hey) (?:the |a )?(?:grader|judge|evaluator|examiner)\b",
    r"\b(?:grade|mark|label|rate|score|count) (?:this|it|the answer|my answer)\b[^.\n]{0,20}\bcorrect\b",
    *(
        rf"(?<![a-zа-я])(?:{first_part})[^.\n。]{{0,40}}(?<![a-zа-я])(?:{second_part})"
        for first_part, second_part in ((_IGNORE, _BEFORE_THIS), (_BEFORE_THIS, _IGNORE))
    ),
    # what a judge's prompt says, and how it writes its examples
    r"\bwhat is right\s{0,3}:",
    rf"[\"”]\s{{0,3}}(?:[-=]>|\u2192)\s{{0,3}}{_LABEL}\b|[.!?][\"”] -> [0-3]\b",
    # the furniture of chats, and marks as of a fence
    r"<\s?\|\s?[a-z_]{2,20}\s?\|\s?>|<\s?/?\s?(?:system|developer|assistant|user|answer|candidate|grade|verdict)\s?>"
    r"|<(?:start|end)_of_turn>"
    r"|\[\s?/?\s?I\s?N\s?S\s?T\s?\]|ANSWER[-_\u2010-\u2015\u2212][0-9a-f]{12,24}\b",
    r"^\W{0,5}(?:system|assistant|grader|judge)\s{0,3}:",
)
_DIGITS = {"O": "[O0]", "I": "[I1]", "E": "[E3]", "T": "[T7]", "A": "[A4]"}


def _spelt(word: str, between: str = "") -> str:
    """A pattern of a word's letters, digits for some of them, with signs between."""
    return between.join(_DIGITS.get(letter, letter) for letter in word)


_CAPITALS, _SIGNS = r"[\W_]{0,8}", r"[\W_]{1,8}"
_SHOUTED = rf"(?:{_spelt('IN', _CAPITALS)}{_CAPITALS})?{_spelt('CORRECT', _CAPITALS)}"
_FORGED = (
    # a line that is a label, alone or after a word for it
    re.compile(
        rf"^[{re.escape(_MARKS)}]{{0,20}}(?:(?:final |the |my )?{_GRADE}\W{{1,6}})?{_LABEL}\W{{0,10}}$",
        re.MULTILINE,
    ),
    # the judge's own words: in its own capitals, spaced out or not; in other letters where signs or digits part them
    re.compile(rf"(?<![^\W_]){_SHOUTED}(?:{_CAPITALS}{_SHOUTED})*(?![^\W_])|\bNOT[ _-]ATTEMPTED\b"),
    re.compile(r"(?<![^\W_])(?!(?:[Ii]n)?[Cc]orrect)(?i:(?:in)?correct)(?![^\W_])"),  # CoRrEcT
    re.compile(
        rf"(?<![^\W_])(?:{_spelt('CORRECT', _SIGNS)}|(?=[a-z]{{0,6}}\d){_spelt('CORRECT')})(?![^\W_])",
        re.I,
    ),
    re.compile(
        rf"(?<![^\W_])(?:{'|'.join(_spelt(w, _SIGNS) for w in ('GRADE', 'VERDICT', 'LABEL'))}){_SIGNS}[ABC](?![^\W_])",
        re.IGNORECASE,
    ),
    *(re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in _ANY_CASE),
)


class Candidate(NamedTuple):
    """An answer, ready to be shown.

    Attributes:
        text: cleaned, capped, masked.
        mark: stands in the lines before and after it, and nowhere in it.
        forged: passages that were replaced.
        doubted: why no model can grade it: one of them may be the answer itself; "" where none may be.
    """

    text: str
    mark: str
    forged: tuple[str, ...]
    doubted: str = ""


_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1f\x85\u2028\u2029]")


def clean(text: str) -> str:
    r"""Text without characters that nobody sees or that turn the writing round; tabs and line ends stay.

    >>> clean("Pa\u200bris\u202e!\x00\rRome\u2028")
    'Paris!\nRome\n'
    """
    text = _LINE_ENDS.sub(
        "\n", text
    )  # taken out, they would glue words together: "19\r89" is not 1989
    return "".join(
        c
        for c in text
        if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn")
    )


def forms_of(answers: AnswerSpec, choices: Iterable[tuple[str, str]] = ()) -> tuple[str, ...]:
    """What a reply may hold to answer a question: accepted forms, and letters and texts of options, wrong ones too.

    Args:
        answers: what counts as correct.
        choices: options of the question that are not in ``answers``.
    """
    accepted = (part for form in answers.accepted for part in form)
    numbers = map(str, answers.number or ())
    return (
        *accepted,
        answers.canonical,
        *(text for option in (*answers.choices, *choices) for text in option),
        *numbers,
    )


def candidate(
    question: str, text: str, forms: Iterable[str] = (), *, masked: bool = True
) -> Candidate:
    """An answer as a judge is shown it; equal answers to equal questions give equal text.

    Args:
        question: what was asked.
        text: the answer.
        forms: `forms_of` the question, of which none may be left out unsaid.
        masked: False shows what imitates a grader, too.
    """
    cleaned = clean(text).strip()
    if len(cleaned) > LONGEST:
        half = LONGEST // 2
        cleaned = f"{cleaned[:half]}\n[...]\n{cleaned[-half:]}"
    grader_letters = ["A"] * bool(_LISTS.search(question)) + ["3"] * bool(_RATES.search(question))
    masked_text, forged, doubted = (
        _masked(cleaned, (*forms, *grader_letters)) if masked else (cleaned, (), "")
    )
    number = 0
    while (mark := f"ANSWER-{digest([question, text, number], 16)}") in masked_text:
        number += 1
    return Candidate(masked_text, mark, forged, doubted)


def _masked(text: str, forms: Iterable[str]) -> tuple[str, tuple[str, ...], str]:
    """The text without what imitates a grader, which is looked for in Latin letters; and as `Candidate` has them."""
    folded_text, places = _folded(text)
    spans = sorted(
        (m.start(), m.end()) for pattern in _FORGED for m in pattern.finditer(folded_text)
    )
    if not spans:
        return text, (), ""
    doubted = ""
    if hit := _doubted(folded_text, spans, forms):
        passage = text[places[hit[0]] : places[hit[1] - 1] + 1].strip()[:80]
        doubted = f"{passage!r} may be the answer or imitate a grader: no model is asked"
    joined: list[tuple[int, int]] = []
    for (
        start,
        end,
    ) in spans:  # a flood of labels is one passage: a note for each would be longer than the flood
        if joined and not any(c.isalnum() for c in folded_text[joined[-1][1] : start]):
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    pieces, forged, copied_to = [], [], 0
    for start, end in (
        (places[start], max(places[end], places[end - 1] + 1)) for start, end in joined
    ):
        pieces += [text[copied_to:start], MASKED]
        forged.append(text[start:end].strip()[:80])
        copied_to = end
    pieces.append(text[copied_to:])
    return "".join(pieces), tuple(forged), doubted


_SORTS = (
    (re.compile(r"(?:\w{1,20} )?([a-f])\1{0,2}"), ("a", "b", "c")),
    (
        re.compile(r"(?:\w{1,20} )?(?:(?:in)?correct|not attempted)"),
        ("correct", "incorrect", "not attempted"),
    ),
    (re.compile(r"\D*\d.*"), ("0", "1", "2", "3")),
)
"""Forms that verdicts are mistaken for; the verdicts."""
_LISTS = re.compile(r"(?:^|[\s(])A[.):]\s.{0,300}?[\s(]B[.):]\s", re.DOTALL)
"""A question that lists its options itself."""
_RATES = re.compile(r"\b(?:rate[sd]?|ratings?)\b", re.IGNORECASE)
"""A question for a rating."""


def _words(folded: str) -> str:
    return "".join(c if c.isalnum() else " " for c in folded.lower())


def _doubted(
    plain: str, spans: list[tuple[int, int]], forms: Iterable[str]
) -> tuple[int, int] | None:
    """The first passage that touches one of the forms, or is of their sort: "B" where "grade A" is accepted."""
    normal_forms = {" ".join(_words(_folded(form)[0]).split()) for form in forms} - {""}
    for sort, verdicts in _SORTS:
        if any(sort.fullmatch(form) for form in normal_forms):
            normal_forms.update(verdicts)
    text = f" {_words(plain)} "
    for start, end in spans:
        last_word = text[start : end + 1].split()[-1]
        for form in normal_forms:
            blank = " " if form.isascii() else ""
            form_length = len(form) + len(blank)
            contained = (
                text.find(
                    f"{blank}{form}{blank}", max(0, start + 2 - form_length), end + form_length
                )
                >= 0
            )
            if last_word == form or (contained and len(form) > 1):  # one letter may be an article
                return start, end
    return None
