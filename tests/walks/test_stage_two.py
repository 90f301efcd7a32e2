"""Stage II of a recipe: each source's own base, gold at the same cut, what is adopted, whose index is used."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import native_miniatures as native
import numpy as np
import pytest
import recount
import yaml
from errors import raises

from demur.cli import main
from demur.core.errors import UsageError
from demur.curation.build.presets import PRESETS
from demur.curation.build.recipe import load_recipe, parse_recipe
from demur.indexing.chunk import open_chunker
from demur.release import Release
from demur.scenarios.contexts import distractors
from demur.scenarios.contexts import recipe as context_recipe

pytestmark = pytest.mark.heavy
GATES = [native.HERE.well_read, native.HERE.text_only, native.HERE.half_remembers]
ENCODERS = {"encoder": "native_miniatures:sighted", "text_encoder": "native_miniatures:contriever"}
BY = ["--encoder", ENCODERS["encoder"], "--text-encoder", ENCODERS["text_encoder"]]
CUT = ["--chunk", "250:32", "--tokenizer", "bert-uncased"]


def demur(*words, code=0):
    """What a command prints on both streams; it must end with that code."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            ended = main([str(word) for word in words])
        except SystemExit as stop:
            ended = stop.code
    assert ended == code, f"demur {' '.join(map(str, words))}\n{out.getvalue()}"
    return out.getvalue()


def written(folder: Path, sources, **more) -> Path:
    """A recipe file beside the native folders that it names."""
    path = folder / "recipe.yaml"
    said = {
        "name": "x",
        "sources": sources,
        "gates": GATES,
        "retrieval": ENCODERS,
        "rules": {"k_min": 0},
        "retest": 0,
        "topics": "none",
        **more,
    }
    path.write_text(yaml.safe_dump(said))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    """The six sources' native folders and the release that the preset makes of them."""
    folder = tmp_path_factory.mktemp("six")
    for source in PRESETS["vlm-deflectionbench"]:
        native.BUILDERS[source](folder / source)
    sources = [{"name": s, "path": s} for s in PRESETS["vlm-deflectionbench"]]
    demur("build", written(folder, sources, preset="vlm-deflectionbench"), "--out", folder / "out")
    return folder


@pytest.fixture(scope="module")
def release(six):
    return Release.open(six / "out/release")


def of(release, *sources):
    found = [s for s in release.samples() if s.source in sources]
    assert found
    return found


def asked(six, source):
    """The questions of a source by their ids in the release, and its base, from the raw files."""
    questions, base = recount.READERS[source](six / source)
    return {f"{source}:{q.id}": q for q in questions}, base


# --- the preset, counted again from the raw files -------------------------------------------------


@pytest.mark.slow
def test_only_what_is_mined_has_an_index_and_each_is_of_its_own_source(six, release):
    assert {p.name for p in (six / "out/index").iterdir() if p.is_dir()} == {
        "infoseek",
        "viquae",
        "evqa",
        "mrag",
    }
    bases = release.manifest["bases"]
    assert {s: b["negatives"] for s, b in bases.items()} == {
        "infoseek": "mined",
        "viquae": "mined",
        "evqa": "mined",
        "mrag": "mined",
        "webqa": "native",
        "mmdocrag": "native",
    }
    assert len({b["index"] for b in bases.values() if "index" in b}) == 4
    for sample in release.samples():
        own = {bases[sample.source].get("index")}
        assert {e.index_id for e in sample.negatives if e.origin == "mined"} <= own
        assert {e.id.partition(":")[0] for e in (*sample.gold, *sample.negatives)} <= {
            sample.source
        }


