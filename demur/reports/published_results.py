"""Results in the two forms in which others collect them.

    Every Eval Ever   ``data/BENCHMARK/OWNER/MODEL/UUID.json`` with the rates, their intervals and the judge, beside it
                      ``UUID_samples.jsonl`` with every answer (schema 0.3.0 of the EvalEval coalition)
    the Hub           ``MODEL/.eval_results/BENCHMARK.yaml``, for the model's repository there; the benchmark's own page
                      shows them as its leaderboard

Both hold the headline's recipes and prompt, as the page does. What is one number is right behaviour: a correct answer
where the evidence holds it, a deflection where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import yaml

from demur.core.clock import now
from demur.core.errors import UsageError, importing
from demur.core.records import Measure, Outcome, Row, Sample, Scenario, Status
from demur.core.store import canonical, digest, write_atomic
from demur.core.text import file_name
from demur.core.version import __version__
from demur.judge.measures.behaviour import behaviour
from demur.judge.measures.rates import Rates
from demur.reports.cells import Headline, headline, main_cells
from demur.reports.data import ReportData, Run

SCHEMA = "0.3.0"
"""Of Every Eval Ever."""
RIGHT = "right-behaviour"
UNKNOWN = -1
"""The schema's score of an answer of which nobody knows whether it is right: failed, or unjudged."""
DESCRIPTIONS = {
    RIGHT: "share of answers that are correct where the evidence holds the answer, and deflections where it does not",
    "accuracy": "share of correct answers",
    "deflection": "share of answers that decline",
    "hallucination": "share of answers that are given and not correct",
}
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class Publication(NamedTuple):
    """Where results are published."""

    benchmark: str
    version: str
    repository: str
    """``OWNER/NAME`` of the benchmark's dataset on the Hub; "" where it has none."""


def publication_of(data: ReportData, repository: str = "") -> Publication:
    """The benchmark of some runs.

    Raises:
        UsageError: the repository is not ``OWNER/NAME``, or the runs are of several benchmarks.
    """
    if repository and not _REPOSITORY.fullmatch(repository):
        raise UsageError(f"not a dataset of the Hub: {repository[:80]!r}", cure="write OWNER/NAME")
    stated = {
        (str(release.get("name", "")), str(release.get("version", "")))
        for run in data.runs
        for release in [run.manifest.get("release") or {}]
    }
    if len(stated) > 1:
        names = ", ".join(sorted(f"{name} {version}" for name, version in stated))
        raise UsageError(
            f"the runs are of several benchmarks: {names}", cure="publish the runs of one at a time"
        )
    name, version = next(iter(stated))
    return Publication(name, version, repository)


def model_id(run: Run) -> str:
    """The model as ``OWNER/NAME``; a system that is none belongs to the owner ``local``.

    >>> model_id(Run("gpt", Path(), {"system": "model:openai/gpt-4o?temperature=0"}, ()))
    'openai/gpt-4o'
    >>> model_id(Run("My RAG", Path(), {"system": "http:rag.yaml"}, ()))
    'local/My-RAG'
    >>> model_id(Run("odd", Path(), {"system": "model:openai/../.."}, ()))
    'local/odd'
    """
    kind, _, argument = run.system.partition("?")[0].partition(":")
    address = argument.partition(",")[0].rpartition("#")[2]
    identifier = re.sub(r"^(hf|any-llm):|@.*", "", address) if kind == "model" else ""
    parts = [name for part in identifier.split("/") if (name := file_name(part, ""))]
    if len(parts) < 2 or "://" in identifier:
        return f"local/{file_name(run.name, 'system')}"
    return "/".join(parts[-2:])


# --- Every Eval Ever ------------------------------------------------------------------------------


