"""Words of a page and where they stand: by the words that came with it, else by rapidocr, whose models ship with it.

What was read is kept beside the set (``words.jsonl``), by the hash of the pixels: a page is read once.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import MissingExtra
from demur.core.store import JsonlLog, Problems, canonical, digest, read_jsonl, write_atomic
from demur.suites.mm_aqa.transforms import Word

if TYPE_CHECKING:
    from PIL.Image import Image


def pixels_key(image: Image) -> str:
    """A name for what an image shows."""
    return digest([list(image.size), digest(image.tobytes(), 32)], 32)


class Reader:
    """Reads images, and remembers.

    Args:
        kept: file of what was read before; None keeps nothing.
        ocr: False where what is not known already is left unread.
    """

    def __init__(self, kept: Path | None = None, *, ocr: bool = True) -> None:
        self._kept, self._ocr = kept, ocr
        self._known: dict[str, list[Word]] = {}
        self._lock = threading.RLock()
        if kept is not None and kept.is_file():
            for _, row in read_jsonl(kept, Problems()):
                self._known[str(row["image"])] = [Word(text, (a, b, c, d)) for text, (a, b, c, d) in row["words"]]

    def know(self, image: Image, words: list[Word]) -> None:
        """The words of an image whose maker told them."""
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
        """Write what was read in one order, whichever page came first."""
        if self._kept is not None and self._known:
            rows = ({"image": key, "words": [[w.text, list(w.box)] for w in self._known[key]]}
                    for key in sorted(self._known))  # fmt: skip
            write_atomic(self._kept, "".join(canonical(row) + "\n" for row in rows))

    def _keep(self, key: str, words: list[Word]) -> None:
        if self._known.get(key) == words:
            return
        self._known[key] = words
        if self._kept is not None:
            with JsonlLog(self._kept) as log:
                log.append({"image": key, "words": [[w.text, list(w.box)] for w in words]})


@cache
def _engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise MissingExtra("reading words off images", extra="mm-aqa", module="rapidocr") from error
    return RapidOCR(params={
        "Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    })  # fmt: skip


def _read(image: Image) -> list[Word]:
    import numpy as np

    found = _engine()(np.asarray(image.convert("RGB"))[:, :, ::-1], return_word_box=True)
    words = []
    for line in found.word_results or ():
        if not isinstance(line, tuple) or not all(isinstance(entry, tuple) for entry in line):
            continue  # a picture without a word: ("", 1.0, None) in the place of lines
        for text, score, corners in line:
            xs, ys = [int(p[0]) for p in corners], [int(p[1]) for p in corners]
            box = max(0, min(xs)), max(0, min(ys)), max(xs), max(ys)
            wide, high = box[2] - box[0], box[3] - box[1]
            ring = len(text) == 1 and 2 * wide * high > image.width * image.height  # of a flag, taken for an O
            if score >= 0.5 and text.strip() and wide > 0 and high > 0 and not ring:
                words.append(Word(text, box))
    return words
