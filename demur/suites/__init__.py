"""Suites: benchmarks that are not the four scenarios, on the same runner, judges, calls and report.

``base`` is the contract (five places: items, build, prompts, measures, tables) and what all suites share; a folder
beside it is one suite. Suites are registered in the entry-point group ``demur.suites``; docs/adding-a-suite.md
builds one in thirty lines.
"""

from __future__ import annotations

from demur.suites.base import Loaded, Option, Outputs, Plain, Suite, audit_tables, read_outputs, suite, suites

__all__ = ["Loaded", "Option", "Outputs", "Plain", "Suite", "audit_tables", "read_outputs", "suite", "suites"]
