"""What every example in a docstring has without an import: `chip` and `model`."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(chip=chip, model=model)
