"""The command itself: help that teaches, errors of one line that name the item and the cure."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from strategies import tiny_release

import demur
from demur.cli import VERBS, main, parser_of

HEAVY = (
    "torch",
    "numpy",
    "pyarrow",
    "pydantic",
    "aiohttp",
    "faiss",
    "datasets",
    "rich",
    "onnxruntime",
    "PIL",
)


def test_help_lists_every_verb_with_an_example_and_imports_nothing_heavy():
    code = f"import sys; from demur.cli import main; main(['--help']); print(*[m for m in {HEAVY!r} if m in sys.modules], sep=',')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, heavy = done.stdout.splitlines()
    assert heavy == ""
    for verb in VERBS:
        assert any(line.strip().startswith(verb.name) for line in text)
        assert f"$ {verb.example}" in done.stdout


@pytest.mark.parametrize("verb", [v.name for v in VERBS])
def test_each_verb_explains_itself(verb, capsys):
    texts = []
    for words in ([verb, "--help"], ["help", verb]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
        texts.append(capsys.readouterr().out)
    out, again = texts
    assert again == out
    assert "...." not in out
    assert f"$ demur {verb}" in out
    assert len(out) > 200


def options(parser):
    """Every option of a verb and of the verbs in it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)
        elif action.option_strings:
            yield parser.prog, action


def test_the_examples_of_a_job_keep_their_lines(capsys):
    with pytest.raises(SystemExit):
        main(["corpus", "export", "--help"])
    assert "\n  $ demur corpus export demo-out/release --out corpora\n" in capsys.readouterr().out


UNTOLD = (None, False, True, [], "", argparse.SUPPRESS)
"""Defaults that say nothing: not given."""


