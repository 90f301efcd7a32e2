"""Make torchvision importable beside a CPU build of torch.

torchvision's wheel registers its compiled operators only with the torch that it was built for. Beside another build,
the import fails with "operator torchvision::nms does not exist", although transforms and image processors do not need
it. Declaring two operators makes the import work; detection stays unusable.
"""

from __future__ import annotations

import sys
from typing import Any

_declared: list[Any] = []


def ensure_torchvision() -> bool:
    """Import torchvision, if need be after declaring its missing operators; False if it is not installed.

    Call it before anything that imports torchvision (transformers' image processors, open_clip, timm).
    """
    try:
        import torchvision
    except ImportError:
        return False
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        import torch

        for name in [n for n in sys.modules if n == "torchvision" or n.startswith("torchvision.")]:
            del sys.modules[name]
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)  # the operators live as long as the library object
        import torchvision  # noqa: F401
    return True
