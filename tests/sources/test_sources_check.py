"""`demur sources`: what check prints, what makes it fail, and a source from a stranger's package."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import curation_world as world
import mini_sources as mini
import pytest
from errors import places, raises

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.plugins import find, names
from demur.core.store import Problems
from demur.sources import open_source, source_named
from demur.sources.cards import Pin, card_of, find_mismatches, list_sources, rows_in
from demur.sources.check import check


def checked(name, folder, pins=(), limit=None, **options):
    return check(
        open_source(name, folder, Problems(), mini.OPTIONS.get(name, {}) | options), pins, limit
    )


@pytest.mark.parametrize("name", sorted(mini.BUILDERS))
def test_a_healthy_folder_is_sound(name, tmp_path):
    report = checked(name, mini.BUILDERS[name](tmp_path))
    # its publisher gives a question with an answer and no page: no build can have it
    refused = {
        "mmlongbench": ("samples.json:20 (2): it has no gold evidence (a build refuses it)",)
    }
    assert report.findings == refused.get(name, ())
    assert report.samples == len(report.shown) or report.samples > 5


@pytest.mark.parametrize("name", sorted(mini.BUILDERS))
@pytest.mark.parametrize("layout", ["files of the hub's cache", "folders on another disk"])
def test_links_in_a_folder_are_followed(name, layout, tmp_path):
    plain, linked = mini.BUILDERS[name](tmp_path / "plain"), tmp_path / "snapshots" / "1f"
    whole = checked(name, plain)
    if layout.startswith("files"):
        for number, path in enumerate(p for p in sorted(plain.rglob("*")) if p.is_file()):
            blob = mini.put(tmp_path / "blobs" / str(number), path.read_bytes())
            link = linked / path.relative_to(plain)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
    else:
        linked.mkdir(parents=True)
        for path in plain.iterdir():
            (linked / path.name).symlink_to(path)
    report = checked(name, linked)
    assert report.findings == whole.findings
    assert (report.samples, report.documents, report.images) == (
        whole.samples,
        whole.documents,
        whole.images,
    )


def test_one_cause_is_one_finding_with_its_number_and_three_places(tmp_path):
    rows = [mini.evqa_row(answer="") for _ in range(40)] + [mini.evqa_row()]
    report = checked("evqa", mini.evqa(tmp_path, rows))
    (finding,) = [line for line in report.findings if "answer" in line]
    assert finding.startswith("40 rows: ")
    assert finding.count("test.csv:") == 3


@pytest.mark.parametrize("field", ["question", "gold", "answers", "text"])
def test_a_typo_in_a_column_is_one_finding(field, tmp_path):
    folder = world.folder(tmp_path / "towns")
    text = (folder / "demur-map.yaml").read_text()
    (folder / "demur-map.yaml").write_text(text.replace(f"{field}: {field}", f"{field}: {field}x"))
    (finding,) = checked("generic", folder).findings
    assert f"{field}: {field}x" in finding
    assert f"did you mean '{field}'?" in finding


def test_counts_are_those_of_the_folder(tmp_path):
    report = checked("webqa", mini.webqa(tmp_path))
    assert (report.samples, report.documents, report.images, report.splits) == (2, 7, 3, {"val": 2})
    assert report.gold == {"image/image": 1, "text/passage": 1}
    assert report.negatives == {"text": 2, "image": 2}
    assert checked("mmlongbench", mini.mmlongbench(tmp_path / "m")).unanswerable == 1


def plant_missing_picture(folder):
    mini.infoseek(folder)
    (folder / "oven_images/00/oven_00000042.jpg").unlink()
    return "infoseek", "oven_00000042"


def plant_broken_picture(folder):
    mini.mmdocrag(folder)
    (folder / "images/Sample-Brochure_image4.jpg").write_bytes(b"\x89PNG broken")
    return "mmdocrag", "Sample-Brochure_image4.jpg"


def plant_empty_answer(folder):
    mini.evqa(folder, [mini.evqa_row(answer="")])
    return "evqa", "test.csv:2"


def plant_empty_question(folder):
    mini.viquae(folder, [mini.viquae_row(input=" ")])
    return "viquae", "validation.jsonl:1"


def plant_duplicate_id(folder):
    mini.mrag(folder, {"test-0.parquet": [mini.mrag_row(), mini.mrag_row()]})
    return "mrag", "test-0.parquet:1"


def plant_lost_gold(folder):
    mini.evqa(folder, [mini.evqa_row(wikipedia_url=mini.WIKI + "Nowhere")])
    return "evqa", "Nowhere"


def plant_torn_row(folder):
    mini.viquae(folder)
    (folder / "validation.jsonl").write_text('{"id": "x", ')
    return "viquae", "validation.jsonl:1"


def plant_cut_base(folder):
    mini.evqa(folder)
    text = (folder / "encyclopedic_kb_wiki.json").read_text()
    (folder / "encyclopedic_kb_wiki.json").write_text(text[:-30])
    return "evqa", "encyclopedic_kb_wiki.json"


def plant_absent_base(folder):
    mini.infoseek(folder)
    (folder / "infoseek_val_withkb.jsonl").unlink()
    return "infoseek", "infoseek_val_withkb.jsonl"


@pytest.mark.parametrize(
    "plant", [f for n, f in sorted(globals().items()) if n.startswith("plant_")]
)
def test_check_finds_each_planted_defect(plant, tmp_path, capsys):
    name, item = plant(tmp_path)
    assert any(item in line for line in checked(name, tmp_path).findings)
    assert main(["sources", "check", f"{name}:{tmp_path}", "--no-published-pins"]) == 1
    said = capsys.readouterr()
    assert f"{name}:{tmp_path}: " in said.err
    assert "--no-published-pins" in said.err or "benchmark" in said.err


def test_check_finds_questions_asked_twice_and_gold_outside_the_base(tmp_path):
    mini.put(tmp_path / "demur-map.yaml", "samples: {files: [q.jsonl], fields: {gold: gold}}\n")
    row = {"question": "Which?", "answers": ["x"], "gold": [{"id": "g", "text": "Text."}]}
    mini.lines(tmp_path / "q.jsonl", [row | {"id": "1"}, row | {"id": "2", "question": "which?"}])
    report = checked("generic", tmp_path)
    assert report.findings == ("q.jsonl:2 (2): the question and images of another sample: 1",)

    class Other:
        name, root, problems = "other", tmp_path, Problems()

        def samples(self):
            return iter(list(open_source("generic", tmp_path, Problems()).samples())[:1])

        def documents(self):
            from demur.core.records import Document

            yield Document(id="a", title="A", text="A.")
            yield Document(id="a", title="A", text="A.")

    assert check(Other()).findings == (
        "document a: two documents have this id",
        "gold (1): not in the knowledge base: g",
    )
    assert check(Other(), limit=1).findings == ()

    class Twice(Other):
        def samples(self):
            return iter(list(open_source("generic", tmp_path, Problems()).samples())[:1] * 2)

    assert "q.jsonl:1 (1)" in places(check(Twice()).findings)


def test_check_asks_what_a_build_asks(tmp_path):
    """What a build refuses is a finding, with the same words, whichever sample it is."""
    from demur.core.errors import BadInput
    from demur.pools.write import build

    folder = tmp_path / "data"
    mini.put(folder / "demur-map.yaml", MAPPED)
    mini.put(folder / "a.png", mini.png(1))
    good = {"answers": ["Text"], "gold": ["d1"], "ok": None}
    mini.lines(
        folder / "docs.jsonl",
        [{"id": "d1", "title": "T", "text": "Text."}, {"id": "d2", "title": "P", "pic": "a.png"}],
    )
    mini.lines(
        folder / "q.jsonl",
        [
            good | {"id": "good", "question": "Which word?"},
            good | {"id": "states", "question": "Which text has the word text?"},
            good | {"id": "goldless", "question": "Which one?", "gold": []},
            good | {"id": "shown", "question": "Which picture?", "image": "a.png", "gold": ["d2"]},
            good | {"id": "none", "question": "Which other?", "gold": [], "ok": "no"},
            {
                "id": "count",
                "question": "How many rings has 2-butanol?",
                "answers": ["2"],
                "gold": ["d1"],
            },
        ],
    )
    report = checked("generic", folder)
    with pytest.raises(BadInput) as refused:
        build(
            [open_source("generic", folder, Problems())],
            tmp_path / "pool",
            documents=True,
            for_release=True,
        )
    by_build = {line.split(": ", 1)[1].replace(": mine:", ": ") for line in refused.value.problems}
    by_check = {line.replace(" (a build refuses it)", "") for line in report.findings}
    assert by_build == by_check | {"q.jsonl:5 (none): it has no gold evidence"}
    assert len(by_check) == 3
    assert report.named["unanswerable"] == ("none",)
    assert report.named["without_gold"] == ("goldless", "none")
    assert report.named["not_for_a_release"] == ("none",)
    assert report.notes["rows taken for answerable, because ok is empty"] == 5


MAPPED = """
name: mine
samples:
  files: q.jsonl
  fields: {images: image, gold: gold, answerable: ok}