@pytest.mark.parametrize("source", ["infoseek", "viquae"])
def test_text_distractors_lie_on_the_first_ten_pages_by_title(six, release, source):
    questions, base = asked(six, source)
    samples = of(release, source)
    encoder, pages = native.sighted(), list(base.titles)
    images = [native.Image.open(io.BytesIO(questions[s.id].image)) for s in samples]
    alike = encoder.images(images) @ encoder.texts(list(base.titles.values())).T
    for sample, row in zip(samples, alike, strict=True):
        assert all(e.mode == "image->title/text->text" for e in sample.negatives)
        assert 0 < len(sample.negatives) <= 12
        found = {pages.index(e.page.removeprefix(f"{source}:")) for e in sample.negatives}
        assert len(found) <= 10
        assert min(row[list(found)]) >= np.sort(row)[-10]  # many titles are equally unlike


def test_pages_of_encyclopedic_vqa_are_found_by_their_first_image(six, release):
    questions, base = asked(six, "evqa")
    encoder = native.sighted()

    def looks(images):
        return encoder.images(
            [native.Image.open(io.BytesIO(image)).convert("RGB") for image in images], "look"
        )

    pages = [page for page, images in base.images.items() if images]
    assert any(len(base.images[page]) > 1 for page in pages)
    first = looks([base.images[page][0] for page in pages])
    for sample in of(release, "evqa"):
        near = np.argsort(-(looks([questions[sample.id].image]) @ first.T)[0], kind="stable")
        assert {e.mode for e in sample.negatives} <= {"image->first-image/text->text"}
        assert {e.page.removeprefix("evqa:") for e in sample.negatives} <= {
            pages[n] for n in near[:5]
        }


def test_images_of_mrag_bench_are_its_own_and_other_questions_but_never_of_the_same_thing(
    six, release
):
    questions, base = asked(six, "mrag")
    corpus = {image for images in base.images.values() for image in images}
    others = {q.image: q.accepted for q in questions.values()}
    shown = set()
    for sample in of(release, "mrag"):
        question = questions[sample.id]
        images = [release.read_image(e.image) for e in sample.negatives]
        assert 0 < len(images) <= 20
        assert {e.mode for e in sample.negatives} == {"image->image"}
        assert set(images) <= corpus | set(others)
        assert question.image not in images
        assert not set(images) & set(question.gold)
        assert all(others.get(image) != question.accepted for image in images)
        shown |= set(images) & set(others)
    assert shown, "no question's image was any other's distractor"


@pytest.mark.parametrize("source", ["webqa", "mmdocrag"])
def test_what_a_source_ships_is_adopted_in_an_order_of_its_own(six, release, source):
    """By a draw, in which texts and pictures mix, and the first two have the kinds of gold."""
    questions, _ = asked(six, source)
    for sample in of(release, source):
        content = [
            recount.squeezed(e.text) if e.text else release.read_image(e.image)
            for e in sample.negatives
        ]
        assert set(content) <= questions[sample.id].negatives
        assert {e.origin for e in sample.negatives} == {"native"}
        ranks = [e.rank for e in sample.negatives]
        assert ranks == sorted(set(ranks))
        kinds = [e.modality for e in sample.negatives]
        assert kinds not in (sorted(kinds), sorted(kinds)[::-1])
        first, *others = distractors(sample, context_recipe("realistic(k=2)"), 0)
        assert first.modality in {e.modality for e in sample.gold}
        assert [e.rank for e in others] == sorted(e.rank for e in others)


def test_gold_is_cut_as_distractors_are(six, release):
    """Cut again from the raw article: gold is that passage of it which holds what the source calls gold."""
    chunker = open_chunker("250:32", "bert-uncased")
    for source in ("infoseek", "viquae"):
        questions, base = asked(six, source)
        for sample in of(release, source):
            assert {e.level for e in sample.gold} == {"passage"}
            for e in sample.gold:
                assert recount.squeezed(e.text) in base.texts[e.page.removeprefix(f"{source}:")]
                assert questions[sample.id].gold[0] in e.text
            for e in (*sample.gold, *sample.negatives):
                assert len(chunker.offsets([e.text])[0]) <= 250
    rows = (
        json.loads(line)
        for line in (six / "infoseek/Wiki6M_ver_1_0.jsonl").read_text().splitlines()
    )
    raw = {row["wikidata_id"]: row["wikipedia_content"] for row in reversed(list(rows))}
    for sample in of(release, "infoseek"):
        for e in sample.gold:
            whole = raw[e.document.removeprefix("infoseek:")]
            passage = chunker.cut([whole])[0][int(e.id.rpartition("#")[2])]
            assert whole[passage.start : passage.end] == e.text


