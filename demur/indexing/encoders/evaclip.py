"""EVA-CLIP-8B and 18B, whose model code is not in any library but comes with the weights. Off unless asked for.

    evaclip:BAAI/EVA-CLIP-8B?trust_remote_code=yes&revision=COMMIT      about 17 GB in half precision
    evaclip:BAAI/EVA-CLIP-18B?trust_remote_code=yes&revision=COMMIT     about 36 GB
    evaclip:/path/to/folder?trust_remote_code=yes

Loading such a repository runs its Python files with all your rights, and a repository can change over night: hence the
option, the warning, and the advice to pin the commit whose code was read. That code was written for transformers 4;
where it does not run with the one installed, the error says so. open_clip has the smaller models of the family,
without foreign code.

The consent is the user's alone: it is left out of the encoder's name, so that a manifest that came from elsewhere
cannot give it. To search an index made by such an encoder, add ``--trust-code``.

Options: ``trust_remote_code=yes``, ``revision``, ``precision``, ``device`` and ``batch``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError, UsageError, importing
from demur.core.images import check_resized
from demur.core.store import digest
from demur.core.untrusted import trust
from demur.core.vision_ops import ensure_torchvision
from demur.indexing.encoders import Option, named
from demur.indexing.encoders.torch_models import (
    BATCH,
    DEVICE,
    PRECISION,
    PROBE,
    REVISION,
    JointModel,
    canonical_name,
    choose_running,
    reason_of,
    refuse_random,
    require_torch,
    unit_rows,
    weights_digest,
)

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = "1"
"""Changes whenever this file makes other vectors from the same weights."""

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Of CLIP's training pictures, per channel in [0, 1] (Radford et al. 2021); EVA-CLIP keeps them."""

_OPTIONS = {
    "trust_remote_code": Option("yes, to run the repository's own Python files"),
    "revision": REVISION,
    "precision": PRECISION,
    "device": DEVICE,
    "batch": BATCH,
}


class EvaClipEncoder(JointModel):
    """A model that comes with its own code. Texts are cut at 77 tokens."""

    _context = 77

    def __init__(self, argument: str, *, allow_random: bool = False) -> None:
        """Load the model.

        Raises:
            UsageError: remote code was not allowed, unknown repository, no network, random weights, or a wrong option.
            DataError: the repository's code or weights cannot be loaded.
            MissingExtra: transformers is not installed.
        """
        source, options = named("evaclip", argument, _OPTIONS)
        consent = options.get("trust_remote_code", "yes" if trust().code else "")
        self.name = canonical_name("evaclip", source, options)
        if not source:
            raise UsageError(
                "no repository is named", item=self.name, cure="e.g. evaclip:BAAI/EVA-CLIP-8B"
            )
        if consent != "yes":
            raise UsageError(
                f"loading it runs Python code from {source}, which was not allowed",
                item=self.name,
                cure=f"read that code, then give evaclip:{source}?trust_remote_code=yes&revision=COMMIT "
                "(to search an index that names it, add --trust-code); "
                "open_clip:EVA02-E-14-plus/laion2b_s9b_b144k needs no foreign code",
            )
        require_torch("the evaclip encoder")
        self._device, precision, self._batches = choose_running(
            options, self.name, batch=8, batch_on_gpu=64
        )
        warnings.warn(
            f"running Python code from {source}"
            + (
                ""
                if options.get("revision") or Path(source).expanduser().is_dir()
                else ", which is not pinned to a commit"
            ),
            stacklevel=2,
        )
        self._model, self._tokenizer, missing = _load(
            source, options.get("revision"), precision, self.name
        )
        refuse_random(missing, self.name, allowed=allow_random)
        self._model.to(self._device).eval()
        self._side = int(self._model.config.vision_config.image_size)
        self.note = f"{source} by its own code, {precision}" + (
            ", RANDOM weights" if missing else ""
        )
        self.dims = self._serves()

    @cached_property
    def _identity(self) -> str:
        code = digest(inspect.getsource(type(self._model)).encode())
        tokens = self._tokenizer(PROBE)["input_ids"]
        preprocessing = [self._side, MEAN, STD]
        return digest(
            [
                "evaclip",
                VERSION,
                weights_digest(self._model.state_dict()),
                code,
                preprocessing,
                list(tokens),
            ]
        )

    def _texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        tokens = self._tokenizer(
            list(texts),
            return_tensors="pt",
            padding="max_length",
            truncation=True,
            max_length=self._context,
        )
        with torch.inference_mode():
            return unit_rows(self._model.encode_text(tokens["input_ids"].to(self._device)))

    def _cut(self, texts: Sequence[str]) -> int:
        ids = self._tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return sum(len(each) > self._context for each in ids)

    def prepared(self, image: Image, space: str = "joint") -> NDArray[Any]:
        """CLIP's preprocessing: shorter side to the model's, middle square, normalised; (3, side, side) float32.

        Raises:
            DataError: it is so thin that it would be too large at that size.
        """
        from PIL import Image as Pillow

        check_resized(image, self._side)
        side, shorter = self._side, min(image.size)
        # Sizes are cut to whole pixels, as CLIP's own processor does.
        wide, high = (max(side, int(side * length / shorter)) for length in image.size)
        left, top = (wide - side) // 2, (high - side) // 2
        middle = image.convert("RGB").resize((wide, high), Pillow.Resampling.BICUBIC)
        pixels = np.asarray(middle.crop((left, top, left + side, top + side)), np.float32) / 255
        normal: NDArray[Any] = (pixels - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        return normal.transpose(2, 0, 1)

    def _images(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            pixels = torch.from_numpy(np.stack(prepared)).to(self._device, self._model.dtype)
            return unit_rows(self._model.encode_image(pixels))


def _load(
    source: str, revision: str | None, precision: str, item: str
) -> tuple[Any, Any, list[str]]:
    """(model, tokenizer, weights that the checkpoint lacks)."""
    ensure_torchvision()
    with importing("the evaclip encoder", extra="clip"):
        import torch
        import transformers

    path = Path(source).expanduser()
    place = str(path) if path.is_dir() else source
    try:
        model, report = transformers.AutoModel.from_pretrained(
            place,
            revision=revision or "main",
            dtype=torch.float16 if precision == "fp16" else torch.float32,
            trust_remote_code=True,
            output_loading_info=True,
        )
        tokenizer = transformers.CLIPTokenizer.from_pretrained(place, revision=revision or "main")
    except Exception as error:  # the repository's own code may fail in any way
        reason = reason_of(error)
        if isinstance(error, OSError) and not path.is_dir():
            raise UsageError(
                f"the model cannot be had: {reason}",
                item=item,
                cure="check the name and the network, or give a local folder",
            ) from error
        raise DataError(
            f"its code or weights cannot be loaded with transformers {transformers.__version__}: {reason}",
            item=item,
            cure="such code was written for transformers 4: try it in an environment with 'transformers<5'",
        ) from error
    if not (hasattr(model, "encode_image") and hasattr(model, "encode_text")):
        raise DataError(
            f"{type(model).__name__} has no encode_image and encode_text",
            item=item,
            cure="choose an EVA-CLIP repository",
        )
    return model, tokenizer, sorted(report["missing_keys"])
