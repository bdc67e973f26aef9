"""Results of the functions; `path` is the file or folder that was written, and None for a model without a run
folder; `record` are the numbers as saved there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.api.notebook import TableOutput
from isopix.core.measurement import Measurement
from isopix.core.table import Table
from isopix.core.text import mean_and_std, mean_over_subsets, percent_with_interval
from isopix.probing.low_data import LowDataResult, Selection
from isopix.probing.results import LayerScore, ProbeReport
from isopix.reporting.baselines import BaselineRow


@dataclass(frozen=True, repr=False)
class ProbeOutput(TableOutput):
    """A probe of every layer, with baselines."""

    report: ProbeReport
    data: str
    step: int
    path: Path | None

    @property
    def best(self) -> LayerScore:
        """The layer with the highest validation accuracy."""
        return self.report.network.best

    @property
    def accuracy(self) -> float:
        """Test accuracy of the best layer."""
        return self.best.test_accuracy

    @property
    def baselines(self) -> dict[str, float]:
        """Test accuracy of every baseline at its best layer, and of the majority class."""
        return self.report.baseline_accuracies

    def table(self) -> Table:
        """Return a table of every layer, then of the baselines."""
        best, layers = self.best, self.report.network.layers
        rows = [(f"layer {each.layer}{' *' if each is best else ''}", _accuracy(each)) for each in layers]
        rows += [(name, _accuracy(each.best)) for name, each in self.report.baselines.items()]
        rows.append(("majority class", f"{self.baselines['majority class']:.1%}"))
        measured = self.report.measurement
        images = self.data if measured is None else measured.line
        caption = f"Linear probe, step {self.step:,}, {images}; * best on validation images"
        return Table(caption, ("features", "test accuracy (95 % CI)"), rows)


@dataclass(frozen=True, repr=False)
class LowDataOutput(TableOutput):
    """Test errors with few labels by method (trained, untrained, raw pixels, fine-tuned), one entry for each
    number of labels; `num_images` are the images of the validation and test splits, `select` says which
    images chose layer and L2 penalty.
    """

    results: Mapping[str, list[LowDataResult]]
    data: str
    num_images: Mapping[str, int]
    step: int
    warnings: tuple[str, ...]
    measurement: Measurement
    record: Mapping[str, Any]
    path: Path | None
    select: Selection = "validation"

    def table(self) -> Table:
        """Return a table of the test error of each method by number of labels."""
        methods = list(self.results)
        columns = list(zip(*self.results.values(), strict=True))
        rows = [[same[0].labels_per_class, *(mean_and_std(each.errors) for each in same)] for same in columns]
        caption = (
            f"Test error with few labels, {self.num_images['test']:,} test images of {self.data}:"
            f" {mean_over_subsets(len(columns[0][0].errors))} of the labels"
        )
        return Table(caption, ["labels per class", *methods], rows)


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


def _accuracy(score: LayerScore) -> str:
    return percent_with_interval(score.test_accuracy, *score.interval)
