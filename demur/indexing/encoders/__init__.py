"""Encoders: texts and images in, vectors out.

An encoder is named by text that parses back, and that same text stands in manifests and reports:

    offline                                           torch-free, real, small; ConSE, not CLIP
    open_clip:EVA02-B-16/merged2b_s8b_b131k           any open_clip model and tag, local checkpoint or hub name
    sentence-transformers:facebook/contriever         texts, images, or both as one, as the model reads them
    multi-vector:lightonai/GTE-ModernColBERT-v1       a vector for each token (late interaction)
    evaclip:BAAI/EVA-CLIP-8B?trust_remote_code=yes    code from the hub, only when asked for

Options follow a question mark, as in an address: ``NAME:ARGUMENT?key=value&key=value``. Each encoder's file
says which it knows (`demur.core.spec`); an unknown one is an error that lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from demur.core import plugins
from demur.core.code import code_digest
from demur.core.errors import MissingExtra, UsageError
from demur.core.spec import Option, named, split_part
from demur.core.store import digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    Vectors = NDArray[np.float32]
    """(n, d) float32, one row per item."""

__all__ = [
    "Cutting",
    "Encoder",
    "Fusing",
    "Option",
    "Preparing",
    "Role",
    "Similarity",
    "fingerprint_of",
    "named",
    "open_encoder",
    "space_of",
    "stored_names",
]

Similarity = Literal["cosine", "dot", "maxsim"]
Role = Literal["passage", "query"]
"""What a text is for: models such as e5 put a different prefix before each; most make no difference."""


@runtime_checkable
class Encoder(Protocol):
    """Texts and images to vectors, in one or more spaces.

    Spaces: ``joint`` holds texts and images together, ``text`` sentences alone, ``look`` images by their
    looks alone. Vectors of one space, one fingerprint and any role may be compared with each other; nothing else.
    A row does not depend on its neighbours in a batch: to the bit for the offline encoder, to the last bits of
    floating-point sums for those on PyTorch.

    An encoder may also have ``same_spaces``, the names of spaces that are one: it gives the same rows by each of them,
    which are then made and stored once (`stored_names`).
    """

    name: str
    """Canonical text that parses back: `open_encoder` of it gives an equal encoder."""
    note: str
    """One honest line for manifests and reports."""
    similarity: Similarity
    """How two vectors are compared; cosine encoders return L2-normalised rows. ``maxsim`` is late interaction: in place
    of a row each item has a matrix, (tokens, d), and ``texts`` and ``images`` return a list of them."""
    dims: Mapping[str, int]
    """Space -> number of dimensions; exactly the spaces that it serves."""

    def fingerprint(self) -> str:
        """Hex hash of weights and preprocessing: equal means comparable vectors (for the code: `fingerprint_of`)."""
        ...

    def texts(
        self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage"
    ) -> Vectors:
        """Rows for ``texts``, (n, d) float32, in their order."""
        ...

    def images(self, images: Sequence[Image], space: str = "joint") -> Vectors:
        """Rows for RGB ``images``, (n, d) float32, in their order."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """What an `Encoder` adds so that decoding threads can do its resizing: ``images`` in two halves."""

    batch: int
    """How many items it likes to be given at once."""

    def prepared(self, image: Image, space: str = "joint") -> NDArray[Any]:
        """One RGB image as the model takes it; safe to call from several threads."""
        ...

    def images_prepared(self, prepared: Sequence[NDArray[Any]], space: str = "joint") -> Vectors:
        """``images`` of what `prepared` gave: the same rows."""
        ...


@runtime_checkable
class Fusing(Protocol):
    """What an `Encoder` adds that can read a text and an image as one."""

    fuses: bool
    """Whether this one can."""

    def together(
        self,
        texts: Sequence[str],
        images: Sequence[Image],
        space: str = "joint",
        *,
        role: Role = "query",
    ) -> Vectors:
        """Rows (n, d) float32: the n-th of the n-th text and the n-th image."""
        ...


@runtime_checkable
class Cutting(Protocol):
    """What an `Encoder` adds that knows how much of a text it reads."""

    def cut(self, texts: Sequence[str], space: str = "joint", *, role: Role = "passage") -> int:
        """How many of ``texts`` are longer, by its own tokenizer: their end does not reach the vector."""
        ...


def fingerprint_of(encoder: Encoder) -> str:
    """What vectors are kept by, in hex: the encoder's own fingerprint, and its code where that is not demur's.

    So a user who edits the class is never given the vectors that it made before, whatever `fingerprint` says of it.
    """
    kind = encoder.__class__  # a stand-in may say what it stands for
    is_demurs = kind.__module__.partition(".")[0] == "demur"
    return (
        encoder.fingerprint() if is_demurs else digest([encoder.fingerprint(), code_digest(kind)])
    )


def stored_names(encoders: Mapping[str, Encoder]) -> dict[str, str]:
    """Space -> the name by which its vectors are made and stored: one for all that an encoder says are the same.

    Args:
        encoders: space -> its encoder.
    """
    names: dict[str, str] = {}
    for space, encoder in sorted(encoders.items()):
        same = getattr(encoder, "same_spaces", ())
        names[space] = next(
            (n for n in names if space in same and n in same and encoders[n] is encoder), space
        )
    return names


def space_of(encoder: Encoder, space: str, kind: Literal["texts", "images"]) -> int:
    """Dimensions of ``space``; raises `UsageError` when ``encoder`` does not serve it for that kind of item."""
    served = {
        s: d for s, d in encoder.dims.items() if s != {"texts": "look", "images": "text"}[kind]
    }
    if space not in served:
        raise UsageError(
            f"it puts no {kind} into a space named {space!r}",
            item=encoder.name,
            cure=f"it serves {', '.join(served)} for {kind}"
            if served
            else f"choose an encoder that takes {kind}",
        )
    return served[space]


_MODULES = {
    "offline": ("demo", "onnxruntime"),
    "open_clip": ("clip", "open_clip"),
    "sentence-transformers": ("clip", "sentence_transformers"),
    "multi-vector": ("clip", "sentence_transformers"),
    "evaclip": ("clip", "transformers"),
}
"""Encoder -> the extra with its packages, and one of these."""


def check_encoder_name(text: str) -> None:
    """Check that an encoder can be opened, as far as that needs no weights.

    Raises:
        UnknownPart: no encoder of that name.
        MissingExtra: its packages are not installed.
    """
    plugins.find("encoders", text)
    extra, module = _MODULES.get(split_part(text)[0], ("", ""))
    if module and find_spec(module) is None:
        raise MissingExtra(f"the {text} encoder", extra=extra, module=module)


def open_encoder(text: str, *, allow_random: bool = False) -> Encoder:
    """The encoder that ``text`` names, loaded and ready.

    A registered factory is called as ``factory(argument, allow_random=...)``.

    Args:
        text: canonical text, see the module's head.
        allow_random: let a model without trained weights through (tests only); refused otherwise.

    Raises:
        UnknownPart: no encoder of that name.
        UsageError: it makes no encoder, an option or argument is wrong, or the weights are random or cannot be had;
            says the cure.
        MissingExtra: its packages are not installed.
    """
    factory, argument = plugins.find("encoders", text)
    try:
        signature(factory).bind(argument, allow_random=allow_random)
    except TypeError as error:
        cure = "let it take (argument, *, allow_random) and return an encoder (demur.testing.check_encoder)"
        raise UsageError(
            f"it cannot be called as an encoder's factory: {error}", item=text, cure=cure
        ) from error
    encoder: Encoder = factory(argument, allow_random=allow_random)
    members = (*Encoder.__annotations__, "fingerprint", "texts", "images")
    lacks = [name for name in members if not hasattr(encoder, name)]
    if lacks or not encoder.dims or encoder.similarity not in ("cosine", "dot", "maxsim"):
        why = (
            f"it has no {', '.join(lacks)}"
            if lacks
            else "its dims are empty, or its similarity is not cosine, dot or maxsim"
        )
        raise UsageError(
            f"not an encoder: {why}",
            item=text,
            cure="demur.testing.check_encoder names what is wrong",
        )
    return encoder
