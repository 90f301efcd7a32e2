"""No text costs more than its length: every pattern of the package, and every function that reads strangers' text.

Times are CPU times and only their ratio counts: a text sixteen times as long may take sixteen times as long, and
eight times that for noise. What grows with the square takes 256 times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import growth
import pytest
from growth import ROOM, SHORT, repeated, slow

from demur.answers import holds, normalise
from demur.answers.boxes import boxes
from demur.answers.dates import dates, whole_date
from demur.answers.numbers import quantities, unit_named, whole_quantity
from demur.answers.reply import bodies, final_part, unwrapped
from demur.answers.spans import content
from demur.answers.text import fold, readable, words
from demur.answers.yes_no import side
from demur.core.records import AnswerSpec, Ask, Response, Scenario
from demur.core.text import plain
from demur.core.thinking import visible
from demur.corpora.docs import html_text
from demur.corpora.near_duplicates import same_text
from demur.indexing import bm25
from demur.indexing.chunk import Chunker
from demur.judge import deflection, wording
from demur.judge.courtesies import without_courtesies
from demur.judge.encoder import base, ids
from demur.judge.exact import exact
from demur.judge.local import LocalJudge
from demur.judge.official import evqa, infoseek, mmdocrag, mragbench, viquae, webqa
from demur.judge.parse import parse
from demur.scenarios.systems.model import read_reply

TRUSTED = {
    "demur.answers.numbers:": "reads the table of units beside it, once",
}
"""Modules and lines whose patterns never see a stranger's text, and why."""

MADE_AT_RUN_TIME: dict[str, list[re.Pattern[str]]] = {
    "demur.answers.choices: pattern": [
        re.compile(r"\b(?:option|choice|answer|letter)(?: is)?:?\W{0,3}(A|B)(?![^\W_])"),
        re.compile(r"^\W{0,3}(A|B),? (?:because|since|is (?:correct|right))\b"),
    ],
    "demur.answers.choices: lone_label": [
        re.compile("(?<![A-Za-z0-9'.-])(A|B)(?![A-Za-z0-9'&+#%-])")
    ],
    "demur.answers.numbers: f\"[ ]?-?(?:{'|'.join(branches)})(?![^\\\\W_]|\\\\^)\"": [],  # a module's name: _WRITTEN
    "demur.core.thinking: '|'.join(map(re.escape, longest_first))": [],  # tags as they are
    "demur.judge.annotation.server: f'<{tag}>(.*?)</{tag}>'": [],  # of the page that ships with it, nothing else
    "demur.judge.courtesies: '|'.join((f'(?:{plain(line)})' for line in lines if line and line[0] not in '#['))": [],
    # courtesies (of 240 characters): functions below
    "demur.judge.plain_refusals: '|'.join(sorted(map(re.escape, pieces), key=lambda p: (-len(p), p)))": [],  # letters
    "demur.models.keys: ''.join(pattern)": [],  # of the user's own key
    "demur.scenarios.systems.reader: _NUMBER + unit": [],
    "demur.scenarios.systems.reader: f'\\\\b{re.escape(subject)}\\\\b'": [],
    "demur.scenarios.systems.reader: f'{re.escape(place[1])} ({_NUMBER} km)'": [
        re.compile(r"A (-?\d[\d,]*(?:\.\d+)? km)")
    ],
    "demur.scenarios.systems.reader: pattern": [
        re.compile(r"red[^;,.]{0,200}? (?:stands? for) ([^;,.]+)")
    ],
    "demur.scenarios.systems.reader: re.escape(subject)": [],
}
"""Patterns that depend on more than their module -> examples of what they come to."""


def trusted(where: str) -> bool:
    return where.startswith(tuple(TRUSTED))


@pytest.mark.slow
def test_every_pattern_that_is_made_at_run_time_is_known() -> None:
    made = set(growth.made_at_run_time())
    assert made == set(MADE_AT_RUN_TIME)


def every_use() -> list[growth.Use]:
    made = [growth.Use(where, p, False) for where, ps in MADE_AT_RUN_TIME.items() for p in ps]
    return [u for u in growth.uses() if not trusted(u.where)] + made


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.slow
def test_no_pattern_is_worse_than_linear(tenth: int) -> None:
    found = []
    for use in every_use()[tenth::10]:
        found += [
            f"{use.where}: {family} in {use.pattern.pattern[:80]}"
            for family in slow(use, SHORT, 20)
        ]
    assert not found, "\n".join(found)


@pytest.mark.heavy
def test_the_probe_finds_what_is_worse_than_linear() -> None:
    for pattern in (r"\s+and\s", r"(?:a|a)+$", r"^(?:,?\s*\w+)*$", r"<(b)>.*?</\1>"):
        assert next(slow(growth.Use("", re.compile(pattern, re.DOTALL), False), SHORT, 30), None), (
            pattern
        )
    for pattern in (r"(?<!\s)\s++and\s", r"[^.]{0,60}x", r"\d+(?:\.\d+)?"):
        assert not list(slow(growth.Use("", re.compile(pattern), False), SHORT, 10)), pattern


# --- functions -------------------------------------------------------------------------------------


def _exact(spec: AnswerSpec, text: str) -> object:
    return exact("What is the capital of Chad?", text, spec)


