"""The Atlas items: questions of the sample corpus with reference steps and a rubric, written for demur.

`data/atlas.jsonl` names the reviewer of each item. Pictures are copied from the sample corpus.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from demur.core.store import Problems, read_records, write_records
from demur.sample import atlas as corpus
from demur.suites.files import copy_images
from demur.suites.mm_thebench.items import Item


def atlas() -> list[Item]:
    """The items that come with demur."""
    problems = Problems()
    found = list(read_records(Path(str(files(__package__).joinpath("data", "atlas.jsonl"))), Item, problems))
    problems.settle()
    return found


def build(out: Path) -> Path:
    """Write the items and their pictures into a folder; returns the folder."""
    items = atlas()
    copy_images((uri for i in items for uri in i.images), corpus(), out)
    write_records(out / "items.jsonl", items)
    return out
