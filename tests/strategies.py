"""Hypothesis strategies and small builders for records, shared by all tests."""

from __future__ import annotations

import io
import os
from pathlib import Path

from hypothesis import strategies as st
from PIL import Image

from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Evidence, ImageRef, Modality, Role, Sample
from demur.core.store import digest
from demur.release import Draft, FunnelStep, freeze

LONG = bool(os.environ.get("DEMUR_LONG"))
"""Whether property tests try all their examples (`make test-all`)."""


def examples(n: int) -> int:
    """How many examples a property is tried on: all n in the long run, else an eighth of them."""
    return n if LONG else max(8, n // 8)


def png(
    colour: str | tuple[int, int, int] = (200, 30, 40), size: tuple[int, int] = (12, 9)
) -> bytes:
    """A small PNG of one colour."""
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "PNG")
    return out.getvalue()


class Images:
    """Images in memory: `ref` makes one, `read` gives its bytes back, as a pipeline's reader does."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def ref(self, colour: tuple[int, int, int], name: str = "x.png") -> ImageRef:
        data = png(colour)
        ref = image_ref(data, name)
        self.data[ref.sha256] = data
        return ref

    def read(self, ref: ImageRef) -> bytes:
        return self.data[ref.sha256]


def evidence(
    name: str,
    role: Role,
    modality: Modality = Modality.TEXT,
    rank: int | None = None,
    image: ImageRef | None = None,
) -> Evidence:
    """A piece of evidence with made-up content."""
    if modality is Modality.IMAGE and image is None:
        image = ImageRef(sha256=digest(name), uri=f"{name}.png", width=4, height=3)
    return Evidence(
        id=name,
        modality=modality,
        title=f"Title of {name}",
        text=f"Text of {name}." if modality is Modality.TEXT else None,
        image=image,
        role=role,
        rank=rank,
        score=None if rank is None else round(1 / rank, 4),
    )


def sample(
    name: str = "s1",
    *,
    gold: int = 1,
    text: int = 6,
    visual: int = 0,
    images: tuple[ImageRef, ...] = (),
) -> Sample:
    """A sample with that many pieces of gold, text and visual distractors."""
    return Sample(
        id=name,
        source="made",
        question=f"What is asked in {name}?",
        answers=AnswerSpec(accepted=(("forty-two",),)),
        images=images,
        gold=tuple(evidence(f"{name}-g{i}", Role.GOLD) for i in range(gold)),
        negatives=tuple(evidence(f"{name}-t{i}", Role.DISTRACTOR, rank=i + 1) for i in range(text))
        + tuple(
            evidence(f"{name}-v{i}", Role.DISTRACTOR, Modality.IMAGE, rank=i + 1)
            for i in range(visual)
        ),
        cluster=name,
        topic="made-up",
    )


def tiny_release(folder: Path, size: int, *, text: int = 3) -> Path:
    """A release of ``size`` text samples without images, the answer to sample i being "answer i"."""
    made = [
        sample(f"s{i}", text=text).model_copy(
            update={"answers": AnswerSpec(accepted=((f"answer {i}",),))}
        )
        for i in range(size)
    ]
    step = FunnelStep(stage="pool", entered=size, kept=size)
    return freeze(
        folder,
        Draft(name="tiny", version="1.0.0", samples=made, read_image=Images().read, funnel=[step]),
    )


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Samples with any mixture of evidence."""
    number = draw(st.integers(0, 10_000))
    return sample(
        f"s{number}",
        gold=draw(st.integers(1, 3)),
        text=draw(st.integers(0, 12)),
        visual=draw(st.integers(0, 6)),
    )
