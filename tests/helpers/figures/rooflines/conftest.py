"""This chapter's figure is looked at where it stands, on a page of the built book."""

from tests.book.conftest import site, visit  # noqa: F401  fixtures
