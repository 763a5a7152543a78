"""The faults that are planted fit the tree: what they change is there, and the tests that have to find them are."""

import re

from tests.scratch import ROOT
from tools.faults import FAULTS


def test_every_fault_can_be_planted_and_names_tests_that_are_there():
    for fault in FAULTS:
        assert re.search(fault.old, (ROOT / fault.file).read_text(encoding="utf-8")), fault.name
        assert all((ROOT / path).exists() for path in fault.tests.split()), fault.name
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 30
