"""One record of mining options: what a recipe's ``retrieval`` and `demur mine` share."""

import math

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st

from demur.cli.mine import FLAGS
from demur.core.errors import UsageError
from demur.curation.build.recipe import RetrievalSpec, parse_recipe
from demur.curation.mining.options import MiningOptions, mining_options

LEAST = {"name": "x", "sources": [{"name": "atlas"}], "gates": [{"system": "prior"}]}
SET = {
    "lexical": 2,
    "per_page": 1,
    "diversity": 0.5,
    "range_min": 1,
    "range_max": 40,
    "max_score": 0.9,
    "min_score": 0.1,
    "absolute_margin": 0.02,
    "relative_margin": 0.05,
    "sampling": "random",
}


def test_what_a_recipe_says_whole_is_what_it_says_when_read_back():
    sources = [{"name": "atlas", "retrieval": {"pages": 5, "text": 7}}, {"name": "evqa"}]
    plan = parse_recipe(
        {**LEAST, "sources": sources, "retrieval": {"modes": ["text->text"], "visual": 3}}
    )
    assert parse_recipe(plan.model_dump(mode="json")) == plan
    atlas, evqa = map(plan.retrieval_of, plan.sources)
    assert (atlas.pages, atlas.text, atlas.visual, atlas.modes) == (5, 7, 3, ("text->text",))
    assert (evqa.pages, evqa.text, evqa.visual, evqa.modes) == (10, 8, 3, ("text->text",))


@pytest.mark.parametrize("key", sorted(SET))
def test_what_is_set_is_stated_and_read_back(key):
    plan = parse_recipe({**LEAST, "retrieval": {key: SET[key]}})
    said = plan.model_dump(mode="json")
    assert said["retrieval"][key] == SET[key]
    assert parse_recipe(said) == plan


def test_every_option_of_the_command_is_one_of_the_record():
    of_the_record = set(MiningOptions.model_fields)
    assert {*FLAGS, "modes", "pages", "negatives"} < of_the_record
    assert of_the_record < set(RetrievalSpec.model_fields)


def test_a_file_has_the_other_options_and_flags_go_before_it(tmp_path):
    file = tmp_path / "mining.yaml"
    file.write_text("per_page: 2\ntext: 3\nown_page: drop\n")
    options = mining_options(file, text=5)
    assert (options.per_page, options.text, options.own_page) == (2, 5, "drop")
    for wrong in ("per_pages: 2", "- per_page", "1: 2"):
        file.write_text(wrong)
        with pytest.raises(UsageError) as refusal:
            mining_options(file)
        assert refusal.value.item == str(file)
        assert refusal.value.cure


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"diversity": 1.5}, "diversity=1.5"),
        ({"diversity": -0.1}, "diversity=-0.1"),
        ({"diversity": math.nan}, "diversity=nan"),
        (
            {"diversity": 0.5, "sampling": "random"},
            "sampling=random and diversity=0.5",
        ),
        ({"range_min": -1}, "range_min"),
        ({"range_min": 5, "range_max": 5}, "range_max"),
        ({"relative_margin": math.inf}, "relative_margin"),
        ({"sampling": "best"}, "sampling"),
        ({"text": -1}, "text"),
        ({"per_page": 0}, "per_page"),
    ],
)
def test_what_cannot_be_is_said_alike_by_recipe_and_command(wrong, told):
    with raises(UsageError, told, cure="demur mine --help"):
        mining_options(**wrong)
    with raises(UsageError, told, item="recipe", cure="docs/recipe.md"):
        parse_recipe({**LEAST, "retrieval": wrong})


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_least_of_distractors_counts_every_kind(text, lexical, visual):
    how = {"text": text, "lexical": lexical, "visual": visual, "negatives": "mined"}
    made = {**LEAST, "retrieval": how, "rules": {"k_min": 7}}
    if text + lexical + visual < 7:
        with pytest.raises(UsageError, match="k_min=7"):
            parse_recipe(made)
    else:
        assert parse_recipe(made).retrieval.wanted == text + lexical + visual
