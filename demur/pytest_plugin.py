"""A gate as a pytest fixture: ``pytest_plugins = ["demur.pytest_plugin"]`` in your ``conftest.py``.

    def test_our_rag_declines_what_it_cannot_know(demur_gate):
        demur_gate("mine/release", my_rag, scenarios=["oracle", "adversarial"], min_declined={"adversarial": 0.8})

Only a ``conftest.py`` that names the plug-in loads it, so other test suites do not become slower. What cannot be
decided fails the test, and says what would decide it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from demur.reports.gate import Gate

LIMITS = ("min_declined", "min_accuracy", "max_hallucination", "max_deflection", "min_joint")
DECIDING = (*LIMITS, "baseline", "max_failed", "allow_undecided")


@pytest.fixture
def demur_gate(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Gate]:
    """``demur_gate(release, system, **options)``: evaluate a system, and fail or pass the test by its answers.

    Options are those of `demur.evaluate` (scenarios, limit, seed, repeat, judge, corpora, minutes, out ...) and of
    `demur.gate` (min_declined, min_accuracy, max_hallucination, max_deflection, min_joint, baseline, max_failed,
    allow_undecided). Before anything is asked, a limit on a scenario that will not be is refused, and the limits that so
    many questions cannot decide are printed.
    """

    def decide(release: Any, system: Any, **options: Any) -> Gate:
        import demur
        from demur.api import plan_gate

        deciding = {name: options.pop(name) for name in DECIDING if name in options}
        options.setdefault("out", tmp_path_factory.mktemp("demur"))
        opened = demur.open_release(release) if isinstance(release, str | Path) else release
        if demands := {name: deciding[name] for name in LIMITS if name in deciding}:
            plan = plan_gate(
                opened,
                scenarios=options.get("scenarios", "all"),
                questions=options.get("limit"),
                judge=options.get("judge", "local"),
                **demands,
            )
            sys.stdout.write(plan.text() if plan.checks else "")  # pytest shows it with a failure
        gate = demur.gate(demur.evaluate(opened, system, **options), **deciding)
        if gate.exit_code:
            pytest.fail(gate.text().rstrip(), pytrace=False)
        return gate

    return decide
