"""For authors of plug-ins: a fake endpoint that hurts, and checks that a part keeps its contract.

from demur.testing import FakeEndpoint, check_model, check_suite
"""

from demur.testing.contracts import check_model
from demur.testing.fake import FAULTS, FakeEndpoint, PrefixCache, parse_faults, running
from demur.testing.suites import check_suite

__all__ = ["FAULTS", "FakeEndpoint", "PrefixCache", "check_model", "check_suite", "parse_faults", "running"]
