"""The result of `isopix study inductive-bias`, without PyTorch: claims, and a row for each trial."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import mean, stdev
from typing import Any, Literal

from isopix.core.choices import Pool
from isopix.core.table import Table
from isopix.display.formats import format_duration
from isopix.storage.result import Result
from isopix.studies.results import ClaimRecord, ContrastRecord

MISSING = "–"
POOL_DESCRIPTIONS = {
    "mean": "mean of the features over positions, the likely protocol of the paper",
    "grid4": "means of 4 × 4 cells, which keep the position of features",
}
BIASES = (  # title, measurement, layer or channel, decimals
    ("translation", "translation_error", -1, 3),
    ("permutation", "permutation_error", -1, 3),
    ("receptive field, positions", "receptive_field_mean", -1, 1),
    ("95 % radius", "receptive_field_radius_95", -1, 1),
    ("distance preservation", "distance_preservation", 0, 2),
    ("effective rank", "effective_rank", 0, 1),
)


@dataclass(frozen=True)
class PoolRow:
    """Test accuracies of a trial and of its baselines under one pool."""

    best_layer: int
    test_accuracies: tuple[float, ...]
    validation_accuracies: tuple[float, ...]
    untrained: float
    raw_pixels: float
    pixel_components: float | None
    majority: float

    @property
    def test_accuracy(self) -> float:
        """That of the layer that validation images choose."""
        return self.test_accuracies[self.best_layer]


@dataclass(frozen=True)
class TrialRow:
    """A trial of the study: the learning rate it was trained with after those that `diverged`, its validation
    loss in nats per masked sub-pixel, and the measurements of `measure`.
    """

    name: str
    block: str
    encoding: str
    depth: int
    seed: int
    status: Literal["not run", "done", "failed"]
    reason: str = ""
    run: str = ""
    learning_rate: float | None = None
    diverged: tuple[float, ...] = ()
    seconds: float = 0.0
    loss: float | None = None
    pools: Mapping[Pool, PoolRow] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def network(self) -> str:
        """The architecture, as `conv-pix2vec-3`."""
        return f"{self.block}-{self.encoding}-{self.depth}"


class StudyResult(Result):
    """The ten claims under each pool of the features, and all trials."""

    scale: str
    facts: Mapping[str, str]
    claims: Mapping[Pool, tuple[ClaimRecord, ...]]
    trials: tuple[TrialRow, ...]

    @property
    def failed(self) -> list[TrialRow]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial.status == "failed"]

    def verdict_counts(self, pool: Pool) -> str:
        """Return how many claims hold under a pool, as `pool mean: holds 3, not decided 7`."""
        counts = Counter(claim.verdict for claim in self.claims[pool])
        return f"pool {pool}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.items())

    def tables(self) -> list[Table]:
        """Return the claims with their contrasts, the networks, and what they have in common."""
        claims = [_claims_table(pool, found) for pool, found in self.claims.items()]
        return [*claims, self._networks(), self._biases(), Table("Study", ["", ""], list(self.facts.items()))]

    def notes(self) -> list[str]:
        """Return the trials that failed, and where the page is."""
        return [*(f"failed: {each.name}: {each.reason}" for each in self.failed), *super().notes()]

    def _networks(self) -> Table:
        caption = (
            "Networks, mean ± standard deviation over seeds: validation loss in nats per masked sub-pixel, test "
            "accuracy in % of the layer chosen on validation images, and of the untrained network"
        )
        columns = ["network", "loss"]
        for pool in self.claims:
            columns += [f"accuracy, {pool}", "untrained"]
        return Table(
            caption, [*columns, "best layers", "learning rate", "time", "done"], self._rows(_network_row)
        )

    def _biases(self) -> Table:
        caption = (
            "Inductive biases of the last layer, encoding of red, and errors of reconstructed levels in % of "
            "their range, means over seeds"
        )
        columns = ["network", *(title for title, *_ in BIASES), "error", "misplaced"]
        return Table(caption, columns, [row for row in self._rows(_bias_row) if len(row) > 1])

    def _rows(self, row: Callable[[Sequence[TrialRow]], list[str]]) -> list[list[str]]:
        """Return a row for the trials of each architecture."""
        ordered = sorted(self.trials, key=lambda trial: (trial.block, trial.encoding, trial.depth))
        return [[name, *row(list(same))] for name, same in groupby(ordered, key=lambda trial: trial.network)]


def _claims_table(pool: Pool, claims: Sequence[ClaimRecord]) -> Table:
    caption = (
        f"Claims of the paper, pool {pool} ({POOL_DESCRIPTIONS[pool]}): positive differences support them"
    )
    rows = list[tuple[str, ...]]()
    for claim in claims:
        rows.append((claim.letter, claim.claim, "", "", claim.verdict))
        rows += [("", each.text, _number(each), _interval(each), _note(each)) for each in claim.contrasts]
    return Table(caption, ["claim", "contrast", "mean", "95 % interval", "verdict"], rows)


def _network_row(trials: Sequence[TrialRow]) -> list[str]:
    done = [trial for trial in trials if trial.status == "done"]
    count = f"{len(done)} of {len(trials)}"
    if not done:
        return [*[MISSING] * (4 + 2 * len(POOL_DESCRIPTIONS)), count]
    accuracies = [
        _spread([100 * getattr(trial.pools[pool], name) for trial in done], 1)
        for pool in done[0].pools
        for name in ("test_accuracy", "untrained")
    ]
    layers = ["/".join(str(each.best_layer) for each in trial.pools.values()) for trial in done]
    rates = dict.fromkeys(f"{trial.learning_rate:g}" for trial in done)
    time = format_duration(mean(trial.seconds for trial in done))
    losses = _spread([trial.loss or 0.0 for trial in done], 3)
    return [losses, *accuracies, ", ".join(layers), ", ".join(rates), time, count]


def _bias_row(trials: Sequence[TrialRow]) -> list[str]:
    measured = [trial.metrics["measurements"] for trial in trials if trial.status == "done"]
    if not measured:
        return []
    cells = [f"{mean(each[name][index] for each in measured):.{n}f}" for _, name, index, n in BIASES]
    errors = ("mean_absolute", "misplaced_fraction")
    return [*cells, *(f"{100 * mean(each['color_error'][name] for each in measured):.1f}" for name in errors)]


def _spread(values: Sequence[float], digits: int) -> str:
    std = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{std}"


def _number(contrast: ContrastRecord) -> str:
    return MISSING if contrast.mean is None else f"{_signed(contrast.mean)} {contrast.unit}".strip()


def _interval(contrast: ContrastRecord) -> str:
    if contrast.interval is None:
        return "not run" if contrast.mean is None else "one seed"
    return " to ".join(map(_signed, contrast.interval))


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _note(contrast: ContrastRecord) -> str:
    """Return the verdict of a contrast, and what hinders a decision."""
    if not contrast.counted:
        return "not part of the verdict"
    hindrance = contrast.regime or contrast.needed
    return f"{contrast.verdict}: {hindrance}" if hindrance else contrast.verdict
