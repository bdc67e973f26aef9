"""Scored images, and the files that they are written to."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.analysis.auroc import AUROC
from isopix.analysis.scores import Scores, Summary, summarize
from isopix.api.arguments import PathLike
from isopix.api.run import require_writable
from isopix.core.text import printable
from isopix.core.types import Groups
from isopix.data.measurement import Measurement
from isopix.data.sources.base import SplitName
from isopix.storage.atomic import replace_file


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


@dataclass(frozen=True)
class ScoreOutput:
    """Scores of the images of a dataset and, if one was given, of another `against` it, with the AUROC of
    each score between the two.
    """

    images: ScoredImages
    against: ScoredImages | None
    auroc: Mapping[str, AUROC]
    record: Mapping[str, Any]
    path: Path | None


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


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows below the names of their columns."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns, *rows])
    replace_file(path, text.getvalue().encode())