def test_nothing_but_reading_tells_gold_and_the_release_says_so(six, release):
    rows = {row.source: row for row in release.told_apart}
    assert set(rows) == {"", *native.SIX}
    for source, row in rows.items():
        samples = [s for s in release.samples() if source in ("", s.source)]
        assert row.n == len(samples)
        assert set(row.left_out.values()) == {0}
        assert row.by["pictures"] == 0.5
        assert not row.telling
    assert "## Told apart without being read" in (six / "out/release/README.md").read_text()
    assert json.loads(demur("release", "verify", six / "out/release", "--json"))["sound"]


# --- whose index ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An InfoSeek folder and its index, made by the user's own command."""
    folder = tmp_path_factory.mktemp("made")
    native.infoseek(folder / "infoseek")
    demur("index", "build", f"infoseek:{folder / 'infoseek'}", *CUT, *BY, "--out", folder / "mine")
    return folder


def build(folder, out, code=0, sources=None, consent=(), **how):
    sources = sources or [{"name": "infoseek", "path": "infoseek"}]
    made_by = written(folder, sources, preset="vlm-deflectionbench", retrieval={**ENCODERS, **how})
    return demur("build", made_by, "--out", folder / out, *consent, code=code)


def shown(folder: Path):
    return [
        (s.id, [(e.id, e.text) for e in (*s.gold, *s.negatives)])
        for s in Release.open(folder).samples()
    ]


@pytest.mark.slow
def test_an_index_that_the_user_built_is_used_where_it_lies_and_by_name_and_gives_the_same_release(
    made,
):
    before = files(made / "mine")
    build(made, "named", index="mine")
    assert not (made / "named/index").exists()
    (made / "default/index").mkdir(parents=True)
    (made / "mine").rename(made / "default/index/infoseek")
    build(made, "default")
    assert files(made / "default/index/infoseek") == before, "it was made again"
    (made / "default/index/infoseek").rename(made / "mine")
    build(made, "own")
    assert (made / "own/index/infoseek/manifest.json").exists()
    build(made, "all", passages="all")
    outs = {"named": "all", "default": "all", "own": "found", "all": "all"}
    releases = {out: made / out / "release" for out in outs}
    assert {
        out: Release.open(folder).manifest["bases"]["infoseek"]["passages"]
        for out, folder in releases.items()
    } == outs
    assert all(shown(folder) == shown(releases["own"]) for folder in releases.values())
    assert files(made / "mine") == before


def test_the_ids_of_an_index_of_one_source_fit_a_recipe_of_several(made):
    native.webqa(made / "webqa")
    sources = [
        {"name": "infoseek", "path": "infoseek", "retrieval": {"index": "mine"}},
        {"name": "webqa", "path": "webqa"},
    ]
    build(made, "two", sources=sources)
    found = of(Release.open(made / "two/release"), "infoseek")
    assert all(e.id.startswith("infoseek:Q") for s in found for e in (*s.gold, *s.negatives))
    assert all(len(s.negatives) > 4 for s in found)


