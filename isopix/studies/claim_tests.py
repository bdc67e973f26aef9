"""Judging: claims that one kind of network is better than another, by differences that each have a spread."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from scipy.stats import t as student

from isopix.core.bootstrap import CONFIDENCE_LEVEL
from isopix.studies.inductive_bias.trials import Cell, spread

Verdict = Literal["holds", "does not hold", "not decided"]
Kind = tuple[str, str, int]
Measured = Mapping[tuple[Kind, int], Mapping[str, Any]]  # by the kind and the seed of a cell


class Part(NamedTuple):
    """A number in `unit` that the claim says is above `least`, for each seed that has the cells for it."""

    text: str
    unit: str
    values: tuple[float, ...]
    least: float = 0.0

    @property
    def mean(self) -> float | None:
        return spread(self.values).mean if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of one seed from another; None for fewer than two."""
        return spread(self.values).deviation if len(self.values) > 1 else None

    @property
    def half(self) -> float | None:
        """Half the width of the mean's 95 % interval, by Student's t, for a deviation of three numbers is
        itself uncertain; None for fewer than two seeds.
        """
        count = len(self.values)
        if self.deviation is None:
            return None
        return float(student.ppf((1 + CONFIDENCE_LEVEL) / 2, count - 1)) * self.deviation / math.sqrt(count)

    @property
    def verdict(self) -> Verdict:
        """By the side of `least` on which the mean's whole interval lies."""
        mean, half = self.mean, self.half
        if mean is None or half is None or mean == self.least or abs(mean - self.least) < half:
            return "not decided"
        return "holds" if mean > self.least else "does not hold"


class Finding(NamedTuple):
    """What a study says of a claim, part by part."""

    letter: str
    claim: str
    source: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> Verdict:
        """It holds if every part does, and does not if any part clearly does not."""
        verdicts = {part.verdict for part in self.parts}
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "not decided"

    def told(self) -> dict[str, Any]:
        """Plain values, with the mean of every part and half the width of its interval."""
        parts = [
            {**part._asdict(), "mean": part.mean, "half": part.half, "verdict": part.verdict}
            for part in self.parts
        ]
        return {**self._asdict(), "verdict": self.verdict, "parts": parts}


class Evidence(NamedTuple):
    """What claims are judged by: cells that are done, and what else was measured of them."""

    cells: Sequence[Cell]
    measured: Measured

    @property
    def seeds(self) -> list[int]:
        return sorted({cell.seed for cell in self.cells})

    @property
    def whole(self) -> list[int]:
        """The seeds that have every kind of cell that any has: the best of all, or a fit to all, is another
        number where some are missing.
        """
        kinds = {cell.kind for cell in self.cells}
        return [seed for seed in self.seeds if self.of(seed).keys() == kinds]

    def of(self, seed: int) -> dict[Kind, Cell]:
        """The cells of a seed by their kinds."""
        return {cell.kind: cell for cell in self.cells if cell.seed == seed}

    def number(self, cell: Cell, name: str) -> Any:
        """What was measured of a cell under that name; None where it was not."""
        return self.measured.get((cell.kind, cell.seed), {}).get(name)

    def deepest(self, block: str, most: int) -> int:
        """The depth of the deepest cells of a block, `most` at most; `most` where there are none."""
        return max(
            (cell.depth for cell in self.cells if cell.block == block and cell.depth <= most), default=most
        )
