"""`isopix score`: the likelihood of each image, surprise maps, and AUROC between two datasets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.analysis.scores import SCORES
from isopix.api import scoring
from isopix.api.score_output import ScoredImages, ScoreOutput
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Positive,
    Seed,
    Split,
    load_plugins,
    note,
    say,
    show_json,
    show_table,
)
from isopix.core.choices import Precision

LISTED = 5  # images in the table of the least likely ones
Against = Annotated[
    str | None, Parameter(help="Second dataset: AUROC of every score between the two datasets.")
]
Out = Annotated[Path | None, Parameter(help="Folder for the results. Default: in the run's `scores` folder.")]
Masks = Annotated[
    int, Parameter(validator=Positive, help="Number of random masks per image of a masked model.")
]


def score(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Limit = None,
    against: Against = None,
    out: Out = None,
    maps: int = 8,
    masks: Masks = 8,
    precision: Precision = "fp32",
    seed: Seed = 0,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Score images: likelihood of each, surprise maps, out-of-distribution AUROC.

    An autoregressive model gives nats per code and bits per dimension of the 24-bit image, next to PNG,
    lossless WebP and the unigram baseline; a masked model its loss under random masks. Writes `scores.csv`,
    `scores.json` and `surprise.png`. Likelihood follows the complexity of images: compare the AUROC of the
    model with that of PNG. The terminal shows the means and the least likely images.

    Example: isopix score runs/photos --data photos --against other-photos

    Parameters
    ----------
    run
        Run folder, or a model that `isopix models` lists.
    maps
        Number of least likely and of most likely images to draw with surprise maps; 0 for none.
    precision
        Precision of the forward pass.
    """
    load_plugins(plugin)
    found = scoring.score(
        run,
        data=data,
        split=split,
        limit=limit,
        against=against,
        out=out,
        maps=maps,
        masks=masks,
        precision=precision,
        seed=seed,
        device=device,
    )
    if json:
        show_json({**found.record, "path": str(found.path)})
        return
    for each in (found.images, *([] if found.against is None else [found.against])):
        _show_summary(each)
        _show_least_likely(each)
    if found.against is not None:
        _show_auroc(found, found.images, found.against)
    say(f"wrote {found.path}")


def _show_summary(scored: ScoredImages) -> None:
    rows = []
    for name, summary in scored.summary.items():
        spread = "" if summary.standard_deviation is None else f"{summary.standard_deviation:.4f}"
        rows.append((SCORES[name], summary.mean_and_error, spread))
    columns = ["score", "mean ± standard error", "standard deviation"]
    show_table(scored.measurement.line, columns, rows)
    _notes(scored.measurement.warnings)


def _show_least_likely(scored: ScoredImages) -> None:
    """Print the names and scores of the first images of `surprise.png`."""
    indices = scored.order[:LISTED].tolist()
    names = [name for name in (next(iter(scored.scores)), "bits_per_dim") if name in scored.scores]
    rows = [
        [*(f"{float(scored.scores[name][i]):.4f}" for name in names), image]
        for i, image in zip(indices, scored.short_names(indices), strict=True)
    ]
    title = "Images with the highest loss" if "masked_loss" in names else "Least likely images"
    show_table(
        f"{title} of {scored.data}",
        [*(SCORES[name].removeprefix("model, ") for name in names), "image"],
        rows,
    )


def _show_auroc(found: ScoreOutput, first: ScoredImages, second: ScoredImages) -> None:
    rows = [(SCORES[name], each.with_interval) for name, each in found.auroc.items()]
    title = f"Probability that an image of {second.data} has a higher score than one of {first.data}"
    show_table(title, ["score", "AUROC (95 % CI)"], rows)


def _notes(texts: Sequence[str]) -> None:
    for text in texts:
        note(text)
