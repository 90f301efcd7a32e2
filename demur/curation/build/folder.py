"""The recipe of a build folder: every build writes it, and commands that continue in the folder read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from demur.core.clock import today
from demur.core.errors import ReleaseError, UsageError
from demur.core.store import read_json, write_atomic, write_json
from demur.core.untrusted import Choice, check
from demur.curation.build.recipe import BuildRecipe, load_recipe, parse_recipe

RECIPE = "recipe.yaml"
"""The enlarged recipe that `demur rebuild` writes into a build folder."""


class FolderRecipe(NamedTuple):
    """The recipe of a build folder, and how it was used."""

    recipe: BuildRecipe
    base: Path
    """Folder that the recipe's relative paths start from."""
    skip_bad: bool
    work: Path
    """The folder that holds ``build``, ``index`` and ``release``."""


def record_recipe(recipe: BuildRecipe, work: Path, *, base: Path, skip_bad: bool) -> None:
    """Write the recipe of a build into its folder."""
    state = {
        "recipe": recipe.model_dump(mode="json"),
        "base": str(base.resolve()),
        "skip_bad": skip_bad,
        "begun": day_begun(work),
    }
    write_json(state_of(work), state)


def day_begun(work: Path) -> str:
    """The day on which a build folder was begun, ``YYYY-MM-DD``: a build that goes on the next day writes the same bytes."""
    path = state_of(work)
    return str((read_json(path) if path.is_file() else {}).get("begun") or today())


def recipe_of_folder(folder: Path) -> FolderRecipe:
    """The recipe of a build folder, or of the release in one.

    Raises:
        ReleaseError: the build's files are not there.
    """
    build_folder = next(
        (f for f in (folder, folder.resolve().parent) if state_of(f).is_file()), None
    )
    if build_folder is None:
        raise ReleaseError(
            "the files of its build are missing",
            item=folder,
            cure="name a folder that 'demur build' wrote, or the release in it; or build it from its recipe",
        )
    stated = read_json(state_of(build_folder))
    try:
        recipe, base, skip_bad = (
            dict(stated["recipe"]),
            Path(stated["base"]),
            bool(stated["skip_bad"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReleaseError(
            f"not the recipe of a build: {error}",
            item=state_of(build_folder),
            cure="build it again",
        ) from error
    return FolderRecipe(
        parse_recipe(recipe, str(state_of(build_folder))), base, skip_bad, build_folder.resolve()
    )


def trusted_recipe(folder: Path) -> FolderRecipe:
    """The recipe of a build folder, to carry it out: it may come from anybody.

    Raises:
        ReleaseError: see `recipe_of_folder`.
        UntrustedFile: it names what only the user may choose.
    """
    stated = recipe_of_folder(folder)
    sources = [Choice("sources", source.name, source.options) for source in stated.recipe.sources]
    others = _find_named_parts(stated.recipe.model_dump(mode="json"), stated.base)
    check(state_of(stated.work), [*sources, *others], folder=stated.work)
    return stated


_NAMES: Mapping[str, Any] = {
    "judge": "judges",
    "system": "systems",
    "encoder": "encoders",
    "text_encoder": "encoders",
    "tokenizer": "data",
    "cross_encoder": "data",
    "path": "folder",
    "index": "folder",
}
"""Key of a recipe, wherever it stands -> what its value names."""


def _find_named_parts(stated: Any, base: Path) -> Iterator[Choice]:
    """Everything in a part of a recipe that names a part, weights or a path; names of sources apart."""
    if isinstance(stated, dict):
        for key, value in stated.items():
            if key in _NAMES and isinstance(value, str):
                yield Choice(_NAMES[key], value, stated.get("options", {}), base)
            elif key != "options":
                yield from _find_named_parts(value, base)
    elif isinstance(stated, list):
        for each in stated:
            yield from _find_named_parts(each, base)


def recipe_at(path: Path, out: Path | None = None, *, skip_bad: bool = False) -> FolderRecipe:
    """The recipe in a file or of a build folder, with the build folder to use.

    Args:
        path: recipe.yaml, or a build folder.
        out: the build folder; None: the folder itself, or NAME-VERSION of the recipe file.
        skip_bad: leave bad records out; a folder that was built so stays so.

    Raises:
        UntrustedFile: the recipe of a folder names what only the user may choose; one in a file is the user's own.
    """
    if path.is_dir():
        recipe_and_folder = trusted_recipe(path)
        return recipe_and_folder._replace(
            skip_bad=skip_bad or recipe_and_folder.skip_bad, work=out or recipe_and_folder.work
        )
    recipe, base = load_recipe(path), path.resolve().parent
    return FolderRecipe(recipe, base, skip_bad, out or Path(f"{recipe.name}-{recipe.version}"))


def check_same_recipe(recipe: BuildRecipe, work: Path, *, base: Path) -> None:
    """Check that a build folder is new or was built by this recipe.

    Monitors, re-tests, topics, limits and authors decide nothing and may differ.

    Raises:
        UsageError: it was built by another recipe; names the keys that differ.
    """
    if not state_of(work).is_file():
        return
    other = recipe_of_folder(work)
    deciding_parts, other_parts = (
        _parts_that_decide(recipe, base),
        _parts_that_decide(other.recipe, other.base),
    )
    if differ := [key for key in deciding_parts if deciding_parts[key] != other_parts[key]]:
        raise UsageError(
            f"another recipe built this folder: {', '.join(differ)} differ",
            item=work,
            cure="give the folder instead of the recipe, to use its own; or choose another folder (--out)",
        )


def write_recipe(recipe: BuildRecipe, work: Path, *, base: Path) -> Path:
    """Write a recipe file into a build folder; its paths are relative to that folder."""
    stated = recipe.model_dump(mode="json", exclude_defaults=True)
    for source in stated["sources"]:
        if source.get("path") is not None:
            source["path"] = os.path.relpath(base / source["path"], work)
    write_atomic(work / RECIPE, yaml.safe_dump(stated, sort_keys=False, allow_unicode=True))
    return work / RECIPE


def state_of(work: Path) -> Path:
    """The file with the recipe that a build folder was built by; it exists once a build has begun."""
    return work / "build" / "recipe.json"


def _parts_that_decide(recipe: BuildRecipe, base: Path) -> dict[str, Any]:
    """The parts of a recipe that decide the content and the name of a release."""
    stated = recipe.model_dump(
        mode="json", exclude={"monitors", "retest", "topics", "limits", "authors"}
    )
    for source in stated["sources"]:
        if source["path"] is not None:
            source["path"] = str((base / source["path"]).resolve())
    return stated
