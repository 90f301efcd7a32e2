"""Checks arguments of public functions, so that a wrong type is told by the argument's name, before any work."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from demur.core.errors import UsageError
from demur.core.text import brief

if TYPE_CHECKING:
    from pydantic import TypeAdapter

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments that do not fit their annotations; a number of numpy, or in digits, becomes a plain one.

    Annotations that name a type imported only for type checkers are not checked.

    Raises:
        UsageError: (the returned function) names the argument, its value and what was expected.
    """
    signature = inspect.signature(function)
    expected = cache(lambda: _adapters(function))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's own words for a missing or unknown argument
        for name, (adapter, kind) in expected().items():
            if name in arguments.arguments:
                value = arguments.arguments[name]
                try:
                    arguments.arguments[name] = adapter.validate_python(value)
                except ValueError as error:
                    misfit = f"{name}={brief(repr(value))}: expected {kind}"
                    raise UsageError(misfit, item=function.__name__) from error
        return function(*arguments.args, **arguments.kwargs)

    return call


def _adapters(function: Callable[..., Any]) -> dict[str, tuple[TypeAdapter[Any], str]]:
    """Argument -> what validates it, and its type in words."""
    from pydantic import TypeAdapter

    adapters = {}
    for name, annotation in function.__annotations__.items():
        with suppress(NameError):
            kind = eval(annotation, function.__globals__)
            if name != "return" and kind is not Any:
                adapter = TypeAdapter(kind, config={"arbitrary_types_allowed": True})
                text = kind.__name__ if isinstance(kind, type) else str(kind)
                adapters[name] = adapter, re.sub(r"\b(?:\w+\.)+", "", text)
    return adapters
