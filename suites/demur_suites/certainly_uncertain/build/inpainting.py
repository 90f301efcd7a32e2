"""Taking things out of a photo: a mask of the thing, grown a little, and the hole filled.

    masks   a given mask; a given box; GroundingDINO and SAM of the extra ``hf``
    fills   OpenCV on a small copy, blended with grain from around the hole, which can be seen; LaMa as ONNX

Photos have at most `SIDE` pixels on their longer side; float boxes are (x0, y0, x1, y1) as shares of width and height.
Needs the extra ``photos`` (OpenCV).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
OFFLINE = "opencv"
"""The filling without a model, in a pair's provenance: it can be seen."""
KERNEL = 20
"""Pixels of the rim in which the filling is blended."""
GROWTH = 5.0
"""Per cent of a mask's mean side by which it is grown, so that no rim of the thing is left."""
LEAST, MOST = 0.002, 0.20
"""Share of a photo that a mask may cover: what fills a larger one is no photo any more."""


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


def mask_of_box(photo: Pixels, box: Sequence[float]) -> Mask:
    """The whole box, which leaves no rest of the thing."""
    height, width = photo.shape[:2]
    mask = np.zeros((height, width), dtype=bool)
    x0, y0, x1, y1 = pixels_of(box, width, height)
    mask[y0:y1, x0:x1] = True
    return mask


def grown(mask: Mask, growth: float = GROWTH) -> Mask:
    """A mask grown by per cent of its mean side (the root of its area), by at least 3 pixels."""
    return dilated(mask, max(3, round(growth / 100 * float(mask.sum()) ** 0.5)))


def dilated(mask: Mask, kernel: int) -> Mask:
    """A mask with its small holes closed and its rim widened by a square of ``kernel`` pixels."""
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


LAMA_SIDE = 512
"""Side of the square that a LaMa without a size of its own is given."""


def lama(file: Path) -> Any:
    """LaMa (or any inpainter of its form) as ONNX: ``fill(photo, mask)`` like `inpaint`.

    Its inputs are an image, float32 [1, 3, height, width] from 0 to 1, and a mask, float32 [1, 1, height, width]; its
    output is the image, from 0 to 1 or to 255.

    Raises:
        MissingExtra: onnxruntime is not installed.
        UsageError: the file is no such model.
    """
    from demur.indexing.encoders.onnx_session import session

    if not file.is_file():
        raise UsageError(
            "no such file", item=str(file), cure="download LaMa as ONNX and name it: lama:FILE"
        )
    try:
        model = session(file.read_bytes())
        image, hole = model.get_inputs()
    except MissingExtra:
        raise
    except Exception as error:  # onnxruntime has its own kinds
        raise UsageError(
            "is no ONNX model of an image and a mask", item=str(file), cure="give LaMa as ONNX"
        ) from error
    if image.shape[1] == 1:
        image, hole = hole, image
    high, wide = (side if isinstance(side, int) else LAMA_SIDE for side in image.shape[2:])

    def fill(photo: Pixels, mask: Mask, seed: int = 0) -> Pixels:
        cv2, (height, width) = cv(), mask.shape
        small = cv2.resize(photo, (wide, high), interpolation=cv2.INTER_AREA)
        part = cv2.resize(mask.astype(np.uint8), (wide, high), interpolation=cv2.INTER_NEAREST)
        inputs = {
            image.name: small.transpose(2, 0, 1)[None].astype(np.float32) / 255,
            hole.name: part[None, None].astype(np.float32),
        }
        filled = np.asarray(model.run(None, inputs)[0][0]).transpose(1, 2, 0)
        filled = (
            np.clip(filled * (255 if filled.max() <= 2 else 1), 0, 255).round().astype(np.uint8)
        )
        whole = cv2.resize(filled, (width, height), interpolation=cv2.INTER_CUBIC)
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
                cure="name folders that hold them: --mask sam:DETECTOR,SEGMENTER; or use --mask box",
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
