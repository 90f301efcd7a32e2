"""Rebuilds a release with more gates: verdicts that still hold are used again, and only new questions are asked.

The new build folder starts with a copy of the old one's journal, ledger, pool and index; pool and index are used if the
sources have not changed (`demur.curation.build.sample_pool`). The key of a verdict is everything that it depends on
(`demur.curation.gates.runner.key_of`), so the result is the same bytes as a full build of the enlarged recipe.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import UsageError
from demur.core.store import parsed_yaml, storage_errors, write_atomic
from demur.curation.build.curate import Built, curate
from demur.curation.build.estimate import BuildEstimate, estimate_build
from demur.curation.build.folder import FolderRecipe, state_of, trusted_recipe, write_recipe
from demur.curation.build.recipe import parse_recipe
from demur.curation.build.sample_pool import kept_pool
from demur.models.ledger import forget_spending
from demur.release import Release
from demur.release.layout import next_minor

COPIED = (
    "journal.jsonl",
    "calls.sqlite",
    "calls.sqlite-wal",
    "passages.sqlite",
    "passages.sqlite-wal",
)


def gate_of(text: str) -> dict[str, Any]:
    """A gate from the command line: a system by name, or ``{system: ..., name: ..., options: {...}}`` as YAML.

    Raises:
        UsageError: it is neither.

    >>> gate_of("model:openai/gpt-4o")
    {'system': 'model:openai/gpt-4o'}
    >>> gate_of("{system: prior, cost: 0}")
    {'system': 'prior', 'cost': 0}
    """
    if not text.lstrip().startswith("{"):
        return {"system": text}
    gate = parsed_yaml(text, text, "write {system: NAME, name: ..., cost: ...}")
    if not isinstance(gate, dict):
        raise UsageError("not a gate", item=text, cure="write {system: NAME, name: ..., cost: ...}")
    return gate


def carry_over(work: Path, out: Path) -> None:
    """Start a build folder with the verdicts, replies, pool and index of another; do nothing if it has started.

    Raises:
        UsageError: ``out`` is the old folder, or that of another build.
        StorageError: something cannot be copied.
    """
    if out.resolve() == work.resolve():
        raise UsageError(
            "this is the folder of the old release", item=out, cure="choose another --out"
        )
    if (out / "build" / "carried").exists():
        return
    if state_of(out).exists():
        raise UsageError(
            "this is the folder of another build", item=out, cure="choose another --out"
        )
    with storage_errors(out):
        (out / "build").mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            if (work / "build" / name).exists():
                shutil.copy2(work / "build" / name, out / "build" / name)
        if (out / "build" / "calls.sqlite").exists():
            forget_spending(out / "build" / "calls.sqlite")
        if (work / "index").is_dir():
            _copy_folder(work / "index", out / "index")
    with suppress(
        OSError
    ):  # if another process removes the pool just now, the sources are read again
        if pool := kept_pool(work / "build" / "pool"):
            _copy_folder(pool, out / "build" / "pool" / pool.name)
    write_atomic(out / "build" / "carried", f"{work}\n")


class Enlarged(NamedTuple):
    """A release with more gates, before it is built."""

    new: FolderRecipe
    """The recipe with the new gates; ``work`` is the old folder."""
    out: Path
    """Its build folder."""


def enlarge(
    old: Path,
    gates: Sequence[str | Mapping[str, Any]],
    out: Path | None = None,
    *,
    version: str | None = None,
    skip_bad: bool = False,
) -> Enlarged:
    """The recipe and the folder of a release with more gates; writes nothing.

    Args:
        old: a release folder with its build folder beside it, or the folder that holds both.
        gates: each as in a recipe, or a text that `gate_of` reads.
        out: build folder; None: NAME-VERSION beside the old one.
        version: of the new release; None: the next minor version.
        skip_bad: leave bad records out; what the old build left out stays out.

    Raises:
        ReleaseError: there is no release, or its build's files are missing.
        UsageError: a gate is not valid, or has the name of another.
    """
    folder = old if (old / "manifest.json").exists() else old / "release"
    release = Release.open(folder)
    old_recipe = trusted_recipe(folder)
    data = old_recipe.recipe.model_dump(mode="json")
    data["gates"] += [gate_of(gate) if isinstance(gate, str) else gate for gate in gates]
    data["version"] = version or next_minor(release.version)
    recipe = parse_recipe(data, "recipe with the new gates")
    out = out or old_recipe.work.with_name(f"{recipe.name}-{recipe.version}")
    return Enlarged(
        old_recipe._replace(recipe=recipe, skip_bad=skip_bad or old_recipe.skip_bad), out
    )


def estimate_rebuild(
    enlarged: Enlarged, prices: Path | None = None, *, batch: bool = False
) -> BuildEstimate:
    """Estimate it from the verdicts that would be carried over; writes nothing."""
    new, out = enlarged
    begun = out if (out / "build" / "carried").exists() else new.work
    return estimate_build(
        new.recipe,
        begun,
        base=new.base,
        skip_bad=new.skip_bad,
        prices=prices,
        batch=batch,
        keep_pool=False,
    )


def rebuild(enlarged: Enlarged, **options: Any) -> Built:
    """Build it with the verdicts, replies, pool and index of the old one; ``options`` go to `curate`."""
    new, out = enlarged
    carry_over(new.work, out)
    write_recipe(new.recipe, out, base=new.base)
    return curate(new.recipe, out, base=new.base, skip_bad=new.skip_bad, **options)


def _copy_folder(folder: Path, target: Path) -> None:
    """Copy a folder, whole or not at all; its files are never changed in place."""
    if target.exists():
        return
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(folder, part, symlinks=True, copy_function=_link_or_copy)
    part.rename(target)


def _link_or_copy(source: str, target: str) -> str:
    """Link a file, or copy it where the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        return shutil.copy2(source, target)
    return target
