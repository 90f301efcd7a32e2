"""The cache key: what it depends on, and what it must not depend on."""

from __future__ import annotations

import pytest
from errors import raises
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import UsageError
from demur.core.records import ImagePart, ImageRef, Message, Request, TextPart
from demur.models import ModelOptions, open_model, request_key
from demur.models.identity import _DEFAULTS

REF = ImageRef(sha256="a" * 64, uri="here/a.png", width=10, height=10)
BASE = Request(
    model="m",
    messages=(Message(role="user", parts=(TextPart(text="q"), ImagePart(image=REF))),),
    temperature=0.0,
    item="1",
)
KEY = request_key(BASE, "m")


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"temperature": None},
        {"top_p": 0.9},
        {"max_tokens": 5},
        {"seed": 0},
        {"stop": ("x",)},
        {"logprobs": True},
        {"top_logprobs": 2},
        {"json_schema": {"type": "object"}},
        {"extra": {"top_k": 1}},
        {"draw": 1},
        {"messages": (Message(role="system", parts=BASE.messages[0].parts),)},
        {"messages": (Message(role="user", parts=BASE.messages[0].parts[::-1]),)},
        {"messages": (*BASE.messages, Message(role="assistant", parts=(TextPart(text=""),)))},
    ],
)
def test_what_changes_the_answer_changes_the_key(change):
    assert request_key(BASE.model_copy(update=change), "m") != KEY


def test_model_and_revision_are_in_the_key_and_the_rest_is_not():
    assert request_key(BASE, "other") != KEY
    assert request_key(BASE, "m", "r1") != KEY
    moved = ImagePart(
        image=REF.model_copy(update={"uri": "elsewhere.png", "media_type": "image/webp"})
    )
    same = BASE.model_copy(
        update={
            "item": "2",
            "model": "http://x/v1#m",
            "messages": (Message(role="user", parts=(BASE.messages[0].parts[0], moved)),),
        }
    )
    assert request_key(same, "m") == KEY


def test_every_field_of_a_request_has_its_place():
    """A field that is added to these records must enter the key, or be named here as not part of it."""
    assert Request.model_fields.keys() == _DEFAULTS.keys() | {
        "model",
        "messages",
        "item",
        "service_tier",
    }
    assert all(
        Request.model_fields[name].get_default(call_default_factory=True) == value
        for name, value in _DEFAULTS.items()
    )
    assert ImagePart.model_fields.keys() == {"type", "image"}
    assert TextPart.model_fields.keys() == {"type", "text"}
    assert Message.model_fields.keys() == {"role", "parts"}


def test_keys_of_this_version_stay_what_they_were():
    """A paid cache dies when this fails: raise KEY_VERSION only when the meaning of a field changes."""
    assert KEY.hex() == "3c40bf2e0e1ec6d6b55f7b07d2d8634ad8529685eeefb0afb1a03b0f8545d63a"


texts = st.text(max_size=12)


@given(st.lists(texts, min_size=1, max_size=4), st.lists(texts, min_size=1, max_size=4))
def test_two_ways_to_cut_a_text_into_parts_are_two_requests(one, two):
    def key(parts):
        message = Message(role="user", parts=tuple(TextPart(text=p) for p in parts))
        return request_key(Request(model="m", messages=(message,)), "m")

    assert (key(one) == key(two)) == (one == two)


def test_text_that_looks_like_an_image_is_not_one():
    fake = TextPart(text=f'["i","{REF.sha256}"]')
    other = BASE.model_copy(
        update={"messages": (Message(role="user", parts=(BASE.messages[0].parts[0], fake)),)}
    )
    assert request_key(other, "m") != KEY


@pytest.mark.parametrize("ledger", [True, False])
async def test_a_request_that_json_cannot_hold_is_refused(tmp_path, ledger):
    request = BASE.model_copy(update={"temperature": float("nan"), "item": "7"})
    async with open_model(
        "http://127.0.0.1:9/v1#m", ModelOptions(ledger=tmp_path / "l" if ledger else None)
    ) as model:
        with raises(UsageError, "NaN", item="7"):
            await model.complete(request.model_copy(update={"model": "m"}))
