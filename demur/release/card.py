"""Dataset card and citation of a release, generated from its data.

Names, topics, reasons, licences and limits come from untrusted sources and recipes: each is put on one line, and cannot
become a heading, a link, an image or HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from demur.core.records import Drop, Evidence, Modality, Sample
from demur.core.store import file_digest
from demur.core.text import plain, whole_number
from demur.release.croissant import bibtex
from demur.release.evidence import CURES, ToldApart, evidence_by_source, evidence_table
from demur.release.facts import NOBODY, facts_of
from demur.release.layout import canary_text
from demur.release.tasks import CONFIG, table_of

if TYPE_CHECKING:
    from demur.release import FunnelStep


_USE = (
    "```python\nfrom datasets import load_dataset\n\n"
    'samples = load_dataset("path/to/this/folder", "samples", split="test")\n'
    'evidence = load_dataset("path/to/this/folder", "evidence", split="test")  # gold, negatives name its ids\n'
    "```\n\n"
    "```\ndemur release verify path/to/this/folder\n"
    "demur run path/to/this/folder --system model:openai/gpt-4o\n```"
)


def tables_for_datasets(
    folder: Path,
    title: str,
    rows: Mapping[str, int],
    split: str,
    scenarios: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The front matter of a card by which `datasets` finds the tables ``data/NAME.parquet`` and tells them from others.

    `datasets` keeps rows under the folder's name and a hash of this front matter, not of the tables: without their
    digests here, ``load_dataset`` returns the rows of whichever folder of that name was loaded first.

    Args:
        folder: holds the tables, written already.
        title: of what the tables hold, for readers.
        rows: of each table by its name; the first is the default.
        split: that the rows belong to.
        scenarios: scenario -> rows of its table (`demur.release.tasks`); a split each of one more configuration.
    """
    configs: list[dict[str, Any]] = []
    infos: list[dict[str, Any]] = []
    for name, count in rows.items():
        path = folder / "data" / f"{name}.parquet"
        size = path.stat().st_size
        config = {
            "config_name": name,
            "data_files": [{"split": split, "path": f"data/{path.name}"}],
        }
        configs.append(config if configs else config | {"default": True})
        infos.append(
            {
                "config_name": name,
                "description": f"{title}: {path.name}, sha256 {file_digest(path)}",
                "splits": [{"name": split, "num_bytes": size, "num_examples": count}],
                "download_size": size,
                "dataset_size": size,
            }
        )
    if scenarios:
        paths = {name: folder / table_of(name) for name in scenarios}
        hashes = ", ".join(file_digest(path) for path in paths.values())
        size = sum(path.stat().st_size for path in paths.values())
        configs.append(
            {
                "config_name": CONFIG,
                "data_files": [{"split": name, "path": table_of(name)} for name in scenarios],
            }
        )
        infos.append(
            {
                "config_name": CONFIG,
                "description": f"{title}: questions of text alone by scenario, sha256 {hashes}",
                "splits": [
                    {"name": name, "num_bytes": paths[name].stat().st_size, "num_examples": count}
                    for name, count in scenarios.items()
                ],
                "download_size": size,
                "dataset_size": size,
            }
        )
    return {"configs": configs, "dataset_info": infos}


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, *rows]
    first, *others = [
        "| " + " | ".join(escape_markdown(str(cell)) for cell in line) + " |" for line in lines
    ]
    return "\n".join([first, "|" + "---|" * len(head), *others])


def escape_markdown(text: str) -> str:
    r"""Untrusted text, escaped for Markdown.

    >>> escape_markdown("a | <b>[x](javascript:y)")
    'a \\| &lt;b>[x]\\(javascript:y)'
    """
    line = (
        plain(text)
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("](", "]\\(")
    )
    return "\\" + line if line[:1] in tuple("[#>-+*`~=&!") and line != "-" else line


def _share_text(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part} of {whole})" if whole else "-"


def _modality_text(evidence: Sequence[Evidence]) -> str:
    kinds = {e.modality for e in evidence}
    if len(kinds) == 2:
        return "text and image"
    return "image" if kinds == {Modality.IMAGE} else "text" if kinds else "none"


