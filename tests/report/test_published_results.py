"""Results as others collect them: valid by the published schemas and by the hub's own client, and equal to the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
import yaml
from errors import raises

from demur.cli import main
from demur.core.errors import UsageError
from demur.core.records import Outcome, Scenario, Status
from demur.reports.cells import headline
from demur.reports.published_results import (
    RIGHT,
    UNKNOWN,
    model_id,
    write_every_eval_ever,
    write_hub_results,
)

SCHEMAS = Path(__file__).parent / "every_eval_ever"


def schema(name):
    return json.loads((SCHEMAS / name).read_text())


@pytest.fixture(scope="module")
def records(data, tmp_path_factory):
    """Run name -> (aggregate, lines, folder)."""
    folder = tmp_path_factory.mktemp("eee")
    files = write_every_eval_ever(data, folder, "me/towns")
    aggregates = [json.loads(path.read_text()) for path in files if path.suffix == ".json"]
    return {
        each["model_info"]["name"]: (
            each,
            [
                json.loads(line)
                for line in (folder / each["detailed_evaluation_results"]["file_path"])
                .read_text()
                .splitlines()
            ],
            folder,
        )
        for each in aggregates
    }


def test_records_are_valid_by_the_published_schemas(data, records):
    assert records.keys() == {run.name for run in data.runs}
    for aggregate, lines, folder in records.values():
        jsonschema.validate(aggregate, schema("eval.schema.json"))
        validator = jsonschema.Draft7Validator(schema("instance_level_eval.schema.json"))
        for line in lines:
            validator.validate(line)
        detailed = aggregate["detailed_evaluation_results"]
        content = (folder / detailed["file_path"]).read_bytes()
        assert detailed["checksum"] == sha256(content).hexdigest()
        assert detailed["total_rows"] == len(lines)


def counted(run, head):
    """Scenario -> outcomes of the headline's rows, counted from the rows alone."""
    outcomes = {}
    for row in run.rows:
        if row.condition == head.condition and head.recipes.get(row.scenario) == row.recipe:
            outcomes.setdefault(row.scenario, []).append(row)
    return outcomes


def test_scores_are_the_rows_counted(data, records):
    head = headline(data.runs)
    for run in data.runs:
        aggregate, lines, _ = records[run.name]
        scores = {
            each["evaluation_result_id"]: each["score_details"]["score"]
            for each in aggregate["evaluation_results"]
        }
        rows_of = counted(run, head)
        for scenario, rows in rows_of.items():
            graded = [row for row in rows if row.status is Status.GRADED]
            for outcome, name in (
                (Outcome.CORRECT, "accuracy"),
                (Outcome.INCORRECT, "hallucination"),
                (Outcome.DEFLECTED, "deflection"),
            ):
                share = sum(row.outcome is outcome for row in graded) / len(graded)
                assert scores[f"{scenario.value}/{name}"] == pytest.approx(share)
            of_scenario = [
                each
                for each in lines
                if each["evaluation_result_id"] == f"{scenario.value}/{RIGHT}"
            ]
            assert len(of_scenario) == len(rows)
            known = [each["evaluation"]["score"] for each in of_scenario]
            assert known.count(UNKNOWN) == len(rows) - len(graded)
            right = sum(score == 1 for score in known) / len(graded)
            assert scores[f"{scenario.value}/{RIGHT}"] == pytest.approx(right)


def test_hub_results_are_read_by_the_hubs_own_client(data, tmp_path):
    from huggingface_hub import parse_eval_result_entries

    files = write_hub_results(data, tmp_path, "me/towns")
    head = headline(data.runs)
    for run, path in zip(data.runs, files, strict=True):
        assert path.parent == tmp_path / model_id(run) / ".eval_results"
        entries = parse_eval_result_entries(yaml.safe_load(path.read_text()))
        assert {entry.dataset_id for entry in entries} == {"me/towns"}
        rows_of = counted(run, head)
        assert {entry.task_id for entry in entries} == {s.value for s in rows_of}
        for entry in entries:
            rows = [r for r in rows_of[Scenario(entry.task_id)] if r.status is Status.GRADED]
            right = sum(
                r.outcome is (Outcome.CORRECT if r.expected == "answer" else Outcome.DEFLECTED)
                for r in rows
            )
            assert entry.value == pytest.approx(100 * right / len(rows), abs=0.006)


def test_the_command_writes_both_and_names_the_dataset(demo, tmp_path, capsys):
    release, runs = demo
    page = ["report", *map(str, runs), "--release", str(release), "-o", str(tmp_path / "r.html")]
    eee, hub = tmp_path / "eee", tmp_path / "hub"
    assert main([*page, "--hub-results", str(hub)]) == 2
    assert "--dataset" in capsys.readouterr().err
    both = ["--every-eval-ever", str(eee), "--hub-results", str(hub), "--dataset", "me/towns"]
    assert main([*page, *both]) == 0
    assert len(list(eee.rglob("*.json"))) == len(list(hub.rglob("*.yaml"))) == len(runs)


def test_a_dataset_without_owner_is_refused(data, tmp_path):
    with raises(UsageError, "towns", cure="OWNER/NAME"):
        write_every_eval_ever(data, tmp_path, "towns")


@pytest.mark.parametrize("system", ["model:openai/../..", "model:a/..", "..", "model:../../x"])
def test_no_name_in_a_run_leads_out_of_the_folder(data, tmp_path, system):
    release = {"name": "..", "version": "1.0.0"}
    manifest = {"system": system, "release": release}
    run = replace(data.runs[0], name="..", manifest=manifest)
    stranger = replace(data, runs=(run,))
    files = write_every_eval_ever(stranger, tmp_path / "eee", "me/towns")
    files += write_hub_results(stranger, tmp_path / "hub", "me/towns")
    assert all(tmp_path in path.resolve().parents for path in files)
    assert {path.relative_to(tmp_path).parts[0] for path in map(Path.resolve, files)} == {
        "eee",
        "hub",
    }
