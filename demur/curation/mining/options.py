"""Mining options, their defaults and checks, of a recipe's ``retrieval`` and of `demur mine`.

Options that select candidates mean the same as in `sentence_transformers.util.mine_hard_negatives`, and apply in its
order, so that settings carry over and rows are equal: positives are removed first, then candidates within a margin of a
positive, then those outside [min_score, max_score]; ranks count what is left. A margin is measured from the
lowest-scoring positive. NV-Retriever's positive-aware mining (de Souza P. Moreira et al. 2024): TopK-PercPos at 95 % is
``relative_margin=0.05``, TopK-MarginPos at 0.05 is ``absolute_margin=0.05``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from demur.core.records import Record
from demur.core.store import parsed_yaml, read_text
from demur.core.yaml_record import Form, parse_record
from demur.corpora.near_duplicates import SameImage

Pool = Literal["text", "lexical", "visual"]
"""Kinds of distractors: found by dense text search, by lexical search, by image search."""
FORM = Form("the table of options", "write one a line: per_page: 2; see 'demur mine --help'")
PageRule = Literal["keep", "drop"]
"""What to do with a candidate because of its page."""

Negatives = Literal["auto", "native", "mined", "both"]
"""Whose negatives become distractors."""


class MiningOptions(Record):
    """How distractors are found and chosen (VLM-DeflectionBench, section 3.2 and appendix H)."""

    modes: Literal["best"] | tuple[str, ...] = "best"
    """Which retrieval modes may find pages and passages; ``best`` tries all and takes the best recall of gold."""
    pages: int = Field(default=10, ge=1)
    """Pages opened for a query image (the paper: 10; Encyclopedic-VQA 5)."""
    text: int = Field(default=8, ge=0)
    """Text distractors per sample, found by the question's vector: a quota, as the next two."""
    lexical: int = Field(default=0, ge=0)
    """Text distractors per sample, found by the question's words (BM25)."""
    visual: int = Field(default=4, ge=0)
    """Image distractors per sample."""
    negatives: Negatives = "auto"
    """Whose distractors: those that the source ships (``native``), those that a search finds (``mined``), or ``both``.
    ``auto`` adopts the source's where it ships them, and mines where it does not (section 3.2)."""
    per_page: int | None = Field(default=None, ge=1)
    """Most distractors of a kind from one page (`demur.corpora.lineage.page_of`), for variety; None for any number."""
    own_page: PageRule = "keep"
    """Other passages of a page that gold evidence lies on: ``drop`` leaves them out. They are the hardest (the paper
    keeps them: equation 2 takes gold alone away), and may say the answer in other words. Pictures of it are never
    taken."""
    answer_pages: PageRule = "drop"
    """Pictures of a page one of whose passages holds the answer; ``keep`` judges a picture by its caption alone."""
    same_image: SameImage = "look"
    """What makes two pictures the same: their ``look`` (`demur.corpora.near_duplicates`), or nothing but their
    ``bytes``: for bases whose pictures differ in so little that looks take one for another."""
    diversity: float | None = None
    """Weight of relevance in maximal marginal relevance, 0 to 1 (0.5 is usual); None picks by rank."""
    range_min: int = Field(default=0, ge=0)
    """Candidates to pass over at the top, counted after all removals."""
    range_max: int | None = None
    """Rank behind which no candidate is taken; None for as far as hits go."""
    max_score: float | None = Field(default=None, allow_inf_nan=False)
    """Leave out what scores higher; this and the next three are about dense scores, however the hits were found, or
    about those of the ``cross_encoder``."""
    min_score: float | None = Field(default=None, allow_inf_nan=False)
    """Leave out what scores lower."""
    absolute_margin: float | None = Field(default=None, allow_inf_nan=False)
    """A distractor scores at least this much less than the lowest gold evidence (NV-Retriever: TopK-MarginPos)."""
    relative_margin: float | None = Field(default=None, allow_inf_nan=False)
    """A distractor scores at least this share less; 0.05 is NV-Retriever's TopK-PercPos at 95 %."""
    cross_encoder: str | None = None
    """A cross-encoder (`demur.retrieval.cross_encoder`), which orders the passages that a search found anew. The limits
    and margins above are then about its scores, of passages of all kinds and of no picture: ``max_score`` leaves out
    what it takes for an answer."""
    sampling: Literal["top", "random"] = "top"
    """Take the first, or draw from all that may be taken, by the seed and the sample's id."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.range_max is not None and self.range_max <= self.range_min:
            raise ValueError(
                f"ranks {self.range_min} to {self.range_max} hold no distractor (raise range_max)"
            )
        if self.diversity is not None and not 0 <= self.diversity <= 1:
            raise ValueError(
                f"diversity={self.diversity} is outside 0 to 1 (1 keeps the plain order, 0.5 is usual)"
            )
        if self.diversity is not None and self.sampling != "top":
            raise ValueError(
                f"sampling={self.sampling} and diversity={self.diversity:g} both say which are picked "
                "(leave one of them out)"
            )
        return self

    def settled(self, shipped: float) -> Self:
        """The options with ``auto`` resolved, and quotas of 0 where nothing is mined.

        Args:
            shipped: share of the source's samples with shipped negatives: from a half on only these are used, below
                they are used and others are mined too.
        """
        whose = self.negatives
        if whose == "auto":
            whose = "native" if shipped >= 0.5 else "both" if shipped else "mined"
        quotas = {"text": 0, "lexical": 0, "visual": 0} if whose == "native" else {}
        return self.model_copy(update={"negatives": whose, **quotas})

    @property
    def adopts(self) -> bool:
        """Whether the source's own negatives become distractors."""
        return self.negatives != "mined"

    @property
    def mines(self) -> bool:
        """Whether a search may find distractors."""
        return self.negatives != "native" and self.wanted > 0

    @property
    def quotas(self) -> dict[Pool, int]:
        """Wanted distractors of each kind; no kind fills the quota of another."""
        return {"text": self.text, "lexical": self.lexical, "visual": self.visual}

    @property
    def wanted(self) -> int:
        """Most mined distractors of a sample."""
        return sum(self.quotas.values())

    @property
    def by_margin(self) -> bool:
        """Whether a margin can remove a candidate."""
        return self.absolute_margin is not None or self.relative_margin is not None

    @property
    def by_score(self) -> bool:
        """Whether any score can remove a candidate."""
        return self.by_margin or self.max_score is not None or self.min_score is not None

    @property
    def unlimited(self) -> Pool:
        """The kind whose scores are not those that limits and margins are about."""
        return "visual" if self.cross_encoder else "lexical"

    def objection(self, score: float, positive: float | None) -> str:
        """Why a candidate with this score cannot be a distractor; "" if it can.

        Args:
            score: of the candidate; higher is nearer.
            positive: the lowest score of gold evidence; None if unknown: then no margin applies.
        """
        if positive is not None:
            if self.absolute_margin is not None and score + self.absolute_margin > positive:
                return "within the margin of gold"
            if (
                self.relative_margin is not None
                and score > positive - abs(positive) * self.relative_margin
            ):
                return "within the margin of gold"
        if self.max_score is not None and score > self.max_score:
            return "scores too high"
        if self.min_score is not None and score < self.min_score:
            return "scores too low"
        return ""


def mining_options(file: Path | None = None, **values: Any) -> MiningOptions:
    """Options of a file and by name; None takes the file's, or the default.

    Args:
        file: YAML with a table of options.
        values: go before the file's.

    Raises:
        UsageError: wrong values; names each.
        StorageError: the file cannot be read.
    """
    stated = {} if file is None else parsed_yaml(read_text(file), str(file))
    if isinstance(stated, dict):
        stated |= {name: value for name, value in values.items() if value is not None}
    return parse_record(stated, MiningOptions, FORM, item=str(file or ""))
