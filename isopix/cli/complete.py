"""`isopix complete`: fill in what is hidden of images."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isopix.api import generation
from isopix.cli.console import (
    Device,
    FirstImages,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Positive,
    Seed,
    Split,
    load_plugins,
    show_saved,
    show_table,
)
from isopix.cli.sampling_options import Compile, SamplingPrecision, Temperature, TopK, TopP

Rows = Annotated[int | None, Parameter(help="Number of rows to start from. Default: half of them.")]
Mask = Annotated[
    str | None,
    Parameter(
        help="What to hide: half, rows:R, rectangle:TOP,LEFT,HEIGHT,WIDTH, brush:RADIUS,ROW,COL,..., "
        "random:RATIO, a registered mask, or an image file."
    ),
]
Each = Annotated[int, Parameter(validator=Positive, help="Number of completions per image.")]
FirstOrder = Annotated[
    Literal["inward", "confident", "random"] | None,
    Parameter(
        name="--order",
        help="Which positions a masked model fills in first: those next to visible ones, the most confident, "
        "or random ones. Default: inward.",
    ),
]
Iterations = Annotated[
    int | None,
    Parameter(validator=Positive, help="Number of passes of a masked model. Default: 24."),
]
LIKELIHOODS = {
    "raster": "log-likelihood in nats: the sum over the filled-in codes of ln p(code | codes before it)",
    "path": "log-probability in nats of the path, given its order: the sum over the filled-in codes of "
    "ln p(code | known codes and those of earlier passes)",
}


def complete(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: FirstImages = None,
    rows: Rows = None,
    mask: Mask = None,
    each: Each = 3,
    order: FirstOrder = None,
    iterations: Iterations = None,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    limit: Limit = None,
    seed: Seed = 0,
    precision: SamplingPrecision = "fp32",
    compile: Compile = None,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Fill in what a mask hides of images, several times, and print how likely each completion is.

    An autoregressive model samples in raster order: it sees the known pixels before each hidden one, and not
    those after it. A masked model sees all of them, and fills in a part of the hidden ones in each pass.
    Numbers of a rectangle or brush stroke are pixels of the model's images, or, if any has a point, fractions
    of their sides. A file hides its transparent pixels or, if it has none, its white ones. A position is
    hidden if any of its pixels is. Masks are joined by `+`.

    Writes a PNG grid to the run's `samples` folder.

    Example: isopix complete runs/photos --mask rectangle:8,8,16,16 --each 3 -n 8

    Parameters
    ----------
    run
        Run folder, or a model that `isopix models` lists.
    """
    load_plugins(plugin)
    found = generation.complete(
        run,
        data=data,
        split=split,
        count=count,
        rows=rows,
        mask=mask,
        each=each,
        order=order,
        iterations=iterations,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        limit=limit,
        seed=seed,
        precision=precision,
        compile=compile,
        device=device,
    )
    if not json:
        show_table(
            f"{LIKELIHOODS[found.completions.likelihood].capitalize()}, at temperature 1",
            ["image", "hidden", "completions"],
            [
                [image, f"{hidden:.0%}", "  ".join(f"{nats:,.1f}" for nats in each_nats)]
                for image, (hidden, each_nats) in enumerate(
                    zip(found.mask.float().mean((1, 2)).tolist(), found.log_likelihood.tolist(), strict=True)
                )
            ],
        )
    show_saved(found.record, found.path, json=json)
