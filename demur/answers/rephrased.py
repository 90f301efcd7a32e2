"""An accepted form in other words: a surname, a name without its middle, parts in another order, words run together.

Only for a candidate answer that states no accepted form as it is. ``demur judge bench`` measures the precision of each
rule under its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from demur.answers.assertion import denied, rival, withdrawn
from demur.answers.dates import dates, whole_date
from demur.answers.doubt import unclear
from demur.answers.in_english import asks_who
from demur.answers.languages import CODES, listed, word_lists
from demur.answers.lists import further_item
from demur.answers.numbers import SMALL, quantities, whole_quantity
from demur.answers.spans import Span, spans
from demur.answers.text import Word, fold, normalise, readable, words
from demur.core.records import AnswerSpec

_WHO = re.compile(
    r"\b(?:who|whose|whom|which (?:\w+ )?(?:person|actor|actress|singer|author|player|artist))\b",
    re.I,
)
_NOT_PERSON = re.compile(
    r"\b(?:the|of|and|in|for|at|company|band|team|university|united|inc|army|party|empire|church)\b",
    re.I,
)
_TITLES = frozenset(listed("en", "titles"))
_TWO_NAMES = re.compile(r"\S \S+(?:,| [yei]) [^\W\d_]\S* [^\W\d_]")
"""Two persons with first names: not "José Ortega y Gasset"."""
_AFTER_NAME = frozenset({"jr", "sr", "ii", "iii", "iv"})
_PARTICLES = frozenset(listed("en", "particles"))
"""Small words inside a name."""
_INFLECTED = [code for code in CODES if "case_endings" in word_lists()[code]]
_AND = re.compile(
    r",? (?:and|&) | ?[,;/&] ?"
)  # of a form with single spaces: with runs of \s it would be quadratic
_ASIDE = re.compile(
    r"\[[^\]]{0,60}\]|\([^)]{0,60}\)|[\"\u201c\u201d][^\"\u201c\u201d]{0,30}[\"\u201c\u201d]"
)
_LEADING = re.compile(
    r"^(?:(?:located|estimated|based|found|situated)\s+)?(?:by|at|in|on|from|to|into|near|of|around|about|as|with)\s+"
    r"(?:the\s+|a\s+|an\s+)?",
    re.I,
)
_GLUE = re.compile(r"(?<=[a-z]{2})(?=[A-Z])|(?<=[a-z]{3})(?=\d)")
_GLUED_DIGIT = re.compile(r"(?<=[a-z]{3})(?=\d)")
_WHAT_YEAR = re.compile(r"\b(?:what|which) year\b", re.I)
_SHARES = {
    "half": 2,
    "halve": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
    "tenth": 10,
}
_SHARE = re.compile(
    rf"\b(?:(?P<top>an?|{'|'.join(list(SMALL)[1:10])})[ -])?(?P<part>{'|'.join(_SHARES)})s?\b"
    rf"(?:(?:(?<=half)|(?<=halves))(?!-| (?:past|hour|dozen|time|way|century)\b)|"
    rf"(?=\W*$|[.,;!?)]| of (?!an? |one )| (?:is|was|are|were|has|have|had|full|left)\b))"
    rf"|\bone (?:in|out of) (?P<of>{'|'.join(list(SMALL)[2:11])})\b",
    re.I,
)
_MORE_THAN = re.compile(
    r"\b(?:than|over|under|above|below|nearly|almost|not)(?: an?| one)? ?$", re.I
)
_RATIO = re.compile(r"(?<![\d.,:-])(\d{1,3}) ?(?::|to|-) ?(\d{1,3})(?![\d:-]|[.,]\d| ?[%°])", re.I)
_TURNED = re.compile(r"\b(?:to|from|lost|lose|against|vs)\b", re.I)
"""With these the other side may be named first."""
_ASKS_RATIO = re.compile(r"\b(?:ratio|odds|proportions?|scores?)\b", re.I)
_OUT_OF = re.compile(r"\bout of (\d+)\b", re.I)
_HOW_OFTEN = re.compile(r"\bhow (?:many times|often|frequently)\b", re.I)
_TWICE = {"once": "one time", "twice": "two times", "thrice": "three times"}
_MONEY = re.compile(
    r"\b(?:costs?|prices?d?|pay|paid|worth|salary|wages?|fees?|fined?|fares?|earn\w*|money|rent|revenue|turnover|profits?|"
    r"loss|budget|sales|raised?|spen[dt]|charged?|bill|tax|donat\w+|sold|buy|bought|charity|loan|grants?)\b",
    re.I,
)
_HOW_MANY = re.compile(r"\bhow many\b", re.I)


def rephrased(
    spec: AnswerSpec, text: str, question: str, languages: Sequence[str] = ()
) -> tuple[str, str, str]:
    """(rule, accepted form, why) of the first rule that finds an accepted form; three "" if none does.

    Args:
        spec: the answer; in another language with its figures in the English way (`demur.answers.in_english`).
        text: what the reply gives as its answer (`demur.answers.assertion.final_part`); untrusted.
        question: as asked.
        languages: other than English, in which the reply may deny or inflect something.
    """
    if spec.kind in ("choice", "box") or spec.number is not None:
        return "", "", ""
    single = [form[0] for form in spec.accepted if len(form) == 1]
    for form in single:
        for rule, found in (
            (
                "run together",
                _stated(spec, form, seen) if (seen := _apart(form, text)) != text else None,
            ),
            ("less around it", _less_around(spec, form, text)),
            ("parts in any order", _parts(spec, form, text, question, languages)),
            ("number of how many", _count(form, text) if _HOW_MANY.search(question) else None),
            ("share in words", _share(form, text)),
            ("ratio", _ratio(form, _in_figures(text)) if _ASKS_RATIO.search(question) else None),
            ("out of", _out_of(form, text, question)),
            ("times", _times_each(spec, form, text) if _HOW_OFTEN.search(question) else None),
            ("pounds", _pounds(form, text, question)),
            ("time of day", _time(form, text)),
            ("year of what year", _year(form, text) if _WHAT_YEAR.search(question) else None),
            ("name without its middle", _person(form, text)),
            ("surname", _surname(form, text, question, languages)),
            *(
                (f"case ending, {code}", _inflected(form, text, code))
                for code in languages
                if code in _INFLECTED
            ),
        ):
            if found is not None:
                changed = {
                    "run together": _apart(form, text),
                    "ratio": _in_figures(text),
                    "times": _twice(text),
                }
                seen = changed.get(rule, text)
                doubtful = unclear(seen, found, question, form, languages, lambda said: False)
                if not doubtful and not denied(seen, found) and not withdrawn(seen, found):
                    other = rival(seen, found, lambda said: False)
                    if not other:
                        return rule, form, f"states {form!r} in other words ({rule})"
    return "", "", ""


def _apart(form: str, text: str) -> str:
    """The text with words apart that were run together; JavaScript remains one word if the form is but one."""
    glue = _GLUE if len(words(form)) > 1 else _GLUED_DIGIT
    return glue.sub(" ", re.sub("[\u00b9\u00b2\u00b3\u2070-\u2079]+", " ", text))


def _stated(spec: AnswerSpec, form: str, text: str) -> Span | None:
    return next(iter(spans(spec, form, text, bare=True)), None) if normalise(form) else None


def _less_around(spec: AnswerSpec, form: str, text: str) -> Span | None:
    """The form without brackets and without a leading preposition."""
    less = _LEADING.sub("", " ".join(_ASIDE.sub(" ", form).split()))
    if less == form or not normalise(less) or (len(normalise(less)) < 4 and not whole_date(less)):
        return None
    if whole_quantity(less) or whole_date(less):
        return None
    return _stated(spec, less, text)


def _parts(
    spec: AnswerSpec, form: str, text: str, question: str, languages: Sequence[str] = ()
) -> Span | None:
    """All parts of a form such as "red and blue", close together, in any order, in a list of nothing else."""
    joined = " ".join(form.split())
    for code in languages:
        joined = re.sub(word_lists()[code].get("joined_by", "(?!)"), ", ", joined)
    parts = [p for p in _AND.split(joined) if normalise(p)]
    if (
        not 2 <= len(parts) <= 4
        or any(len(words(p)) > 3 for p in parts)
        or whole_quantity(form)
        or whole_date(form)
    ):
        return None
    found = [_stated(spec, part, text) for part in parts]
    if any(f is None or denied(text, f) for f in found):
        return None
    starts, ends = [f[0] for f in found if f], [f[1] for f in found if f]
    own = {w.norm for w in words(form)}
    if any(
        w.raw[:1].isupper() and w.norm not in own
        for w in words(readable(text)[min(starts) : max(ends)])
    ):
        return None  # a third name between them
    if further_item(text, [f for f in found if f], question, languages):
        return None
    return (
        (min(starts), max(ends)) if max(ends) - min(starts) <= 40 + sum(map(len, parts)) else None
    )


def _count(form: str, text: str) -> Span | None:
    """The leading number of a form ("two" of "two four-year terms") as the only number of a short answer."""
    own = quantities(form)
    if not own or own[0].start > 0 or len(words(form)) > 5:
        return None
    said = quantities(text)
    if len(said) != 1 or said[0].low != own[0].low or said[0].is_range or len(words(text)) > 12:
        return None
    of_another = said[0].unit or re.match(
        r" (?!total\b|each\b)[a-z]{3,}", readable(text)[said[0].end :]
    )
    if own[0].unit and said[0].unit != own[0].unit and of_another:
        return None  # "5 hours" for 5 minutes, "12 leagues" for 12 km
    return said[0].start, said[0].end


def _share(form: str, text: str) -> Span | None:
    """A share in words ("half", "three quarters", "one in four") of a short answer without other numbers."""
    own, found = whole_quantity(form), _SHARE.search(readable(text))
    if own is None or own[1] or own[0].unit not in ("", "%") or not found or len(words(text)) > 12:
        return None
    bottom = int(SMALL[found["of"].lower()]) if found["of"] else _SHARES[found["part"].lower()]
    top = (found["top"] or "").lower()
    if not top and bottom > 2 and not found["of"]:
        return None  # "the third", "quarters"
    share = int(SMALL.get(top, "1")) / bottom * (100 if own[0].unit else 1)
    others = [q for q in quantities(text) if not found.start() <= q.start < found.end()]
    if _MORE_THAN.search(readable(text)[: found.start()]):
        return None
    near = 0.5 * 10.0 ** -own[0].decimals if own[0].unit else 1e-6  # "a third" for 33 %
    return None if others or abs(share - own[0].low) >= near else found.span()


def _ratio(form: str, text: str) -> Span | None:
    """The ratio or score "2:3" as "2 to 3", "2-3" or "two to three", as the only one of the reply."""
    own, said = _RATIO.fullmatch(readable(form).strip()), list(_RATIO.finditer(readable(text)))
    if not own or len(said) != 1 or said[0].groups() != own.groups() or len(words(text)) > 8:
        return None
    return None if _TURNED.search(_RATIO.sub("", readable(text))) else said[0].span()


def _in_figures(text: str) -> str:
    return re.sub(
        rf"\b(?:{'|'.join(SMALL)})\b", lambda m: SMALL[m.group().lower()], text, flags=re.I
    )


def _out_of(form: str, text: str, question: str) -> Span | None:
    """The score "8/10", where the question asks for a score out of 10 and 8 is right."""
    own, of = whole_quantity(form), _OUT_OF.search(question)
    found = (
        re.search(rf"(?<![\d/.,]){own[0].low:g}/{of[1]}(?![\d/])", readable(text))
        if own and of
        else None
    )
    return found.span() if found and len(quantities(text)) == 1 else None


def _times_each(spec: AnswerSpec, form: str, text: str) -> Span | None:
    """Where a reply without other numbers says "twice" for two times, or the other way round."""
    seen = _twice(text)
    return (
        _stated(spec, _twice(form), seen)
        if len(quantities(seen)) == 1 and len(words(text)) <= 4
        else None
    )


def _twice(text: str) -> str:
    return re.sub(
        r"(?<!than )\b(?:once|twice|thrice)\b(?=\W*$| (?:an?|per|every|each) [a-z]+\W*$)",
        lambda m: _TWICE[m.group().lower()],
        text,
        flags=re.I,
    )


def _pounds(form: str, text: str, question: str) -> Span | None:
    """Pounds of money, which the unit "pounds" does not tell from those of weight: "£1,500", "1,500 pounds"."""
    own, said = whole_quantity(form), [q for q in quantities(text) if q.unit in ("lb", "GBP")]
    if (
        own is None
        or len(said) != 1
        or {own[0].unit, said[0].unit} != {"lb", "GBP"}
        or own[0].low != said[0].low
    ):
        return None
    spelt = re.search(r"\bpounds?\b", f"{form} {text}", re.I) and not re.search(
        r"\bwe?igh", text, re.I
    )  # not lb
    return said[0][-2:] if spelt and _MONEY.search(question) else None


_MINUTES = {"five": 5, "ten": 10, "quarter": 15, "twenty-five": 25, "twenty": 20, "half": 30}
CLOCK = re.compile(
    r"(?<![\d:.,])(?:(?P<hour>[01]?\d|2[0-3])(?:(?P<point>[:.h])(?P<minute>[0-5]\d)(?![:.,]?\d)|"
    rf"(?= ?[ap]\.?m\b| Uhr\b| o'clock\b| in the (?:morning|afternoon|evening)\b))|(?:\ba )?"
    rf"\b(?P<part>{'|'.join(_MINUTES)})(?: minutes)? (?P<side>past|to) "
    rf"(?P<of>1[0-2]|[1-9]|{'|'.join(list(SMALL)[1:13])})\b)"
    r"(?: ?(?P<half>[ap])\.?m\b\.?| in the (?P<day>morning|afternoon|evening)\b| hours\b| (?P<uhr>Uhr|o'clock)\b)?",
    re.I,
)


def times(text: str) -> list[tuple[int, bool, Span]]:
    """The times of day in a text: minutes since midnight, or since noon or midnight where it does not say which."""
    found = []
    for said in CLOCK.finditer(readable(text)):
        late = (said["half"] or "").lower() == "p" or (
            said["day"] or "morning"
        ).lower() != "morning"
        which = bool(said["half"] or said["day"])
        if said["point"] == "." and not (which or said["uhr"]):
            continue  # a decimal point
        if said["part"]:
            hour, minutes = (
                SMALL.get(said["of"].lower(), said["of"]),
                _MINUTES[said["part"].lower()],
            )
            minutes = 60 * int(hour) + (minutes if said["side"].lower() == "past" else -minutes)
        else:
            minutes = 60 * int(said["hour"]) + int(said["minute"] or 0)
            which = which or minutes >= 780 or said["hour"].startswith("0")
        found.append(
            (
                minutes % 720 + 720 * (late or minutes >= 780) if which else minutes % 720,
                which,
                said.span(),
            )
        )
    return found


def whole_time(form: str) -> tuple[int, bool] | None:
    """The time of day that makes up a whole form, as `times` reads it."""
    own, plain = times(form), readable(form)
    if len(own) != 1 or (plain[: own[0][2][0]] + plain[own[0][2][1] :]).strip(" .,at"):
        return None
    return own[0][:2]


def _time(form: str, text: str) -> Span | None:
    """The accepted time of day, written in another way, as the only time of the reply."""
    said = times(text)
    return said[0][2] if len(said) == 1 and said[0][:2] == whole_time(form) else None


def _year(form: str, text: str) -> Span | None:
    day = whole_date(form)
    said = dates(text)
    if day is None or not day.year or len({d.year for d in said}) != 1 or said[0].year != day.year:
        return None
    return said[0].start, said[0].end


@lru_cache(maxsize=16384)
def _name(form: str) -> tuple[Word, ...]:
    """The words of a person's name without titles; none if the form does not look like a name."""
    plain = " ".join(_ASIDE.sub(" ", form).split())
    if (
        _NOT_PERSON.search(plain)
        or _TWO_NAMES.search(plain)
        or any(c.isdigit() for c in plain)
        or not 2 <= len(words(plain)) <= 6
    ):
        return ()
    said = words(plain)
    first = next((i for i, w in enumerate(said) if w.norm not in _TITLES), len(said))
    found = tuple(w for w in said[first:] if w.norm not in _AFTER_NAME and w.raw not in _PARTICLES)
    if len(found) < 2 or any(not w.raw[:1].isupper() for w in found) or len(found[-1].norm) < 3:
        return ()
    return found