SPECS = {
    "name": AnswerSpec(accepted=(("Paris",), ("City of Light", "Paris"))),
    "quantity": AnswerSpec(accepted=(("5,730 m",),), kind="number"),
    "range": AnswerSpec(accepted=(("5730",),), number=(5000.0, 6000.0), unit="m"),
    "choice": AnswerSpec(
        kind="choice", accepted=(("fox",),), choices=(("A", "wolf"), ("B", "fox"), ("C", "a"))
    ),
    "yes": AnswerSpec(accepted=(("yes",),)),
    "box": AnswerSpec(kind="box", accepted=(("1,2,3,4",),), box=(1.0, 2.0, 3.0, 4.0)),
    "date": AnswerSpec(kind="date", accepted=(("11 November 1975",),)),
}
ASK = Ask(id="a", sample="s", context="c", scenario=Scenario.ORACLE, question="Which city?")

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "readable": readable,
    "plain": plain,
    "words": words,
    "normalise": normalise,
    "fold": fold,
    "content": content,
    "quantities": quantities,
    "whole_quantity": whole_quantity,
    "unit_named": unit_named,
    "dates": dates,
    "whole_date": whole_date,
    "boxes": boxes,
    "side": side,
    "final_part": final_part,
    "deflection": deflection.read,
    "courtesies": without_courtesies,
    "wording": wording.buckets,
    "visible": visible,
    "parse": parse,
    **{f"holds {name}": partial(holds, spec) for name, spec in SPECS.items()},
    "unwrapped": unwrapped,
    "bodies": lambda text: list(bodies(text, "What is the capital of Chad?")),
    **{f"exact {name}": partial(_exact, spec) for name, spec in SPECS.items()},
    "exact a list": partial(_exact, AnswerSpec(accepted=(("wolf and a fox",),))),
    # Without the encoder, below: it is asked or not, which is a step, about 512 tokens at most (tests/judge).
    "judge": lambda text: LocalJudge().grade(ASK, Response(text=text), SPECS["name"]),
    "what the encoder reads": lambda text: ids(base().tokenizer, text, text, text),
    "model system": lambda text: read_reply(Response(text=text), stated=True, final=True),
    "near": lambda text: same_text(text, text + " x"),
    "chunk": lambda text: Chunker().cut([text]),
    "bm25": bm25.words,
    "html": html_text,
    "evqa": partial(evqa.score, SPECS["name"]),
    "infoseek": partial(infoseek.score, SPECS["range"]),
    "mmdocrag": partial(mmdocrag.score, SPECS["name"]),
    "citations": mmdocrag.cited,
    "mragbench": partial(mragbench.score, SPECS["choice"]),
    "viquae": partial(viquae.f1, SPECS["name"]),
    "webqa": partial(webqa.score, SPECS["name"]),
}
"""Every public function that reads what a model, a corpus or a stranger's release wrote."""

PUMPS = (
    "1976, ",
    "Paris or ",
    "a ",
    "A. ",
    "but ",
    "Answer: ",
    "\n",
    " \t",
    "1 ",
    "0",
    "12 July 1975 ",
    "\u0301\u0327",
    "<think>",
    "[1] ",
    '"',
    "hundred ",
    "a wolf a fox ",
    "i can't say ",
    "ﷺ",
    "yes no ",
    "Paris, ",
    "or ",
    "A.",
    "so, ",
    "answer\n",
    " ",
    "not ",
    "1,000 ",
    "1.000.",
    "9.",
    "12/07/75 ",
    "<think></think>",
    "</think>",
    "(",
    "[",
    "{",
    ")(",
    "'",
    "*",
    "one hundred ",
    "million ",
    "½",
    "中",
    "and ",
    "& ",
    "the context does not ",
    "no of any of the context ",
    "i ",
    "no. wait ",
    "- ",
    "; ",
    ": ",
    "(A) ",
    "1-2",
    "5 to 6 ",
    "between 5 and ",
    "5730 m ",
    "the ",
    "क्षि",
    "한국의",
    "\x00",
    "x",
    "…",
    "\u202e",
    "1,2,3,4;",
    "is ",
    "\nA\n",
    "confidence: 3\n",
    "final answer ",
    "\ud800",
    "🏳️‍🌈",
    "\u200b\u0301",
)
"""What is repeated; the first twenty broke something once."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_of_a_text_is_worse_than_linear(name: str, without_encoder: None) -> None:
    found = _slow_texts(FUNCTIONS[name], SHORT, PUMPS[:20])
    assert not found, f"{name}: {found}"


def _slow_texts(
    function: Callable[[str], object], sizes: tuple[int, int], pumps: tuple[str, ...]
) -> list[str]:
    found = []
    for pump in pumps:
        grown = growth.measure(
            function, partial(repeated, "Paris is 1975 ", pump, "!x"), sizes, ROOM
        )
        if grown.ratio > ROOM:
            found.append(f"{pump!r} {grown.seconds}")
    return found


@pytest.mark.soak
@pytest.mark.parametrize("name", FUNCTIONS)
def test_longer_texts_and_a_megabyte_are_no_worse(name: str, without_encoder: None) -> None:
    found = _slow_texts(FUNCTIONS[name], (10_000, 160_000), PUMPS)
    found += _slow_texts(FUNCTIONS[name], (60_000, 960_000), ("1976, ", "a ", "\u0301\u0327", "("))
    assert not found, f"{name}: {found}"


@pytest.mark.soak
@pytest.mark.parametrize("use", every_use(), ids=lambda u: u.where)
def test_no_pattern_is_worse_than_linear_in_long_texts(use: growth.Use) -> None:
    assert not list(slow(use, (8_000, 128_000), 200))


def test_twenty_years_in_a_row_are_judged_at_once() -> None:
    """What once took seven seconds with twenty items, and doubled with each."""
    years = ", ".join(str(year) for year in range(1900, 2020))
    for text in (
        f"Paris: {years}",
        ", ".join(["Paris"] * 400),
        "Paris" + " , a" * 400,
        f"{years}, or Paris",
    ):
        with growth.cpu_limit(2):
            _exact(SPECS["name"], text)
            _exact(AnswerSpec(accepted=(("1976",),)), text)
