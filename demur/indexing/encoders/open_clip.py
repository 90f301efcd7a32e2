"""Image-text encoders of open_clip: CLIP, EVA02, SigLIP and their kin, by name, from the hub or from local files.

    open_clip:EVA02-L-14-336/merged2b_s6b_b61k       recommended on a GPU
    open_clip:EVA02-B-16/merged2b_s8b_b131k          recommended on a CPU
    open_clip:EVA02-E-14-plus/laion2b_s9b_b144k      5 billion weights, for big GPUs
    open_clip:MODEL/path/to/weights.safetensors      a model's name with local weights (.pt or .safetensors)
    open_clip:local-dir:/path/to/folder              a folder with open_clip_config.json and weights
    open_clip:hf-hub:org/repo                        a repository on the Hugging Face hub

Options: ``?precision=fp32``, ``?device=cuda:1`` and ``?batch=64``. Texts are cut at the model's context (77 tokens for most).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError, UnknownPart, UsageError, importing
from demur.core.images import check_resized
from demur.core.store import digest
from demur.core.vision_ops import ensure_torchvision
from demur.indexing.encoders import Option, named
from demur.indexing.encoders.torch_models import (
    BATCH,
    DEVICE,
    PROBE,
    JointModel,
    canonical_name,
    choose_running,
    reason_of,
    require_torch,
    unit_rows,
    weights_digest,
)

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = "1"
"""Changes whenever this file makes other vectors from the same weights."""

_OPTIONS = {
    "precision": Option(
        "fp16 (default on CUDA), bf16 or fp32 (default elsewhere)", ("fp16", "bf16", "fp32")
    ),
    "device": DEVICE,
    "batch": BATCH,
}


class OpenClipEncoder(JointModel):
    """A model of open_clip."""

    def __init__(self, argument: str, *, allow_random: bool = False) -> None:
        """Load the model.

        Raises:
            UsageError: unknown model or tag, no weights, no network, or a wrong option.
            DataError: the weights are not of that model, or hold more than tensors.
            MissingExtra: open_clip is not installed.
        """
        source, options = named("open_clip", argument, _OPTIONS)
        self.name = canonical_name("open_clip", source, options)
        require_torch("the open_clip encoder")
        ensure_torchvision()
        with importing("the open_clip encoder", extra="clip", module="open_clip"):
            import open_clip

        self._device, precision, self._batches = choose_running(options, self.name)
        parsed = _parse_source(source, self.name, allow_random=allow_random)
        self._model, self._preprocess, self._tokenizer = _load(
            parsed, precision, self._device, self.name
        )
        self._shorter = _shorter_side(self._model.visual.preprocess_cfg)
        self._dtype = open_clip.get_input_dtype(precision)
        self.note = f"open_clip {source}, {precision}" + (
            "" if parsed.trained else ", RANDOM weights: not trained"
        )
        self.dims = self._serves()

    @cached_property
    def _identity(self) -> str:  # fp16 and fp32 are one, bf16 is another
        preprocessing = dict(self._model.visual.preprocess_cfg)
        tokens = self._tokenizer([PROBE]).tolist()
        return digest(
            ["open_clip", VERSION, weights_digest(self._model.state_dict()), preprocessing, tokens]
        )

    def _texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            return unit_rows(self._model.encode_text(self._tokenizer(list(texts)).to(self._device)))

    @property
    def _context(self) -> int:
        return int(self._tokenizer.context_length)

    def _cut(self, texts: Sequence[str]) -> int:
        """With room for one token more, the mark of the end of a text that is cut stands elsewhere."""
        tokens = self._tokenizer(list(texts))
        longer = self._tokenizer(list(texts), context_length=self._context + 1)
        return int((longer[:, :-1] != tokens).any(1).sum())

    def prepared(self, image: Image, space: str = "joint") -> NDArray[Any]:
        """The image resized and normalised as the model was trained, (3, h, w) float32.

        Raises:
            DataError: it is so thin that it would be too large at that size.
        """
        if self._shorter:
            check_resized(image, self._shorter)
        pixels: NDArray[Any] = self._preprocess(image).numpy()
        return pixels

    def _images(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            pixels = torch.from_numpy(np.stack(prepared)).to(self._device, self._dtype)
            try:
                return unit_rows(self._model.encode_image(pixels))
            except (
                AssertionError
            ) as error:  # so a tower of timm says that images have another size than it takes
                raise DataError(
                    f"the model does not take images of its own configuration: {error}",
                    item=self.name,
                    cure="mend image_size in its open_clip_config.json",
                ) from error


def _shorter_side(preprocessing: Mapping[str, Any]) -> int:
    """Pixels that the shorter side of an image is brought to before its middle is cut out; 0 where that is not done."""
    size = preprocessing["size"]
    return (
        0
        if preprocessing["resize_mode"] != "shortest"
        else size
        if isinstance(size, int)
        else max(size)
    )


class _Source(NamedTuple):
    """What to load, once it is known to make sense."""

    model: str
    """Name for open_clip, with its scheme."""
    weights: str | None
    """Tag or file; None where the model's name says it all, or where there are none."""
    trained: bool


