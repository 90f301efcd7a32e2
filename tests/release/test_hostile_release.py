"""Releases that somebody else wrote: every planted defect is named, and nothing of it harms who looks at it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import zlib

import curation_world as world
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from curation_world import seal, wrong
from errors import raises
from PIL import Image

from demur import __version__
from demur.cli import main
from demur.core.errors import DataError, DemurError, ReleaseError
from demur.core.images import image_ref
from demur.core.records import Evidence, GateVerdict, Role
from demur.core.store import Problems, digest, read_json, read_records, write_json
from demur.corpora.near_duplicates import image_hash
from demur.curation.build.curate import curate
from demur.release import Draft, FunnelStep, Release, documents_of, freeze
from demur.release.card import escape_markdown, render_card
from demur.release.diff import difference


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    return curate(
        world.recipe(world.folder(root / "towns"), world.GATES), root / "out"
    ).release.folder


def edit_manifest(folder, change):
    manifest = read_json(folder / "manifest.json")
    change(manifest)
    write_json(folder / "manifest.json", manifest)


def edit_table(folder, name, change):
    """Change the rows of a table and seal the release again."""
    path = folder / "data" / f"{name}.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    seal(folder)


def picture_bytes(size=(8, 8), kind="PNG", **options):
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind, **options)
    return out.getvalue()


def sized_png(width, height):
    """A small file that says that it is large."""
    data = picture_bytes()
    head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


# --- rows ----------------------------------------------------------------------------------------


def first_image(rows):
    return next(r for r in rows if r["image"])


def first_photo(rows):
    return next(r for r in rows if r["images"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("samples", lambda rows: rows.append(dict(rows[0])), "towns:q\\d+ "),
        ("samples", lambda rows: rows.reverse(), "order"),
        ("evidence", lambda rows: rows.insert(1, dict(rows[0])), "evidence.*twice"),
        (
            "samples",
            lambda rows: rows[0].update(id=rows[0]["id"] + "x"),
            "q\\d+x",
        ),
        (
            "samples",
            lambda rows: rows[0].update(answer="Nobody"),
            "column answer ",
        ),
        (
            "samples",
            lambda rows: rows[0].update(answers="{}"),
            "answer",
        ),
        ("samples", lambda rows: rows[0].update(answers="["), "q\\d+: "),
        ("samples", lambda rows: rows[0].update(attributes="[" * 100_000), "q\\d+: "),
        (
            "samples",
            lambda rows: rows[0].update(attributes='{"n": ' + "9" * 5000 + "}"),
            "q\\d+: ",
        ),
        ("samples", lambda rows: rows[0].update(question=None), "q\\d+: .*question"),
        ("samples", lambda rows: rows[0]["gold"].clear(), "gold evidence"),
        (
            "samples",
            lambda rows: rows[0]["gold"][0].update(id="nowhere"),
            "q\\d+: .*'nowhere'",
        ),
        (
            "samples",
            lambda rows: rows[0]["gold"].append(rows[0]["gold"][0]),
            "q\\d+: .*twice",
        ),
        ("samples", lambda rows: rows[0]["negatives"].append(rows[0]["gold"][0]), "appears twice"),
        (
            "samples",
            lambda rows: rows[0]["negatives"][0].update(role="gold"),
            "q\\d+: .*gold",
        ),
        (
            "samples",
            lambda rows: rows[0]["negatives"][0].update(role="boss"),
            "q\\d+: .*role",
        ),
        (
            "samples",
            lambda rows: rows[0]["negatives"].__setitem__(slice(1, None), []),
            "K_min=2",
        ),
        (
            "samples",
            lambda rows: rows[0].update(source="elsewhere"),
            "counts .*: by_source",
        ),
        (
            "samples",
            lambda rows: rows[0].update(topic="elsewhere"),
            "counts .*: by_topic",
        ),
        (
            "samples",
            lambda rows: rows[0].update(question="Where?"),
            "counts .*question_words",
        ),
        ("samples", lambda rows: first_photo(rows).update(images=[]), "has no bytes"),
        (
            "samples",
            lambda rows: first_photo(rows).update(images_meta=[]),
            "no sample",
        ),
        (
            "samples",
            lambda rows: first_photo(rows)["images"][0].update(bytes=None, path="/etc/passwd"),
            "has no bytes",
        ),
        (
            "samples",
            lambda rows: first_photo(rows)["images"][0].update(path="../../x.png"),
            "path",
        ),
        (
            "samples",
            lambda rows: first_photo(rows)["images_meta"][0].update(width=5),
            "table",
        ),
        (
            "evidence",
            lambda rows: first_image(rows)["image"].update(bytes=b"GIF89a"),
            "released",
        ),
        ("evidence", lambda rows: first_image(rows).update(image=None), "has no bytes"),
        (
            "evidence",
            lambda rows: first_image(rows).update(sha256=None),
            "no sample|not a sample",
        ),
        ("evidence", lambda rows: rows.pop(0), "is in no table"),
        (
            "evidence",
            lambda rows: rows.append({**rows[0], "id": "zz"}),
            "zz: ",
        ),
        ("evidence", lambda rows: rows[-1].update(modality="smell"), "modality"),
    ],
)
def test_a_changed_row_is_named(copy, table, change, told):
    edit_table(copy, table, change)
    assert re.search(told, wrong(copy)), wrong(copy)


def test_every_copy_of_an_image_is_checked(copy):
    """Two samples with one picture: the second copy's bytes are not taken on trust."""

    def change(rows):
        one, other = [r for r in rows if r["images"]][:2]
        other["images_meta"] = one["images_meta"]
        other["images"] = [{"bytes": world.picture(77), "path": one["images"][0]["path"]}]

    edit_table(copy, "samples", change)
    assert "released" in wrong(copy)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("how", "caught"),
    [
        (lambda image: (image, "JPEG", {"quality": 60}), True),
        (lambda image: (image.resize((32, 32)), "PNG", {}), True),
        (
            lambda image: (
                image.resize((200, 200), Image.Resampling.BICUBIC),
                "WEBP",
                {"quality": 80},
            ),
            True,
        ),
        (
            lambda image: (image.transpose(Image.Transpose.ROTATE_90), "PNG", {}),
            False,
        ),  # another picture, to us
    ],
)
@pytest.mark.parametrize("role", ["gold", "distractor"])
def test_the_query_image_among_the_evidence_is_caught_re_encoded_and_resized(
    release, tmp_path, role, how, caught
):
    old = Release.open(release)
    sample = next(s for s in old.samples() if s.images)
    image, kind, options = how(
        Image.open(io.BytesIO(old.read_image(sample.images[0]))).convert("RGB")
    )
    out = io.BytesIO()
    image.save(out, kind, **options)
    ref = image_ref(out.getvalue(), "planted")
    e = Evidence(id="planted", modality="image", title="x", image=ref, role=Role(role))
    where = "gold" if role == "gold" else "negatives"
    planted = sample.model_copy(update={where: (*getattr(sample, where), e)})
    changed = [planted if s.id == sample.id else s for s in old.samples()]
    frozen(
        old,
        tmp_path / "new",
        changed,
        lambda r: out.getvalue() if r.sha256 == ref.sha256 else old.read_image(r),
    )
    told = f"{sample.id}: {role} planted shows the query image, in another encoding or size (image {ref.sha256[:16]})"
    assert (told in wrong(tmp_path / "new")) == caught


