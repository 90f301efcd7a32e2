"""What a run is asked, and what it may take: one record from a command or the keywords of `demur.evaluate` downwards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError

from demur.core.errors import UsageError, did_you_mean
from demur.core.records import Record
from demur.core.text import brief
from demur.scenarios import contexts
from demur.scenarios.conditions import Condition, Prompts, conditions
from demur.scenarios.contexts import Recipe

Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: (names,) if isinstance(names, str) else names)
]
"""One name or several."""


class RunOptions(Record):
    """How systems are asked."""

    scenarios: Names = ("all",)
    """``all`` four, names or recipes: ``oracle``, ``adversarial(k=3)``. For a system with its own retriever ``whole``:
    full, gold-removed and empty."""
    k: int = 2
    """Distractors, where a recipe gives no number."""
    distractors: tuple[int, int] | None = None
    """Besides, Realistic with the lowest to the highest number of distractors."""
    positions: tuple[int, int] | None = None
    """Besides, Realistic with the gold at each position among ``k`` distractors."""
    modality: bool | None = None
    """If true, besides, Realistic by modality of gold and distractors."""
    strictness: Names = ("moderate",)
    """Prompting conditions: none, soft, moderate, severe, or all; ``+strict``, ``+confidence``, ``+reasoning``."""
    prompts: Path | None = None
    """Folder of prompt files in place of the package's."""
    limit: int | None = None
    """Number of samples to ask, drawn by the seed; None for all."""
    text_only: bool = False
    """Draw only samples that a text-only model can be asked in every scenario."""
    corpora: Path | None = None
    """Folder of ``demur corpus export``, for the scenarios full, gold-removed and empty. Without it, gold-removed
    excludes the gold alone, and asks also where other documents state the answer."""
    seed: int = 0
    """Of every random draw and order."""
    repeat: int = 1
    """Independent answers to each question."""
    system_options: dict[str, Any] = Field(default_factory=dict)
    """For the systems: of models temperature, max_tokens ... (`demur.scenarios.systems.model.Sampling`), ``layout``,
    ``note`` and ``name``; a class of one's own takes what it likes."""
    encoder: str = ""
    """For systems that read with embeddings; the release's own when empty."""
    judge: str = "local"
    """Who grades."""
    out: Path = Path("runs")
    """Folder for the run folders. Stored answers are not requested again: with another limit, seed, other scenarios or
    prompts the system's run grows, and holds what was asked before. An edited function is another system."""
    fresh: bool = False
    """Ask everything again: old run folders are moved aside, kept replies of models are dropped and paid again."""
    concurrency: int | None = None
    """Calls at once per endpoint and function; None for 8, or 1 of a plain function."""
    batch: bool | Path = False
    """Send calls of models in batches (half the price, within a day); a path writes the next wave of them there, and
    stops."""
    budget: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Dollars; stops before exceeding them, and the same call continues. What earlier commands spent on the same run
    folders counts."""
    prices: Path | None = None
    """Price table that overrides the built-in one."""
    minutes: float | None = None
    """Ask nothing new after this time; the same call continues."""
    ledger: Path | None = None
    """Of model calls; ``calls.sqlite`` in ``out`` when None."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the arguments of a command or the keywords of a function.

        Raises:
            UsageError: there is no such option, or a value does not fit it.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problem = error.errors()[0]
            name = str(problem["loc"][0])
            if problem["type"] == "extra_forbidden":
                cure = did_you_mean(name, list(cls.model_fields))
                raise UsageError(f"no argument {name!r}", item="evaluate", cure=cure) from None
            misfit = f"{name}={brief(repr(values[name]))}: {problem['msg']}"
            cure = "see what it takes: demur run --help"
            raise UsageError(misfit, item="evaluate", cure=cure) from error

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """The context sets, each once.

        Raises:
            UsageError: there is no such scenario.
        """
        recipes = [
            *contexts.recipes(self.scenarios, k=self.k),
            *(contexts.sweep(*self.distractors) if self.distractors else ()),
            *(contexts.grid(self.k) if self.modality else ()),
            *(contexts.positions(*self.positions, self.k) if self.positions else ()),
        ]
        return tuple(dict.fromkeys(recipes))

    @cached_property
    def conditions(self) -> list[Condition]:
        """The prompting conditions.

        Raises:
            UsageError: there is no such condition.
        """
        return conditions(self.strictness)

    @property
    def varies(self) -> bool:
        """Whether a scenario is asked in several ways."""
        scenarios = {recipe.scenario for recipe in self.recipes}
        return len(self.recipes) > len(scenarios) or len(self.conditions) > 1

    @cached_property
    def prompt_texts(self) -> Prompts:
        """The texts of the prompts."""
        return Prompts(self.prompts)

    @property
    def calls(self) -> Path:
        """The ledger of model calls."""
        return self.ledger or self.out / "calls.sqlite"
