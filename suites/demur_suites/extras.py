"""The extras of this package, and the line that installs one: a clone's, since no registry has the package."""

from __future__ import annotations

from functools import partial

from demur.core import errors

CLONE = "./suites"
"""This package as pip takes it, in the folder of a clone."""
importing = partial(errors.importing, package=CLONE)
"""`demur.core.errors.importing` of an extra of this package."""
