"""demur: measure whether a vision-language model or a RAG system answers, deflects, or makes things up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur.suites import Suite

__version__ = "0.1.0"
__all__ = ["__version__", "suite"]


def suite(name: str) -> Suite[Any, Any]:
    """The suite of a name, such as ``vb``: a benchmark that is not the four scenarios (`demur.suites.Suite`).

    Raises:
        UnknownPart: no suite has that name; lists those that exist.
    """
    from demur.suites import suite as found

    return found(name)
