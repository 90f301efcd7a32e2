"""File formats, read in bounded memory: giant JSON, JSON Lines, CSV, Parquet, archives.

Every reader yields ``(place, value)`` pairs. The place is ``file:line`` (``file:row`` for Parquet) of the first
line of the record. What cannot be read goes to `demur.core.store.Problems` under its place and is left out; so does
the end of a file that is cut off (a broken download).

No reader trusts its input: constants that JSON does not have (``NaN``) and half characters are refused because they
could not be written again; archive members and paths found in data stay inside their folder.
"""

from __future__ import annotations

from demur.corpora.formats.archives import archive_uris, inside, unpack
from demur.corpora.formats.files import first_existing, in_numeric_order, open_bytes
from demur.corpora.formats.json_streams import json_elements, json_items, json_lines, json_rows
from demur.corpora.formats.line_index import LineIndex
from demur.corpora.formats.scratch import Lookup, Seen
from demur.corpora.formats.tables import (
    csv_rows,
    dataset_rows,
    no_column_twice,
    parquet_rows,
    separator,
    table_rows,
)

__all__ = [
    "LineIndex",
    "Lookup",
    "Seen",
    "archive_uris",
    "csv_rows",
    "dataset_rows",
    "first_existing",
    "in_numeric_order",
    "inside",
    "json_elements",
    "json_items",
    "json_lines",
    "json_rows",
    "no_column_twice",
    "open_bytes",
    "parquet_rows",
    "separator",
    "table_rows",
    "unpack",
]
