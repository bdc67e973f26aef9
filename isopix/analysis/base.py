"""Analyses: measurements of a network on images without labels, each with its figure and its caption."""

import abc
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from torch import Tensor

from isopix.analysis.attention import CLASS_TOKEN
from isopix.analysis.results import AnalysisResult
from isopix.codecs.base import Codec
from isopix.core.choices import Pool
from isopix.core.progress import track
from isopix.core.registry import Part, import_modules, kinds_of
from isopix.core.text import Table, did_you_mean
from isopix.core.types import Images
from isopix.model.backbone import Backbone
from isopix.model.network import Network
from isopix.plots import style
from isopix.plots.style import Figure

Numbers = Mapping[str, Any]  # JSON values
QueryPosition = tuple[int, int] | Literal["class"]  # row and column of a position, or the class token


@dataclass(frozen=True)
class AnalysisInput:
    """A network, images [B 3 H W] of its size, and the image and positions that maps are of.

    Projections are of the features of a `layer`, by default the middle one, in colors of the `labels`.
    """

    network: Network
    images: Images
    image_index: int = 0
    query_positions: tuple[QueryPosition, ...] = ()
    renormalize: bool = True
    causal: bool = False
    seed: int = 0
    untrained: Callable[[], Network] | None = None
    layer: int | None = None
    pool: Pool | None = None
    labels: tuple[str | None, ...] = ()  # of all images, or of none

    def __post_init__(self) -> None:
        last, grid = len(self.images) - 1, self.backbone.grid
        if not 0 <= self.image_index <= last:
            raise ValueError(f"image {self.image_index} does not exist; images are 0 to {last}")
        for position in self.query_positions:
            if position == CLASS_TOKEN and not self.backbone.num_prefix_tokens:
                raise ValueError("position class does not exist; this network has no class token")
            if position != CLASS_TOKEN and not all(
                0 <= i < side for i, side in zip(position, grid, strict=True)
            ):
                raise ValueError(
                    f"position {position[0]},{position[1]} does not exist; rows are 0 to {grid.rows - 1}, "
                    f"columns 0 to {grid.cols - 1}"
                )

    @property
    def backbone(self) -> Backbone:
        return self.network.backbone

    @property
    def codec(self) -> Codec:
        return self.network.codec

    @property
    def queries(self) -> tuple[QueryPosition, ...]:
        """The query positions: by default the class token, or a position in the lower center."""
        rows, cols = self.backbone.grid
        lower_center = (3 * rows // 4, cols // 2)
        return self.query_positions or (CLASS_TOKEN if self.backbone.num_prefix_tokens else lower_center,)

    def common_results(self) -> dict[str, Any]:
        return {"grid": list(self.backbone.grid), "patch_size": self.codec.patch_size, "causal": self.causal}


class Analysis(Part, noun="analysis"):
    """A measurement of a network, titled `label`, whose numbers and figure `isopix analyze` saves."""

    def label(self) -> str:
        return super().label().capitalize()

    def not_applicable_reason(self, network: Network) -> str | None:
        """Return why the analysis does not apply to this network; None if it does."""
        return None

    @abc.abstractmethod
    def compute(self, given: AnalysisInput) -> Numbers:
        """Return the results as JSON values, for a network that the analysis applies to."""

    @abc.abstractmethod
    def figure(self, numbers: Numbers) -> Figure:
        """Plot the numbers, as they were computed or as they are read from the file."""

    @abc.abstractmethod
    def caption(self, numbers: Numbers) -> str:
        """Return the caption of the figure, in sentences, with the main numbers."""

    def table(self, numbers: Numbers) -> Table | None:
        """Return what `isopix analyze` prints; None for nothing."""
        return None


def image_source(numbers: Numbers) -> str:
    """Return the data and the split of an analysis, as ` of photos (test)`; empty if not recorded."""
    data, split = numbers.get("data"), numbers.get("split")
    return f" of {Path(str(data)).name} ({split})" if data else ""


def rounded(values: Tensor, digits: int = 4) -> Any:
    """Return a tensor as nested lists, rounded to significant digits."""
    nested: list[Any] = [float(f"{value:.{digits}g}") for value in values.flatten().tolist()]
    for side in reversed(values.shape[1:]):
        nested = [nested[start : start + side] for start in range(0, len(nested), side)]
    return nested


def registered_analyses() -> dict[str, Analysis]:
    """Return all analyses by name."""
    import_modules("isopix.analysis")
    return {name: analysis() for name, analysis in sorted(kinds_of(Analysis).items())}


def select_analyses(only: Collection[str] = ()) -> dict[str, Analysis]:
    """Return the analyses of these names, by default all. Raises ValueError for an unknown name."""
    known = registered_analyses()
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"there is no analysis '{name}'; {hint}registered: {', '.join(known)}")
    return {name: analysis for name, analysis in known.items() if not only or name in only}


def analyze_network(
    given: AnalysisInput, only: Collection[str] = (), about: Mapping[str, Any] = MappingProxyType({})
) -> AnalysisResult:
    """Return the numbers of each selected analysis, with what they are `about` (step, data, split)."""
    selected = select_analyses(only)
    analyses, shown, reasons = dict[str, Numbers](), list[Table](), dict[str, str]()
    with track("analyses", len(selected)) as count:
        for number, (name, analysis) in enumerate(selected.items()):
            count(number)
            if reason := analysis.not_applicable_reason(given.network):
                reasons[name] = reason
                continue
            analyses[name] = json.loads(json.dumps({**analysis.compute(given), **about}))
            if table := analysis.table(analyses[name]):
                rows = [list(map(str, row)) for row in table.rows]
                shown.append(replace(table, columns=list(table.columns), rows=rows))
    return AnalysisResult(analyses=analyses, shown=tuple(shown), not_applicable=reasons)


def save_analyses(result: AnalysisResult, folder: Path, only: Collection[str]) -> AnalysisResult:
    """Write the figures and the record to a folder, where the results of other analyses than `only` stay."""
    analyses = dict(result.analyses)
    if only and (folder / "analyze.json").exists():
        earlier = AnalysisResult.read(folder / "analyze.json").analyses
        analyses |= {name: numbers for name, numbers in earlier.items() if name not in only}
    folder.mkdir(exist_ok=True)
    for name, analysis in select_analyses(only).items():
        stem = folder / name
        if name in analyses:
            style.write_figure(analysis.figure(analyses[name]), stem)
        else:
            for suffix in (".png", ".svg"):
                stem.with_suffix(suffix).unlink(missing_ok=True)
    return replace(result, analyses=analyses).saved(folder)
