"""What the tests of model calls share."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.core.images import image_ref
from demur.core.records import ImagePart, ImageRef, Message, Request, TextPart

Ask = Callable[..., Request]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key or address of the developer's environment reaches a test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEMUR_API_KEY", "DEMUR_PRICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ask() -> Ask:
    """A request for the fake model: ``ask("text", image, "more", temperature=..)``."""

    def make(
        *parts: str | ImageRef, item: str = "", model: str = "fake", **fields: object
    ) -> Request:
        held = tuple(TextPart(text=p) if isinstance(p, str) else ImagePart(image=p) for p in parts)
        return Request(
            model=model,
            messages=(Message(role="user", parts=held),),
            item=item or (parts[0] if parts and isinstance(parts[0], str) else ""),
            **fields,  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[str], ImageRef]:
    """A small image file of its own colour for each name, under ``tmp_path``."""
    from PIL import Image

    def make(name: str) -> ImageRef:
        buffer = io.BytesIO()
        Image.new("RGB", (40, 30), f"#{zlib.crc32(name.encode()) % 0xFFFFFF:06x}").save(
            buffer, "PNG"
        )
        (tmp_path / f"{name}.png").write_bytes(buffer.getvalue())
        return image_ref(buffer.getvalue(), f"{name}.png")

    return make
