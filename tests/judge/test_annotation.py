"""Labelling tasks: order, journal, undo, crashes, forms of other tools, and who is let in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from demur.cli import main
from demur.core.errors import BadInput, StorageError, UsageError
from demur.judge.annotation.exchange import exported, imported
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
    last_labels,
    order,
    put_labels,
    ratings,
    settled,
    write_task,
)

LABELS = (Label(name="yes"), Label(name="no"))


def items(n: int = 40) -> list[Item]:
    return [
        Item(
            id=f"i{k}", shown=(("Question", f"Is {k} even?"), ("Answer", "=cmd()" if k == 0 else f"<b>{k}</b>")),
            hidden=(("Right", "yes" if k % 2 == 0 else "no"),),
            about={"kind": "rare" if k % 10 == 0 else "usual", "who": f"m{k % 2}"},
        )
        for k in range(n)
    ]  # fmt: skip


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
    state, done = [one.said(at) for at in places], one.done
    one._lock.__exit__(None, None, None)  # killed: the system closes what is open, and lets go of the lock
    one._log._handle.close()
    path = folder / "labels" / "ann.jsonl"
    with path.open("ab") as handle:
        handle.write(b'{"do":"label","item":"i3","aga')  # a line that the crash tore
    two = Session(folder, "ann")
    assert [two.said(at) for at in places] == state
    assert (two.done, two.next()) == (done, 2)
    assert two.said(0).note == "sure"
    assert two.said(2).revealed
    for do, more in (("shout", {}), ("label", {"label": "maybe"}), ("label", {"at": 999})):
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
                "label", at, label="no" if item == wrong or (session.places[at].again and item == "i6") else "yes"
            )
        session.close()
    assert set(disagreements(folder)) == {"i3", "i4"}
    assert len(settled(folder).open) == 2
    judge = Session(folder, ADJUDICATED, adjudicate=True)
    assert {p.item for p in judge.places} == {"i3", "i4"}
    judge.act("label", 0, label="no")
    judge.close()
    came = settled(folder)
    assert len(came.labels) == 39
    assert len(came.open) == 1
    from demur.judge.measures.agreement import agreed

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
    assert judge.said(0).label == "no"
    judge.close()
    assert gone not in last_labels(folder, ADJUDICATED)


@pytest.mark.parametrize("form", ["csv", "label-studio", "inspect"])
def test_other_tools_and_back(tmp_path, form):
    folder = made(tmp_path / "a")
    put_labels(folder, "ann", {"i0": ("yes", "an = note"), "i5": ("no", "")})
    text = exported(folder, form)
    path = tmp_path / {"csv": "x.csv", "label-studio": "x.json", "inspect": "x.jsonl"}[form]
    path.write_text(text)
    other = made(tmp_path / "b")
    assert imported(other, path) == {"ann": 2}
    assert imported(other, path) == {"ann": 0}
    assert {i: w.label for i, w in last_labels(other, "ann").items()} == {"i0": "yes", "i5": "no"}
    if form == "csv":
        assert "'=cmd()" in text
    path.write_text(text.replace("i5", "stranger"))
    with pytest.raises(BadInput, match="stranger"):
        imported(other, path, "eve")
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
            assert await status(f"{home}act", "POST") == 403  # a form of another page may leave Origin out
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
    assert main(["annotate", "--items", str(path), "--labels", "yes,no", "-o", str(tmp_path / "t")]) == 1
    assert "mine.jsonl:4" in capsys.readouterr().err
    assert main(["annotate", "-o", str(tmp_path / "none")]) == 2
    made(tmp_path / "t", 3)
    with pytest.raises(UsageError, match="another task"):
        made(tmp_path / "t", 4)


@pytest.mark.parametrize("labels", [{}, {"ann": "yes"}, {"ann": "yes", "bob": "yes"}])
def test_without_disagreements_no_page_is_served(tmp_path, labels, capsys, monkeypatch):
    folder = made(tmp_path)
    for name, label in labels.items():
        put_labels(folder, name, {"i3": (label, "")})
    monkeypatch.setattr("demur.judge.annotation.server.serve", lambda *given, **more: pytest.fail("a page is served"))
    assert main(["annotate", "--out", str(folder), "--adjudicate"]) == 0
    told = capsys.readouterr()
    assert told.out == "no disagreements to decide\n"
    assert "40 items; labelled: " in told.err
    assert main(["annotate", "--out", str(folder), "--adjudicate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"url": None, "folder": str(folder), "disagreements": 0}


def test_a_damaged_journal_is_told_and_no_label_is_missing_from_a_figure_without_a_word(tmp_path):
    folder = made(tmp_path)
    put_labels(folder, "ann", {"i1": ("yes", ""), "i2": ("no", ""), "i3": ("no", "")})
    path = folder / "labels" / "ann.jsonl"
    first, second, third = path.read_text().splitlines()
    path.write_text(f"{first}\n{second}\n{third[:20]}")  # ann labels just now: her last line is not whole yet
    assert len(last_labels(folder, "ann")) == 2
    for broken in ("\x00" * 40, '{"do": "label", "again": 7}', '{"do": "labelled"}', "[1]"):
        path.write_text(f"{first}\n{broken}\n{third}\n")
        for read in (settled, ratings, lambda folder: Session(folder, "ann")):
            with pytest.raises(BadInput, match=r"ann\.jsonl:2"):
                read(folder)


def test_labels_of_another_rubric_are_not_taken_for_labels_of_this_one(tmp_path):
    old, new = made(tmp_path / "a", rubric="be strict"), made(tmp_path / "b", rubric="be kind")
    put_labels(old, "ann", {"i0": ("yes", "")})
    for form, name in (("csv", "x.csv"), ("inspect", "x.jsonl")):
        exported(old, form, tmp_path / name)
        with pytest.raises(BadInput, match="rubric"):
            imported(new, tmp_path / name, "eve")


@pytest.mark.parametrize("text", [
    '[{"data": {"item": "i0"}, "annotations": 7}]', '[{"data": [], "annotations": ["x", {"result": "y"}]}]',
    '[{"data": {"item": "i0"}, "annotations": [{"completed_by": 1, "result": [3, {"type": "choices", "value": []}]}]}]',
    '[{"annotations": [{"result": [{"type": "choices", "value": {"choices": 5}, "meta": {"text": 1}}]}]}]',
])  # fmt: skip
def test_what_label_studio_never_wrote_files_nothing(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert imported(made(tmp_path / "t"), tmp_path / "x.json") == {}


def test_a_sheet_with_a_long_answer_comes_back_and_a_row_that_slipped_is_told(tmp_path):
    folder, sheet = made(tmp_path / "t"), tmp_path / "x.csv"
    sheet.write_text(f"item,Answer,annotator,label\ni0,{'long ' * 60_000},ann,yes\n")
    assert imported(folder, sheet) == {"ann": 1}
    sheet.write_text("item,Answer,annotator,label\ni1,a, b,ann,no\n")  # a comma that nobody quoted
    with pytest.raises(BadInput, match=r"x\.csv:2: expected 4 fields, found 5"):
        imported(folder, sheet)


async def test_a_request_that_the_page_never_makes_is_refused(tmp_path):
    import aiohttp

    session = Session(made(tmp_path), "ann")
    runner = await serving(page := Page(session))
    try:
        async with aiohttp.ClientSession(headers={"Origin": f"http://127.0.0.1:{page.port}"}) as client:
            for body in ("[1]", "[" * 30_000, "nothing", '{"do": "label", "at": 1e999, "label": "yes"}',
                         '{"do": "note", "at": 0, "note": "\\ud800"}', '{"do": "note", "at": 0, "seconds": NaN}'):  # fmt: skip
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
        imported(folder, tmp_path / "in.csv")
    assert last_labels(folder, "bob") == {}


@pytest.mark.parametrize(
    "words", [["--port", "99999"], ["--repeats", "2"], ["--labels", "yes,yes"], ["--labels", "1,2,3,4,5,6,7,8,9,10"]]
)
def test_what_no_page_can_have_is_told_without_a_traceback(tmp_path, words, capsys):
    items = tmp_path / "items.jsonl"
    items.write_text('{"id":"1","shown":[["Q","x"]]}')
    try:
        code = main(["annotate", "page", "--items", str(items), "-o", str(tmp_path / "task"), *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert capsys.readouterr().err.startswith("demur")
