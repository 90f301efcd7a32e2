"""Make torchvision importable beside a CPU build of torch.

torchvision's wheel registers its compiled operators with the torch that it was built for. Beside another build the
operators are missing, and the import fails with "operator torchvision::nms does not exist", although transforms and
image processors need none of them. Declaring the two names lets the import through; detection itself stays unusable.
"""

from __future__ import annotations

import sys
from typing import Any

_declared: list[Any] = []


def ensure_torchvision() -> bool:
    """Import torchvision, declaring its missing operators first where that is what keeps it from importing.

    Call it before anything that imports torchvision (transformers' image processors, open_clip, timm).

    Returns:
        Whether torchvision can be used; False when it is not installed.
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
