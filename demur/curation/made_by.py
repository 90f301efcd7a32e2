"""Which recipe a build folder is of: written by every build, asked by whoever goes on with its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from demur.core.errors import ReleaseError, UsageError
from demur.core.store import read_json, write_atomic, write_json
from demur.curation.recipe import BuildRecipe, load_recipe, parse_recipe

RECIPE = "recipe.yaml"
"""In a folder whose recipe nobody wrote: the one that its build was enlarged to."""


class MadeBy(NamedTuple):
    """What a build folder was built by."""

    recipe: BuildRecipe
    base: Path
    """Folder that the recipe's relative paths start from."""
    skip_bad: bool
    work: Path
    """The folder that holds ``build``, ``index`` and ``release``."""


def note(recipe: BuildRecipe, work: Path, *, base: Path, skip_bad: bool) -> None:
    """Write down in a build folder what it is built by."""
    state = {"recipe": recipe.model_dump(mode="json"), "base": str(base.resolve()), "skip_bad": skip_bad}
    write_json(_state(work), state)


def made_by(folder: Path) -> MadeBy:
    """What a build folder, or the release in one, was built by.

    Raises:
        ReleaseError: the files of a build are not there.
    """
    found = next((f for f in (folder, folder.resolve().parent) if _state(f).is_file()), None)
    if found is None:
        raise ReleaseError(
            "the files of its build are not there", item=folder,
            cure="name a folder that 'demur build' wrote, or the release in it; or build it from its recipe",
        )  # fmt: skip
    stated = read_json(_state(found))
    recipe = parse_recipe(dict(stated["recipe"]), str(_state(found)))
    return MadeBy(recipe, Path(stated["base"]), bool(stated["skip_bad"]), found.resolve())


def recipe_at(path: Path, out: Path | None = None, *, skip_bad: bool = False) -> MadeBy:
    """A recipe file, or a build folder that goes by its own; with the build folder it is for.

    Args:
        path: recipe.yaml, or a build folder.
        out: the build folder; as the recipe's name and version say, or the folder itself, when None.
        skip_bad: leave bad records out; a folder that was built so stays so.
    """
    if path.is_dir():
        made = made_by(path)
        return made._replace(skip_bad=skip_bad or made.skip_bad, work=out or made.work)
    recipe = load_recipe(path)
    return MadeBy(recipe, path.resolve().parent, skip_bad, out or Path(f"{recipe.name}-{recipe.version}"))


def same_recipe(recipe: BuildRecipe, work: Path, *, base: Path) -> None:
    """See that a folder that was built was built by this recipe; one that was not begun is anybody's.

    Monitors, re-tests, limits and authors decide nothing and may differ.

    Raises:
        UsageError: it was built by another one; names the keys that differ.
    """
    if not _state(work).is_file():
        return
    other = made_by(work)
    mine, theirs = _deciding(recipe, base), _deciding(other.recipe, other.base)
    if differ := [key for key in mine if mine[key] != theirs[key]]:
        raise UsageError(
            f"it was built by another recipe: {', '.join(differ)} differ", item=work,
            cure="name the folder instead of a recipe, to go by its own; or give this recipe another folder (--out)",
        )  # fmt: skip


def leave_recipe(recipe: BuildRecipe, work: Path, *, base: Path) -> Path:
    """Write a recipe into a build folder, for a build that nobody wrote one for; its paths start from that folder."""
    stated = recipe.model_dump(mode="json", exclude_defaults=True)
    for source in stated["sources"]:
        if source.get("path") is not None:
            source["path"] = os.path.relpath(base / source["path"], work)
    write_atomic(work / RECIPE, yaml.safe_dump(stated, sort_keys=False, allow_unicode=True))
    return work / RECIPE


def _state(work: Path) -> Path:
    return work / "build" / "recipe.json"


def _deciding(recipe: BuildRecipe, base: Path) -> dict[str, Any]:
    """What of a recipe decides what is in a release, and what it is called."""
    stated = recipe.model_dump(mode="json", exclude={"monitors", "retest", "topics", "limits", "authors"})
    for source in stated["sources"]:
        if source["path"] is not None:
            source["path"] = str((base / source["path"]).resolve())
    return stated
