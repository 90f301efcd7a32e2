"""suites/docs/adding-a-suite.md, walked: its suite is saved, asked, scored, shown, and keeps the contract."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from errors import raises

import demur_suites
from demur.cli import main
from demur.core.errors import BadInput, DataError, UntrustedFile, UsageError
from demur.core.store import digest
from demur.core.untrusted import trusting
from demur.scenarios.conditions import Prompts
from demur_suites import check_suite, read_outputs, suites
from demur_suites.outputs import open_outputs

PAGE = Path(__file__).resolve().parents[1] / "docs" / "adding-a-suite.md"

ITEMS = ("--items", "numbers.jsonl")


@pytest.fixture
def parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    (tmp_path / "parity.py").write_text(code)
    (tmp_path / "mine.py").write_text("def answer(given):\n    return 'yes'\n")
    prompt = re.search(r"holding `(.*?)`", text)[1]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "ask.v1.md").write_text(prompt)
    (tmp_path / "numbers.jsonl").write_text(
        "".join(json.dumps({"number": n}) + "\n" for n in range(5))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("parity", "mine"):
        sys.modules.pop(name, None)
    return tmp_path


def test_the_suite_of_the_page_walks_from_items_to_a_page(parity):
    """By the installed command, in the folder of the files: there the current folder is not searched by itself."""
    out = ""
    for line in re.findall(r"^demur (suite .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        command = [Path(sys.executable).with_name("demur"), *line.split()]
        done = subprocess.run(command, cwd=parity, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
        out += done.stdout
    assert "60.0 [23.1, 88.2]" in out  # 0, 2 and 4 are even
    assert "Parity" in (parity / "parity.html").read_text(encoding="utf-8")
    check_suite(demur_suites.suite("parity:Parity"), parity / "numbers.jsonl")


def test_an_id_of_two_questions_is_refused_before_anybody_is_asked(parity):
    (parity / "twice.jsonl").write_text('{"number": 4}\n{"number": 5}\n{"number": 4}\n')
    with raises(BadInput, item="twice.jsonl (4)"):
        demur_suites.suite("parity:Parity").run("twice.jsonl", "python:mine:answer", "runs")


def test_an_id_of_two_questions_is_left_out_and_counted_with_skip_bad(parity, capsys):
    (parity / "twice.jsonl").write_text(
        '{"number": 4}\n{"number": 5}\n{"number": 4}\n{"number": "x"}\n{"number": 5}\n'
    )
    loaded = demur_suites.suite("parity:Parity").open("twice.jsonl", skip_bad=True)
    assert (loaded.items, loaded.skipped) == (({"number": 4}, {"number": 5}), 3)
    argv = [
        "suite",
        "run",
        "parity:Parity",
        "twice.jsonl",
        "--system",
        "python:mine:answer",
        "--skip-bad",
    ]
    assert main(argv) == 0
    [manifest] = parity.glob("runs/*/manifest.json")
    assert json.loads(manifest.read_text())["items"]["skipped"] == 3
    import parity as module

    class Itself(module.Parity):
        def questions(self, items):
            return [*super().questions(items)] * 2

    with raises(UsageError, "5", item="twice.jsonl", cure="demur suite show"):
        Itself().open("twice.jsonl", skip_bad=True)


def test_a_verdict_that_raises_leaves_its_reply_unjudged_with_the_reason_and_the_others_go_on(
    parity, capsys
):
    code = (parity / "parity.py").read_text()
    broken = code.replace(
        "reply = response",
        'if "yes" in question.answers.accepted[0]: raise ValueError("\\ud800 no\\nmore")\n        reply = response',
    )
    assert broken != code
    (parity / "parity.py").write_text(broken)
    assert (
        main(["suite", "run", "parity:Parity", "numbers.jsonl", "--system", "python:mine:answer"])
        == 0
    )
    assert main(["suite", "score", "parity:Parity", "runs", *ITEMS, "--json"]) == 0
    out = capsys.readouterr().out
    told = json.loads(out[out.rindex("\n{\n") :])["parity"]
    assert [(row["n"], row["unjudged"], row["failed"]) for row in told] == [(2, 3, 0)]
    assert main(["suite", "score", "parity:Parity", "runs", *ITEMS]) == 0
    page = " ".join(capsys.readouterr().out.split())  # notes are wrapped to the terminal
    assert r"its verdict raised ValueError('\ud800 no\nmore')" in page
    [rows] = parity.glob("runs/*/rows.parquet")
    assert Counter(pq.read_table(rows).column("status").to_pylist()) == {"graded": 2, "unjudged": 3}


def test_questions_without_a_cluster_are_items_of_their_own(parity):
    import parity as module

    class Bare(module.Parity):
        def questions(self, items):
            return (
                sample.model_copy(update={"cluster": ""}) for sample in super().questions(items)
            )

    items = Bare().open("numbers.jsonl").items
    tasks = Bare().tasks(items, limit=2, prompts=Prompts.of({"ask": "$question"}))
    assert [t.sample.id for t in tasks] == ["0", "1"]


def test_replies_without_their_items_are_told_by_a_suite_that_reads_another_format(parity):
    import parity as module

    class Sheet(module.Parity):
        def load(self, path, problems):
            raise DataError("column(s) number missing", item=path)

    (parity / "outputs.jsonl").write_text('{"id": "4", "output": "yes"}\n')
    with raises(UsageError, item="outputs.jsonl", cure="--items"):
        open_outputs(Sheet(), [parity / "outputs.jsonl"])


def test_suites_are_listed_and_shown(capsys):
    assert main(["suite", "list"]) == 0
    assert "vb" in capsys.readouterr().out
    assert main(["suite", "show", "vb"]) == 0
    assert "$question" in capsys.readouterr().out
    assert main(["suite", "check", "vbb", "x"]) == 2
    assert "'vb'" in capsys.readouterr().err


@pytest.mark.parametrize("name", suites())
@pytest.mark.parametrize("job", ["build", "check", "run", "score", "report", "export"])
def test_every_job_explains_the_options_of_every_suite(job, name, capsys):
    with pytest.raises(SystemExit):
        main(["suite", job, name, "--help"])
    words = capsys.readouterr().out
    suite = demur_suites.suite(name)
    of_job = {"build": suite.build_options, "export": suite.export_options, "check": ()}
    for option in of_job.get(job, suite.options):
        assert f"--{option.name.replace('_', '-')}" in words


def test_outputs_made_elsewhere_may_state_a_confidence_and_only_a_possible_one(tmp_path):
    lines = [
        {"id": "a", "output": "x", "confidence": 0.25},
        {"id": "b", "output": "x", "confidence": "1"},
        {"id": "c", "output": "x", "confidence": None},
        *(
            {"id": f"bad-{n}", "output": "x", "confidence": c}
            for n, c in enumerate((1.5, "high", True, [1], 10**400))
        ),
    ]
    file = tmp_path / "m.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput) as told:
        read_outputs(file)
    assert len(told.value.problems) == 5
    found = read_outputs(file, skip_bad=True)["m"]
    assert {id: r.confidence for id, r in found.items()} == {"a": 0.25, "b": 1.0, "c": None}


def test_a_run_is_resumed_and_scored_from_another_folder_and_by_another_path(
    parity, monkeypatch, capsys
):
    argv = [
        "suite",
        "run",
        "parity:Parity",
        "--system",
        "python:mine:answer",
        "--out",
        str(parity / "my runs"),
    ]
    assert main([*argv, "numbers.jsonl", "--limit", "2"]) == 0
    capsys.readouterr()
    (parity / "moved").mkdir()
    (parity / "moved" / "n.jsonl").write_bytes((parity / "numbers.jsonl").read_bytes())
    monkeypatch.chdir(parity / "moved")
    for items in ("../numbers.jsonl", str(parity / "numbers.jsonl"), "n.jsonl"):
        assert main([*argv, items, "--limit", "2"]) == 0
        assert "asked 0" in capsys.readouterr().err, items
    assert (
        main(
            [
                "suite",
                "score",
                "parity:Parity",
                "../my runs",
                "--items",
                str(parity / "numbers.jsonl"),
            ]
        )
        == 0
    )
    assert "50.0" in capsys.readouterr().out


def test_a_suite_that_exports_or_makes_nothing_says_so(parity, capsys):
    assert main(["suite", "export", "parity:Parity", "numbers.jsonl", "--out", "out"]) == 2
    assert main(["suite", "build", "parity:Parity", "--out", "out"]) == 2
    assert "demur suite check" in capsys.readouterr().err


@pytest.mark.parametrize("name", suites())
def test_an_unknown_option_is_refused_with_the_nearest_known_one_before_anything_is_made(
    name, tmp_path
):
    suite = demur_suites.suite(name)
    for job, known in ((suite.build, suite.build_options), (suite.export, suite.export_options)):
        wrong = f"{known[0].name}s" if known else "pair"
        paths = [tmp_path / "out"] if job == suite.build else [tmp_path / "items", tmp_path / "out"]
        with raises(UsageError, wrong, cure=known[0].name if known else ""):
            job(*paths, **{wrong: 3})
    assert not list(tmp_path.iterdir())


def test_what_is_no_suite_or_not_a_whole_one_is_told_by_its_own_fault(parity):
    (parity / "broken.py").write_text(
        "from demur_suites import Suite\n\n\nclass Half(Suite):\n    name = title = about = 'half'\n\n\n"
        "def load(path):\n    return path\n\n\nclass Other:\n    pass\n"
    )
    sys.modules.pop("broken", None)
    for named in ("Half", "load", "Other"):
        with raises(UsageError, item=f"broken:{named}"):
            demur_suites.suite(f"broken:{named}")
    with raises(UsageError, item="vb:argument"):
        demur_suites.suite("vb:argument")


def test_an_edited_answer_or_verdict_grades_again_and_asks_nobody(parity, capsys):
    """The right answers and the suite's own code are what verdicts are kept under, not the suite's name."""

    def outcomes():
        for name in ("parity",):
            sys.modules.pop(name, None)
        assert (
            main(
                ["suite", "run", "parity:Parity", "numbers.jsonl", "--system", "python:mine:answer"]
            )
            == 0
        )
        (rows,) = Path("runs").glob("*/rows.parquet")
        return Counter(pq.read_table(rows).column("outcome").to_pylist()), capsys.readouterr().err

    assert outcomes()[0] == {"correct": 3, "incorrect": 2}
    code = (parity / "parity.py").read_text()
    assert '"yes"' in code
    (parity / "parity.py").write_text(
        code.replace('"yes"', '"certainly"')
    )  # another size: bytecode of this very second
    found, said = outcomes()
    assert found["correct"] == 0, "yes is right of none any more"
    assert "asked 0" in said
    assert "asked 0" in outcomes()[1]


def test_a_prompt_of_ones_own_takes_the_place_of_the_suites(parity, capsys):
    suite, own = demur_suites.suite("parity:Parity"), parity / "own.md"
    own.write_text("Think hard.")
    with raises(DataError, "$question"):
        suite.run(parity / "numbers.jsonl", "python:mine:answer", parity / "runs", prompts=own)
    own.write_text("For $5: $question")
    with raises(DataError, cure="$$"):
        suite.run(parity / "numbers.jsonl", "python:mine:answer", parity / "runs", prompts=own)
    with raises(DataError, cure="$$"):  # of the suite's own prompt as well
        Prompts.of({"ask": own.read_text()})
    own.write_text("For $$5: $question")
    argv = [
        "suite",
        "run",
        "parity:Parity",
        "numbers.jsonl",
        "--system",
        "python:mine:answer",
        "--out",
        "runs",
    ]
    assert main([*argv, "--prompts", "own.md"]) == 0
    [folder] = [p.parent for p in parity.glob("runs/*/manifest.json")]
    [used] = json.loads((folder / "manifest.json").read_text())["prompts"].values()
    assert used["ask"] == digest(own.read_text().encode())
    assert (
        main(["suite", "score", "parity:Parity", str(folder), *ITEMS]) == 0
    )  # is told nothing of other words
    assert "other words" not in capsys.readouterr().err
    (parity / "own").mkdir()
    (parity / "own" / "question.md").write_text("$question")
    with raises(DataError, item="question.md", cure="ask.v1.md"):
        suite.run(
            parity / "numbers.jsonl", "python:mine:answer", parity / "runs", prompts=parity / "own"
        )


def test_a_run_opens_no_items_elsewhere_unless_the_user_agrees(parity):
    """A run may have come from anybody; the path in it opened any folder."""
    [run] = demur_suites.suite("parity:Parity").run("numbers.jsonl", "python:mine:answer", "runs")
    with pytest.raises(UntrustedFile) as refused:
        open_outputs(demur_suites.suite("parity:Parity"), [run])
    assert refused.value.acts == (("read", str(parity / "numbers.jsonl")),)
    assert "--items" in refused.value.cure
    with trusting(code=True):
        assert len(open_outputs(demur_suites.suite("parity:Parity"), [run]).loaded.items) == 5


def test_a_run_is_planned_without_a_call_and_takes_the_options_of_demur_run(parity, capsys):
    argv = ["suite", "run", "parity:Parity", "numbers.jsonl", "--system", "model:openai/gpt-4o"]
    assert main([*argv, "--plan", "--per-second", "2", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["lines"]
    assert (line["calls"], line["seconds"]) == (5, 2.5)
    assert line["money"] > 0
    assert not (parity / "runs").exists()
    with pytest.raises(UsageError) as error:
        demur_suites.suite("parity:Parity").run(
            "numbers.jsonl", "python:mine:answer", "runs", scenarios=["oracle"]
        )
    assert "limit" in error.value.cure


def test_options_of_a_run_have_the_names_of_demur_run():
    from demur.cli._asking import add_run_arguments
    from demur_suites.cli.suite import _fill_run

    names = []
    for fill in (add_run_arguments, lambda p: _fill_run(p, demur_suites.suite("mm_thebench"))):
        parser = argparse.ArgumentParser()
        fill(parser)
        names.append({o for action in parser._actions for o in action.option_strings})
    release_only = {"--scenarios", "--strictness", "--k", "--corpora", "--text-only", "--repeat"}
    assert names[0] - names[1] == release_only | {
        "--sample",
        "--encoder",
        "--trust-code",
        "--trust-hosts",
        "--batch",
        "--batch-file",
    }
