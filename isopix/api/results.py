"""Results of the functions; `path` is the file or folder that was written, and None for a model without a run
folder; `record` are the numbers as saved there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AnalysisOutput:
    """Numbers of each analysis by name, and why others do not apply; `path` is the folder of figures."""

    results: Mapping[str, Mapping[str, Any]]
    not_applicable: Mapping[str, str]
    path: Path | None
