"""Passages that state an answer in another shape are no safe distractors; other names are."""

import pytest

from demur.answers import holds
from demur.answers.doubtful import may_hold
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.corpora.leaks import Leaks

QUESTION = "Who or what is it?"

IN_ANOTHER_SHAPE = [
    ("John Ronald Reuel Tolkien", "It was J. R. R. Tolkien who wrote it."),
    ("J. R. R. Tolkien", "Tolkien, J. R. R.: The Hobbit, 1937."),
    ("JRR Tolkien", "The letters of John Ronald Reuel Tolkien."),
    ("Albert Einstein", "Einstein, Albert (1879-1955), physicist."),
    ("Albert Einstein", "The theory is by A. Einstein."),
    ("Albert Einstein", "In 1905 Einstein published four papers."),
    ("Jean-Jacques Rousseau", "J.-J. Rousseau wrote it."),
    ("Johann Wolfgang von Goethe", "The drama is by Goethe."),
    ("Johann Wolfgang von Goethe", "He is the Goethe of our time."),
    ("Ludwig van Beethoven", "It was Beethoven's third."),
    ("Barack Obama", "It was signed by President Obama."),
    ("George Washington", "The army of Gen. G. Washington."),
    ("Lake Victoria", "The Nile leaves Victoria at Jinja."),
    ("photosynthesis", "Botanists call this photosyn-\nthesis."),
    ("Mount Kilimanjaro", "They climbed Kiliman-\n  jaro in a week."),
    ("Danube", "The river D\u0430nube flows there."),
    ("Vienna", "They met in Vi\u0435nn\u0430."),
    ("Athens", "They met in \u0391thens."),
    ("\u041c\u043e\u0441\u043a\u0432\u0430", "This is \u041cocква."),
]
OTHERS = [
    ("Albert Einstein", "The musicologist Alfred Einstein."),
    ("Albert Einstein", "Prince Albert Edward was his son."),
    ("Albert Einstein", "It is by B. Einstein."),
    ("J. R. R. Tolkien", "It was edited by Christopher Tolkien."),
    ("Johann Sebastian Bach", "His son Carl Philipp Emanuel Bach."),
    ("Eiffel Tower", "The CN Tower in Toronto."),
    ("New York City", "In Mexico City and in the City of London."),
    ("University of Vienna", "The Danube flows through Vienna."),
    ("Polish People's Republic", "The Republic of Kenya."),
    ("Danube", "The Rhine flows there; \u0414унай."),
    ("Paris", "Par-\nish priests."),
]


@pytest.mark.parametrize(("answer", "text"), IN_ANOTHER_SHAPE)
def test_a_passage_with_the_answer_in_another_shape_is_left_out(answer, text):
    assert leak(answer, text) == "may hold the answer"


@pytest.mark.parametrize(("answer", "text"), OTHERS)
def test_other_names_are_distractors(answer, text):
    assert leak(answer, text) == ""


def leak(answer, text):
    spec = AnswerSpec(accepted=((answer,),))
    gold = Document(id="g", title="Gold", text="Nothing that is compared here.")
    sample = Sample(
        id="s", source="x", question=QUESTION, answers=spec, gold=(Evidence.of(gold, Role.GOLD),)
    )
    return Leaks(sample).of(Document(id="d", title="", text=text))[0]


def test_what_a_question_names_is_not_its_answer():
    tower = AnswerSpec(accepted=(("Eiffel Tower",),))
    text = "From the Tower one sees the park."
    assert may_hold(tower, "Where do they live?")(text)
    assert not may_hold(tower, "Which tower is it?")(text)


def test_numbers_have_no_other_shape():
    spec = AnswerSpec(kind="number", accepted=(("12 km",),), number=(12, 12), unit="km")
    assert not may_hold(spec, QUESTION)("The Km-\nlong 1-\n2 km")


def test_what_holds_the_answer_is_no_doubt():
    spec = AnswerSpec(accepted=(("J. R. R. Tolkien",),))
    assert holds(spec, "JRR Tolkien wrote it.")
    assert leak("J. R. R. Tolkien", "JRR Tolkien wrote it.") == "holds the answer"
