"""Planted faults fit the tree and name their tests; a sample of the planner's sweep finds nothing impossible."""

import re

from tests.scratch import ROOT
from tests.tiers import repeats
from tools import sweep
from tools.faults import FAULTS


def test_every_fault_can_be_planted_and_names_tests_that_are_there():
    for fault in FAULTS:
        assert re.search(fault.old, (ROOT / fault.file).read_text(encoding="utf-8")), fault.name
        assert all((ROOT / path).exists() for path in fault.tests.split()), fault.name
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 30


def test_no_answer_is_impossible():
    some = sweep.cases()[:: len(sweep.cases()) // repeats(20, 400)]
    found = [(str(case), kind, said) for case in some for kind, said in sweep.findings(case)]
    assert not found
