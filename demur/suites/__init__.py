"""Suites: benchmarks that are not the four scenarios, on the same runner, judges, model calls and report.

``base`` is the contract (five places: items, build, prompts, measures, tables), ``outputs`` reads the replies of
systems; each folder is one suite. Suites are registered in the entry-point group ``demur.suites``;
docs/adding-a-suite.md builds one in thirty lines.
"""

from __future__ import annotations

from demur.suites.base import Loaded, Option, Outputs, Suite, suite, suites
from demur.suites.outputs import read_outputs
from demur.suites.plain import Plain
from demur.suites.published import audit_tables

__all__ = [
    "Loaded",
    "Option",
    "Outputs",
    "Plain",
    "Suite",
    "audit_tables",
    "read_outputs",
    "suite",
    "suites",
]
