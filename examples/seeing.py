"""Two systems for `demur suite run vb` without a model: one looks how much detail a photo has, one never looks."""

import io
import json
from typing import Any


def detail(given: dict[str, Any]) -> str:
    """Calls a thing visible where the photo is rich in edges, and abstains in between."""
    from PIL import Image, ImageFilter, ImageStat

    image = Image.open(io.BytesIO(given["images"][0])).convert("L")
    edges = ImageStat.Stat(image.filter(ImageFilter.FIND_EDGES)).mean[0]
    if 10 < edges < 14:
        return json.dumps(
            {"label": "ABSTAIN", "reason_code": "LIGHTING_DISTANCE", "confidence": 0.5}
        )
    true = (edges >= 14) != ("impossible" in given["question"])
    label, code = ("VISIBLY_TRUE", "NONE") if true else ("VISIBLY_FALSE", "OCCLUSION")
    return json.dumps(
        {
            "label": label,
            "reason_code": code,
            "confidence": round(min(0.99, 0.5 + abs(edges - 12) / 40), 2),
        }
    )


def always_true(given: dict[str, Any]) -> str:
    """Says yes to everything, and is sure of it."""
    return json.dumps({"label": "VISIBLY_TRUE", "reason_code": "NONE", "confidence": 0.9})
