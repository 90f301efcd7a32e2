"""A build mines what `demur mine` does with the same settings."""

import json

import pytest
import yaml
from curation_world import quick
from errors import raises

from demur.cli import main
from demur.cli.mine import FLAGS
from demur.core.errors import UnknownPart
from demur.core.progress import QUIET
from demur.core.records import Sample
from demur.core.store import Problems, read_records
from demur.curation.build.distractors import mine_pool
from demur.curation.build.inputs import enough_candidates
from demur.curation.build.knowledge_bases import align_gold, open_bases
from demur.curation.build.recipe import parse_recipe
from demur.curation.mining.training import FORMATS

QUOTAS = {"text": 3, "lexical": 2, "visual": 2}
ENCODER = ["--encoder", "curation_world:quick"]


def recipe(towns, **retrieval):
    return parse_recipe(
        {
            "name": "x",
            "seed": 7,
            "sources": [{"name": "generic", "path": str(towns)}],
            "gates": [{"system": "prior"}],
            "retrieval": {
                "encoder": "curation_world:quick",
                **QUOTAS,
                "negatives": "mined",
                "index": "index",
                **retrieval,
            },
        }
    )


@pytest.fixture(scope="module")
def built(towns, pool, index):
    """Options of a recipe to the distractors that a build's second stage mines."""

    def mined(options):
        plan = recipe(towns, **options)
        own = pool._replace(specs={name: plan.sources[0] for name in pool.specs})
        bases = open_bases(plan, own, base=index.parent, encoder=quick())
        own = align_gold(own, bases)
        found = mine_pool(plan, own, own.samples, bases, QUIET)[1]
        return {id: said(sample) for id, sample in found.items()}

    return mined


def said(sample):
    return [(e.id, e.index_id, e.mode, e.rank, e.score) for e in sample.negatives]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"diversity": 0.3},
        {"relative_margin": 0.05},
        {"lexical": 0, "visual": 5, "text": 1},
        {"sampling": "random", "range_max": 15},
        {"range_min": 2, "max_score": 0.6},
        {"modes": ["image-to-image", "lexical"], "pages": 3},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_a_recipe_mines_as_the_command_does(options, pool, index, built, tmp_path, capsys):
    words, rarer = [], {}
    for key, value in {**QUOTAS, **options}.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        if key in (*FLAGS, "modes", "pages", "negatives"):
            words += [f"--{key.replace('_', '-')}", text]
        else:
            rarer[key] = value
    file = tmp_path / "options.yaml"
    file.write_text(yaml.safe_dump(rarer))
    words += ["--options", str(file)] if rarer else []
    given = [
        "mine",
        str(pool.root),
        "--index",
        str(index),
        "--out",
        str(tmp_path / "mined"),
        "--seed",
        "7",
        *ENCODER,
    ]
    assert main([*given, "--negatives", "mined", *words]) == 0
    capsys.readouterr()
    by_command = {
        s.id: said(s)
        for s in read_records(tmp_path / "mined" / "samples.jsonl", Sample, Problems())
    }
    by_recipe = built(options)
    assert by_recipe == by_command
    assert sum(map(len, by_recipe.values())) > len(by_recipe)
    if options:
        assert by_recipe != built({}), "the option changes what is mined"


def test_a_mode_that_does_not_exist_is_refused_before_anybody_is_asked(towns, pool):
    with raises(UnknownPart, "'image->titel'"):
        enough_candidates(recipe(towns, modes=["image-to-titel"]), pool)


@pytest.mark.heavy
@pytest.mark.parametrize("format", FORMATS)
def test_rows_to_train_with(format, pool, index, tmp_path, capsys):
    given = [
        "mine",
        str(pool.root),
        "--index",
        str(index),
        "--out",
        str(tmp_path),
        "--rows",
        format,
        *ENCODER,
    ]
    assert main([*given, "--text", "3", "--visual", "2"]) == 0
    assert "rows.jsonl" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    samples = {
        s.question: s
        for s in read_records(tmp_path / "samples.jsonl", Sample, Problems())
        if not s.images
    }
    assert {row["anchor"] for row in rows} == set(samples)
    for row in rows:
        sample = samples[row["anchor"]]
        gold, mined = (
            [e.text for e in group if e.text] for group in (sample.gold, sample.negatives)
        )
        assert len(mined) == 3
        if format == "triplet":
            assert row["positive"] in gold
            assert row["negative"] in mined
        elif format == "n-tuple":
            assert [row[f"negative_{n}"] for n in (1, 2, 3)] == mined
        elif format == "labeled-pair":
            assert row["positive"] in (gold if row["label"] else mined)
        else:
            assert row == {
                "anchor": sample.question,
                "positive": [*gold, *mined],
                "labels": [1, 0, 0, 0],
            }
    each = {"triplet": 3, "labeled-pair": 4}.get(format, 1)
    assert len(rows) == each * len(samples)
