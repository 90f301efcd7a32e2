"""How a product declines: its own sentences as an option of the judge, in any language."""

from __future__ import annotations

import pytest
from errors import raises

import demur
from demur.core.errors import UsageError
from demur.judge.cascade import Cascade
from demur.judge.deflection import read
from demur.judge.local import LocalJudge
from demur.judge.own_phrases import OwnPhrases

PHRASES = """# of our bot
Our docs don't cover this
Tähän ei löydy vastausta
該当する記事が見つかりません
Dazu steht nichts im Handbuch
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "declines.txt"
    path.write_text(PHRASES)
    return path


def test_an_option_with_nothing_behind_it_is_not_taken_for_none():
    for judge in (
        lambda: LocalJudge("?phrases="),
        lambda: Cascade("http://127.0.0.1:1/v1#m?phrases="),
    ):
        with pytest.raises(UsageError) as told:
            judge()
        assert told.value.cure


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("OUR DOCS DON\u2019T COVER THIS.", "deflected"),
        ("Hm. Our docs don't cover this - try the forum?", "deflected"),
        ("Our docs don't cover this, but it is the Rhine.", "deflected"),  # whatever else it says
        ("Tähän ei löydy vastausta.", "deflected"),  # in any language
        ("申し訳ありません。該当する記事が見つかりません。", "deflected"),
        ("Leider: dazu steht nichts im Handbuch!", "deflected"),
        ("The Danube.", "correct"),
    ],
)
def test_a_reply_with_a_phrase_declines(file, reply, outcome):
    verdict = demur.grade(
        "Which river is it?", answers=["Danube"], response=reply, judge=f"local?phrases={file}"
    )
    assert (verdict.outcome.value if verdict.outcome else None) == outcome


def test_without_the_file_they_are_not_known():
    assert not read("Keine Karotten.", "Which river?").deflects
    assert OwnPhrases(["Keine Karotten"]).read("Keine Karotten.", "Which river?").deflects


def test_other_phrases_are_another_judge(file, tmp_path):
    one = LocalJudge(f"?phrases={file}")
    (tmp_path / "more.txt").write_text(PHRASES + "No article says so\n")
    other = LocalJudge(f"?phrases={tmp_path / 'more.txt'}")
    assert one.id.startswith("local?phrases=")
    assert one.id.rpartition("=")[2] != other.id.rpartition("=")[2]
    assert LocalJudge().id == "local"
    cascade = Cascade(f"http://127.0.0.1:9/v1#m?share=0.5&phrases={file}")
    assert (cascade.share, cascade.local.phrases.version, cascade.model.model) == (
        0.5,
        one.phrases.version,
        "m",
    )
    with pytest.raises(UsageError) as told:
        Cascade("http://127.0.0.1:9/v1#m?share=x")
    assert told.value.cure


@pytest.mark.parametrize("text", ["# none\n", "no\n"])
def test_a_file_that_is_none_is_told(tmp_path, text):
    (tmp_path / "p.txt").write_text(text)
    with raises(UsageError, item=tmp_path / "p.txt"):
        LocalJudge(f"?phrases={tmp_path / 'p.txt'}")
