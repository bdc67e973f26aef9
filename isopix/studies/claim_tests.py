"""Test claims that one kind of network is better than another, by differences over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from isopix.core.paired import mean_half_width
from isopix.studies.inductive_bias.trials import Architecture, Trial, mean_std

Conclusion = Literal["holds", "does not hold", "not decided"]
Measurements = Mapping[tuple[Architecture, int], Mapping[str, Any]]  # by architecture and seed


class Contrast(NamedTuple):
    """A quantity in `unit`, one value per seed, that exceeds `threshold` if the claim is true."""

    text: str
    unit: str
    values: tuple[float, ...]
    threshold: float = 0.0

    @property
    def mean(self) -> float | None:
        return mean_std(self.values).mean if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds; None for fewer than two."""
        return mean_std(self.values).std if len(self.values) > 1 else None

    @property
    def half_width(self) -> float | None:
        """Half the width of the mean's 95 % interval, by Student's t; None for fewer than two seeds."""
        return mean_half_width(np.array(self.values))

    @property
    def conclusion(self) -> Conclusion:
        """The side of `threshold` on which the whole interval lies."""
        mean, half = self.mean, self.half_width
        if mean is None or half is None or mean == self.threshold or abs(mean - self.threshold) < half:
            return "not decided"
        return "holds" if mean > self.threshold else "does not hold"


class ClaimResult(NamedTuple):
    """A claim and its contrasts."""

    letter: str
    claim: str
    source: str
    contrasts: tuple[Contrast, ...]

    @property
    def conclusion(self) -> Conclusion:
        """`holds` if every contrast does, `does not hold` if any does not."""
        conclusions = {contrast.conclusion for contrast in self.contrasts}
        if "does not hold" in conclusions:
            return "does not hold"
        return "holds" if conclusions == {"holds"} else "not decided"

    def as_record(self) -> dict[str, Any]:
        """Return plain values, with the mean and the interval of every contrast."""
        contrasts = [
            {
                **each._asdict(),
                "mean": each.mean,
                "half_width": each.half_width,
                "conclusion": each.conclusion,
            }
            for each in self.contrasts
        ]
        return {**self._asdict(), "conclusion": self.conclusion, "contrasts": contrasts}


class StudyEvidence(NamedTuple):
    """The finished trials of a study, and what else was measured of them."""

    trials: Sequence[Trial]
    measurements: Measurements

    @property
    def seeds(self) -> list[int]:
        return sorted({trial.seed for trial in self.trials})

    @property
    def complete_seeds(self) -> list[int]:
        """The seeds for which every architecture has finished; numbers over fewer are not comparable."""
        every = {trial.architecture for trial in self.trials}
        return [seed for seed in self.seeds if self.trials_of(seed).keys() == every]

    def trials_of(self, seed: int) -> dict[Architecture, Trial]:
        """Return the trials of a seed by architecture."""
        return {trial.architecture: trial for trial in self.trials if trial.seed == seed}

    def measurement(self, trial: Trial, name: str) -> Any:
        """Return a measurement of a trial; None if it is missing."""
        return self.measurements.get((trial.architecture, trial.seed), {}).get(name)

    def deepest(self, block: str, limit: int) -> int:
        """Return the depth of a block's deepest trials up to `limit`; `limit` without trials."""
        depths = (trial.depth for trial in self.trials if trial.block == block and trial.depth <= limit)
        return max(depths, default=limit)
