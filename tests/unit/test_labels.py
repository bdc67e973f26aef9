"""The names of parts in reports and model cards: each has its own."""

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.registry import kinds, nouns
from tests.golden.values import check_golden


@pytest.mark.parametrize("noun", nouns())
def test_every_part_of_the_package_has_a_label_of_its_own(noun: str) -> None:
    parts = {name: cls for name, cls in kinds(noun).items() if cls.__module__.startswith("isopix.")}
    labels = {name: cls().label() for name, cls in parts.items()}
    assert all(labels.values())
    assert len(set(labels.values())) == len(labels)
    if labels:  # none are of the package where a test has a noun of its own
        check_golden("labels", noun, labels)
