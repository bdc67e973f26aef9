"""`isopix complete`: complete images from their first rows."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import generation
from isopix.cli.console import (
    Count,
    Device,
    Json,
    Limit,
    OtherImages,
    Plugins,
    Positive,
    Seed,
    Split,
    load_plugins,
    show_saved,
)
from isopix.cli.progress import progress_bar
from isopix.cli.sampling_options import Compile, SamplingPrecision, Temperature, TopK, TopP

Rows = Annotated[int | None, Parameter(help="Number of rows to start from. Default: half of them.")]
Each = Annotated[int, Parameter(validator=Positive, help="Number of completions per image.")]


def complete(
    run: Path,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: Count = 8,
    rows: Rows = None,
    each: Each = 3,
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
    """Complete images from their first rows with an autoregressive run.

    Writes a PNG grid to the run's `samples` folder.

    Example: isopix complete runs/photos --rows 16 --each 3 -n 8

    Parameters
    ----------
    run
        Run folder.
    """
    load_plugins(plugin)
    with progress_bar("sampling") as progress:
        found = generation.complete(
            run,
            data=data,
            split=split,
            count=count,
            rows=rows,
            each=each,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            limit=limit,
            seed=seed,
            precision=precision,
            compile=compile,
            device=device,
            progress=progress,
        )
    show_saved(found.record, found.path, json=json)