def frozen(old, out, samples, read_image=None, **more):
    known = ("files", "sha256", "counts", "name", "version", "format", "demur", "gate_rounds")
    about = {k: v for k, v in old.manifest.items() if k not in known} | {"gates": []} | more
    return freeze(
        out,
        Draft(
            name=old.name,
            version=old.version,
            samples=samples,
            read_image=read_image or old.read_image,
            drops=old.drops(),
            funnel=old.steps,
            recall=old.recall,
            about=about,
        ),
    )


# --- what is said --------------------------------------------------------------------------------


def change_lines(name, change):
    def apply(folder):
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        change(lines)
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    return apply


def change_manifest(change):
    return lambda folder: edit_manifest(folder, change)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            change_manifest(lambda m: m["pools"].update(towns=99)),
            "pools .*99 .*14",
        ),
        (
            change_manifest(lambda m: m["sources"]["towns"]["evidence_licences"].update(x=1)),
            "evidence_licences ",
        ),
        (
            change_manifest(lambda m: m["counts"].update(gold=1)),
            "counts .*: gold",
        ),
        (
            change_manifest(lambda m: m["counts"].update(extra=1)),
            "counts .*: extra",
        ),
        (change_manifest(lambda m: m.update(limits=["none at all"])), "README.md: "),
        (
            change_manifest(lambda m: m.update(authors=["Somebody"])),
            "CITATION.cff: ",
        ),
        (
            change_manifest(lambda m: m["stage_one"].update(kept="many")),
            "checked|card",
        ),
        (
            change_manifest(lambda m: m.update(topics=[{"by": "x"}])),
            "checked|card",
        ),
        (
            change_manifest(lambda m: m.update(judged={"methods": {"match": 3}})),
            "checked|card",
        ),
        (
            change_lines(
                "drops.jsonl",
                lambda rows: rows.append(next(row for row in rows if not row["evidence"])),
            ),
            "is dropped twice|drops",
        ),
        (
            change_lines("drops.jsonl", lambda rows: rows.clear()),
            "drops.jsonl",
        ),
        (change_lines("gates.jsonl", lambda rows: rows.pop(0)), "was not"),
        (
            change_lines("gates.jsonl", lambda rows: rows.append(rows[0])),
            "gates.jsonl: .*twice",
        ),
        (
            change_lines("gates.jsonl", lambda rows: rows[0]["labels"].update(boss="incorrect")),
            "'boss'",
        ),
        (
            change_lines("gates.jsonl", lambda rows: rows.append({**rows[0], "sample": "q99"})),
            "q99 ",
        ),
        (
            lambda folder: (folder / "README.md").write_bytes(b"\xff\xfe"),
            "README.md: ",
        ),
        (lambda folder: (folder / "croissant.json").write_text("[" * 100_000), "not JSON"),
        (lambda folder: (folder / "recall.json").write_text('{"a": 1}'), "recall.json: "),
    ],
)
def test_a_changed_statement_is_named(copy, change, told):
    change(copy)
    seal(copy)
    assert re.search(told, wrong(copy)), wrong(copy)


