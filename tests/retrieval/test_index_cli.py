import json

import pytest
from small_pool import picture, pool_folder
from stub_encoder import StubEncoder

from demur.cli import main
from demur.cli.mine import _print, print_recall
from demur.core.errors import UntrustedFile
from demur.core.records import Document, Evidence, Role, Sample
from demur.core.store import write_records
from demur.retrieval.modes import Query
from demur.retrieval.recall import Choice
from demur.retrieval.search import Searcher

ENCODER = ["--encoder", "stub_encoder:stub"]


@pytest.fixture
def kb(tmp_path, monkeypatch):
    """A pool folder with documents and samples, and an index of it."""
    monkeypatch.chdir(tmp_path)
    pool_folder(tmp_path, text_question=True)
    assert main(["index", "build", ".", "--out", "index", *ENCODER]) == 0
    return tmp_path


def output(capsys):
    return json.loads(capsys.readouterr().out)


def test_build_info_and_search(kb, capsys):
    assert main(["index", "info", "index"]) == 0
    assert "passages" in capsys.readouterr().out
    assert main(["index", "info", "index", "--verify", "--json"]) == 0
    assert output(capsys)["counts"] == {
        "documents": 40,
        "pages": 10,
        "texts": 30,
        "images": 10,
        "skipped": 0,
    }
    assert (
        main(
            [
                "index",
                "search",
                "index",
                *ENCODER,
                "--text",
                "passage 7 about w2",
                "--mode",
                "lexical",
                "--json",
            ]
        )
        == 0
    )
    assert output(capsys)["hits"][0]["document"] == "t7"
    assert (
        main(["index", "search", "index", *ENCODER, "--image", "4.png", "-k", "2", "--json"]) == 0
    )
    found = output(capsys)
    assert found["mode"] == "image->image"
    assert found["hits"][0] | {"score": 1.0} == {
        "document": "i4",
        "score": 1.0,
        "rank": 1,
        "index_id": found["index"],
        "mode": "image->image",
        "title": "caption 4",
        "text": None,
        "page": "p4",
    }
    assert (
        main(
            [
                "index",
                "search",
                "index",
                *ENCODER,
                "--image",
                "4.png",
                "--text",
                "x",
                "--pages",
                "2",
                "--json",
            ]
        )
        == 0
    )
    assert output(capsys)["mode"] == "image->title/text->text"
    assert (
        main(["index", "search", "index", *ENCODER, "--image", "4.png", "--mode", "image-to-title"])
        == 0
    )
    assert "Page" in capsys.readouterr().out


def test_okapi_is_another_index_of_the_same_vectors(kb, capsys):
    build = ["index", "build", ".", "--out", "index", *ENCODER, "--lexical", "okapi"]
    assert main([*build, "--json"]) == 0
    lexical = output(capsys)["parts"]["lexical"]
    assert (lexical["method"], lexical["engine"]) == ("okapi", "rank-bm25")
    search = ["index", "search", "index", *ENCODER, "--mode", "lexical", "--json", "--text"]
    assert main([*search, "passage 7 about w2"]) == 0
    assert output(capsys)["hits"][0]["document"] == "t7"
    assert main(["index", "info", "index"]) == 0
    assert "rank-bm25" in capsys.readouterr().out


def test_chunks(kb, capsys):
    assert (
        main(
            [
                "index",
                "build",
                "jsonl:documents.jsonl",
                "--chunk",
                "3:1",
                "--out",
                "cut",
                *ENCODER,
                "--json",
            ]
        )
        == 0
    )
    assert output(capsys)["counts"]["texts"] == 60
    assert (
        main(["index", "build", "documents.jsonl", "--chunk", "3", "--out", "cut", *ENCODER]) == 2
    )