def test_an_index_that_does_not_fit_is_told_and_never_replaced(made):
    before = files(made / "mine")
    told = build(made, "other-cut", code=2, index="mine", chunk="100:10")
    assert re.search(r"chunks infoseek by 100:10 \w+, this index is chunked by 250:32", told)
    (made / "there/index").mkdir(parents=True)
    (made / "mine").rename(made / "there/index/infoseek")
    told = build(made, "there", code=2, chunk="100:10")
    assert "other documents" in told
    told = build(made, "there", code=2, text_encoder="native_miniatures:sighted")
    assert re.search(
        r"its text vectors are by native_miniatures:contriever \(\w+\), not by native_miniatures:sighted",
        told,
    )
    (made / "there/index/infoseek").rename(made / "mine")
    native.viquae(made / "viquae")
    told = build(
        made, "foreign", code=2, sources=[{"name": "viquae", "path": "viquae"}], index="mine"
    )
    assert "no gold of 10 samples" in told
    demur("index", "build", f"infoseek:{made / 'infoseek'}", *BY[:2], "--out", made / "old/index")
    assert "this folder is an index itself" in build(made, "old", code=2)
    assert files(made / "mine") == before


def test_a_builds_own_index_is_replaced_when_the_recipe_changes(made):
    bases = []
    for chunk in ("250:32", "100:10"):
        build(made, "changing", chunk=chunk)
        bases.append(Release.open(made / "changing/release").manifest["bases"]["infoseek"])
    assert [base["cut"].partition(" ")[0] for base in bases] == ["250:32", "100:10"]
    assert bases[0]["documents"] == bases[1]["documents"]  # articles, cut when their page is found
    assert bases[0]["index"] != bases[1]["index"]


# --- what was mined already -----------------------------------------------------------------------


def test_what_demur_mine_wrote_can_be_built_from(made):
    demur(
        "mine",
        f"infoseek:{made / 'infoseek'}",
        "--index",
        made / "mine",
        *BY,
        "--text",
        "6",
        "--visual",
        "0",
        "--out",
        made / "mined",
    )
    lines = (made / "mined/samples.jsonl").read_text().splitlines()
    rows = {f"infoseek:{row['id']}": row for row in map(json.loads, lines)}
    trusted = ("--trust-code",)  # the source that it was mined for lies elsewhere
    build(made, "from-mined", sources=[{"name": "pool", "path": "mined"}], consent=trusted)
    release = Release.open(made / "from-mined/release")
    assert release.manifest["bases"]["infoseek"]["negatives"] == "native"
    assert not (made / "from-mined/index").exists()
    for sample in of(release, "infoseek"):
        mined = {f"infoseek:{e['id']}": e for e in rows[sample.id]["negatives"]}
        assert {e.id for e in sample.negatives} <= mined.keys()
        for e in sample.negatives:
            assert (e.origin, e.rank, e.mode) == ("mined", mined[e.id]["rank"], mined[e.id]["mode"])
        assert [e.id for e in sample.gold] == [
            f"infoseek:{e['id']}" for e in rows[sample.id]["gold"]
        ]
    build(
        made,
        "again",
        sources=[{"name": "pool", "path": "mined"}],
        consent=trusted,
        negatives="mined",
        chunk="250:32",
        tokenizer="bert-uncased",
        text=3,
        visual=0,
    )
    assert (made / "again/index/infoseek").is_dir()
    assert all(len(s.negatives) <= 3 for s in of(Release.open(made / "again/release"), "infoseek"))