# --- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/passwd", "data/../../x", "a\\b", "C:x", "a//b", "", ".", "a\nb"]
)
def test_a_manifest_cannot_lead_outside(copy, tmp_path, name):
    edit_manifest(copy, lambda m: m["files"].update({name: "0" * 64}))
    with raises(ReleaseError, repr(name)):
        Release.open(copy)
    assert main(["release", "push", str(copy), "hf:owner/name"]) == 1
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../x"},
        {"name": "x" * 97},
        {"name": "\x1b[31mred"},
        {"name": 3},
        {"version": "1.0"},
        {"version": "1.0.0\n"},
        {"version": "9" * 30 + ".0.0"},
        {"demur": "<b>"},
        {"files": []},
        {"files": {"README.md": "x"}},
        {"sha256": None},
        {"counts": 3},
        {"recipe": []},
        {"gates": {}},
        {"limits": "none"},
        {"format": "demur-release-9"},
        {"format": ["x"]},
    ],
)
def test_a_malformed_manifest_is_told_by_every_verb(copy, release, change, capsys):
    edit_manifest(copy, lambda m: m.update(change))
    for words in (
        ["release", "show", copy],
        ["release", "verify", copy],
        ["release", "diff", release, copy],
        ["release", "push", copy, copy.parent / "t"],
        ["explain", copy, "q1"],
    ):
        assert main([*map(str, words)]) == 1
        said = capsys.readouterr().err
        assert said.startswith("demur: ")
        assert "\x1b" not in said


