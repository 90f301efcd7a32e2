"""A RAG service behind HTTP, asked through a mapping: what is understood, and what every fault becomes."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from errors import raises
from PIL import Image
from rag_server import as_json, service

from demur.core.errors import PermanentError, UsageError
from demur.core.images import image_ref
from demur.core.records import Ask, Modality, Outcome, Scenario, Shown, Status
from demur.judge.grading import Grading
from demur.judge.local import LocalJudge
from demur.models import run_sync
from demur.scenarios.systems import SystemContext
from demur.scenarios.systems.http import HttpSystem
from demur.scenarios.systems.http_mapping import RagMapping
from demur.scenarios.systems.http_probe import probe_service

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "answer": "The Danube.",
    "no_answer": False,
    "confidence": 0.9,
    "cited": ["d1", "d2"],
    "sources": [
        {"doc_id": "d1#3", "text": "The Danube flows through Vienna.", "score": 0.83},
        {"doc_id": "d2", "score": 0.4},
    ],
}


def picture():
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "PNG")
    return buffer.getvalue()


def question(**more):
    return Ask(
        id="a1",
        sample="s1",
        context="c1",
        scenario=Scenario.ORACLE,
        question="Which river?",
        **more,
    )


def asked_of(mapping, ask=None):
    system = HttpSystem(
        RagMapping.of(mapping, "rag.yaml"), SystemContext(read_image=lambda ref: picture())
    )

    async def work():
        try:
            return await system.answer(ask or question())
        finally:
            await system.close()

    return run_sync(work())


WHOLE = {
    "answer": "$.answer",
    "contexts": "$.sources[*]",
    "context": {"id": "$.doc_id"},
    "citations": "$.cited[*]",
    "confidence": "$.confidence",
    "abstained": "$.no_answer",
    "retries": 0,
}


@pytest.mark.parametrize("status", [200, 201])
def test_a_mapped_reply_is_understood_whole(status):
    with service(lambda n, h, b: (status, *as_json(GOOD, **{"X-Version": "7"})[1:])) as (
        url,
        asked,
    ):
        told = asked_of({"url": url, **WHOLE, "version": "X-Version"})
    assert (told.text, told.confidence, told.abstained, told.citations) == (
        "The Danube.",
        0.9,
        False,
        ("d1", "d2"),
    )
    assert [(c.id, c.rank, c.score, c.text) for c in told.retrieved] == [
        ("d1#3", 1, 0.83, "The Danube flows through Vienna."),
        ("d2", 2, 0.4, ""),
    ]
    assert told.served_by.endswith("@7")
    assert 0 < told.first_s <= told.latency_s
    assert json.loads(asked[0][1]) == {"question": "Which river?", "images": []}


def test_the_body_is_filled_with_things_and_with_text():
    ref = image_ref(picture(), "p.png")
    ask = question(
        images=(ref,),
        evidence=(Shown(id="e1", modality=Modality.TEXT, title="T", text="body"),),
        choices=(("A", "Rhine"),),
    )
    body = {
        "q": "Q: {question} ({strictness})",
        "pictures": "{images}",
        "docs": "{evidence}",
        "options": "{choices}",
        "top_k": 5,
    }
    with service(lambda n, h, b: as_json(GOOD)) as (url, asked):
        asked_of({"url": url, "body": body}, ask)
        sent = json.loads(asked[0][1])
        assert sent["q"] == "Q: Which river? (moderate)"
        assert base64.b64decode(sent["pictures"][0]) == picture()
        assert (sent["docs"], sent["options"], sent["top_k"]) == (
            [{"id": "e1", "title": "T", "text": "body"}],
            [["A", "Rhine"]],
            5,
        )
        asked_of({"url": url, "images": "multipart", "files": "pics"}, ask)
        assert asked[1][0]["Content-Type"].startswith("multipart/form-data")
        assert picture() in asked[1][1]
        assert b'name="pics"' in asked[1][1]


@pytest.mark.parametrize(
    ("form", "data"),
    [
        (
            "sse",
            b'event: x\ndata: {"d": "The "}\n\n: ping\ndata: {"d": "Danube."}\n\ndata: [DONE]\n\n',
        ),
        ("ndjson", b'{"d": "The "}\n{"d": "Danube."}'),
    ],
)
def test_streamed_answers_are_joined(form, data):
    with service(lambda n, h, b: (200, {}, data)) as (url, _):
        told = asked_of({"url": url, "stream": form, "answer": "$.d"})
    assert (told.text, told.error) == ("The Danube.", "")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((200, {}, b"<!doctype html><p>Sign in</p>"), "HTML"),
        ((200, {}, b"\xff\xfe\x00"), "JSON"),
        ((200, {}, b'{"answer": NaN}'), "JSON"),
        ((200, {}, b'{"error": "index not loaded"}'), "index not loaded"),
        ((200, {}, b'{"answer": 7}'), "int"),
        ((200, {}, b'{"answer": "Empty Response"}'), "retriever"),
        ((200, {}, b'{"answer": "x", "confidence": 7}'), "confidence"),
        ((200, {}, b'{"answer": "' + b"x" * 10_000_001 + b'"}'), "10 MB"),
        ((200, {}, b"[" * 100_000), "JSON"),
        ((401, {}, b"no"), "HTTP 401"),
        ((302, {"Location": "http://elsewhere.example/"}, b""), "HTTP 302"),
        ((500, {}, b"Traceback"), "HTTP 500"),
        ((200, {"Content-Length": "100"}, b"{}"), "broke"),
    ],
)
def test_every_fault_is_that_items_error(reply, why):
    with service(lambda n, h, b: reply) as (url, _):
        told = asked_of(
            {
                "url": url,
                "answer": "$.answer",
                "confidence": "$.confidence",
                "retries": 0,
                "timeout": 20,
            }
        )
    assert why in told.error
    assert told.text == ""
    assert len(told.error) <= 1000


def raw_deflate(data):
    return zlib.compress(data, wbits=-15)


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
def test_a_reply_that_is_packed_though_nobody_asked_is_read(coding, pack):
    def asked(status, data, **mapping):
        packed = (status, {"Content-Encoding": coding}, pack(data))
        with service(lambda n, h, b: packed) as (url, sent):
            found = asked_of({"url": url, "answer": "$.answer", "retries": 0, **mapping})
        assert sent[0][0]["Accept-Encoding"] == "identity"
        return found

    assert asked(200, b'{"answer": "The Danube."}').text == "The Danube."
    events = b'data: {"answer": "The "}\n\ndata: {"answer": "Danube."}\n\n'
    assert asked(200, events, stream="sse").text == "The Danube."
    assert asked(503, b"index not loaded").error == "HTTP 503: index not loaded"


@pytest.mark.parametrize("stream", [None, "ndjson"])
def test_a_packed_reply_is_no_bomb(stream):
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(100)) + packer.flush()
    with service(lambda n, h, b: (200, {"Content-Encoding": "gzip"}, bomb)) as (url, _):
        tracemalloc.start()
        told = asked_of(
            {
                "url": url,
                "retries": 0,
                **({"stream": stream, "answer": "$.answer"} if stream else {}),
            }
        )
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "10 MB" in told.error
    assert most < 50 << 20


@pytest.mark.parametrize(
    ("coding", "data"), [("gzip", b'{"answer": "x"}'), ("br", b"\x0b\x02\x80x\x03")]
)
def test_a_reply_that_cannot_be_unpacked_is_that_items_error(coding, data):
    with service(lambda n, h, b: (200, {"Content-Encoding": coding}, data)) as (url, _):
        told = asked_of({"url": url, "retries": 0})
    assert re.search(
        f"broke .*decode content-encoding: {'brotli' if coding == 'br' else coding}", told.error
    )


def test_a_service_that_is_too_slow_is_that_items_error():
    with service(lambda n, h, b: time.sleep(1.5) or as_json(GOOD)) as (url, _):
        told = asked_of({"url": url, "retries": 0, "timeout": 0.3})
    assert "0.3 s" in told.error


def test_nothing_listens_outside_the_loopback():
    """Every place of the package and the examples where somebody listens names the loopback in its call."""
    listens = re.compile(
        r"(?:HTTPServer|create_server|start_server|TCPSite|(?<!signature)(?<!\))\.bind|uvicorn\.run|super\(\).__init__)\((?:[^()]|\([^()]*\))*"
    )
    found = []
    for path in [*(ROOT / "demur").rglob("*.py"), *(ROOT / "examples").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert "0.0.0.0" not in text.replace("1.0.0.0", ""), path
        calls = [
            call for call in listens.findall(text) if "super()" not in call or "Handler" in call
        ]
        found += [(path.name, call) for call in calls]
    assert len(found) >= 6
    assert [one for one in found if "127.0.0.1" not in one[1]] == []


def test_what_may_pass_is_tried_again_and_a_refusal_is_not():
    flaky = [(429, {"Retry-After": "0"}, b""), (503, {}, b""), as_json(GOOD)]
    with service(lambda n, h, b: flaky[n - 1]) as (url, asked):
        assert asked_of({"url": url, "retries": 3}).text == "The Danube."
        assert len(asked) == 3
    with service(lambda n, h, b: (404, {}, b"")) as (url, asked):
        assert "HTTP 404" in asked_of({"url": url, "retries": 3}).error
        assert len(asked) == 1


def test_secrets_come_from_the_environment_and_are_never_shown(monkeypatch, tmp_path):
    headers = {"Authorization": "Bearer ${RAG_TOKEN}"}
    with pytest.raises(UsageError, match="RAG_TOKEN"):
        asked_of({"url": "http://127.0.0.1:9/", "headers": headers})
    monkeypatch.setenv("RAG_TOKEN", "s3cret-token-value")
    with service(lambda n, h, b: (403, {}, h["Authorization"].encode())) as (url, asked):
        told = asked_of({"url": url, "headers": headers})
    assert asked[0][0]["Authorization"] == "Bearer s3cret-token-value"
    assert "s3cret" not in told.model_dump_json()
    assert "403" in told.error


def test_a_service_that_says_that_it_gives_no_answer_has_deflected():
    from demur.core.records import AnswerSpec

    with service(lambda n, h, b: as_json({"answer": "", "no_answer": True})) as (url, _):
        told = asked_of({"url": url, **WHOLE})
    spec = AnswerSpec(accepted=(("Danube",),))
    verdict = run_sync(Grading(LocalJudge()).verdict(question(), told, spec))
    assert (verdict.status, verdict.outcome) == (Status.GRADED, Outcome.DEFLECTED)


@pytest.mark.parametrize(
    ("given", "item"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://h", "anwser": "$.a"}, "answer"),
        ({"url": "http://h", "answer": "$.["}, "JSONPath"),
        ({"url": "http://h", "body": {"q": "{qestion}"}}, "qestion"),
        ({"url": "http://h", "stream": "grpc"}, "stream"),
        ({"url": "http://h", "context": {"id": "$.x", "txt": "$.y"}}, "context"),
        ({"url": "http://h", "retries": -1}, "retries"),
        ({"url": "http://h", "retries": float("inf")}, "retries"),
        ({"url": "http://h", "headers": ["a"]}, "headers"),
        ({"url": "http://h", "query": "q"}, "query"),
        ({"url": {}}, "url"),
        ({"url": "http://h", "timeout": True}, "timeout"),
        ({"url": "http://h", "body": "{question}", "images": "multipart"}, "body"),
        ({"url": "http://h", "body": [1], "method": "GET"}, "body"),
    ],
)
def test_a_wrong_mapping_is_told_before_anything_is_asked(given, item):
    with pytest.raises(UsageError, match=item):
        RagMapping.of(given, "rag.yaml")


def test_nobody_there_is_told_before_the_run_and_ignored_evidence_too():
    async def ready(system, asks):
        try:
            return await system.ready(asks)
        finally:
            await system.close()

    gone = HttpSystem("http://127.0.0.1:9/ask", SystemContext(read_image=lambda ref: b""))
    with raises(PermanentError, "Connection refused", item="http"):
        run_sync(ready(gone, []))
    shown = question(evidence=(Shown(id="e1", modality=Modality.TEXT, title="T", text="body"),))
    with service(lambda n, h, b: as_json(GOOD)) as (url, _):
        there = HttpSystem(url, SystemContext(read_image=lambda ref: b""))
        [warning] = run_sync(ready(there, [shown]))
    assert "{evidence}" in warning


def test_a_probe_shows_what_was_understood_and_where_values_stand(tmp_path):
    mapping = tmp_path / "rag.yaml"
    with service(lambda n, h, b: as_json({"data": {"reply": "Danube", "docs": [{"k": 1}]}})) as (
        url,
        _,
    ):
        mapping.write_text(f"url: {url}\nanswer: $.answer\n")
        missed = probe_service(str(mapping), "Which river?").text()
        assert "$.data.reply  = Danube" in missed
        assert "$.data.docs[*].k  = 1" in missed
        mapping.write_text(f"url: {url}\nanswer: $.data.reply\n")
        assert "answer    'Danube'" in probe_service(str(mapping), "Which river?").text()


def test_an_address_out_of_the_environment_is_part_of_what_the_service_is(monkeypatch):
    """Another service behind the same words is another system; a key in the address is in no digest."""

    def revision(address, **more):
        monkeypatch.setenv("RAG_URL", address)
        mapping = RagMapping.of({"url": "http://${RAG_URL}/ask", **more}, "rag.yaml")
        return HttpSystem(mapping, SystemContext(read_image=lambda ref: b"")).revision

    first = revision("one.example:8000")
    assert first != revision("two.example:8000")
    assert first == revision("one.example:8000", timeout=5) == revision("user:key@one.example:8000")
