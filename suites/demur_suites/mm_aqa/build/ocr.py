"""Words of a page and their places: those that came with it, else by rapidocr, whose package includes its models."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from demur.core.store import digest
from demur_suites.extras import importing
from demur_suites.mm_aqa.build.transforms import Word
from demur_suites.mm_aqa.build.transforms.drawing import padded

if TYPE_CHECKING:
    from PIL.Image import Image


class Reader:
    """Reads the words of images, each once.

    Args:
        ocr: False to read nothing: only words that are known.
    """

    def __init__(self, *, ocr: bool = True) -> None:
        self._ocr = ocr
        self._known: dict[str, list[Word]] = {}
        self._lock = threading.RLock()

    def know(self, image: Image, words: list[Word]) -> None:
        """Record the known words of an image."""
        with self._lock:
            self._known[_pixels(image)] = words

    def __call__(self, image: Image) -> list[Word]:
        """The words of an image."""
        key = _pixels(image)
        with self._lock:  # one page at a time: the engine is no more than that
            if key not in self._known:
                self._known[key] = _read(image) if self._ocr else []
            return self._known[key]


def _pixels(image: Image) -> str:
    return digest([list(image.size), digest(image.tobytes(), 32)], 32)


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
