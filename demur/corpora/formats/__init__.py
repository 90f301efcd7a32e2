"""Files in other people's formats, read in bounded memory: giant JSON, JSON Lines, CSV, Parquet, archives.

Every reader yields ``(place, value)`` pairs. The place is ``file:line`` (``file:row`` for Parquet) of the first
line of the record; what cannot be read goes to `demur.core.store.Problems` under its place and is left out. A file
that ends before its time (a broken download) is such a problem too, never a silent end.

Nothing here trusts what it reads: constants that JSON does not have (``NaN``) and half characters are refused
because they could not be written again, archive members and paths found in data stay inside their folder.
"""

from __future__ import annotations

from demur.corpora.formats.archives import archive_uris, inside, unpack
from demur.corpora.formats.files import first_that_is, in_numeric_order, open_bytes
from demur.corpora.formats.json_streams import json_elements, json_items, json_lines, json_rows
from demur.corpora.formats.lookup import LineIndex, Lookup
from demur.corpora.formats.seen import Seen
from demur.corpora.formats.tables import csv_rows, parquet_columns, parquet_rows, sheet_rows, table_rows

__all__ = [
    "LineIndex",
    "Lookup",
    "Seen",
    "archive_uris",
    "csv_rows",
    "first_that_is",
    "in_numeric_order",
    "inside",
    "json_elements",
    "json_items",
    "json_lines",
    "json_rows",
    "open_bytes",
    "parquet_columns",
    "parquet_rows",
    "sheet_rows",
    "table_rows",
    "unpack",
]
