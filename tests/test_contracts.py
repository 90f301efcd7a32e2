"""Every part that demur registers keeps the contract of its kind (`demur.testing.contracts`)."""

from __future__ import annotations

import json
import re

import mini_sources as mini
import numpy as np
import pytest
from mini_sources import lines, png, put
from strategies import sample
from stub_encoder import StubEncoder

from demur.core.plugins import find, where
from demur.core.records import Outcome, Status
from demur.core.store import Problems
from demur.corpora import READERS
from demur.indexing.bm25 import build_bm25
from demur.indexing.encoders import open_encoder
from demur.judge.base import JudgeContext, open_judge
from demur.judge.local import LocalJudge
from demur.retrieval.modes import SIMPLE_MODES, SimpleMode
from demur.scenarios.systems import SystemContext
from demur.testing import (
    check_corpus,
    check_encoder,
    check_index,
    check_judge,
    check_mode,
    check_source,
    check_system,
    running,
)

MAP = """\
samples: {files: [q.jsonl], fields: {images: photo, gold: gold}}
documents: {files: [d.jsonl], fields: {text: text}}
"""


def generic(folder):
    put(folder / "demur-map.yaml", MAP)
    put(folder / "a.png", png())
    lines(
        folder / "q.jsonl",
        [{"id": 1, "question": "Which?", "answers": ["It"], "photo": "a.png", "gold": ["d"]}],
    )
    lines(folder / "d.jsonl", [{"id": "d", "title": "T", "text": "It is."}])
    return folder


def pool(folder):
    from demur.pools.write import build
    from demur.sources import open_source

    build(
        [open_source("webqa", mini.webqa(folder / "from"), Problems())],
        folder / "pool",
        documents=True,
    )
    return folder / "pool"


# --- sources and corpora ---

SOURCES = {**mini.BUILDERS, "generic": generic, "pool": pool, "atlas": lambda folder: None}


LONG = {"atlas", "datasets"}
"""Whole data sets: not in the core tier."""


def own(kind):
    """Names of demur's parts, not of packages that are installed beside it."""
    return [name for name, value in where(kind).items() if value.startswith("demur.")]


def core(names):
    return [pytest.param(name, marks=[pytest.mark.reference] * (name in LONG)) for name in names]


@pytest.mark.parametrize("name", core(own("sources")))
def test_sources(name, tmp_path):
    check_source(name, SOURCES[name](tmp_path), **mini.OPTIONS.get(name, {}))


ROWS = [{"id": "a", "title": "A", "text": "One."}, {"id": "b", "title": "B", "text": "Two."}]


def table(folder, reader):
    path = folder / f"kb.{reader}"
    if reader == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.Table.from_pylist([row | {"image": {"bytes": png(), "path": None}} for row in ROWS]),
            path,
        )
    elif reader in ("csv", "tsv"):
        mark = "," if reader == "csv" else "\t"
        put(
            path,
            "\n".join(mark.join(row) for row in (ROWS[0], *(row.values() for row in ROWS))) + "\n",
        )
    else:
        put(path, json.dumps(ROWS)) if reader == "json" else lines(path, ROWS)
    return path


def saved(folder):
    from datasets import Dataset

    Dataset.from_list(ROWS).save_to_disk(str(folder / "set"))
    return folder / "set"


def photos(folder):
    put(folder / "photos/a.png", png())
    return folder / "photos"


CORPORA = {
    "wiki6m": lambda folder: mini.infoseek(folder) / "Wiki6M_ver_1_0.jsonl.gz",
    "evqa": lambda folder: mini.evqa(folder) / "encyclopedic_kb_wiki.json",
    "cragmm": lambda folder: mini.crag_mm(folder) / "web",
    "kilt": lambda folder: mini.viquae(folder) / "non_humans.jsonl",
    "dpr": lambda folder: (
        put(folder / "p.tsv", 'id\ttext\ttitle\n1\t"A ""fox""."\tFox\n') or folder / "p.tsv"
    ),
    "beir": mini.beir,
    "images": photos,
    "datasets": saved,
    "docs": lambda folder: put(folder / "docs/a.md", "# Fox\n\nA fox is red.\n").parent,
}


@pytest.mark.parametrize("reader", core(READERS))
def test_corpora(reader, tmp_path):
    check_corpus(
        f"{reader}:{CORPORA[reader](tmp_path) if reader in CORPORA else table(tmp_path, reader)}"
    )


# --- encoders and indexes ---


@pytest.mark.heavy
def test_the_offline_encoder():
    """Those on PyTorch keep it where their tiny models are made: tests/indexing/test_encoders_*.py."""
    check_encoder(open_encoder("offline"))


@pytest.mark.parametrize("kind", own("indexes"))
def test_indexes(kind, tmp_path):
    if kind == "maxsim":
        return  # tests/indexing/test_maxsim.py
    if kind != "bm25":
        check_index(kind)
        return
    texts = [f"fox{n % 7} river{n % 5} word{n}" for n in range(40)]
    queries = ["fox3 river1", "word7", "nothing of it"]
    check_index(find("indexes", kind)[0](tmp_path, build_bm25(texts, tmp_path)), queries)


