"""Replies of systems, from run folders and from other files, and whether they belong to the items as they are now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import BadInput, DataError, DemurError, UsageError
from demur.core.parquet import whole_table
from demur.core.records import Response
from demur.core.store import Problems, read_json, read_records, storage_errors
from demur.core.untrusted import Choice, check
from demur.corpora.formats import table_rows
from demur.evaluation.asking import folder_name
from demur.evaluation.run_folder import Answer
from demur.scenarios.conditions import condition
from demur_suites.base import Suite
from demur_suites.records import Loaded, Outputs


def read_outputs(
    paths: str | Path | Sequence[str | Path], *, skip_bad: bool = False
) -> dict[str, dict[str, Response]]:
    """Replies of models, from run folders, JSONL or CSV files: model -> question id -> reply.

    A line of a file holds ``id`` (of the question) and ``output`` (the reply), and may hold ``system`` (by default the
    file's name without its suffix), ``reasoning`` (the model's thoughts, where it returns them), ``confidence`` (that
    the system stated) and ``computed_confidence`` (P(True), a share of votes), both from 0 to 1.

    Args:
        paths: one or several.
        skip_bad: leave out lines that are no outputs.

    Raises:
        BadInput: lines that are no outputs, or repeat an id.
        UsageError: a path is neither.
    """
    outputs: dict[str, dict[str, Response]] = {}
    problems = Problems()
    for path in _given(paths):
        if path.is_dir():
            _read_folder(path, outputs)
        elif path.is_file():
            _read_file(path, outputs, problems)
        else:
            raise UsageError("no such file or folder", item=str(path))
    problems.settle(skip_bad=skip_bad)
    return outputs


def _read_folder(path: Path, outputs: dict[str, dict[str, Response]]) -> None:
    folders = _runs(path)
    if not folders and (begun := [*path.glob("journal.jsonl"), *path.glob("*/journal.jsonl")]):
        raise UsageError(
            "this run was not finished", item=str(begun[0].parent), cure="run it again to resume it"
        )
    if not folders:
        raise UsageError(
            "is no run folder, and holds none",
            item=str(path),
            cure="give what 'demur suite run' wrote",
        )
    for folder in folders:
        replies = _run(folder)
        model = outputs.setdefault(name_of_run(folder), {})
        if twice := sorted(model.keys() & replies.keys()):
            raise UsageError(
                f"an earlier path holds outputs of the same system to {len(twice):,} of its questions, the first is "
                f"{twice[0]}",
                item=str(folder),
                cure="score the two one by one",
            )
        model.update(replies)


def _read_file(path: Path, outputs: dict[str, dict[str, Response]], problems: Problems) -> None:
    for place, _, row in table_rows(path, problems, mend=True):
        id, output, thoughts = row.get("id"), row.get("output"), row.get("reasoning") or ""
        model = outputs.setdefault(str(row.get("system") or path.stem), {})
        if not isinstance(id, str) or not isinstance(output, str) or not isinstance(thoughts, str):
            problems.add(
                place,
                "holds no 'id' and 'output' (both text; so is 'reasoning', where there is one)",
            )
            continue
        before = len(problems)
        confidences = {
            name: _confidence(f"{place} ({id})", row, problems, name)
            for name in ("confidence", "computed_confidence")
        }
        if id in model:
            problems.add(f"{place} ({id})", "an earlier line holds an output to this question too")
        elif len(problems) == before:
            model[id] = Response(text=output, reasoning=thoughts, **confidences)


def _given(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Paths, without the files of calls and timings beside the runs, which ``runs/*`` matches too."""
    several = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
    return [
        p
        for p in several
        if not p.name.startswith("calls.sqlite") and not p.name.endswith(".timings.jsonl")
    ]


