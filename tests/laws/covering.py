"""Pairwise combinations: few cases in which every two choices of different nouns meet."""

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any


def covering(
    choices: dict[str, list[Any]], fits: Callable[[dict[str, Any]], bool]
) -> Iterator[dict[str, Any]]:
    """Legal combinations in which each two choices of different nouns meet if they may: greedily, that with
    most new pairs.
    """
    legal = [
        parts for each in product(*choices.values()) if fits(parts := dict(zip(choices, each, strict=True)))
    ]
    meetings = [pairs(parts) for parts in legal]
    missing: set[str] = set().union(*meetings)
    while missing:
        best = max(range(len(legal)), key=lambda number: len(meetings[number] & missing))
        missing -= meetings[best]
        yield legal[best]


def pairs(parts: dict[str, Any]) -> set[str]:
    """Each two choices that meet here."""
    return {f"{one} {other}" for one, other in combinations(parts.items(), 2)}