def test_a_kind_that_breaks_the_contract_is_told(tmp_path, monkeypatch):
    put(
        tmp_path / "careless_index.py",
        "from demur.indexing.indexes import Dense\n"
        "class Careless(Dense):\n"
        "    def search(self, queries, k):\n"
        "        found = super().search(queries, k)\n"
        "        return found._replace(rows=found.rows[:, ::-1])\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AssertionError, match="careless_index:Careless"):
        check_index("careless_index:Careless")


def one_number(encoder, queries, space):
    return [[1]]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (SimpleMode("nowhere", "text", "documents"), "nowhere"),
        (SimpleMode("titles", "text", "documents"), "pages"),
        (SimpleMode("looks", "both", "documents"), "one alone"),
        (SimpleMode("titles", "both", "pages", lambda encoder, queries, space: [[1]]), "no name"),
        (SimpleMode("titles", "both", "pages", one_number), "(1, 1)"),
    ],
)
def test_a_mode_that_breaks_the_contract_is_told(mode, told):
    with pytest.raises(AssertionError, match=re.escape(told)):
        check_mode(mode, StubEncoder())


def test_the_modes_by_one_alone_keep_the_contract():
    for name, mode in SIMPLE_MODES.items():
        if mode.by != "both" and mode.part != "lexical":
            check_mode(name, StubEncoder())


# --- systems and judges ---


def embed(texts):
    rows = np.zeros((len(texts), 64), np.float32)
    for row, text in zip(rows, texts, strict=True):
        row[[sum(word.encode()) % 64 for word in text.split()]] = 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


SERVICE = """\
body: {model: m, messages: [{role: user, content: "{question}"}]}
answer: $.choices[0].message.content
"""


@pytest.mark.parametrize("name", own("systems"))
async def test_systems(name, tmp_path, monkeypatch):
    lines(
        tmp_path / "mine.jsonl",
        [{"sample": "s1", "scenario": "oracle", "answer": "Danube", "confidence": 0.9}],
    )
    put(
        tmp_path / "contract_function.py",
        "def answer(question):\n    return 1 / 0 if '$' in question else 'yes'\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    context = SystemContext(
        read_image=lambda ref: b"",
        embed=embed,
        pool=[sample("p")],
        ledger=tmp_path / "calls.sqlite",
    )
    with running(reply=lambda body: "Danube.") as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        put(tmp_path / "rag.yaml", f"url: {url}/chat/completions\n" + SERVICE)
        arguments = {
            "model": f"{url}#m",
            "http": tmp_path / "rag.yaml",
            "answers": tmp_path / "mine.jsonl",
            "python": "contract_function:answer",
        }
        await check_system(f"{name}:{arguments[name]}" if name in arguments else name, context)


@pytest.mark.heavy
@pytest.mark.parametrize("name", own("judges"))
async def test_judges(name, tmp_path):
    def grader(body):
        content = body["messages"][-1]["content"]
        text = (
            content
            if isinstance(content, str)
            else "".join(part.get("text", "") for part in content)
        )
        marks = re.findall(
            r"^ANSWER-[0-9a-f]{16}$", text, re.MULTILINE
        )  # the answer stands between two lines of it
        label = (
            "CORRECT"
            if "Danube" in (text.split(f"\n{marks[-1]}\n")[1] if marks else text)
            else "INCORRECT"
        )
        return json.dumps({"label": label}) if "response_format" in body else label

    if name == "local":
        return await check_judge(open_judge(name))
    with running(reply=grader) as server:
        asked = f"{'panel:local,model' if name == 'panel' else name}:http://127.0.0.1:{server.port}/v1#m"
        judge = open_judge(asked, JudgeContext(tmp_path / "calls.sqlite"))
        try:
            await check_judge(judge)
        finally:
            await judge.close()


# --- what breaks a contract is told ---


class Generous(LocalJudge):
    def grade(self, ask, response, answers):
        verdict = super().grade(ask, response, answers)
        return verdict.model_copy(update={"status": Status.GRADED, "outcome": Outcome.CORRECT})


class Talker:
    id, note = "talker", ""

    def skip_reason(self, ask):
        return ""

    async def answer(self, ask):
        return "just text"

    async def close(self):
        pass


async def test_a_part_that_breaks_its_contract_is_told(tmp_path):
    with pytest.raises(AssertionError, match="is correct"):
        await check_judge(Generous())
    with pytest.raises(AssertionError, match="Response"):
        await check_system(Talker())
    folder = generic(tmp_path)
    lines(
        folder / "q.jsonl",
        [{"id": 1, "question": "Which?", "answers": ["It"], "photo": "none.png", "gold": ["d"]}],
    )
    with pytest.raises(AssertionError, match=r"none\.png"):
        check_source("generic", folder)
    put(tmp_path / "kb.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    with pytest.raises(AssertionError, match="one id"):
        check_corpus(f"jsonl:{tmp_path / 'kb.jsonl'}")

    class Backwards:
        kind, count = "backwards", 3

        def search(self, queries, k):
            from demur.indexing.exact import Neighbours

            return Neighbours(np.arange(k, dtype=np.float32)[None], np.arange(k)[None])

    with pytest.raises(AssertionError, match="best first"):
        check_index(Backwards(), ["x"])
