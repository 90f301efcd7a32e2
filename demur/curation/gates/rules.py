"""The three curation rules: what a set of labels means for a sample or a distractor.

Pure functions of labels. Labels are the three SimpleQA outcomes plus ``missing`` (there is no verdict: no usable answer,
or the judge's call failed) and ``skipped`` (this model cannot be asked this).

Every rule asks whether a gate's answer was right. A label that is not known yet is absent. Each rule returns True, False, or None for "these labels do not decide it", so that the result
does not depend on the order in which labels arrive. A gate that cannot be asked proves nothing: where no gate can be
asked, every rule returns None.

Where the paper contradicts itself the default follows its prose; the printed formulas exist as ``literal``:

=====================  ==========================================  =====================================================
stage                  default                                     literal
=====================  ==========================================  =====================================================
I   parametric         keep unless some gate is CORRECT            eq. 1: keep only if every gate is INCORRECT (a gate
                                                                   that deflects then removes the sample)
III solvable           keep if some gate is CORRECT with gold      eq. 4: drop only if every gate is INCORRECT
                                                                   (``algorithm1``: drop if some gate is CORRECT)
III distractor         keep unless some gate is CORRECT with it    the same (eq. 5)
=====================  ==========================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from demur.core.records import Outcome

Solvable = Literal["any_correct", "equation4", "algorithm1"]
Parametric = Literal["not_correct", "literal"]


class Label(StrEnum):
    """What one gate's answer was."""

    CORRECT = Outcome.CORRECT.value
    INCORRECT = Outcome.INCORRECT.value
    DEFLECTED = Outcome.DEFLECTED.value
    MISSING = "missing"
    """There is no verdict: no usable answer came, or the judge's call failed."""
    SKIPPED = "skipped"
    """This gate cannot be asked this (a text-only model about an image)."""


Labels = Mapping[str, Label | None]
"""Gate -> its label, or None while it has not been asked."""


_ANSWERS = frozenset({Label.CORRECT, Label.DEFLECTED, Label.INCORRECT})


def _all_among(labels: Labels, *failures: Label) -> bool | None:
    """True if every gate that was asked failed; False if one answered otherwise; else None."""
    if not _ANSWERS.difference(failures).isdisjoint(labels.values()):
        return False
    asked_labels = {v for v in labels.values() if v is not Label.SKIPPED}
    return True if asked_labels and asked_labels <= {*failures} else None


def none_can_be_asked(labels: Labels) -> bool:
    """Whether no gate can be asked: there is none, or each is skipped."""
    return all(v is Label.SKIPPED for v in labels.values())


def unknown_without_evidence(labels: Labels, rule: Parametric = "not_correct") -> bool | None:
    """Stage I: does the sample stay, because no gate answers it without evidence?

    >>> unknown_without_evidence({"a": Label.INCORRECT, "b": Label.DEFLECTED})
    True
    >>> unknown_without_evidence({"a": Label.INCORRECT, "b": Label.DEFLECTED}, "literal")
    False
    """
    return _all_among(labels, Label.INCORRECT) if rule == "literal" else misleads(labels)


def solvable_with_gold(labels: Labels, rule: Solvable = "any_correct") -> bool | None:
    """Stage III: does the sample stay, because some gate answers it with the gold evidence?

    >>> solvable_with_gold({"a": Label.INCORRECT, "b": Label.INCORRECT})
    False
    """
    failed = _all_among(labels, Label.INCORRECT) if rule == "equation4" else misleads(labels)
    return failed if failed is None or rule == "algorithm1" else not failed


def misleads(labels: Labels) -> bool | None:
    """Stage III: does the distractor stay, because alone it lets no gate answer correctly?"""
    return _all_among(labels, Label.INCORRECT, Label.DEFLECTED)
