"""Why a right answer that stands in a reply may not be what the reply says: somebody else's belief, another event.

Where one of these reasons holds, the rule judge leaves the reply ungraded. Most need English words; other languages
have theirs in `demur.answers.negation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from demur.answers.assertion import TAKEN_BACK, denied
from demur.answers.contrast import common, contrasted, told_places
from demur.answers.languages import fold, listed
from demur.answers.negation import (
    DENIED,
    VERB_LAST,
    denies,
    negates,
    other_candidate,
    part_of_a_word,
    taking_back,
)
from demur.answers.numbers import quantities
from demur.answers.spans import Span
from demur.answers.text import Word, readable, words

_SENTENCE = re.compile(r"(?<=[.!?;])\s|\n")
_BELIEF = re.compile(
    r"\b(?:(?:used to|might|may|would|could|first|once|initially|originally|wrongly|mistakenly|often|commonly|widely|"
    r"popularly|sometimes|long)\s(?:be\s)?(?:think|thought|say|said|believed?|assumed?|expect(?:ed)?|guess(?:ed)?|"
    r"mistaken|confused|called|attributed|credited)"
    r"|(?:some|many|most|other|few)(?:\s(?:people|sources|of\w*))?\s(?:say|think|believe|assume|claim|argue|would say|"
    r"attribute|credit|call)"
    r"|mistake\w*\s(?:\w+\s)?(?:for|with)|confused? (?:it )?with|misconception|myth|rumou?r(?:s|ed)?|contrary to|"
    r"popular belief|legend has it|supposedly|allegedly|so-called)\b",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r"(?:,|;|\.)\s(?:but|however|yet|though|although|in fact|actually|whereas|while|the (?:truth|correct))\b",
    re.IGNORECASE,
)
_WHILE = re.compile(
    r"^\W*(?:while|although|though|even though|whereas|despite|unlike|instead of|rather than)\b",
    re.I,
)
_NOT = re.compile(
    r"(?:\b(?:not|never)|n't)\b(?! only| just)(?:\s(?!until)\w+){0,3}\s$|\bI (?:\w+ )?doubt\b[^.,;!?]{0,30}$",
    re.IGNORECASE,
)
_BUT = re.compile(
    r"\b(?:anything|everything|all|everyone|anyone|any\w*\s\w+|every\s\w+)\s(?:but|except)\s(?:the\s)?$|\bwith no\s$",
    re.I,
)
_UNTIL = re.compile(
    r"[^.;!?\n]{0,30}?\b(?:until|till|up to) (?:he|she|it|they|(?:\w+ )?(?:1\d|20)\d\d)\b",
    re.IGNORECASE,
)
_PAST, _NOW = (
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for words in (r"was|were|had|did|[a-z]{2,}ed", r"is|are|does|do|has|have")
)
_OTHER_PLACE = frozenset(listed("en", "directions"))
_COMPOUND = frozenset(
    {"dioxide", "monoxide", "tetrachloride", "oxide", "effect", "theorem", "constant"}
)
_NAMED_AFTER = frozenset(listed("en", "named_after"))
"""What is named after a person."""
_LIKE_NAMED = re.compile(r" (?:fils|père|pere)\b")
_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:yes|no|sure|okay|ok|well|great|good|thanks?|hello|hi|of course|certainly|answer|note|context|summary|correct|"
    r"right|explanation|based|according|final|short|here)\b",
    re.IGNORECASE,
)
"""Words that open a reply and answer nothing."""


def unclear(
    text: str,
    span: Span,
    question: str,
    form: str,
    languages: Sequence[str],
    is_right: Callable[[str], bool],
) -> str:
    """Why the answer at ``span`` may not be what the reply says, in English or another language; "" if it is.

    Args:
        text, span, question, form, languages: as of `doubt`.
        is_right: whether a second candidate is right too.
    """
    if part_of_a_word(text, span, question):
        return f"may hold {form!r} as a piece of a word"
    if _put_right(text, span, languages):
        return (
            f"offers {form!r} for what it takes back"  # the encoder would prefer what stands first
        )
    why = doubt(text, span, question, form, languages=languages)
    for code in () if why else languages:
        found = denies(text, span, code)
        if found and not says_again(text, span, question, languages):
            sure = (
                found == DENIED
                and not _unsure_of_no(languages)
                and not negated(question, languages)
            )
            return f"denies {form!r}" if sure else f"may deny {form!r}"
        other = other_candidate(text, span, code)
        if other and not is_right(other):
            return f"offers {other!r} beside {form!r}"
        if taking_back(code).search(readable(text)[span[1] :]):
            return f"takes back {form!r}"
    return why or contrasted(text, span, question, languages)


def _put_right(text: str, span: Span, languages: Sequence[str]) -> bool:
    """Whether the text takes back another answer in the sentence before ("Lyon. Sorry, I meant Paris.")."""
    before = readable(text)[: span[0]]
    marks = [
        m for back in (TAKEN_BACK, *map(taking_back, languages)) for m in back.finditer(before)
    ]
    ends = [
        m.start()
        for m in marks
        if re.match(r"[.!\n。！।](?!\.)", m[0]) and before[m.start() - 1] not in ".…"
    ]
    said, own = (
        {w.norm for w in words(part)}
        for part in (before[: max(ends, default=0)], text[slice(*span)])
    )
    return bool(said) and not own <= said


_NO_IS_IN, _NO_IS_NOT = {"gl", "pt"}, {"es", "ca", "it"}
"""Neighbours in which "no" means "in the", or denies."""


def _unsure_of_no(languages: Sequence[str]) -> bool:
    return bool(_NO_IS_IN & set(languages) and _NO_IS_NOT & set(languages))


_NEGATIVE = re.compile(
    r"\b\w*n't\b|\b(?:not|never|no(?!\.?\s?\d)|none|nobody|cannot|without|except|excluding|lacks?)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile('["«„][^"»]{0,80}["»]')


def negated(question: str, languages: Sequence[str] = ()) -> bool:
    """Whether a question asks what is not so: a "not" in the reply may then say what was asked.

    >>> negated("Which month is not warm?"), negated("¿Qué no está incluido?", ("es",)), negated("Which month is warm?")
    (True, True, False)
    """
    question = _QUOTED.sub(" ", readable(question))[:_REACH]
    if not languages:
        return _NEGATIVE.search(question) is not None
    if _unsure_of_no(languages):
        return False
    asks = {
        fold(word) for code in languages for word in listed(code, "asks")
    }  # "ما" asks and denies
    plain = " ".join(word for word in question.split() if fold(word) not in asks)
    return any(negates(plain, code) for code in languages)


def says_again(text: str, span: Span, question: str, languages: Sequence[str] = ()) -> bool:
    """Whether the clause around ``span`` says only the words of a negated question: "January is not warm."."""
    if not negated(question, languages) or {"zh", "ja", "ko"} & set(languages):
        return False
    text = readable(text)
    if denied(text[: span[1]], span) or any(
        denies(text[: span[1]], span, code) == DENIED for code in languages
    ):
        return False  # "not January": another month is not warm
    begin = max((m.end() for m in _CLAUSE.finditer(text, 0, span[0])), default=0)
    ends = _CLAUSE.search(text, span[1])
    rest = f"{text[begin : span[0]]} - {text[span[1] : ends.start() if ends else len(text)]}"
    if not languages and len(_NEGATIVE.findall(rest)) != 1:
        return False
    told = told_places(rest := _NEGATIVE.sub(" ", rest), question, languages)
    small = {
        fold(word)
        for code in languages
        for name in ("not", "filler")
        for word in listed(code, name)
    }
    said = [w for w in words(rest) if (w.start, w.end) not in told]
    return bool(told) and {w.norm for w in said} <= small | common(tuple(languages))


_CLAUSE = re.compile(r"[.!?;,\n।؟،؛](?:\s|$)|\sbut\s", re.IGNORECASE)


def doubt(text: str, span: Span, question: str, form: str, *, languages: Sequence[str] = ()) -> str:
    """Why the answer at ``span`` may not be the reply's own; "" without such a reason.

    Args:
        text: the reply.
        span: where the accepted form stands in ``readable(text)``.
        question: as asked; its words excuse a name that goes on ("South" of "South Korea").
        form: the accepted form.
        languages: others than English that the reply may be in; then only what needs no English words is looked at.

    >>> doubt("Some say Paris, but the correct answer is Lyon.", (9, 14), "Where?", "Paris")
    'tells what others think'
    """
    text = readable(text)
    if languages:
        return (
            _opens_with_another(text, span, form)
            or _nearer(text, span, question, languages)
            or ("" if "de" in languages else _earlier_name(text, span, question, form))
        )
    start = max((m.end() for m in _SENTENCE.finditer(text[: span[0]])), default=0)
    before = text[start : span[0]]
    after = _SENTENCE.split(text[span[1] : span[1] + 200], maxsplit=1)[0]
    clause = re.split(r"[,:;]\s", before)[-1][-80:]
    if (_BELIEF.search(clause) and _TURNS.search(after + (text[span[1] :][len(after) :][:40]))) or (
        _WHILE.search(before[-120:]) and "," not in before[-120:] and "," in after[:80]
    ):
        return "tells what others think"
    if _NOT.search(before[-60:]) and not says_again(text, span, question):
        return "may deny it"
    if re.match("an? ", form) and any(
        q.start < span[0] <= q.end + 1 and q.low != 1 for q in quantities(text)
    ):
        return "says how many"  # "741 weeks" for a week
    if (
        _UNTIL.match(after)
        and _PAST.search(before)
        and _NOW.search(question)
        and not _PAST.search(question)
    ):
        return "takes what was for what is"
    if _BUT.search(before[-40:]):
        return "makes an exception of it"
    return (
        _goes_on(text, span, question, form)
        or _opens_with_another(text, span, form)
        or _nearer(text, span, question)
        or _led_by_a_name(text, span, question, form)
    )


def _goes_on(text: str, span: Span, question: str, form: str) -> str:
    """Whether the name goes on before or after the form: "New York" with York, "carbon dioxide" with carbon."""
    if not form[:1].isupper() and " " in form:
        return ""
    asked, own = {w.norm for w in words(question)}, {w.norm for w in words(form)}
    led = words(text[max(0, span[0] - 30) : span[0]])[-1:]
    names = str.islower if text.islower() else str.isupper  # "new york" in a reply without capitals
    if (
        led
        and names(led[0].raw[:1])
        and led[0].norm in _OTHER_PLACE - own - asked
        and text[span[0] - 1 : span[0]] == " "
    ):
        return f"names {led[0].raw} {form}"
    if text[span[1] : span[1] + 1] == "-" and names(text[span[1] + 1 : span[1] + 2]):
        return f"names {form}-..."
    if _LIKE_NAMED.match(text[span[1] : span[1] + 10]) and _WHO.search(question):
        return f"names another {form}"  # his father, or his son
    follows = words(text[span[1] : span[1] + 40])[:1]
    more = _COMPOUND | _NAMED_AFTER if _WHO.search(question) else _COMPOUND
    if follows and follows[0].norm in more - own - asked and text[span[1] : span[1] + 1] == " ":
        return f"names {form} {follows[0].raw}"
    return ""


def _opens_with_another(text: str, span: Span, form: str) -> str:
    """Whether the reply opens with another short answer ("Lyon. Paris was ...")."""
    first = re.match(
        r"\W*([^\W\d_][^.,!?\n]{2,40})(?:(?<!Mr)(?<!Mrs)(?<!Dr)(?<!St)(?<!\b[A-Z])[.!]\s|\n)", text
    )
    if not first or first.end() > span[0] or _OPENING.match(first[1]):
        return ""
    said = words(first[1])
    if not 1 <= len(said) <= 3 or (
        len(said) == 3 and not all(w.raw[:1].isupper() or w.raw[:1].isdigit() for w in said)
    ):
        return ""
    if {w.norm for w in said} & {w.norm for w in words(form)}:
        return ""
    return f"opens with {first[1]!r}"


def _led_by_a_name(text: str, span: Span, question: str, form: str) -> str:
    """Whether the reply begins with another name than the answer's and the question's ("Federer defeated ...")."""
    if not form[:1].isupper():
        return ""
    known = {w.norm for w in words(question)} | {w.norm for w in words(form)}
    led: list[Word] = []
    for word in words(text[: span[0]]):
        if not word.raw[:1].isupper() or (led and text[led[-1].end : word.start].strip()):
            break
        led.append(word)
    if not led or not text[led[-1].end : span[0]].strip(" ." if len(led[-1].norm) == 1 else None):
        return ""  # "Diana" of "Diana Rigg", "D." of "D. Rigg"
    follows = text[led[-1].end : led[-1].end + 30]
    if (
        _OWNS.match(follows)
        or ":" in text[: span[0]]
        or (len(led) == 1 and not _DID.match(follows))
    ):
        return ""  # "Hazel's friend is ...", "Release date of ...: ...", "People born on ..."
    if led[0].norm in _NO_NAME or any(w.norm in known for w in led):
        return ""
    return f"begins with {' '.join(w.raw for w in led)!r}"


def _earlier_name(text: str, span: Span, question: str, form: str) -> str:
    """Whether a person's whole name, neither of the form nor of the question, stands before a form that is one."""
    own = words(form)
    if not 2 <= len(own) <= 4 or not (own[0].raw[:1].isupper() and own[-1].raw[:1].isupper()):
        return ""
    known = {w.norm for w in (*own, *words(question))}
    run: list[Word] = []
    for word in words(text[: span[0]]):
        joined = run and not text[run[-1].end : word.start].strip()
        run = (
            [*run, word]
            if word.raw[:1].isupper() and joined
            else [word]
            if word.raw[:1].isupper()
            else []
        )
        if len(run) == 2 and not any(w.norm in known for w in run):
            return f"names {run[0].raw} {run[1].raw} first"
    return ""


