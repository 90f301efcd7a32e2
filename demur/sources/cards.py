"""Source cards, which describe a source, and pins, which say what its files should be.

A card is the file ``<module>.yaml`` beside the adapter's module, in demur and in plug-ins. Its ``published`` part pins
files by hash, size or number of rows as published; a user's own pins are a YAML list of the same form.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from demur.core.errors import DataError, UsageError
from demur.core.plugins import find, where
from demur.core.records import Record
from demur.core.store import (
    Problems,
    file_digest,
    lines_of,
    parsed_yaml,
    read_text,
    storage_errors,
    why_invalid,
)
from demur.corpora.formats import (
    in_numeric_order,
    json_elements,
    json_items,
    open_bytes,
    table_rows,
)


class CardFile(Record):
    """One file that a source publishes."""

    name: str
    size: str = ""
    holds: str = ""


class Pin(Record):
    """The expected hash, size or number of rows of a file; at least one of them.

    ``file`` may be a pattern: rows and bytes are then sums over all matches.
    """

    file: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    size_bytes: int | None = Field(default=None, ge=0)
    rows: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _pins_something(self) -> Pin:
        if self.sha256 is None and self.size_bytes is None and self.rows is None:
            raise ValueError("a pin needs sha256, size_bytes or rows")
        return self


class Card(Record):
    """What a user should know about a source."""

    title: str
    purpose: str
    url: str
    licence: str
    redistribution: str = ""
    """What may not be given away with a release; "" where nothing is known to forbid it."""
    citation: str
    modality: str = ""
    """Of query, gold and knowledge base, in a line."""
    knowledge_base: str
    negatives: str
    vlm_deflectionbench: str = ""
    """What that paper used from it."""
    gold: str
    rule: str
    files: tuple[CardFile, ...]
    sizes: str
    published: tuple[Pin, ...] = ()
    defects: tuple[str, ...] = ()


class Listed(NamedTuple):
    """A registered source."""

    place: str
    """``module:Class``."""
    card: Card | None


def list_sources() -> dict[str, Listed]:
    """Every registered source by name, with the card beside its module; imports none of the modules.

    Raises:
        DataError: a card is not valid; names the field.
    """
    return {
        name: Listed(place, _card_in(_file_of(place))) for name, place in where("sources").items()
    }


def _file_of(place: str) -> Path | None:
    """Where the card of ``module:Class`` lies; None where its package is not to be found."""
    top, *below = place.partition(":")[0].split(".")
    try:
        spec = find_spec(top)  # of a package of its own nothing is run
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not below:
        return Path(spec.origin).with_suffix(".yaml") if spec.origin else None
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0], *below).with_suffix(".yaml") if folders else None


def card_of(factory: Any) -> Card | None:
    """The card beside an adapter's module, or None when it has none.

    Raises:
        DataError: the card is not valid; names the field.
    """
    module = sys.modules[factory.__module__]
    return _card_in(Path(str(module.__file__)).with_suffix(".yaml"))


def _card_in(file: Path | None) -> Card | None:
    if file is None or not file.is_file():
        return None
    try:
        return Card.model_validate(
            parsed_yaml(file.read_text(encoding="utf-8"), str(file), "mend the card")
        )
    except UnicodeDecodeError as error:
        raise DataError(f"not a text in UTF-8: {error}", item=file, cure="mend the card") from error
    except ValidationError as error:
        raise DataError(why_invalid(error), item=file, cure="mend the card") from error


def read_pins(path: Path) -> tuple[Pin, ...]:
    """Pins of a YAML file: a list of ``{file, sha256, size_bytes, rows}``.

    Raises:
        UsageError: not such a list.
    """
    value = parsed_yaml(read_text(path), str(path), "mend the pins")
    try:
        return tuple(TypeAdapter(list[Pin]).validate_python(value))
    except ValidationError as error:
        raise UsageError(why_invalid(error), item=path, cure="mend the pins") from error


def pins_for(name: str, file: Path | None = None, *, published: bool = True) -> tuple[Pin, ...]:
    """The pins of a source: those of a file, and those of its card."""
    card = card_of(find("sources", name)[0])
    pins = read_pins(file) if file else ()
    return pins + card.published if card is not None and published else pins


def find_mismatches(folder: Path, pins: tuple[Pin, ...]) -> list[str]:
    """One line per broken pin: ``file: expected ... found ...``. Files that are not in the folder are skipped."""
    broken: list[str] = []
    for pin in pins:
        paths = in_numeric_order(path for path in folder.glob(pin.file) if path.is_file())
        if not paths:
            continue
        actual: dict[str, Any] = {}
        if pin.size_bytes is not None:
            actual["size_bytes"] = sum(path.stat().st_size for path in paths)
        if pin.rows is not None:
            actual["rows"] = sum(rows_in(path) for path in paths)
        if pin.sha256 is not None:
            actual["sha256"] = (
                file_digest(paths[0]) if len(paths) == 1 else f"{len(paths)} files match"
            )
        for name, value in actual.items():
            expected = getattr(pin, name)
            if value != expected:
                broken.append(f"{pin.file}: expected {name} {expected}, found {value}")
    return broken


def rows_in(path: Path) -> int:
    """Number of records of a file: Parquet rows, CSV rows, entries of a JSON object or list, else non-blank lines."""
    quiet = Problems()
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        import pyarrow.parquet as pq

        with storage_errors(path):
            return int(pq.read_metadata(path).num_rows)
    if kind in ("csv", "tsv"):
        return sum(1 for _ in table_rows(path, quiet))
    with open_bytes(path) as handle:
        if kind != "json":
            return sum(1 for line in lines_of(handle) if line is None or line.strip())
        start = handle.read(4096).lstrip()[:1]
    return sum(1 for _ in (json_elements if start == b"[" else json_items)(path, quiet))
