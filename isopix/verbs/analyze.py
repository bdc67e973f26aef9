"""`isopix analyze`: attention, position embeddings, filters and inductive biases of a network."""

from typing import Annotated, Literal

from isopix.analysis.results import AnalysisResult
from isopix.core.choices import Count
from isopix.core.verb import verb
from isopix.verbs.options import DeviceLike, OtherImages, RunLike, Split

Images = Annotated[Count, "Number of images to average over."]
Image = Annotated[int, "Index of the image to draw attention maps for, counted from 0; below --limit."]
Positions = Annotated[
    tuple[str | tuple[int, int], ...],
    "Query position of attention maps: ROW,COLUMN, counted from 0, or `class` for the class token, "
    "the default of networks that have one; repeatable.",
]
Renormalize = Annotated[
    bool, "Exclude attention to a class token from distances; otherwise it counts as distance 0."
]
Only = Annotated[tuple[str, ...], "Analysis to run, such as attention_distance; repeatable. Default: all."]


@verb()
def analyze(
    run: RunLike,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Images = 128,
    image: Image = 0,
    position: Positions = (),
    renormalize: Renormalize = True,
    only: Only = (),
    device: DeviceLike = "auto",
) -> AnalysisResult:
    """Analyze attention, position embeddings, filters and inductive biases of a run.

    Attention distance, maps and rollout; similarity of position embeddings; PCA of the embedding; errors
    under shifts and permutations. Results go to the run's `analysis` folder, from which `isopix report` shows
    them.

    Example: isopix analyze runs/photos --limit 32 --position 8,8 --position 24,16
    """
    from isopix.analysis.base import AnalysisInput, analyze_network, save_analyses, select_analyses
    from isopix.pretrained.images import select_split
    from isopix.pretrained.run import open_run

    select_analyses(only)
    with open_run(run, device, writes="analysis") as (folder, model):
        loaded = model.loaded
        source, chosen = select_split(loaded, data, split, limit)
        given = AnalysisInput(
            loaded.network,
            getattr(source, chosen).images[:limit],
            image_index=image,
            query_positions=tuple(map(_position, position)),
            renormalize=renormalize,
            causal=loaded.recipe.objective.causal,
            seed=loaded.recipe.train.seed,
            untrained=loaded.untrained,
        )
        about = {"step": loaded.step, "data": source.name, "split": chosen}
        result = analyze_network(given, only, about)
    return result if folder is None else save_analyses(result, folder.analysis, only)


def _position(given: str | tuple[int, int]) -> tuple[int, int] | Literal["class"]:
    if given == "class":
        return "class"
    parts = given.split(",") if isinstance(given, str) else [str(each) for each in given]
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"position is {given!r}; allowed: ROW,COLUMN such as 8,16, or class")
    return int(parts[0]), int(parts[1])
