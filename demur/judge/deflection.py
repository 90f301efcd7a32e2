"""Whether a reply declines to answer, by its wording, in the languages of `demur.judge.phrases_by_language`.

A reply is read clause by clause. A clause may *decline* (the speaker cannot or will not answer), *blame* (the evidence
does not say), *doubt* ("I'm not sure"), *offer* (a guess is coming: "it might be", "my best guess"), *describe* (what
the evidence or the picture shows), or *assert*. What is quoted is not read: a sign that says "no data" declines
nothing. Two rules follow from published mistakes (a phrase list fires inside real answers): a doubt followed by an
answer is an answer, and a phrase counts only where the speaker, the question or the evidence is its subject.

English has rules of its own here (``phrases.txt``); the others share one reader over a file of patterns each. A reply
in none of them is read as no deflection, and ``known`` says so. The rules' reading and the wording as a whole
(`demur.judge.wording`) decide together.

How often this is right is measured, not claimed: ``demur judge bench rules --on FILE``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from demur.answers import normalise
from demur.answers.languages import bare, fold, spoken
from demur.answers.text import both_ends
from demur.judge.courtesies import without_courtesies
from demur.judge.phrases_by_language import Language, language, wholes
from demur.judge.wording import DECLINES, REFUSES, RULE, SHORT, log_odds

REFUSAL, LACK, ASKS_BACK = "refusal", "lack", "asks back"
"""Kinds of deflection: will not, cannot tell, wants to be told more."""


class Reading(NamedTuple):
    """What a reply does, and the words that show it."""

    deflects: bool
    cue: str
    kind: str = ""
    """Of a deflection: `REFUSAL`, `LACK` or `ASKS_BACK`."""
    known: bool = True
    """False where the reply is in no language that is read."""
    proven: bool = True
    """False where no rule but the wording as a whole says that it declines (`demur.judge.wording`)."""


_WORDS = {
    "EVIDENCE": (
        r"(?:(?:any|none|some|all|either|neither|nothing)\s+(?:of|in)\s+)?"
        r"(?:the|this|these|those|your|any|my|its|that)?\s*"
        r"(?:(?:provided|given|available|supplied|retrieved|attached|accompanying|presented|shown|above|relevant|"
        r"current|supporting|text|textual|visual|search|first|second|two|three|input|reference)\s+){0,3}"
        r"(?:context|contexts|passages?|documents?|evidence|text|texts|information|info|images?|pictures?|photos?|"
        r"photographs?|sources?|articles?|excerpts?|snippets?|<THINGS>|results?|captions?|paragraphs?|data|details|"
        r"reports?|charts?|diagrams?|transcripts?|screenshots?|footage|references?|quotes?|descriptions?|page|pages|content|question)"
    ),
    "THINGS": (
        r"(?:materials?|figures?|tables?)"
        r"(?! (?:does|do|did)(?: not|n't) (?!(?:\w+ly |even |actually )?<SAYING>\b))"
    ),
    "KNOWING": (
        r"(?:answer(?!ing the door)|determine|identify|tell|say|provide|give|confirm|verify|find|see|"
        r"locate|infer|know|"
        r"name|state|recogni[sz]e|assist|help|specify|establish|offer|make out|ascertain|conclude|deduce|"
        r"be (?:sure|certain|determined)|pinpoint|comment|respond|speculate|guess|figure out|work out|read|"
        r"view|access|"
        r"do that|discern|reliably|definitively|accurately|directly|confidently|with (?:any )?(?:certainty|"
        r"confidence)|"
        r"really|truthfully|responsibly|process|share|make a determination)"
    ),
    "CANNOT": (
        r"(?:can(?:no|')?t|cannot|can not|could(?:n't| not)|unable|not able|wasn't able|weren't able|"
        r"(?:am|'m|are|was|were) (?:unable|not able))"
    ),
    "SAYING": (
        r"(?:mention|contain|provide|include|specify|state|say|give|list|identify|indicate|show|address|cover|have|"
        r"support|discuss|reveal|tell|offer|describe|name|help|allow|explain|refer|report|answer|disclose|"
        r"appear|seem|"
        r"make|clarify|hold|present|match|relate|suffice|note|record|detail|depict|point|talk|touch)"
    ),
}


@cache
def _phrases() -> dict[str, list[str]]:
    """Sections of ``phrases.txt``: section -> its lines, word lists put in."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in files(__package__).joinpath("phrases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1] in _SECTIONS:
            lines = sections.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            for name, words in _WORDS.items():
                line = line.replace(f"<{name}>", words)
            lines.append(line)
    return sections