def _confidence(
    where: str, row: Mapping[str, Any], problems: Problems, name: str = "confidence"
) -> float | None:
    """A confidence of a row: None where it has none; anything but a number from 0 to 1 is a problem."""
    cell = row.get(name)
    if cell in (None, ""):
        return None
    try:
        value = float(str(cell).replace(",", ".")) if not isinstance(cell, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 <= value <= 1:
        problems.add(where, f"{name} {cell!r} is no number from 0 to 1")
    return value


def items_of_runs(paths: Sequence[str | Path]) -> Path | None:
    """The path of the items of runs, by their manifests; None where a path is no run.

    Raises:
        UsageError: the runs are of different items.
        UntrustedFile: the items lie elsewhere, and the user did not agree.
    """
    named: dict[str, str] = {}
    for path in _given(paths):
        folders = _runs(path, "manifest.json")
        if not folders:
            return None
        for folder in folders:
            manifest = _manifest(folder)
            if isinstance(items := manifest.get("items"), dict):
                place = str(manifest.get("items_path") or items.get("path"))
                check(folder / "manifest.json", [Choice("folder", place)], instead="--items")
                named[str(items.get("sha256"))] = place
    if len(named) > 1:
        raise UsageError(
            f"the runs are of {len(named)} different sets of items",
            cure="report each set by itself",
        )
    items = Path(next(iter(named.values()))) if named else None
    if items is not None and not items.exists():
        raise UsageError(
            "the items of this run no longer exist", item=str(items), cure="give --items"
        )
    return items


def changed_since(
    chosen: Suite[Any, Any], items: Sequence[Any], paths: Sequence[str | Path]
) -> list[str]:
    """A line for each run among ``paths`` whose questions differ from those of the items.

    A run with other prompts, of another version or a user's own, is not compared: its asks differ in any case.
    """
    now = {task.sample.id: task.ask.id for task in chosen.tasks(items)}
    prompts = chosen.prompts()
    lines = []
    for path in map(Path, paths):
        for folder in _runs(path):
            manifest = _manifest(folder)
            used = manifest.get("prompts") or {}
            if not used or any(text != prompts.used(condition(c)) for c, text in used.items()):
                continue
            rows = _asked(folder)
            other = [
                row["sample"] for row in rows if now.get(row["sample"], row["ask"]) != row["ask"]
            ]
            if other:
                lines.append(
                    f"{len(other)} of {len(rows)} replies of {name_of_run(folder)} answer other "
                    f"words or photos than these items hold now, the first is {other[0]}"
                )
    return lines


class OpenedOutputs(NamedTuple):
    """Items, and the replies to score."""

    items: Path
    loaded: Loaded[Any]
    outputs: Outputs
    changed: list[str]
    """Runs whose questions differ from those of the items: lines of `changed_since`."""


def open_outputs(
    chosen: Suite[Any, Any],
    paths: Sequence[Path],
    items: Path | None = None,
    *,
    skip_bad: bool = False,
) -> OpenedOutputs:
    """Items with their outputs, from runs, files of outputs, or files that hold both.

    Args:
        chosen: the suite.
        paths: run folders, files of outputs, or files of items and outputs.
        items: where ``paths`` do not hold them; a run holds only their path.
        skip_bad: leave bad lines out, and count them.

    Raises:
        UsageError: two files hold different outputs of one model, or runs are of different items.
        BadInput: lines that cannot be read.
    """
    of_runs = items or items_of_runs(paths)
    if of_runs is not None:
        loaded = chosen.open(of_runs, skip_bad=skip_bad)
        changed = changed_since(chosen, loaded.items, paths)
        return OpenedOutputs(of_runs, loaded, read_outputs(paths, skip_bad=skip_bad), changed)
    first, *more = paths
    try:
        loaded = chosen.open(first, skip_bad=skip_bad)
    except DemurError as error:
        if _holds_outputs(first):
            raise UsageError(
                "holds replies without their items", item=str(first), cure="give --items"
            ) from error
        raise
    outputs = dict(loaded.outputs)
    for path in more:
        for model, replies in chosen.open(path, skip_bad=skip_bad).outputs.items():
            if outputs.setdefault(model, replies) != replies:
                raise UsageError(
                    f"an earlier file holds outputs of {model!r} too",
                    item=str(path),
                    cure="put parts of one set into one folder and give that; score repeats one by one",
                )
    return OpenedOutputs(first, loaded, outputs, [])


def _holds_outputs(path: Path) -> bool:
    try:
        return bool(read_outputs(path))
    except DemurError:
        return False


def _runs(path: Path, holding: str = "rows.parquet") -> list[Path]:
    """The runs of a path: itself where it is a finished one, else the folders in it that hold such a file."""
    return (
        [path]
        if (path / "rows.parquet").is_file()
        else sorted(p.parent for p in path.glob(f"*/{holding}"))
    )


def name_of_run(folder: Path) -> str:
    """Whose run it is: the system's id, or the name that its folder has in place of it (``A=SYSTEM``)."""
    system = str(_manifest(folder).get("system", folder.name))
    return system if folder.name == folder_name(system) else folder.name


def _manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict):
        raise DataError(
            "not a JSON object",
            item=str(folder / "manifest.json"),
            cure="run the same command again",
        )
    return manifest


def _asked(folder: Path) -> list[dict[str, Any]]:
    """Question and sample of every row of a run."""
    with storage_errors(folder / "rows.parquet"):
        rows: list[dict[str, Any]] = whole_table(
            folder / "rows.parquet", columns=["ask", "sample"]
        ).to_pylist()
    return rows


def _run(folder: Path) -> dict[str, Response]:
    """Question id -> response of a run folder."""
    sample = {row["ask"]: row["sample"] for row in _asked(folder)}
    problems = Problems()
    replies: dict[str, Response] = {}
    for answer in read_records(folder / "responses.jsonl", Answer, problems):
        if answer.ask in sample:
            replies[sample[answer.ask]] = answer.response
        else:
            problems.add(f"responses.jsonl ({answer.ask})", "no row of the run asked that")
    if len(problems):
        raise BadInput(problems.summary(), more=problems.more, cure="run the same command again")
    return replies