def render_card(
    folder: Path,
    manifest: Mapping[str, Any],
    samples: Sequence[Sample],
    documents: Mapping[str, Evidence],
    funnel: Sequence[FunnelStep],
    drops: Sequence[Drop],
    recall: Sequence[Mapping[str, Any]],
) -> str:
    """The dataset card: front matter for `datasets`, then tables 1-3 of VLM-DeflectionBench for this release.

    Args:
        folder: of the release, with its tables.
    """
    counts, facts = manifest["counts"], facts_of(manifest)
    title = f"{manifest['name']} {manifest['version']}"
    front = {
        "pretty_name": title,
        "license": "other",
        "language": list(facts.language) or ["und"],
        "annotations_creators": ["found", "machine-generated"]
        if manifest.get("gates")
        else ["found"],
        "size_categories": [size_category(counts["samples"])],
        "task_categories": ["question-answering", "visual-question-answering"],
        "tags": ["retrieval-augmented-generation", "abstention", "hallucination", "demur"],
        **tables_for_datasets(
            folder,
            title,
            {"samples": counts["samples"], "evidence": counts["documents"]},
            "test",
            manifest.get("scenarios"),
        ),
    }
    parts = [
        "---\n" + yaml.safe_dump(front, sort_keys=False, allow_unicode=True) + "---",
        f"# {title}",
        _first_screen(manifest, funnel),
        "## What it has\n\n" + _markdown_table(["feature", ""], _feature_rows(manifest, samples)),
        "## Sources\n\n" + _markdown_table(*_source_rows(manifest, samples)),
        "## Statistics\n\n"
        + _markdown_table(["statistic", "value"], _statistics_rows(counts, samples, documents)),
        "## Evidence\n\n" + _markdown_table(*evidence_table(evidence_by_source(samples, recall))),
        _funnel_section(funnel, drops) + _stage_one_text(manifest),
        _gates_section(manifest),
        _judging_section(manifest),
        "## Retrieval modes by recall of gold\n\n" + _markdown_table(*recall_lines(recall))
        if recall
        else "",
        _told_apart_section(manifest),
        _models_section(manifest),
        _retest_section(manifest),
        _topics_section(manifest),
        "## Limits\n\n" + "\n".join(f"- {escape_markdown(str(line))}" for line in limits)
        if (limits := manifest.get("limits"))
        else "",
        "## Licences\n\n"
        + _markdown_table(["source", "of", "licence", "number"], _licence_rows(manifest, samples)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _first_screen(manifest: Mapping[str, Any], funnel: Sequence[FunnelStep]) -> str:
    """What it is, how many, how it was made in one figure, how to load it, how to cite it."""
    counts, facts = manifest["counts"], facts_of(manifest)
    sources = ", ".join(map(escape_markdown, counts["by_source"]))
    page = f" Its page: {escape_markdown(facts.url)}." if facts.url else ""
    stages = [f"{step.kept:,} after {escape_markdown(step.stage)}" for step in funnel]
    entered = [f"{funnel[0].entered:,} candidates"] if funnel else []
    return "\n\n".join(
        filter(
            None,
            (
                "It measures whether a system answers, deflects, or makes things up when the evidence that it is given "
                "suffices, is mixed with distractors, or is missing. Built with demur; the method follows "
                "VLM-DeflectionBench.",
                f"**{counts['samples']:,} questions** from {sources}, with {counts['gold']:,} pieces of gold evidence "
                f"and {counts['distractors']:,} distractors.{page}",
                " \u2192 ".join([*entered, *stages]),
                _USE,
                f"```bibtex\n{bibtex(manifest)}\n```",
                f"{escape_markdown(canary_text(manifest))}",
            ),
        )
    )


def size_category(samples: int) -> str:
    """The Hub's name for a number of rows.

    >>> size_category(540), size_category(24_000)
    ('n<1K', '10K<n<100K')
    """
    names = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M")
    return names[min(len(names) - 1, max(0, len(str(samples)) - 3))]


def _source_rows(
    manifest: Mapping[str, Any], samples: Sequence[Sample]
) -> tuple[list[str], list[list[object]]]:
    pools: dict[str, int] = dict(manifest.get("pools") or {})
    drawn: dict[str, int] = dict(manifest.get("drawn") or pools)
    rows: list[list[object]] = []
    for source, kept_count in manifest["counts"]["by_source"].items():
        samples_of_source = [s for s in samples if s.source == source]
        rows.append(
            [
                source,
                pools.get(source, "-"),
                drawn.get(source, "-"),
                kept_count,
                _share_text(kept_count, drawn.get(source, 0)),
                " / ".join(
                    sorted({"text + image" if s.images else "text" for s in samples_of_source})
                ),
                _modality_text([e for s in samples_of_source for e in s.gold]),
                _modality_text([e for s in samples_of_source for e in s.negatives]),
            ]
        )
    return ["source", "pool", "drawn", "samples", "retained", "query", "gold", "distractors"], rows


def _funnel_section(funnel: Sequence[FunnelStep], drops: Sequence[Drop]) -> str:
    rows = [
        [
            s.stage,
            s.entered,
            s.kept,
            "; ".join(f"{why}: {k}" for why, k in sorted(s.dropped.items())) or "-",
        ]
        for s in funnel
    ]
    lost = sum(1 for d in drops if d.evidence)
    lost_note = f"\n\nOf the kept samples' candidate distractors, {lost} left; `drops.jsonl` names each with its reason."
    return (
        "## How it was curated\n\n"
        + _markdown_table(["stage", "entered", "kept", "left because"], rows)
        + (lost_note if lost else "")
    )


def _models_section(manifest: Mapping[str, Any]) -> str:
    rows = sorted((manifest.get("models") or {}).items())
    return (
        "## Models that took part\n\n" + _markdown_table(["model", "what it is"], rows)
        if rows
        else ""
    )


def _told_apart_section(manifest: Mapping[str, Any]) -> str:
    """How well a reader of shallow features tells the sets that are asked apart."""
    rows = [ToldApart.model_validate(row) for row in manifest.get("told_apart") or ()]
    if not rows:
        return ""

    def percent(share: float | None) -> str:
        return "-" if share is None else f"{100 * share:.0f}"

    features, ks = (*CURES, "number"), sorted(rows[0].left_out, key=int)
    head = ["source", "n", "right, % [95 %]", *(f"by {feature}, %" for feature in features)]
    cells = [
        [
            row.source or "all",
            row.n,
            f"{percent(row.right)} [{percent(row.low)}, {percent(row.high)}]",
            *(percent(row.by.get(feature)) for feature in features),
            *(row.left_out.get(k, 0) for k in ks),
        ]
        for row in rows
    ]
    telling = [f"- {escape_markdown(str(row))}" for row in rows if row.telling]
    return (
        "## Told apart without being read\n\nHow often a small classifier that sees no more than these features says "
        "rightly whether gold is in a set, Realistic against Adversarial with "
        f"{ks[-1]} distractors: 50 % is chance. All features but the number of pieces decide together, and each alone. "
        "The number tells by the scenarios' definition: gold comes beside the distractors. A sample without a "
        "distractor of each kind that gold has, text or picture, is left out.\n\n"
        + _markdown_table([*head, *(f"left out at k={k}" for k in ks)], cells)
        + ("\n\nTo be mended:\n\n" + "\n".join(telling) if telling else "")
    )


def recall_lines(
    recall: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[object]]]:
    """The rows of ``recall.json`` for display: heads and cells.

    The columns have a fixed order: queries and mode, rates by cut-off, the choice. A rate is ``0.625 [0.533, 0.709]``,
    or ``-`` if no gold can be found.
    """
    first = ("queries", "mode", "n")

    def place(name: str) -> tuple[int, str, int]:
        measure, _, cut = name.partition("@")
        at = (
            first.index(name)
            if name in first
            else {"gold out of reach": 8, "chosen": 9}.get(name, 3)
        )
        return at, measure, whole_number(cut) or 0

    def cell(row: Mapping[str, Any], head: str) -> object:
        value, low, high = (row.get(head + end) for end in ("", " low", " high"))
        if "@" not in head or isinstance(value, str):
            return row.get(head, "")
        if value is None:
            return "-"
        return f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if None not in (low, high) else "")

    ends = (" low", " high")
    heads = sorted(
        {key for row in recall for key in row if not ("@" in key and key.endswith(ends))}, key=place
    )
    return heads, [[cell(row, head) for head in heads] for row in recall]


