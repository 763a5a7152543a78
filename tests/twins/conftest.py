"""The page of the live figure that a module of twins calls its NAME, as tests/helpers/figures has it."""

from tests.helpers.figures.conftest import address, figure, page, window  # noqa: F401
