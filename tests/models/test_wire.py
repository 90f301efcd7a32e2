"""The wire format: what is sent, what is read, and what each refusal means."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import ItemError, PermanentError, UsageError
from demur.core.records import ImageRef, Message, Request, Response, TextPart, TokenLogprob, Usage
from demur.core.store import unstorable
from demur.models import wire
from demur.models.wire import Fault

HELLO = Message(role="user", parts=(TextPart(text="hello"),))


def completion(content, finish="stop", **message):
    return json.dumps(
        {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}
    )


def test_body_carries_every_field():
    request = Request(
        model="m",
        messages=(Message(role="system", parts=(TextPart(text="be brief"),)), HELLO),
        temperature=0.0,
        top_p=0.9,
        max_tokens=5,
        seed=7,
        stop=("\n",),
        top_logprobs=3,
        json_schema={"type": "object"},
        extra={"top_k": 1, "chat_template_kwargs": {"enable_thinking": False}},
    )
    assert wire.request_body(request, "served", str) == {
        "model": "served",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
        "temperature": 0.0,
        "top_p": 0.9,
        "max_tokens": 5,
        "seed": 7,
        "stop": ["\n"],
        "logprobs": True,
        "top_logprobs": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": {"type": "object"}},
        },
        "top_k": 1,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_body_keeps_images_and_texts_in_their_order(ask):
    one, two = (ImageRef(sha256=s * 64, uri=f"{s}.png", width=1, height=1) for s in "ab")
    body = wire.request_body(ask("first", one, "second", two), "m", lambda ref: ref.uri)
    shown = [p.get("text") or p["image_url"]["url"] for p in body["messages"][0]["content"]]
    assert shown == ["first", "a.png", "second", "b.png"]


@pytest.mark.parametrize("field", ["model", "messages", "stream", "n", "service_tier"])
def test_extra_cannot_change_what_is_asked(ask, field):
    with raises(UsageError, field, item="q"):
        wire.request_body(ask("q", extra={field: 1}), "m", str)


@pytest.mark.parametrize(
    ("raw", "text", "reasoning"),
    [
        (completion("yes"), "yes", ""),
        (completion("yes", reasoning_content="because"), "yes", "because"),
        (completion("yes", reasoning="because"), "yes", "because"),
        (completion("<think>because</think>\n\nyes"), "yes", "because"),
        (completion("because</think>yes"), "yes", "because"),
        (completion("<think>because", "length"), "", "because"),
        (completion("", "length", reasoning_content="because"), "", "because"),
        (completion([{"type": "text", "text": "yes"}]), "yes", ""),
        (completion({"type": "text", "text": "yes"}), "yes", ""),
        (completion(["y", {"type": "output_text", "text": "es"}, None, 7]), "yes", ""),
        (completion([{"type": "thinking", "thinking": "because"}, "yes"]), "yes", "because"),
        (
            completion(
                [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "because"}]},
                    {"type": "text", "text": "yes"},
                ]
            ),
            "yes",
            "because",
        ),
        (completion([{"type": "reasoning", "text": "because"}, "yes"]), "yes", "because"),
        (completion("yes", reasoning=[{"type": "text", "text": "because"}]), "yes", "because"),
        (completion("yes", reasoning_content={"text": "because"}), "yes", "because"),
        (completion("yes", reasoning_content=7, reasoning=False), "yes", ""),
        (completion("no \udc00"), "no ?", ""),
        (completion("yes", finish=[["stop"]]), "yes", ""),
        (completion("yes", cuts=7), "yes", ""),
        (completion(None, refusal="I cannot help"), "I cannot help", ""),
        (completion("I cannot", "content_filter"), "I cannot", ""),
        ("\ufeff" + completion("yes"), "yes", ""),
    ],
)
def test_replies_of_every_dialect(raw, text, reasoning):
    reply = wire.read_response(raw)
    assert (reply.text, reply.reasoning) == (text, reasoning)


def test_usage_and_logprobs_are_read():
    raw = json.dumps(
        {
            "choices": [
                {
                    "message": {"content": "ab"},
                    "finish_reason": "length",
                    "logprobs": {
                        "content": [
                            {
                                "token": "a",
                                "logprob": -0.5,
                                "top_logprobs": [{"token": "x", "logprob": -1}],
                            },
                            {"token": "b", "logprob": -math.inf, "top_logprobs": []},
                        ]
                    },
                }
            ],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        }
    )
    reply = wire.read_response(raw, served_by="here", latency_s=1.5)
    assert reply.usage == Usage(prompt=9, completion=2, cached=8, reasoning=1)
    assert reply.logprobs == (
        TokenLogprob(token="a", logprob=-0.5, top=(("x", -1.0),)),
        TokenLogprob(token="b", logprob=-9999.0),  # minus infinity: JSON has no word for it
    )
    assert (reply.finish_reason, reply.served_by, reply.latency_s) == ("length", "here", 1.5)


def test_a_reply_that_used_its_tokens_up_while_thinking_out_of_sight_is_not_asked_again():
    raw = json.dumps(
        {
            "choices": [{"message": {"content": ""}, "finish_reason": "length"}],
            "usage": {
                "completion_tokens": 64,
                "completion_tokens_details": {"reasoning_tokens": 64},
            },
        }
    )
    reply = wire.read_response(raw)
    assert (reply.text, reply.finish_reason, reply.usage.reasoning) == ("", "length", 64)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("", "broken"),
        ("<html>", "broken"),
        ('{"choices": [', "broken"),
        ("[]", "broken"),
        ("null", "broken"),
        ('{"object": "error"}', "broken"),
        ('{"choices": []}', "empty"),
        (completion(""), "empty"),
        (completion("  \n"), "empty"),
        (completion(None), "empty"),
    ],
)
def test_what_is_no_reply_is_a_fault(raw, kind):
    with pytest.raises(Fault) as caught:
        wire.read_response(raw)
    assert caught.value.kind == kind
    assert caught.value.paid  # the server may have charged for it


def test_an_answer_withheld_by_the_filter_belongs_to_its_item():
    with pytest.raises(ItemError, match="content filter"):
        wire.read_response(completion(None, "content_filter"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "finish_reason",
                    "logprobs",
                    "usage",
                    "token",
                    "logprob",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.builds(json.dumps, json_values) | st.text())
def test_no_reply_however_odd_escapes_the_error_tree(raw):
    try:
        reply = wire.read_response(raw)
    except (Fault, ItemError):
        return
    assert reply.text.strip() or reply.reasoning
    assert Response.model_validate_json(reply.model_dump_json()) == reply


@given(json_values, st.sampled_from(["choices", "message"]))
def test_no_choice_however_odd_escapes_the_error_tree(value, level):
    whole = {"choices": [value] if level == "choices" else [{"message": value}], "usage": value}
    with contextlib.suppress(Fault, ItemError):
        wire.read_response(json.dumps(whole))


def test_a_response_of_this_process_survives_the_wire():
    answer = Response(
        text="yes",
        reasoning="because",
        confidence=0.75,
        logprobs=(TokenLogprob(token="yes", logprob=-0.5, top=(("no", -1.5),)),),
        usage=Usage(prompt=4, completion=1, cached=2, reasoning=3),
        finish_reason="length",
        cuts=("e1: did not fit",),
    )
    assert wire.read_response(wire.reply_of(answer, "m")) == answer


def refuse(status, said="", code="", headers=None):
    raw = json.dumps({"error": {"message": said, "code": code}}) if said else "<html>oops</html>"
    return wire.refusal(status, headers or {}, raw, key_env="SOME_KEY", wire_model="m")


@pytest.mark.parametrize(
    ("error", "kind", "cure"),
    [
        (
            refuse(400, "This model's maximum context length is 4096 tokens"),
            ItemError,
            "less evidence",
        ),
        (refuse(400, "too big", "context_length_exceeded"), ItemError, "less evidence"),
        (refuse(400, "the request exceeds the available context size"), ItemError, "less evidence"),
        (
            refuse(400, "prompt is too long: 210000 tokens > 200000 maximum"),
            ItemError,
            "less evidence",
        ),
        (refuse(400, "flagged", "content_filter"), ItemError, "model"),
        (refuse(400, "unknown field foo"), ItemError, "change"),
        (refuse(413), ItemError, "smaller images"),
        (refuse(401, "no"), PermanentError, "SOME_KEY"),
        (refuse(403, "no"), PermanentError, "SOME_KEY"),
        (refuse(404, "no"), PermanentError, "model's name"),
        (refuse(405, "no"), PermanentError, "address"),
        (refuse(308, headers={"Location": "http://x/v1"}), PermanentError, "final address"),
        (refuse(500, "image input is not supported - hint: mmproj"), PermanentError, "--mmproj"),
        (refuse(400, "m is not a multimodal model"), PermanentError, "vision-language"),
        (
            refuse(429, "You exceeded your current quota", "insufficient_quota"),
            PermanentError,
            "money",
        ),
    ],
)
def test_permanent_refusals_name_their_cure(error, kind, cure):
    assert type(error) is kind
    assert cure in error.cure


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_passing_refusals_are_faults(status):
    error = refuse(status, headers={"Retry-After": "3"})
    assert isinstance(error, Fault)
    assert (error.kind, error.retry_after) == (str(status), 3.0)
    # a gateway's time-out does not say that the model behind it did nothing
    assert error.paid == (status in (500, 502, 504, 520))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (
            "Rate limit reached: 3 / min. Try again in 20s. Visit /account/billing to increase your rate limit.",
            20.0,
        ),
        (
            "You exceeded your current quota, please check your plan and billing details. Please retry in 2.55s.",
            2.55,
        ),
    ],
)
def test_a_limit_per_minute_is_no_used_up_quota(said, seconds):
    """Both once stopped the run: the account is out of money."""
    error = refuse(429, said, "rate_limit_exceeded")
    assert isinstance(error, Fault)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after(headers, seconds):
    assert wire.retry_after(headers) == seconds


def raw_completion(
    message: str = '{"content": "Paris"}', usage: str = "{}", finish: str = '"stop"'
) -> str:
    return f'{{"choices": [{{"message": {message}, "finish_reason": {finish}}}], "usage": {usage}}}'


DEEP = "[" * 50_000 + "]" * 50_000


USAGE = {"prompt_tokens": 9, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("usage", "reported"),
    [
        (json.dumps(USAGE), True),
        (json.dumps(USAGE | {"prompt_tokens_details": {"cached_tokens": "x"}}), True),
        ("null", False),
        ("{}", False),
        ('"many"', False),
        ("[1]", False),
        ("true", False),
        ('{"prompt_tokens": 0, "completion_tokens": 0}', False),
        ('{"prompt_tokens": 9, "completion_tokens": 0}', False),
        ('{"prompt_tokens": 9}', False),
        ('{"input_tokens": 9, "output_tokens": 2}', False),
        ('{"prompt_tokens": "9", "completion_tokens": 2}', False),
        ('{"prompt_tokens": true, "completion_tokens": 2}', False),
        ('{"prompt_tokens": 9, "completion_tokens": -2}', False),
        ('{"prompt_tokens": 1e300, "completion_tokens": 2}', False),
        ('{"prompt_tokens": 9, "completion_tokens": NaN}', False),
        (f'{{"prompt_tokens": {2**70}, "completion_tokens": 2}}', False),
        ('{"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": "x"}', False),
    ],
)
def test_an_answer_stays_whatever_stands_for_its_usage(usage, reported):
    reply = wire.read_response(raw_completion(usage=usage))
    assert (reply.text, reply.usage.reported) == ("Paris", reported)
    assert reply.usage == (Usage(prompt=9, completion=2) if reported else reply.usage)


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"high"', "-5", "true", "[1]", "{}"])
def test_an_answer_stays_beside_a_confidence_that_is_none(value):
    reply = wire.read_response(raw_completion(f'{{"content": "Paris", "confidence": {value}}}'))
    assert (reply.text, reply.confidence) == ("Paris", None)


@pytest.mark.parametrize(
    "value",
    [
        "7",
        '"x"',
        "[]",
        '{"content": 7}',
        '{"content": [7]}',
        '{"content": [{"token": "a"}]}',
        '{"content": [{"token": "a", "logprob": "low"}]}',
        '{"tokens": ["a"]}',
    ],
)
def test_an_answer_stays_beside_log_probabilities_that_are_none(value):
    raw = f'{{"choices": [{{"message": {{"content": "Paris"}}, "logprobs": {value}}}]}}'
    reply = wire.read_response(raw)
    assert (reply.text, reply.logprobs) == ("Paris", ())


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
@pytest.mark.parametrize("finish", ["stop", None])
def test_an_answer_that_the_server_put_among_the_thoughts_names_its_option(content, finish):
    with pytest.raises(ItemError) as caught:
        wire.read_response(completion(content, finish, reasoning_content="so it is Paris"))
    assert "--reasoning-parser" in caught.value.cure
    assert "--fresh" in caught.value.cure


@pytest.mark.parametrize(
    "raw",
    [
        raw_completion(usage=DEEP),
        raw_completion(finish=DEEP),
        raw_completion(usage=f'{{"prompt_tokens": {"9" * 5000}}}'),
        DEEP,
        '{"choices":' * 1000 + "1" + "}" * 1000,
        '{"choices": {"message": {"content": "Paris"}}}',
        '{"choices": ["Paris"]}',
        '{"choices": [{"message": "Paris"}]}',
    ],
    ids=lambda raw: str(raw[:70]).encode("ascii", "replace").decode(),
)
def test_a_hostile_reply_is_a_malformed_reply(raw):
    with pytest.raises(Fault) as caught:
        wire.read_response(raw)
    assert caught.value.kind == "broken"
    str(caught.value).encode()  # it goes into files


def events(*chunks, end="data: [DONE]\n\n"):
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end


def delta(finish=None, **fields):
    return {"id": "x", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


STREAM = (
    delta(role="assistant", content=""),
    delta(reasoning_content="because"),
    delta(content="y\u2028"),
    delta(content=[{"type": "text", "text": "es"}]),
    delta("stop"),
    {"id": "x", "choices": [], "usage": USAGE, "error": None},
)


@pytest.mark.parametrize(
    "raw",
    [
        events(*STREAM),
        events(*STREAM, end=""),
        ": wait\n\nevent: message\n" + events(*STREAM),
        events(*STREAM).replace("\n", "\r\n"),
    ],
)
def test_an_event_stream_is_a_reply(raw):
    reply = wire.read_response(wire.join_stream(raw))
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("y\u2028es", "because", "stop")
    assert reply.usage == Usage(prompt=9, completion=2)


def test_log_probabilities_and_refusals_come_in_a_stream_too():
    entry = {"token": "a", "logprob": -0.5}
    first, second = delta(content="a"), delta("stop", content="a")
    for chunk in (first, second):
        chunk["choices"][0]["logprobs"] = {"content": [entry]}
    assert len(wire.read_response(wire.join_stream(events(first, second))).logprobs) == 2
    refused = wire.read_response(
        wire.join_stream(events(delta(refusal="I "), delta("stop", refusal="won't")))
    )
    assert refused.text == "I won't"


@pytest.mark.parametrize(
    "raw",
    [
        events(*STREAM[:4], end=""),
        events({"error": {"message": "overloaded"}}),
        events(*STREAM[:4], {"error": {"message": "overloaded"}}),
        events(),
        "data: {nope\n\n",
        events([1]),
        events({"choices": ["x"]}),
        events({"choices": 7}),
    ],
)
def test_a_stream_that_ends_before_its_reply_is_broken(raw):
    with pytest.raises(Fault) as caught:
        wire.read_response(wire.join_stream(raw))
    assert (caught.value.kind, caught.value.paid) == ("broken", True)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=20)
    | st.sampled_from(["\ud800", "stop", "content_filter", 2**64, -1, "1", float("nan")])
)
NAMES = st.sampled_from(
    [
        "choices",
        "message",
        "content",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "text",
        "cached_tokens",
        "finish_reason",
        "confidence",
        "reasoning",
        "refusal",
        "logprobs",
        "token",
        "logprob",
        "type",
        "top_logprobs",
        "cuts",
        "error",
        "code",
    ]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)


@given(
    message=st.dictionaries(NAMES, JSON, max_size=6),
    rest=st.dictionaries(NAMES, JSON, max_size=4),
    usage=JSON,
)
def test_whatever_comes_is_a_reply_that_can_be_kept_or_one_of_our_errors(message, rest, usage):
    raw = json.dumps(
        {"choices": [{"message": {"content": "Paris"} | message, **rest}], "usage": usage}
    )
    with contextlib.suppress(Fault, ItemError):
        found = wire.read_response(raw)
        assert not unstorable(found)
        assert (
            wire.read_response(wire.reply_of(found, "m")).text == found.text
            or not found.text.strip()
        )
    json.dumps(wire.error_message(raw)).encode()
