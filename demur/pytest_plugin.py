"""A gate as a pytest fixture: ``pytest_plugins = ["demur.pytest_plugin"]`` in your ``conftest.py``.

    def test_our_rag_declines_what_it_cannot_know(demur_gate):
        demur_gate("mine/release", my_rag, scenarios=["oracle", "adversarial"], max_hallucination={"adversarial": 0.2})

Only a ``conftest.py`` that names the plug-in loads it, so other test suites do not become slower. If there are too few
questions to decide, the gate skips the test and says how many are needed; a gate that only advises warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from demur.reports.gate import Gate

LIMITS = (
    "min_accuracy",
    "max_hallucination",
    "min_deflection",
    "max_deflection",
    "baseline",
    "max_failed",
)


class GateAdvice(UserWarning):
    """The text of a gate that only advises, because nobody has labelled answers of the run."""


@pytest.fixture
def demur_gate(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Gate]:
    """``demur_gate(release, system, **options)``: evaluate a system, and fail, skip or pass the test by its answers.

    Options are those of `demur.evaluate` (scenarios, limit, seed, repeat, judge, corpora, minutes, out ...) and of
    `demur.gate` (min_accuracy, max_hallucination, min_deflection, max_deflection, baseline, max_failed). ``strict`` is
    True by default here: a test should decide.
    """

    def decide(release: Any, system: Any, *, strict: bool = True, **options: Any) -> Gate:
        import demur

        asked: Mapping[str, Any] = {name: options.pop(name) for name in LIMITS if name in options}
        options.setdefault("out", tmp_path_factory.mktemp("demur"))
        found = demur.gate(demur.evaluate(release, system, **options), strict=strict, **asked)
        text = found.text().rstrip()
        if found.exit_code in (1, 5):
            pytest.fail(text, pytrace=False)
        if found.exit_code == 4:
            pytest.skip(text)
        if found.advisory and found.state != "pass":
            warnings.warn(text, GateAdvice, stacklevel=2)
        return found

    return decide