# --- what cannot be had ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_kind_that_a_base_has_none_of_is_told_and_passed_over_unless_nothing_is_left(tmp_path):
    native.beir(tmp_path / "beir")
    beir = [{"name": "beir", "path": "beir", "options": native.OPTIONS["beir"]}]
    made_by = written(tmp_path, beir, retrieval={**ENCODERS, "text": 5, "visual": 2})
    told = " ".join(demur("build", made_by, "--out", tmp_path / "a").split())
    assert "2 visual distractors" in told
    release = Release.open(tmp_path / "a/release")
    assert all(0 < len(s.negatives) <= 5 for s in of(release, "beir"))
    (note,) = release.manifest["bases"]["beir"]["notes"]
    assert "no images" in note
    made_by = written(tmp_path, beir, retrieval={**ENCODERS, "text": 0, "visual": 2})
    assert "distractor" in demur("build", made_by, "--out", tmp_path / "b", code=2)
    native.mrag(tmp_path / "mrag")
    how = {**ENCODERS, "text": 4, "visual": 5, "negatives": "mined"}
    told = demur(
        "build",
        written(tmp_path, [{"name": "mrag", "path": "mrag"}], retrieval=how),
        "--out",
        tmp_path / "c",
    )
    assert "4 text distractors" in " ".join(told.split())
    reads = [
        {**native.HERE.text_only, "name": "reads"}
    ]  # what it cannot be asked is nothing that is sought
    demur("build", written(tmp_path, beir, gates=reads), "--out", tmp_path / "d")
    assert all(s.negatives for s in of(Release.open(tmp_path / "d/release"), "beir"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "change", "told"),
    [
        ("bertopic", {"topics": "bertopic"}, "demur[topics]"),
        (
            "sentence_transformers",
            {"retrieval": {**ENCODERS, "text_encoder": "sentence-transformers:x/y"}},
            "demur[clip]",
        ),
    ],
)
def test_what_a_recipe_will_need_is_asked_for_before_the_first_call(
    tmp_path, monkeypatch, module, change, told
):
    native.beir(tmp_path / "beir")
    beir = [{"name": "beir", "path": "beir", "options": native.OPTIONS["beir"]}]
    asked = []
    monkeypatch.setattr(
        native, "well_read", lambda question: asked.append(question) or native.DECLINES
    )
    for name in (module, "torchvision"):  # the second only takes time
        monkeypatch.setitem(sys.modules, name, None)
    said = demur("build", written(tmp_path, beir, **change), "--out", tmp_path / "out", code=2)
    assert told in said
    assert not asked


# --- recipes --------------------------------------------------------------------------------------

LEAST = {"name": "x", "gates": [{"system": "prior"}]}


def test_a_source_states_what_differs_and_a_preset_fills_in_what_is_left_out():
    sources = [
        {"name": "evqa", "retrieval": {"pages": 3}},
        *({"name": n} for n in ("infoseek", "webqa", "atlas")),
    ]
    common = {"text": 20, "encoder": "offline"}
    plan = parse_recipe(
        {**LEAST, "preset": "vlm-deflectionbench", "retrieval": common, "sources": sources}
    )
    evqa, infoseek, webqa, atlas = map(plan.retrieval_of, plan.sources)
    assert (evqa.pages, evqa.text, evqa.visual, evqa.chunk) == (3, 20, 0, "250:32")
    assert (infoseek.pages, infoseek.modes) == (
        10,
        ("image->title", "image->title+summary", "text->text"),
    )
    assert webqa.negatives == "native"
    assert (atlas.negatives, atlas.chunk, atlas.text, atlas.visual) == ("auto", None, 20, 4)
    assert parse_recipe(plan.model_dump(mode="json")) == plan
    with raises(UsageError, "'vlm'", "vlm-deflectionbench"):
        parse_recipe({**LEAST, "preset": "vlm", "sources": [{"name": "atlas"}]})


@pytest.mark.parametrize(
    ("shipped", "whose"), [(0, "mined"), (0.3, "both"), (0.5, "native"), (1, "native")]
)
def test_what_a_source_ships_is_adopted_else_mined(shipped, whose):
    plan = parse_recipe({**LEAST, "sources": [{"name": "atlas"}]})
    how = plan.retrieval.settled(shipped)
    assert how.negatives == whose
    assert how.mines == (whose != "native")
    assert how.adopts == (whose != "mined")
    assert (
        plan.retrieval.model_copy(update={"negatives": "both"}).settled(shipped).negatives == "both"
    )


def test_the_example_is_a_recipe():
    plan = load_recipe(Path(__file__).parents[2] / "examples/vlm_deflectionbench.yaml")
    assert {s.name for s in plan.sources} == PRESETS["vlm-deflectionbench"].keys()
