"""What is mined and how the index is asked: the options of a recipe or command, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from demur.curation.mine import CrossEncoder, PageRule, Pool
from demur.curation.mining_options import MiningOptions
from demur.curation.near import SameImage
from demur.curation.select import Selection
from demur.errors import MissingExtra, StorageError, UsageError
from demur.retrieval.search import canonical_mode
from demur.vision_ops import ensure_torchvision

LOOK_MODES = ("image->image", "image->first-image")
PAGE_MODES = ("image->title", "image->title+summary", *LOOK_MODES)
TEXT_MODES = ("text->text", "lexical", "fused")
PASSAGES = 10
"""Passages among which gold counts as found."""


@dataclass(frozen=True)
class MiningPlan:
    """What to mine, and how the index is asked."""

    quotas: Mapping[Pool, int] = field(default_factory=lambda: MiningOptions().quotas)
    selection: Selection = field(default_factory=Selection)
    per_page: int | None = None
    pages: int = field(default_factory=lambda: MiningOptions().pages)
    """Pages opened for a question with an image (10 for InfoSeek and ViQuAE, 5 for Encyclopedic-VQA in the paper)."""
    pages_of: Mapping[str, int] = field(default_factory=dict)
    """Source -> `pages`, where it differs."""
    modes: tuple[str, ...] = (*PAGE_MODES, *TEXT_MODES)
    """Modes to choose from; one of a kind leaves nothing to choose."""
    depth: int = 6
    """Hits fetched, as a multiple of the distractors wanted."""
    adopts: bool = True
    """Keep the sample's native negatives that do not leak (`demur.curation.leaks`); mined ones come behind them."""
    cross_encoder: CrossEncoder | None = None
    diversity: float | None = None
    """Weight of relevance in maximal marginal relevance, 0 to 1; None picks by rank."""
    own_page: PageRule = "keep"
    """Other passages of a page that gold evidence lies on."""
    answer_pages: PageRule = "drop"
    """Pictures of a page one of whose passages holds the answer."""
    same_image: SameImage = "look"
    """What makes two pictures the same."""

    @classmethod
    def of(
        cls,
        options: MiningOptions,
        *,
        seed: int = 0,
        pages_of: Mapping[str, int] | None = None,
        cross_encoder: CrossEncoder | None = None,
    ) -> MiningPlan:
        """The plan of options that are checked already.

        Args:
            options: of a recipe or a command.
            seed: for random sampling.
            pages_of: source -> pages, where they differ from ``options.pages``.
            cross_encoder: what `open_cross_encoder` makes of ``options.cross_encoder``.

        Raises:
            UsageError: a mode that finds neither pages by an image nor passages by a text; UnknownPart, no mode.
        """
        modes = (*PAGE_MODES, *TEXT_MODES) if options.modes == "best" else tuple(map(canonical_mode, options.modes))
        return cls(
            quotas=options.quotas,
            selection=options.selection(seed),
            per_page=options.per_page,
            pages=options.pages,
            pages_of=pages_of or {},
            modes=modes,
            adopts=options.adopts,
            cross_encoder=cross_encoder,
            diversity=options.diversity,
            own_page=options.own_page,
            answer_pages=options.answer_pages,
            same_image=options.same_image,
        )

    def __post_init__(self) -> None:
        for mode in self.modes:
            if canonical_mode(mode) not in (*PAGE_MODES, *TEXT_MODES):
                raise UsageError(
                    f"{mode} finds neither pages by an image nor passages by a text",
                    cure=f"choose from {', '.join((*PAGE_MODES, *TEXT_MODES))}",
                )

    def within(self, modes: Collection[str], *, pictured: bool = False) -> tuple[MiningPlan, list[str]]:
        """What of it an index can give that is asked in these modes, and what it cannot, in words.

        Args:
            modes: of the index.
            pictured: whether some questions have an image, by which pages could be found.
        """
        needs: dict[Pool, tuple[set[str], str]] = {
            "text": ({"text->text", "lexical"}, "texts"),
            "lexical": ({"lexical"}, "texts"),
            "visual": ({"image->image"}, "images, or the encoder none of their looks"),
        }
        lacking = {
            pool: f"{self.quotas[pool]} {pool} distractors each are asked for, and its knowledge base holds no {what}"
            for pool, (some, what) in needs.items()
            if self.quotas.get(pool) and some.isdisjoint(modes)
        }
        quotas: dict[Pool, int] = {pool: 0 if pool in lacking else self.quotas.get(pool, 0) for pool in needs}
        told = list(lacking.values())
        by_image = [mode for mode in PAGE_MODES if mode in self.modes]
        if pictured and by_image and (quotas["text"] or quotas["lexical"]) and not set(by_image) & set(modes):
            told.append(
                f"pages cannot be found by {' or '.join(by_image)}: its knowledge base holds nothing that is asked so; "
                "passages are searched by the question alone"
            )
        return replace(self, quotas=quotas), told

    def pages_for(self, source: str) -> int:
        """Pages opened for a question of that source."""
        return self.pages_of.get(source, self.pages)

    def hits(self, pool: Pool) -> int:
        """Hits fetched for that kind of distractors."""
        return self.selection.range_min + max(self.quotas.get(pool, 0) * self.depth, self.selection.range_max or 0)

    def reach(self) -> dict[str, int]:
        """Simple dense mode that is asked in -> the neighbours that count there."""
        pages = max(self.pages, *self.pages_of.values(), 0)
        found = {mode: pages for mode in PAGE_MODES if mode in self.modes}
        if found.pop("image->first-image", 0):  # of the nearest images some are not the first of their page
            found["image->image"] = 4 * pages
        if self.quotas.get("visual"):
            found["image->image"] = max(self.hits("visual"), found.get("image->image", 0))
        if self.quotas.get("text") or {"text->text", "fused"} & set(self.modes):
            found["text->text"] = self.hits("text") if self.quotas.get("text") else PASSAGES
        return found


def open_cross_encoder(name: str) -> CrossEncoder:
    """A sentence-transformers cross-encoder, by name or folder, as a function of (question, passages).

    Raises:
        MissingExtra: sentence-transformers is not installed.
        StorageError: there is no such model, or it cannot be loaded.
    """
    try:
        ensure_torchvision()
        from sentence_transformers import CrossEncoder as Model
    except ModuleNotFoundError as error:
        raise MissingExtra("a cross-encoder", extra="clip", module=str(error.name)) from error
    try:
        model = Model(name)
    except (OSError, ValueError) as error:
        why = (str(error).splitlines() or ["it cannot be loaded"])[0]
        raise StorageError(why, item=name, cure="check the name, or give a local folder") from error

    def scores(question: str, passages: Sequence[str]) -> list[float]:
        found: list[float] = model.predict([(question, passage) for passage in passages]).tolist()
        return found

    return scores