def _feature_rows(manifest: Mapping[str, Any], samples: Sequence[Sample]) -> list[list[object]]:
    """After Table 1: kinds of questions and evidence, and measures against shortcuts."""
    n = len(samples)

    def having(test: Callable[[Sample], bool]) -> str:
        return _share_text(sum(map(test, samples)), n)

    def shows(evidence: Sequence[Evidence], kind: Modality) -> bool:
        return any(e.modality is kind for e in evidence)

    return [
        ["questions about an image", having(lambda s: bool(s.images))],
        ["questions of text alone", having(lambda s: not s.images)],
        ["text among the gold evidence", having(lambda s: shows(s.gold, Modality.TEXT))],
        ["images among the gold evidence", having(lambda s: shows(s.gold, Modality.IMAGE))],
        ["text among the distractors", having(lambda s: shows(s.negatives, Modality.TEXT))],
        ["images among the distractors", having(lambda s: shows(s.negatives, Modality.IMAGE))],
        [
            "gates that may not know the answer",
            ", ".join(_gates_asked_in(manifest, "parametric")) or "none",
        ],
        [
            "a gate answers each sample from its gold evidence",
            _promise_text(manifest),
        ],
        [
            "each distractor alone lets no gate answer",
            "yes" if _gates_asked_in(manifest, "distractor") else "not checked",
        ],
        ["versioned, can be rebuilt with stronger gates", "yes (`demur rebuild`)"],
    ]


