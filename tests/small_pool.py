"""Forty documents and four questions about them, as a pool folder: for tests of indexes, search and mining."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from demur.core.images import image_ref
from demur.core.records import AnswerSpec, Document, Evidence, Role, Sample
from demur.core.store import write_records


def picture(seed: int) -> Image.Image:
    """Noise that differs from every other seed's."""
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    )


def corpus(root: Path) -> list[Document]:
    """Thirty passages of ten pages (t0 ...) and a picture of each page (i0 ...), whose files are written to ``root``."""
    documents = [
        Document(
            id=f"t{i}",
            title=f"Page {i // 3}: part {i % 3}",
            text=f"passage {i} about w{i % 5}",
            page=f"p{i // 3}",
        )
        for i in range(30)
    ]
    for i in range(10):
        data = io.BytesIO()
        picture(i).save(data, "PNG")
        (root / f"{i}.png").write_bytes(data.getvalue())
        documents.append(
            Document(
                id=f"i{i}",
                title=f"caption {i}",
                image=image_ref(data.getvalue(), f"{i}.png"),
                page=f"p{i}",
            )
        )
    return documents


def pool_folder(root: Path, *, text_question: bool = False) -> None:
    """Write the corpus and four questions about its pictures as a pool; with ``text_question`` a fifth without one."""
    documents = corpus(root)
    by_id = {d.id: d for d in documents}
    samples = [
        Sample(
            id=f"q{i}",
            source="kb",
            question=f"Which part is number {i}?",
            images=(by_id[f"i{i}"].image,),
            answers=AnswerSpec(accepted=((f"passage {3 * i}",),)),
            gold=(Evidence.of(by_id[f"t{3 * i}"], Role.GOLD),),
        )
        for i in range(4)
    ]
    write_records(root / "documents.jsonl", documents)
    if text_question:
        samples.append(samples[0].model_copy(update={"id": "text", "images": ()}))
    write_records(root / "samples.jsonl", samples)
    (root / "pool.json").write_text("{}")
