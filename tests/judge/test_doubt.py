"""English replies that hold the right answer and say something else, and right ones that look as if they did."""

from __future__ import annotations

import pytest

import demur
from demur.core.records import Outcome, Status
from demur.judge import encoder

CASES = """
incorrect | Where? | Paris | Contrary to popular belief, it is not Paris but Lyon.
ungraded | Where? | Paris | I used to think it was Paris, but it is Lyon.
ungraded | Where? | Paris | Some say Paris, but the correct answer is Lyon.
correct | Where? | Paris | None other than Paris.
correct | Where? | Paris | It isn't Lyon; it's Paris.
ungraded | Where? | Paris | Not Lyon but Paris.
incorrect | Where? | Paris | Paris isn't right.
ungraded | Where? | Paris | It's anything but Paris.
ungraded | Where? | Paris | While many assume Paris, the treaty was signed in Lyon.
incorrect | Where? | Paris | The answer is Lyon, not Paris.
incorrect | Where? | Paris | Lyon (and not Paris)
ungraded | Where? | Paris | Lyon. Paris was only the second choice.
ungraded | Where? | Paris | It was signed 200 km from Paris, in Auxerre.
ungraded | Where? | Paris | Versailles, near Paris
ungraded | Where was he born? | Paris | He was born in Lyon and died in Paris.
correct | Where was he born? | Paris | Born in Paris, he died in Lyon.
ungraded | Who won? | France | France lost to Italy in the final.
ungraded | Who won? | France | Italy beat France.
correct | Who won? | Italy | Italy beat France.
ungraded | Which is larger? | Jupiter | Saturn is smaller than Jupiter.
ungraded | How many? | 3 | There are 2 or 3.
correct | How many? | 3 | Two plus one, that is three.
correct | How many? | 12 | a dozen
correct | How many? | 1,000 | a thousand
correct | How many? | 2.5 million | 2,500,000
correct | When? | 1912 | in the spring of 1912
correct | When? | 1912 | He was born in 1874 and the ship sank in 1912.
ungraded | When did it sink? | 1912 | It was built in 1912 and sank in 1915.
correct | When? | 44 BC | 44 B.C.E.
incorrect | When? | 44 BC | 44 AD
correct | When? | July 4, 1776 | 4/7/1776
ungraded | When? | July 4, 1776 | the Fourth of July, 1776
correct | What temperature? | 20 °C | 68 °F
incorrect | What temperature? | -5 °C | 5 °C
correct | What temperature? | -5 °C | minus five degrees Celsius
correct | Price? | $5 | five dollars
ungraded | Price? | $5 | €5
correct | Price? | $5.00 | 5 USD
correct | Which king? | Henry VIII | Henry the Eighth
ungraded | Which king? | Henry VIII | Henry the Seventh
ungraded | Which king? | Henry VIII | Henry VII
correct | Which war? | World War II | the Second World War
ungraded | Which war? | World War II | the First World War
ungraded | Which war? | World War II | World War I
correct | Which? | WWII | World War 2
correct | Which country? | UK | the United Kingdom
correct | Which country won? | United States | The U.S. won.
ungraded | Which country? | United States | It helps us.
correct | Which element? | gold | Au
ungraded | Which element? | helium | He won.
ungraded | What is the symbol of gold? | Au | gold
ungraded | What does NATO stand for? | North Atlantic Treaty Organization | NATO
ungraded | Which illness? | AIDS | It aids them.
ungraded | How long was it number one? | a week | It was number one for 741 weeks.
correct | How long was it number one? | a week | For one week.
ungraded | Who signed the letter? | Paul Kurz | It was signed by Paul Kurz's wife.
ungraded | Who signed the letter? | Paul Kurz | The wife of Paul Kurz signed it.
correct | Who signed the letter? | Paul Kurz | It was signed by the director, Paul Kurz.
ungraded | Who painted it? | Rembrandt | It was painted by a pupil of Rembrandt.
ungraded | When did the museum open? | 1997 | It opened before 1997.
ungraded | What percentage voted in favour? | 25 % | 60 % voted in favour and 25 % against.
ungraded | From which city was the letter sent? | Bonn | It was sent from Berlin to Bonn.
ungraded | What colour is the door? | green | The window is green and the door is blue.
ungraded | What is the capital? | Canberra | The capital is Sydney, while Canberra is merely the seat of government.
ungraded | Which river flows through Cologne? | Rhine | The Elbe flows through Cologne; the Rhine is elsewhere.
correct | Is it true? | yes | Yes, it is not false.
correct | Is it true? | yes | It is true.
correct | Is it true? | yes | That's correct.
correct | Is it true? | no | It is false.
correct | Is it true? | yes | Absolutely.
incorrect | Is it true? | yes | Not really.
correct | Does it rain? | no | It doesn't rain.
incorrect | Does it rain? | yes | It doesn't rain.
correct | Is he a doctor? | yes | He is a doctor.
incorrect | Is he a doctor? | yes | He isn't a doctor.
incorrect | Is he a doctor? | yes | He is a lawyer, not a doctor.
correct | Which colour? | red | dark red
ungraded | Which colour? | red | It is blue, with no red.
ungraded | What is it? | cat | a category
ungraded | What is it? | Java | JavaScript
ungraded | Which team? | Manchester United | Manchester City
ungraded | Who? | George W. Bush | George H. W. Bush
ungraded | Who? | Martin Luther King Jr. | Martin Luther
ungraded | Who? | Queen Elizabeth II | Elizabeth I
correct | Where? | New York | New York City
ungraded | Where? | York | New York
ungraded | Where? | Guinea | Papua New Guinea
ungraded | Where? | Niger | Nigeria
ungraded | Which? | vitamin B12 | vitamin B1
ungraded | Which element? | carbon | carbon dioxide
ungraded | Which? | iPhone 5 | iPhone 5s
correct | How long? | 2 hours | 120 minutes
correct | How long? | 90 minutes | an hour and a half
incorrect | How far? | 5 km | 5 miles
correct | What percent? | 50% | half
correct | What fraction? | 1/3 | one third
correct | What fraction? | 1/3 | a third
ungraded | What score? | 2-1 | 1-2
correct | What score? | 2-1 | 2 to 1
correct | What time? | 3 pm | 15:00
incorrect | What time? | 3 pm | 3 am
correct | What time? | 10:30 | half past ten
ungraded | What time? | 10:30 | not half past ten
ungraded | What time? | 15:30 | half past three
correct | What time? | 15:30 | At 3.30 p.m.
correct | What time? | 3:45 pm | a quarter to four in the afternoon
ungraded | What time? | 10:30 | half past ten or eleven
incorrect | How much memory? | 7 GB | It has 9 GB.
correct | How much memory? | 7 GB | It has 7000 MB.
ungraded | How much memory? | 7 GB | It has 7 Gb.
incorrect | What voltage? | 230 V | 110 volts
incorrect | Which month? | May | You may find it in March.
correct | Which month is not warm? | January | January is not warm.
correct | What does the price not include? | breakfast | The price does not include breakfast.
correct | What isn't included? | Breakfast | Breakfast isn't included, but parking is.
ungraded | Which month is not warm? | January | It is not January that is warm.
ungraded | Which month is not warm? | January | January is not cold.
incorrect | Which month is warm? | January | January is not warm.
incorrect | Who wrote "The Road Not Taken"? | Frost | It was not Frost.
ungraded | Which chapter? | chapter 3 | the third chapter
incorrect | Which planet is closest to the Sun? | Mercury | Venus
incorrect | Which country won? | Germany | Spain won.
correct | Which country won? | Germany | The Federal Republic of Germany won.
incorrect | Which country borders Portugal? | Spain | Portugal borders Morocco.
ungraded | Which country borders Portugal? | Spain | Portugal borders it.
ungraded | Who was US president in 1990? | George H. W. Bush | It was George W. Bush.
correct | Who was US president in 1990? | George H. W. Bush | It was George Bush.
correct | Who was US president in 1990? | George H. W. Bush | Bush
correct | Who wrote it? | Gabriel García Márquez | García Márquez
correct | Who was US president in 1990? | George H. W. Bush | G. Bush
ungraded | Who was US president in 1990? | George H. W. Bush | K. Bush
ungraded | Who wrote The Blue Danube? | Johann Strauss II | Johann Strauss the Elder
ungraded | Who wrote The Blue Danube? | Johann Strauss II | Strauss Sr.
correct | Who wrote The Blue Danube? | Johann Strauss II | Strauss
ungraded | Who wrote it? | Alexandre Dumas | Alexandre Dumas fils
correct | Who led it? | Martin Luther King | Martin Luther King Jr.
"""
"""verdict | question | accepted form | reply"""


