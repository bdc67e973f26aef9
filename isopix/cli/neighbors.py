"""`isopix neighbors`: near-duplicates and outliers in images, by features."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import feature_neighbors
from isopix.api.neighbors_output import NeighborsOutput
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Positive,
    load_plugins,
    say,
    say_wrapped,
    show_json,
    show_table,
)
from isopix.core.choices import Pool, Precision, SplitName

SHOWN = 10  # rows of a table
Splits = Annotated[SplitName | None, Parameter(help="Split of the dataset. Default: all images.")]
Out = Annotated[
    Path | None, Parameter(help="Folder for the results. Default: in the run's `neighbors` folder.")
]
Threshold = Annotated[float, Parameter(help="Cosine similarity of near-duplicates, up to 1.")]
NumNeighbors = Annotated[
    int, Parameter(validator=Positive, help="Number of nearest images in the mean distance of outliers.")
]


def neighbors(
    run: Path,
    *,
    data: OtherImages = None,
    split: Splits = None,
    limit: Limit = None,
    threshold: Threshold = 0.95,
    num_neighbors: NumNeighbors = 10,
    layer: int | None = None,
    pool: Pool | None = None,
    out: Out = None,
    pictures: int = 24,
    precision: Precision = "fp32",
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find near-duplicates and outliers in images by the features of a run.

    Near-duplicates are pairs of images whose standardized features have a high cosine similarity; the mean
    difference of their pixels, 0 to 255, tells copies from images that are only similar. Outliers have the
    highest mean cosine distance to their nearest neighbors. Writes `duplicates.csv`, `outliers.csv`
    and a picture of each.

    Example: isopix neighbors runs/photos --data photos --threshold 0.98

    Parameters
    ----------
    run
        Run folder, or a model that `isopix models` lists.
    layer
        Layer of the features, 0 to the depth. Default: the best of the run's probe, else the middle one.
    pool
        Pooling over positions. Default: that of the recipe.
    pictures
        Number of pairs and of outliers to draw; 0 for none.
    precision
        Precision of the forward pass.
    """
    load_plugins(plugin)
    found = feature_neighbors.neighbors(
        run,
        data=data,
        split=split,
        limit=limit,
        threshold=threshold,
        num_neighbors=num_neighbors,
        layer=layer,
        pool=pool,
        out=out,
        pictures=pictures,
        precision=precision,
        device=device,
    )
    if json:
        show_json({**found.record, "path": str(found.path)})
        return
    _show(found, threshold, num_neighbors)
    say(f"wrote {found.path}")


def _show(found: NeighborsOutput, threshold: float, num_neighbors: int) -> None:
    """Print the first of both lists."""
    pairs, outliers, total = found.duplicates[:SHOWN], found.outliers[:SHOWN], found.num_duplicates
    short = found.short_names(
        [*(x for each in pairs for x in (each.first, each.second)), *(x.image for x in outliers)]
    )
    rows = [
        (f"{each.similarity:.4f}", f"{each.pixel_difference:.1f}", short[each.first], short[each.second])
        for each in pairs
    ]
    images = f"{len(found.outliers):,} images of {found.record['data']}, layer {found.record['layer']}"
    title = f"{images}; pairs with a similarity of {threshold:g} or more: {total:,}"
    if rows:
        show_table(title, ["similarity", "pixel difference", "image", "image"], rows)
    else:
        say_wrapped(title)
    farthest = [(f"{each.distance:.4f}", short[each.image]) for each in outliers]
    show_table("Outliers", [f"mean distance to {num_neighbors} nearest", "image"], farthest)
