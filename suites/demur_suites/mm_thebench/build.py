"""The Atlas items: questions of the sample corpus with reference steps and a rubric, written for demur.

`data/atlas.jsonl` names the reviewer of each item. Pictures are copied from the sample corpus.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from demur.core.store import Problems, read_records
from demur.sample import atlas as corpus
from demur_suites.mm_thebench.items import Item, write_items


def atlas() -> list[Item]:
    """The items that come with demur."""
    problems = Problems()
    found = list(
        read_records(Path(str(files(__package__).joinpath("data", "atlas.jsonl"))), Item, problems)
    )
    problems.settle()
    return found


def build(out: Path) -> Path:
    """Write the items and their pictures into a folder; returns the folder."""
    return write_items(out, atlas(), corpus())