@pytest.mark.parametrize("verb", [v.name for v in VERBS])
def test_what_holds_when_nothing_is_said_is_in_the_help(verb):
    parser = argparse.ArgumentParser(prog=verb)
    importlib.import_module({v.name: v.module for v in VERBS}[verb]).configure(parser)
    for prog, action in options(parser):
        if (
            "--out" in action.option_strings and not action.required
        ) or action.default not in UNTOLD:
            assert "default" in action.help, f"{prog} {action.option_strings}"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["relase"], 2, "did you mean 'release'"),
        (["run"], 2, "required"),
        (["run", "{release}", "--system", "raeder"], 2, "did you mean 'reader'"),
        (["run", "{release}", "--system", "reader", "--judge", "lcoal"], 2, "did you mean 'local'"),
        (
            ["run", "{release}", "--system", "reader", "--encoder", "ofline"],
            2,
            "did you mean 'offline'",
        ),
        (["run", "{release}", "--system", "answers:nothing.jsonl"], 1, "nothing.jsonl"),
        (
            ["run", "{release}", "--system", "answers:x", "--scenarios", "realstic"],
            2,
            "not a scenario",
        ),
        (
            ["run", "{release}", "--system", "answers:x", "--strictness", "harsh"],
            2,
            "not a condition",
        ),
        (["run", "{release}", "--system", "answers:x", "--limit", "0"], 2, "at least 1"),
        (["run", "{release}", "--system", "answers:x", "answers:x"], 2, "named twice"),
        (
            ["run", "{release}", "--system", "model:http://127.0.0.1:9/v1#m", "--out", "{tmp}/r"],
            1,
            "start it",
        ),
        (
            ["run", "{release}", "--system", "model:openai/gpt-4o", "--out", "{tmp}/r"],
            2,
            "OPENAI_API_KEY",
        ),
        (["run", "{tmp}/none", "--system", "answers:x"], 1, "none: "),
        (["release", "show", "{tmp}"], 1, "manifest.json"),
        (["release", "frobnicate", "{tmp}"], 2, "invalid choice"),
        (["sweep", "{release}", "--system", "answers:x", "--distractors", "5"], 2, "LOW:HIGH"),
        (
            ["sweep", "{release}", "--system", "answers:x"],
            2,
            "--distractors",
        ),
        (
            ["sweep", "{release}", "--system", "answers:x", "--plan", "--strictness", "none"],
            2,
            "--distractors",
        ),
        (
            [
                "sweep",
                "{release}",
                "--system",
                "answers:x",
                "--scenarios",
                "oracle",
                "realistic(k=2)",
            ],
            2,
            "'demur run'",
        ),
        (
            ["sweep", "{release}", "--system", "answers:x", "--strictness", "none", "soft"],
            1,
            "x: ",
        ),
        (
            [
                "sweep",
                "{release}",
                "--system",
                "answers:x",
                "--scenarios",
                "oracle",
                "oracle(order=gold@0)",
            ],
            1,
            "x: ",
        ),
        (["demo", "--out", "/proc/x"], 1, "/proc/x"),
        (["demo", "--out", "{release}"], 2, "release"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_cure(
    words, code, named, release, tmp_path, capsys
):
    try:
        found = main([w.format(release=release, tmp=tmp_path) for w in words])
    except SystemExit as error:  # argparse leaves this way
        found = error.code
    said = capsys.readouterr().err
    assert found == code, said
    assert named in said
    assert len([line for line in said.splitlines() if line.startswith("demur")]) == 1


def test_a_release_verifies_until_a_byte_changes(release, capsys):
    assert main(["release", "verify", str(release)]) == 0
    assert "is sound" in capsys.readouterr().out
    table = release / "data" / "evidence.parquet"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(bytes(data))
    assert main(["release", "verify", str(release), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["sound"] is False
    assert "evidence.parquet" in found["problems"][0]


def test_show_prints_json_that_holds_the_counts(release, capsys):
    assert main(["release", "show", str(release), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["counts"]["samples"] == 4


def test_a_users_own_answers_are_scored_from_the_command_line(release, tmp_path, capsys):
    rows = [
        {
            "sample": f"s{i}",
            "scenario": scenario,
            "answer": f"answer {i}" if i else "I do not know.",
        }
        for i in range(4)
        for scenario in ("parametric", "oracle", "realistic", "adversarial")
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "runs"
    assert (
        main(["run", str(release), "--system", f"answers:{path}", "--out", str(out), "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert "mine.jsonl" in json.dumps(found)
    manifest = json.loads((out / "answers-mine.jsonl" / "manifest.json").read_text())
    assert manifest["counts"]["correct"] == 12
    assert manifest["counts"]["deflected"] == 4


def test_what_is_printed_to_be_pasted_can_be_pasted_where_folders_have_spaces(
    release, tmp_path, capsys, monkeypatch
):
    (tmp_path / "my work").mkdir()
    monkeypatch.chdir(tmp_path)
    given = release.rename(tmp_path / "my work" / "my release")
    runs = tmp_path / "my work" / "runs"
    (tmp_path / "mine.jsonl").write_text(
        '{"sample": "s0", "scenario": "oracle", "answer": "answer 0"}\n'
    )
    asked = ["run", str(given), "--system", "answers:mine.jsonl", "--out", str(runs)]
    commands = [
        asked,
        [
            "annotate",
            "draw",
            str(runs),
            "--release",
            str(given),
            "-o",
            str(tmp_path / "my work" / "a task"),
        ],
        ["corpus", "export", str(given), "--out", str(tmp_path / "my work" / "corpora")],
        ["export", "inspect", str(given), "--out", str(tmp_path / "my work" / "tasks")],
        ["export", "lmms-eval", str(given), "--out", str(tmp_path / "my work" / "tasks 2")],
    ]
    pasted = []
    for words in commands:
        assert main(words) == 0, capsys.readouterr().err
        pasted += re.findall(
            r"(?:next|then|run): +((?:demur|pip|python) .*)", capsys.readouterr().err
        )
    assert len(pasted) == 8
    for line in pasted:
        assert (
            sum(
                "my work" in word and Path(word).exists()
                for word in shlex.split(line.partition(";")[0])
            )
            >= 1
        ), line
    assert main(shlex.split(pasted[0])[1:]) == 0  # demur report


def test_a_command_line_with_a_value_in_it_is_quoted_by_one_helper():
    verbs, written = "|".join(verb.name for verb in VERBS), []
    for file in Path(demur.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    f"{{{ast.unparse(v.value)}}}" if isinstance(v, ast.FormattedValue) else v.value
                    for v in node.values
                ]
                found = re.search(rf"\bdemur (?:{verbs})\b[^;'\"]*\{{(.*?)\}}", "".join(parts))
                if found and not re.search(r"(?:name|suite|source|job)$", found[1]):
                    written.append(f"{file.name}:{node.lineno}: {''.join(parts)}")
    assert written == []  # demur.core.text.command writes them


def test_a_planned_run_asks_nobody(release, tmp_path, capsys):
    words = [
        "run",
        str(release),
        "--system",
        "model:http://127.0.0.1:9/v1#m",
        "--plan",
        "--json",
        "--out",
        str(tmp_path / "r"),
    ]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["calls"] == 16
    assert not (tmp_path / "r").exists()


def test_a_manifest_cannot_choose_what_is_imported(release, tmp_path, monkeypatch, capsys):
    (tmp_path / "hostile_encoder.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["encoder"] = {"name": "hostile_encoder:Encoder"}
    (release / "manifest.json").write_text(json.dumps(manifest))
    assert main(["run", str(release), "--system", "reader", "--out", str(tmp_path / "r")]) == 2
    assert "run hostile_encoder:Encoder" in capsys.readouterr().err


def _parsers(parser):
    """A parser and those of its jobs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for job in action.choices.values():
                yield from _parsers(job)


@pytest.mark.parametrize("verb", VERBS, ids=[v.name for v in VERBS])
def test_an_option_of_several_values_that_is_repeated_adds_up(verb):
    """The last one would silently win: of two limits of a gate, the first would be gone."""
    parser = parser_of(verb)
    importlib.import_module(f"demur.cli.{verb.name.replace('-', '_')}").configure(parser)
    for each in _parsers(parser):
        for action in each._actions:
            if not action.option_strings or action.nargs not in ("+", "*"):
                continue
            place = argparse.Namespace(**{action.dest: action.default})
            for value in ("a", "b"):
                action(each, place, [value], action.option_strings[0])
            assert getattr(place, action.dest) == ["a", "b"], (each.prog, action.option_strings)


@pytest.mark.parametrize("distractors", [0, 1])
def test_a_corpus_that_is_empty_without_the_gold_names_the_other_way(tmp_path, capsys, distractors):
    release = tiny_release(tmp_path / "release", 2, text=distractors)
    assert main(["corpus", "export", str(release), "--out", str(tmp_path / "corpora")]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"gold-removed +(\d+) documents", out)[1] == str(2 * distractors)
    assert ("{exclude}" in err) == (not distractors)
