"""Contact sheets of MM-AQA's image transformations for the docs: before and after, side by side, on the sample corpus.

python suites/tools/mm_aqa_sheets.py suites/docs/images/mm-aqa
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from demur_suites.mm_aqa.build.pool import Answerable, sample_corpus
from demur_suites.mm_aqa.build.transforms import Infeasible, Original, Word, pages, transform
from demur_suites.mm_aqa.items import CATALOGUE, CATEGORIES, category_of

HEIGHT = {"images": 150, "documents": 380}
EXAMPLES = {
    "images": ("photos", "photos", "flags", "maps"),
    "documents": ("airports", "export_partner"),
}


def examples(subset: str) -> list[Answerable]:
    """The first questions of these topics."""
    pool = [a for a in sample_corpus(0) if a.subset == subset]
    found: list[Answerable] = []
    for topic in EXAMPLES[subset]:
        found.append(next(a for a in pool if a.topic == topic and a not in found))
    return found


def sheet(name: str, several: list[Answerable], height: int) -> Image.Image:
    """Pairs of before and after in a row; of documents the pages of one question below those of another."""
    rows = []
    for number, one in enumerate(several):
        pictures = one.pictures()
        images = tuple(Image.open(io.BytesIO(p.data)).convert("RGB") for p in pictures)
        words: dict[int, list[Word]] = {
            id(i): p.words or [] for i, p in zip(images, pictures, strict=True)
        }
        original = Original(
            one.question,
            images,
            one.answers,
            seed=number,
            words=lambda i, w=words: w.get(id(i), []),
        )
        apply = getattr(pages, name) if name in ("blur", "mask") else transform(name).apply
        try:
            after = apply(original).images
        except Infeasible:
            continue
        tiles = [
            t.resize((round(t.width * height / t.height), height))
            for pair in zip(images, after, strict=True)
            for t in pair
        ]
        row = Image.new("RGB", (sum(t.width + 4 for t in tiles), height + 4), "white")
        x = 0
        for tile in tiles:
            row.paste(tile, (x, 0))
            x += tile.width + 4
        rows.append(row)
    if height == HEIGHT["images"]:
        whole = Image.new("RGB", (sum(r.width + 12 for r in rows), height + 4), "white")
        x = 0
        for row in rows:
            whole.paste(row, (x, 0))
            x += row.width + 12
        return whole
    whole = Image.new("RGB", (max(r.width for r in rows), sum(r.height for r in rows)), "white")
    for number, row in enumerate(rows):
        whole.paste(row, (0, sum(r.height for r in rows[:number])))
    return whole


def main(out: Path) -> None:
    """All sheets."""
    out.mkdir(parents=True, exist_ok=True)
    for subset, height in HEIGHT.items():
        several = examples(subset)
        names = [n for n in CATALOGUE if CATEGORIES[category_of(n)] == subset]
        names = [n for n in names if transform(n).changes == "image"]
        for name in names + (["blur", "mask"] if subset == "documents" else []):
            altered = sheet(name, several, height)
            altered.save(
                out / f"{'fallback-' if name in ('blur', 'mask') else ''}{name}.jpg",
                quality=68,
                optimize=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
