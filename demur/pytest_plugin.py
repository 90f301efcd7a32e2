"""A gate as a pytest fixture: ``pytest_plugins = ["demur.pytest_plugin"]`` in your ``conftest.py``.

    def test_our_rag_declines_what_it_cannot_know(demur_gate):
        demur_gate("mine/release", my_rag, scenarios=["oracle", "adversarial"], min_declined={"adversarial": 0.8})

Only a ``conftest.py`` that names the plug-in loads it, so other test suites do not become slower. What cannot be
decided fails the test, and says what would decide it.
"""

from __future__ import annotations

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
    allow_undecided). Limits that so many questions cannot decide fail the test before anything is asked.
    """

    def decide(release: Any, system: Any, **options: Any) -> Gate:
        import demur
        from demur.reports.gate import limits_of, plan_of

        deciding = {name: options.pop(name) for name in DECIDING if name in options}
        options.setdefault("out", tmp_path_factory.mktemp("demur"))
        opened = demur.open_release(release) if isinstance(release, str | Path) else release
        limits = limits_of(**{name: deciding[name] for name in LIMITS if name in deciding})
        if limits:
            allowed = deciding.get("allow_undecided", False)
            scenarios, questions = options.get("scenarios", "all"), options.get("limit")
            _red(plan_of(opened, limits, scenarios, questions, allow_undecided=allowed))
        gate = demur.gate(demur.evaluate(opened, system, **options), **deciding)
        _red(gate)
        return gate

    return decide


def _red(gate: Gate) -> None:
    """Fail the test if the gate does."""
    if gate.exit_code:
        pytest.fail(gate.text().rstrip(), pytrace=False)
