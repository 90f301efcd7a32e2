"""Sentence embeddings and image recognition, for systems without a model of their own."""

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


MAX_CACHED = 50_000
"""Texts whose embeddings are cached (75 MB at 384 dimensions)."""


class Embedder:
    """Cached sentence embeddings, for readers and priors; thread-safe."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._cache: dict[str, npt.NDArray[np.float32]] = {}
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Identifies the encoder and its weights."""
        return fingerprint_of(self._encoder)

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n texts) -> (n, d) float32, L2-normalised."""
        import numpy as np

        with self._lock:
            if len(self._cache) > MAX_CACHED:  # bounds memory in a long run
                self._cache.clear()
            new = [t for t in dict.fromkeys(texts) if t not in self._cache]
            if new:
                self._cache.update(zip(new, self._encoder.texts(new, "text"), strict=True))
            return np.stack([self._cache[t] for t in texts])


class Recogniser:
    """Names an image by the most similar captioned images; replaces, for the reader, a vision-language model.

    Args:
        encoder: with the space ``look``.
        pictures: (caption, image) of everything that it can recognise.
        read: returns the bytes of an image.
    """

    def __init__(
        self,
        encoder: Encoder,
        pictures: Sequence[tuple[str, ImageRef]],
        read_image: Callable[[ImageRef], bytes],
    ) -> None:
        self._encoder = encoder
        self._pictures = list(pictures)
        self._read = read_image
        self._vectors: npt.NDArray[np.float32] | None = None
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the encoder and the pictures."""
        return digest(
            [
                fingerprint_of(self._encoder),
                [[caption, ref.sha256] for caption, ref in self._pictures],
            ],
            16,
        )

    def __call__(self, ref: ImageRef) -> list[tuple[str, float]]:
        """The five nearest captions with their cosine similarities, best first.

        Raises:
            DataError, StorageError: the image cannot be read, or the encoder rejects it.
        """
        if not self._pictures:
            return []
        with self._lock:
            vectors = self._picture_vectors()
        scores = vectors @ self._embed([ref])[0]
        order = sorted(range(len(scores)), key=lambda i: (-round(float(scores[i]), 5), i))[:5]
        return [(self._pictures[i][0], round(float(scores[i]), 5)) for i in order]

    def _picture_vectors(self) -> npt.NDArray[np.float32]:
        """(pictures, d); leaves out pictures that cannot be read."""
        import numpy as np

        if self._vectors is None:
            readable_pictures: list[tuple[str, ImageRef]] = []
            parts = [np.empty((0, self._encoder.dims["look"]), np.float32)]
            for i in range(0, len(self._pictures), 64):
                for batch in self._embedded(self._pictures[i : i + 64]):
                    readable_pictures += batch[0]
                    parts.append(batch[1])
            self._pictures, self._vectors = readable_pictures, np.concatenate(parts)
        return self._vectors

    def _embedded(
        self, pictures: Sequence[tuple[str, ImageRef]]
    ) -> Iterator[tuple[Sequence[tuple[str, ImageRef]], npt.NDArray[np.float32]]]:
        try:
            vectors = self._embed([ref for _, ref in pictures])
        except (DataError, StorageError):
            if len(pictures) > 1:  # one by one, to find which
                for picture in pictures:
                    yield from self._embedded([picture])
        else:
            yield pictures, vectors

    def _embed(self, refs: Sequence[ImageRef]) -> npt.NDArray[np.float32]:
        from demur.core.images import rgb

        return self._encoder.images([rgb(self._read(r), r.uri) for r in refs], "look")


def captioned(documents: Iterable[Document]) -> list[tuple[str, ImageRef]]:
    """(caption, image) of the documents that are images."""
    return [(d.title, d.image) for d in documents if d.image is not None and d.text is None]
