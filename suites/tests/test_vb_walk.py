"""VB from a user's own files to tables and a page, by command and from Python; counted again from the raw files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from errors import places, raises

import demur
import demur_suites
import demur_suites.vb as vb
from demur.cli import main
from demur.core.errors import BadInput, UsageError
from demur.core.store import Problems
from demur.testing import running
from demur_suites import read_outputs
from demur_suites.vb.items import CELLS, read
from demur_suites.vb.replies import PROBLEMS

SHEET_CELLS = ("I0q0", "I0q1", "I1q0", "I1q1")
GOLD = ("NOT_VISIBLE", "VISIBLE", "VISIBLE", "NOT_VISIBLE")


def said(label: str, confidence: object = 0.9, code: str = "NONE") -> str:
    return json.dumps(
        {
            "label": label,
            "reason_code": code,
            **({} if confidence is None else {"confidence": confidence}),
        }
    )


def sheet(
    path: Path,
    outputs: dict[str, list[list[str]]],
    ids: list[str],
    status: dict[int, str] | None = None,
) -> Path:
    """A sheet in the published layout, with ``ID`` and ``id`` both in it."""
    columns = [
        "ID",
        "Status",
        "base_setup",
        "base_question",
        "flip_question",
        "flip_change",
        "pic_base",
        "pic_flip",
        "indoor_outdoor",
        "id",
        *(f"{m}_{c}_json" for m in outputs for c in SHEET_CELLS),
    ]
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(columns)
        for n, id in enumerate(ids):
            cells = [text for m in outputs for text in outputs[m][n]]
            writer.writerow(
                [
                    id,
                    (status or {}).get(n, "Done"),
                    "a désk",
                    f"Is thing {n} visible?",
                    f"Is thing {n} hidden?",
                    "moved",
                    f"./Images/IMG_{n}.jpeg",
                    f"./Images/IMG_{n}b.jpeg",
                    "indoor",
                    id,
                    *cells,
                ]
            )
    return path


def right(code: str = "OCCLUSION") -> list[str]:
    return [said(label, 0.8, "NONE" if label == "VISIBLE" else code) for label in GOLD]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    broken = [
        [
            said("VISIBLE"),
            "Sure! " + said("VISIBLE"),
            said("VISIBLE"),
            said("NOT_VISIBLE"),
        ],  # BASE wrong, unparsable
        [
            said("NOT_VISIBLE"),
            said("VISIBLE", None),
            said("PERHAPS"),
            "",
        ],  # no confidence, invalid label, no output
        [
            said("UNDETERMINABLE_FROM_EVIDENCE", None, "OCCLUSION"),
            said("VISIBLE"),
            said("NOT_VISIBLE"),
            "ERROR: 500",
        ],
        [said("NOT_VISIBLE"), said("VISIBLE"), said("VISIBLE"), said("NOT_VISIBLE")],
        right(),
    ]
    return sheet(
        tmp_path / "sheet.csv",
        {"good-1": [right() for _ in range(5)], "broken-2": broken},
        ["GD-01", "OC-02", "MA-03", "OF-04", "LD-05"],
        status={4: "Draft"},
    )


def table(text: str, name: str) -> list[dict[str, object]]:
    return json.loads(text)[name]


def test_a_published_sheet_is_scored_by_one_command(published, capsys):
    assert main(["suite", "score", "vb", str(published), "--json", "--resamples", "0"]) == 0
    out = capsys.readouterr().out
    good, broken = (
        {row["Model"]: row for row in table(out, "vb-headline")}[m] for m in ("good-1", "broken-2")
    )
    assert good["CAA"]["value"] == pytest.approx(0.8)
    assert good["n"] == 12  # the draft row does not count
    # again, from the raw sheet, in a few lines: headline cells, measured mode
    credit, n, base, image = 0.0, 0, [], []
    with published.open(newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            if row["Status"] != "Done":
                continue
            labels = []
            for cell, gold in zip(SHEET_CELLS[:3], GOLD, strict=False):
                text = row[f"broken-2_{cell}_json"]
                try:
                    got = json.loads(text)
                except ValueError:
                    got = {"label": "?", "confidence": 0}
                labels.append(got["label"] == gold)
                if got["label"] == "UNDETERMINABLE_FROM_EVIDENCE":
                    credit, n = credit + 0.25, n + 1
                elif "confidence" in got:
                    credit, n = credit + (got["confidence"] if labels[-1] else 0), n + 1
            base.append(labels[0])
            image.append(labels[2])
    assert (broken["CAA"]["value"], broken["n"]) == (pytest.approx(credit / n), n)
    assert broken["I_MEFR"]["value"] == sum(i for b, i in zip(base, image, strict=True) if b) / sum(
        base
    )
    replies = [
        {kind: row[f"{cells} {kind}"] for kind in PROBLEMS}
        for row in table(out, "vb-replies")
        for cells in ("headline", "all four")
    ]
    assert [
        (r["no output"], r["unparsable"], r["invalid label"], r["no confidence"]) for r in replies
    ] == [
        (0, 0, 0, 0),
        (0, 0, 0, 0),
        (0, 1, 1, 1),
        (2, 1, 1, 1),
    ]


@pytest.mark.heavy
def test_modes_models_and_forms(published, capsys, tmp_path):
    assert (
        main(
            [
                "suite",
                "score",
                "vb",
                str(published),
                "--mode",
                "paper",
                "--model",
                "broken-2",
                "--json",
            ]
        )
        == 0
    )
    [row] = table(capsys.readouterr().out, "vb-headline")
    assert (
        row["n"] == 10
    )  # 12 less unparsable, and an answer without a confidence; the ABSTAIN and the invalid label stay
    assert (
        main(
            [
                "suite",
                "score",
                "vb",
                str(published),
                "--form",
                "latex",
                "--tables",
                str(tmp_path / "t"),
            ]
        )
        == 0
    )
    assert "\\toprule" in capsys.readouterr().out
    assert len(list((tmp_path / "t").glob("vb-headline.*"))) == 4
    assert main(["suite", "score", "vb", str(published), "--model", "nobody"]) == 2
    assert "good-1" in capsys.readouterr().err
    found = demur_suites.suite("vb")
    loaded = found.open(published)
    [score] = found.scores(
        loaded.items, loaded.outputs, models=["broken-2"], mode="paper", resamples=0
    )
    assert score.measures["caa"].n == 10
    with raises(UsageError, "mode", cure="measured, paper"):
        found.scores(loaded.items, loaded.outputs, mode="printed")


def test_a_sheet_without_its_questions_is_scored_alike_and_nobody_is_asked(
    published, tmp_path, capsys
):
    header, *rows = csv.reader(io.StringIO(published.read_text(encoding="utf-8"), newline=""))
    held = [n for n, name in enumerate(header) if name not in ("base_question", "flip_question")]
    bare = tmp_path / "bare.csv"
    with bare.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([row[n] for n in held] for row in (header, *rows))
    figures = []
    for path in (published, bare):
        assert main(["suite", "score", "vb", str(path), "--mode", "paper", "--json"]) == 0
        figures.append(json.loads(capsys.readouterr().out))
    assert figures[0] == figures[1]
    suite = demur_suites.suite("vb")
    with raises(UsageError, item="(GD-01)", cure="base_question"):
        suite.run(bare, lambda given: "{}", tmp_path / "runs")
    (tmp_path / "both").mkdir()
    for n, path in enumerate((bare, published)):
        (tmp_path / "both" / f"{n}.csv").write_bytes(path.read_bytes())
    assert all(any(f.questions) for f in suite.open(tmp_path / "both").items)


def test_how_a_sheet_is_written_changes_no_figure(published, tmp_path):
    """Rows and columns in another order, unused columns, Excel's encoding and line ends, rows in two files, .CSV."""
    suite = demur_suites.suite("vb")
    header, *rows = csv.reader(io.StringIO(published.read_text(encoding="utf-8"), newline=""))

    def written(
        path: str, header: list[str], rows: list[list[str]], encoding: str = "utf-8"
    ) -> Path:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        with (tmp_path / path).open("w", newline="", encoding=encoding) as handle:
            csv.writer(
                handle, lineterminator="\r\n" if encoding == "utf-8-sig" else "\n"
            ).writerows([header, *rows])
        return tmp_path / path

    def figures(path: Path) -> list[object]:
        loaded = suite.open(str(path))
        scores = suite.scores(
            loaded.items, loaded.outputs, models=["good-1", "broken-2"], resamples=50
        )
        return [t.records() for t in suite.tables(scores, loaded.items)]

    first = figures(published)
    written("two/1.csv", header, rows[:2])
    written("two/2.csv", header, rows[2:])
    for path in (
        written("rows.csv", header, rows[::-1]),
        written("columns.csv", header[::-1], [row[::-1] for row in rows]),
        written("more.csv", [*header, "note", "m_I2q0_json"], [[*row, "x", "y"] for row in rows]),
        written("excel.csv", header, rows, "utf-8-sig"),
        written("with a space/SHEET.CSV", header, rows).parent,
        tmp_path / "two",
    ):
        assert figures(path) == first, path.name


