"""What a test says of an error: its kind, item and cure, so that no reworded sentence breaks a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest


def places(problems: Iterable[str]) -> list[str]:
    """Where each problem stands: what its line says before the first ``": "``."""
    return [problem.partition(": ")[0] for problem in problems]


@contextmanager
def raises(
    kind: type[Exception], *names: str, item: object = None, cure: str = ""
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block raises an error of this kind.

    Args:
        kind: its class.
        names: names and figures that its message holds.
        item: the end of its item, or of the place of one of its problems; None for any.
        cure: the command or option that its cure names.
    """
    __tracebackhide__ = True
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    message = getattr(error, "message", str(error))
    for name in names:
        assert name in message, f"{name!r} not in {message!r}"
    if item is not None:
        items = [getattr(error, "item", ""), *places(getattr(error, "problems", ()))]
        assert any(each.endswith(str(item)) for each in items), items
    if cure:
        assert cure in error.cure, f"{cure!r} not in {error.cure!r}"
