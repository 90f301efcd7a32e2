"""Taking things out of a photo: a mask of the thing, grown a little, and the hole filled.

    masks   a given mask; a given box cut out by grabCut; without boxes the region of a classifier's class activation
            and grabCut; GroundingDINO and SAM of the extra ``hf``
    fills   OpenCV on a small copy, blended with grain from around the hole; LaMa as TorchScript of the extra ``hf``

Photos have at most `SIDE` pixels on their longer side; float boxes are (x0, y0, x1, y1) as shares of width and height.
Needs the extra ``photos`` (OpenCV).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from demur.core import errors
from demur.core.errors import MissingExtra, UsageError
from demur.core.vision_ops import ensure_torchvision
from demur_suites.extras import importing

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
"""uint8 [height, width, 3], RGB."""
Mask = npt.NDArray[np.bool_]
"""bool [height, width]."""
Box = tuple[float, float, float, float]

SIDE = 640
"""Longer side of the made photos, in pixels."""
KERNEL = 20
"""Pixels by which a mask is grown (a square of this side), so that no rim of the thing is left."""
LEAST, MOST = 0.002, 0.65
"""Share of a photo that a mask may cover."""


def cv() -> Any:
    """OpenCV.

    Raises:
        MissingExtra: it is not installed.
    """
    with importing(
        "taking things out of photos", extra="photos", module="opencv-python-headless", broken=True
    ):
        import cv2
    return cv2


def pixels_of(box: Sequence[float], width: int, height: int) -> tuple[int, int, int, int]:
    """A box in pixels, inside the photo and at least one pixel wide and high."""
    x0, x1 = sorted((box[0] * width, box[2] * width))
    y0, y1 = sorted((box[1] * height, box[3] * height))
    left, top = min(max(int(x0), 0), width - 1), min(max(int(y0), 0), height - 1)
    return left, top, max(left + 1, min(round(x1), width)), max(top + 1, min(round(y1), height))


SMALL = 0.25
"""A box that covers no more of the photo is removed whole: that leaves no rest of the thing."""


def mask_in_box(photo: Pixels, box: Sequence[float]) -> Mask:
    """The thing in a box: the hull of what grabCut finds there (a hull keeps antlers and tails that it misses).

    The whole box where it is small (`SMALL`), or where grabCut finds next to nothing, or all of it.
    """
    cv2, (height, width) = cv(), photo.shape[:2]
    whole = np.zeros((height, width), dtype=bool)
    x0, y0, x1, y1 = pixels_of(box, width, height)
    whole[y0:y1, x0:x1] = True
    if whole.mean() <= SMALL:
        return whole
    half = cv2.resize(
        photo, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA
    )
    a, b, c, d = pixels_of(box, half.shape[1], half.shape[0])
    if (c - a) * (d - b) >= 0.98 * half.shape[0] * half.shape[1]:
        return whole
    cv2.setRNGSeed(0)
    found = np.zeros(half.shape[:2], dtype=np.uint8)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(
        half[:, :, ::-1].copy(), found, (a, b, c - a, d - b), *models, 4, cv2.GC_INIT_WITH_RECT
    )
    cut = ((found == cv2.GC_FGD) | (found == cv2.GC_PR_FGD)).astype(np.uint8)
    if not 0.12 * (c - a) * (d - b) < cut.sum() < 0.97 * (c - a) * (d - b):
        return whole
    _, labels, stats, _ = cv2.connectedComponentsWithStats(cut)
    large = [n for n in range(1, len(stats)) if stats[n, cv2.CC_STAT_AREA] >= 0.02 * cut.sum()]
    hull = np.zeros_like(cut)
    points = np.argwhere(np.isin(labels, large))[:, ::-1].astype(np.int32)
    if (
        np.ptp(points, axis=0) < 0.88 * np.array([c - a, d - b])
    ).any():  # the box is full of the thing; this is not
        return whole
    cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
    return (
        np.asarray(cv2.resize(hull, (width, height), interpolation=cv2.INTER_NEAREST)).astype(bool)
        & whole
    )


def dilated(mask: Mask, kernel: int = KERNEL) -> Mask:
    """A mask with its small holes closed and its rim widened."""
    cv2 = cv()
    square = np.ones((kernel, kernel), dtype=np.uint8)
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, square)
    return np.asarray(cv2.dilate(closed, square)).astype(bool)


def inpaint(photo: Pixels, mask: Mask, seed: int = 0) -> Pixels:
    """The photo with a hole filled from its rim (Telea, on a copy an eighth as large, then at full size near the rim).

    A large hole filled at full size is all streaks; a small copy gives the broad colours, and noise as strong as that
    around the hole keeps it from looking painted.
    """
    cv2, (height, width) = cv(), photo.shape[:2]
    step = 8
    small = cv2.resize(
        photo, (max(1, width // step), max(1, height // step)), interpolation=cv2.INTER_AREA
    )
    hole = cv2.resize(
        mask.astype(np.uint8), (small.shape[1], small.shape[0]), interpolation=cv2.INTER_NEAREST
    )
    hole = cv2.dilate(hole, np.ones((3, 3), dtype=np.uint8))
    broad = cv2.inpaint(small, hole, 5, cv2.INPAINT_TELEA) if hole.min() == 0 else small
    base = cv2.resize(broad, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.float64)
    around = dilated(mask, 2 * KERNEL) & ~mask
    rim = photo[around].astype(np.float64)
    smooth = cv2.GaussianBlur(photo, (0, 0), 3).astype(np.float64)
    grain = (photo.astype(np.float64) - smooth)[around] if len(rim) else np.zeros((1, 3))
    rng = np.random.Generator(np.random.PCG64(seed))
    grain = 0.6 * np.clip(grain, -12, 12)  # edges around the hole are no grain
    made = base + grain[rng.integers(0, len(grain), size=height * width)].reshape(height, width, 3)
    edge = cv2.inpaint(photo, mask.astype(np.uint8), 3, cv2.INPAINT_TELEA).astype(np.float64)
    depth = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3)
    share = np.clip(depth / (KERNEL / 2), 0, 1)[:, :, None]
    inside = np.clip(edge * (1 - share) + made * share, 0, 255).astype(np.uint8)
    return np.asarray(np.where(mask[:, :, None], inside, photo), dtype=np.uint8)


def lama(file: Path) -> Any:
    """LaMa (or any inpainter of its form) as TorchScript: ``fill(photo, mask)`` like `inpaint`.

    Raises:
        MissingExtra: torch is not installed.
        UsageError: the file is not a TorchScript model.
    """
    with errors.importing("filling by LaMa", extra="hf", module="torch", broken=True):
        import torch
    if not file.is_file():
        raise UsageError(
            "no such file",
            item=str(file),
            cure="download big-lama as TorchScript and name it: lama:FILE",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # LaMa is published in this form
            model = torch.jit.load(str(file), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            "is not a TorchScript model", item=str(file), cure="give big-lama as TorchScript"
        ) from error

    def fill(photo: Pixels, mask: Mask, seed: int = 0) -> Pixels:
        height, width = mask.shape
        right, below = -width % 8, -height % 8
        padded = np.pad(photo, ((0, below), (0, right), (0, 0)), mode="edge")
        hole = np.pad(mask, ((0, below), (0, right)))
        with torch.inference_mode():
            made = model(
                torch.from_numpy(padded).permute(2, 0, 1)[None].float() / 255,
                torch.from_numpy(hole)[None, None].float(),
            )
        whole = (made[0].permute(1, 2, 0).clamp(0, 1) * 255).round().byte().numpy()[:height, :width]
        return np.asarray(np.where(mask[:, :, None], whole, photo), dtype=np.uint8)

    return fill


DETECTOR, SEGMENTER = "IDEA-Research/grounding-dino-tiny", "facebook/sam-vit-base"


class Grounded(NamedTuple):
    """GroundingDINO and SAM of transformers: a phrase to boxes, a box to its mask."""

    detector: Any
    reader: Any
    segmenter: Any
    processor: Any

    @classmethod
    def open(cls, detector: str = "", segmenter: str = "") -> Grounded:
        """Load both, from folders or by their names on a hub (`DETECTOR`, `SEGMENTER` unless given).

        Raises:
            MissingExtra: transformers or torch is not installed.
            UsageError: the weights cannot be loaded.
        """
        detector, segmenter = detector or DETECTOR, segmenter or SEGMENTER
        try:
            ensure_torchvision()
            import transformers

            hub: Any = transformers  # no type information for what it holds
            hub.utils.logging.disable_progress_bar()
            for name, kind in ((detector, "grounding-dino"), (segmenter, "sam")):
                if (found := hub.AutoConfig.from_pretrained(name).model_type) != kind:
                    raise ValueError(
                        f"{name} holds {found}, not {kind}"
                    )  # it would be filled with random weights
            return cls(
                hub.GroundingDinoForObjectDetection.from_pretrained(detector).eval(),
                hub.AutoProcessor.from_pretrained(detector),
                hub.SamModel.from_pretrained(segmenter).eval(),
                hub.SamProcessor.from_pretrained(segmenter),
            )
        except ImportError as error:
            what = "transformers, torch and torchvision"
            raise MissingExtra("masks by GroundingDINO and SAM", extra="hf", module=what) from error
        except (OSError, ValueError, RuntimeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"the weights cannot be loaded: {str(error).splitlines()[0]}",
                item=f"{detector}, {segmenter}",
                cure="name folders that hold them: --mask sam:DETECTOR,SEGMENTER; or use --mask grabcut",
            ) from error

    def boxes(
        self, photo: Image, phrase: str, threshold: float = 0.3, text_threshold: float = 0.25
    ) -> list[Box]:
        """Boxes of a phrase, by the paper's two thresholds; boxes of no word of the phrase are left out."""
        import torch

        given = self.reader(
            images=photo, text=phrase.lower().rstrip(". ") + ".", return_tensors="pt"
        )
        with torch.inference_mode():
            output = self.detector(**given)
        [found] = self.reader.post_process_grounded_object_detection(
            output, given["input_ids"], threshold=threshold, text_threshold=text_threshold
        )
        boxes = found["boxes"].clamp(0, 1).tolist()  # as shares, where no size is given
        return [
            tuple(box) for box, words in zip(boxes, found["text_labels"], strict=False) if words
        ]  # [""] for no box

    def mask(self, photo: Image, box: Box) -> Mask:
        """The mask of the thing in a box."""
        import torch

        pixels = [float(v) for v in pixels_of(box, photo.width, photo.height)]
        given = self.processor(photo, input_boxes=[[pixels]], return_tensors="pt")
        with torch.inference_mode():
            output = self.segmenter(**given, multimask_output=False)
        masks = self.processor.image_processor.post_process_masks(
            output.pred_masks, given["original_sizes"], given["reshaped_input_sizes"]
        )
        return np.asarray(masks[0][0, 0].numpy(), dtype=bool)


