"""Pages of PDFs as pictures, each rendered once into a folder that the user chooses (extra: ``pdf``)."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

from demur.core.errors import importing
from demur.core.store import write_atomic

DPI = 144
"""Dots per inch of a rendered page; the same as in MMLongBench-Doc's own code."""
MOST_SIDE = 4096
"""Pixels of a page's longer side; larger pages (posters) are rendered coarser."""
OPEN = 4
"""Documents kept open; questions about one document follow each other."""


class Rendered:
    """Renders pages into a folder, unless they are there already.

    Args:
        folder: gets ``<document without .pdf>/<page>.png``, pages counted from 1.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._open: OrderedDict[Path, Any] = OrderedDict()

    def count(self, document: Path) -> int:
        """Number of pages of a document; 0 if it is missing or no PDF.

        Raises:
            MissingExtra: pypdfium2 is not installed.
        """
        pdf = self._pdf(document)
        return 0 if pdf is None else len(pdf)

    def page(self, document: Path, number: int) -> Path | None:
        """The picture of a page; None if there is no such page or it cannot be rendered.

        Raises:
            MissingExtra: pypdfium2 is not installed.
            StorageError: the picture cannot be written.
        """
        path = self.folder / document.stem / f"{number}.png"
        if path.is_file():
            return path
        pdf = self._pdf(document)
        if pdf is None or not 1 <= number <= len(pdf):
            return None
        import pypdfium2

        try:
            page = pdf[number - 1]
            scale = min(DPI / 72, MOST_SIDE / max(1.0, *page.get_size()))
            picture = page.render(scale=scale).to_pil().convert("RGB")
        except (pypdfium2.PdfiumError, ValueError, MemoryError):
            return None
        data = io.BytesIO()
        picture.save(data, "PNG")
        write_atomic(path, data.getvalue())
        return path

    def _pdf(self, document: Path) -> Any:
        with importing(
            f"rendering pages of {document.name}", extra="pdf", module="pypdfium2", broken=True
        ):
            import pypdfium2
        if document not in self._open:
            try:
                self._open[document] = (
                    pypdfium2.PdfDocument(document) if document.is_file() else None
                )
            except (pypdfium2.PdfiumError, OSError):
                self._open[document] = None
            if len(self._open) > OPEN:
                _, oldest = self._open.popitem(last=False)
                if oldest is not None:
                    oldest.close()
        return self._open[document]
