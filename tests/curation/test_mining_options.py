"""One record of mining options: what a recipe's ``retrieval`` and `demur mine` share."""

import math

import pytest
from curation_world import recipe as world_recipe
from hypothesis import given
from hypothesis import strategies as st

from demur.cli.mine import SHARED
from demur.curation.mining_options import MiningOptions, mining_options
from demur.curation.recipe import RetrievalSpec, parse_recipe
from demur.errors import UsageError
from demur.pipeline.demo import recipe as demo_recipe
from demur.store import digest

LEAST = {"name": "x", "sources": [{"name": "atlas"}], "gates": [{"system": "prior"}]}
SET = {"lexical": 2, "per_page": 1, "diversity": 0.5, "range_min": 1, "range_max": 40, "max_score": 0.9,
       "min_score": 0.1, "absolute_margin": 0.02, "relative_margin": 0.05, "sampling": "random",
       "cross_encoder": "x/y"}  # fmt: skip


def test_existing_recipes_keep_what_a_release_states_byte_for_byte():
    """The digests are of these recipes' values before the record had the options of `demur mine`."""
    assert digest(demo_recipe().model_dump(mode="json")) == (
        "7fd4b605fcb52397e29e0f8e0240b917c5ae0c2349c0da8609c0727fe92da6b9"
    )
    sources = [{"name": "atlas", "retrieval": {"pages": 5, "text": 8}}, {"name": "evqa"}]
    given_ = {**LEAST, "sources": sources, "retrieval": {"modes": ["text->text"], "visual": 3}}
    assert digest(parse_recipe(given_).model_dump(mode="json")) == (
        "3205fe24c30730f83250090efe4b5d97698832632f2a546fc96a51408359fca7"
    )


@pytest.mark.parametrize("key", sorted(SET))
def test_what_is_set_is_stated_and_read_back(key):
    plan = parse_recipe({**LEAST, "retrieval": {key: SET[key]}})
    said = plan.model_dump(mode="json")
    assert said["retrieval"][key] == SET[key]
    assert parse_recipe(said) == plan
    default = {**LEAST, "retrieval": {key: MiningOptions.model_fields[key].default}}
    assert key not in parse_recipe(default).model_dump(mode="json")["retrieval"]


def test_every_option_of_the_command_is_one_of_the_record():
    of_the_record = set(MiningOptions.model_fields)
    assert {*SHARED, "modes", "pages", "native"} == of_the_record
    assert of_the_record < set(RetrievalSpec.model_fields)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"diversity": 1.5}, r"diversity=1.5 is outside 0 to 1 \(1 keeps the plain order"),
        ({"diversity": math.nan}, "diversity"),
        ({"diversity": 0.5, "sampling": "random"}, "sampling=random and diversity=0.5 .*leave one of them out"),
        ({"range_min": -1}, "range_min"),
        ({"range_min": 5, "range_max": 5}, "raise range_max"),
        ({"relative_margin": math.inf}, "relative_margin"),
        ({"sampling": "best"}, "sampling"),
        ({"text": -1}, "text"),
        ({"per_page": 0}, "per_page"),
        ({"cross_encoder": ""}, "cross_encoder"),
    ],
)
def test_what_cannot_be_is_said_alike_by_recipe_and_command(wrong, told):
    with pytest.raises(UsageError, match=told):
        mining_options(**wrong)
    with pytest.raises(UsageError, match=told):
        parse_recipe({**LEAST, "retrieval": wrong})


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_least_of_distractors_counts_every_kind(text, lexical, visual):
    how = {"text": text, "lexical": lexical, "visual": visual, "native": False}
    made = {**LEAST, "retrieval": how, "rules": {"k_min": 7}}
    if text + lexical + visual < 7:
        with pytest.raises(UsageError, match="k_min=7"):
            parse_recipe(made)
    else:
        assert parse_recipe(made).retrieval.wanted == text + lexical + visual


def test_recipes_of_the_tests_have_no_new_keys(tmp_path):
    said = world_recipe(tmp_path, [{"system": "prior"}]).model_dump(mode="json")["retrieval"]
    assert set(said) == {"encoder", "modes", "pages", "text", "visual", "native"}