_SECTIONS = ("refuses", "asks", "declines", "blames", "blames by pronoun", "doubts", "offers", "describes", "whole")


@cache
def _pattern(section: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in _phrases()[section]), re.IGNORECASE)


@cache
def _whole() -> frozenset[str]:
    return frozenset(_phrases()["whole"])


_LONGEST = 600
"""Characters of a clause that are read; untrusted text must not cost more than a little."""
_CLAUSES = 100
"""Clauses of a reply that are read, half from its beginning and half from its end."""
_QUOTED = re.compile(
    "\"[^\"\n]{1,200}\"|\u201c[^\u201d\n]{1,200}\u201d|(?<![\\w])'[^'\n]{2,200}'(?![\\w])"
    "|\u2018[^\u2019\n]{1,200}\u2019|\\*[^*\n]{1,80}\\*(?!\\*)"
    "|\u00ab[^\u00bb\n]{1,200}\u00bb|\u00bb[^\u00ab\n]{1,200}\u00ab|\u201e[^\u201c\u201d\n]{1,200}[\u201c\u201d]"
    "|\u300c[^\u300d\n]{1,200}\u300d|\u300e[^\u300f\n]{1,200}\u300f"
)
"""What somebody else said, in the quotation marks of every language."""
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*]*+\s++(?=[^a-z])|\n|;|(?<=\s)[-\u2013\u2014]\s|\u2014")
_TURN = re.compile(
    r"(?:,|(?<![\s,]))\s++(?:but|however|yet|nevertheless|nonetheless)\b,?\s*+|,\s++(?:and )?(?:so|therefore|thus|"
    r"hence|which means)\b,?\s*+",
    re.IGNORECASE,
)
_TURN_AT_START = re.compile(
    r"\W*+(?:but|however|yet|nevertheless|nonetheless|still|that said|even so|having said that)\b,?\s*+",
    re.IGNORECASE,
)
_CONCEDING = re.compile(
    r"^\W*(?:even )?(?:though|although|while|whereas)\b[^,]{3,160},\s*(.+)", re.IGNORECASE | re.DOTALL
)
_SOURCE = re.compile(
    r"\b(?:context|passage|document|evidence|text|information|image|picture|photo|source|article|excerpt|"
    r"snippet|material|"
    r"result|caption|paragraph|description|page|reference|report|chart|diagram|transcript|screenshot)s?\b",
    re.IGNORECASE,
)
_SOURCE_AT_START = re.compile(r"(?:(?:the|this|these|provided|given)\s+)*" + _SOURCE.pattern, re.IGNORECASE)
_PLACE = re.compile(
    r"\b(?:in|on|from|of|to|at|with|about|by|for)\s+(?:(?:the|this|these|that|a|my|your)\s+)?$", re.IGNORECASE
)
_VERIFY = re.compile(
    r"\b(?:verify|confirm|be (?:\w+ )?(?:sure|certain|positive)|prove|guarantee|100 ?%|double-check)\b", re.IGNORECASE
)
_SPEAKER = re.compile(r"\b(?:i|we)\b", re.IGNORECASE)
_NOT = re.compile(r"\bnot\b|n't\b|\bcannot\b|\bno\b|\bunable\b", re.IGNORECASE)
_STILL_NOT = re.compile(r"\bno answer\b|\b(?:left|leave) (?:out|it|open)\b|\bsorry\b", re.IGNORECASE)
_FILLERS = frozenset({
    "sorry", "honestly", "really", "though", "unfortunately", "to", "be", "honest", "i", "m", "am", "afraid", "about",
    "that", "this", "it", "from", "image", "context", "picture",
})  # fmt: skip
_CONCEDES = re.compile(r"(?:,|(?<![\s,]))\s++(?:though|although|even though|albeit|while|despite)\b", re.IGNORECASE)
_MORE = re.compile(
    r"\b(?:other|others|further|additional|anything else|beyond that|more (?:detail|specific|precise|"
    r"about)|exact|precise|why|the rest|how (?:it|this)|that fact|source for|independently|in more)\b",
    re.IGNORECASE,
)
_MARK = re.compile(r"(?:^|(?<=\w))(?P<gap>\W*+)(?:final answer|short answer|answer)(?=(?P<sign>\W*+))", re.IGNORECASE)
_CORRECTS = re.compile(
    r"\b(?:before|until|till|after) (?:the )?(?:\d|(?:early|late|mid|end|middle)\b)|\bnaked eye\b"
    r"|\boutside (?:the |of )?(?-i:[A-Z])|\bbut (?:in|at|on|as|by) |\bin (?:metres|meters|feet|inches|miles)\b"
    r"|, (?:only|just) (?:an?|one|two|three|four|\d+) "
    r"|\b(?:was|were|has been|have been) (?:n?ever|not) (?:found|recovered|seen again)\W*$"
    r"|\bno (?:trace|sign|wreck(?:age)?|remains) .{0,60}\b(?:ever|never|since)\b",
    re.IGNORECASE,
)
"""What makes a denial an answer."""
_PASSIVE = re.compile(
    r"\W*(?:can|could)(?:not|n't| not|'t)\s+(?:be\s+)?(?:\w+ly\s+)?(?:be\s+)?(?:seen|found|located)", re.IGNORECASE
)
_AT = re.compile(
    r"\b(?:from|outside|beyond|above|below) (?:the |of )?(?-i:[A-Z])\w|\bnaked eye\b"
    r"|\bfrom the (?:road|street|ground|air|sea)\b",
    re.IGNORECASE,
)
"""Where something cannot be seen or found: a statement about it."""
_WORLD = re.compile(
    r"^\W*(?:(?:the|this|its|no|none of the(?: \w+)?)\s+)?(?:\w+\s+){0,2}?"
    r"(?:treat(?:y|ies)|agreements?|conventions?|laws?|acts?|decrees?|constitutions?|charters?|statutes?|contracts?"
    r"|bible|quran|koran|gospels?|books?|novels?|poems?|songs?|anthems?|operas?|symphon(?:y|ies)|films?|series|legends?"
    r"|myths?|censuses|census|courts?|tribunals?|judges?|jur(?:y|ies)|police|parliaments?|senate|congress|governments?"
    r"|ministr(?:y|ies)|ministers?|presidents?|kings?|queens?|emperors?|popes?|bishops?|church(?:es)?|arm(?:y|ies)"
    r"|compan(?:y|ies)|teams?|committees?|commissions?|universit(?:y|ies)|archaeologists?|scientists?|countr(?:y|ies)"
    r"|republics?|kingdoms?|cit(?:y|ies)|islands?|species|plants?|rivers?|bridges?|sisters?|brothers?)\b",
    re.IGNORECASE,
)
"""What speaks, acts or is acted on in the world: that it does not say something is a fact (`_about_the_world`)."""
_NEW_SENTENCE = re.compile(r"\n|[.!?]\s")


