"""demur: measure whether a vision-language model or a RAG system answers, deflects, or makes things up.

    import demur

    release = demur.open_release("demo-out/release")
    run = demur.evaluate(release, my_rag, scenarios=["oracle", "adversarial(k=3)"], limit=50)
    run.rates()

Every name below is described in `demur.api` and `demur.values`; importing `demur` imports none of it before it is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from demur.core.version import __version__

if TYPE_CHECKING:
    from demur.api import (
        build_index,
        build_release,
        compare,
        evaluate,
        from_docs,
        gate,
        grade,
        open_index,
        open_release,
        open_run,
        report,
        sweep,
    )
    from demur.values import Comparison, Evaluation, Frame, Hits, Index, Report

__all__ = [
    "Comparison",
    "Evaluation",
    "Frame",
    "Hits",
    "Index",
    "Report",
    "__version__",
    "build_index",
    "build_release",
    "compare",
    "evaluate",
    "from_docs",
    "gate",
    "grade",
    "open_index",
    "open_release",
    "open_run",
    "report",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from demur import api, values

        return getattr(values if name[0].isupper() else api, name)
    raise AttributeError(
        f"module 'demur' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    return sorted(__all__)
