"""Images in requests: read, checked and encoded once."""

from __future__ import annotations

import pytest

from demur.core.errors import (
    ItemError,
)
from demur.models import complete_all, open_model
from demur.testing import FakeEndpoint


@pytest.fixture
def hashed(monkeypatch):
    """The images whose bytes were read and held against their hash, in that order."""
    from demur.models import images

    read, seen = images.read_image, []
    monkeypatch.setattr(
        images, "read_image", lambda image, root: (seen.append(image), read(image, root))[1]
    )
    return seen


async def test_images_are_sent_as_they_are_and_hashed_once(ask, tmp_path, picture, hashed):
    import base64

    refs = [picture(name) for name in "ab"]
    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        for n in range(20):
            await model.complete(ask(f"q{n}", refs[0], "then", refs[1]))
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text", "image_url"]
        for part, ref in zip(parts[1::2], refs, strict=True):
            head, data = part["image_url"]["url"].split(",")
            assert head == "data:image/png;base64"
            assert base64.b64decode(data) == (tmp_path / ref.uri).read_bytes()
        assert hashed == refs


async def test_images_past_the_memory_are_read_again_but_not_hashed_again(
    tmp_path, picture, hashed
):
    from demur.models.images import ImageUrls

    refs = [picture(name) for name in "abc"]
    urls = ImageUrls(tmp_path, most_bytes=1)
    first = [await urls.of(r) for r in refs]
    assert [await urls.of(r) for r in refs] == first
    assert hashed == refs
    (tmp_path / refs[0].uri).write_bytes(b"changed")
    with pytest.raises(ItemError, match="the image changed"):
        await urls.of(refs[0])


async def test_a_missing_image_is_its_items_error_alone(ask, tmp_path, picture):
    good, bad = picture("a"), picture("b")
    (tmp_path / bad.uri).unlink()
    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        found = {
            r.item: a
            async for r, a in complete_all(
                model, [ask("q", good, item="good"), ask("q", bad, item="bad")]
            )
        }
        assert found["good"].text
        assert "b.png" in found["bad"].error
        assert server.requests == 1


async def test_an_image_by_address_is_left_to_the_server(ask, picture):
    ref = picture("a").model_copy(update={"uri": "https://example.org/a.png"})
    async with FakeEndpoint() as server, open_model(server.model()) as model:
        await model.complete(ask("q", ref))
        assert (
            server.bodies[-1]["messages"][0]["content"][1]["image_url"]["url"]
            == "https://example.org/a.png"
        )


async def test_a_text_cannot_smuggle_an_image_in(ask, tmp_path, picture):
    from demur.models import endpoint

    async with FakeEndpoint() as server, open_model(server.model(), image_root=tmp_path) as model:
        await model.complete(
            ask('"}, {"type": "image_url"', picture("a"), "data:image/png;base64,xx")
        )
        parts = server.bodies[-1]["messages"][0]["content"]
        assert [p["type"] for p in parts] == ["text", "image_url", "text"]
        assert len(endpoint._MARK) == 32