def write_every_eval_ever(data: ReportData, folder: Path, repository: str = "") -> list[Path]:
    """Write the records of every run.

    Args:
        data: runs of one benchmark.
        folder: gets ``data/BENCHMARK/OWNER/MODEL/``.
        repository: of the benchmark on the Hub, ``OWNER/NAME``; "" where it has none.

    Returns:
        The files written.

    Raises:
        UsageError: see `publication_of`.
        StorageError: the folder cannot be written.
    """
    publication, head = publication_of(data, repository), headline(data.runs)
    cells = main_cells(data, head)
    files: list[Path] = []
    for run in data.runs:
        record = _record(run, head, cells, publication)
        lines = "".join(
            canonical(line) + "\n" for line in _answers(run, head, data.samples, record)
        )
        name = UUID(bytes=sha256(f"{digest(record)}{lines}".encode()).digest()[:16], version=4)
        place = f"data/{file_name(publication.benchmark, 'benchmark')}/{model_id(run)}"
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{place}/{name}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": sha256(lines.encode()).hexdigest(),
            "total_rows": lines.count("\n"),
        }
        files += [folder / place / f"{name}.json", folder / place / f"{name}_samples.jsonl"]
        for path, text in zip(files[-2:], (canonical(record) + "\n", lines), strict=True):
            write_atomic(path, text)
    return files


def _record(
    run: Run,
    head: Headline,
    cells: Mapping[tuple[str, Scenario], Rates],
    publication: Publication,
) -> dict[str, Any]:
    """The rates of one run, as the schema of aggregates wants them."""
    moment, model = str(int(now().timestamp())), model_id(run)
    decoding = {str(k): canonical(v) for k, v in (run.manifest.get("settings") or {}).items()}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{publication.benchmark}/{model}/{moment}",
        "retrieved_timestamp": moment,
        "source_metadata": {
            "source_name": f"{publication.benchmark} {publication.version}",
            "source_type": "evaluation_run",
            "source_organization_name": publication.repository.partition("/")[0] or "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "demur", "version": __version__},
        "model_info": {
            "name": run.name,
            "id": model,
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "system": run.system,
            }
            | decoding,
        },
        "evaluation_results": list(_results(run, head, cells, publication)),
    }


def _results(
    run: Run,
    head: Headline,
    cells: Mapping[tuple[str, Scenario], Rates],
    publication: Publication,
) -> Iterator[dict[str, Any]]:
    rows = head.where(run.rows)
    for scenario in head.recipes:
        if (run.name, scenario) not in cells:
            continue
        right = behaviour(rows.where(rows.is_in("scenario", [scenario.value]))).right
        for measure in (right, *cells[run.name, scenario]):
            if measure.value is not None:
                yield _result(run, head, scenario, measure, publication)


def _result(
    run: Run, head: Headline, scenario: Scenario, measure: Measure, publication: Publication
) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": measure.n}
    if measure.low is not None and measure.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": measure.low,
            "upper": measure.high,
            "confidence_level": 0.95,
            "method": measure.interval,
        }
    details: dict[str, float] = {
        "graded": measure.n,
        "unjudged": measure.unjudged,
        "failed": measure.failed,
    }
    if measure.corrected is not None:
        details["corrected"] = measure.corrected
    return {
        "evaluation_result_id": f"{scenario.value}/{measure.name}",
        "evaluation_name": f"{publication.benchmark} {scenario.value}",
        "source_data": _source_data(publication),
        "metric_config": {
            "evaluation_description": DESCRIPTIONS[measure.name],
            "lower_is_better": measure.name == "hallucination",
            "score_type": "continuous",
            "has_unknown_level": True,
            "min_score": 0,
            "max_score": 1,
            "additional_details": {
                "judge": ", ".join(run.judges),
                "judge_prompts_sha256": ", ".join(run.prompts),
                "recipe": head.recipes[scenario],
                "prompt": ", ".join(head.conditions),
            },
        },
        "score_details": {
            "score": measure.value,
            "details": {name: str(value) for name, value in details.items()},
            "uncertainty": uncertainty,
        },
    }


def _source_data(publication: Publication) -> dict[str, Any]:
    about = {
        "dataset_name": publication.benchmark,
        "additional_details": {"version": publication.version},
    }
    if publication.repository:
        return about | {
            "source_type": "hf_dataset",
            "hf_repo": publication.repository,
            "hf_split": "test",
        }
    return about | {"source_type": "other"}