@pytest.mark.heavy
def test_mine(kb, capsys):
    command = [
        "mine",
        ".",
        "--index",
        "index",
        *ENCODER,
        "--out",
        "mined",
        "--text",
        "3",
        "--lexical",
        "2",
        "--visual",
        "2",
        "--modes",
        "image-to-image,text-to-text",
        "--json",
    ]
    assert main(command) == 0
    captured = capsys.readouterr().out
    summary = json.loads(captured[captured.index("{") :])
    assert summary["samples"] == 5
    assert summary["without_distractors"] == []
    by_image = next(r for r in summary["recall"] if r["source"] == "kb: pages by image")
    assert (by_image["chosen"], by_image["own_image_in_index"]) == ("image->image", 4)
    assert [m["value"] for m in by_image["modes"]["image->image"]] == [
        0.0
    ] * 4  # no page shows another image of it
    rows = [json.loads(line) for line in (kb / "mined" / "samples.jsonl").read_text().splitlines()]
    samples = [Sample.model_validate(row) for row in rows]
    for sample in samples:
        modes = [e.mode for e in sample.negatives]
        assert len(modes) <= 7
        assert all(
            e.origin == "mined" and e.index_id == summary["index"] and e.rank
            for e in sample.negatives
        )
        assert not {e.id for e in sample.negatives} & {e.id for e in sample.gold}
    assert "image->image/text->text" in [e.mode for e in samples[0].negatives]
    assert {"gold", "query image"} <= summary["left_out"].keys()
    drops = [json.loads(line) for line in (kb / "mined" / "drops.jsonl").read_text().splitlines()]
    assert sum(summary["left_out"].values()) == len(drops)
    before = (kb / "mined" / "samples.jsonl").read_bytes()
    assert main(command) == 0
    assert (kb / "mined" / "samples.jsonl").read_bytes() == before


@pytest.mark.heavy
def test_mine_for_diversity(kb):
    def mined(*words):
        assert (
            main(["mine", ".", "--index", "index", *ENCODER, "--out", "mined", "--json", *words])
            == 0
        )
        text = (kb / "mined" / "samples.jsonl").read_text()
        return [Sample.model_validate_json(line).negatives for line in text.splitlines()]

    quotas = ["--text", "3", "--lexical", "2", "--visual", "2"]
    plain, whole = mined(*quotas), mined(*quotas, "--diversity", "1")
    assert [[e.id for e in line] for line in whole] == [[e.id for e in line] for line in plain]
    assert all(e.mode.endswith(" mmr(1)") for line in whole for e in line)
    varied = mined(*quotas, "--diversity", "0.3")
    assert [[e.id for e in line] for line in varied] != [[e.id for e in line] for line in plain]
    assert [len(line) for line in varied] == [len(line) for line in plain]


def test_margins_are_measured_from_gold_that_was_not_found(kb, capsys):
    def left_out(*words):
        command = [
            "mine",
            ".",
            "--index",
            "index",
            *ENCODER,
            "--out",
            "mined",
            "--json",
            "--visual",
            "0",
            *words,
        ]
        assert main(command) == 0
        captured = capsys.readouterr().out
        rows = [
            json.loads(line) for line in (kb / "mined" / "drops.jsonl").read_text().splitlines()
        ]
        return json.loads(captured[captured.index("{") :]), {
            r["sample"] for r in rows if "margin" in r["reason"]
        }

    def asked(gold):
        write_records(kb / "samples.jsonl", [sample.model_copy(update={"gold": (gold,)})])

    sample = Sample.model_validate_json((kb / "samples.jsonl").read_text().splitlines()[3])
    searcher = Searcher(kb / "index", StubEncoder(name="stub_encoder:stub"))
    there = {
        hit.document: hit.score
        for hit in searcher.rerank([Query(sample.question)], [["t0", "t9", "t10", "t11"]], 4)[0]
    }
    asked(
        Evidence.of(searcher.documents["t0"], Role.GOLD)
    )  # its image opens the page of t9, t10 and t11 alone
    margin = (
        there["t0"] - (there["t10"] + there["t11"]) / 2
    )  # one of them is nearer; t9 holds the answer
    words = [
        "--text",
        "3",
        "--pages",
        "1",
        "--modes",
        "image-to-image,text-to-text",
        "--absolute-margin",
        str(margin),
    ]
    summary, by_margin = left_out(*words)
    assert by_margin == {"q3"}
    assert summary["left_out"]["within the margin of gold"] == 1
    assert summary["distractors"] == {"image->image/text->text": 1}
    asked(sample.gold[0].model_copy(update={"id": "gone"}))
    summary, _ = left_out("--text", "1", "--absolute-margin", "0.1")
    assert summary["left_out"]["no margin: the score of gold is not known"] == 1
    assert summary["without_distractors"] == []


