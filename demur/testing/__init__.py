"""For authors of plug-ins: a fake endpoint with faults, and a check for each kind of part (`demur.testing.contracts`).

from demur.testing import FakeEndpoint, check_source
"""

from demur.testing.contracts import (
    check_corpus,
    check_encoder,
    check_index,
    check_judge,
    check_mode,
    check_model,
    check_source,
    check_system,
)
from demur.testing.fake import FAULTS, FakeEndpoint, parse_faults, running

__all__ = [
    "FAULTS",
    "FakeEndpoint",
    "check_corpus",
    "check_encoder",
    "check_index",
    "check_judge",
    "check_mode",
    "check_model",
    "check_source",
    "check_system",
    "parse_faults",
    "running",
]
