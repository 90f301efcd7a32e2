"""For authors of plug-ins: a fake endpoint that hurts, and checks that a part keeps its contract.

from demur.testing import FakeEndpoint, check_model
"""

from demur.testing.contracts import check_model
from demur.testing.fake import FAULTS, FakeEndpoint, PrefixCache, parse_faults, running

__all__ = ["FAULTS", "FakeEndpoint", "PrefixCache", "check_model", "parse_faults", "running"]
