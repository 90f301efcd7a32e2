"""Labelling tasks: order, journal, undo, crashes, forms of other tools, and who is let in."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from errors import raises
from strategies import Images, evidence, sample

import demur
from demur.cli import main
from demur.core.errors import BadInput, DataError, StorageError, UsageError
from demur.core.records import AnswerSpec, Modality, Role
from demur.judge.annotation.exchange import export_labels, import_labels
from demur.judge.annotation.server import Page, serving
from demur.judge.annotation.task import (
    ADJUDICATED,
    CANNOT,
    GAP,
    Item,
    Label,
    Session,
    Task,
    disagreements,
    final_labels,
    last_labels,
    order,
    put_labels,
    ratings,
    read_all_labels,
    settle_labels,
    write_task,
)
from demur.judge.local import LocalJudge
from demur.judge.measures.agreement import agreed
from demur.release import Draft, FunnelStep, freeze
from demur.reports.annotate import (
    draw_balanced,
    make_task,
    open_task,
    take,
)
from demur.reports.data import load

LABELS = (Label(name="yes"), Label(name="no"))


def items(n: int = 40) -> list[Item]:
    return [
        Item(
            id=f"i{k}",
            shown=(
                ("Question", f"Is {k} even?"),
                ("Answer", "=cmd()" if k == 0 else f"<b>{k}</b>"),
            ),
            hidden=(("Right", "yes" if k % 2 == 0 else "no"),),
            about={"kind": "rare" if k % 10 == 0 else "usual", "who": f"m{k % 2}"},
        )
        for k in range(n)
    ]


def made(folder: Path, n: int = 40, **more: object) -> Path:
    write_task(folder, Task(name="t", labels=LABELS, balance=("kind", "who"), **more), items(n))  # type: ignore[arg-type]
    return folder


def test_any_beginning_is_balanced_and_repeats_come_later():
    task = Task(name="t", labels=LABELS, balance=("kind", "who"), repeats=0.3)
    places = order(task, items())
    about = {item.id: item.about for item in items()}
    firsts = [p.item for p in places if not p.again]
    assert sorted(firsts) == sorted(about)
    assert Counter(about[i]["who"] for i in firsts[:12])["m0"] in (5, 6, 7, 8)
    assert Counter(about[i]["kind"] for i in firsts[:6])["rare"] >= 2  # 1 in 10 of all
    repeats = [(n, p.item) for n, p in enumerate(places) if p.again]
    assert repeats
    assert all(n - places.index((item, False)) >= GAP for n, item in repeats)
    assert order(task, items()) == places != order(task.model_copy(update={"seed": 1}), items())


def test_every_key_is_a_line_and_a_killed_session_goes_on_where_it_was(tmp_path):
    folder = made(tmp_path)
    one = Session(folder, "ann")
    assert one.act("label", 0, label="yes") == 0
    one.act("note", 0, note="sure")
    one.act("label", 1, label=CANNOT)
    one.act("label", 2, label="no")
    assert one.act("undo") == 2
    one.act("reveal", 2)
    with pytest.raises(UsageError, match="elsewhere"):
        Session(folder, "ann")
    places = range(len(one.places))
    state, done = [one.state_at(at) for at in places], one.done
    one._lock.__exit__(
        None, None, None
    )  # killed: the system closes what is open, and lets go of the lock
    one._log._handle.close()
    path = folder / "labels" / "ann.jsonl"
    with path.open("ab") as handle:
        handle.write(b'{"do":"label","item":"i3","aga')  # a line that the crash tore
    two = Session(folder, "ann")
    assert [two.state_at(at) for at in places] == state
    assert (two.done, two.next()) == (done, 2)
    assert two.state_at(0).note == "sure"
    assert two.state_at(2).revealed
    for do, more in (
        ("shout", {}),
        ("label", {"label": "maybe"}),
        ("label", {"place_number": 999}),
    ):
        with pytest.raises(UsageError):
            two.act(do, **more)
    assert two.act("undo") == 1
    assert two.act("undo") == 0
    assert two.act("undo") is None
    two.close()
    assert last_labels(folder, "ann") == {}
    with pytest.raises(UsageError):
        Session(folder, "../x")


def test_disagreements_are_settled_and_repeats_tell_self_consistency(tmp_path):
    folder = made(tmp_path, repeats=0.5)
    for name, wrong in (("ann", "i3"), ("bob", "i4")):
        session = Session(folder, name)
        while (at := session.next()) is not None:
            item = session.places[at].item
            session.act(
                "label",
                at,
                label="no"
                if item == wrong or (session.places[at].again and item == "i6")
                else "yes",
            )
        session.close()
    assert set(disagreements(folder)) == {"i3", "i4"}
    assert len(settle_labels(folder).open) == 2
    judge = Session(folder, ADJUDICATED, adjudicate=True)
    assert {p.item for p in judge.places} == {"i3", "i4"}
    judge.act("label", 0, label="no")
    judge.close()
    came = settle_labels(folder)
    assert len(came.labels) == 39
    assert len(came.open) == 1
    found = agreed(ratings(folder))
    assert found.figures["raw"].value == pytest.approx(38 / 40)
    assert found.figures["raw"].n == 40
    assert found.consistency["ann"].n > 5
    assert found.consistency["ann"].value <= 1


def test_an_undo_takes_back_the_same_label_when_its_disagreement_is_gone(tmp_path):
    folder = made(tmp_path)
    for name, label in (("ann", "yes"), ("bob", "no")):
        assert put_labels(folder, name, {"i3": (label, ""), "i4": (label, "")}) == 2
    judge = Session(folder, ADJUDICATED, adjudicate=True)
    for at in (0, 1):
        judge.act("label", at, label="no")
    gone = judge.places[1].item
    judge.close()
    put_labels(folder, "ann", {gone: ("no", "")})  # they agree by now
    judge = Session(folder, ADJUDICATED, adjudicate=True)
    assert [p.item for p in judge.places] != [gone]
    judge.act("undo")
    assert judge.state_at(0).label == "no"
    judge.close()
    assert gone not in last_labels(folder, ADJUDICATED)


@pytest.mark.parametrize("form", ["csv", "label-studio", "inspect"])
def test_other_tools_and_back(tmp_path, form):
    folder = made(tmp_path / "a")
    put_labels(folder, "ann", {"i0": ("yes", "an = note"), "i5": ("no", "")})
    text = export_labels(folder, form)
    path = tmp_path / {"csv": "x.csv", "label-studio": "x.json", "inspect": "x.jsonl"}[form]
    path.write_text(text)
    other = made(tmp_path / "b")
    assert import_labels(other, path) == {"ann": 2}
    assert import_labels(other, path) == {"ann": 0}
    assert {i: w.label for i, w in last_labels(other, "ann").items()} == {"i0": "yes", "i5": "no"}
    if form == "csv":
        assert "'=cmd()" in text
    path.write_text(text.replace("i5", "stranger"))
    with pytest.raises(BadInput, match="stranger"):
        import_labels(other, path, "eve")
    assert not (other / "labels" / "eve.jsonl").exists()


async def test_who_is_let_in(tmp_path):
    session = Session(made(tmp_path), "ann")
    page = Page(session)
    runner = await serving(page)
    try:
        import aiohttp

        async with aiohttp.ClientSession() as client:

            async def status(path: str, method: str = "GET", **headers: str) -> int:
                body = {"do": "label", "at": 0, "label": "yes"} if method == "POST" else None
                async with client.request(
                    method, f"http://127.0.0.1:{page.port}{path}", headers=headers, json=body
                ) as reply:
                    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
                    return reply.status

            home = f"/{page.token}/"
            mine = f"http://127.0.0.1:{page.port}"
            assert await status(home) == 200
            assert await status("/wrong/") == 403
            assert await status(home, Host="evil.example") == 403
            assert await status(home, Origin="http://evil.example") == 403
            assert (
                await status(f"{home}act", "POST") == 403
            )  # a form of another page may leave Origin out
            assert await status(f"{home}act", "POST", Origin="null") == 403
            assert session.done == 0
            assert await status(f"{home}act", "POST", Origin=mine) == 200
            assert session.done == 1
            for name in ("../task.json", "..%2Ftask.json", "nothing.png"):
                assert await status(f"{home}image/{name}") in (404, 403)
            assert await status(f"{home}item?at=999") == 400
            async with client.get(f"{mine}{home}item?at=0") as reply:
                assert (await reply.json())["hidden"] == []
    finally:
        await runner.cleanup()
        session.close()


def test_items_of_ones_own_and_a_folder_of_another_task(tmp_path, capsys):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(item.model_dump_json() + "\n" for item in items(3)) + '{"id": ""}\n')
    assert (
        main(["annotate", "--items", str(path), "--labels", "yes,no", "-o", str(tmp_path / "t")])
        == 1
    )
    assert "mine.jsonl:4" in capsys.readouterr().err
    assert main(["annotate", "-o", str(tmp_path / "none")]) == 2
    made(tmp_path / "t", 3)
    with raises(UsageError, item=tmp_path / "t", cure="--out"):
        made(tmp_path / "t", 4)


@pytest.mark.parametrize("labels", [{}, {"ann": "yes"}, {"ann": "yes", "bob": "yes"}])
def test_without_disagreements_no_page_is_served(tmp_path, labels, capsys, monkeypatch):
    folder = made(tmp_path)
    for name, label in labels.items():
        put_labels(folder, name, {"i3": (label, "")})
    monkeypatch.setattr(
        "demur.judge.annotation.server.serve",
        lambda *given, **more: pytest.fail("a page is served"),
    )
    assert main(["annotate", "--out", str(folder), "--adjudicate"]) == 0
    told = capsys.readouterr()
    assert "disagreements" in told.out
    assert "40 items; labelled: " in told.err
    assert main(["annotate", "--out", str(folder), "--adjudicate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "url": None,
        "folder": str(folder),
        "disagreements": 0,
    }


def test_a_damaged_journal_is_told_and_no_label_is_missing_from_a_figure_without_a_word(tmp_path):
    folder = made(tmp_path)
    put_labels(folder, "ann", {"i1": ("yes", ""), "i2": ("no", ""), "i3": ("no", "")})
    path = folder / "labels" / "ann.jsonl"
    first, second, third = path.read_text().splitlines()
    path.write_text(
        f"{first}\n{second}\n{third[:20]}"
    )  # ann labels just now: her last line is not whole yet
    assert len(last_labels(folder, "ann")) == 2
    for broken in ("\x00" * 40, '{"do": "label", "again": 7}', '{"do": "labelled"}', "[1]"):
        path.write_text(f"{first}\n{broken}\n{third}\n")
        for read in (settle_labels, ratings, lambda folder: Session(folder, "ann")):
            with pytest.raises(BadInput, match=r"ann\.jsonl:2"):
                read(folder)


def test_labels_of_another_rubric_are_not_taken_for_labels_of_this_one(tmp_path):
    old, new = made(tmp_path / "a", rubric="be strict"), made(tmp_path / "b", rubric="be kind")
    put_labels(old, "ann", {"i0": ("yes", "")})
    for form, name in (("csv", "x.csv"), ("inspect", "x.jsonl")):
        export_labels(old, form, tmp_path / name)
        with pytest.raises(BadInput, match="rubric"):
            import_labels(new, tmp_path / name, "eve")


@pytest.mark.parametrize(
    "text",
    [
        '[{"data": {"item": "i0"}, "annotations": 7}]',
        '[{"data": [], "annotations": ["x", {"result": "y"}]}]',
        '[{"data": {"item": "i0"}, "annotations": [{"completed_by": 1, "result": [3, {"type": "choices", "value": []}]}]}]',
        '[{"annotations": [{"result": [{"type": "choices", "value": {"choices": 5}, "meta": {"text": 1}}]}]}]',
    ],
)
def test_what_label_studio_never_wrote_files_nothing(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with raises(DataError, item=tmp_path / "x.json", cure="Label Studio"):
        import_labels(made(tmp_path / "t"), tmp_path / "x.json")


def test_a_sheet_with_a_long_answer_comes_back_and_a_row_that_slipped_is_told(tmp_path):
    folder, sheet = made(tmp_path / "t"), tmp_path / "x.csv"
    sheet.write_text(f"item,Answer,annotator,label\ni0,{'long ' * 60_000},ann,yes\n")
    assert import_labels(folder, sheet) == {"ann": 1}
    sheet.write_text("item,Answer,annotator,label\ni1,a, b,ann,no\n")  # a comma that nobody quoted
    with raises(BadInput, "4 fields", item="x.csv:2"):
        import_labels(folder, sheet)


async def test_a_request_that_the_page_never_makes_is_refused(tmp_path):
    import aiohttp

    session = Session(made(tmp_path), "ann")
    runner = await serving(page := Page(session))
    try:
        async with aiohttp.ClientSession(
            headers={"Origin": f"http://127.0.0.1:{page.port}"}
        ) as client:
            for body in (
                "[1]",
                "[" * 30_000,
                "nothing",
                '{"do": "label", "at": 1e999, "label": "yes"}',
                '{"do": "note", "at": 0, "note": "\\ud800"}',
                '{"do": "note", "at": 0, "seconds": NaN}',
            ):
                async with client.post(f"{page.url}act", data=body) as reply:
                    assert reply.status == 400, body
                    assert (await reply.json())["error"]
        assert session.done == 0
        assert not (tmp_path / "labels" / "ann.jsonl").read_bytes()
    finally:
        await runner.cleanup()
        session.close()


def test_a_folder_that_no_label_can_be_written_to_is_told(tmp_path):
    folder = made(tmp_path)
    (folder / "labels").write_text("a file")
    with pytest.raises(StorageError):
        Session(folder, "ann")


def test_an_annotator_without_a_file_name_files_nothing_of_a_sheet(tmp_path):
    folder = made(tmp_path)
    (tmp_path / "in.csv").write_text("item,label,annotator\ni1,yes,bob\ni2,no,bob/x\n")
    with pytest.raises(BadInput, match="bob/x"):
        import_labels(folder, tmp_path / "in.csv")
    assert last_labels(folder, "bob") == {}


@pytest.mark.parametrize(
    "words",
    [
        ["--port", "99999"],
        ["--repeats", "2"],
        ["--labels", "yes,yes"],
        ["--labels", "1,2,3,4,5,6,7,8,9,10"],
    ],
)
def test_what_no_page_can_have_is_told_without_a_traceback(tmp_path, words, capsys):
    items = tmp_path / "items.jsonl"
    items.write_text('{"id":"1","shown":[["Q","x"]]}')
    try:
        code = main(
            ["annotate", "page", "--items", str(items), "-o", str(tmp_path / "task"), *words]
        )
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert capsys.readouterr().err.startswith("demur")


# --- what comes back from other tools -------------------------------------------------------------

FILES = {"csv": "x.csv", "label-studio": "x.json", "inspect": "x.jsonl"}


def there_and_back(folder: Path, other: Path, form: str) -> dict[str, int]:
    export_labels(folder, form, folder / FILES[form])  # type: ignore[arg-type]
    return import_labels(other, folder / FILES[form])


@pytest.mark.parametrize("form", FILES)
def test_adjudications_repeats_notes_and_looks_come_back(tmp_path, form):
    folder, other = made(tmp_path / "a", repeats=0.5), made(tmp_path / "b", repeats=0.5)
    for name in ("maria", "zoe"):
        session = Session(folder, name)
        for at, place in enumerate(session.places):
            if place.item == "i7":
                session.act("reveal", at)
            session.act(
                "label",
                at,
                label="no" if place.again or (place.item, name) == ("i3", "zoe") else "yes",
            )
        session.act("note", 0, note="=1+1")
        session.close()
    # i9: nobody disagrees on it any more
    put_labels(folder, ADJUDICATED, {"i3": ("no", ""), "i9": ("no", "")})
    assert list(there_and_back(folder, other, form)) == ["maria", "zoe", ADJUDICATED]
    assert final_labels(other) == final_labels(folder)
    assert final_labels(other)["i9"] == "no"
    assert read_all_labels(other) == read_all_labels(folder)
    assert last_labels(other, "maria")["i7"].revealed
    assert agreed(ratings(other)).consistency == agreed(ratings(folder)).consistency != {}
    assert set(there_and_back(folder, other, form).values()) == {0}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize(
    "labels",
    [
        ("Yes", "No"),
        ("very good", "bad"),
        ("-1", "+1"),
        ("C", "N"),
        ("C", "correct"),
        ("yes", "Yes"),
    ],
)
def test_labels_and_ids_of_any_look_come_back(tmp_path, form, labels):
    ids = ["-1", "=cmd", "'=cmd", "@x", "plain"]
    given = [
        Item(id=id, shown=(("item", "a"), ("images", "b"), ("Q", "c"), ("Q", "d"), ("=H", "e")))
        for id in ids
    ]
    for name in "ab":
        write_task(
            tmp_path / name, Task(name="t", labels=tuple(Label(name=one) for one in labels)), given
        )
    said = {
        id: (labels[n % 2], note)
        for n, (id, note) in enumerate(zip(ids, ["=n", "'-n", "it's", "", "'"], strict=True))
    }
    put_labels(tmp_path / "a", "zoe", said)
    assert there_and_back(tmp_path / "a", tmp_path / "b", form) == {"zoe": 5}
    assert last_labels(tmp_path / "b", "zoe") == last_labels(tmp_path / "a", "zoe")


def test_a_sheet_shows_answers_as_they_are_and_no_formula(tmp_path):
    texts = [
        "3\u00a01/2 hours",
        "\u0645\u06cc\u200c\u0631\u0648\u0645",
        "a\u3000b\nc",
        "\u00a0=cmd()",
        "\u001b[31mred",
    ]
    given = [Item(id=f"i{n}", shown=(("Answer", text),)) for n, text in enumerate(texts)]
    write_task(tmp_path, Task(name="t", labels=LABELS), given)
    shown = [
        row["Answer"]
        for row in csv.DictReader(export_labels(tmp_path, "csv").splitlines(keepends=True))
    ]
    assert shown == [*texts[:3], f"'{texts[3]}", "[31mred"]


def label_studio(*annotations: dict[str, object]) -> str:
    return json.dumps([{"data": {"item": "i0"}, "annotations": annotations}])


def chosen(*choices: str, **more: object) -> dict[str, object]:
    return {
        "completed_by": 2,
        "result": [{"type": "choices", "value": {"choices": choices}}],
        **more,
    }


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "x.csv",
            "item,label,annotator\ni0,yes,zoe\ni0,no,zoe\n",
            "x.csv:2",
        ),
        (
            "x.csv",
            "item,label,annotator,again\ni0,yes,zoe,yes\ni0,yes,zoe,no\n",
            "x.csv:3 (i0)",
        ),
        (
            "x.json",
            label_studio(chosen("yes"), chosen("no")),
            "annotator-2",
        ),
        ("x.json", label_studio(chosen("yes", "no")), "(task 1)"),
        (
            "x.jsonl",
            "".join(
                json.dumps(
                    {
                        "id": "i0",
                        "epoch": n,
                        "scores": {"zoe": {"value": one, "metadata": {"human": True}}},
                    }
                )
                + "\n"
                for n, one in enumerate(["yes", "no"])
            ),
            "x.jsonl:1",
        ),
    ],
)
def test_two_labels_of_one_annotator_are_refused_and_no_last_one_wins(tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    with raises(BadInput, why, item="(i0)"):
        import_labels(made(tmp_path / "t"), tmp_path / name)
    assert read_all_labels(tmp_path / "t") == {}


def test_the_same_label_twice_is_one_and_a_cancelled_annotation_is_none(tmp_path):
    folder = made(tmp_path / "t")
    (tmp_path / "x.json").write_text(
        label_studio(chosen("no", was_cancelled=True), chosen("Yes"), chosen("yes"))
    )
    assert import_labels(folder, tmp_path / "x.json") == {"annotator-2": 1}
    assert last_labels(folder, "annotator-2")["i0"].label == "yes"


def test_a_model_that_scores_is_no_annotator(tmp_path):
    folder, path = made(tmp_path / "t"), tmp_path / "x.json"
    scores = {
        "model_graded_qa": {"value": "yes"},
        "match": {"value": 1.0, "metadata": {"human": "no"}},
    }
    path.write_text(json.dumps({"samples": [{"id": "i0", "scores": scores}]}))
    with raises(DataError, item=path, cure="metadata.human"):
        import_labels(folder, path)
    path.write_text(
        json.dumps({"samples": [{"id": "i0", "scores": {"unnamed": {"value": "yes"}}}]})
    )
    assert import_labels(folder, path, "maria") == {"maria": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "item,label,annotator\n"),
        ("x.csv", "item,label,annotator\ni0,,zoe\n"),
        ("x.jsonl", ""),
        ("x.json", '[1,{"x":2}]'),
        ("x.json", '[{"item":"i0","label":"yes","annotator":1}]'),
    ],
)
def test_an_import_of_nothing_says_so(tmp_path, name, text, capsys):
    (tmp_path / name).write_text(text)
    assert main(["annotate", "import", str(made(tmp_path / "t")), str(tmp_path / name)]) != 0
    error = capsys.readouterr().err
    assert str(tmp_path / name) in error
    assert "Label Studio" in error


# --- looks, notes, majorities ---------------------------------------------------------------------


def test_undo_takes_back_the_label_alone(tmp_path):
    session = Session(made(tmp_path), "ann")
    session.act("label", 0, label="yes")
    session.act("note", 0, note="important")
    session.act("undo")
    assert (session.state_at(0).label, session.state_at(0).note) == ("", "important")
    session.close()


def test_a_look_shows_what_is_right_at_any_time_and_marks_what_is_said_after_it(tmp_path):
    session = Session(made(tmp_path, repeats=0.5), "ann")
    page = Page(session)
    session.act("label", 0, label="yes")
    session.act("reveal", 0)
    assert page._item_view(0)["hidden"]
    session.act("label", 0, label="yes")
    assert not session.state_at(0).revealed
    session.act("label", 0, label="no")
    assert session.state_at(0).revealed
    session.act("undo")
    assert not session.state_at(0).revealed
    again = next(at for at, place in enumerate(session.places) if place.again)
    first = next(
        at for at, place in enumerate(session.places) if place.item == session.places[again].item
    )
    session.act("label", first, label="yes")
    session.act("reveal", again)
    session.act("label", first, label="no")  # the repeat showed what is right
    assert session.state_at(first).revealed
    session.close()


def test_a_label_is_of_more_than_half_of_all_who_said_something(tmp_path):
    folder = made(tmp_path)
    for name, label in (("maria", "yes"), ("jon", CANNOT), ("zoe", CANNOT)):
        put_labels(folder, name, {"i0": (label, ""), "i1": (label if name == "zoe" else "yes", "")})
    came = settle_labels(folder)
    assert (came.labels, came.open, came.cannot) == ({"i1": "yes"}, [], ["i0"])
    put_labels(folder, ADJUDICATED, {"i0": ("no", "")})
    assert settle_labels(folder).labels == {"i0": "no", "i1": "yes"}


def test_a_long_note_stays_whole(tmp_path):
    folder = made(tmp_path)
    note = "\u00e9" * 5000
    put_labels(folder, "ann", {"i0": ("yes", note)})
    assert last_labels(folder, "ann")["i0"].note == note
    session = Session(folder, "bob")
    assert (
        'maxlength="4000"' in Page(session)._html
    )  # at most four bytes each: far below what a request may hold
    session.close()


def test_items_that_are_no_answers_are_exported_next(tmp_path, capsys, monkeypatch):
    folder = made(tmp_path)

    def served(folder: Path, name: str, **more: object) -> Session:
        session = Session(folder, name)
        session.close()
        return session

    monkeypatch.setattr("demur.judge.annotation.server.serve", served)
    assert main(["annotate", "--out", str(folder), "--as", "ann"]) == 0
    assert "demur annotate export" in capsys.readouterr().err


# --- labels of runs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("answered")
    samples = []
    for n in range(6):
        gold = evidence(f"s{n}-g", Role.GOLD, Modality.TEXT, rank=1)
        answers = AnswerSpec(accepted=(("Paris",),))
        samples.append(
            sample(f"s{n}", text=3).model_copy(update={"answers": answers, "gold": (gold,)})
        )
    funnel = [FunnelStep(stage="pool", entered=6, kept=6)]
    read = Images().read
    freeze(
        root / "release",
        Draft(name="r", version="0.1.0", samples=samples, read_image=read, drops=[], funnel=funnel),
    )
    for name in ("one", "two"):
        demur.evaluate(
            root / "release",
            lambda question, evidence, id: "Paris.",
            scenarios="oracle",
            out=root / "runs",
            name=name,
        )
    return root


@pytest.fixture
def runs(answered: Path, tmp_path: Path) -> list[Path]:
    shutil.copytree(answered, tmp_path / "x")
    found = [tmp_path / "x" / "runs" / name for name in ("one", "two")]
    verdicts = found[1] / "verdicts.jsonl"  # another judge's
    lines = [
        json.loads(line) | {"judge": "model:x", "prompt_sha256": "f" * 64}
        for line in verdicts.read_text().splitlines()
    ]
    verdicts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = json.loads((found[1] / "manifest.json").read_text())
    (found[1] / "manifest.json").write_text(json.dumps(manifest | {"judge_code": "77"}))
    return found


def lines_of(run: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (run / "labels.jsonl").read_text().splitlines()]


def test_labels_that_are_taken_back_leave_the_run_and_those_of_others_stay(runs, tmp_path, capsys):
    data, folder = load(runs[:1]), tmp_path / "task"
    drawn = draw_balanced(data, 4)
    make_task(data, drawn, folder)
    put_labels(folder, "ann", {item.id: ("correct", "") for item in drawn}, looked={drawn[0].id})
    other = {
        "ask": next(
            row.ask for row in data.runs[0].rows if row.ask not in {i.row.ask for i in drawn}
        ),
        "label": "incorrect",
    }
    (runs[0] / "labels.jsonl").write_text(json.dumps(other) + "\n")
    taken = take(folder)
    assert (sum(taken.labels.values()), taken.withdrawn, taken.looked) == (4, 0, 1)
    assert len(lines_of(runs[0])) == 5
    session = Session(folder, "ann")
    session.act("undo")
    session.act("label", 0, label=CANNOT)
    session.close()
    assert main(["annotate", "take", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "2 labels" in told
    assert "1 items" in told
    assert len(lines_of(runs[0])) == 3
    assert other in lines_of(runs[0])
    put_labels(folder, "ann", {item.id: (CANNOT, "") for item in drawn})
    assert take(folder).withdrawn == 2
    assert lines_of(runs[0]) == [other]


def test_labels_hold_for_the_judge_of_their_own_run(runs, tmp_path):
    data, folder = load(runs), tmp_path / "task"
    drawn = draw_balanced(data, 4)
    make_task(data, drawn, folder)
    put_labels(folder, "ann", {item.id: ("correct", "") for item in drawn})
    take(folder)
    keys = ("judge", "judge_code", "prompt_sha256", "rubric", "shipped_rubric")
    bound = [{tuple(line.get(key, "") for key in keys) for line in lines_of(run)} for run in runs]
    [(judge, code, _, rubric, shipped)], [other] = bound
    assert (judge, code) == ("local", LocalJudge.version)
    assert other == ("model:x", "77", "f" * 64, rubric, shipped)
    assert rubric
    assert shipped
    put_labels(folder, "ann", {item.id: ("cannot_tell", "") for item in drawn})
    assert take(folder).labels == {}  # the second time, they cannot tell after all
    assert [lines_of(run) for run in runs] == [[], []]


def test_a_folder_holds_one_task(runs, tmp_path):
    data, folder = load(runs), tmp_path / "task"
    drawn = draw_balanced(data, 4)
    make_task(data, drawn, folder)
    make_task(data, drawn, folder)
    with pytest.raises(UsageError) as error:
        make_task(data, drawn[:3], folder)
    assert error.value.item == str(folder)


def test_too_small_a_draw_is_told_with_the_size_that_is_enough(runs, tmp_path):
    opened = open_task(tmp_path / "task", runs[:1], n=4)
    assert opened.of_runs
    [told] = opened.too_few
    assert "4 oracle of one" in told
    assert "-n 40" in told
    assert open_task(made(tmp_path / "own"))[1:] == (False, [])


def test_one_questions_items_come_together_and_close_at_the_first_yes(tmp_path):
    several = [
        Item(
            id=f"{question}{n}",
            shown=(("Question", question), ("Passage", f"passage {n}")),
            group=question,
        )
        for n in range(3)
        for question in "ab"
    ]
    write_task(tmp_path, Task(name="t", labels=LABELS, repeats=0, closing="yes"), several)
    session = Session(tmp_path, "ann")
    asked = [place.item for place in session.places]
    assert [item[1] for item in asked] == ["0", "1", "2"] * 2
    assert asked[0][0] == asked[2][0] != asked[3][0]
    assert session.together(4) == [3, 4, 5]
    session.act("label", 0, label="no")
    assert (session.next(0), session.done) == (1, 1)
    session.act("label", 1, label="yes")
    assert (session.next(1), session.done) == (3, 3)
    session.act("undo")
    assert (session.next(1), session.done) == (2, 1)
    for at in (3, 4, 5):
        session.act("label", at, label="no")
    session.act("label", 1, label="yes")
    assert (session.next(), session.done) == (None, 6)
    session.close()
    put_labels(tmp_path, "bob", {item: ("yes", "") for item in ("a0", "a2", "b0", "b2")})
    put_labels(tmp_path, "ann", {item: ("no", "") for item in ("a0", "a2", "b0", "b2")})
    judge = Session(tmp_path, ADJUDICATED, adjudicate=True)
    judge.act("label", 0, label="yes")
    assert judge.next(0) == 1  # every disagreement is decided
    judge.close()
