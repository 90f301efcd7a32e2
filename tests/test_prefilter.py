"""The first look never denies what `holds` finds."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from demur.answers import holds
from demur.answers.prefilter import Prefilter
from demur.core.records import AnswerSpec

NAMES = [
    "Lake Victoria",
    "Łódź",
    "Zürich",
    "Straße",
    "Queen's Park",
    "the cities",
    "colour wheel",
    "Saint Helena",
    "NASA",
    "Henry VIII",
    "roofs",
    "wolves",
    "O'Neill",
    "AT&T Tower",
    "dragonflies",
    "two rivers",
    "1889",
    "12 strings",
    "yes",
    "Jean-Luc",
    "Ærø",
    "ﬁne art",
    "4 May 1999",
    "C++ language",
    "UNESCO",
    "Mount Cook",
    "harbours",
    "𝐁old face",
]
CHANGES = [
    str,
    str.lower,
    str.upper,
    str.title,
    lambda t: unicodedata.normalize("NFD", t),
    lambda t: t + "'s",
    lambda t: ".".join(t) if t.isalpha() else t,
    lambda t: t.replace("e", "e\u00ad"),
    lambda t: t.replace(" ", "\u2013"),
    lambda t: t.replace("o", "ó"),
    lambda t: t + "s",
    lambda t: t.removesuffix("s"),
    lambda t: t.replace("i", "ı"),
    lambda t: ". ".join(t) + ". Smith",
    lambda t: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t),
    lambda t: t.replace("colour", "color").replace("Mount", "Mt.").replace("Saint", "St"),
    lambda t: t.replace("v", "f"),
]
PIECES = st.sampled_from(
    [*NAMES, "It stands in the north.", "a, b; c", "", "Ελλάδα", "東京都", "12", "St. Helena's"]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from(CHANGES)), min_size=1, max_size=5).map(
    lambda found: " ".join(change(piece) for piece, change in found)
)


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    TEXTS,
    st.sampled_from(["string", "date", "parts"]),
)
@example(["Queen's Park"], "It is Queens Park in the north of it.", "string")
@example(["NASA"], "It was the N.A.S.A. of all things.", "string")
@example(["harbours"], "The harbor's wall is one of many there.", "string")
def test_what_holds_is_possible(names, text, kind):
    spec = AnswerSpec(
        accepted=(tuple(names),) if kind == "parts" else tuple((name,) for name in names), kind=kind
    )
    if holds(spec, text):
        assert Prefilter(spec)(text)


@given(st.text(max_size=30), st.text(max_size=40), st.text(max_size=40))
def test_whatever_is_written(form, before, after):
    if form.strip():
        spec = AnswerSpec(accepted=((form,),))
        for text in (f"{before} {form} {after}", before + form + after, form.casefold()):
            assert Prefilter(spec)(text) or not holds(spec, text)


def test_most_texts_are_seen_not_to_hold_it():
    spec = AnswerSpec(accepted=(("Lake Victoria",), ("Nyanza", "Ukerewe")))
    may = Prefilter(spec)
    assert not any(
        map(
            may,
            ["A lake in Peru.", "Queen of the Nyanza.", "", "Ein See in Österreich \u2013 tief."],
        )
    )
    assert all(map(may, ["LAKE VICTORIA", "Ukerewe, in Nyanza", "Lake Vic\u00adtória"]))
    for always in (AnswerSpec(kind="number", number=(1, 2)), AnswerSpec(accepted=(("1889",),))):
        assert Prefilter(always)("nothing")
