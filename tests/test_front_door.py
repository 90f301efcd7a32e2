"""The front door: ten functions, from a script, from a running loop, and from a notebook's kernel."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from errors import raises
from strategies import tiny_release

import demur
from demur.core.errors import ReleaseError, StorageError, UsageError
from demur.core.records import Outcome, Response, Status

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tiny_release(tmp_path / "release", 6)


def reads(question, evidence):
    """Answers what the gold passage of the question says, if it is shown."""
    number = question.split(" in s")[1].rstrip("?")
    return (
        f"answer {number}"
        if any(e["id"] == f"s{number}-g0" for e in evidence)
        else "I cannot answer this."
    )


def outcomes(run: demur.Evaluation) -> list[tuple[str, str]]:
    return sorted((r["scenario"], r["outcome"]) for r in run.to_arrow().to_pylist())


EXPECTED = [("adversarial", "deflected")] * 6 + [("oracle", "correct")] * 6


def test_a_function_is_evaluated_and_what_comes_back_is_a_value(release, tmp_path):
    run = demur.evaluate(
        str(release), reads, scenarios=["oracle", "adversarial(k=2)"], out=str(tmp_path / "runs")
    )
    assert outcomes(run) == EXPECTED
    frame = run.rates()
    accuracy = {r["scenario"]: r["accuracy"] for r in frame.records}
    assert (
        accuracy["oracle"]["value"],
        accuracy["oracle"]["n"],
        accuracy["adversarial"]["value"],
    ) == (1.0, 6, 0.0)
    assert "oracle" in repr(frame)
    assert "<table" in frame._repr_html_()
    assert frame.to_pandas().loc[0, "accuracy n"] == 6
    assert frame.to_arrow().column("accuracy").to_pylist() == [1.0, 0.0]
    assert "\\toprule" in frame.to_latex()
    assert frame.to_markdown().startswith("|") or "|" in frame.to_markdown()
    assert "accuracy" in frame.to_csv().lower()
    assert len(run.to_pandas()) == 12
    assert "100.0" in repr(run)
    assert "<table" in run._repr_html_()
    assert {r["source"] for r in run.rates("source").records} == {"made"}
    assert {r["gold"] for r in run.rates("gold_modality").records} == {"text"}
    # of those shown: none in oracle
    assert {r["distractors"] for r in run.rates("negative_modality").records} == {"text", "none"}
    truthfulness = {r["scenario"]: r["truthfulness"]["value"] for r in frame.records}
    assert truthfulness == {"oracle": 1.0, "adversarial": 0.0}
    with pytest.raises(UsageError, match="by='colour'"):
        run.rates("colour")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["dict", "async", "instance", "partial", "keywords"])
def test_functions_of_every_kind(release, tmp_path, kind):
    from functools import partial

    async def later(question, evidence):
        await asyncio.sleep(0)
        return reads(question, evidence)

    class System:
        def __call__(self, question, evidence):
            return reads(question, evidence)

    system = {
        "dict": lambda given: reads(given["question"], given["evidence"]),
        "async": later,
        "instance": System(),
        "partial": partial(
            lambda sure, question, evidence: {
                "answer": reads(question, evidence),
                "confidence": sure,
            },
            0.9,
        ),
        "keywords": lambda question, **rest: reads(question, rest["evidence"]),
    }[kind]
    run = demur.evaluate(
        release, system, scenarios=["oracle", "adversarial(k=2)"], out=tmp_path / "runs", name=kind
    )
    assert outcomes(run) == EXPECTED
    assert run.system == kind


def test_an_object_with_the_methods_of_a_system(release, tmp_path):
    class Own:
        id, note, revision = "own", "", "1"

        def skip_reason(self, ask):
            return ""

        async def answer(self, ask):
            return Response(text="I don't know.")

        async def close(self):
            pass

    run = demur.evaluate(demur.open_release(release), Own(), scenarios="oracle", out=tmp_path)
    assert outcomes(run) == [("oracle", "deflected")] * 6
    with raises(UsageError, "int"):
        demur.evaluate(release, 7, out=tmp_path)


def test_all_of_it_works_in_a_running_loop(release, tmp_path):
    async def cell():
        run = demur.evaluate(
            release, reads, scenarios=["oracle", "adversarial(k=2)"], out=tmp_path / "runs"
        )
        other = demur.evaluate(
            release,
            lambda question: "I don't know.",
            scenarios="oracle",
            out=tmp_path / "runs",
            name="no",
        )
        return run, demur.compare(run, other), demur.report([run, other], tmp_path / "report.html")

    run, compared, page = asyncio.run(cell())
    assert outcomes(run) == EXPECTED
    assert compared.worse
    assert "oracle" in repr(compared)
    assert "<table" in compared._repr_html_()
    assert len(compared.to_pandas()) == len(compared.differences)
    assert page.path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert page.as_json()["report"] == str(page.path)
    assert "oracle" in repr(page)


def test_what_was_answered_is_not_asked_again_and_an_edited_function_is(release, tmp_path):
    calls: dict[str, int] = {"n": 0}

    def first(question):
        calls["n"] += 1
        return "I don't know."

    for _ in range(2):
        demur.evaluate(release, first, scenarios="oracle", out=tmp_path / "runs", name="f")
    assert calls["n"] == 6

    def second(question):
        calls["n"] += 1
        return "No idea."

    demur.evaluate(release, second, scenarios="oracle", out=tmp_path / "runs", name="f")
    assert calls["n"] == 12


def test_runs_are_opened_and_compared_by_their_folders(release, tmp_path):
    run = demur.evaluate(release, reads, scenarios="oracle", out=tmp_path / "runs", name="a")
    demur.evaluate(release, reads, scenarios="oracle", out=tmp_path / "runs", name="b")
    opened = demur.open_run(str(run.folder), release)
    assert outcomes(opened) == outcomes(run)
    assert not demur.compare(run.folder, str(tmp_path / "runs" / "b")).worse
    runs = tmp_path / "runs"
    for (
        several
    ) in (  # one of them alone would be decided on, or compared with another than the one named
        lambda: demur.open_run(runs),
        lambda: demur.compare(runs, runs / "a"),
        lambda: demur.gate(runs, min_accuracy={"oracle": 0.1}),
        lambda: demur.gate(runs / "a", baseline=runs),
    ):
        with pytest.raises(UsageError, match="holds 2 runs"):
            several()
    shutil.rmtree(runs / "b")
    inside = demur.open_run(runs)
    assert inside.folder == runs / "a"
    assert len(inside.to_arrow()) == len(opened.to_arrow())


def test_one_answer_is_graded():
    right = demur.grade("Which river is it?", answers=["Danube"], response="The Danube, I think.")
    assert right.outcome is Outcome.CORRECT
    assert demur.grade("Which river?", "Danube", "I don't know.").outcome is Outcome.DEFLECTED
    assert demur.grade("Which river?", "Danube", "").status is Status.FAILED
    assert (
        demur.grade("Which?", "b", "B", choices=[("a", "Rhine"), ("b", "Danube")]).outcome
        is Outcome.CORRECT
    )


def test_an_index_is_built_and_searched(tmp_path):
    lines = [
        {"id": str(n), "title": f"Town {n}", "text": f"The river of town {n} is called {w}."}
        for n, w in enumerate(["Ash", "Elm", "Oak"])
    ]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    index = demur.build_index(
        tmp_path / "kb.jsonl", tmp_path / "index", encoder="curation_world:quick"
    )
    hits = index.search("Elm", k=2, mode="lexical")
    assert hits[0][2].title == "Town 1"
    assert "Town 1" in repr(hits)
    assert hits.to_pandas().loc[0, "title"] == "Town 1"
    assert "3 " in repr(index)
    with raises(UsageError, "query"):
        index.search()


def test_errors_say_what_to_do(tmp_path, monkeypatch):
    with raises(ReleaseError, item=tmp_path / "nowhere"):
        demur.open_release(tmp_path / "nowhere")
    with raises(UsageError, "hf:nobody", cure="hf:OWNER/NAME"):
        demur.open_release("hf:nobody")
    with raises(StorageError, "HF_HUB_OFFLINE", item="hf:nobody/nothing"):
        demur.open_release("hf:nobody/nothing@v1.0.0")


def test_a_wrong_argument_is_told_by_its_name_before_any_work(release, tmp_path):
    def asked(**given):
        return demur.evaluate(release, reads, **{"scenarios": "oracle", "out": tmp_path, **given})

    for call, told in (
        (lambda: demur.open_release(None), "open_release: path=None: expected str | Path"),
        (lambda: asked(limit="many"), "evaluate: limit='many': "),
        (lambda: asked(judge=None), "evaluate: judge=None: "),
        (lambda: asked(limits=3), "evaluate: no argument 'limits'"),
        (lambda: asked(warmth=3), "evaluate: no argument 'warmth'"),
        (
            lambda: demur.gate(tmp_path, max_hallucination=0.2),
            "--max-hallucination",
        ),
        (
            lambda: demur.grade("Which?", 3, "three"),
            "grade: answers=3: expected str | Sequence[str]",
        ),
        (lambda: demur.grade("Which?", [], "three"), "grade: answers.forms: "),
        (lambda: demur.grade("Which?", [""], "three"), "empty"),
        (lambda: demur.open_index(3), "open_index: folder=3: expected str | Path"),
    ):
        with pytest.raises(UsageError) as raised:
            call()
        assert told in str(raised.value)
    assert not any(p.name.startswith("reads") for p in tmp_path.iterdir())
    with pytest.raises(TypeError, match=r"evaluate\(\).*'system'"):
        demur.evaluate(release)
    import numpy as np

    assert (
        len(asked(limit=np.int64(2), temperature=0.5).to_arrow()) == 2
    )  # a model's option: a function ignores it


def test_the_folder_beside_a_release_is_answered_by_the_release(release, tmp_path):
    with raises(ReleaseError, item=tmp_path, cure="release"):
        demur.open_release(tmp_path)
    run = demur.evaluate(release, reads, scenarios="oracle", out=tmp_path / "runs")
    with raises(ReleaseError, item=run.folder / "manifest.json"):
        demur.open_release(run.folder)
    assert repr(demur.open_release(release)).endswith("6 samples)")


# --- what stands at the door ----------------------------------------------------------------------


def test_every_public_name_is_there_described_and_typed():
    for name in demur.__all__:
        thing = getattr(demur, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(thing), name
        if inspect.isfunction(thing):
            assert all(
                p.annotation is not p.empty for p in inspect.signature(thing).parameters.values()
            ), name
            assert inspect.signature(thing).return_annotation is not inspect.Signature.empty, name
    assert dir(demur) == sorted(demur.__all__)
    with pytest.raises(AttributeError, match="'evaluat'"):
        _ = demur.evaluat


def test_importing_demur_imports_nothing_heavy():
    code = (
        "import sys, demur; print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "('numpy', 'pyarrow', 'pydantic', 'aiohttp', 'PIL', 'faiss', 'rich') or m.startswith('demur.') and not m.startswith('demur.core')))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "[]"


def test_the_package_report_is_the_function_too(release, tmp_path):
    import demur.reports.tables  # it takes the attribute's place

    run = demur.evaluate(release, reads, scenarios="oracle", out=tmp_path / "runs")
    assert demur.report(run, tmp_path / "r.html").path.is_file()


@pytest.mark.integration
def test_the_ten_lines_of_the_readme_run_as_printed(small_demo, tmp_path):
    """As a script: the demo's release, a model at a server of ours, a small knowledge base, a small recipe."""
    import yaml
    from curation_world import GATES, folder

    from demur.testing import running

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = [b for b in text.split("```python\n")[1:] if b.startswith("import demur")]
    lines = block.partition("```")[0]
    assert lines.strip() in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    (tmp_path / "demo-out").symlink_to(small_demo[0])
    (tmp_path / "kb.jsonl").write_text(
        '{"id": "1", "title": "Vienna", "text": "The Danube flows through Vienna."}\n'
    )
    folder(tmp_path / "towns")
    recipe = {
        "name": "towns",
        "version": "1.0.0",
        "sources": [{"name": "generic", "path": str(tmp_path / "towns")}],
        "gates": GATES,
        "retrieval": {"encoder": "curation_world:quick", "text": 6, "visual": 2},
        "retest": 3,
        "rules": {"k_min": 2},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "ten.py").write_text(
        lines.replace("choices=()): ...", "choices=()): return 'I cannot tell.'")
    )
    with running(reply=lambda body: "I don't know.") as server:
        outside = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
        given = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1", "OPENAI_API_KEY": "x"}
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        done = subprocess.run(
            [sys.executable, "ten.py"],
            cwd=tmp_path,
            env={**outside, **given, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "out" / "release" / "manifest.json").is_file()


@pytest.mark.integration
def test_the_library_without_the_command_scores_a_release(release):
    """examples/score_a_release.py, as its first lines say."""
    command = [sys.executable, "examples/score_a_release.py", str(release)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    first, *rates = done.stdout.splitlines()
    assert first.endswith(" 6 samples)")
    assert [line.split()[:2] for line in rates] == [
        [scenario, rate]
        for scenario in ("oracle", "adversarial")
        for rate in ("accuracy", "deflection", "hallucination")
    ]


@pytest.mark.integration
def test_the_notebook_runs_in_a_real_kernel(small_demo, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    (tmp_path / "demo-out").symlink_to(small_demo[0])
    notebook = nbformat.read(ROOT / "examples" / "front_door.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in shown if o.output_type == "error"]
    assert (
        sum("text/html" in o.get("data", {}) for o in shown) == 3
    )  # rates, comparison, rows: once each
    assert all(o.output_type == "execute_result" for o in shown)
    assert (tmp_path / "notebook-report.html").is_file()


def test_a_system_object_of_ones_own_needs_no_revision_and_no_thread_of_its_own(release, tmp_path):
    """Its class may be two methods long; it computes beside the loop, and its answers hold for its code."""
    import threading

    threads = set()

    class Mine:
        id, note = "mine", ""

        def skip_reason(self, ask):
            return ""

        async def answer(self, ask):
            threads.add(threading.get_ident())
            return Response(text="I cannot tell.")

        async def close(self):
            pass

    run = demur.evaluate(
        release, Mine(), scenarios=["oracle"], out=tmp_path / "runs", progress=False
    )
    assert len(run.manifest["revision"]) == 16
    assert len(threads) == 1
    assert threading.get_ident() not in threads