@pytest.mark.heavy
def test_pages_by_source(kb, capsys):
    def found(pages):
        words = [
            "--out",
            "mined",
            "--json",
            "--visual",
            "0",
            "--text",
            "9",
            "--modes",
            "image-to-image,text-to-text",
        ]
        assert main(["mine", ".", "--index", "index", *ENCODER, *words, "--pages", pages]) == 0
        captured = capsys.readouterr().out
        at = {r["source"]: r["at"] for r in json.loads(captured[captured.index("{") :])["recall"]}
        rows = [
            json.loads(line) for line in (kb / "mined" / "samples.jsonl").read_text().splitlines()
        ]
        return at["kb: pages by image"], [len(row["negatives"]) for row in rows[:4]]

    assert found("1") == found("7,kb=1") == (1, [2, 2, 2, 2]), (
        "of three passages of a page, one is gold"
    )
    assert found("3,evqa=1") == found("3")
    assert (
        main(["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--pages", "3,evqaa=1"]) == 2
    )
    error = capsys.readouterr().err
    assert "evqaa" in error
    assert "kb" in error
    assert (
        main(["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--pages", "5,kb=none"]) == 2
    )
    assert "N,SOURCE=N" in capsys.readouterr().err


def test_an_unreadable_query_image_is_one_samples_matter(kb, capsys):
    (kb / "2.png").unlink()
    assert main(["mine", ".", "--index", "index", *ENCODER, "--out", "mined", "--json"]) == 0
    captured = capsys.readouterr().out
    summary = json.loads(captured[captured.index("{") :])
    assert summary["left_out"]["image cannot be read"] == 1
    assert summary["without_distractors"] == ["q2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["index", "search", "index", "--text", "x"], "this file would run stub_encoder:stub"),
        (["index", "search", "index", "--text", " "], "query is empty"),
        (["index", "search", "index", *ENCODER, "--text", "\udcff"], "not valid UTF-8"),
        (["index", "search", "index", *ENCODER, "--image", "."], "not a regular file"),
        (["index", "search", "index", *ENCODER, "--image", "/dev/zero"], "not a regular file"),
        (
            ["index", "build", "documents.jsonl", "--tokenizer", "t.json", "--out", "y", *ENCODER],
            "without --chunk",
        ),
        (["index", "build", "documents.jsonl", "", "--out", "y", *ENCODER], "a corpus has no name"),
        (["index", "search", "nowhere", "--text", "x"], "not an index folder"),
        (
            ["index", "build", "x.bin", "--out", "y", *ENCODER],
            "no such file|does not name a format",
        ),
        (
            ["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--modes", "text-to-image"],
            "finds neither pages",
        ),
        (
            ["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--text", "-1"],
            "greater than or equal to 0",
        ),
        (
            ["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--diversity", "2"],
            "outside 0 to 1",
        ),
        (
            ["mine", "atlas?answers=a", "--index", "index", *ENCODER, "--out", "m"],
            "option 'answers' is not known",
        ),
        (
            ["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--ray-address", "x:1"],
            "without --engine ray",
        ),
        (
            ["mine", ".", "--index", "index", *ENCODER, "--out", "m", "--text", "-2"],
            "greater than or equal to 0",
        ),
    ],
)
def test_errors_are_one_line(kb, capsys, words, says):
    capsys.readouterr()
    assert main(words) in (1, 2)
    error = capsys.readouterr().err
    assert any(part in error for part in says.split("|")), error
    assert error.count("\n") == 1


def test_pictures_differ():
    assert picture(1).tobytes() != picture(2).tobytes()


@pytest.mark.heavy
@pytest.mark.parametrize("lacks", ["files", "encoders", "parts"])
def test_a_manifest_that_says_too_little_is_refused(kb, capsys, lacks):
    path = kb / "index" / "manifest.json"
    path.write_text(
        json.dumps(
            {key: value for key, value in json.loads(path.read_text()).items() if key != lacks}
        )
    )
    assert main(["index", "info", "index"]) == 1
    assert f"{lacks}: Field required" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda m: m.update(files=[1]), "files: "),
        (
            lambda m: m["files"].update({"page_of.npy": {}}),
            "files.page_of.npy.bytes: ",
        ),
        (lambda m: m["parts"].update(passages={}), "parts.passages.kind: "),
        (
            lambda m: m["parts"]["passages"].update(kind="ivf-sq8"),
            "lists, nprobe and refine",
        ),
        (lambda m: m["encoders"].update(text={}), "encoders.text.name: "),
        (lambda m: m["counts"].pop("documents"), "counts.documents: "),
        (lambda m: m.update(parts=None), "parts: "),
        (lambda m: m["files"].pop("page_of.npy"), "files lacks page_of.npy"),
        (
            lambda m: m["files"].pop("parts/titles/vectors.npy"),
            "files lacks parts/titles/vectors.npy",
        ),
        (
            lambda m: m["files"].pop("documents/documents.jsonl"),
            "files lacks documents/documents.jsonl",
        ),
    ],
)
@pytest.mark.parametrize("words", [["info"], ["search", "--text", "x"]])
def test_a_manifest_of_another_shape_is_refused_in_one_line(kb, capsys, changed, says, words):
    path = kb / "index" / "manifest.json"
    manifest = json.loads(path.read_text())
    changed(manifest)
    path.write_text(json.dumps(manifest))
    capsys.readouterr()
    assert main(["index", words[0], "index", *words[1:]]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.heavy
def test_an_output_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "kb.jsonl").write_text('{"id": "1", "title": "A", "text": "x"}\n')
    (tmp_path / "taken").write_text("mine")
    assert (
        main(["index", "build", str(tmp_path / "kb.jsonl"), "--out", str(tmp_path / "taken")]) != 0
    )
    assert str(tmp_path / "taken") in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_index_of_an_unregistered_kind_is_opened_by_no_door(kb, monkeypatch):
    monkeypatch.syspath_prepend(str(kb))
    (kb / "evil.py").write_text("import pathlib\npathlib.Path('ran').touch()\nclass K: ...\n")
    path = kb / "index" / "manifest.json"
    whole = path.read_text()
    path.write_text(whole.replace('"kind": "bm25"', '"kind": "evil:K"'))
    assert path.read_text() != whole
    try:
        with pytest.raises(UntrustedFile) as refused:
            Searcher(kb / "index", StubEncoder(name="stub_encoder:stub"))
        assert refused.value.acts == (("run", "evil:K"),)
        assert not (kb / "ran").exists()
    finally:
        path.write_text(whole)


