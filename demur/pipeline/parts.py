"""Encoders, recognisers, judges and images, opened once and handed to whoever needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from demur import plugins
from demur.pipeline.evaluate import Judge
from demur.records import Document, ImageRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from demur.indexing.encoders import Encoder


REMEMBERED = 50_000
"""Texts whose embeddings are kept (75 MB at 384 dimensions)."""


def embedder(encoder: Encoder) -> Callable[[Sequence[str]], npt.NDArray[np.float32]]:
    """Sentence embeddings of an encoder, for readers and priors; a text seen before is not encoded again."""
    seen: dict[str, npt.NDArray[np.float32]] = {}

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        if len(seen) > REMEMBERED:  # bounded memory: a long run starts over rather than growing
            seen.clear()
        new = [t for t in dict.fromkeys(texts) if t not in seen]
        if new:
            seen.update(zip(new, encoder.texts(new, "text"), strict=True))
        return np.stack([seen[t] for t in texts])

    return embed


class Recogniser:
    """Names an image by the captioned images that look most like it.

    The stand-in, in readers without a language model, for what a vision-language model has learnt to recognise.

    Args:
        encoder: must serve the space ``look``.
        pictures: (caption, image) of everything that can be recognised.
        read: gives the bytes of an image.
    """

    def __init__(
        self,
        encoder: Encoder,
        pictures: Sequence[tuple[str, ImageRef]],
        read: Callable[[ImageRef], bytes],
    ) -> None:
        self._encoder = encoder
        self._pictures = list(pictures)
        self._read = read
        self._vectors: npt.NDArray[np.float32] | None = None

    def __call__(self, ref: ImageRef) -> list[tuple[str, float]]:
        """The five nearest captions with their cosine similarities, best first."""
        if not self._pictures:
            return []
        query = self._look([ref])[0]
        scores = self._known() @ query
        order = sorted(range(len(scores)), key=lambda i: (-round(float(scores[i]), 5), i))[:5]
        return [(self._pictures[i][0], round(float(scores[i]), 5)) for i in order]

    def _known(self) -> npt.NDArray[np.float32]:
        if self._vectors is None:
            self._vectors = self._look([ref for _, ref in self._pictures])
        return self._vectors

    def _look(self, refs: Sequence[ImageRef]) -> npt.NDArray[np.float32]:
        import numpy as np

        from demur.indexing.pixels import rgb

        parts = [
            self._encoder.images([rgb(self._read(r), r.uri) for r in refs[i : i + 64]], "look")
            for i in range(0, len(refs), 64)
        ]
        return np.concatenate(parts)


def captioned(documents: Iterable[Document]) -> list[tuple[str, ImageRef]]:
    """(caption, image) of the documents that are images."""
    return [(d.title, d.image) for d in documents if d.image is not None and d.text is None]


def open_judge(text: str) -> Judge:
    """The judge that a name stands for.

    Raises:
        UnknownPart: no judge has that name; lists those that exist.
    """
    factory, argument = plugins.find("judges", text)
    judge: Judge = factory(argument) if argument else factory()
    return judge
