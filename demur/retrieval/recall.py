"""Recall@k of gold for each retrieval mode, with intervals, and the best mode of each source.

The paper tries every retrieval mode on each source and keeps the best (appendix H). This is the table behind that
choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from demur.core.records import Measure
from demur.core.stats import wilson

DEPTHS = (1, 5, 10, 20)
"""Depths k of the table."""


class Choice(NamedTuple):
    """The best mode of one source, and the table that it was chosen from."""

    source: str
    mode: str
    k: int
    """The depth at which modes were compared."""
    table: tuple[tuple[str, tuple[Measure, ...]], ...]
    """(mode, recall at each depth), best mode first."""
    own_images_indexed: int = 0
    """Questions whose own image is in the index, exactly or nearly; such hits do not count."""
    lacking: int = 0
    """Questions whose gold evidence no mode can find (not in the index, or of another kind); in no denominator."""

    @property
    def n(self) -> int:
        """Questions behind the choice: those whose gold evidence can be found."""
        return max((measure.n for _, measures in self.table for measure in measures), default=0)

    @property
    def warning(self) -> str:
        """Why the choice may be wrong; "" if it rests on every question.

        >>> Choice("webqa: passages by question", "text->text", 10, (), lacking=3).warning
        'webqa: passages by question: gold of none of 3 questions can be found: text->text is taken by default'
        """
        if not self.n:
            share = f"gold of none of {self.lacking:,} questions can be found"
            return f"{self.source}: {share}: {self.mode or 'nothing'} is taken by default"
        if self.lacking:
            share = (
                f"gold of {self.lacking:,} of {self.n + self.lacking:,} questions cannot be found"
            )
            why = "it is not in the index, or of another kind"
            return f"{self.source}: {share} ({why}): {self.mode} is chosen by the others"
        return ""


class Recall:
    """Counts the ranks at which questions first found gold: recall at any depth, for any number of questions.

    >>> recall = Recall()
    >>> recall.add(["a", "b"], {"b"})
    >>> recall.add(["a", "b"], {"c"})
    >>> [(measure.name, measure.value, measure.n) for measure in map(recall.at, (1, 2))]
    [('recall@1', 0.0, 2), ('recall@2', 0.5, 2)]
    """

    def __init__(self) -> None:
        self._with_gold = 0
        self.lacking = 0
        """Questions without gold to find."""
        self._ranks: Counter[int] = Counter()

    def add(self, ids: Iterable[str], gold: Collection[str]) -> None:
        """Count one question.

        Args:
            ids: its hits by rank.
            gold: what it should find, any of it; a question without gold is in no denominator.
        """
        self.count(
            next((rank for rank, id in enumerate(ids, 1) if id in gold), None), known=bool(gold)
        )

    def count(self, rank: int | None, *, known: bool) -> None:
        """Count one question by the first rank at which it found gold; or as lacking gold, if none is ``known``."""
        if not known:
            self.lacking += 1
            return
        self._with_gold += 1
        if rank is not None:
            self._ranks[rank] += 1

    def at(self, k: int) -> Measure:
        """Share of the questions with gold among the first k, with Wilson's 95 % interval."""
        hits, n = sum(count for rank, count in self._ranks.items() if rank <= k), self._with_gold
        low, high = wilson(hits, n) or (None, None)
        value = hits / n if n else None
        return Measure(
            name=f"recall@{k}", value=value, n=n, low=low, high=high, interval="wilson(0.95)"
        )


def best_mode(source: str, recalls: Mapping[str, Recall], *, at: int = 10) -> Choice:
    """Choose the mode with the highest recall at one depth; ties go by recall at smaller depths, then to the first.

    Args:
        recalls: mode -> its counts; the first mode is the default if no question tells them apart.
        at: the depth that decides; a column of the table too.
    """
    depths = sorted({*DEPTHS, at})
    table = [(mode, tuple(map(recall.at, depths))) for mode, recall in recalls.items()]
    place = depths.index(at)

    def worse(row: tuple[str, tuple[Measure, ...]]) -> tuple[float, list[float]]:
        values = [-(m.value or 0.0) for m in row[1]]
        return values[place], values

    table.sort(key=worse)
    lacking = max((recall.lacking for recall in recalls.values()), default=0)
    return Choice(source, table[0][0] if table else "", at, tuple(table), lacking=lacking)