def test_texts_and_names_are_shown_and_never_obeyed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    nasty = "close [/b] a[i] [red]red \x1b[31m\x9b5mlight \x1b]0;title\x07"
    write_records(
        tmp_path / "kb.jsonl",
        [Document(id="[x]", title=nasty, text=nasty), Document(id="y\x1b[2J", title="", text="")],
    )
    assert main(["index", "build", "kb.jsonl", "--out", "o[/x]", "--skip-bad", *ENCODER]) == 0
    told = capsys.readouterr()
    assert "o[/x]" in told.out
    assert "y[2J" in told.err
    assert main(["index", "info", "o[/x]"]) == 0
    assert main(["index", "search", "o[/x]", *ENCODER, "--text", "close"]) == 0
    found = capsys.readouterr().out
    for shown in ("[x]", "close [/b] a[i] [red]red [31m5mlight ]0;title"):
        assert shown in found
    assert not {"\x1b", "\x9b", "\x07"} & set(told.out + told.err + found)


def test_what_mining_prints_is_shown_and_never_obeyed(capsys):
    print_recall(Choice("kb[/x]", "image->image[/y]", 5, (("image->image[/y]", ()),)))
    _print(
        {
            "samples": 1,
            "index": "[/i]",
            "distractors": {"m[/m]": 1},
            "left_out": {"\x1b[2J[r]": 2},
            "without_distractors": [],
            "skipped": ["row \x1b[2J[/z]"],
        }
    )
    told = capsys.readouterr()
    for shown in ("kb[/x]", "image->image[/y]", "[/i]", "m[/m]", "[2J[r]"):
        assert shown in told.out
    assert told.err == "skipped: row [2J[/z]\n"
    assert "\x1b" not in told.out


def test_samples_of_a_source_are_read_by_its_options(kb, capsys):
    beir = kb / "beir"
    (beir / "qrels").mkdir(parents=True)
    rows = [{"_id": f"t{3 * i}", "title": "", "text": f"passage {3 * i}"} for i in range(4)]
    (beir / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    query = {"_id": "q", "text": "Which part is number 0?", "replies": ["nothing"]}
    (beir / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tt0\t1\n")
    words = [
        "mine",
        f"beir:{beir}",
        "--index",
        "index",
        *ENCODER,
        "--out",
        "mined",
        "--visual",
        "0",
    ]
    assert main(words) == 1
    assert "beir:FOLDER?answers=FIELD" in capsys.readouterr().err
    assert main([words[0], f"{words[1]}?answers=replies", *words[2:]]) == 0
    (sample,) = (kb / "mined" / "samples.jsonl").read_text().splitlines()
    assert Sample.model_validate_json(sample).answers.accepted == (("nothing",),)
    assert "warning" not in capsys.readouterr().err
    (beir / "corpus.jsonl").write_text(json.dumps(rows[0] | {"_id": "elsewhere"}) + "\n")
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\telsewhere\t1\n")
    assert main([words[0], f"{words[1]}?answers=replies", *words[2:]]) == 0
    assert "gold of none of 1" in capsys.readouterr().err
