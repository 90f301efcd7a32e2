"""The time of day that goes into files: `SOURCE_DATE_EPOCH` where it is set, as reproducible builds do."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from demur.core.errors import UsageError


def now() -> datetime:
    """The time, UTC.

    Raises:
        UsageError: the variable ``SOURCE_DATE_EPOCH`` is no number of seconds since 1970.
    """
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        return datetime.fromtimestamp(int(stated), UTC) if stated else datetime.now(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{stated[:40]!r} is not a time",
            item="SOURCE_DATE_EPOCH",
            cure="give whole seconds since 1970, or unset it",
        ) from error


def today() -> str:
    """The day, UTC, as ``YYYY-MM-DD``; raises as `now`."""
    return now().date().isoformat()