_OWNS = re.compile(r"'s?\s|\s(?:of|for|in|at|on)\b", re.IGNORECASE)
_DID = re.compile(r"\s(?:\w+ed|won|beat|lost|wrote|made|led|is|was)\b|[.;,]")
_NO_NAME = frozenset(listed("en", "openers"))
"""Words that begin a sentence and are no name."""


def _nearer(text: str, span: Span, question: str, languages: Sequence[str] = ()) -> str:
    """Whether another year or number stands nearer to the question's own words than the one at ``span``."""
    own = text[span[0] : span[1]]
    if not any(c.isdigit() for c in own):
        return ""
    if _of_another_year(text, span, question):
        return "tells it of another year"
    start = max(0, span[0] - _REACH)
    text, span = text[start : span[1] + _REACH], (span[0] - start, span[1] - start)
    year = _YEAR.search(own)
    others = [
        m.span()
        for m in (_YEAR if year else _FIGURE).finditer(text)
        if m.end() <= span[0] or m.start() >= span[1]
    ]
    told = told_places(text, question, languages)
    others = [o for o in others if text[slice(*o)] not in question and not denied(text, o)]
    others = [o for o in others if not any(denies(text, o, code) for code in languages)]
    if not others or not told:
        return ""

    last = bool(set(languages) & VERB_LAST)

    def gap(place: Span) -> int:
        """Characters from the nearest word of the question; a verb on its usual side of the figure is nearer."""
        return min(
            (
                place[0] - end + _BEHIND * last
                if end <= place[0]
                else at - place[1] + _BEHIND * (not last)
            )
            + _BEHIND * 8 * bool(_SENTENCE.search(text[min(end, place[1]) : max(at, place[0])]))
            for at, end in told
        )

    mine, least = gap(span), _NEARER // 3 if {"zh", "ja"} & set(languages) else _NEARER
    return (
        "another figure stands nearer to what is asked"
        if any(gap(o) + least < mine for o in others)
        else ""
    )


def _of_another_year(text: str, span: Span, question: str) -> bool:
    """Whether another year stands nearer to a figure than the one that is asked for, which the reply has too."""
    asked, told = set(_YEAR.findall(question)), list(_YEAR.finditer(text))
    if len(asked) != 1 or _YEAR.search(text[slice(*span)]) or not asked <= {m[0] for m in told}:
        return False

    def gap(year: re.Match[str]) -> int:
        low, high = sorted((span, year.span()))
        return (
            high[0] - low[1] + _REACH * len(re.findall(r"[,;.]\s|\band\b", text[low[1] : high[0]]))
        )

    return min(told, key=gap)[0] not in asked


_REACH = 400
"""Characters before and after a figure in which others are looked for."""
_BEHIND, _NEARER = 25, 12
_YEAR = re.compile(r"(?<![\d.,])(?:1\d|20)\d\d(?![\d]|[.,]\d)")
_FIGURE = re.compile(r"(?<![\d.,])\d[\d.,]*(?<=\d)")
