"""The result of the study, without PyTorch: claims, and a row for each trial."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import mean
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from isopix.core.choices import Pool
from isopix.core.text import Table, format_duration, mean_and_std
from isopix.runs.results import LRTrial
from isopix.studies.results import TrialOutcome, TrialsResult

T = TypeVar("T")
Architecture = tuple[str, str, int]  # block, encoding, depth
TrialOnly = Annotated[tuple[T, ...], Field(exclude=True)]  # in the file of a trial, not in the study's record

MISSING = "–"
POOL_DESCRIPTIONS: dict[Pool, str] = {
    "mean": "mean of the features over positions, the likely protocol of the paper",
    "grid4": "means of 4 × 4 cells, which keep the position of features",
}
STUDY_POOLS: tuple[Pool, ...] = tuple(POOL_DESCRIPTIONS)

Verdict = Literal["holds", "does not hold", "not decided", "cannot be judged"]


@dataclass(frozen=True)
class ContrastRecord:
    """A difference in `unit` that is positive if the claim is true; no `mean`: it was not measured.

    `values` are the means of each seed, `by_kind` those of each encoding and depth. `regime` says why the
    networks cannot show it. A contrast that is not `counted` decides nothing.
    """

    text: str
    unit: str
    mean: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict = "not decided"
    values: tuple[float, ...] = ()
    by_kind: Mapping[str, float] = field(default_factory=dict)
    regime: str = ""
    counted: bool = True
    adjusted_p: float = 1.0


@dataclass(frozen=True)
class ClaimRecord:
    """A claim, its verdict, and its contrasts."""

    letter: str
    claim: str
    source: str
    verdict: Verdict
    contrasts: tuple[ContrastRecord, ...]


def network_name(parts: Iterable[str | int]) -> str:
    """Return the name of an architecture, or of what several share, as `conv-pix2vec-3`."""
    return "-".join(map(str, parts))


@dataclass(frozen=True)
class ProbedLayers:
    """Probes of layers; `correct` is a bit in base 64 for each test image, of a baseline's best layer."""

    test_accuracies: tuple[float, ...]
    validation_accuracies: tuple[float, ...]  # everything is chosen by these alone
    best_layer: int
    correct: TrialOnly[str] = field(default=(), compare=False)
    num_images: int = 0

    @property
    def test_accuracy(self) -> float:
        return self.test_accuracies[self.best_layer]

    @property
    def validation_accuracy(self) -> float:
        return self.validation_accuracies[self.best_layer]


@dataclass(frozen=True)
class PoolProbes:
    """Probes of a network and its baselines under one pool; `pixel_components` as wide as the network."""

    network: ProbedLayers
    untrained: ProbedLayers
    raw_pixels: ProbedLayers
    pixel_components: ProbedLayers | None
    majority: float

    @property
    def baselines(self) -> dict[str, ProbedLayers]:
        """What an accuracy that is learned from pixels must exceed: as many features, or more."""
        found = {"untrained": self.untrained, "raw pixels, PCA": self.pixel_components}
        known = {name: probed for name, probed in found.items() if probed is not None}
        return known if self.pixel_components else {**known, "raw pixels": self.raw_pixels}


@dataclass(frozen=True)
class Trial:
    """A trained and probed network; loss in nats per masked sub-pixel."""

    block: str  # conv, mixer, transformer-1, ...
    encoding: str  # pix2vec, fourier, continuous
    depth: int
    seed: int
    loss: float  # on validation images at the end of training; nothing is chosen by it
    probes: Mapping[Pool, PoolProbes] = field(default_factory=dict)
    measurements: Mapping[str, Any] = field(default_factory=dict)
    """What `measure` measures, and `unigram`, the loss of predicting the frequencies of levels."""

    @property
    def architecture(self) -> Architecture:
        return self.block, self.encoding, self.depth

    @property
    def kind(self) -> tuple[str, int]:
        return self.encoding, self.depth


