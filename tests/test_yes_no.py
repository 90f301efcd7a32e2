"""Which side a sentence takes that is neither a yes nor a no, and where it takes none."""

from __future__ import annotations

import pytest

import demur
from demur.answers.in_english import language_of, side_in_english
from demur.answers.yes_no import side_of
from demur.core.records import Outcome

RESTATED = """
no | Can penguins fly? | Penguins cannot fly.
no | Can penguins fly? | Penguins can't fly.
no | Can the battery be replaced? | The battery cannot be replaced.
no | Does Anna live in Rome? | Anna no longer lives in Rome.
no | Did the bill pass the Senate? | The bill never passed the Senate.
no | Does the phone have a camera? | The phone has no camera.
no | Is the man wearing glasses? | The man in the picture is not wearing any glasses.
no | Was Mozart born in Vienna? | Mozart was born in Salzburg, not in Vienna.
no | Does the train stop in Bern? | The train stops in Zurich but not in Bern.
no | Is meat served at the canteen? | No meat is served at the canteen.
no | Ist die Tür rot? | Die Tür ist nicht rot.
no | Liegt Salzburg in Deutschland? | Salzburg liegt nicht in Deutschland.
no | Le train s'arrête-t-il à Berne ? | Le train ne s'arrête pas à Berne.
no | ¿Está abierto el museo los lunes? | El museo no está abierto los lunes.
no | Находится ли Лиссабон в Испании? | Лиссабон не находится в Испании.
no | क्या कुत्ता काला है? | कुत्ता काला नहीं है।
yes | Is the door red? | The door is red.
yes | Is the door red? | The door is red, not blue.
yes | Is the door red? | The door is red and has no handle.
yes | Was Mozart born in Vienna? | Mozart was born in Vienna, not in Salzburg.
yes | Does the hotel have a pool? | The hotel has a large pool but no gym.
yes | Is the man wearing a hat? | The man is wearing a red hat.
yes | Does the train stop in Bern? | The train stops in Bern.
yes | La porte est-elle rouge ? | La porte est rouge et n'a pas de poignée.
yes | ¿La puerta es roja? | La puerta es roja y no tiene manilla.
yes | Ist die Tür rot? | Die Tür ist rot und hat keinen Griff.
"""
"""side | question | a reply that has the words of the question"""
ANOTHER_WORD = """
Does the phone have a camera? | The phone lacks a camera.
Does the hotel have a pool? | The hotel has a pool table.
Does the hotel have a pool? | The hotel does not have a heated pool.
Did the bill pass the Senate? | The bill failed to pass the Senate.
Did Rome defeat Carthage in that battle? | Rome was defeated by Carthage in that battle.
Did Einstein receive the Nobel Prize? | Einstein did not receive the Nobel Prize for relativity.
Does Anna live in Rome? | Anna used to live in Rome, but she lives in Milan now.
Does Anna live in Rome? | Anna lived in Rome.
Was Anna paid? | Anna paid the bill.
Is Lisbon in Spain? | Lisbon is in Portugal, west of Spain.
Is Vienna in Australia? | Vienna is in Austria.
Is the castle in Wales? | The castle is just outside Wales.
Is the cat on the table? | The cat is by the table.
Is the door red? | The door is red without any decoration.
Is the door red? | The door is not only red but also blue.
Is the door red? | No windows are red, but the door is.
Is the man holding an umbrella? | The man is holding a stick instead of an umbrella.
Is the shop open? | The shop is not open on Mondays.
Is the shop open on Sunday? | The shop is open every day but Sunday.
Is the shop open on Sunday? | The shop is open Monday to Saturday but closed on Sunday.
Was the contract signed in 2020? | The contract was signed in 2019 and amended in 2020.
Can dogs eat chocolate? | That dogs can eat chocolate is a myth.
¿Plutón es un planeta? | Plutón es un planeta enano.
¿El perro es negro? | Ningún perro es negro.
¿Hay un perro en la imagen? | Hay un gato pero ningún perro.
Le chat est-il sur la table ? | Le chat est sous la table.
Hält der Zug in Bern? | Der Zug hält überall außer in Bern.
Il gatto insegue il cane? | Il cane insegue il gatto.
क्या सूर्य पृथ्वी की परिक्रमा करता है? | पृथ्वी सूर्य की परिक्रमा करती है।
"""
"""question | a reply that has its words and another that matters"""
THERE = """
no | Is there a dog in the image? | There is a cat but no dog.
no | Is there a dog in the image? | I see a cat, not a dog.
no | Is there a dog in the image? | I can see a man and a cat, but no dog.
no | Is there a dog in the image? | There's a cat, but I don't see a dog.
no | Is there a dog in the image? | There are no dogs in this picture.
no | Is there a dog in the image? | No dog is visible.
no | Is there a cup on the table? | There is a plate, not a cup, on the table.
no | Is there a cup on the table? | There is a table with no cup on it.
no | Is there a cup on the table? | I see a table without a cup.
yes | Is there a dog in the image? | There is a dog but no cat.
yes | Is there a dog in the image? | I see a brown dog lying on the grass.
yes | Is there a dog in the image? | I see a cat and a dog.
yes | Are there any trees in the picture? | There are no houses, but there are several trees.
yes | Are there any trees in the picture? | No houses, but there are trees.
yes | Do you see a bus? | I don't see any cars, but I see a bus.
none | Is there a hat? | I see a man without a hat and a woman with a hat.
none | Is there a cup on the table? | There is a cup on the floor.
none | Is there a cup on the table? | There is no cup on the floor.
none | Is there a dog? | There is a dog house.
none | Is there a dog? | There is no dog house.
none | Is there a dog or a cat? | There is no dog.
none | Are there fewer than three mugs? | There are no mugs.
none | Are there any trees? | No houses.
"""
"""side, or none | question | reply"""
WORDS = """
yes | Can penguins fly? | Yep
no | Can penguins fly? | Nah, they swim.
no | Can penguins fly? | I'm afraid not.
no | Can penguins fly? | Penguins are flightless birds, so no.
yes | Are there more cats than dogs? | There are three cats and only two dogs, so yes.
no | Is the door red? | No it is blue
"""


def _grades(question: str, reply: str) -> tuple[Outcome | None, ...]:
    """The outcome where yes is right and where no is; a deflection is neither."""
    outcomes = (demur.grade(question, [side], reply).outcome for side in ("yes", "no"))
    return tuple(None if outcome is Outcome.DEFLECTED else outcome for outcome in outcomes)


@pytest.mark.parametrize("line", (RESTATED + THERE[1:] + WORDS[1:]).strip().splitlines())
def test_a_sentence_takes_a_side(line: str, without_encoder: None) -> None:
    side, question, reply = line.split(" | ")
    right = {
        "yes": (Outcome.CORRECT, Outcome.INCORRECT),
        "no": (Outcome.INCORRECT, Outcome.CORRECT),
    }
    assert _grades(question, reply) == right.get(side, (None, None))


@pytest.mark.parametrize("line", ANOTHER_WORD.strip().splitlines())
def test_a_sentence_with_another_word_takes_no_side(line: str, without_encoder: None) -> None:
    assert _grades(*line.split(" | ")) == (None, None)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Will it snow?", "It won't snow."),
        ("Can penguins fly?", "Unfortunately not."),
        ("Köpek siyah mı?", "Köpek siyah değil."),
    ],
)
def test_a_no_that_only_the_encoder_tells_from_a_deflection(question: str, reply: str) -> None:
    assert side_of(side_in_english(reply, language_of(question, reply), question), question) == "no"