def read(text: str, odds: Callable[[str], float] = log_odds) -> Reading:
    """Whether a reply declines to answer.

    Args:
        text: the reply, without hidden reasoning. Untrusted; read as text only.
        odds: log odds that a text declines, by its wording or more (`demur.judge.sentence_vectors`).

    Returns:
        ``deflects`` and the words that decided (of an answer that hedges: "" or the words that offer it).

    >>> read("I'm sorry, but the passages do not mention when the bridge opened.").deflects
    True
    >>> read("I'm not certain, but it is probably Lake Como.").deflects
    False
    >>> read('The display reads "no data".').deflects
    False
    """
    return weighed(by_rules(text), text, odds)


def weighed(found: Reading, text: str, odds: Callable[[str], float]) -> Reading:
    """What the rules read in a reply, weighed together with its wording as a whole.

    Args:
        found: of the rules.
        text: the reply.
        odds: log odds of a text to decline, by its wording; not asked of what is left to the rules.
    """
    said = without_courtesies(_marked(text) or text).strip()
    if not found.known or len(said.encode(errors="replace")) < SHORT:
        return found
    if found.deflects and len(found.cue) * 3 >= len(said):
        return found  # it is little more than the words that a rule knows
    added = RULE + REFUSES * (found.kind == REFUSAL) if found.deflects else 0.0
    declines = odds(said) + added > DECLINES
    if declines == found.deflects:
        return found
    if not declines:
        return Reading(False, "")
    refuses = by_rules(_first_sentence(said)).kind == REFUSAL
    kind = REFUSAL if refuses else ASKS_BACK if said.endswith(_ASKING) else LACK
    return Reading(True, said[:_CUE], kind, proven=False)


