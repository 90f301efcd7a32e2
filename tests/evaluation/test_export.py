"""Questions exported to inspect and to lmms-eval, asked there, judged there as here, and brought back from their logs."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest
import yaml
from report_factory import make_release

from demur.cli import main
from demur.evaluation.for_lmms_eval import Functions
from demur.release import Release

ASKED = """
import json, re, sys
from inspect_ai import eval
from demur.cli import main
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi

def said(input):
    text = input[-1].text
    found = re.findall(r"The [a-z ]+ of [A-Z]\\w+ is \\w+", text)
    if len(text) % 3 == 0 or not found:
        return ModelOutput.from_content("mock", "I cannot tell from what is shown.")
    return ModelOutput.from_content("mock", found[len(text) % len(found)] if len(text) % 7 else "")

@modelapi(name="copies")
class Copies(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        return said(input)

    async def count_text_tokens(self, text):  # the default downloads an encoding
        return len(text) // 4

model = get_model("copies/model")
for name in ("oracle",):
    [log] = eval(sys.argv[1] + "/" + name, model=model, log_dir=sys.argv[2] + "/" + name, display="none", log_level="error")
    assert log.status == "success", log.error
    rates = {name: m.value for name, m in log.results.scores[0].metrics.items()}
    sys.argv[3:] and main(["run", sys.argv[3], "--scenarios", name, "--system", f"{name}=answers:{log.location}", "--out", sys.argv[4], "--json"])
    print("TOLD" + json.dumps({"name": name, "log": log.location, "rates": rates, "scores": {
        s.id: {"status": s.scores["demur"].metadata["status"], "value": s.scores["demur"].value,
               "answer": s.output.completion, "images": sum(c.type == "image" for m in s.input for c in m.content)}
        for s in log.samples}}, default=str))
"""


def verdicts(folder):
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    return {row["ask"]: (row["status"], row["outcome"]) for row in rows}


@pytest.mark.integration
@pytest.mark.slow
def test_inspect_asks_and_scores_what_demur_does(tmp_path, capsys):
    release, samples = make_release(tmp_path / "release")
    out = tmp_path / "tasks"
    assert main(["export", "inspect", str(release), "--out", str(out), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    site = (
        tmp_path / "site-packages"
    )  # installed by pip, so that its tasks are known by name (inspect looks at this word)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
    ]
    done = subprocess.run([*pip, str(out)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert made["tasks"] == dict.fromkeys(
        ("parametric", "oracle", "realistic", "adversarial"), len(samples)
    )
    script = tmp_path / "ask.py"
    script.write_text(ASKED)
    command = [
        sys.executable,
        str(script),
        made["package"],
        str(tmp_path / "logs"),
        str(release),
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("TOLD")]
    assert [told["name"] for told in found] == ["oracle"]
    for told in found:
        mine = verdicts(tmp_path / "runs" / told["name"])
        letters = {"correct": "C", "incorrect": "I", "deflected": "N"}
        assert set(told["scores"]) == set(mine)
        for ask, score in told["scores"].items():
            status, outcome = mine[ask]
            assert score["status"] == status, score
            assert status != "graded" or score["value"] == letters[outcome]
        assert {status for status, _ in mine.values()} >= {"graded", "failed"}
        graded = [outcome for status, outcome in mine.values() if status == "graded"]
        assert told["rates"]["deflection"] == pytest.approx(graded.count("deflected") / len(graded))
        assert told["rates"]["accuracy"] == pytest.approx(graded.count("correct") / len(graded))
        assert sum(s["images"] for s in told["scores"].values()) > len(samples) / 2


ANSWERS = ("I cannot tell from what is shown.", "It is {}.", "It is Nowhereville.", "")


class Loader(yaml.SafeLoader):
    """YAML as lmms-eval reads its task files: ``!function utils.name`` is a function of utils.py beside it."""


def loaded(path):
    import importlib.util

    def function(loader, node):
        module, _, name = loader.construct_scalar(node).rpartition(".")
        spec = importlib.util.spec_from_file_location(
            f"{module}_{abs(hash(path))}", path.parent / f"{module}.py"
        )
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return getattr(made, name)

    Loader.add_constructor("!function", function)
    return yaml.load(path.read_text(), Loader)  # the loader is a safe one


@pytest.mark.heavy
def test_lmms_eval_asks_and_scores_what_demur_does(tmp_path, capsys):
    import datasets

    release, samples = make_release(tmp_path / "release")
    out = tmp_path / "tasks"
    what = ["--scenarios", "oracle", "adversarial", "--judge", "local"]
    assert main(["export", "lmms-eval", str(release), "--out", str(out), *what, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    group = loaded(out / f"{made['package']}.yaml")
    assert group == {
        "group": made["package"],
        "task": [f"{made['package']}_{n}" for n in ("oracle", "adversarial")],
    }
    known = {s.id: s for s in Release.open(release).samples()}
    for name in made["tasks"]:
        task = loaded(out / f"{made['package']}_{name}.yaml")
        assert task["task"] == f"{made['package']}_{name}"
        docs = datasets.load_dataset(
            task["dataset_path"],
            **task["dataset_kwargs"],
            cache_dir=str(tmp_path / "cache"),
            split=task["test_split"],
        )
        assert len(docs) == len(samples)
        task = copy.deepcopy(task)  # as lmms-eval does with it
        log, said = [], {}
        answers = [
            ANSWERS[number % 4].format(doc[task["doc_to_target"]])
            for number, doc in enumerate(docs)
        ]
        with ThreadPoolExecutor(4) as threads:  # as lmms-eval calls it: from four threads at once
            every = list(
                threads.map(task["process_results"], docs, [[answer] for answer in answers])
            )
        for number, (doc, answer, found) in enumerate(zip(docs, answers, every, strict=True)):
            text, images = task["doc_to_text"](doc), task["doc_to_visual"](doc)
            content = [c for m in task["doc_to_messages"](doc) for c in m["content"]]
            assert (
                len(images)
                == len([c for c in content if c["type"] == "image"])
                == text.count("(image ")
            )
            sample = known[json.loads(doc["ask"])["sample"]]
            assert sample.question in text
            assert len(images) >= len(sample.images)
            assert set(found) == {m["metric"] for m in task["metric_list"]}
            said[doc["id"]] = found["accuracy"]
            if name == "oracle":  # as lmms-eval 0.7 logs it
                log.append(
                    {"doc_id": number, "target": doc["target"], "filtered_resps": answer, **found}
                )
            else:  # as those before did
                kept = {k: v for k, v in doc.items() if k != "messages"}
                log.append(
                    {"doc_id": number, "doc": kept, "resps": [[answer]], "filtered_resps": [answer]}
                )
        path = tmp_path / f"samples_{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in log))
        command = [
            "run",
            str(release),
            "--scenarios",
            name,
            "--judge",
            "local",
            "--system",
            f"{name}=answers:{path}",
        ]
        assert main([*command, "--out", str(tmp_path / "runs")]) == 0
        mine = verdicts(tmp_path / "runs" / name)
        assert {ask: (one["status"], one["outcome"]) for ask, one in said.items()} == mine
        rates = {m["metric"]: m["aggregation"](list(said.values())) for m in task["metric_list"]}
        outcomes = [outcome for _, outcome in mine.values()]
        graded = [o for o in outcomes if o]
        assert rates["accuracy"] == graded.count("correct") / len(graded) > 0.3
        assert rates["accuracy"] + rates["deflection"] + rates["hallucination"] == pytest.approx(1)
        assert rates["unusable"] == outcomes.count(None) / len(outcomes)


LMMS_EVAL = """
import argparse, json, sys
from lmms_eval import evaluator
from lmms_eval.api.model import lmms
from lmms_eval.loggers import EvaluationTracker
from lmms_eval.protocol import ChatMessages
from lmms_eval.tasks import TaskManager

ANSWERS, (_, tasks, group, out) = json.loads(sys.stdin.read()), sys.argv

class Fake(lmms):
    is_simple = False

    def generate_until(self, requests):
        said = []
        for _, messages, options, number, task, split in (r.args for r in requests):
            doc = self.task_dict[task][split][number]
            images, *_ = ChatMessages(messages=messages(doc)).extract_media()
            assert len(images) == sum(bool(p["image"]) for m in doc["messages"] for p in m["parts"])
            assert options["until"] == [], options
            said.append(ANSWERS[number % 4].format(doc["target"]))
        return said

    loglikelihood = generate_until_multi_round = None

tracker = EvaluationTracker(output_path=out)
tracker.general_config_tracker.log_experiment_args("Fake", "pretrained=fake", "", "", "")
known = TaskManager(include_path=tasks, include_defaults=False)
options = argparse.Namespace(output_path=out, process_with_media=False, log_samples=True, config=None)
made = evaluator.simple_evaluate(
    model=Fake(), tasks=[group], task_manager=known, bootstrap_iters=0, evaluation_tracker=tracker, cli_args=options
)
samples = made.pop("samples")
tracker.save_results_aggregated(results=made, samples=samples, datetime_str="now")
for name, every in samples.items():
    tracker.save_results_samples(task_name=name, samples=every)
print("TOLD" + json.dumps({name: {k: v for k, v in made["results"][name].items() if k.endswith(",none")} for name in samples}, default=str))
"""


@pytest.mark.integration
@pytest.mark.slow
def test_lmms_eval_itself_runs_the_tasks_and_its_log_comes_back(tmp_path, capsys):
    pytest.importorskip(
        "lmms_eval",
        reason="no lmms-eval, which pins too much to stand in our environment: pip install lmms-eval",
    )
    release, samples = make_release(tmp_path / "release")
    what = ["--judge", "local", "--scenarios", "oracle"]
    assert (
        main(
            ["export", "lmms-eval", str(release), "--out", str(tmp_path / "tasks"), *what, "--json"]
        )
        == 0
    )
    package = json.loads(capsys.readouterr().out)["package"]
    script = tmp_path / "ask.py"
    script.write_text(LMMS_EVAL)
    command = [
        sys.executable,
        str(script),
        str(tmp_path / "tasks"),
        package,
        str(tmp_path / "logs"),
    ]
    done = subprocess.run(
        command,
        input=json.dumps(ANSWERS),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(
        next(line[4:] for line in done.stdout.splitlines() if line.startswith("TOLD"))
    )
    [log] = (tmp_path / "logs").rglob("*_samples_*_oracle.jsonl")
    assert (
        main(
            [
                "run",
                str(release),
                *what,
                "--system",
                f"mine=answers:{log}",
                "--out",
                str(tmp_path / "runs"),
            ]
        )
        == 0
    )
    outcomes = [outcome for _, outcome in verdicts(tmp_path / "runs/mine").values()]
    graded = [o for o in outcomes if o]
    rates = told[f"{package}_oracle"]
    assert len(outcomes) == len(samples)
    assert rates["accuracy,none"] == pytest.approx(graded.count("correct") / len(graded))
    assert rates["deflection,none"] == pytest.approx(graded.count("deflected") / len(graded))
    assert rates["unusable,none"] == pytest.approx(outcomes.count(None) / len(outcomes))


@pytest.mark.heavy
def test_what_models_cannot_be_asked_and_what_is_no_log_is_told(tmp_path, capsys):
    release, _ = make_release(tmp_path / "release")
    assert (
        main(
            [
                "export",
                "inspect",
                str(release),
                "--out",
                str(tmp_path / "t"),
                "--scenarios",
                "whole",
            ]
        )
        == 2
    )
    error = capsys.readouterr().err
    assert "demur: full " in error
    assert "parametric, oracle, realistic, adversarial" in error
    (tmp_path / "x.eval").write_bytes(b"no log")
    assert (
        main(
            [
                "run",
                str(release),
                "--system",
                f"answers:{tmp_path / 'x.eval'}",
                "--out",
                str(tmp_path / "r"),
            ]
        )
        == 1
    )
    assert "x.eval: " in capsys.readouterr().err
    assert Functions(tmp_path, "local").accuracy([]) != 0  # undefined is not 0
