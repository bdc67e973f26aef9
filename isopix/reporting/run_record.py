"""A run folder as a typed record: its settings, log, weights and all that was measured and drawn."""

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from jaxtyping import Float
from torch import Tensor

from isopix.analysis.auroc import AUROC
from isopix.analysis.scores import Summary
from isopix.core.config import to_dict
from isopix.core.measurement import Measurement
from isopix.core.types import Images
from isopix.finetuning.results import ClassificationMetrics
from isopix.generate.results import PictureResult
from isopix.model.pool import Pool
from isopix.plots.style import Figure
from isopix.probing.config import ProbeConfig
from isopix.probing.linear import LbfgsProbe
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.recipes.recipe import Recipe
from isopix.runs.verification import VerificationResult

Values = dict[str, Any]
DEFAULTS = ProbeConfig()  # how iGPT probes (sections 2.4 and 3.4)
DECIDING = ("features", "pool", "start_token", "mask_ensemble")  # what a probe's score depends on


@dataclass(frozen=True)
class SavedImage:
    """A picture in `samples/` and its record."""

    png: bytes
    result: PictureResult


@dataclass(frozen=True)
class SavedAnalysis:
    """The numbers of an analysis by `isopix analyze`, their figure and its caption.

    `figure` is None for an analysis that is not registered, whose caption says so.
    """

    title: str
    numbers: Values
    figure: Figure | None
    caption: str


@dataclass(frozen=True, kw_only=True)
class SavedMetrics:
    """A file of metrics: the step and the images that they are of, and the command that wrote it."""

    data: str = ""
    step: int = 0
    written: str = ""
    command: list[str] = field(default_factory=list)
    folder: str | None = None
    measurement: Measurement | None = None  # None for a file of an earlier version

    @property
    def age(self) -> tuple[int, str]:
        """What files are sorted by: the step, then the time of writing."""
        return self.step, self.written


@dataclass(frozen=True, kw_only=True)
class SavedProbe(SavedMetrics):
    """The report of one `isopix probe`."""

    report: ProbeResult

    @property
    def has_default_method(self) -> bool:
        """Whether the classifier is iGPT's."""
        report = self.report
        return report.config.method == DEFAULTS.method and dict(report.method) == to_dict(LbfgsProbe())

    def has_paper_settings(self, pool: Pool = "mean") -> bool:
        """Whether it probed all layers with this pool, and otherwise with iGPT's features and classifier."""
        config, expected = self.report.config, replace(DEFAULTS, pool=pool)
        same = all(getattr(config, name) == getattr(expected, name) for name in DECIDING)
        return same and self.has_default_method and config.layer is None


@dataclass(frozen=True, kw_only=True)
class SavedEvaluation(SavedMetrics):
    """The metrics of one `isopix evaluate`, under so many masks per image."""

    metrics: ClassificationMetrics
    masks: int
    data: str


@dataclass(frozen=True, kw_only=True)
class SavedLowData(SavedMetrics):
    """The test errors of one `isopix low-data`."""

    result: LowDataResult


@dataclass(frozen=True, kw_only=True)
class SavedScores(SavedMetrics):
    """The scores of one `isopix score` by name, those of another dataset, and the AUROC between them;
    `maps` is the picture of surprise maps.
    """

    split: str
    scores: dict[str, Summary]
    against_data: str = ""
    against: dict[str, Summary] = field(default_factory=dict)
    auroc: dict[str, AUROC] = field(default_factory=dict)
    maps: bytes = b""


@dataclass(frozen=True)
class DataSample:
    """Training images [B 3 H W] with their labels (-1 for none), names of the classes, and the number of
    images of each class in the training, validation and test splits [C 3].
    """

    images: Images
    labels: list[int]
    classes: list[str]
    counts: list[list[int]]


@dataclass(frozen=True)
class Weights:
    """What the newest intact checkpoint holds."""

    step: int
    parameters: int
    colors: Float[Tensor, "K 3"] | None  # levels in 0..255; None for a codec without a palette
    classes: int = 0  # of a fine-tuned run


@dataclass(frozen=True)
class RunRecord:
    """A run. Pictures, probes, verifications and evaluations are in the order of their steps.

    `settings` is recipe.json as it was written; `recipe` is None where this version cannot read it.
    `problems` lists files that could not be read, with the reason.
    """

    path: Path
    settings: Values
    recipe: Recipe | None = None
    environment: Values = field(default_factory=dict)
    log: list[Values] = field(default_factory=list)
    weights: Weights | None = None
    data: DataSample | None = None
    images: list[SavedImage] = field(default_factory=list)
    probes: list[SavedProbe] = field(default_factory=list)
    verifications: list[VerificationResult] = field(default_factory=list)
    evaluations: list[SavedEvaluation] = field(default_factory=list)
    low_data: list[SavedLowData] = field(default_factory=list)
    scores: list[SavedScores] = field(default_factory=list)
    analyses: list[SavedAnalysis] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def imported_from(self) -> str:
        """The origin of an imported model; empty for a run that was trained here."""
        return str(self.environment.get("imported") or "")

    @property
    def probe(self) -> SavedProbe | None:
        """The run's primary probe: with iGPT's settings and the recipe's pool, of the run's own images and of
        the most images where there are several; the newest of equals.
        """
        pool = self.recipe.pool if self.recipe else "mean"

        def fullness(probe: SavedProbe) -> tuple[bool, bool, int, tuple[int, str]]:
            own = self.recipe is not None and PurePath(self.recipe.data.source).name == probe.data
            images = sum(probe.report.network.num_images.values())
            return probe.has_paper_settings(pool), own, images, probe.age

        return max(self.probes, key=fullness, default=None)

    @property
    def predicts_codes(self) -> bool:
        """Whether the loss of codes is trained; False for fine-tuning on classes alone."""
        return self.recipe is None or self.recipe.predicts_codes
