"""Numbers, dates, units, and yes or no of other languages, rewritten in the English way, which the other modules read.

"1.234,5 Meter" becomes "1234.5 m", "12 de octubre de 1492" "12 October 1492", "veintitrés" "23", "一千五百人" "1500人",
"1,5 Millionen" "1500000". Everything else stays. Only for short texts (a reply, an accepted form): in a long passage a
word may mean something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from itertools import takewhile

from demur.answers.languages import (
    LATIN,
    LETTER,
    LETTERS_OF,
    fold,
    listed,
    look_up,
    plain,
    spellings,
    spoken,
    table,
    word_lists,
)
from demur.answers.number_words import number_words
from demur.answers.there_is import asks_whether_there_is
from demur.core.records import AnswerSpec

ENGLISH = "en"
_SPACELESS = ("zh", "ja")
_NO_COMMA = (*_SPACELESS, "ko", "hi", "ar", "en")
"""Languages that write numbers with a decimal point."""
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018}
_END = 2_000
"""Characters of a text that is rewritten; a longer one stays as it is."""


def language_of(question: str, text: str) -> str:
    """The language in which a reply is to be read: that of question and reply together; English if in doubt.

    >>> language_of("Wann war das?", "Am 03.10.1990."), language_of("When was it?", "In 1990.")
    ('de', 'en')
    """
    return _likely(f"{question[:500]} {text[:500]}")[0]


def languages_of(question: str, text: str) -> tuple[str, ...]:
    """The languages besides English in which a reply may deny something: those that it or the question looks like."""
    found = (_likely(f"{question[:500]} {text[:500]}"), _likely(text[:500]))
    return tuple(dict.fromkeys(code for likely in found if likely[0] != ENGLISH for code in likely))


@lru_cache(maxsize=4096)
def _likely(text: str) -> tuple[str, ...]:
    """The languages that a text looks like, likeliest first; at least one."""
    found = spoken(text)
    if not found:
        return (ENGLISH,)
    if found[0] not in LATIN:
        return found
    scores = dict.fromkeys(LATIN, 0.0)
    telling, folded = _telling(), _telling(folded=True)
    for word in set(re.findall(r"[^\W\d_]+", text.casefold())):
        exact = telling.get(word, ())
        codes = exact or folded.get(plain(word), ())
        for code in codes:
            scores[code] += (1.0 if exact else 0.5) / len(codes)
    for code, letters in LETTERS_OF.items():
        scores[code] += 0.5 * min(2, sum(text.casefold().count(letter) for letter in letters))
    best = max(scores.values())
    if best < _ENOUGH:
        return (ENGLISH,)
    order = sorted(LATIN, key=lambda code: (-scores[code], code != ENGLISH, code != found[0]))
    return tuple(code for code in order if scores[code] >= _NEAR * best)


@cache
def _telling(*, folded: bool = False) -> dict[str, tuple[str, ...]]:
    """Word by which a short text shows its language -> the languages in Latin letters that have it."""
    lists = (
        "common",
        "asks",
        "yes",
        "no",
        "not",
        "without",
        "filler",
    )  # units and months are much the same everywhere
    found: dict[str, tuple[str, ...]] = {}
    for code in LATIN:
        written = " ".join(word_lists()[code].get(name, "") for name in lists).casefold()
        words = re.findall(r"[^\W\d_]+", written)
        for word in {plain(word) for word in words} if folded else set(words):
            found[word] = (*found.get(word, ()), code)
    return found


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0963])+")  # the vowel signs of Hindi are no letters


# --- one text --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def in_english(text: str, code: str) -> str:
    """A short text with its figures in the English way.

    >>> in_english("El 12 de octubre de 1492", "es"), in_english("1.234,5 Meter", "de")
    ('El 12 October 1492', '1234.5 m')
    >>> in_english("一千五百人", "zh"), in_english("१.५ करोड़", "hi")
    ('1500人', '15000000')
    """
    if code == ENGLISH or len(text) > _END:
        return text
    text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    text = unicodedata.normalize("NFC", text).translate({0x66B: ".", 0x66C: ","})
    if code not in _NO_COMMA:
        text = _GROUPED.sub(lambda m: re.sub(r"\D", "", m[1]) + (f".{m[2]}" if m[2] else ""), text)
        text = _DECIMAL.sub(r"\1.\2", text)
    for change in _changes(code):
        text = change(text)
    return text


_GROUPED = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:[.\u00a0\u202f\u2009' ]\d{3})++)(?:,(\d+))?(?![\d]|[.,]\d)"
)
_DECIMAL = re.compile(r"(?<![\d.,])(\d+),(\d+)(?![\d]|[.,]\d)")
_NEAR = 0.9
"""Share of the best score from which on a text may be in another language too."""
_ENOUGH = 0.25
"""Score below which a text is read as English: one small word that four languages share."""
_Change = Callable[[str], str]


@cache
def _changes(code: str) -> tuple[_Change, ...]:
    changes: list[_Change] = []
    if code in (*_SPACELESS, "ko"):
        changes += [_eras, _han_numbers, _before_christ, _korean_dates, _years, number_words(code)]
    else:
        changes += [number_words(code), _before_christ, _dates(code), _case_endings(code), _years]
    changes += [_scales(code), _percent(code), _units(code), _about(code)]
    return tuple(changes)


# dates


def _dates(code: str) -> _Change:
    numbers = table(
        (form, i)
        for i, forms in enumerate(listed(code, "months"))
        for form in forms.replace("_", " ").split("/")
    )
    month = rf"(?P<month>{spellings(numbers)})(?!{LETTER})\.?"
    day = r"(?<!\d)(?P<day>\d{1,2})(?:\.|º|ª|°|er|-?го|-?е)?"
    year = r"(?P<year>\d{3,4})(?!\d)"
    of = r"(?:d'|de |del |do |من |di |da )?"
    forms = [
        rf"{day}\s{{0,2}}{of}{month}(?:,?\s{{1,2}}(?:de |del |do |d'|عام |سنة |r\. )?{year})?",
        rf"(?<!{LETTER}){month} (?P<day>\d{{1,2}})(?:,| de| del),? {year}",
        rf"(?<!{LETTER}){month}\s{{1,2}}(?:de |del |do |d'|عام |سنة )?{year}",
    ]
    if code == "eu":
        forms.insert(0, rf"{year}(?:e?ko)? {month} (?P<day>\d{{1,2}})(?!\d)\w{{0,4}}")
        forms.append(rf"(?<!\w){month} (?P<day>\d{{1,2}})(?!\d)\w{{0,4}}")
    found = re.compile(
        "|".join(f"(?:{_renamed(form, i)})" for i, form in enumerate(forms)), re.IGNORECASE
    )

    def change(match: re.Match[str]) -> str:
        said = {
            key.rstrip("0123456789"): value for key, value in match.groupdict().items() if value
        }
        number = look_up(numbers, said["month"])
        name = _MONTHS[number or 0]
        return " ".join(part for part in (said.get("day"), name, said.get("year")) if part)

    return lambda text: found.sub(change, text)


def _renamed(pattern: str, i: int) -> str:
    return re.sub(r"\(\?P<(\w+)>", rf"(?P<\g<1>{i}>", pattern)


_YEAR_WORD = re.compile(
    r"(?<![\d.,])(1\d{3}|20\d\d)(?:\s?(?:год[ауе]?м?|гг?\.|r\.|roku?|rokiem|yılında|yılı|년도?|ko urte\w*|\.? urte\w*))"
    r"(?![^\W_])|(?<![\d.,])(1\d{3}|20\d\d)년"
)


def _years(text: str) -> str:
    """A year without the word for year, which would make it an amount of time."""
    return _YEAR_WORD.sub(lambda m: m[1] or m[2], text)


_BEFORE_CHRIST = re.compile(
    r"(?<![\d.,])(\d{1,4})(?: ?(?:r\.|roku|г\.|годом?|года))?\s?"
    r"(?:v\. ?Chr\.?|vor Christus|vor unserer Zeitrechnung|voor Christus|a\. ?(?:de )?C\.?(?!\w)|antes de Cristo|"
    r"abans de Crist|av\. ?J\.?-C\.?|avant (?:Jésus|J\.?)-C(?:hrist|\.)?|avanti Cristo|p\. ?n\. ?e\.?|przed naszą erą|"
    r"до н\. ?э\.?|до нашей эры|K\. ?a\.|Kristo aurre\w*|قبل الميلاد|ق\.م\.?|ईसा पूर्व|ई\.पू\.)"
    r"|(?:公元前|紀元前|기원전|M\. ?Ö\.|MÖ|milattan önce)\s?(\d{1,4})(?:年|년)?",
    re.IGNORECASE,
)


def _before_christ(text: str) -> str:
    return _BEFORE_CHRIST.sub(lambda m: f"{m[1] or m[2]} BC", text)


def _case_endings(code: str) -> _Change:
    """Numbers without the case ending that Basque and Russian hang on them: 1997an, 5-го."""
    hung = {
        "eu": r"(?<=\d)(?:e?an|e?ko|e?tik|e?ra|a?ren|e?k|[ank])(?![^\W_])",
        "ru": r"(?<=\d)-(?:ый|ой|го|му|ом|ым|ая|ую|ое|ые|ых|[йемяюх])(?![^\W_])",
        "pl": r"(?<=\d)-(?:go|tego|ego|ty|ta|te|y|a|e|m)(?![^\W_])",
    }.get(code)
    if hung is None:
        return lambda text: text
    found = re.compile(hung, re.IGNORECASE)
    return lambda text: found.sub("", text)


def _about(code: str) -> _Change:
    limits = {
        phrase.split()[0] for phrase in listed(code, "limits")
    }  # "antes de 1990" is not about 1990
    words = [word for word in listed(code, "about") if len(word) > 2 and word not in limits]
    if code in (*_SPACELESS, "ko") or not words:
        return lambda text: text
    found = re.compile(rf"(?<!{LETTER})(?:{spellings(words)})(?: de| a)? (?=\d)", re.IGNORECASE)
    return lambda text: found.sub("about ", text)


_KOREAN_DATE = re.compile(
    r"(?:(?P<year>\d{3,4})년 ?)?(?P<month>\d{1,2})월(?: ?(?P<day>\d{1,2})일)?"
)
_ERA = re.compile(rf"({'|'.join(_ERAS)})(元|\d{{1,2}}|[一二三四五六七八九十]{{1,3}})年")


def _korean_dates(text: str) -> str:
    def change(match: re.Match[str]) -> str:
        month = int(match["month"])
        if not 1 <= month <= 12 or not (match["year"] or match["day"]):
            return match.group()
        return " ".join(p for p in (match["day"], _MONTHS[month - 1], match["year"]) if p)

    return _KOREAN_DATE.sub(change, text)


def _eras(text: str) -> str:
    """Years of Japanese reigns: 明治45年 is 1912年."""

    def change(match: re.Match[str]) -> str:
        written = match[2]
        year = 1 if written == "元" else int(written) if written.isdigit() else _han_value(written)
        return match.group() if year is None else f"{_ERAS[match[1]] + year}年"

    return _ERA.sub(change, text)


# numbers of Chinese and Japanese


_HAN_DIGITS = "〇零一二两三四五六七八九"
_HAN = re.compile(
    f"[{_HAN_DIGITS}]{{4}}(?=年)"
    f"|[{_HAN_DIGITS}十百千万亿億]{{2,12}}"
    f"|[二两三四五六七八九十](?=[个個人位名只條条本次年月日岁歳枚匹回階層层頭头杯冊册部座种種つ])"
)
_HANGUL = str.maketrans("일이삼사오육칠팔구십백천만억", "一二三四五六七八九十百千万亿")
_KOREAN = re.compile(
    "(?<![가-힣])[일이삼사오육칠팔구십백천만억]{2,12}"
    "(?= ?(?:명|개|번|마리|권|대|살|시간|곳|가지|장|년|세|층|회|원|달러|유로|미터|킬로|톤|%))"
)
_HAN_SIZES = {"十": 10, "百": 100, "千": 1000}
_HAN_LARGE = {"万": 10**4, "亿": 10**8, "億": 10**8}


def _han_value(written: str) -> int | None:
    """The value of a Chinese numeral; None if it is none.

    >>> _han_value("一千五百"), _han_value("一九一二"), _han_value("二十三"), _han_value("万一")
    (1500, 1912, 23, None)
    """
    digits = {c: str(i) for i, c in enumerate("零一二三四五六七八九")} | {"〇": "0", "两": "2"}
    if all(c in digits for c in written):
        return int("".join(digits[c] for c in written)) if len(written) in (1, 4) else None
    total = part = 0
    digit: int | None = None
    last = 10**12
    for c in written:
        if c in digits:
            if digit not in (None, 0):
                return None
            digit = int(digits[c])
        elif c in _HAN_SIZES:
            size = _HAN_SIZES[c]
            if size >= last:
                return None
            part, digit, last = part + (1 if digit is None else digit) * size, None, size
        else:
            if digit is None and not part:
                return None
            total += (part + (digit or 0)) * _HAN_LARGE[c]
            part, digit, last = 0, None, 10**12
    return total + part + (digit or 0)


def _han_numbers(text: str) -> str:
    def change(match: re.Match[str]) -> str:
        value = _han_value(match.group().translate(_HANGUL))
        return match.group() if value is None else str(value)

    return _KOREAN.sub(change, _HAN.sub(change, text))


# amounts


def _scales(code: str) -> _Change:
    entries = (entry.partition(":") for entry in listed(code, "scales"))
    powers = table((word, int(power)) for word, _, power in entries)
    if not powers:
        return lambda text: text
    close = rf"\.?(?!{LETTER})" if code not in (*_SPACELESS, "ko") else ""
    gap = r"[ \u00a0]?" if code in (*_SPACELESS, "ko") else r"[ \u00a0-]"
    scale = f"(?:{spellings(powers)})"
    found = re.compile(
        rf"(?<![\d.,])(\d+(?:\.\d+)?)({gap}{scale}(?:{gap}{scale})?){close}(?:(?<=[万億亿])(\d{{1,4}})(?!\d))?",
        re.I,
    )
    one = re.compile(scale, re.IGNORECASE)

    def change(match: re.Match[str]) -> str:
        value = Decimal(match[1])
        for word in one.findall(match[2]):
            value *= 10 ** (look_up(powers, word) or 0)
        value += int(match[3] or 0)
        return f"{value.normalize():f}"

    return lambda text: found.sub(change, text)


def _percent(code: str) -> _Change:
    words = word_lists()[code].get("percent", "")
    if code in ("tr", "eu"):  # before the number
        before = re.compile(rf"(?:%|{words}) ?(\d+(?:\.\d+)?)(?!\d)", re.IGNORECASE)
        return lambda text: before.sub(r"\1%", text)
    if not words:
        return lambda text: text
    after = re.compile(rf"(?<=\d) ?(?:{words})(?!{LETTER})", re.IGNORECASE)
    return lambda text: after.sub("%", text)


def _measures(code: str) -> Iterator[tuple[str, str]]:
    """The list `measures`, each word alone and behind those for kilo, mega, giga, tera and milli."""
    for word, _, sign in (entry.partition(":") for entry in listed(code, "measures")):
        yield word, {"b": "bit", "B": "byte"}.get(sign, sign)
        for size, prefix in zip("kMGTm", listed(code, "prefixes"), strict=True):
            yield f"{prefix}{word}", f"{size}{'bit' if sign == 'b' else sign}"


def _units(code: str) -> _Change:
    entries = (entry.partition(":") for entry in listed(code, "units"))
    symbols = table([*((word, symbol) for word, _, symbol in entries), *_measures(code)])
    if not symbols:
        return lambda text: text
    hangs = {"tr": r"(?:d[ıiuü]r|t[ıiuü]r|'?[dt][ae]n?)?", "eu": r"(?:a|ak|ko|koa|ra|n|tan)?"}.get(
        code, ""
    )
    close = rf"{hangs}(?!{LETTER})" if code not in (*_SPACELESS, "ko") else ""
    found = re.compile(rf"(?<=\d)[ \u00a0-]?({spellings(symbols)}){close}", re.IGNORECASE)

    def change(match: re.Match[str]) -> str:
        symbol = look_up(symbols, match[1]) or match[1]
        if symbol in ("year", "years") and code in _SPACELESS and match[1] == "年":
            return match.group()  # 1912年: read as a year
        return f" {symbol}" + (" " if close == "" and match.end() < len(match.string) else "")

    return lambda text: found.sub(change, text)


# --- an answer ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def spec_in_english(spec: AnswerSpec, code: str) -> AnswerSpec:
    """The accepted forms with their figures in the English way, yes and no in English words."""
    if code == ENGLISH:
        return spec
    sides = [side_word(form[0], code) if len(form) == 1 else "" for form in spec.accepted]
    accepted: tuple[tuple[str, ...], ...]
    if sides and all(sides):
        accepted = tuple((side,) for side in dict.fromkeys(sides))
    else:
        accepted = tuple(tuple(in_english(part, code) for part in form) for form in spec.accepted)
    return spec if accepted == spec.accepted else spec.model_copy(update={"accepted": accepted})


_OPENING = re.compile(
    r"\W*(?:जी )?([^\s,.;:!?。，、！？；：।،؛؟]+)(?=[\s,.;:!?。，、！？；：।،؛؟]|$)"
)
_DENIES_ALL = re.compile(r"(?<!是)(?:不是|并非|没有)")


def side_word(text: str, code: str) -> str:
    """The side of a text that is nothing but a word for yes or no in a language; "" for any other text.

    >>> side_word("Sí.", "es"), side_word("nein", "de"), side_word("París", "es")
    ('yes', 'no', '')
    """
    said = fold(text).strip(" .!。！,")
    for side in ("yes", "no"):
        if said in _sides(code, side):
            return side
    return ""


@cache
def _sides(code: str, side: str) -> frozenset[str]:
    return frozenset(fold(word) for word in listed(code, side))


def side_in_english(text: str, code: str, question: str = "") -> str:
    """A reply to a yes-or-no question with its side in an English word in front, if it takes one."""
    if code == ENGLISH:
        return text
    first = _OPENING.match(text)
    if not first:
        return text
    side, more = (
        side_word(first[1], code),
        re.split(r"[,.;:!?\n،。，।]", text[first.end() :], maxsplit=1)[0],
    )
    nots = listed(code, "not")
    if more.strip() and (
        first[1].casefold() in nots or (side and set(_words(more)) & {fold(word) for word in nots})
    ):
        return text[
            first.end() :
        ]  # "No" of "No sé decirlo" answers nothing; nor does "Doğru" of "Doğru değil"
    if side:
        return f"{side.capitalize()}{text[first.end() :]}"
    denies = code == "zh" and _DENIES_ALL.search(re.split("[。！？\n]", text, maxsplit=1)[0])
    if denies and not asks_whether_there_is(question):  # "没有盘子" says nothing of a cup
        return f"No, {text}"
    side = _restated(text, question, code)
    return f"{side}, {text}" if side else text


def _restated(text: str, question: str, code: str) -> str:
    """The side of a reply whose first clause says again, in order, what is asked, with or without a "not".

    No other word may stand before the last one that is asked for, or the clause might say something else.
    """
    if code in (*_SPACELESS, "ko"):
        return ""
    small, nots, unsure = _plain_words(code)
    least = 2 if code == "hi" else 3  # कप: a cup
    every = _words(question)
    asked = [word for word in every if word not in small and len(word) >= least]
    said = _words(_CLAUSES.split(text.strip(), maxsplit=1)[0])
    if (
        not asked
        or nots & set(every)
        or unsure & set(said)
        or len(said) > 20
        or said[:1] in _WHETHER
    ):
        return ""
    here = _places(said, asked)
    if (
        not here and len(asked) > 2 and code not in ("hi", "tr", "eu")
    ):  # "Liegt Ulm ...?": "Ulm liegt ..."
        verb, others = _places(said, asked[:1]), _places(said, asked[1:])
        here = sorted({*verb, *others}) if verb and others else []
    if not here:
        return ""
    joints = {fold(word) for word in listed(code, "and")}
    tail = list(takewhile(lambda word: word not in joints, said[here[-1] + 1 :]))
    other = [word for i, word in enumerate(said[: here[-1]]) if i not in here and word not in every]
    if nots & {*tail, *other}:  # in some languages a "not" stands behind
        other += tail
    elif tail and tail[0] not in small:  # "una stella nana"
        return ""
    denied = [word for word in other if word in nots and word not in _NE]
    return "" if set(other) - nots - set(every) - _NE else {0: "Yes", 1: "No"}.get(len(denied), "")


_NE = frozenset(("ne", "n"))
"""The first half of a French "not"."""


def _places(said: list[str], asked: list[str]) -> list[int]:
    """Where a text has the words of another, in their order but for their endings; nothing if it lacks one."""
    found, rest = [], iter(enumerate(said))
    for word in asked:
        place = next(
            (i for i, w in rest if w[: (n := max(5, len(w) - 3, len(word) - 3))] == word[:n]), -1
        )
        if place < 0:
            return []
        found.append(place)
    return found


@cache
def _plain_words(code: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Words that say nothing of the matter, words that deny, and words that make a statement unsure."""

    def folded(*names: str) -> frozenset[str]:
        phrases = (phrase for name in names for phrase in listed(code, name))
        return frozenset(fold(word) for phrase in phrases for word in phrase.split())

    small = folded("common", "asks", "yes", "no", "filler")
    return small, folded("not", "without"), folded("about", "perhaps", "doubts") - small


_WHETHER = (["ob"], ["of"], ["si"], ["se"], ["czy"])
"""What begins a sentence that only repeats a question: "Ob es rot ist, sagt der Text nicht"."""
_CLAUSES = re.compile(r"[.!?;:\n।؟]\s?|, ")


def asks_who(question: str, code: str) -> bool:
    """Whether a question in another language asks for a person."""
    who = {fold(word) for word in listed(code, "who")}
    return (
        any(word in question for word in who)
        if code in (*_SPACELESS, "ko")
        else bool(who & set(_words(question)))
    )


def is_inexact(text: str, code: str) -> bool:
    """Whether a text in another language may give its figures as rough ones ("etwa 50")."""
    if code == ENGLISH:
        return False
    words = [*listed(code, "about"), *listed(code, "not"), *listed(code, "without")]
    if code in (*_SPACELESS, "ko"):
        return any(word in text for word in words)
    said = set(_words(text))
    return any(fold(word) in said for word in words)
