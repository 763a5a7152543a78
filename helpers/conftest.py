"""What every example in a docstring has without an import: models, chips and machines of them, engines."""

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.racks.cluster import hosts, racks, slices
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.public_models import model


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(
        model=model, chip=chip, Slice=Slice, hosts=hosts, racks=racks, slices=slices, ENGINES=ENGINES
    )
