"""The names of parts in reports and model cards: each has its own."""

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.registry import kinds, nouns


@pytest.mark.parametrize("noun", nouns())
def test_every_part_of_the_package_has_a_label_of_its_own(noun: str) -> None:
    labels = [cls().label() for cls in kinds(noun).values() if cls.__module__.startswith("isopix.")]
    assert all(labels)
    assert len(set(labels)) == len(labels)
