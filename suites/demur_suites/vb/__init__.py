"""VB: does a model know what a photo shows and what it does not? Families of two photos and two questions."""

from __future__ import annotations

from demur_suites.vb.suite import VB

__all__ = ["VB"]
