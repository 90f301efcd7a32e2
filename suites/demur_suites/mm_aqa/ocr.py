"""Words of a page and their places: those that came with it, else by rapidocr, whose package includes its models.

Words are kept beside the set (``words.jsonl``), by the hash of the pixels: a page is read once.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.store import JsonlLog, Problems, canonical, digest, read_jsonl, write_atomic
from demur_suites.extras import importing
from demur_suites.mm_aqa.transforms import Word
from demur_suites.mm_aqa.transforms.drawing import padded

if TYPE_CHECKING:
    from PIL.Image import Image


def pixels_key(image: Image) -> str:
    """Hash of an image's pixels."""
    return digest([list(image.size), digest(image.tobytes(), 32)], 32)


class Reader:
    """Reads the words of images, each once.

    Args:
        kept: file of the words read so far; None keeps nothing.
        ocr: False to read nothing new.
    """

    def __init__(self, kept: Path | None = None, *, ocr: bool = True) -> None:
        self._kept, self._ocr = kept, ocr
        self._known: dict[str, list[Word]] = {}
        self._lock = threading.RLock()
        if kept is not None and kept.is_file():
            for _, row in read_jsonl(kept, Problems()):
                self._known[str(row["image"])] = [
                    Word(text, (a, b, c, d)) for text, (a, b, c, d) in row["words"]
                ]

    def know(self, image: Image, words: list[Word]) -> None:
        """Record the known words of an image."""
        with self._lock:
            self._keep(pixels_key(image), words)

    def __call__(self, image: Image) -> list[Word]:
        """The words of an image."""
        key = pixels_key(image)
        with self._lock:  # one page at a time: the engine is no more than that
            if key not in self._known:
                self._keep(key, _read(image) if self._ocr else [])
            return self._known[key]

    def settle(self) -> None:
        """Write all words in the order of their keys, whichever page came first."""
        if self._kept is not None and self._known:
            write_atomic(
                self._kept, "".join(canonical(self._row(key)) + "\n" for key in sorted(self._known))
            )

    def _row(self, key: str) -> dict[str, Any]:
        return {"image": key, "words": [[w.text, list(w.box)] for w in self._known[key]]}

    def _keep(self, key: str, words: list[Word]) -> None:
        if self._known.get(key) == words:
            return
        self._known[key] = words
        if self._kept is not None:
            with JsonlLog(self._kept) as log:
                log.append(self._row(key))


@cache
def _engine() -> Any:
    with importing(
        "reading words off images (--ocr yes)", extra="mm-aqa", module="rapidocr", broken=True
    ):
        from rapidocr import RapidOCR
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _read(image: Image) -> list[Word]:
    import numpy as np

    found = _engine()(np.asarray(image.convert("RGB"))[:, :, ::-1], return_word_box=True)
    words = []
    for line in found.word_results or ():
        if not isinstance(line, tuple) or not all(isinstance(entry, tuple) for entry in line):
            continue  # a picture without a word: ("", 1.0, None) in the place of lines
        for text, score, corners in line:
            xs, ys = [int(p[0]) for p in corners], [int(p[1]) for p in corners]
            box = padded((min(xs), min(ys), max(xs), max(ys)), 0, image.size)
            wide, high = box[2] - box[0], box[3] - box[1]
            ring = (
                len(text) == 1 and 2 * wide * high > image.width * image.height
            )  # a flag's circle, read as an O
            if score >= 0.5 and text.strip() and wide > 0 and high > 0 and not ring:
                words.append(Word(text, box))
    return words