def _parse_source(source: str, item: str, *, allow_random: bool) -> _Source:
    """What is wrong with the name is said here, before anything is loaded."""
    import open_clip

    if source.startswith("hf-hub:"):
        return _Source(source, None, trained=True)
    if source.startswith("local-dir:"):
        folder = Path(source.removeprefix("local-dir:")).expanduser()
        if not (folder / "open_clip_config.json").is_file():
            raise UsageError(
                f"{folder} has no open_clip_config.json", item=item, cure="check the path"
            )
        trained = any(
            True for kind in ("safetensors", "bin", "pth") for _ in folder.glob(f"*.{kind}")
        )
        if not trained and not allow_random:
            raise UsageError(
                f"{folder} has no weights: the model would be random",
                item=item,
                cure="put open_clip_model.safetensors beside the config",
            )
        return _Source(f"local-dir:{folder}", None, trained)
    model, _, weights = source.partition("/")
    known_models = open_clip.list_models()
    if model not in known_models:
        hint = "or give open_clip:local-dir:PATH or open_clip:hf-hub:ORG/REPO"
        raise UnknownPart("open_clip model", model, known_models, hint=hint)
    tags = open_clip.list_pretrained_tags_by_model(model)
    if not weights:
        if allow_random:
            return _Source(model, None, trained=False)
        raise UsageError(
            "no weights are named: the model would be random",
            item=item,
            cure=f"open_clip:{model}/{tags[-1]}"
            if tags
            else f"give a file: open_clip:{model}/PATH",
        )
    path = Path(weights).expanduser()
    if weights not in tags and not path.is_file():
        raise UsageError(
            f"{weights!r} is neither a tag of {model} nor a file",
            item=item,
            cure=f"tags: {', '.join(tags)}"
            if tags
            else "it has no tags; give a .pt or .safetensors file",
        )
    return _Source(model, weights if weights in tags else str(path), trained=True)


def _load(source: _Source, precision: str, device: Any, item: str) -> tuple[Any, Any, Any]:
    """The model in evaluation mode, its preprocessing and its tokenizer."""
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    try:
        model = open_clip.create_model(
            source.model,
            pretrained=source.weights,
            precision=precision,
            device=device,
            require_pretrained=source.trained,  # else open_clip only logs that a model is random
            pretrained_text=source.trained,
            weights_only=True,  # a checkpoint is a pickle: nothing but tensors may come out of it
        )
        tokenizer = open_clip.get_tokenizer(source.model)
    except Exception as error:  # hub, pickle, safetensors and PyTorch each have errors of their own
        reason = reason_of(error)
        if isinstance(error, OSError) or any(sign in reason for sign in _NOT_HAD):
            raise UsageError(
                f"its files cannot be had: {reason.partition('. Last error:')[0]}",
                item=item,
                cure="check the name and the network, or give local files: open_clip:local-dir:PATH",
            ) from error
        raise DataError(
            f"the weights cannot be loaded: {reason}",
            item=item,
            cure="check that they are whole and of this model",
        ) from error
    preprocess = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return model.eval(), preprocess, tokenizer


_NOT_HAD = (
    "Failed to download",
    "Failed initial config",
    "Required pretrained weights",
    "couldn't connect",
    "LocalEntryNotFound",
)
"""How open_clip and the hub's client say that files could not be fetched."""
