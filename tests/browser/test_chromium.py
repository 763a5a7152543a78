"""The one Chromium of a test process is there for each test, also after something killed what drives it."""

import subprocess
import sys

import pytest

KILLED = """
import psutil
from tests.browser.chromium import Chromium
one = Chromium()
first = one.alive()
assert one.alive() is first
for p in psutil.Process().children():
    p.kill()
    p.wait()
page = one.alive().new_page()
print(page.evaluate("6 * 7"))
one.close()
"""


@pytest.mark.slow
def test_a_killed_driver_costs_the_next_test_nothing(chromium_of_this_process):
    chromium_of_this_process.alive()  # or the test is skipped
    run = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120)
    assert run.stdout == "42\n", run.stderr
