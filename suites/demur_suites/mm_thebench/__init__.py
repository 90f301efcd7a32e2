"""MM-THEBench: is the reasoning real, or only the answer? Chains of thought judged at three levels."""

from __future__ import annotations

from demur_suites.mm_thebench.suite import MMTheBench

__all__ = ["MMTheBench"]
