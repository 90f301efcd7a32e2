"""Atlas, the sample corpus inside the package, and the model server of the demo (`llm`).

Real passages, flags, maps and photos with real questions, small enough for demos and tests. The code that made it is in
``tools/atlas``, outside the package.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["atlas"]


def atlas() -> Path:
    """The folder of the Atlas corpus (read only): ``questions.jsonl``, ``kb_text.jsonl``, ``kb_images.jsonl``, images.

    >>> (atlas() / "questions.jsonl").is_file()
    True
    """
    return Path(str(files(__name__).joinpath("atlas")))