def _person(form: str, text: str) -> Span | None:
    """First and last name, if the form or the text has more between them."""
    name = _name(form)
    if not name or len(name[0].norm) < 2:
        return None
    said = words(text)
    for i, word in enumerate(said):
        if word.norm != name[0].norm:
            continue
        for j in range(i + 1, min(i + 4, len(said))):
            between = tuple(w for w in said[i + 1 : j] if w.raw not in _PARTICLES)
            if said[j].norm != name[-1].norm or not all(
                w.raw[:1].isupper() for w in (said[j], *between)
            ):
                continue
            after = said[j + 1] if j + 1 < len(said) else None
            if (
                after
                and after.raw[:1].isupper()
                and not readable(text)[said[j].end : after.start].strip()
            ):
                continue  # his name goes on
            if _another(form, readable(text)[said[j].end :]):
                continue
            middle = {w.norm[0] for w in name[1:-1]}
            if len(name) == 2 and any(
                len(w.norm) > 2 and not w.norm.endswith(("вич", "вна", "ична")) for w in between
            ):
                continue  # John Quincy Adams is not John Adams; a patronymic is no other name
            if (len(name) > 2 or between) and (
                not middle or all(w.norm[0] in middle for w in between)
            ):
                return word.start, said[j].end
    return None


_LIKE_NAMED = re.compile(
    r"\W{1,2}(the (?:elder|younger)|sr|senior|jr|junior|i{1,3}|iv|vi{0,3}|ix|x|fils|père|der (?:ältere|jüngere)|"
    r"el (?:viejo|joven)|le jeune|l'ancien|il (?:vecchio|giovane))\b",
    re.I,
)
"""What tells a person from another of the same name."""
_INITIAL = re.compile(r"(?<!\w)([^\W\d_])\. ?(?:[^\W\d_]\. ?){0,3}$")
"""The first of the initials that stand before a surname."""


