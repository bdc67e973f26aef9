"""The tiny runs of the tests of verbs."""

from tests.unit.api.conftest import copy_of, pristine

__all__ = ["copy_of", "pristine"]
