"""Inspect models and runs from Python: analyze, report and plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from isopix.analysis.base import Analysis, AnalysisInput, NotApplicable, QueryPosition
from isopix.analysis.run import run_analyses, select_analyses
from isopix.api.arguments import checked
from isopix.api.results import AnalysisOutput
from isopix.core.choices import Count, SplitName
from isopix.core.device import DeviceLike
from isopix.plots import style
from isopix.pretrained.images import select_split
from isopix.pretrained.run import DataLike, RunLike, open_run, require_writable
from isopix.storage.provenance import with_provenance
from isopix.storage.run_folder import RunFolder


@checked
def analyze(
    run: RunLike,
    *,
    data: DataLike | None = None,
    split: SplitName | None = None,
    limit: Count = 128,
    image: int = 0,
    positions: Sequence[QueryPosition] = (),
    renormalize: bool = True,
    only: Sequence[str] = (),
    device: DeviceLike = "auto",
) -> AnalysisOutput:
    """Analyze attention, position embeddings, the embedding and inductive biases, or `only` the analyses of
    these names; numbers and figures are saved in the run's `analysis` folder.

    `limit` images are averaged over; attention maps are those of the image with index `image`, from
    `positions`, (row, column) or "class". Without `renormalize`, attention to a class token counts as
    distance 0. Raises ValueError for an image, a position or an analysis that does not exist.
    """
    select_analyses(only)
    results: dict[str, Mapping[str, Any]] = {}
    reasons: dict[str, str] = {}
    with open_run(run, device) as (folder, model):
        if folder is not None:
            require_writable(folder.analysis)
        loaded = model.loaded
        source, chosen = select_split(loaded, data, split, limit)
        images = getattr(source, chosen).images[:limit]
        given = AnalysisInput(
            loaded.network,
            images,
            image_index=image,
            query_positions=tuple(positions),
            renormalize=renormalize,
            causal=loaded.recipe.objective.causal,
            seed=loaded.recipe.train.seed,
            untrained=loaded.untrained,
        )
        about = {"data": source.name, "split": chosen}
        for name, result in run_analyses(given, only):
            if isinstance(result, NotApplicable):
                reasons[name] = result.reason
            else:
                results[name] = with_provenance({"step": loaded.step, **result, **about})
    if folder is not None:
        _save(folder, results, select_analyses(only))
    return AnalysisOutput(results, reasons, None if folder is None else folder.analysis)


def _save(
    folder: RunFolder, results: Mapping[str, Mapping[str, Any]], analyses: Mapping[str, Analysis]
) -> None:
    """Save the results of these analyses with their figures, and remove those of an earlier call."""
    folder.analysis.mkdir(exist_ok=True)
    for name, analysis in analyses.items():
        stem = folder.analysis / name
        if name in results:
            style.write_figure(analysis.figure(results[name]), stem, results[name])
        else:
            for suffix in (".json", ".png", ".svg"):
                stem.with_suffix(suffix).unlink(missing_ok=True)
