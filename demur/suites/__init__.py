"""Suites: benchmarks that are not the four scenarios, on the same runner, judges, calls and report.

``base`` is the contract (five places: items, build, prompts, measures, tables) and what all suites share, ``outputs``
reads what systems said; a folder beside them is one suite. Suites are registered in the entry-point group
``demur.suites``; docs/adding-a-suite.md builds one in thirty lines.
"""

from __future__ import annotations

from demur.suites.base import Loaded, Option, Outputs, Plain, Suite, audit_tables, suite, suites
from demur.suites.outputs import read_outputs

__all__ = ["Loaded", "Option", "Outputs", "Plain", "Suite", "audit_tables", "read_outputs", "suite", "suites"]