def test_a_manifest_that_is_no_object_or_no_file(copy):
    for text in ("[]", "3", "{", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"):
        (copy / "manifest.json").write_text(text)
        with pytest.raises(DemurError):
            Release.open(copy)
    (copy / "manifest.json").unlink()
    os.mkfifo(copy / "manifest.json")  # reading it would never end
    with raises(ReleaseError, "manifest.json"):
        Release.open(copy)


def test_links_and_strange_files(copy, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("key")
    (copy / "README.md").unlink()
    (copy / "README.md").symlink_to(secret)
    (copy / "more").symlink_to("/")
    (copy / "loop").symlink_to(copy)
    os.mkfifo(copy / "pipe")
    (copy / "data" / "third.parquet").write_bytes(b"PAR1")
    (copy / "funnel.json").unlink()
    os.mkfifo(copy / "funnel.json")
    found = wrong(copy).splitlines()
    assert "funnel.json: missing" in found
    assert {
        f"{n}: not part of the release" for n in ("more", "loop", "pipe", "data/third.parquet")
    } <= set(found)
    assert [line for line in found if line.startswith("README.md: changed")]
    assert "key" not in "".join(found)
    assert main(["release", "push", str(copy), "hf:owner/name"]) == 1


# --- bombs ---------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_parquet_bomb_is_refused_before_it_is_unpacked(copy):
    path = copy / "data" / "evidence.parquet"
    schema = pq.read_table(path).schema
    row = dict.fromkeys(schema.names) | {
        "id": "x",
        "modality": "text",
        "title": "t",
        "text": "0" * 1_000_000,
    }
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(pa.Table.from_pylist([row] * 40, schema=schema))
    assert path.stat().st_size < 20_000
    seal(copy)
    assert " 40," in wrong(copy)
    rows = pa.Table.from_pylist(
        [dict.fromkeys(schema.names) | {"id": "x"}] * 300_000, schema=schema
    )
    pq.write_table(rows, path, compression="zstd")
    seal(copy)
    assert "300,000 rows" in wrong(copy)


def test_tables_of_other_columns_and_broken_pages(copy):
    path = copy / "data" / "samples.parquet"
    good = path.read_bytes()
    table = pq.read_table(path)
    for other, told in (
        (table.drop_columns(["question"]), ": question"),
        (table.append_column("extra", table["id"]), ": extra"),
        (
            table.set_column(0, "id", pa.array(range(len(table)))),
            ": id",
        ),
    ):
        pq.write_table(other, path)
        seal(copy)
        assert told in wrong(copy)
    for at in range(100, len(good) - 3000, len(good) // 12):
        path.write_bytes(good[:at] + bytes(b ^ 0x5A for b in good[at : at + 40]) + good[at + 40 :])
        seal(copy)
        wrong(copy)  # whatever it says, it says it
    for end in (0, 4, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:end])
        seal(copy)
        assert "data/samples.parquet: " in wrong(copy)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda: sized_png(12_000, 9_000), "100,000,000"),
        (lambda: sized_png(200_000, 200_000), "pixels"),
        (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "image"),
        (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image"),
        (lambda: picture_bytes()[:50], "read"),
        (lambda: b"", "empty"),
    ],
)
def test_an_image_that_is_a_bomb_or_none_is_named_and_not_decoded(copy, data, told):
    planted = data()

    def change(rows):
        row = first_image(rows)
        row["image"] = {"bytes": planted, "path": "x"}
        row["sha256"] = digest(planted)

    edit_table(copy, "evidence", change)
    assert re.search(f"image {digest(planted)[:16]}: .*({told})", wrong(copy)), wrong(copy)
    with pytest.raises(DataError):
        image_hash(planted)


