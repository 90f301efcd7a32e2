"""What systems without a model of their own see with: sentence embeddings, and names for what an image shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from demur.core.errors import DataError, StorageError
from demur.core.records import Document, ImageRef
from demur.core.store import digest
from demur.indexing.encoders import fingerprint_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.indexing.encoders import Encoder


REMEMBERED = 50_000
"""Texts whose embeddings are kept (75 MB at 384 dimensions)."""


class Embedder:
    """Sentence embeddings of an encoder, for readers and priors; a text seen before is not encoded again.

    Several threads may use it.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._seen: dict[str, npt.NDArray[np.float32]] = {}
        self._one = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Names the encoder and its weights."""
        return fingerprint_of(self._encoder)

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n texts) -> (n, d) float32, L2-normalised."""
        import numpy as np

        with self._one:
            if len(self._seen) > REMEMBERED:  # bounded memory: a long run starts over rather than growing
                self._seen.clear()
            new = [t for t in dict.fromkeys(texts) if t not in self._seen]
            if new:
                self._seen.update(zip(new, self._encoder.texts(new, "text"), strict=True))
            return np.stack([self._seen[t] for t in texts])


class Recogniser:
    """Names an image by the captioned images that look most like it.

    The stand-in, in readers without a language model, for what a vision-language model has learnt to recognise.

    Args:
        encoder: must serve the space ``look``.
        pictures: (caption, image) of everything that can be recognised.
        read: gives the bytes of an image.
    """

    def __init__(
        self, encoder: Encoder, pictures: Sequence[tuple[str, ImageRef]], read: Callable[[ImageRef], bytes]
    ) -> None:
        self._encoder = encoder
        self._pictures = list(pictures)
        self._read = read
        self._vectors: npt.NDArray[np.float32] | None = None
        self._one = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """Names the encoder, and all that can be recognised."""
        return digest([fingerprint_of(self._encoder), [[caption, ref.sha256] for caption, ref in self._pictures]], 16)

    def __call__(self, ref: ImageRef) -> list[tuple[str, float]]:
        """The five nearest captions with their cosine similarities, best first.

        Raises:
            DataError, StorageError: the image cannot be read, or the encoder refuses it.
        """
        if not self._pictures:
            return []
        with self._one:
            known = self._known()
        scores = known @ self._look([ref])[0]
        order = sorted(range(len(scores)), key=lambda i: (-round(float(scores[i]), 5), i))[:5]
        return [(self._pictures[i][0], round(float(scores[i]), 5)) for i in order]

    def _known(self) -> npt.NDArray[np.float32]:
        """(pictures, d); a picture that cannot be looked at is nothing that can be recognised, and is left out."""
        import numpy as np

        if self._vectors is None:
            left: list[tuple[str, ImageRef]] = []
            parts = [np.empty((0, self._encoder.dims["look"]), np.float32)]
            for i in range(0, len(self._pictures), 64):
                for some in self._looked(self._pictures[i : i + 64]):
                    left += some[0]
                    parts.append(some[1])
            self._pictures, self._vectors = left, np.concatenate(parts)
        return self._vectors

    def _looked(
        self, pictures: Sequence[tuple[str, ImageRef]]
    ) -> Iterator[tuple[Sequence[tuple[str, ImageRef]], npt.NDArray[np.float32]]]:
        try:
            vectors = self._look([ref for _, ref in pictures])
        except (DataError, StorageError):
            if len(pictures) > 1:  # one by one, to find which
                for picture in pictures:
                    yield from self._looked([picture])
        else:
            yield pictures, vectors

    def _look(self, refs: Sequence[ImageRef]) -> npt.NDArray[np.float32]:
        from demur.core.images import rgb

        return self._encoder.images([rgb(self._read(r), r.uri) for r in refs], "look")


def captioned(documents: Iterable[Document]) -> list[tuple[str, ImageRef]]:
    """(caption, image) of the documents that are images."""
    return [(d.title, d.image) for d in documents if d.image is not None and d.text is None]