documents:
  files: docs.jsonl
  fields: {text: text, image: pic}
"""


def test_check_names_what_it_counts(tmp_path, capsys):
    mini.put(tmp_path / "demur-map.yaml", MAPPED)
    mini.lines(tmp_path / "docs.jsonl", [{"id": "d", "text": "Text.", "pic": None}])
    row = {"question": "Which?", "answers": ["x"], "image": None}
    mini.lines(
        tmp_path / "q.jsonl",
        [row | {"id": f"u{n:02}", "gold": [], "ok": "false"} for n in range(30)],
    )
    assert main(["sources", "check", f"generic:{tmp_path}"]) == 1  # thirty times the same question
    out = capsys.readouterr().out
    assert "u00, u01, u02, u03, u04, u05, u06, u07, and 22 more" in out
    assert "unusable     30 of them" in out


def test_an_empty_set_is_a_finding(tmp_path):
    mini.viquae(tmp_path)
    (tmp_path / "validation.jsonl").write_text("")
    assert any("no sample" in line for line in checked("viquae", tmp_path).findings)


def test_pins_name_expected_and_actual(tmp_path):
    mini.simpleqa(tmp_path)
    file = "simple_qa_test_set.csv"
    wrong = (
        Pin(file=file, rows=3),
        Pin(file=file, sha256="0" * 64),
        Pin(file=file, size_bytes=1),
        Pin(file="no", rows=1),
    )
    size = (tmp_path / file).stat().st_size
    found = find_mismatches(tmp_path, wrong)
    assert found[0] == f"{file}: expected rows 3, found 2"
    assert found[1].startswith(f"{file}: expected sha256 {'0' * 64}, found ")
    assert found[2] == f"{file}: expected size_bytes 1, found {size}"
    assert len(found) == 3
    assert find_mismatches(tmp_path, (Pin(file=file, rows=2, size_bytes=size),)) == []


@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("webqa", "WebQA_train_val.json", 3),
        ("mmlongbench", "data/samples.json", 4),
        ("mrag", "data/test-00009-of-000011.parquet", 1),
        ("infoseek", "Wiki6M_ver_1_0.jsonl.gz", 5),
        ("evqa", "test.csv", 5),
    ],
)
def test_rows_are_counted_by_the_kind_of_file(name, file, rows, tmp_path):
    assert rows_in(mini.BUILDERS[name](tmp_path) / file) == rows


def test_pins_of_a_folder_and_of_the_card(tmp_path, capsys):
    mini.simpleqa(tmp_path)
    assert main(["sources", "check", f"simpleqa:{tmp_path}"]) == 1
    out = capsys.readouterr().out
    assert "4326" in out
    assert "simple_qa_test_set.csv" in out
    pins = mini.put(tmp_path / "pins.yaml", "- {file: simple_qa_test_set.csv, rows: 2}\n")
    args = [
        "sources",
        "check",
        f"simpleqa:{tmp_path}",
        "--no-published-pins",
        "--pins",
        str(pins),
    ]
    assert main(args) == 0
    pins.write_text("- {file: simple_qa_test_set.csv}\n")
    assert main(args) == 2
    error = capsys.readouterr().err
    assert str(pins) in error
    assert "sha256, size_bytes or rows" in error


@pytest.mark.parametrize("name", names("sources"))
def test_every_source_has_a_valid_card(name, capsys):
    card = card_of(find("sources", name)[0])
    assert card is not None
    assert card.purpose
    assert card.licence
    assert main(["sources", "show", name]) == 0
    assert card.title in capsys.readouterr().out


def test_list_show_check_as_json(tmp_path, capsys):
    assert main(["sources", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["infoseek"]["place"] == "demur.sources.infoseek:InfoSeek"
    for name, (place, card) in list_sources().items():
        assert card == card_of(find("sources", name)[0])
        assert listed[name]["place"] == place
        assert listed[name]["card"]["licence"]
    assert main(["sources", "list"]) == 0
    printed = capsys.readouterr().out
    for name in ("crag_mm", "mmdocrag", "infoseek"):
        card = list_sources()[name].card
        shown = (card.licence, card.redistribution, card.modality, card.sizes)
        assert all(shown)
        assert all(text in printed for text in (*shown, *(pin.file for pin in card.published)))
    assert main(["sources", "show", "evqa", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["images"] == "first"
    mini.webqa(tmp_path)
    assert (
        main(
            [
                "sources",
                "check",
                f"webqa:{tmp_path}",
                "--no-published-pins",
                "--json",
                "--limit",
                "1",
            ]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (report["samples"], report["documents"], report["limited"]) == (1, 1, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "infosek"], 2, "'infoseek'?"),
        (["check", "webqa:nowhere"], 2, "'nowhere'"),
        (["check", "webqa:.?split"], 2, "'split'"),
        (["check", "webqa:.?problems=x"], 2, "'problems'"),
    ],
)
def test_wrong_use_is_one_line(words, code, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sources", *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_unpack(tmp_path, capsys):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr("x/y.png", mini.png(1))
    assert main(["sources", "unpack", str(tmp_path / "a.zip"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/x/y.png").read_bytes() == mini.png(1)
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as out:
        out.writestr("../evil.png", b"")
    assert main(["sources", "unpack", str(tmp_path / "a.zip"), str(tmp_path / "out")]) == 1
    assert "../evil.png" in capsys.readouterr().err


# --- a stranger's package, as docs/adding-a-source.md tells it ---


def code_blocks(text):
    """(title, body) of the fenced blocks of a Markdown file whose first line names a file."""
    blocks = []
    for part in text.split("```")[1::2]:
        first, _, body = part.partition("\n")
        if "title=" in first:
            blocks.append((first.split("title=")[1].strip('" '), body))
    return blocks


@pytest.fixture
def strangers_package(tmp_path, request):
    """The package of docs/adding-a-source.md, written file by file from the page and made importable."""
    page = (request.config.rootpath / "docs/adding-a-source.md").read_text(encoding="utf-8")
    files = dict(code_blocks(page))
    for name, body in files.items():
        mini.put(tmp_path / name, textwrap.dedent(body))
    import tomllib

    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = tmp_path / "demur_birds-0.1.dist-info"
    mini.put(
        info / "METADATA",
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
    )
    points = "".join(
        f"{name} = {value}\n" for name, value in project["entry-points"]["demur.sources"].items()
    )
    mini.put(info / "entry_points.txt", f"[demur.sources]\n{points}")
    mini.put(tmp_path / "data/oak.png", mini.png(3))
    return tmp_path


def demur(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "demur", *words],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
@pytest.mark.integration
def test_a_stranger_adds_a_source_by_the_page(strangers_package):
    listed = demur(strangers_package, "sources", "list", "--json")
    birds = json.loads(listed.stdout)["birds"]
    assert birds["place"] == "demur_birds:Birds"
    assert birds["card"]["modality"] == "text, some with an image; text evidence"
    shown = demur(strangers_package, "sources", "show", "birds")
    assert "Birds of the garden" in shown.stdout
    data = str(strangers_package / "data")
    found = demur(strangers_package, "sources", "check", f"birds:{data}", "--json")
    report = json.loads(found.stdout)
    assert (found.returncode, report["samples"], report["documents"], report["findings"]) == (
        0,
        2,
        2,
        [],
    )
    pooled = demur(
        strangers_package,
        "pool",
        "build",
        f"birds:{data}",
        "--out",
        str(strangers_package / "pool"),
        "--json",
    )
    assert pooled.returncode == 0, pooled.stderr
    assert json.loads(pooled.stdout)["samples"] == 2
    (strangers_package / "data/oak.png").unlink()
    broken = demur(strangers_package, "sources", "check", f"birds:{data}")
    assert broken.returncode == 1
    assert "birds.jsonl:2 (b2)" in broken.stdout


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("webqa:/data/webqa", ("webqa", Path("/data/webqa"), {})),
        ("evqa:kb", ("evqa", Path("kb"), {})),
        ("mmmu:set?split=dev", ("mmmu", Path("set"), {"split": "dev"})),
        ("mmmu:a?b", ("mmmu", Path("a?b"), {})),  # exists
        ("stub_source:Birds:data=2", ("stub_source:Birds", Path("data=2"), {})),
        ("wbqa:data", None),
        ("atlas", ("atlas", None, {})),
        ("handbook", None),
        ("parquet:a=b.parquet", None),
        ("jsonl:a:b", None),
        ("runs/lr=2/release", None),
        ("x=1", None),  # exists
    ],
)
def test_what_names_a_source_is_the_same_everywhere(tmp_path, monkeypatch, text, named):
    monkeypatch.chdir(tmp_path)
    for name in ("x=1", "a?b"):
        (tmp_path / name).mkdir()
    (tmp_path / "stub_source.py").write_text("class Birds:\n    def __init__(self, folder): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert source_named(text) == named


def test_a_source_without_its_folder_is_refused():
    for text in ("webqa:", "webqa:?split=val"):
        with raises(UsageError, "webqa:"):
            source_named(text)


@pytest.mark.parametrize("verb", ["check", "pool", "index", "mine", "run"])
def test_the_old_writing_of_a_source_is_refused_with_the_new(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    old = f"webqa={mini.webqa(tmp_path / 'w')}"
    words = {
        "check": ["sources", "check", old],
        "pool": ["pool", "build", old, "--out", "out"],
        "index": ["index", "build", old, "--out", "out"],
        "mine": ["mine", old, "--index", "i", "--out", "out"],
        "run": ["run", old, "--system", "reader"],
    }[verb]
    assert main(words) == 2
    assert f"write webqa:{tmp_path / 'w'}" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "pool", "index", "run"])
def test_a_source_is_written_in_one_way(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = f"webqa:{mini.webqa(tmp_path / 'w')}?split=val"
    words = {
        "check": ["sources", "check", text, "--no-published-pins"],
        "pool": ["pool", "build", text, "--out", "out"],
        "index": ["index", "build", text, "--encoder", "curation_world:quick", "--out", "out"],
        "run": ["run", text, "--system", "reader", "--plan"],
    }[verb]
    assert main(words) == 0, capsys.readouterr().err