def _first_sentence(text: str) -> str:
    return re.split(r"[.!?]\s|[\u3002\uff01\uff1f\u0964\n]", text, maxsplit=1)[0]


_CUE = 80
"""Characters of a reply that stand for the words that show it, where no single words do."""
_ASKING = ("?", "\uff1f", "\u061f")


def by_rules(text: str) -> Reading:
    """What the rules alone say of a reply."""
    text = both_ends(without_courtesies(text)).replace("\u2019", "'").replace("\u02bc", "'").strip()
    if bare(fold(text[:_LONGEST])) in wholes():
        return Reading(True, text[:_LONGEST], LACK)
    codes = spoken(text)
    found = Reading(False, "", known=bool(codes))
    for code in codes:
        reading = _read_english(text) if code == "en" else _read_in(language(code), text)
        if reading.deflects:
            return reading
        found = found if found.cue else reading
    return found


def _read_english(text: str) -> Reading:
    marked = _marked(text)
    if marked:
        inner = _read(marked)
        return _named(inner, marked) if inner.deflects or len(marked.split()) <= 60 else Reading(False, "")
    return _named(_read(text), text)


def _named(reading: Reading, text: str) -> Reading:
    """A deflection with its kind. A refusal in the first sentence stays one, whatever the rest offers."""
    if not reading.deflects:
        return reading
    cue = reading.cue
    if _pattern("refuses").search(cue) or _pattern("refuses").search(_first_sentence(text)[:_LONGEST]):
        return reading._replace(kind=REFUSAL)
    return reading._replace(kind=ASKS_BACK if _pattern("asks").search(cue) else LACK)


# --- other languages ------------------------------------------------------------------------------

_STOP = re.compile(r"(?<=[.!?\u061f])[\"')\u00bb*]*\s+|[\u3002\uff01\uff1f\u0964;\n]")


