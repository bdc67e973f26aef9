"""Scored images, and the files that they are written to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor

from isopix.analysis.auroc import AUROC
from isopix.analysis.scores import SCORES, Scores, Summary, summarize
from isopix.api.arguments import PathLike
from isopix.api.notebook import TableOutput
from isopix.core.measurement import Measurement
from isopix.core.table import Table
from isopix.core.text import printable
from isopix.core.types import Groups
from isopix.data.image_names import shared_folder, short_name
from isopix.data.sources.base import SplitName
from isopix.pretrained.run import require_writable


@dataclass(frozen=True)
class ScoredImages:
    """The images of a split of a dataset in their order, and the scores of each by name.

    `names` are those of their source, as paths, empty where unknown; `labels` class names, empty without.
    """

    data: str
    split: SplitName
    names: Sequence[str]
    labels: Sequence[str]
    scores: Scores
    measurement: Measurement
    groups: Groups | None = None

    def with_warnings(self, texts: Sequence[str]) -> "ScoredImages":
        """Return the same with these warnings, too, in the measurement record."""
        warnings = (*self.measurement.warnings, *texts)
        return replace(self, measurement=replace(self.measurement, warnings=warnings))

    @property
    def summary(self) -> dict[str, Summary]:
        """Mean and spread of every score."""
        return {name: summarize(values, self.groups) for name, values in self.scores.items()}

    @property
    def record(self) -> dict[str, Any]:
        """The measurement and the summary, ready for JSON."""
        summary = {name: each._asdict() for name, each in self.summary.items()}
        return {
            "data": self.data,
            "split": self.split,
            "measurement": self.measurement.to_dict(),
            "scores": summary,
        }

    @property
    def order(self) -> Int[Tensor, " n"]:
        """The indices of the images by the score of the model, the least likely first."""
        return next(iter(self.scores.values())).argsort(descending=True, stable=True)

    def short_names(self, indices: Iterable[int]) -> list[str]:
        """Return the names of images without the folder that all are in; split and index without a name."""
        folder = shared_folder(self.names)
        names = [(i, printable(self.names[i])) for i in indices]
        return [short_name(name, folder) if name else f"{self.split} {i}" for i, name in names]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A record of each image."""
        columns = {name: values.tolist() for name, values in self.scores.items()}
        return [
            {
                "data": self.data,
                "split": self.split,
                "index": index,
                "name": printable(name),
                "label": label,
                **{column: values[index] for column, values in columns.items()},
            }
            for index, (name, label) in enumerate(zip(self.names, self.labels, strict=True))
        ]


@dataclass(frozen=True, repr=False)
class ScoreOutput(TableOutput):
    """Scores of the images of a dataset and, if one was given, of another `against` it, with the AUROC of
    each score between the two.
    """

    images: ScoredImages
    against: ScoredImages | None
    auroc: Mapping[str, AUROC]
    record: Mapping[str, Any]
    path: Path | None

    def table(self) -> Table:
        """Return a table of the mean of each score, with the other dataset and the AUROC if there is one."""
        rows = [[SCORES[name], each.mean_and_error] for name, each in self.images.summary.items()]
        columns, caption = ["score", "mean ± standard error"], self.images.measurement.line
        if self.against is not None:
            columns = ["score", self.images.data, self.against.data, "AUROC (95 % CI)"]
            caption = f"Mean ± standard error: {caption}; {self.against.measurement.line}"
            other = self.against.summary
            rows = [
                [
                    SCORES[name],
                    mean.mean_and_error,
                    other[name].mean_and_error,
                    self.auroc[name].with_interval,
                ]
                for name, mean in self.images.summary.items()
                if name in self.auroc
            ]
        return Table(caption, columns, rows)


def results_folder(out: PathLike | None, default: Path | None) -> Path | None:
    """Return the folder for results, before anything is computed; None for a model without a run folder.

    Raises ValueError if it cannot be written.
    """
    path = default if out is None else Path(out)
    if path is not None:
        if path.exists() and not path.is_dir():
            raise ValueError(f"out {path} is a file; results are several files: give a folder")
        require_writable(path)
    return path
