"""Recipes: the page's example, the schema file, and what mistypings are answered with."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import curation_world as world
import pytest
import yaml
from errors import raises

from demur.cli import main
from demur.core.errors import StorageError, UsageError
from demur.curation.build.estimate import estimate_build
from demur.curation.build.knowledge_bases import retrieval_by_source
from demur.curation.build.recipe import SCHEMA, BuildRecipe, load_recipe, parse_recipe, schema

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"
LEAST = {"name": "x", "sources": [{"name": "atlas"}], "gates": [{"system": "prior"}]}


def example():
    return re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)[1]


@pytest.mark.slow
def test_the_pages_example_is_a_recipe_that_can_be_planned(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(example())
    plan = load_recipe(path)
    found = estimate_build(plan, tmp_path, base=tmp_path)
    assert found.samples > 20
    assert {line.gate for line in found.lines} == {"prior", "reader"}
    assert found.dollars("money_at_most") == 0


@pytest.mark.parametrize(
    ("change", "item"),
    [
        ({"gates": [{"system": "model:openai/gpt-4o"}]}, "OPENAI_API_KEY"),
        ({"gates": [{"system": "model:http://127.0.0.1:9/v1#m"}]}, "127.0.0.1:9"),
        ({"judge": "model:http://127.0.0.1:9/v1#m"}, "127.0.0.1:9"),
        ({"retrieval": {"encoder": "ofline"}}, "'offline'?"),
        ({"retrieval": {"encoder": "open_clip:x/y"}}, "pip install 'demur[clip]'"),
        ({"topics": "bertopic"}, "pip install 'demur[topics]'"),
    ],
)
def test_a_plan_names_what_a_build_would_be_refused_for(
    change, item, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for package in ("bertopic", "umap"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("demur.indexing.encoders.find_spec", lambda name: None)
    recipe = world.recipe(world.folder(tmp_path / "towns", 6), [{"system": "prior"}], topics="none")
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe.model_dump(mode="json") | change))
    assert main(["build", str(path), "--plan", "--out", str(tmp_path / "out")]) == 2
    out = capsys.readouterr()
    assert "calls:" in out.out  # the plan is there all the same
    (line,) = out.err.splitlines()
    assert item in line


def test_the_page_names_every_key():
    text = PAGE.read_text()
    for model in (
        BuildRecipe,
        *(BuildRecipe.model_fields[k].annotation for k in ("retrieval", "rules")),
    ):
        for key in model.model_fields:
            assert f"`{key}`" in text or f"`{key}[]`" in text, key


def test_the_schema_file_is_the_recipes_own():
    kept = files("demur.curation.build").joinpath(SCHEMA).read_text(encoding="utf-8")
    assert kept == schema(), (
        "run: python -m demur.curation.build.recipe > demur/curation/build/recipe.schema.json"
    )
    assert set(json.loads(kept)["required"]) == {"name", "sources", "gates"}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"seeed": 1}, ["'seeed'", "'seed'"]),
        ({"name": "../x"}, ["name: '../x' "]),
        ({"version": "1"}, ["version: '1' ", "1.0.0"]),
        ({"rules": {"kmin": 1}}, ["'kmin'", "'k_min'"]),
        (
            {"gates": [{"system": "prior", "stags": ["parametric"]}]},
            ["'stags'", "'stages'"],
        ),
        (
            {"sources": [{"name": "atlas", "retrieval": {"page": 1}}]},
            ["retrieval", "'page'", "'pages'"],
        ),
        ({"syste": "prior"}, ["'syste'"]),
        ({"gates": []}, ["gates"]),
        ({"gates": [{"system": "prior", "stages": ["solvable"]}]}, ["without evidence"]),
        ({"rules": {"parametric": "litteral"}}, ["rules.parametric"]),
        ({"rules": {"k_min": 5, "k_enough": 3}}, ["k_enough=3"]),
        ({"topics": "lda"}, ["topics"]),
    ],
)
def test_mistakes_are_told(change, names):
    with raises(UsageError, *names, item="recipe", cure="docs/recipe.md"):
        parse_recipe({**LEAST, **change})


def test_files_that_hold_no_recipe(tmp_path):
    path = tmp_path / "r.yaml"
    with pytest.raises(StorageError):
        load_recipe(path)
    for text, name in (
        ("a: [", "line 1"),
        ("- 1", ""),
        ("name: x\nrules: {k_min: 1, k_min: 2}", "line 2: rules.k_min"),
        ("!!python/object/apply:os.system ['true']", "line 1"),
    ):
        path.write_text(text)
        with raises(UsageError, name, item=path):
            load_recipe(path)


@pytest.mark.slow
def test_prices_and_rates_of_a_plan(tmp_path):
    data = yaml.safe_load(example())
    data["gates"] = [
        {"system": "model:openai/gpt-4o", "name": "dear", "options": {"max_tokens": 10}},
        {"system": "model:http://localhost:1/v1#nobody/knows", "name": "unknown"},
    ]
    plan = parse_recipe(data)
    found = estimate_build(plan, tmp_path, rates={"parametric": 0.2, "dear/parametric": 0.9})
    lines = {(line.gate, line.stage.value): line for line in found.lines}
    assert lines["dear", "parametric"].rate == 0.9
    assert lines["unknown", "parametric"].rate == 0.2
    assert lines["dear", "parametric"].money_at_most > 0
    assert lines["unknown", "parametric"].money_at_most is None
    assert found.dollars("money_at_most") is None
    assert any("price" in note for note in found.notes)
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"models": {"*": {"prompt": 1, "completion": 2}}}))
    assert estimate_build(plan, tmp_path, prices=prices).dollars("money_expected") > 0
    with pytest.raises(UsageError, match="probability"):
        estimate_build(plan, tmp_path, rates={"parametric": 2.0})


TWO_STEPS = {"chunk": "250:32", "modes": ["image->title", "text->text"]}


@pytest.mark.parametrize(
    ("retrieval", "pictured", "passages"),
    [
        (TWO_STEPS, True, "found"),
        ({**TWO_STEPS, "modes": ["image->image"], "visual": 3}, True, "found"),
        ({**TWO_STEPS, "passages": "all"}, True, "all"),
        (TWO_STEPS, False, "all"),
        ({**TWO_STEPS, "lexical": 2}, True, "all"),
        ({**TWO_STEPS, "modes": ["image->title", "fused"]}, True, "all"),
        ({**TWO_STEPS, "modes": ["text->text"]}, True, "all"),
        ({**TWO_STEPS, "modes": "best"}, True, "all"),
        ({**TWO_STEPS, "chunk": None}, True, "all"),
        ({**TWO_STEPS, "index": "mine"}, True, "all"),
    ],
)
def test_only_found_passages_are_made_where_nothing_searches_all(retrieval, pictured, passages):
    data = {**LEAST, "retrieval": {"negatives": "mined", **retrieval}}
    images = ("picture",) if pictured else ()
    samples = [
        SimpleNamespace(source="atlas", negatives=(), images=each) for each in (("a",), images)
    ]
    pool = SimpleNamespace(
        samples=samples,
        specs={"atlas": parse_recipe(data).sources[0]},
        full_pool=SimpleNamespace(count=lambda *_: 5),
    )
    resolved = retrieval_by_source(parse_recipe(data), pool)["atlas"]
    assert resolved.passages == passages
    asked = {**LEAST, "retrieval": {"negatives": "mined", **retrieval, "passages": "found"}}
    if passages == "all" and "passages" not in retrieval:
        with raises(UsageError, "passages"):
            retrieval_by_source(parse_recipe(asked), pool)
    else:
        assert retrieval_by_source(parse_recipe(asked), pool)["atlas"].passages == "found"