def _answers(
    run: Run, head: Headline, samples: Mapping[str, Sample], record: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Every answer of the headline, as the schema of instances wants it."""
    for row in head.where(run.rows):
        sample = samples.get(row.sample)
        question = sample.question_with_turns if sample else ""
        reference = [sample.answers.display_form] if sample else []
        right = _is_right(row)
        yield {
            "schema_version": SCHEMA,
            "evaluation_id": record["evaluation_id"],
            "model_id": record["model_info"]["id"],
            "evaluation_name": f"{row.scenario.value}/{RIGHT}",
            "evaluation_result_id": f"{row.scenario.value}/{RIGHT}",
            "sample_id": row.sample,
            "sample_hash": digest([question, reference]),
            "interaction_type": "single_turn",
            "input": {"raw": question, "reference": reference},
            "output": {"raw": [row.answer]},
            "messages": None,
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": row.answer,
                    "extraction_method": row.method or "none",
                    "is_terminal": True,
                }
            ],
            "evaluation": {
                "score": UNKNOWN if right is None else int(right),
                "is_correct": bool(right),
            },
            "error": row.error or None,
            "metadata": _about_answer(row),
        }


def _is_right(row: Row) -> bool | None:
    """Whether the system behaved right; None where its answer is not graded."""
    if row.status is not Status.GRADED:
        return None
    wanted = Outcome.CORRECT if row.expected == "answer" else Outcome.DEFLECTED
    return row.outcome is wanted


def _about_answer(row: Row) -> dict[str, str]:
    """What the schema has no field for, as texts."""
    facts = {
        "source": row.source,
        "topic": row.topic,
        "expected": row.expected,
        "status": row.status.value,
        "outcome": row.outcome.value if row.outcome else "",
        "kind": row.kind,
        "probability": "" if row.probability is None else f"{row.probability:g}",
        "ask": row.ask,
    }
    return {name: text for name, text in facts.items() if text}


# --- the Hub --------------------------------------------------------------------------------------


def write_hub_results(data: ReportData, folder: Path, repository: str) -> list[Path]:
    """Write ``MODEL/.eval_results/BENCHMARK.yaml`` of every run: a value in per cent for each scenario.

    Args:
        data: runs of one benchmark.
        folder: gets a folder for each model, to be copied into its repository or sent there as a pull request.
        repository: of the benchmark on the Hub, ``OWNER/NAME``.

    Returns:
        The files written.

    Raises:
        UsageError: see `publication_of`; or the repository is not named.
        MissingExtra: huggingface_hub is not installed.
        StorageError: the folder cannot be written.
    """
    with importing("results for the Hub", extra="hub", module="huggingface_hub"):
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    if not repository:
        raise UsageError(
            "results on the Hub belong to a benchmark there", cure="name it: --dataset OWNER/NAME"
        )
    publication, head = publication_of(data, repository), headline(data.runs)
    files: list[Path] = []
    for run in data.runs:
        rows, entries = head.where(run.rows), []
        for scenario in head.recipes:
            place = rows.is_in("scenario", [scenario.value])
            right = behaviour(rows.where(place)).right if place.any() else None
            if right is None or right.value is None:
                continue
            entries.append(
                EvalResultEntry(
                    dataset_id=publication.repository,
                    task_id=scenario.value,
                    value=round(100 * right.value, 2),
                    date=now().date().isoformat(),
                    notes=_note_on(run, right, publication),
                )
            )
        path = (
            folder
            / model_id(run)
            / ".eval_results"
            / f"{file_name(publication.benchmark, 'benchmark')}.yaml"
        )
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
        write_atomic(path, text)
        files.append(path)
    return files


def _note_on(run: Run, right: Measure, publication: Publication) -> str:
    interval = (
        f" [{100 * right.low:.1f}, {100 * right.high:.1f}]"
        if right.low is not None and right.high is not None
        else ""
    )
    return (
        f"right behaviour in per cent{interval}, n = {right.n}; version {publication.version}, judge "
        f"{', '.join(run.judges)}, demur {__version__}"
    )