def _read_in(lang: Language, text: str) -> Reading:
    """A reply in a language of patterns; the order of kinds within a clause and among clauses is that of English."""
    standing = Reading(False, "")
    answered = False
    asks = ""
    sections = lang.sections
    unquoted = _QUOTED.sub(" _ ", text)
    sentences = [s for s in _STOP.split(fold(unquoted if bare(unquoted) else text)) if bare(s)]
    if len(sentences) > _CLAUSES:
        sentences = sentences[: _CLAUSES // 2] + sentences[-_CLAUSES // 2 :]
    for sentence in sentences:
        parts = lang.turn.split(sentence[:_LONGEST])
        for place, clause in enumerate(parts):
            if not bare(clause):
                continue
            turned = place > 0
            cues = {name: found for name in _KINDS if (found := sections[name].search(clause))}
            if sections["corrects"].search(clause):  # "not in Paris but in Rome": what is denied is no evidence
                cues.pop("blames", None)
                cues.pop("declines", None)
            if sections["others"].search(clause):  # "the witness could not say" declines nothing
                for name in ("refuses", "declines", "blames"):
                    cues.pop(name, None)
            declines = next((name for name in ("refuses", "declines", "blames") if name in cues), "")
            offer = cues.get("offers")
            if offer and (not declines or offer.start() > cues[declines].end() or _only_doubts(clause, cues, declines)):
                standing, answered = Reading(False, offer.group().strip()), True
            elif declines:
                if declines == "blames" and "declines" in cues:
                    declines = "declines"
                more = sections["more"].search(clause)
                if answered and declines == "declines" and "doubts" in cues:
                    continue  # "Probably Lake Garda, but I can't swear to it."
                if answered and not (turned and not more) and (more or declines == "blames"):
                    continue
                standing, answered = Reading(True, cues[declines].group().strip(), _KIND_OF[declines]), False
            elif "asks" in cues:
                asks = asks or cues["asks"].group().strip()
            elif "doubts" in cues:
                if not answered:
                    standing = Reading(True, "doubt", LACK)
            elif "describes" in cues:
                continue
            elif turned or not standing.deflects or standing.cue == "doubt":
                standing, answered = Reading(False, ""), True
    if asks and not standing.deflects and not answered:
        return Reading(True, asks, ASKS_BACK)
    return standing


def _only_doubts(clause: str, cues: dict[str, re.Match[str]], declines: str) -> bool:
    """Whether what declines is a doubt that follows an answer: "I think it is X, though I do not know for sure"."""
    after = clause[cues["offers"].end() : cues[declines].start()]
    return declines == "declines" and "doubts" in cues and bool(re.search("[,\u060c\u3001\uff0c]", after))


_KINDS = ("refuses", "declines", "blames", "asks", "doubts", "offers", "describes")
_KIND_OF = {"refuses": REFUSAL, "declines": LACK, "blames": LACK}


def _marked(text: str) -> str:
    """What follows the last "Answer:" that anything follows; "" without one."""
    marks, follows = [], 0  # a mark may stand at the beginning, or right after another
    for m in _MARK.finditer(text):
        if (m.start() == follows or _NEW_SENTENCE.search(m["gap"])) and re.search("[:=]", m["sign"]):
            marks.append(m.end("sign"))
            follows = m.end()
    return next((after for end in marks[:-3:-1] if normalise(after := text[end:])), "")


def _read(text: str) -> Reading:
    bare = normalise(re.sub(r"['\u2019]", " ", text))
    if bare in _whole():
        return Reading(True, bare)
    plain = _QUOTED.sub(" _ ", text)
    if not normalise(plain.replace("_", "")):
        plain = text.strip("\"'*\u201c\u201d ")
    talks_of_evidence = bool(_SOURCE.search(plain))
    standing = Reading(False, "")  # what the clauses so far come to
    answered = terse = False
    clauses = _clauses(plain)
    if len(clauses) > _CLAUSES:
        clauses = clauses[: _CLAUSES // 2] + clauses[-_CLAUSES // 2 :]
    for clause, turned in clauses:
        kind, cue = _kind(clause, talks_of_evidence)
        if kind == "assert" and standing.deflects and _still_not(clause):
            continue  # "..., so I can't describe it"
        if kind == "offer" or (kind == "assert" and (turned or not standing.deflects or standing.cue == "doubt")):
            standing, answered, terse = Reading(False, cue if kind == "offer" else ""), True, len(clause.split()) <= 3
        elif kind in ("decline", "blame", "doubt"):
            # "300 m. The text gives no other details." / "It is Oslo, but I cannot verify it."
            brief = answered and kind == "decline" and not turned and terse
            more = _MORE.search(clause) and not (turned and kind == "decline")
            aside = answered and (brief or more or _VERIFY.search(clause) or (kind != "decline" and not turned))
            if not aside:
                standing, answered = Reading(True, "doubt" if kind == "doubt" else cue), False
    return standing


def _still_not(clause: str) -> bool:
    """Whether a clause goes on declining: "..., so I can't describe it"."""
    speaker = _SPEAKER.search(clause)
    return bool((speaker and _NOT.search(clause, speaker.end())) or _STILL_NOT.search(clause))


def _clauses(text: str) -> list[tuple[str, bool]]:
    """Clauses in order, each with whether it turns against what went before ("but ...", "..., so ...")."""
    out: list[tuple[str, bool]] = []
    for sentence in (" ".join(part.split()) for part in _SENTENCE.split(text)):
        turned, at = False, 0
        while found := _TURN_AT_START.match(sentence, at) or _TURN.search(sentence, at):
            if normalise(part := sentence[at : found.start()]):
                out += _conceding(part, turned)
            turned, at = True, found.end()
        if normalise(part := sentence[at:]):
            out += _conceding(part, turned)
    return out


def _conceding(clause: str, turned: bool) -> list[tuple[str, bool]]:
    """A clause without its concession: "though the text does not say so" is no verdict of its own."""
    clause = clause[:_LONGEST]
    opening = _CONCEDING.match(clause)
    if opening and normalise(opening[1]):
        return [(opening[1], True)]
    later = _CONCEDES.search(clause)
    if later and later.start() > 0 and _kind(clause[: later.start()], False)[0] in ("assert", "offer"):
        return [(clause[: later.start()], turned)]
    doubt = _pattern("doubts").match(clause)
    after = clause[doubt.end() :] if doubt else ""
    if doubt and re.match(r"\s*[,:?]", after) and set(normalise(after).split()) - _FILLERS:
        return [(clause[: doubt.end()], turned), (after, True)]
    return [(clause, turned)]


def _about_the_world(clause: str, found: re.Match[str]) -> bool:
    """Whether something in the world is what does not say or do it; "is not mentioned" is said of the evidence."""
    world = _WORLD.match(clause)
    if not world or world.end() > found.start() + 1 or _SOURCE.search(clause[: found.start()]):
        return False
    return not re.match(r"\s*(?:is|are|was|were|remains?|'s)\b", clause[world.end() :], re.IGNORECASE)


def _kind(clause: str, talks_of_evidence: bool) -> tuple[str, str]:
    for kind, section in (
        ("offer", "offers"),
        ("decline", "refuses"),
        ("decline", "declines"),
        ("decline", "asks"),
        ("blame", "blames"),
        ("doubt", "doubts"),
    ):
        pattern = _pattern(section)
        found = pattern.search(clause)
        while (
            found
            and kind == "blame"
            and _PLACE.search(clause[: found.start()])
            and _SOURCE_AT_START.match(found.group())
        ):
            # "the dog in the picture cannot see": the evidence is where, not who
            found = pattern.search(clause, clause.find(" ", found.start()) + 1 or len(clause))
        if found and kind == "blame" and _about_the_world(clause, found):
            break  # "the treaty does not mention Malta"
        if found and kind == "blame" and _CORRECTS.search(clause, found.start()):
            break  # "never mentioned before 1612"
        if found and section == "declines" and _PASSIVE.match(found.group()) and _AT.search(clause, found.start()):
            break  # "cannot be seen from Europe"
        if found:
            return kind, found.group().strip()
    if talks_of_evidence and (found := _pattern("blames by pronoun").search(clause)):
        return "blame", found.group().strip()
    if _pattern("describes").search(clause):
        return "describe", ""
    return "assert", ""