@pytest.mark.parametrize("line", CASES.strip().splitlines())
def test_what_the_reply_says(line: str, without_encoder: None) -> None:
    expected, question, accepted, reply = line.split(" | ")
    verdict = demur.grade(question, [accepted], reply)
    assert (verdict.outcome.value if verdict.outcome else "unjudged") == expected, verdict.reason


SPOKEN_AGAINST = """
What is the capital? | Paris | Paris. Actually, it's Lyon.
What is the capital? | Paris | Paris. Sorry, I meant Lyon.
What is the capital? | Paris | Paris. My mistake, it is Lyon.
What is the capital? | Paris | Paris. Oops, Lyon.
What is the capital? | Paris | It is Paris. I apologize, the correct answer is Lyon.
What is the capital? | Paris | Paris. Correction: Lyon.
What is the capital? | Paris | Paris. No wait, Lyon.
What is the capital? | Paris | Paris. No, Lyon.
What is the boiling point? | 78 °C | 78 °C. Sorry, I meant 87 °C.
¿Cuál es la capital? | París | París. En realidad, es Lyon.
Quelle est la capitale ? | Paris | Paris. En fait, c'est Lyon.
Was ist die Hauptstadt? | Paris | Paris. Nein, Lyon.
Was ist die Hauptstadt? | Paris | Paris. Eigentlich Lyon.
Qual è la capitale? | Parigi | Parigi. No, Lione.
Wat is de hoofdstad? | Parijs | Parijs. Nee, Lyon.
When did he die? | 1852 | He was born in 1852.
When did he die? | 1852 | Born in 1852.
When did the show start? | 1987 | It ended in 1987 after five seasons.
Wann starb er? | 1852 | Er wurde 1852 geboren.
Where does the author live? | Paris | She lived in Paris until 2010.
Where is the office? | Oslo | It was in Oslo until it moved.
"""
"""question | accepted form | reply"""


