"""Records made of rows one by one: a bad row costs nothing but itself, and the first row of an id counts.

Sources and indexes read knowledge bases through these functions, so both report the same faults in the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

from demur.core.errors import DataError, StorageError
from demur.core.store import Problems, why_invalid
from demur.corpora.formats import Seen

T = TypeVar("T")


@contextmanager
def bad_rows_noted(problems: Problems, place: str, id_: str) -> Iterator[None]:
    """Turn the error of a row that cannot be used into a problem under its place and id."""
    try:
        yield
        return
    except ValidationError as error:
        reason = why_invalid(error)
    except (DataError, StorageError) as error:
        reason = str(error)
    except KeyError as error:
        reason = f"field {error} is missing"
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
    problems.add(place, reason, id_ or "no id")


def records(
    rows: Iterable[tuple[str, str, tuple[Any, ...]]],
    maker: Callable[..., T],
    problems: Problems,
    notes: Counter[str],
    *,
    repeated: str = "",
) -> Iterator[T]:
    """What ``maker(place, id, *values)`` makes of each row (place, id, values).

    Args:
        rows: as read, with ids that may repeat. The first is kept.
        maker: raises `DataError` and the like where a row cannot be used.
        problems: takes rows that cannot be used.
        notes: counts later rows of an id under ``repeated``.
        repeated: "" makes later rows of an id problems.
    """
    seen = Seen()
    for place, id_, values in rows:
        if id_ and id_ in seen:
            if repeated:
                notes[repeated] += 1
            else:
                problems.add(place, "this id stands in an earlier row too; the first is kept", id_)
            continue
        record = None
        with bad_rows_noted(problems, place, id_):
            record = maker(place, id_, *values)
        if id_ and (record is not None or not repeated):
            seen.add(id_)
        if record is not None:
            yield record