def _another(form: str, after: str) -> bool:
    """Whether a name goes on as that of somebody's father or son does, and the form does not."""
    told = _LIKE_NAMED.match(after)
    return told is not None and f" {normalise(told[1])} " not in f" {normalise(form)} "


def _surname(form: str, text: str, question: str, languages: Sequence[str] = ()) -> Span | None:
    """The last name alone, without another first name before it."""
    name = _name(form)
    if not name or not (
        _WHO.search(question) or any(asks_who(question, code) for code in languages)
    ):
        return None
    last = name[-1]
    if len(last.norm) < 4 or last.norm in {w.norm for w in words(question)}:
        return None
    said = words(text)
    plain = readable(text)
    for i, word in enumerate(said):
        alike = any(
            _cases(last.norm, code).fullmatch(word.norm) for code in languages if code in _INFLECTED
        )
        if (word.norm != last.norm and not alike) or not word.raw[:1].isupper():
            continue
        if _another(form, plain[word.end :]):
            return None
        own, first = {w.norm for w in words(form)}, i
        while first and (said[first - 1].raw in _PARTICLES or said[first - 1].norm in own):
            first -= 1  # "García" before "Márquez", "de" before "Cervantes"
        walked = [w.norm for w in said[first:i] if w.raw not in _PARTICLES]
        if name[0].norm in walked and walked != [w.norm for w in name[:-1]]:
            return None  # George W. Bush is not George H. W. Bush
        before = said[first - 1] if first else None
        initial = _INITIAL.search(plain[: said[first].start])
        if (
            initial
            and initial[1].casefold() != name[0].norm[0]
            and not (initial[1] == "M" and languages)
        ):
            return None  # "M. Mitterrand" is Monsieur
        after = said[i + 1] if i + 1 < len(said) else None
        named = (
            before is not None
            and before.raw[:1].isupper()
            and before.norm not in _TITLES | _AFTER_NAME
        )
        if named and before is not None and not plain[before.end : said[first].start].strip():
            return None  # another first name, or a family of that name
        if (
            after is not None
            and after.raw[:1].isupper()
            and not plain[word.end : after.start].strip()
        ):
            return None  # it is somebody's first name here
        return word.start, word.end
    return None


