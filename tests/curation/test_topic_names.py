"""Topics named by a model from representative questions; a model that gives no name leaves the words."""

from __future__ import annotations

import json

import curation_world as world
import numpy as np
import pytest
from errors import raises
from topic_namers import SEEN

from demur.core.errors import UsageError
from demur.curation.build.curate import curate
from demur.curation.build.topics import TopicName, read_name, rename_topics, representatives


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return world.folder(tmp_path_factory.mktemp("world") / "towns")


def test_representatives_are_the_middle_of_a_topic():
    """By hand: the two nearest to the mean of each; an equal question counts once."""
    angles = np.radians([0, 10, 20, 80, 90, 90, 130])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    topics, questions = list("aaabbbb"), ["a0", "a1", "a2", "b0", "b1", "b1", "b2"]
    assert representatives(topics, questions, vectors, most=2) == {"a": [1, 0], "b": [4, 3]}


def test_names_are_told_apart_and_kept_short():
    assert rename_topics(
        list("abca"), {"a": TopicName("Birds", ""), "c": TopicName("Birds", "")}
    ) == [
        "Birds",
        "b",
        "Birds (2)",
        "Birds",
    ]
    long = read_name(json.dumps({"name": "x" * 500, "description": "y\n" * 300}))
    assert len(long.name) == 60
    assert "\n" not in long.description
    for bad in (
        "",
        "{}",
        '{"name": 3}',
        '{"name": " "}',
        '{"name": "x", "description": []}',
        "{" * 5000,
    ):
        assert read_name(bad) is None


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # of what BERTopic imports
def test_a_build_names_its_topics_by_a_model(source, tmp_path, capsys):
    spec = {"system": "model:python:topic_namers:namer", "options": {"seed": 0}}
    plan = world.recipe(source, world.GATES, topics="bertopic", topic_names=spec)
    built = curate(plan, tmp_path)
    _, found = built.release.manifest["topics"]
    assert found["named_by"] == "model:python:topic_namers:namer"
    assert found["unnamed"] == 0
    names = {row["topic"] for row in found["rows"]}
    assert names <= {"Mayors", "Mayors (2)", "Photographed Towns", "Photographed Towns (2)"}
    assert sum(row["before"] for row in found["rows"]) == world.N
    assert all(row["description"].startswith("Who governs") for row in found["rows"])
    card = (built.release.folder / "README.md").read_text()
    assert "named by model:python:topic_namers:namer" in card
    assert "Who governs" in card
    assert "<b>" not in card
    assert world.wrong(built.release.folder) == ""
    asked = len(SEEN)
    assert asked
    assert all(1 <= sum(line[:1].isdigit() for line in text.splitlines()) <= 10 for text in SEEN)
    again = curate(plan, tmp_path)
    assert world.bytes_of(again.release.folder) == world.bytes_of(built.release.folder)
    assert len(SEEN) == asked  # kept in the ledger


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # of what BERTopic imports
def test_a_model_that_gives_no_name_leaves_the_words(source, tmp_path):
    spec = {"system": "model:python:topic_namers:mute"}
    _, found = curate(
        world.recipe(source, world.GATES, topics="bertopic", topic_names=spec), tmp_path
    ).release.manifest["topics"]
    assert found["unnamed"] == len(found["rows"]) > 0
    assert not any(row["description"] for row in found["rows"])


def test_a_namer_that_is_no_model_is_refused_and_its_key_known(source):
    with pytest.raises(UsageError, match="topic_names"):
        world.recipe(source, world.GATES, topic_names={"system": "reader"})
    with raises(UsageError, "sytem", "'system'"):
        world.recipe(source, world.GATES, topic_names={"sytem": "model:openai/gpt-4o"})
