"""`isopix score`, `neighbors` and `analyze`: likelihoods, near-duplicates, attention and biases."""

from pathlib import Path
from typing import Annotated, Literal

from isopix.analysis.results import AnalysisResult, NeighborsResult, ScoreResult
from isopix.core.choices import Count, NonNegative, OfPaper, Range
from isopix.core.verb import verb
from isopix.verbs import options
from isopix.verbs.features import Layer, Pooling, Splits, default_layer
from isopix.verbs.options import DeviceLike, FullPrecision, Limit, OtherImages, PathLike, RunLike, Seed, Split

Out = Annotated[Path | None, "Folder of the results. Default: a folder of the run."]
Maps = Annotated[NonNegative, "Number of least likely and of most likely images to show with surprise maps."]
Masks = Annotated[Count, "Number of random masks per image of a masked model."]


@verb()
def score(
    run: RunLike,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Limit = None,
    out: Out = None,
    maps: Maps = 8,
    masks: Masks = 8,
    precision: FullPrecision = "fp32",
    seed: Seed = 0,
    device: DeviceLike = "auto",
) -> ScoreResult:
    """Score images by likelihood, and write surprise maps.

    Scores of an autoregressive model are nats per code and bits per dimension of the 24-bit image; of a
    masked model, the loss under random masks. Writes `score.json`, `scores.csv` and `surprise.png`. The
    likelihood depends on the complexity of images: compare it with the reported bits of a PNG file.

    Example: isopix score runs/photos --data other-photos
    """
    from isopix.analysis.scores import ScoreConfig, require_scores
    from isopix.pretrained import scoring
    from isopix.pretrained.images import results_folder
    from isopix.pretrained.run import open_run

    config = ScoreConfig(masks, seed, precision)
    with open_run(run, device) as (folder, model):
        loaded = model.loaded
        require_scores(loaded.model)
        loaded.require_decoder("score")
        path = results_folder(out, folder, "scores")
        result = scoring.score_split(loaded, data, split, limit, config)
        pictures = scoring.mapped_images(loaded, result, maps, config)
    if path is None:
        return result
    own = path if out else result.named(path, result.step, result.data).with_suffix("")
    return scoring.save_scores(own, result, pictures)


Asked = Annotated[PathLike | None, options.Stored, "File or folder of query images."]
Threshold = Annotated[
    Annotated[float, Range(above=0)] | None,
    "Maximum RMS pixel difference of duplicates, divided by the smaller of their standard deviations. "
    "Default: 0.2, or lower if unrelated images are that similar.",
]
NumNeighbors = Annotated[Count, "Number of nearest images for queries, outliers and pixel comparisons."]
Pictures = Annotated[NonNegative, "Number of groups, outliers and queries to show in pictures; 0 for none."]


@verb()
def neighbors(
    run: RunLike,
    *settings: options.DataSettings,
    data: OtherImages = None,
    split: Splits = None,
    limit: Limit = None,
    query: Asked = None,
    threshold: Threshold = None,
    num_neighbors: NumNeighbors = 10,
    layer: Layer = None,
    pool: Pooling = None,
    out: Out = None,
    pictures: Pictures = 24,
    precision: FullPrecision = "fp32",
    device: DeviceLike = "auto",
) -> NeighborsResult:
    """Find duplicates and outliers by the features of a run, or the nearest images to query images.

    Duplicates are searched among each image's nearest neighbors, and confirmed by pixel difference; the
    largest photo of each group is marked `keep`. Outliers have the highest mean cosine distance to their
    nearest neighbors. Writes a CSV file and a picture of each list. Features are cached.

    Example: isopix neighbors runs/photos --data photos

    Example: isopix neighbors igpt.tiny-cifar10 --data photos --query photo.jpg --out nearest
    """
    from isopix.analysis.neighbors import nearest_neighbors
    from isopix.pretrained import neighbors as found
    from isopix.pretrained.images import named_splits, results_folder
    from isopix.pretrained.run import open_run
    from isopix.probing.features import layer_features

    if query is not None and not Path(query).exists():
        raise ValueError(f"query {query} does not exist; give an image, a file of images or a folder")
    with open_run(run, device) as (folder, model):
        loaded, pooled = model.loaded, pool or model.pool
        path = results_folder(out, folder, "neighbors")
        chosen = default_layer(run, model) if layer is None else layer
        read = (chosen, pooled, precision)
        images = named_splits(loaded, data, split, limit, settings)
        asked = images if query is None else named_splits(loaded, query, None, None)
        count = min(num_neighbors, max(1, len(images.names) - (query is None)))
        near = nearest_neighbors(
            layer_features(loaded.model, images.dataset, [images.whole], *read),
            num_neighbors=count,
            device=model.network.device,
            queries=None
            if query is None
            else layer_features(loaded.model, asked.dataset, [asked.whole], *read),
        )
    lists = found.lists_of(near, images, None if query is None else asked, threshold)
    result = NeighborsResult(
        data=images.dataset.name,
        step=loaded.step,
        layer=chosen,
        pool=pooled,
        precision=precision,
        num_neighbors=count,
        num_images=len(images.names),
        measurements=tuple(loaded.measure(images.dataset, name) for name in images.splits),
        **lists,
    )
    if path is None:
        return result
    own = path if out else result.named(path, result.step, result.data).with_suffix("")
    return found.save_neighbors(own, result, pictures, images, asked)


Images = Annotated[Count, "Number of images to average over."]
Image = Annotated[int, "Index of the image to draw attention maps for, counted from 0; below --limit."]
Positions = Annotated[
    tuple[str | tuple[int, int], ...],
    "Query position of attention maps: ROW,COLUMN, counted from 0, or `class` for the class token, "
    "the default of networks that have one; repeatable.",
]
Renormalize = Annotated[
    OfPaper[bool], "Exclude attention to a class token from distances; otherwise it counts as distance 0."
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

    Attention distance, maps and rollout; similarity of position embeddings; PCA of the embedding; PCA,
    t-SNE and UMAP of features; errors under shifts and permutations. Results go to the run's `analysis`
    folder; `isopix report` shows them.

    Example: isopix analyze runs/photos --limit 32 --position 8,8 --position 24,16
    """
    from isopix.analysis.base import AnalysisInput, analyze_network, save_analyses, select_analyses
    from isopix.pretrained.images import select_split
    from isopix.pretrained.run import open_run

    select_analyses(only)
    with open_run(run, device, writes="analysis") as (folder, model):
        loaded = model.loaded
        source, chosen = select_split(loaded, data, split, limit)
        selected = getattr(source, chosen)
        given = AnalysisInput(
            loaded.network,
            selected.images[:limit],
            image_index=image,
            query_positions=tuple(map(_position, position)),
            renormalize=renormalize,
            causal=loaded.recipe.objective.causal,
            seed=loaded.recipe.train.seed,
            untrained=loaded.untrained,
            layer=default_layer(run, model),
            pool=model.pool,
            labels=tuple(source.labels_of(selected)[:limit]),
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