def test_a_hostile_cell_is_that_cells_failure(tmp_path, capsys):
    cells = [
        "[" * 200_000,
        '{"label": {"a": ' * 2000,
        said("VISIBLE", 10**400),
        "\ud800".encode("utf-8", "replace").decode(),
    ]
    path = sheet(tmp_path / "s.csv", {"m": [cells, right()]}, ["GD-01", "GD-02"])
    raw = path.read_bytes().replace(b"[[[[", b"\xff\xfe[[", 1)  # bytes that are no UTF-8
    path.write_bytes(raw)
    assert main(["suite", "score", "vb", str(path), "--json", "--resamples", "0"]) == 0
    [row] = table(capsys.readouterr().out, "vb-replies")
    assert (row["headline unparsable"], row["headline no confidence"]) == (2, 1)


def test_bad_families_are_named_with_file_and_line(tmp_path, capsys):
    lines = [
        {
            "id": "a",
            "category": "OCCLUSION",
            "base_question": "Is A visible?",
            "edited_question": "is a  visible?",
        },
        {
            "id": "b",
            "category": "SHADOW",
            "base_question": "Is B visible?",
            "edited_question": "Is B hidden?",
        },
        {
            "id": "c",
            "category": "OCCLUSION",
            "base_question": "Is C visible?",
            "edited_question": "Is C hidden?",
            "gold": {
                "BASE": "VISIBLY_TRUE",
                "TEXT_FLIP": "VISIBLY_TRUE",
                "IMAGE_FLIP": "VISIBLY_TRUE",
                "DOUBLE_FLIP": "VISIBLY_FALSE",
            },
        },
        {
            "id": "d",
            "category": "MULTI_AGENT_SECOND_ORDER",
            "base_question": "Does he know?",
            "edited_question": "Does she?",
        },
        {
            "id": "e",
            "category": "MULTI_AGENT_SECOND_ORDER",
            "base_question": "Does Bob know that Al sees?",
            "edited_question": "Is Bob unaware that Al sees?",
            "agents": ["Bob", "Al"],
        },
        {
            "id": "f",
            "category": "OCCLUSION",
            "base_question": "F?",
            "edited_question": "Not F?",
            "base_image": "../../etc/passwd",
        },
        {"id": "e", "category": "OCCLUSION", "base_question": "E?", "edited_question": "Not E?"},
        {
            "id": "h",
            "category": "OCCLUSION",
            "base_question": "H?",
            "edited_question": "Not H?",
            "base_image": "1.png",
            "edited_image": "2.png",
        },
        {
            "id": "g",
            "category": "OCCLUSION",
            "base_question": "G?",
            "edited_question": "Not G?",
            "gold": {
                "BASE": "ABSTAIN",
                "TEXT_FLIP": "ABSTAIN",
                "IMAGE_FLIP": "VISIBLY_TRUE",
                "DOUBLE_FLIP": "VISIBLY_FALSE",
            },
        },
    ]
    path = tmp_path / "families.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["suite", "check", "vb", str(path)]) == 1
    with raises(BadInput) as refused:
        demur_suites.suite("vb").open(path)
    at = [place.partition(" (")[0] for place in places(refused.value.problems)]
    assert at == [f"families.jsonl:{line}" for line in (1, 2, 3, 4, 6, 7, 8)]
    assert main(["suite", "check", "vb", str(tmp_path), "--skip-bad"]) == 0
    loaded = demur_suites.suite("vb").open(tmp_path, skip_bad=True)
    assert ([family.id for family in loaded.items], loaded.skipped) == (["e", "g"], 7)
    assert [n for note, n in loaded.notes.items() if "ABSTAIN" in note] == [1]