def _inflected(form: str, text: str, code: str) -> Span | None:
    """The form with other case endings: "Kraków" in "w Krakowie"."""
    wanted, said = words(form), words(text)
    if not wanted or len(wanted) > 4 or any(any(c.isdigit() for c in w.norm) for w in wanted):
        return None
    least = 3 if len(wanted) > 1 else 4
    for i in range(len(said) - len(wanted) + 1):
        pairs = zip(wanted, said[i:], strict=False)
        if all(
            (
                _cases(one.norm, code, least).fullmatch(other.norm)
                and (code != "eu" or _begins_alike(one.raw, other.raw))
            )
            or (len(other.norm) > 4 and _cases(other.norm, code, least).fullmatch(one.norm))
            for one, other in pairs
        ):
            return said[i].start, said[i + len(wanted) - 1].end
    return None


def _begins_alike(one: str, other: str) -> bool:
    """Whether two words have the same letters up to the last of the shorter: Irun is not Iruñea."""
    return all(a == b for a, b in zip(one.casefold()[:-1], other.casefold(), strict=False)) and (
        other.casefold()[len(one) - 1 : len(one)] in (one.casefold()[-1], "") or one[-1] in "aeiou"
    )


@lru_cache(maxsize=16384)
def _cases(word: str, code: str, least: int = 4) -> re.Pattern[str]:
    loses, endings = (fold(word_lists()[code][key]) for key in ("loses", "case_endings"))
    stem = re.sub(f"{loses}$", "", word) if len(word) > 3 else word
    return re.compile(
        rf"{re.escape(word)}|{re.escape(stem)}{endings}" if len(stem) >= least else re.escape(word)
    )
