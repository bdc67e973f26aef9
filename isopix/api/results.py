"""Results of the functions; `path` is the file or folder that was written, and None for a model without a run
folder; `record` are the numbers as saved there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from isopix.analysis.cost import DeviceCost
from isopix.core.device import Precision
from isopix.core.types import Grid
from isopix.model.pool import Pool
from isopix.papers.published import PublishedResult
from isopix.recipes.parallel_plan import ParallelPlan, fastest
from isopix.recipes.recipe import Recipe
from isopix.reporting.baselines import BaselineRow
from isopix.studies.claim_tests import ClaimResult
from isopix.studies.comparison import Comparison
from isopix.studies.trial import TrialResult


@dataclass(frozen=True)
class AnalysisOutput:
    """Numbers of each analysis by name, and why others do not apply; `path` is the folder of figures."""

    results: Mapping[str, Mapping[str, Any]]
    not_applicable: Mapping[str, str]
    path: Path | None


@dataclass(frozen=True)
class ReportOutput:
    """An HTML page, the rows of its summary table, and notes on how to read them."""

    path: Path
    summary: list[BaselineRow]
    notes: list[str]


@dataclass(frozen=True)
class PlanOutput:
    """Cost of training a recipe; FLOPs are per image, bytes and seconds are estimates for `device`.

    `weight_bytes`, `copy_bytes` and `activation_bytes` are those of `TrainingMemory`, `step_bytes` their sum
    for one step. `device_hours` assume `mfu` of the peak FLOP/s. So does `parallel`, which has the strategies
    on each of the clusters that were asked for. `price` is that of a device-hour.
    """

    recipe: Recipe
    precision: Precision  # on `device`
    parameters: int
    forward_flops: int
    training_flops: int
    weight_bytes: int
    copy_bytes: int
    activation_bytes: int
    step_bytes: int
    free_bytes: int
    images: int
    device: str
    threads: int
    images_per_second: float
    seconds: float
    mfu: float
    price: float | None
    device_hours: list[DeviceCost]
    parallel: list[list[ParallelPlan]]

    @property
    def record(self) -> dict[str, Any]:
        """All numbers, ready for JSON, with the recipe by its name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        hours = [each._asdict() for each in self.device_hours]
        positions = self.recipe.grid.positions
        parallel = [self._parallel_record(each, plans) for plans in self.parallel for each in plans]
        return {
            **values,
            "recipe": self.recipe.name,
            "positions": positions,
            "device_hours": hours,
            "parallel": parallel,
        }

    def _parallel_record(self, plan: ParallelPlan, plans: list[ParallelPlan]) -> dict[str, Any]:
        price = None if self.price is None else self.price * plan.device_hours
        return {**plan.record, "price": price, "recommended": plan is fastest(plans)}


@dataclass(frozen=True)
class ConvertOutput:
    """A converted model: tensors loaded, and the number skipped by each rule and rounded to float32."""

    path: Path
    step: int
    origin: str
    depth: int
    width: int
    grid: Grid
    image_size: tuple[int, int]  # rows and columns, in pixels
    parameters: int
    tensors: int
    skipped: Mapping[str, int]
    rounded: int
    predicts_codes: bool
    classes: tuple[str, ...] = ()  # of its class head
    model_class: str = ""  # of transformers, of an exported model


@dataclass(frozen=True)
class PublishOutput:
    """The URL of a published model, and the step of its weights."""

    url: str
    step: int


@dataclass(frozen=True)
class VerifyOutput:
    """Checked files of a checkpoint, and its test loss in nats per predicted code with the published one."""

    checkpoint: Path
    files: list[str]
    recipe: str
    step: int
    imported: str | None
    palette: str
    palette_is_openai: bool
    loss_nats: float
    uniform_nats: float | None
    published: PublishedResult | None
    data: str
    images: int
    record: Mapping[str, Any]
    path: Path | None


@dataclass(frozen=True)
class StudyOutput:
    """Tested claims, all that is known of each trial, and the HTML page."""

    claims: dict[Pool, list[ClaimResult]]  # under each pool of the features
    trials: list[dict[str, Any]]
    path: Path

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial["status"] == "failed"]


@dataclass(frozen=True)
class ComparisonOutput:
    """Paired differences of each group of runs; `difference` has the mean and the half-widths of its 95 %
    intervals, as fractions.
    """

    comparisons: list[Comparison]
    record: Mapping[str, Any]
    path: Path | None


@dataclass(frozen=True)
class StudyProgress:
    """A trial that has ended. `fraction` of the training FLOPs of the `total` trials to run are done, after
    `seconds`.
    """

    trial: str
    result: TrialResult
    done: int
    total: int
    fraction: float
    seconds: float