@pytest.mark.parametrize("line", SPOKEN_AGAINST.strip().splitlines())
def test_what_speaks_plainly_against_it_is_never_correct(
    line: str, without_encoder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, accepted, reply = line.split(" | ")
    for odds in (1.0, 5.0):
        monkeypatch.setattr(encoder, "commits", lambda question, form, text, odds=odds: odds)
        verdict = demur.grade(question, [accepted], reply)
        assert verdict.status is Status.UNJUDGED, verdict.reason


PUT_RIGHT = """
What is the capital? | Paris | Lyon. Sorry, I meant Paris.
What is the capital? | Paris | The capital is Lyon. I apologize, the correct answer is Paris.
What is the boiling point? | 78 °C | 87 °C. Actually, it is 78 °C.
¿Cuándo nació? | 1952 | Nació en 1925. Perdón, quise decir 1952.
Was ist die Hauptstadt? | Paris | Lyon. Nein, Paris.
"""
"""question | accepted form | reply"""


@pytest.mark.parametrize("line", PUT_RIGHT.strip().splitlines())
def test_what_follows_a_withdrawal_is_not_incorrect(
    line: str, without_encoder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "commits", lambda question, form, text: -5.0)
    question, accepted, reply = line.split(" | ")
    assert demur.grade(question, [accepted], reply).outcome is not Outcome.INCORRECT


@pytest.mark.parametrize(
    "line",
    [
        "What is the capital? | Paris | Paris. Wait, let me check. Yes, Paris.",
        "When did he die? | 1852 | Born in 1815, he died in 1852.",
        "Where did the author live? | Paris | She lived in Paris until 2010.",
        "Where is the office? | Oslo | It is in Oslo until 2030.",
        "What was the revenue in 2022? | $4.5 billion | In 2022 revenue was $4.5 billion; it was $4.1 billion in 2021.",
    ],
)
def test_what_only_looks_as_if_it_spoke_against_it(line: str, without_encoder: None) -> None:
    question, accepted, reply = line.split(" | ")
    verdict = demur.grade(question, [accepted], reply)
    assert verdict.outcome is Outcome.CORRECT, verdict.reason


def test_a_figure_of_another_year_than_the_one_asked_for(without_encoder: None) -> None:
    reply = "Revenue was $4.5 billion in 2021 and $5.1 billion in 2022."
    assert (
        demur.grade("What was the revenue in 2022?", ["$4.5 billion"], reply).status
        is Status.UNJUDGED
    )