@cache
def _classifier() -> tuple[Any, npt.NDArray[np.float32]]:
    """EfficientNet-Lite0 with its last feature maps as a further output, and the weights of its classes."""
    import onnx
    from onnx import helper

    from demur.indexing.encoders.efficientnet_lite0 import WEIGHTS, build_graph
    from demur.indexing.encoders.onnx_session import session
    from demur.indexing.encoders.torch_file import read_tensors
    from demur.indexing.encoders.weights import read_pinned

    tensors = read_tensors(read_pinned(WEIGHTS), WEIGHTS.file)
    model = onnx.load_from_string(build_graph(tensors))
    last = next(n for n in model.graph.node if n.op_type == "GlobalAveragePool").input[0]
    model.graph.output.append(helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None))
    return session(bytes(model.SerializeToString())), tensors["_fc.weight"]


def _activation(square: Pixels) -> npt.NDArray[np.float32]:
    """(7, 7): how much each place speaks for the best class (class activation map, Zhou et al. 2016)."""
    network, head = _classifier()
    pixels = (square.astype(np.float32) - 127) / 128
    _, classes, maps = network.run(None, {"image": pixels.transpose(2, 0, 1)[None]})
    activations: npt.NDArray[np.float32] = np.tensordot(
        head[int(classes[0].argmax())], maps[0], axes=1
    )
    return np.maximum(activations, 0)


def activation_box(photo: Image) -> Box:
    """The box where the class activation of a classifier's best class is above half its maximum.

    Raises:
        MissingExtra: the extra ``demo`` (EfficientNet-Lite0) is not installed.
    """
    from demur.indexing.encoders.efficientnet_lite0 import fit_into_square

    activation = _activation(fit_into_square(photo))
    side, longest = activation.shape[0], max(photo.size)
    rows, columns = np.nonzero(activation >= 0.5 * activation.max())
    edges = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / side
    shown = (
        np.array([photo.width, photo.height, photo.width, photo.height]) / longest
    )  # its share of the square
    x0, y0, x1, y1 = np.clip((edges - (1 - shown) / 2) / shown, 0, 1)
    return float(x0), float(y0), float(x1), float(y1)
