"""A release on the Hub as a leaderboard has it: inspect runs its tasks from the files of the repository as they are."""

from __future__ import annotations

import json
import subprocess
import sys

import curation_world as world
import pytest
import yaml

from demur.core.records import AnswerSpec, ImageRef, Sample
from demur.core.store import read_json
from demur.curation.build.curate import curate
from demur.evaluation.for_hub import DECLINES, scenario_rows
from demur.evaluation.options import RunOptions
from demur.evaluation.questions import tasks


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("tasks")
    return curate(world.recipe(world.folder(root / "towns"), world.GATES), root / "out").release


def rows_of(release, scenario):
    columns = ("id", "sample", "input", "target")
    values = [release.column(f"scenario-{scenario}", name) for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def test_eval_yaml_names_each_scenario_and_its_table(release):
    named = yaml.safe_load((release.folder / "eval.yaml").read_text())["tasks"]
    counts = read_json(release.folder / "manifest.json")["scenarios"]
    assert [task["id"] for task in named] == list(counts)
    assert {"parametric", "oracle", "realistic", "adversarial"} == counts.keys()
    assert all(len(rows_of(release, name)) == count for name, count in counts.items())


def test_its_questions_are_those_of_a_run_without_pictures(release):
    asks = {task.ask.id: task for task in tasks(RunOptions(), list(release.samples()))}
    of_text = {
        id_
        for id_, task in asks.items()
        if not task.ask.images and not any(e.image for e in task.ask.evidence)
    }
    written = {}
    for scenario in release.manifest["scenarios"]:
        for row in rows_of(release, scenario):
            task = asks[row["id"]]
            written[row["id"]] = row
            assert task.ask.question in row["input"]
            assert all(e.text in row["input"] for e in task.ask.evidence)
            right = task.sample.answers.display_form
            assert row["target"] == (right if task.context.expected == "answer" else DECLINES)
    assert written.keys() == of_text


SCRIPT = """
import json, sys
import huggingface_hub
from inspect_ai import eval
from inspect_ai._eval.task import hf
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi

folder, logs = sys.argv[1:]
known = json.load(sys.stdin)
huggingface_hub.hf_hub_download = lambda **asked: f"{folder}/{asked['filename']}"
load = hf.hf_dataset
hf.hf_dataset = lambda path, revision, **how: load(path=folder, **how)

class Mock(ModelAPI):
    async def count_text_tokens(self, text):  # the default downloads an encoding
        return len(text) // 4

@modelapi(name="by-heart")
class ByHeart(Mock):
    async def generate(self, input, tools, tool_choice, config):
        return ModelOutput.from_content("mock", known[input[-1].text])

@modelapi(name="grader")
class Grader(Mock):
    async def generate(self, input, tools, tool_choice, config):
        text = input[-1].text
        wanted = next(line for line in text.splitlines() if line.startswith("Wanted: "))
        right = wanted.removeprefix("Wanted: ") in text.split("Reply:\\n")[1].splitlines()[0]
        return ModelOutput.from_content("mock", "Compared.\\nGRADE: " + ("C" if right else "I"))

for scenario in ("oracle", "adversarial"):
    [log] = eval(f"hf/me/towns/{scenario}", model=get_model("by-heart/model"),
                 model_roles={"grader": get_model("grader/model")}, log_dir=logs, display="none", log_level="error")
    assert log.status == "success", log.error
    print("TOLD" + json.dumps([scenario, len(log.samples), log.results.scores[0].metrics["accuracy"].value]))
"""


@pytest.mark.integration
@pytest.mark.heavy
def test_inspect_runs_them_from_a_copy_of_the_repository(release, tmp_path):
    """A model that knows all answers by heart and never declines: right in all of Oracle and nowhere in Adversarial."""
    answer_of = {row["sample"]: row["target"] for row in rows_of(release, "oracle")}
    known = {
        row["input"]: answer_of[row["sample"]]
        for scenario in ("oracle", "adversarial")
        for row in rows_of(release, scenario)
    }
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(release.folder), str(tmp_path)],
        input=json.dumps(known),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = [json.loads(line[4:]) for line in ran.stdout.splitlines() if line.startswith("TOLD")]
    counts = release.manifest["scenarios"]
    assert told == [["oracle", counts["oracle"], 1.0], ["adversarial", counts["adversarial"], 0.0]]


def test_questions_with_pictures_are_left_out():
    image = ImageRef(sha256="0" * 64, uri="a.png", width=8, height=8)
    sample = Sample(
        id="a",
        source="s",
        question="What is it?",
        images=(image,),
        answers=AnswerSpec(accepted=(("a mug",),)),
    )
    assert scenario_rows([sample]) == {}
