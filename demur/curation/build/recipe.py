"""A recipe: everything that decides what a release holds, in one YAML file (``recipe.yaml``).

`demur build` runs it, the release's manifest repeats it, and ``recipe.schema.json`` beside this file is its JSON
schema for editors (`python -m demur.curation.build.recipe` prints it). Every key is checked before any work starts; the error
for a mistyped key names the nearest one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from demur.core.records import Record
from demur.core.yaml_record import Form, parse_record, read_record
from demur.curation.build.presets import PRESETS
from demur.curation.gates.funnel import Rules, Stage
from demur.curation.gates.spec import GateSpec
from demur.curation.mining.options import MiningOptions
from demur.curation.mining.queries import modes_of, page_modes
from demur.release.facts import NOBODY, CardFacts
from demur.release.layout import NAME, VERSION

CHUNK = r"^\d+:\d+$"
SCHEMA = "recipe.schema.json"
"""The JSON schema of a recipe, beside this file."""
FORM = Form("the recipe", "correct the recipe; docs/recipe.md lists the keys")


class RetrievalSpec(MiningOptions):
    """How distractors are found: the options of `demur mine`, and the index that they are found in.

    Every source has an index of its own knowledge base. What a source's ``retrieval`` leaves out is as the common one
    says.
    """

    encoder: str = "offline"
    """``offline``, ``open_clip:EVA02-B-16/merged2b_s8b_b131k``, ``sentence-transformers:facebook/contriever`` ..."""
    text_encoder: str | None = Field(default=None, min_length=1)
    """Another encoder for passages, which ranks those of the pages found (the paper: EVA-CLIP finds pages, Contriever
    ranks their passages); None for the same one."""
    chunk: str | None = Field(default=None, pattern=CHUNK)
    """``SIZE:OVERLAP`` in tokens: documents are cut into passages (the paper: 250:32), gold evidence too."""
    tokenizer: str | None = Field(default=None, min_length=1)
    """What counts the tokens: a tokenizer.json, or the name of a model on the Hugging Face hub; None counts words."""
    passages: Literal["auto", "found", "all"] = "auto"
    """Which passages are cut and embedded: those on pages that are ``found`` by a query image (the paper's two steps),
    or ``all`` of the knowledge base. ``auto``: ``found`` if ``chunk`` cuts and ``modes`` name ways to find pages, but
    no search of all passages is asked for (by words, or for a question without an image)."""
    query_images: bool = False
    """Let the images that other samples ask about be distractors too (equation 3: query and metadata images)."""
    index: str | None = Field(default=None, min_length=1)
    """An index folder that was built already (`demur index build`), relative to the recipe; it is never changed. None
    builds one, below the build's own folder."""

    @model_validator(mode="after")
    def _tokens_of_what_is_cut(self) -> Self:
        if self.tokenizer and not self.chunk and not self.index:
            raise ValueError(
                "tokenizer without chunk: nothing is cut (the paper's chunk is 250:32)"
            )
        if self.passages == "found" and (why := self.searches_all(pictured=True)):
            raise ValueError(f"passages: found, but {why} (write passages: all)")
        return self

    def searches_all(self, *, pictured: bool) -> str:
        """Why all passages of the knowledge base must be there; "" if those of found pages are enough.

        Args:
            pictured: every question has an image.
        """
        modes = {*modes_of(self)}
        reasons = {
            "chunk says nothing of how pages are cut": not self.chunk,
            "the index is one that was built already": bool(self.index),
            "lexical distractors are found by the words of all passages": self.lexical > 0,
            "a mode searches all passages by their words": bool(modes & {"lexical", "fused"}),
            "no mode finds pages": modes.isdisjoint(page_modes()),
            "some questions have no image to find pages by": not pictured,
        }
        return next((why for why, holds in reasons.items() if holds), "")


class SourceSpec(Record):
    """One source of samples and documents."""

    name: str
    """A registered source (`demur sources list`), or ``module:Class``."""
    path: str | None = None
    """Its folder; relative to the recipe. None for a source that ships with demur."""
    per_topic: int | None = Field(default=None, ge=1)
    """Take at most that many samples of each topic, chosen by the seed; None takes all."""
    limit: int | None = Field(default=None, ge=1)
    """Take at most that many samples, of those in the end, chosen by the seed; a higher limit adds to them. None takes
    all."""
    retrieval: RetrievalSpec | None = None
    """How distractors are found for this source, where it differs from the common way and from the preset's."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the source as it is."""


class NamerSpec(Record):
    """A model that is asked about something else than questions."""

    system: str = Field(pattern="^model:.")
    """A model by name: ``model:openai/gpt-4o``, ``model:http://localhost:8000/v1#NAME`` ..."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Sampling (temperature, max_tokens, seed ...), and ``images: none`` of one that takes no images."""


class BuildRecipe(Record):
    """The whole recipe."""

    name: str
    version: str = "0.1.0"
    seed: int = 0
    preset: str | None = None
    """A published recipe that fills in, source by source, what this one leaves out: ``vlm-deflectionbench``."""
    sources: tuple[SourceSpec, ...] = Field(min_length=1)
    gates: tuple[GateSpec, ...] = Field(min_length=1)
    judge: str = "local"
    retrieval: RetrievalSpec = Field(default_factory=RetrievalSpec)
    rules: Rules = Field(default_factory=Rules)
    monitors: tuple[GateSpec, ...] = ()
    """Systems that decide nothing: `demur convergence` watches their answers without evidence as gates are added."""
    retest: int = Field(default=25, ge=0)
    """Kept samples that the gates are asked again without evidence, to tell sampling noise from knowledge."""
    topics: Literal["bertopic", "none"] = "none"
    """How topics are found in the questions, for the comparison of pool and release, beside the source's own."""
    topic_names: NamerSpec | None = None
    """A model that names the topics found in the questions from ten representative ones of each; None: their words."""
    limits: tuple[str, ...] = ()
    """Lines for the dataset card: what this release cannot be used for."""
    authors: tuple[str, ...] = (NOBODY,)
    card: CardFacts = Field(default_factory=CardFacts)
    """What only people know about the benchmark; `demur release verify --submission` asks for what is missing."""

    @model_validator(mode="before")
    @classmethod
    def _fill_retrieval(cls, data: Any) -> Any:
        """Complete each source's ``retrieval``: its own keys override the common ones, which override the preset's."""
        if not isinstance(data, Mapping):
            return data
        name = data.get("preset")
        if name is not None and (not isinstance(name, str) or name not in PRESETS):
            raise ValueError(
                f"preset: no preset named {name!r}; there is {', '.join(sorted(PRESETS))}"
            )
        preset, common, sources = (
            PRESETS.get(str(name), {}),
            data.get("retrieval") or {},
            data.get("sources"),
        )
        if (
            not isinstance(sources, Sequence)
            or isinstance(sources, str)
            or not isinstance(common, Mapping)
        ):
            return data  # the fields report what is wrong

        def complete_source(source: Any) -> Any:
            source_retrieval = source.get("retrieval") if isinstance(source, Mapping) else None
            of_preset = preset.get(str(source.get("name"))) if isinstance(source, Mapping) else None
            if (source_retrieval is None and of_preset is None) or not isinstance(
                source_retrieval or {}, Mapping
            ):
                return source
            return {
                **source,
                "retrieval": {**(of_preset or {}), **common, **(source_retrieval or {})},
            }

        return {**data, "sources": [complete_source(source) for source in sources]}

    @field_validator("name", "version")
    @classmethod
    def _fit_for_a_release(cls, value: str, info: ValidationInfo) -> str:
        form, cure = VERSION, "it as 1.0.0"
        if info.field_name == "name":
            form, cure = NAME, "up to 96 letters, digits, dots, dashes and underscores"
        if not form.fullmatch(value):
            raise ValueError(f"{value!r} (write {cure})")
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if not any(Stage.PARAMETRIC in g.stages for g in self.gates):
            raise ValueError("no gate is asked without evidence: give one the stage 'parametric'")
        for source in self.sources:
            retrieval = self.retrieval_of(source)
            if retrieval.negatives == "mined" and retrieval.wanted < self.rules.k_min:
                raise ValueError(
                    f"k_min={self.rules.k_min} distractors per sample, but retrieval for {source.name} finds at most "
                    f"{retrieval.wanted} (text + lexical + visual)"
                )
        if self.topic_names is not None and self.topics == "none":
            raise ValueError("topic_names has no topics to name: write topics: bertopic")
        names = [g.id for g in (*self.gates, *self.monitors)]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(
                f"two gates or monitors have the same name: {', '.join(sorted(twice))}"
            )
        return self

    def retrieval_of(self, source: SourceSpec) -> RetrievalSpec:
        """The mining options of a source."""
        return source.retrieval or self.retrieval

    def specs(self) -> dict[str, GateSpec]:
        """The gates by name."""
        return {g.id: g for g in self.gates}


def load_recipe(path: Path) -> BuildRecipe:
    """Read and check a recipe.

    Raises:
        UsageError: not YAML, or wrong keys or values; names all of them, with the nearest keys.
    """
    return read_record(path, BuildRecipe, FORM)


def parse_recipe(data: dict[str, Any], item: str = "recipe") -> BuildRecipe:
    """Check a recipe given as plain values."""
    return parse_record(data, BuildRecipe, FORM, item=item)


def schema() -> str:
    """The JSON schema of a recipe, as `SCHEMA` holds it."""
    return json.dumps(BuildRecipe.model_json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema())