def _gates_asked_in(manifest: Mapping[str, Any], stage: str) -> list[str]:
    """Gates that were asked in a stage."""
    return [
        g
        for g, model in sorted(dict(manifest.get("gate_models") or {}).items())
        if stage in model["stages"]
    ]


def _gates_section(manifest: Mapping[str, Any]) -> str:
    """How much each gate was asked about the kept samples, and why it was not asked the rest."""

    def cell(counts: Mapping[str, Any] | None, at_most: str = "") -> str:
        return f"{at_most}{counts['asked']:,} of {counts['of']:,}" if counts else "-"

    rows = []
    for name, model in sorted(dict(manifest.get("gate_models") or {}).items()):
        counts_of_stage = model.get("asked") or {}
        reasons: Counter[str] = Counter()
        for counts in counts_of_stage.values():
            reasons.update(counts["skipped"])
        rows.append(
            [
                name,
                cell(counts_of_stage.get("parametric")),
                cell(counts_of_stage.get("solvable"), "at most "),
                cell(counts_of_stage.get("distractor")),
                "; ".join(f"{reason} ({n:,})" for reason, n in sorted(reasons.items())) or "-",
            ]
        )
    if not rows:
        return ""
    return (
        "## What the gates were asked\n\nOf the questions about the samples that were kept: each sample without "
        "evidence, with its gold evidence (until a gate was right), and with each of its distractors alone. A gate "
        "that was not asked proves nothing; at least one was asked each time.\n\n"
        + _markdown_table(
            ["gate", "without evidence", "with gold", "with a distractor", "not asked because"],
            rows,
        )
    )


def _judging_section(manifest: Mapping[str, Any]) -> str:
    """How the judge came to the verdicts behind the kept samples, and how sure it was of them."""
    judged = manifest.get("judged")
    if not judged or not judged["methods"]:
        return ""

    def less_sure(counts: Mapping[str, int]) -> str:
        if counts["unmeasured"] == counts["verdicts"]:
            return "not measured"
        unmeasured_text = f"; {counts['unmeasured']:,} not measured" if counts["unmeasured"] else ""
        return f"{counts['less_sure']:,}{unmeasured_text}"

    total = Counter[str]()
    for counts in judged["methods"].values():
        total.update(counts)
    rows = [
        [method, f"{counts['verdicts']:,}", less_sure(counts)]
        for method, counts in (*judged["methods"].items(), ("all", total))
    ]
    return (
        f"## How the gates' answers were judged\n\nBy {escape_markdown(str(manifest.get('judge')))}: the answers about the samples "
        "that were kept, without evidence and with each distractor alone. It states the chance that a verdict is "
        "right, where that was measured.\n\n"
        + _markdown_table(
            ["decided by", "verdicts", f"less sure than {judged['sure_from']:g}"], rows
        )
    )


def _promise_text(manifest: Mapping[str, Any]) -> str:
    """Whether some gate answers each sample from its gold evidence: only if that was the rule, and a gate was asked."""
    rule = ((manifest.get("recipe") or {}).get("rules") or {}).get("solvable", "any_correct")
    if not _gates_asked_in(manifest, "solvable"):
        return "not checked"
    return "yes" if rule == "any_correct" else f"no: the rule is {rule}"


