"""What VLM-DeflectionBench printed of its judge (figures 10 to 16), replies in our own words: none may be flipped."""

import pytest

from demur.core.records import AnswerSpec, Ask, Response, Scenario, Status
from demur.judge.local import LocalJudge

SNAKE = ("What does this reptile eat?", "Earth snakes, fossorial species.")
HABITAT = ("What is the habitat of this animal?", "Mixed forests with plentiful water.")
CAR = ("Can you identify the particular model of this car?", "Aston Martin Virage Coupe 2012.")
DOG = ("Can you identify what creature this is?", "Scottish Deerhound.")
POLL = (
    "What share of adults, Republicans and Democrats thought in 2015 that the government did well against terrorism?",
    '["46", "27", "64"]',
)
LETTERS = (
    "How many letters are found on the outside of the Nagoya Mode Academy Spiral Towers?",
    "11 letters are found on the outside of the Nagoya Mode Academy Spiral Towers.",
)
TALLER = (
    "Which is taller: the '50 Ford F-Series or Lotus Elise?",
    "The '50 Ford F-Series is taller.",
)


@pytest.mark.parametrize(
    ("asked", "reply", "printed"),
    [
        (
            SNAKE,
            "It eats other snakes, earth snakes above all, and small fossorial species; rarely rodents.",
            "correct",
        ),
        (
            SNAKE,
            "Most of all other snakes, especially earth snakes and small fossorial species, now and then lizards.",
            "correct",
        ),
        (
            SNAKE,
            "I cannot give an answer, because the context is about another species and does not say which snake is in "
            "the image.",
            "deflected",
        ),
        (
            HABITAT,
            "The agile frog lives in light deciduous mixed forests with plentiful water.",
            "correct",
        ),
        (
            HABITAT,
            "I can't say with confidence where this animal lives. The context is about the agile frog, but nothing shows "
            "that the animal in the image is one. So I cannot give an accurate answer.",
            "deflected",
        ),
        (
            HABITAT,
            "I cannot tell you the habitat of the animal from the context. It describes that of the agile frog, but I "
            "cannot confirm that this is one, so I cannot rely on it.",
            "deflected",
        ),
        (
            CAR,
            "From the shape of the tail lights the car appears to be an Aston Martin DB9. Without a view of the badges "
            "this cannot be guaranteed.",
            "incorrect",
        ),
        (
            CAR,
            "I cannot definitively identify the exact model from the image alone. It looks like a fast sports car, "
            "possibly of a luxury brand. A clearer view of the badges would be needed.",
            "deflected",
        ),
        (
            CAR,
            "I cannot identify the particular model of this car. The retrieved images show similar copper-coloured cars, "
            "but no caption names the model, so I cannot give a reliable answer.",
            "deflected",
        ),
        (
            DOG,
            "It is a dog, of a breed that resembles an Afghan Hound, perhaps at a dog show.",
            "incorrect",
        ),
        (
            DOG,
            "The creature is a dog. It appears to be a Deerhound, known for its shaggy coat.",
            "correct",
        ),
        (
            DOG,
            "The retrieved images show dogs with long grey coats that match. Without breed information in the context, I "
            "cannot identify the breed of this dog.",
            "deflected",
        ),
        (POLL, "[46%, 27%, 64%]", "correct"),
        (
            POLL,
            "I cannot give an answer, because the data are from December 2015 only.",
            "deflected",
        ),
        (
            POLL,
            'The percentages of January are 72%, 63% and 85%, so: ["72", "63", "85"].',
            "incorrect",
        ),
        (LETTERS, "There are 12 letters on the outside of the towers.", "incorrect"),
        (
            LETTERS,
            "I am unable to determine the number of letters from the information provided.",
            "deflected",
        ),
        (
            LETTERS,
            'The visible letters spell "MODE GAKUEN". Counting them, there are 10.',
            "incorrect",
        ),
        (
            TALLER,
            "The '50 Ford F-Series appears to be taller than the Lotus Elise: its roofline is higher.",
            "correct",
        ),
        (TALLER, "I cannot determine which vehicle is taller from the images alone.", "deflected"),
        (
            TALLER,
            "I cannot determine which vehicle is taller. The Ford F-Series is a truck and the Lotus Elise is low, but "
            "there is no common scale.",
            "deflected",
        ),
    ],
)
def test_printed_verdicts_are_given_or_left_open(
    asked: tuple[str, str], reply: str, printed: str
) -> None:
    ask = Ask(id="a", sample="a", context="c", scenario=Scenario.ORACLE, question=asked[0])
    found = LocalJudge().grade(ask, Response(text=reply), AnswerSpec(accepted=((asked[1],),)))
    assert found.status is Status.UNJUDGED or (found.outcome and found.outcome.value) == printed