@dataclass(frozen=True)
class TrialResult(TrialOutcome):
    """The run folder of a trial, the learning rates tried (the last finished), and metrics."""

    run: str = ""
    lr_trials: tuple[LRTrial, ...] = ()
    training_seconds: float = 0.0
    probing_seconds: float = 0.0
    trial: Trial | None = None  # the losses and accuracies of a finished trial
    metrics: dict[str, Any] = field(default_factory=dict)  # `measure`, records of accuracy and loss, counts
    test_groups: TrialOnly[int] = field(default=(), compare=False)
    """The groups of the test images that were probed; empty if each is its own."""

    @property
    def seconds(self) -> float:
        return self.training_seconds + self.probing_seconds

    @property
    def text(self) -> str:
        if self.trial is None:
            return super().text
        accuracies = [f"{pool} {each.network.test_accuracy:.1%}" for pool, each in self.trial.probes.items()]
        return f"loss {self.trial.loss:.3f} nats, accuracy: {', '.join(accuracies)}"

    def measured(self) -> Trial:
        assert self.trial is not None, "the trial is done"
        unigram = self.metrics["loss_measurement"]["baselines"]
        return replace(self.trial, measurements={**self.metrics["measurements"], **unigram})


class StudyResult(TrialsResult):
    """The ten claims under each pool of the features, and all trials."""

    claims: Mapping[Pool, tuple[ClaimRecord, ...]] = field(default_factory=dict)
    trials: Mapping[str, TrialResult]

    def verdict_counts(self, pool: Pool) -> str:
        """Return how many claims hold under a pool, as `pool mean: holds 3, not decided 7`."""
        counts = Counter(claim.verdict for claim in self.claims[pool])
        return f"pool {pool}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.items())

    def tables(self) -> list[Table]:
        claims = [_claims_table(pool, found) for pool, found in self.claims.items()]
        return [*claims, self._networks(), self.facts_table()]

    def _networks(self) -> Table:
        caption = (
            "Networks, mean ± standard deviation over seeds: validation loss (nats per masked sub-pixel), "
            "test accuracy (%) of the layer chosen on validation images, and of the untrained network"
        )
        pools = [title for pool in STUDY_POOLS for title in (f"accuracy, {pool}", "untrained")]
        columns = ["network", "loss", *pools, "best layers", "learning rate", "time", "done"]
        named = groupby(self.trials.items(), key=lambda item: item[0].partition("-seed-")[0])
        rows = [[name, *_network_row([trial for _, trial in same])] for name, same in named]
        return Table(caption, columns, rows)


def _claims_table(pool: Pool, claims: Sequence[ClaimRecord]) -> Table:
    heading = f"Claims of the paper, pool {pool} ({POOL_DESCRIPTIONS[pool]})"
    caption = f"{heading}: positive differences support them"
    rows = list[tuple[str, ...]]()
    for claim in claims:
        rows.append((claim.letter, claim.claim, "", "", claim.verdict))
        rows += map(contrast_row, claim.contrasts)
    return Table(caption, ["claim", "contrast", "mean", "95% interval", "verdict"], rows)


def contrast_row(contrast: ContrastRecord) -> tuple[str, ...]:
    """Return the row of a contrast, whose first cell is empty."""
    mean, interval = MISSING, "not run"
    if contrast.mean is not None:
        mean, interval = f"{_signed(contrast.mean)} {contrast.unit}".strip().replace(" %", "%"), "one seed"
    if contrast.interval is not None:
        interval = " to ".join(map(_signed, contrast.interval))
    verdict = f"{contrast.verdict}: {contrast.regime}" if contrast.regime else contrast.verdict
    return "", contrast.text, mean, interval, verdict if contrast.counted else "not part of the verdict"


def _network_row(trials: Sequence[TrialResult]) -> list[str]:
    done = [each.trial for each in trials if each.trial]
    count = f"{len(done)} of {len(trials)}"
    if not done:
        return [*[MISSING] * (4 + 2 * len(STUDY_POOLS)), count]
    accuracies = [
        mean_and_std([100 * getattr(trial.probes[pool], name).test_accuracy for trial in done], ".1f")
        for pool in done[0].probes
        for name in ("network", "untrained")
    ]
    layers = ["/".join(str(each.network.best_layer) for each in trial.probes.values()) for trial in done]
    rates = dict.fromkeys(f"{each.lr_trials[-1].lr:g}" for each in trials if each.trial)
    time = format_duration(mean(each.seconds for each in trials if each.trial))
    losses = mean_and_std([trial.loss for trial in done], ".3f")
    return [losses, *accuracies, ", ".join(layers), ", ".join(rates), time, count]


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")
