"""Which documents state an answer: found as if each were asked of each, and with far fewer looks."""

from hypothesis import given
from hypothesis import strategies as st

from demur.answers import holds
from demur.answers.prefilter import run_together
from demur.answers.text import words
from demur.core.records import AnswerSpec, Document, Sample
from demur.release import answer_bearing, corpora
from demur.release.answer_bearing import AnswerBearing

ANSWERS = [
    "Nyanza",
    "dragonflies",
    "41 euros",
    "1823",
    "東京都",
    "C++",
    "NASA",
    "two rivers",
    "U.S.",
    "Łódź",
]
TEXTS = [
    "The mill of Nyanza.",
    "A dragonfly at the mill.",
    "The mill costs 41 euros.",
    "Built in 1823 as a mill.",
    "The mill 東京都",
    "N.A.S.A. has a mill.",
    "The mill between two rivers, in the U.S. of A.",
    "ŁÓDŹ: mill",
    "Nothing of it.",
    "Nyanza",
    "C++ mill",
]


def question(number, *answers, kind="string"):
    return Sample(
        id=f"q{number}",
        source="s",
        question="Which mill is it?",
        answers=AnswerSpec(accepted=tuple((a,) for a in answers), kind=kind),
    )


def document(number, text):
    return Document(id=f"d{number}", title="", text=text)


@given(st.text(max_size=60))
def test_whatever_is_read_as_a_word_stands_in_the_letters(text):
    letters = run_together(text)
    assert all(w.norm in letters for w in words(text) if w.norm.isascii() and w.norm.isalnum())


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4).map(" ".join))
def test_what_stands_beside_a_word_of_the_question_is_found(text):
    samples = [question(n, a) for n, a in enumerate(ANSWERS)]
    tied = "mill" in {w.norm for w in words(text)}
    wanted = {s.id for s in samples if tied and holds(s.answers, text, s.question)}
    assert AnswerBearing(samples).find_samples(document(0, text)) == wanted


def test_a_date_and_a_question_that_is_left():
    samples = [question(1, "4 May 1999", kind="date"), question(2, "Nyanza")]
    index = AnswerBearing(samples)
    both = document(0, "The mill of Nyanza, 1999-05-04.")
    assert index.find_samples(both) == {"q1", "q2"}
    index.drop("q2")
    assert index.find_samples(both) == {"q1"}


def looks(monkeypatch, tmp_path, documents, questions):
    """How often an export asks whether a text holds an answer."""
    asked = []
    monkeypatch.setattr(answer_bearing, "holds", lambda *given: asked.append(1) or holds(*given))
    samples = [question(n, f"Town{n}ville", "a common word") for n in range(questions)]
    texts = [
        document(n, f"The mill of Town{n}ville is near a common word of it.")
        for n in range(documents)
    ]
    corpora.export(
        tmp_path / f"{documents}-{questions}",
        lambda: texts,
        samples,
        release={},
        read_image=lambda ref: b"",
    )
    return len(asked)


def test_looks_grow_with_what_states_an_answer(monkeypatch, tmp_path):
    """An answer that stands everywhere is looked for until enough documents are listed, and no further."""
    small = looks(monkeypatch, tmp_path, 100, 10)
    assert small <= 10 * (corpora.MOST_LISTED + 1)
    assert looks(monkeypatch, tmp_path, 800, 10) == small
    assert looks(monkeypatch, tmp_path, 100, 40) <= 4 * small + 40
