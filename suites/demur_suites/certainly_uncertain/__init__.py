"""CertainlyUncertain: does a model know what it cannot know? Contrastive pairs; confidence counts too."""

from __future__ import annotations

from demur_suites.certainly_uncertain.suite import CertainlyUncertain

__all__ = ["CertainlyUncertain"]