# --- text of a release on a card and on a terminal ---------------------------------------------------


HOSTILE = "<script>alert(1)</script>![x](http://x/p.png)[y](javascript:z)|a|\n# big\n\x1b]0;pwn\x07\u202e[/bold][red]`"


def test_a_card_shows_hostile_text_as_text(release):
    from markdown_it import MarkdownIt

    old = Release.open(release)
    samples = [
        s.model_copy(update={"source": HOSTILE, "topic": HOSTILE, "licence": HOSTILE})
        for s in old.samples()
    ]
    manifest = json.loads(json.dumps(old.manifest))
    manifest |= {
        "limits": [HOSTILE, "[a]: http://x", "# b"],
        "models": {HOSTILE: HOSTILE},
        "sources": {HOSTILE: {"licences": [HOSTILE], "evidence_licences": {HOSTILE: 1}}},
    }
    manifest["counts"]["by_source"] = {HOSTILE: len(samples)}
    manifest["topics"][0]["by"] = HOSTILE
    manifest["topics"][0]["rows"][0]["topic"] = HOSTILE
    steps = [FunnelStep(stage=HOSTILE, entered=1, kept=0, dropped={HOSTILE: 1})]
    text = render_card(
        release,
        manifest,
        samples,
        documents_of(samples),
        steps,
        [],
        [{"queries": HOSTILE, "mode": HOSTILE, "n": 1}],
    )
    body = text.split("---\n", 2)[2]
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    inline = [child for token in tokens for child in (token.children or [])]
    kinds = {t.type for t in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image"}
    assert {t.content for t in tokens if t.type == "inline" and t.level == 1} >= {
        "Limits",
        "Sources",
    }
    assert sum(t.type == "heading_open" for t in tokens) == sum(
        line.startswith("#") for line in body.splitlines()
    )
    assert "big" in body
    assert not set("\x1b\x07\u202e") & set(text)
    for table in re.split(r"\n\n", body):  # every line of a table has as many cells as its head
        if table.startswith("|"):
            assert (
                len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()})
                == 1
            )


def test_what_is_harmless_stays_readable():
    assert escape_markdown("image->image (CC-BY-SA), 5 * 4") == "image->image (CC-BY-SA), 5 * 4"
    assert escape_markdown("a\\|b") == "a\\\\\\|b"


def test_verbs_show_hostile_text_and_never_obey_it(release, tmp_path, capsys):
    old = Release.open(release)
    hostile = [s.model_copy(update={"question": HOSTILE, "topic": HOSTILE}) for s in old.samples()]
    frozen(old, tmp_path / "r", hostile, limits=[HOSTILE], models={HOSTILE: HOSTILE})
    steps = [{"stage": HOSTILE, "entered": 1, "kept": 0, "dropped": {HOSTILE: 1}}]
    write_json(tmp_path / "r" / "funnel.json", steps)
    lines = (tmp_path / "r" / "drops.jsonl").read_text().splitlines()
    drops = [{**json.loads(line), "reason": HOSTILE} for line in lines]
    (tmp_path / "r" / "drops.jsonl").write_text("".join(json.dumps(d) + "\n" for d in drops))
    seal(tmp_path / "r")
    dropped = next(d["sample"] for d in drops if not d["evidence"])
    for words in (
        ["show", tmp_path / "r"],
        ["verify", tmp_path / "r"],
        ["diff", release, tmp_path / "r"],
        ["diff", tmp_path / "r", release],
    ):
        main(["release", *map(str, words)])
    for sample in (hostile[0].id, dropped):
        assert main(["explain", str(tmp_path / "r"), sample]) == 0
    assert main(["explain", str(tmp_path / "r"), HOSTILE]) == 2
    said = capsys.readouterr()
    assert "[/bold][red]" in said.out
    assert not set("\x1b\x07\u202e") & set(said.out + said.err)