def _statistics_rows(
    counts: Mapping[str, Any], samples: Sequence[Sample], documents: Mapping[str, Evidence]
) -> list[list[object]]:
    """After Table 3."""
    n = counts["samples"]
    return [
        ["samples", n],
        ["unique questions", counts["unique_questions"]],
        ["unique query images", counts["unique_query_images"]],
        ["words per question", f"{counts['question_words'] / n:.1f}"],
        ["gold evidence per sample", f"{counts['gold'] / n:.1f}"],
        ["distractors per sample", f"{counts['distractors'] / n:.1f}"],
        ["fewest distractors of a sample", min(len(s.negatives) for s in samples)],
        ["documents used as evidence", len(documents)],
    ]


def _stage_one_text(manifest: Mapping[str, Any]) -> str:
    stage_one = manifest.get("stage_one")
    if not stage_one:
        return ""
    return (
        f"\n\nStage I keeps {stage_one['kept']:d} samples that no gate answers correctly; "
        f"for {stage_one['kept_by_the_literal_rule']:d} of these the answer of every gate that can be asked was judged wrong "
        "(the difference is what some gate declined to answer). This release goes by "
        f"the {'first' if stage_one['rule'] == 'not_correct' else 'second'}."
    )


def _retest_section(manifest: Mapping[str, Any]) -> str:
    counts_of_gate = {
        g: c for g, c in sorted(dict(manifest.get("retest") or {}).items()) if c.get("asked")
    }
    if not counts_of_gate:
        return ""
    rows = [
        [g, _share_text(c.get("same", 0), c["asked"]), _share_text(c.get("correct", 0), c["asked"])]
        for g, c in counts_of_gate.items()
    ]
    return (
        "## Asked again\n\nSome kept samples were put to the gates once more, without evidence, in an independent "
        "draw. A right answer now is knowledge that sampling hid the first time.\n\n"
        + _markdown_table(["gate", "same outcome", "right this time"], rows)
    )


def _topics_section(manifest: Mapping[str, Any]) -> str:
    parts = []
    for drift in manifest.get("topics") or []:
        retained = "{:.1f} % [{:.1f}, {:.1f}]"
        rows = [
            [
                r["topic"],
                r["before"],
                r["after"],
                retained.format(*(100 * r[k] for k in ("retained", "low", "high"))),
            ]
            for r in drift["rows"]
        ]
        origin, namer = str(drift["by"]), drift.get("named_by")
        origin += f", named by {namer} from representative questions" if namer else ""
        head = ["topic", "pool", "release", "retained [95 %]"]
        if any(r.get("description") for r in drift["rows"]):
            head.insert(1, "about")
            rows = [
                [row[0], r.get("description", ""), *row[1:]]
                for row, r in zip(rows, drift["rows"], strict=True)
            ]
        parts.append(
            f"Topics by {escape_markdown(origin)}: the largest share changed by {drift['largest_change']:.1f} points; "
            f"chi-square {drift['chi_square']:.1f} at {drift['freedom']:d} degrees of freedom, permutation "
            f"p = {drift['p']:.4f}.\n\n" + _markdown_table(head, rows)
        )
    return "## Topics before and after\n\n" + "\n\n".join(parts) if parts else ""


def _licence_rows(manifest: Mapping[str, Any], samples: Sequence[Sample]) -> list[list[object]]:
    """Licences per source, of questions with query images, and of documents used as evidence."""
    seen = Counter(
        (s.source, "questions and query images", s.licence or "see the source") for s in samples
    )
    for source, entry in (manifest.get("sources") or {}).items():
        for licence, n in (entry.get("evidence_licences") or {}).items():
            seen[source, "documents used as evidence", licence or "see the source"] = n
    return [[*key, n] for key, n in sorted(seen.items())]


def render_citation(manifest: Mapping[str, Any]) -> str:
    """A citation file (CFF 1.2.0) for this release."""
    return yaml.safe_dump(
        {
            "cff-version": "1.2.0",
            "message": "Cite the release that you used, with its version.",
            "title": manifest["name"],
            "version": manifest["version"],
            "type": "dataset",
            "authors": [{"name": a} for a in manifest.get("authors") or [NOBODY]],
            "date-released": manifest["published"],
            **({"url": facts.url} if (facts := facts_of(manifest)).url else {}),
        },
        sort_keys=False,
        allow_unicode=True,
    )
