"""The public functions, and those behind the verbs of the command: every verb calls one of these.

`demur.values` holds what most of them return. A path is a ``str`` or `Path`; a part is a name or an object (a system is
a name such as ``model:openai/gpt-4o``, or any function). All functions also work in a running event loop (a notebook).
Results print as tables, also in a notebook, and convert with ``to_pandas()`` and ``to_arrow()``.

A function of another room that already has this shape is named here as it is. Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur.api.corpora import build_index, build_pool, check_source, open_index
    from demur.api.judging import (
        JudgeOptions,
        attack_judge,
        bench_judge,
        grade,
        grade_file,
        regrade,
    )
    from demur.api.releases import (
        BuildOptions,
        build,
        build_indexes,
        build_release,
        converge,
        from_docs,
        plan_build,
        rebuild,
    )
    from demur.api.runs import (
        compare,
        evaluate,
        evaluate_all,
        export,
        gate,
        open_release,
        open_run,
        plan_evaluation,
        report,
        sweep,
        write_asks,
    )
    from demur.corpora.formats import unpack
    from demur.curation.build.estimate import estimate_convergence
    from demur.curation.build.explain import explain
    from demur.curation.build.folder import recipe_at
    from demur.curation.build.rebuild import enlarge, estimate_rebuild
    from demur.curation.mining.folder import Samples, mine_folder
    from demur.curation.mining.options import mining_options
    from demur.indexing.folder import checked_manifest
    from demur.judge.annotation.exchange import export_labels, import_labels
    from demur.judge.annotation.server import serve
    from demur.models import ModelOptions
    from demur.models.ask import ask_model, export_ledger, ledger_stats, requests_of, shrink_ledger
    from demur.models.batch import import_batch
    from demur.models.estimate import estimate_calls
    from demur.models.ledger import recover_ledger
    from demur.pools.read import Pool
    from demur.release.diff import difference
    from demur.release.evidence import evidence_by_source, evidence_table
    from demur.release.export_corpora import export_corpora
    from demur.release.facts import missing_facts
    from demur.release.push import push
    from demur.release.trec import write_qrels
    from demur.reports.agree import agreement_of, corrections_of
    from demur.reports.annotate import draw_sheet, open_task, take
    from demur.reports.data import load
    from demur.reports.gate import plan_gate
    from demur.reports.judges import compare_judges
    from demur.reports.official import score_records, scores_of
    from demur.reports.published_results import write_every_eval_ever, write_hub_results
    from demur.reports.rag import rag_tables
    from demur.scenarios.systems.http_probe import probe_service
    from demur.scenarios.told_apart import verify
    from demur.sources import options_of
    from demur.sources.cards import card_of, list_sources

_ROOMS = {
    "api.corpora": "build_index build_pool check_source open_index",
    "api.judging": "JudgeOptions attack_judge bench_judge grade grade_file regrade",
    "api.releases": "BuildOptions build build_indexes build_release converge from_docs plan_build rebuild",
    "api.runs": "compare evaluate evaluate_all export gate open_release open_run plan_evaluation report sweep "
    "write_asks",
    "corpora.formats": "unpack",
    "curation.build.folder": "recipe_at",
    "release.export_corpora": "export_corpora",
    "curation.build.estimate": "estimate_convergence",
    "curation.build.explain": "explain",
    "curation.mining.folder": "Samples mine_folder",
    "curation.mining.options": "mining_options",
    "pools.read": "Pool",
    "curation.build.rebuild": "enlarge estimate_rebuild",
    "sources": "options_of",
    "sources.cards": "card_of list_sources",
    "indexing.folder": "checked_manifest",
    "judge.annotation.exchange": "export_labels import_labels",
    "judge.annotation.server": "serve",
    "models": "ModelOptions",
    "models.ask": "ask_model export_ledger ledger_stats requests_of shrink_ledger",
    "models.batch": "import_batch",
    "models.estimate": "estimate_calls",
    "models.ledger": "recover_ledger",
    "release.diff": "difference",
    "release.evidence": "evidence_by_source evidence_table",
    "release.push": "push",
    "release.facts": "missing_facts",
    "release.trec": "write_qrels",
    "reports.agree": "agreement_of corrections_of",
    "reports.annotate": "draw_sheet open_task take",
    "reports.data": "load",
    "reports.gate": "plan_gate",
    "reports.judges": "compare_judges",
    "reports.official": "score_records scores_of",
    "reports.published_results": "write_every_eval_ever write_hub_results",
    "reports.rag": "rag_tables",
    "scenarios.systems.http_probe": "probe_service",
    "scenarios.told_apart": "verify",
}
"""Module of demur -> the functions that it gives."""
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _ROOM_OF:
        return getattr(import_module(f"demur.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module 'demur.api' has no attribute {name!r}")