def test_explain_names_the_nearest_id_and_survives_a_broken_build_folder(release, tmp_path, capsys):
    shutil.copytree(
        release.parent, tmp_path / "out", ignore=shutil.ignore_patterns("index", "images")
    )
    kept = next(Release.open(release).column("samples", "id"))
    assert main(["explain", str(tmp_path / "out" / "release"), kept + "0x"]) == 2
    assert f" {kept} " in capsys.readouterr().err
    (tmp_path / "out" / "build" / "decisions.jsonl").write_text(
        json.dumps({"sample": kept, "kept": 3}) + "\n{\n"
    )
    (tmp_path / "out" / "convergence.json").write_text(
        '{"name": "towns", "version": "1.0.0", "rounds": [3]}'
    )
    assert main(["explain", str(tmp_path / "out" / "release"), kept]) == 0
    assert kept in capsys.readouterr().out


def test_diff_says_what_else_made_them(release, tmp_path, capsys):
    old = Release.open(release)
    models = json.loads(json.dumps(old.manifest["gate_models"]))
    models["weak"] |= {"revision": "abc", "decoding": {"temperature": 0.7}}
    models["new"] = {"stages": ["parametric"], "system": "x"}
    frozen(old, tmp_path / "new", list(old.samples())[1:], gate_models=models, judge="model:y")
    found = difference(old, Release.open(tmp_path / "new"))
    assert found.made["judge"] == ("local", "model:y")
    assert found.made["gate_models.weak.revision"] == (__version__, "abc")
    assert found.made["gate_models.weak.decoding.temperature"] == (None, 0.7)
    assert found.made["gate_models.new.system"] == (None, "x")
    assert [x.sample for x in found.left] == [next(old.column("samples", "id"))]
    assert found.by_source["towns"] == {
        "left": 1,
        "same": len(list(old.column("samples", "id"))) - 1,
    }
    assert main(["release", "diff", str(release), str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert f"gate_models.weak.revision: {__version__} -> abc" in said
    assert "local -> model:y" in said


# --- files for others ----------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.filterwarnings(
    "ignore:ConjunctiveGraph is deprecated", "ignore:The inplace keyword"
)  # of the reader
def test_croissant_is_valid_and_its_records_load_with_images(release):
    mlcroissant = pytest.importorskip("mlcroissant")
    found = mlcroissant.Dataset(jsonld=str(release / "croissant.json"))
    assert not found.metadata.ctx.issues.errors
    assert not found.metadata.ctx.issues.warnings
    stated = found.metadata
    assert str(stated.date_published.date()) == Release.open(release).manifest["published"]
    assert len(stated.data_use_cases) == 1
    assert "Evaluation" in stated.data_use_cases[0]
    samples = list(Release.open(release).samples())
    rows = list(found.records("samples"))
    assert [r["samples/id"].decode() for r in rows] == [s.id for s in samples]
    assert [len(r["samples/images"] or ()) for r in rows] == [len(s.images) for s in samples]
    assert [x.decode() for x in rows[0]["samples/gold"]] == [e.id for e in samples[0].gold]
    evidence = list(found.records("evidence"))
    assert {r["evidence/image"].size for r in evidence if r["evidence/image"] is not None} <= {
        (64, 64)
    }
    assert len(evidence) == len(documents_of(samples))


def test_the_citation_file_keeps_to_its_format(release):
    import yaml

    cff = yaml.safe_load((release / "CITATION.cff").read_text())
    assert set(cff) == {
        "cff-version",
        "message",
        "title",
        "version",
        "type",
        "authors",
        "date-released",
    }
    assert (cff["cff-version"], cff["type"]) == ("1.2.0", "dataset")
    assert all(set(a) == {"name"} and a["name"] for a in cff["authors"])
    assert read_json(release / "manifest.json")["version"] == cff["version"]
    said = list(read_records(release / "gates.jsonl", GateVerdict, Problems()))
    assert said
