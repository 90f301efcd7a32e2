"""Suites: benchmarks that are not the four scenarios, on demur's runner, judges, model calls and report.

``contract`` says what a suite is (five places: items, build, prompts, measures, tables), ``outputs`` reads the replies
of systems; each folder is one suite. Suites are registered in the entry-point group ``demur.suites``;
suites/docs/adding-a-suite.md builds one in thirty lines. Importing the package imports none of it before it is used:
``demur --help`` does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur_suites.audit import audit_tables
    from demur_suites.base import Suite, suite, suites
    from demur_suites.options import Option
    from demur_suites.outputs import read_outputs
    from demur_suites.plain import Plain
    from demur_suites.records import Grade, Loaded, Outputs, Scored
    from demur_suites.testing import check_suite

__all__ = [
    "Grade",
    "Loaded",
    "Option",
    "Outputs",
    "Plain",
    "Scored",
    "Suite",
    "audit_tables",
    "check_suite",
    "read_outputs",
    "suite",
    "suites",
]
_ELSEWHERE = {
    "Grade": "records",
    "Loaded": "records",
    "Outputs": "records",
    "Scored": "records",
    "Option": "options",
    "Plain": "plain",
    "audit_tables": "audit",
    "check_suite": "testing",
    "read_outputs": "outputs",
}
"""Name -> its file, where that is not ``base``."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"demur_suites.{_ELSEWHERE.get(name, 'base')}"), name)
    raise AttributeError(
        f"module 'demur_suites' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )
