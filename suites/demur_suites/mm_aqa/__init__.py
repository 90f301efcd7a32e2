"""MM-AQA: questions made unanswerable by known changes, and who abstains from them."""

from __future__ import annotations

from demur_suites.mm_aqa.suite import MMAQA

__all__ = ["MMAQA"]