def test_two_sheets_of_one_folder_are_one_set(tmp_path):
    sheet(tmp_path / "a.csv", {"a": [right()]}, ["GD-01"])
    sheet(tmp_path / "b.csv", {"b": [right()]}, ["GD-01"])
    found = read(tmp_path, Problems())
    assert (len(found.items), sorted(found.outputs)) == (1, ["a", "b"])
    with raises(UsageError, "families.jsonl", item="empty", cure="demur suite build vb"):
        read((tmp_path / "empty").mkdir() or tmp_path / "empty", Problems())


# --- the small real set -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def visibility(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vb") / "set"
    assert main(["suite", "build", "vb", "--out", str(out)]) == 0
    return out


@pytest.mark.reference
def test_the_made_set_is_sound_and_the_same_again(visibility, tmp_path):
    again = demur_suites.suite("vb").build(tmp_path / "again")
    files = sorted(p.relative_to(visibility) for p in visibility.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    assert all((visibility / f).read_bytes() == (again / f).read_bytes() for f in files)
    families = demur_suites.suite("vb").open(visibility).items
    assert len(families) >= 40
    assert all(f.strict and f.licence and f.provenance["image_edit"] for f in families)


@pytest.mark.reference
def test_the_truth_of_the_made_claims_follows_from_their_pixels(visibility):
    """Covered: one colour where the subject was. Cropped: the base is a part of the edited photo. Signs: no strokes left."""
    import numpy as np
    from PIL import Image

    known = json.loads(
        Path(vb.__file__).with_name("data").joinpath("sample-photos.json").read_text()
    )

    def grey(name: str) -> np.ndarray:
        return np.asarray(Image.open(visibility / "images" / name).convert("L"), dtype=float)

    for number, box in enumerate(known["covered"].values(), start=1):
        base = grey(f"OC-{number:02d}-base.jpg")
        height, width = base.shape
        x0, y0, x1, y1 = box
        inside = base[
            int(y0 * height) + 8 : int(y1 * height) - 8, int(x0 * width) + 8 : int(x1 * width) - 8
        ]
        assert inside.std() < 2
    for number, box in enumerate(known["cropped"].values(), start=1):
        base, edited = grey(f"OF-{number:02d}-base.jpg"), grey(f"OF-{number:02d}-edited.jpg")
        x0, y0 = round(box[0] * edited.shape[1]), round(box[1] * edited.shape[0])
        part = edited[y0 : y0 + base.shape[0], x0 : x0 + base.shape[1]]
        assert np.abs(part - base).mean() < 3
        assert base.size < 0.55 * edited.size
    for number in range(1, 25):
        base, edited = grey(f"LD-{number:02d}-base.jpg"), grey(f"LD-{number:02d}-edited.jpg")
        assert base.shape == edited.shape
        # black strokes on white: many steps of more than 150 grey levels between neighbours, in the near sign alone
        strokes = [(np.abs(np.diff(image, axis=1)) > 150).sum() for image in (base, edited)]
        assert strokes[1] > 300 + 3 * strokes[0]


def photo_says(body: dict) -> str:
    text = json.dumps(body)
    true = "impossible" in text
    return said("VISIBLY_TRUE" if true else "VISIBLY_FALSE", 0.7)


@pytest.mark.slow
@pytest.mark.integration
def test_two_systems_are_asked_and_the_page_is_made(visibility, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    out = tmp_path / "runs"
    with running(reply=photo_says) as server:
        model = f"model:http://127.0.0.1:{server.port}/v1#text"
        words = [
            "suite",
            "run",
            "vb",
            str(visibility),
            "--system",
            model,
            "python:examples.seeing:always_true",
            "--out",
            str(out),
        ]
        assert main([*words, "--limit", "6", "--json", "--resamples", "0"]) == 0
        assert server.requests == 24
        assert main([*words, "--limit", "6", "--json"]) == 0  # again: nothing is asked twice
        assert server.requests == 24
    found = {
        row["Model"]: row
        for row in table(capsys.readouterr().out.partition("]\n}")[0] + "]\n}", "vb-headline")
    }
    text, true = found["model:text"], found["python:examples.seeing:always_true"]
    # by the words alone: BASE and TEXT_FLIP right, IMAGE_FLIP wrong; saying yes: both flips right, BASE wrong
    assert (text["CAA"]["value"], text["I_MEFR"]["value"], text["T_MEFR"]["value"]) == (
        pytest.approx(1.4 / 3),
        0,
        1,
    )
    assert (true["CAA"]["value"], true["MEFR"]["value"]) == (pytest.approx(0.6), None)
    page = tmp_path / "vb.html"
    assert main(["suite", "report", "vb", str(out), "--trust-code", "-o", str(page)]) == 0
    html = page.read_text(encoding="utf-8")
    assert html.count('<details class="card">') == 48
    assert "<script" not in html
    outputs = read_outputs([out])
    assert {len(cells) for cells in outputs.values()} == {24}
    rows = {m: {q: r.text for q, r in cells.items()} for m, cells in outputs.items()}
    lines = [
        {"id": q, "system": m, "output": t} for m, cells in rows.items() for q, t in cells.items()
    ]
    file = tmp_path / "outputs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_outputs([file]) == {
        m: {q: type(r)(text=r.text) for q, r in c.items()} for m, c in outputs.items()
    }
    assert (
        main(
            [
                "suite",
                "score",
                "vb",
                str(file),
                "--items",
                str(visibility),
                "--json",
                "--resamples",
                "0",
            ]
        )
        == 0
    )
    again = {
        row["Model"]: row
        for row in table(capsys.readouterr().out.partition("\n")[2], "vb-headline")
    }
    assert again["model:text"]["CAA"] == text["CAA"]
    suite = demur_suites.suite("vb")
    fewer = suite.open(visibility).items[1:]
    with raises(UsageError, cure="/"):
        suite.scores(fewer, outputs)


def test_a_cell_that_two_sheets_fill_differently_is_told_and_the_first_kept(tmp_path):
    sheet(tmp_path / "a.csv", {"m": [right()]}, ["GD-01"])
    sheet(tmp_path / "b.csv", {"m": [["junk"] * 4]}, ["GD-01"])
    problems = Problems()
    assert read(tmp_path, problems).outputs["m"]["GD-01/BASE"].text == right()[0]
    assert len(problems) == 4
    row, other = ({"m": [right(), right()]}, {"m": [right(), ["junk"] * 4]})
    [
        sheet(tmp_path / f"{n}.csv", said, ["GD-01", "GD-01"])
        for n, said in (("same", row), ("twice", other))
    ]
    for name in ("same", "twice"):
        problems = Problems()
        assert (
            read(tmp_path / f"{name}.csv", problems).outputs["m"]["GD-01/BASE"].text == right()[0]
        )
        assert len(problems) == 1
    with pytest.raises(BadInput):
        demur_suites.suite("vb").open(tmp_path / "twice.csv")
    assert main(["suite", "score", "vb", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]) == 2


def test_no_name_of_a_photo_in_a_sheet_is_fatal_or_leads_out_of_its_folder(tmp_path):
    (tmp_path / "set").mkdir()
    path = sheet(tmp_path / "set" / "s.csv", {"m": [right()]}, ["GD-01"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Images/", "Images/" + "x" * 5000 + "\0"), encoding="utf-8")
    assert read(path, Problems()).items[0].images == (None, None)
    path.write_text(text, encoding="utf-8")
    [given, _] = (
        row[name] for row in csv.DictReader(text.splitlines()) for name in ("pic_base", "pic_flip")
    )
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    (tmp_path / "set" / Path(given).name).symlink_to(tmp_path / "secret.png")
    # A link that stands in the user's own folder is the user's; a name in the sheet that leads out is not.
    assert read(path, Problems()).items[0].images[0] is not None
    path.write_text(text.replace(given, "../secret.png"), encoding="utf-8")
    outside = read(path, Problems())
    assert outside.items[0].images[0] is None


def test_what_was_not_asked_is_no_failed_call(tmp_path):
    suite = demur_suites.suite("vb")
    loaded = suite.open(
        sheet(tmp_path / "s.csv", {"m": [right()] * 3}, ["GD-01", "MA-02", "OC-03"])
    )
    said = {
        id: r
        for id, r in loaded.outputs["m"].items()
        if id.startswith("GD-01") or id == "MA-02/BASE"
    }
    for mode in ("measured", "paper"):
        [score] = suite.scores(loaded.items, {"m": said}, mode=mode, resamples=5)
        assert (score.counts["families"], score.counts["families_not_asked"]) == (2, 1)
        assert (score.counts["not_asked"], score.counts["no_output"]) == (2, 0)
        assert {m.failed for m in score.measures.values()} == {0}
        assert (score.measures["coverage"].value, score.measures["coverage"].n) == (1, 4)
    assert "2 of 3 strict families" in suite.tables([score], loaded.items)[0].render("terminal")


def test_what_is_left_out_is_counted_among_a_measures_own_cells(published):
    suite = demur_suites.suite("vb")
    loaded = suite.open(published)
    [score] = suite.scores(
        loaded.items, loaded.outputs, models=["broken-2"], mode="paper", resamples=0
    )
    # second order: one family of three headline cells; its ABSTAIN states no confidence and counts
    lost = {name: (m.n, m.unjudged, m.failed) for name, m in score.measures.items()}
    assert lost["tom_acc"] == (3, 0, 0)
    assert lost["df_acc"] == (2, 0, 2)
    assert lost["caa"] == (10, 2, 0)
    table = suite.tables([score], loaded.items)[0]
    assert "n of ToM" in table.render("csv")
    assert "0.333 [0.061, 0.792]" in table.render("terminal")  # ToMAcc with Wilson's interval


def reply(given: dict) -> str:
    return said("VISIBLY_TRUE", 0.9)


async def reply_later(given: dict) -> str:
    return said("VISIBLY_TRUE", 0.9)


@pytest.mark.slow
def test_functions_at_hand_and_one_system_are_asked_from_python(visibility, tmp_path):
    import asyncio

    suite = demur_suites.suite("vb")
    folders = suite.run(visibility, [reply, reply_later], tmp_path / "two", limit=1)

    async def cell_of_a_notebook() -> list[Path]:
        return suite.run(str(visibility), reply, str(tmp_path / "one"), limit=1)

    folders += asyncio.run(cell_of_a_notebook())
    assert [len(cells) for folder in folders for cells in read_outputs(folder).values()] == [
        4,
        4,
        4,
    ]
    with raises(UsageError, "int"):
        suite.run(visibility, [7], tmp_path / "none", limit=1)


@pytest.mark.heavy
def test_options_are_seen_to_before_anybody_is_asked(visibility, tmp_path, capsys):
    words = [
        "suite",
        "run",
        "vb",
        str(visibility),
        "--system",
        "python:examples.seeing:always_true",
        "--limit",
        "1",
    ]
    for option, value in (("--alpha", "7"), ("--alpha", "nan"), ("--resamples", "-1")):
        assert main([*words, "--out", str(tmp_path / "runs"), option, value]) == 2
        assert option.strip("-") in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    with raises(UsageError, "resamples", cure="0"):
        demur_suites.suite("vb").check_options({"resamples": "many"})


@pytest.mark.slow
@pytest.mark.integration
def test_a_run_is_scored_after_its_photos_are_gone_and_asked_within_its_limit(
    visibility, tmp_path, capsys
):
    import shutil

    items = tmp_path / "items"
    shutil.copytree(visibility, items)
    lines = [
        json.loads(line)
        for line in (items / "families.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines[5]["base_image"] = ""
    (items / "families.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    suite = demur_suites.suite("vb")
    with raises(UsageError, "1 of 6", item=items):
        suite.run(items, reply, tmp_path / "runs", limit=6)
    [folder] = suite.run(items, reply, tmp_path / "runs", limit=2)
    capsys.readouterr()
    assert (
        main(["suite", "score", "vb", str(folder), "--trust-code", "--json", "--resamples", "0"])
        == 0
    )
    assert "other words" not in capsys.readouterr().err
    text = (items / "families.jsonl").read_text(encoding="utf-8")
    (items / "families.jsonl").write_text(
        text.replace(lines[1]["base_question"], "Is the zebra visible?", 1)
    )
    assert (
        main(["suite", "score", "vb", str(folder), "--trust-code", "--json", "--resamples", "0"])
        == 0
    )
    assert "2 of 8 replies of" in capsys.readouterr().err
    (items / lines[0]["edited_image"]).unlink()
    assert main(["suite", "score", "vb", str(folder), "--trust-code"]) == 1
    assert (
        main(
            [
                "suite",
                "score",
                "vb",
                str(folder),
                "--trust-code",
                "--skip-bad",
                "--json",
                "--resamples",
                "0",
            ]
        )
        == 0
    )
    assert table(capsys.readouterr().out, "vb-headline")[0]["n"] == 3
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(
        '{"id": 1}\n' + json.dumps({"id": "OC-02/BASE", "output": said("VISIBLY_TRUE")}) + "\n"
    )
    assert (
        main(["suite", "score", "vb", str(outputs), "--items", str(visibility), "--skip-bad"]) == 0
    )


def test_a_run_that_was_killed_is_told_apart_from_none(tmp_path):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "journal.jsonl").touch()
    with raises(UsageError, item="a"):
        read_outputs(tmp_path / "runs")


def test_two_runs_of_one_name_are_not_poured_into_one(visibility, tmp_path):
    """The second run, of an edited system, once took the first one's place without a word."""
    suite = demur_suites.suite("vb")
    [one] = suite.run(visibility, reply, tmp_path / "monday", limit=2)
    [other] = suite.run(visibility, reply, tmp_path / "tuesday", limit=2)
    with raises(UsageError, "8", item=other):
        read_outputs([one, other])
    assert len(read_outputs([one])) == 1
    (one / "responses.jsonl").write_text(
        (one / "responses.jsonl").read_text() + '{"ask": "x", "response": {}}\n'
    )
    with raises(BadInput, item="responses.jsonl (x)"):
        read_outputs([one])


def test_families_without_photos_cannot_be_asked_about(published, capsys):
    assert (
        main(
            ["suite", "run", "vb", str(published), "--system", "python:examples.seeing:always_true"]
        )
        == 2
    )
    assert "GD-01" in capsys.readouterr().err


def test_outputs_that_are_none_are_named(tmp_path):
    file = tmp_path / "o.csv"
    file.write_text("id,output\nGD-01/BASE,x\nGD-01/BASE,y\n")
    with raises(BadInput, item="(GD-01/BASE)"):
        read_outputs([file])


def test_questions_are_asked_as_one_prompt_in_the_users_turn(visibility):
    from demur.scenarios.conditions import condition
    from demur.scenarios.render import render

    suite = demur_suites.suite("vb")
    task = suite.tasks(suite.open(visibility).items)[0]
    messages = render(task.ask, condition(task.ask.condition), suite.prompts()).messages
    assert [m.role for m in messages] == ["user"]
    assert messages[0].parts[-1].text.endswith(f"Question: {task.ask.question}")
    assert task.ask.sample.endswith(CELLS[0].value)


def test_no_other_room_knows_a_suites_words():
    root = Path(demur.__file__).parent
    for room in ("pipeline", "calls", "judge", "scenarios", "report"):
        for path in (root / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8").lower()
            assert "text_flip" not in text, path
            assert "visibly" not in text, path


@pytest.mark.integration
def test_the_page_shows_hostile_families_as_text(tmp_path, page_of):
    """In Chromium: nothing of a question, an id, a model's name or a reply runs or leaves its place."""
    hostile = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    path = sheet(tmp_path / "s.csv", {hostile: [[hostile, *right()[1:]]]}, ["GD-01" + hostile])
    text = path.read_text(encoding="utf-8").replace("Is thing 0 visible?", f"Is {hostile} visible?")
    path.write_text(text, encoding="utf-8")
    page = tmp_path / "page.html"
    assert main(["suite", "report", "vb", str(path), "-o", str(page)]) == 0
    opened = page_of(page)
    assert opened.title() == "VB: visibility families"
    assert opened.locator(".card").count() == 1
    assert opened.locator(".card script, .card img").count() == 0
    opened.locator(".card summary").click()
    assert "onerror" in opened.locator(".card").inner_text()
