"""What `demur build --plan` says of knowledge bases: counts, disk beside a real index, hours at a rate."""

import json
from itertools import pairwise

import pytest
import yaml
from errors import raises
from stub_encoder import StubEncoder

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Document, ImageRef
from demur.curation.build.base_plan import SAMPLED, Base, Speed, Survey, estimate_base
from demur.curation.build.estimate import estimate_build
from demur.curation.build.recipe import RetrievalSpec, load_recipe
from demur.indexing.build import build_index
from demur.indexing.chunk import Chunker, uncut
from demur.indexing.options import IndexOptions

CUT = {"chunk": "40:5", "modes": ("image->title", "text->text"), "visual": 0, "text": 3}
SPEEDS = {"passages": Speed(100, 24), "titles": Speed(1000, 16)}


def article(number, words=200):
    text = " ".join(f"w{number * n % 997}" + "." * (n % 9 == 8) for n in range(words)).capitalize()
    return Document(id=f"Q{number}", title=f"Article {number}", text=text)


def surveyed(documents):
    survey = Survey()
    for document in documents:
        survey.add(document)
    return survey


def test_a_base_is_counted_while_it_is_read():
    chunker = Chunker(40, 5)
    picture = ImageRef(uri="a.png", sha256="0" * 64, width=1, height=1)
    base = [article(n) for n in range(3000)]
    base += [Document(id=f"{n}#p", title="", text="More.", page=f"Q{n}") for n in (2999, 2999)]
    base += [Document(id="picture", title="", image=picture)]
    counted = Base.of("kb", surveyed(base), chunker)
    passages = sum(d.text is not None for d in chunker.documents(base))
    assert counted[:5] == ("kb", 3003, 3001, 3002, 1)
    assert counted.passages == pytest.approx(passages, rel=0.02)
    assert counted.text_bytes == sum(len(d.text) for d in base if d.text)


@pytest.mark.parametrize("count", [0, 1, SAMPLED, 2 * SAMPLED, 2 * SAMPLED + 1, 5000])
def test_texts_are_sampled_at_equal_steps(count):
    ids = [int(d.id[1:]) for d in surveyed(article(n, 3) for n in range(count)).with_text]
    steps = {later - before for before, later in pairwise(ids)}
    assert len(steps) <= 1
    assert min(count, SAMPLED) <= len(ids) <= 2 * SAMPLED


@pytest.mark.parametrize("passages", ["all", "found"])
def test_disk_is_that_of_a_real_index(tmp_path, passages):
    chunker, base = Chunker(40, 5), [article(n) for n in range(2000)]
    retrieval = RetrievalSpec.model_validate({**CUT, "passages": passages, "lexical": 0})
    in_two_steps = passages == "found"
    options = IndexOptions(
        parts=("titles", "passages"), cut_later=chunker if in_two_steps else None
    )
    documents = uncut(base) if in_two_steps else chunker.documents(base)
    build_index(documents, StubEncoder(), tmp_path / "index", options)
    actual = sum(p.stat().st_size for p in (tmp_path / "index").rglob("*") if p.is_file())
    pool = sum(len(document.model_dump_json()) + 1 for document in base)
    counted = Base.of("kb", surveyed(base), chunker)
    estimate = estimate_base(counted, retrieval, 0, SPEEDS)
    assert estimate.gigabytes * 1e9 == pytest.approx(actual + pool, rel=0.25)


def test_two_steps_embed_the_passages_of_the_pages_that_questions_open_at_most():
    counted = Base("kb", 1000, 1000, 1000, 0, 5000, 10**6, 10**5, 30)
    found, whole = (
        estimate_base(counted, RetrievalSpec.model_validate({**CUT, "passages": p}), 20, SPEEDS)
        for p in ("found", "all")
    )
    assert found.embedded == {"passages": 20 * 10 * 5, "titles": 1000}
    assert whole.embedded == {"passages": 5000, "titles": 1000}
    assert found.hours == pytest.approx((1000 / 100 + 1000 / 1000) / 3600)
    assert found.gigabytes < whole.gigabytes
    unknown = estimate_base(counted, RetrievalSpec.model_validate(CUT), 20, {})
    assert (unknown.hours, unknown.gigabytes) == (None, None)


def test_a_plan_measures_encoders_or_takes_rates_that_are_given(tmp_path, capsys):
    recipe = tmp_path / "recipe.yaml"
    gates = [{"system": "prior", "cost": 0}]
    said = {"name": "a", "sources": [{"name": "atlas", "per_topic": 1}], "gates": gates}
    recipe.write_text(yaml.safe_dump({**said, "retrieval": {"visual": 0, "modes": ["text->text"]}}))
    plan = ["build", str(recipe), "--plan", "--json", "--skip-bad", "--out", str(tmp_path / "out")]

    def base(*words):
        assert main([*plan, *words]) == 0
        (only,) = json.loads(capsys.readouterr().out)["bases"]
        return only

    plain = base()
    assert plain["embedded"] == {"passages": plain["passages"]}
    assert (plain["hours"], plain["gigabytes"]) == (None, None)
    assert base("--rate", "passages=10")["hours"] == pytest.approx(plain["passages"] / 36_000)
    measured = base("--measure")
    assert measured["hours"] > 0
    assert measured["gigabytes"] > 0
    with raises(UsageError, item="rate passages", cure="above 0"):
        estimate_build(load_recipe(recipe), tmp_path / "out", rates={"passages": 0})
