"""Results of the functions; `path` is what was written, and None for a model without a run folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.analysis.cost import DeviceCost
from isopix.codecs.palette_file import PaletteFile
from isopix.codecs.quantization_error import QuantizationError
from isopix.core.types import Images
from isopix.finetune.metrics import Verdict
from isopix.generate.reconstruct import Reconstruction
from isopix.generate.sample import SampledImages
from isopix.papers.claim import Claim
from isopix.probe.low_data import LowDataResult
from isopix.probe.results import ProbeReport, LayerScore
from isopix.recipes.recipe import Recipe
from isopix.report.summary import Row
from isopix.studies.claim_tests import Finding
from isopix.studies.trial import Outcome


@dataclass(frozen=True)
class ProbeOutput:
    """A probe of every layer, with baselines."""

    report: ProbeReport
    data: str
    step: int
    path: Path | None

    @property
    def best(self) -> LayerScore:
        """The layer with the highest validation accuracy."""
        return self.report.network.score

    @property
    def accuracy(self) -> float:
        """Test accuracy of the best layer."""
        return self.best.test

    @property
    def baselines(self) -> dict[str, float]:
        """Test accuracy of every baseline at its best layer, and of the majority class."""
        scores = {name: record.score.test for name, record in self.report.controls.items()}
        return {**scores, "majority class": self.report.network.majority}


@dataclass(frozen=True)
class EvaluationOutput:
    """Test metrics of a fine-tuned run; `mask_ensemble` is the number of masks per image, 0 for none."""

    metrics: Verdict
    classes: tuple[str, ...]
    data: str
    step: int
    mask_ensemble: int
    path: Path | None


@dataclass(frozen=True)
class LowDataOutput:
    """Test errors with few labels by method (trained, untrained, raw pixels, fine-tuned), one entry for each
    number of labels.
    """

    results: Mapping[str, list[LowDataResult]]
    data: str
    step: int
    warnings: tuple[str, ...]
    path: Path | None


@dataclass(frozen=True)
class SampleOutput:
    """Sampled images, uint8 [B 3 H W]."""

    images: SampledImages
    path: Path | None


@dataclass(frozen=True)
class CompletionOutput:
    """`images` [B*each 3 H W] are completions of the first `rows` rows of `inputs` [B 3 H W]."""

    images: SampledImages
    inputs: Images
    rows: int
    each: int
    path: Path | None


@dataclass(frozen=True)
class ReconstructionOutput:
    """Images with masked positions, and the model's predictions of them."""

    reconstruction: Reconstruction
    path: Path | None

    @property
    def accuracy(self) -> float:
        """Fraction of masked codes predicted exactly."""
        return self.reconstruction.accuracy


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
    summary: list[Row]
    notes: list[str]


@dataclass(frozen=True)
class PlanOutput:
    """Cost of training a recipe; FLOPs are per image, bytes and seconds are estimates for `device`."""

    recipe: Recipe
    parameters: int
    forward_flops: int
    training_flops: int
    weight_bytes: int
    step_bytes: int
    free_bytes: int
    images: int
    device: str
    images_per_second: float
    seconds: float
    device_hours: list[DeviceCost]


@dataclass(frozen=True)
class PaletteOutput:
    """A palette, its quantization error by split if images were given, and the files written."""

    palette: PaletteFile
    errors: Mapping[str, QuantizationError]
    data: str | None
    iterations: int | None
    files: tuple[Path, ...]


@dataclass(frozen=True)
class ConvertOutput:
    """A converted model: tensors loaded, and the number skipped by each rule and rounded to float32."""

    path: Path
    step: int
    origin: str
    parameters: int
    tensors: int
    skipped: Mapping[str, int]
    rounded: int


@dataclass(frozen=True)
class VerifyOutput:
    """Checked files of a checkpoint, and its test loss in nats per predicted code with the published one."""

    checkpoint: Path
    files: list[str]
    recipe: str
    step: int
    imported: str | None
    palette: str
    palette_is_openais: bool
    loss_nats: float
    uniform_nats: float | None
    published: Claim | None
    data: str
    images: int
    path: Path | None


@dataclass(frozen=True)
class StudyOutput:
    """Tested claims, all that is known of each trial, and the HTML page."""

    claims: list[Finding]
    trials: list[dict[str, Any]]
    path: Path

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial["state"] == "failed"]


@dataclass(frozen=True)
class StudyProgress:
    """A trial that has ended; `fraction` is the fraction of the study's training FLOPs that are done."""

    trial: str
    outcome: Outcome
    done: int
    total: int
    fraction: float
