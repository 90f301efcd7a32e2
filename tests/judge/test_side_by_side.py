"""Verdicts of several judges beside one run: filed, chosen, compared; rates as labels correct them; what makes labels stale."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from errors import raises
from strategies import Images, evidence, sample

import demur
from demur.cli import main
from demur.core.errors import DataError, UsageError
from demur.core.records import AnswerSpec, Modality, Outcome, Role, Status, Verdict
from demur.core.store import digest
from demur.judge.local import LocalJudge
from demur.judge.measures.paired import tango
from demur.release import Draft, FunnelStep, freeze
from demur.reports.data import load, read_rows
from demur.reports.labels import Stale

N = 48


class Lenient:
    """A judge that calls everything correct that the local judge does not call deflected; unjudged on every eighth answer."""

    id = "lenient"

    def grade(self, ask, response, answers):
        verdict = LocalJudge().grade(ask, response, answers)
        if verdict.status is Status.FAILED:
            return verdict.model_copy(update={"judge": self.id})
        if int(ask.sample[1:]) % 8 == 0:
            return Verdict(id=ask.id, status=Status.UNJUDGED, judge=self.id, reason="no")
        said = verdict.outcome if verdict.outcome is Outcome.DEFLECTED else Outcome.CORRECT
        return Verdict(id=ask.id, status=Status.GRADED, outcome=said, judge=self.id)


def rag(question, evidence, id):
    number = int(id[1:])
    return ["Paris it is, a town known all over the world.", "I cannot tell.", "It is Lyon."][
        number % 3
    ]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("side")
    images, made = Images(), []
    for i in range(N):
        gold = evidence(f"s{i}-g", Role.GOLD, Modality.TEXT, rank=1)
        one = sample(f"s{i}", text=3)
        made.append(
            one.model_copy(update={"answers": AnswerSpec(accepted=(("Paris",),)), "gold": (gold,)})
        )
    funnel = [FunnelStep(stage="pool", entered=N, kept=N)]
    freeze(
        root / "release",
        Draft(
            name="r", version="0.1.0", samples=made, read_image=images.read, drops=[], funnel=funnel
        ),
    )
    demur.evaluate(root / "release", rag, scenarios="oracle", out=root / "runs", name="rag")
    return root


def copied(asked: Path, tmp_path: Path) -> Path:
    shutil.copytree(asked, tmp_path / "x")
    return tmp_path / "x" / "runs" / "rag"


def labelled(run: Path, how=lambda n, row: row.outcome or Outcome.INCORRECT, **bound: str) -> Path:
    lines = [
        {"ask": row.ask, "label": how(n, row).value, "answer": digest(row.answer, 16), **bound}
        for n, row in enumerate(read_rows(run / "rows.parquet"))
    ]
    (run / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run / "labels.jsonl"


@pytest.mark.heavy
def test_verdicts_lie_side_by_side_and_reports_choose(asked, tmp_path, capsys):
    run = copied(asked, tmp_path)
    before = (run / "verdicts.jsonl").read_bytes()
    command = [
        "judge",
        "run",
        str(run),
        "--judge",
        "tests.judge.test_side_by_side:Lenient",
        "--name",
        "kind",
        "--repeat",
        "2",
        "--json",
    ]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdicts"] == "kind"
    [oracle] = found["results"]
    assert (oracle["unjudged"], oracle["n"]) == (N // 8, N - N // 8)
    assert oracle["hallucination"]["value"] == 0.0
    assert (run / "verdicts.jsonl").read_bytes() == before
    assert load([run]).runs[0].judges == ("local",)
    chosen = load([run], verdicts="kind").runs[0]
    assert chosen.judges == ("lenient",)
    with pytest.raises(UsageError, match="kind"):
        load([run], verdicts="gpt")
    assert (
        main(["judge", "run", str(run), "--judge", "local", "--name", "kind"]) == 2
    )  # of another judge
    assert main(["report", str(run), "--verdicts", "kind", "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert f"{N // 8} of {N} answers" in page  # local judged all
    assert demur.report(run, tmp_path / "p.html", verdicts="kind").path.read_text() == page
    capsys.readouterr()
    assert main(["judge", "compare", str(run), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    bias = {(row["judge"], row["bias"]): row for row in compared["judge_biases"]}
    assert {judge: row["unjudged"] for (judge, _), row in bias.items()} == {
        "local": 0,
        "kind": N // 8,
    }
    repeated = bias["kind", "repeat variance"]
    assert (repeated["points"], repeated["n"]) == (
        0.0,
        N - N // 8,
    )  # of the others neither time has a grade
    assert (
        bias["kind", "length"]["points"] < 0
    )  # wrong answers are short ones, and it lets them pass
    assert bias["kind", "self-preference"]["points"] is None
    assert main(["judge", "compare", str(run)]) == 0
    assert "Biases of the judges" in capsys.readouterr().out
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"]["responses.jsonl"] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(manifest))
    with raises(DataError, item="kind.jsonl", cure="demur judge run"):
        load([run], verdicts="kind")


@pytest.mark.heavy
def test_rates_are_corrected_and_stale_labels_refused(asked, tmp_path, capsys):
    run = copied(asked, tmp_path)
    file = labelled(run, judge="local", rubric="a")
    evaluation = demur.open_run(run)
    rows = evaluation.rates(labels=True).records
    assert [row["rates"] for row in rows] == ["as judged", "corrected"]
    assert rows[0]["accuracy"]["value"] == pytest.approx(rows[1]["accuracy"]["value"])
    assert main(["judge", "correct", str(run), "--labels", str(file), "--finite", "--json"]) == 0
    [_, cell] = json.loads(capsys.readouterr().out)["corrected"]
    assert cell["labels"] == cell["answers"] == N
    assert cell["accuracy"]["low"] == pytest.approx(cell["accuracy"]["high"])  # all are labelled
    page = demur.report(run, tmp_path / "r.html").path.read_text()
    assert "Labels of people" in page
    some = tmp_path / "some.jsonl"
    some.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:39]))
    assert main(["agree", str(run)]) == 0
    capsys.readouterr()
    assert main(["judge", "correct", str(run), "--labels", str(some)]) == 0
    assert "(40 needed)" in capsys.readouterr().out
    other = Path(shutil.copytree(run, run.parent / "other"))  # another system: the same ids of asks
    labelled(other, how=lambda n, row: Outcome.INCORRECT)
    both = [str(run), str(other)]
    assert main(["judge", "correct", *both, "--json"]) == 0
    _, mine, _, its = json.loads(capsys.readouterr().out)["corrected"]
    assert (mine["accuracy"]["value"], its["accuracy"]["value"]) == (pytest.approx(1 / 3), 0.0)
    assert main(["judge", "correct", *both]) == 0
    assert "Rates corrected by labels" in capsys.readouterr().out
    assert main(["judge", "correct", *both, "--labels", str(some)]) == 2
    assert main(["agree", *both, "--json"]) == 0
    agreement = json.loads(capsys.readouterr().out)["agreement"]
    assert next(row["n"] for row in agreement if row["measure"] == "raw") == 2 * N
    shutil.rmtree(other)
    for bound in (
        {"judge": "model:x"},
        {"judge": "local", "prompt_sha256": "0"},
        {"shipped_rubric": "earlier"},
        {"judge": "local", "judge_code": "earlier"},
    ):
        labelled(run, **bound)
        with pytest.raises(Stale, match="stale"):
            demur.open_run(run).rates(labels=True)
    assert "labels correct nothing" in demur.report(run, tmp_path / "s.html").path.read_text()
    labelled(run)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0].replace('"answer": "', '"answer": "x'), *lines[1:]]) + "\n")
    with raises(Stale, "1 answers", item="rag"):
        demur.open_run(run).rates(labels=True)
    file.write_text(
        "\n".join(line.replace("}", f', "rubric": "{n % 2}"}}') for n, line in enumerate(lines))
        + "\n"
    )
    with pytest.raises(Stale, match="2 rubrics"):
        demur.open_run(run).rates(labels=True)


def test_labels_that_tell_only_right_from_wrong_correct_accuracy_alone(asked, tmp_path, capsys):
    run = copied(asked, tmp_path)
    file = labelled(
        run,
        how=lambda n, row: Outcome.DEFLECTED if n % 5 == 0 else row.outcome or Outcome.INCORRECT,
    )
    assert main(["judge", "correct", str(run), "--json"]) == 0
    [_, three] = json.loads(capsys.readouterr().out)["corrected"]
    file.write_text(re.sub("incorrect|deflected", "not_correct", file.read_text()))
    assert main(["report", str(run), "-o", str(tmp_path / "r.html")]) == 1
    assert "judge correct --labels" in capsys.readouterr().err
    file = file.rename(tmp_path / "people.jsonl")
    assert main(["judge", "correct", str(run), "--labels", str(file), "--json"]) == 0
    [_, two] = json.loads(capsys.readouterr().out)["corrected"]
    assert two["deflection"] is None
    assert two["hallucination"] is None
    for key in (
        "value",
        "low",
        "high",
    ):  # the power of the verdicts may differ: it serves all rates that are known
        assert two["accuracy"][key] == pytest.approx(three["accuracy"][key], abs=0.01), key
    assert main(["judge", "correct", str(run), "--labels", str(file)]) == 0
    assert "accuracy alone" in capsys.readouterr().out


def test_a_page_of_a_runs_answers_and_its_labels_taken(asked, tmp_path, capsys):
    from demur.judge.annotation.task import put_labels, read_task, shipped_version
    from demur.reports.annotate import draw_balanced, make_task, take

    run = copied(asked, tmp_path)
    data = load([run])
    items = draw_balanced(data, 42)
    assert {i.row.outcome for i in items} == set(Outcome)
    make_task(data, items, tmp_path / "task")
    _, known = read_task(tmp_path / "task")
    assert not any("rag" in text or "local" in text for item in known for _, text in item.shown)
    put_labels(
        tmp_path / "task",
        "ann",
        {i.id: ("correct" if "Paris" in i.shown[1][1] else "incorrect", "") for i in known},
    )
    taken = take(tmp_path / "task")
    assert list(taken.labels.values()) == [42]
    assert len(load([run]).runs[0].drawn.codes) == 42  # a draw: they correct rates by themselves
    assert (
        json.loads((run / "labels.jsonl").read_text().splitlines()[0])["shipped_rubric"]
        == shipped_version()
    )
    assert main(["agree", str(tmp_path / "task")]) == 0
    assert main(["judge", "correct", str(run), "--labels", str(tmp_path / "task"), "--json"]) == 0
    found = json.loads(
        capsys.readouterr().out.partition('{\n "corrected"')[2].join(['{\n "corrected"', ""])
    )
    assert found["corrected"][1]["deflection"]["value"] == pytest.approx(0, abs=0.02)

    one = known[0].id
    put_labels(tmp_path / "task", "bob", {one: ("deflected", "")})
    assert main(["judge", "correct", str(run), "--labels", str(tmp_path / "task")]) == 2
    error = capsys.readouterr().err
    assert "1 disagreements" in error
    assert "--adjudicate" in error
    put_labels(tmp_path / "task", "eve", {one: ("deflected", "")})  # two of three
    assert main(["annotate", "take", str(tmp_path / "task")]) == 0


def test_labels_are_stale_when_the_judges_code_changes(asked, tmp_path, capsys, monkeypatch):
    from demur.judge.annotation.task import put_labels, read_task
    from demur.reports.annotate import draw_balanced, make_task

    run, task = copied(asked, tmp_path), tmp_path / "task"
    data = load([run])
    make_task(data, draw_balanced(data, 45), task)
    made, known = read_task(task)
    assert made.bound["judge_code"] == LocalJudge.version
    put_labels(
        task,
        "ann",
        {i.id: ("correct" if "Paris" in i.shown[1][1] else "incorrect", "") for i in known},
    )
    assert main(["annotate", "take", str(task)]) == 0
    lines = [json.loads(line) for line in (run / "labels.jsonl").read_text().splitlines()]
    assert {line["judge_code"] for line in lines} == {LocalJudge.version}
    of_run, of_task = (
        ["judge", "correct", str(run), *more] for more in ([], ["--labels", str(task)])
    )
    assert main(of_run) == main(of_task) == 0
    again = ["judge", "run", str(run), "--judge", "local", "--name", "again"]
    assert main(again) == 0
    origin = run / "verdicts" / "again.json"
    assert json.loads(origin.read_text())["judge_code"] == LocalJudge.version
    assert main([*of_run, "--verdicts", "again"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(LocalJudge, "version", "99")
        assert main(again) == 0
    capsys.readouterr()
    for command in (of_run, of_task):
        assert main([*command, "--verdicts", "again"]) == 2
        error = capsys.readouterr().err
        assert f"'{LocalJudge.version}'" in error
        assert "'99'" in error
        assert "demur annotate RUN" in error
    origin.write_text(
        json.dumps({k: v for k, v in json.loads(origin.read_text()).items() if k != "judge_code"})
    )
    assert main([*of_run, "--verdicts", "again"]) == 0  # of an earlier demur
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"judge_code": "99"}))
    for command in (of_run, of_task):
        assert main(command) == 2
        assert "demur annotate RUN" in capsys.readouterr().err
    lines[0]["judge_code"] = "99"  # one label of today makes the others no newer
    (run / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(of_run) == 2
    lines = [{k: v for k, v in line.items() if k != "judge_code"} for line in lines]
    (run / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(of_run) == 0  # labels of an earlier demur do not tell


def test_a_labelling_task_of_another_judge_code_is_refused(asked, tmp_path):
    from demur.reports.annotate import draw_balanced, make_task

    data, task = load([copied(asked, tmp_path)]), tmp_path / "task"
    items = draw_balanced(data, 42)
    make_task(data, items, task)
    made = json.loads((task / "task.json").read_text())
    assert made["bound"]["judge_code"] == LocalJudge.version
    make_task(data, items, task)
    (task / "task.json").write_text(
        json.dumps(made | {"bound": made["bound"] | {"judge_code": "99"}})
    )
    with raises(UsageError, item=tmp_path / "task", cure="--out"):
        make_task(data, items, task)


def test_a_bias_has_an_interval_of_some_width():
    """Three answers graded alike on either side gave 0.0 [0.0, 0.0] once."""
    from demur.reports.judges import JudgeComparison, JudgedAnswer, biases

    def bias(own, others):
        answers = [
            JudgedAnswer("s", model, 9, {"a": mine, "b": "correct"})
            for model, said in (("m", own), ("", others))
            for mine in said
        ]
        models = {"a": "m", "b": ""}
        compared = JudgeComparison(("a", "b"), answers, {}, models, "other judges")
        return biases(compared, "a")["self-preference"]

    alike = bias(["correct"] * 3, ["correct"] * 3)
    assert (alike.value, alike.n, alike.others) == (0, 3, 3)
    assert alike.low == -alike.high == pytest.approx(-100 * 2**0.5 * tango(0, 0, 3)[1])
    most = bias(["correct"] * 30, ["incorrect"] * 30)
    assert 70 < most.low < most.value == 100 < most.high < 120
    mixed = bias(["correct", "incorrect"] * 10, ["correct", "incorrect"] * 20)
    assert [mixed.low, mixed.high] == pytest.approx(
        [end * 196 * (0.25 / 19 + 0.25 / 39) ** 0.5 for end in (-1, 1)]
    )
    one = bias(["correct"], ["correct"] * 9)
    assert (one.value, one.low, one.high) == (0, None, None)


def test_judge_run_prints_the_mean_credit_of_ratings(asked, tmp_path, capsys):
    from demur.testing import running

    run = copied(asked, tmp_path)
    with running(reply=lambda body: json.dumps({"rating": 2})) as server:
        judge = f"lave:http://127.0.0.1:{server.port}/v1#m"
        given = [
            "judge",
            "run",
            str(run),
            "--release",
            str(tmp_path / "x" / "release"),
            "--judge",
            judge,
        ]
        assert main([*given, "--name", "lave", "--ledger", str(tmp_path / "calls.sqlite")]) == 0
    error = capsys.readouterr().err
    assert "0.500" in error
    assert f"n = {N}, 0 " in error
    page = tmp_path / "r.html"
    assert (
        main(
            [
                "report",
                str(run),
                "--verdicts",
                "lave",
                "-o",
                str(page),
                "--tables",
                str(tmp_path / "t"),
            ]
        )
        == 0
    )
    assert "Partial credit" in page.read_text()
    header, line = (tmp_path / "t" / "credit.csv").read_text().splitlines()[:2]
    cells = dict(zip(header.split(","), line.split(","), strict=True))
    assert (cells["System"], float(cells["Mean credit"]), int(cells["n"])) == ("rag", 0.5, N)
    assert main(["report", str(run), "-o", str(page)]) == 0
    assert "Partial credit" not in page.read_text()
